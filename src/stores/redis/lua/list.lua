-- SPDX-License-Identifier: MIT
-- list: what stands at some names; changes nothing.
--
--   KEYS  of "shape": the locks; of "show": seven for each name, as looking.lua says
--   ARGV  1 "shape" or "show"; 2 what a text is that ends by itself, as token_of() has it; in a cluster the keys
--         follow, where they are of many slots. What has left this node meanwhile is shown as nothing.
--
--   "shape" answers for each key 1 where there may be a lock, 0 where it is data of somebody else's.
--   "show" answers first {uuid, who, ...}: what Holdfast's clients that are met tell of themselves; then for the first
--   names, one at least and all unless there is very much to tell,
--   {shape, left_ms, fence, total, grants, queue, wake, strangers}:
--     shape      "none", "data", "mutex", "rw", "permits", or "token": then grants is the token, the id and its note
--     left_ms    of the lock's key; -1: no end
--     fence      the last fence, as text
--     total      permits in all, free and held
--     grants     flat: owner, id, "x" (exclusive) "s" (shared) or the weight, left_ms, fence, note. Of a foreign permit
--                the owner is "". The id is "" where it stands in the owner.
--     queue      flat: owner, id, left_ms, note, in order; those that are over left out
--     wake       flat: owner, id, rest, joined or over at (us), in order; dead clients left out
--     strangers  how many more hear the channel on which Redisson's clients wait; at least

--#include looking.lua

local WHO_MOST = 1024 -- bytes of what a client tells of itself
local WHO_SHOWN = 256 -- of these
local ENOUGH = 60000 -- elements of an answer, after which the rest of the names is left for the next one

local clients, met = {}, {}

-- The id of an owner's claim, as id_of() has it; who he is, is told beside.
local function claim_of(owner)
  local uuid = owner:sub(1, 36)
  if not met[uuid] and uuid:sub(15, 15) == '8' then
    met[uuid] = true
    local key = 'holdfast_client:' .. uuid
    local size = redis.pcall('STRLEN', key)
    if type(size) == 'number' and size > 0 and size <= WHO_MOST then
      clients[#clients + 1] = uuid
      clients[#clients + 1] = redis.call('GET', key):sub(1, WHO_SHOWN)
    end
  end
  return id_of(owner)
end

-- What the holder said of this one grant.
local function note_of(keys, field)
  local size = redis.pcall('HSTRLEN', keys[7], field)
  return type(size) == 'number' and size <= WHO_MOST and (redis.call('HGET', keys[7], field) or ''):sub(1, WHO_SHOWN) or ''
end

local function shape(key)
  local kind = type_of(key)
  if kind == 'hash' then
    return fields_of(key) and 1 or 0
  end
  if key:find('^holdfast_') and not key:find('^holdfast_name:') then
    return 0
  end
  return kind == 'string' and token_of(key, ARGV[2]) and 1 or 0
end

local function grants_of_hash(keys, fields, mode, left, fence)
  local grants, lives = {}, keys[5]:sub(1, -#'timeout' - 1)
  for _, field in ipairs(fields) do
    local ends, mark, its_fence = left, 'x', fence
    if mode and not field.write then
      ends, mark, its_fence = reader_left(lives, field.owner, field.count), 's', ''
      if ends then
        its_fence = redis.call('GET', lives .. field.owner .. ':rwlock_timeout:1') or ''
      end
    end
    if ends then
      local note = note_of(keys, field.owner)
      for _, value in ipairs({field.owner, claim_of(field.owner), mark, ends, its_fence, note}) do
        grants[#grants + 1] = value
      end
    end
  end
  return grants
end

local function grants_of_permits(keys, claims)
  local grants = {}
  for _, claim in ipairs(claims) do
    local left = claim.score >= NEVER_MS and -1 or claim.score - now_ms
    local owner, fence, note = note_of(keys, claim.id:sub(1, 12)):match('^(%S+) (%d+) (.*)$')
    if owner then
      claim_of(owner)
    end
    for _, value in ipairs({owner or '', hex(claim.id), claim.weight, left, fence or '', note or ''}) do
      grants[#grants + 1] = value
    end
  end
  return grants
end

local function queue_of(keys)
  local queue = {}
  if type_of(keys[3]) ~= 'list' or type_of(keys[4]) ~= 'zset' then
    return queue
  end
  for _, owner in ipairs(redis.call('LRANGE', keys[3], 0, MOST - 1)) do
    local score = tonumber(redis.call('ZSCORE', keys[4], owner) or now_ms)
    if split(owner) and score > now_ms then
      for _, value in ipairs({owner, claim_of(owner), score - now_ms, note_of(keys, owner)}) do
        queue[#queue + 1] = value
      end
    end
  end
  return queue
end

-- How many hear a channel; nil where we may not ask.
local function hearers(name)
  local answer = redis.pcall('PUBSUB', 'NUMSUB', name)
  return answer[2]
end

local function wake_of(keys, timed)
  local wake, lives = {}, {}
  if type_of(keys[6]) ~= 'zset' then
    return wake
  end
  local all = redis.call('ZRANGE', keys[6], 0, MOST - 1, 'WITHSCORES')
  for i = 1, #all, 2 do
    local owner, rest = split(all[i])
    local uuid = all[i]:sub(1, 36)
    if owner and lives[uuid] == nil then
      lives[uuid] = hearers('holdfast_news:' .. uuid) ~= 0
    end
    local over = (timed or rest:match('^:%d')) and tonumber(all[i + 1]) <= now_us
    if owner and lives[uuid] and not over then
      for _, value in ipairs({owner, claim_of(owner), rest, all[i + 1]}) do
        wake[#wake + 1] = value
      end
    end
  end
  return wake
end

-- Who hears the channel of Redisson's waiters and is none of ours, nor may be one of ours that has just got in and has
-- not left the channel yet. Of a mutex only our first waiter hears it, and only when the holder is foreign.
local function strangers(name, seen, grants, wake)
  local ours, counted = 0, {}
  if seen == 'mutex' then
    ours = #wake > 0 and grants[2] ~= '' and 1 or 0
  else
    ours = #grants / 6
    for i = 1, #wake, 4 do
      local uuid = wake[i]:sub(1, 36)
      ours = ours + (counted[uuid] and 0 or 1)
      counted[uuid] = true
    end
  end
  local shard = redis.pcall('PUBSUB', 'SHARDNUMSUB', name)[2] or 0 -- in a cluster ours hear both
  return math.max(math.max(hearers(name) or 0, shard) - ours, 0)
end

local function text_of(key)
  return type_of(key) == 'string' and redis.call('STRLEN', key) <= 20 and redis.call('GET', key) or ''
end

local function show(keys)
  local kind, left, fence = type_of(keys[1]), redis.call('PTTL', keys[1]), text_of(keys[2])
  local seen, total, grants, word = 'none', 0, {}, 'redisson_lock__channel'
  if kind == 'hash' then
    local fields, mode = fields_of(keys[1])
    seen = not fields and 'data' or mode and 'rw' or 'mutex'
    grants = fields and grants_of_hash(keys, fields, mode, left, fence) or {}
    word = mode and 'redisson_rwlock' or word
  elseif type_of(keys[5]) == 'zset' and (kind == 'string' or kind == 'none') then
    seen, word = 'permits', 'redisson_sc'
    total = (tonumber(text_of(keys[1])) or 0) + redis.call('ZCARD', keys[5])
    grants = grants_of_permits(keys, permits_of(keys[5]))
  elseif kind == 'string' then
    local token = token_of(keys[1], ARGV[2])
    seen, grants = token and 'token' or 'data', token and {token, token_id(token), note_of(keys, token:sub(10))} or {}
    if token and token:find('^holdfast:') then
      claim_of(token:sub(10))
    end
  elseif kind ~= 'none' then
    seen = 'data'
  end
  local wake = wake_of(keys, seen == 'permits')
  return {seen, left, fence, total, grants, queue_of(keys), wake,
    strangers(channel(keys, word), seen, grants, wake)}
end

local keys, ask = KEYS, function(question, ...) return question(...) end
if #KEYS == 0 then
  keys = {}
  for i = 3, #ARGV do
    keys[i - 2] = ARGV[i]
  end
  ask = function(question, ...)
    local here, answer = pcall(question, ...)
    return here and answer or question == shape and 0 or {'none', -2, '', 0, {}, {}, {}, 0}
  end
end
local answer = {}
if ARGV[1] == 'shape' then
  for i, key in ipairs(keys) do
    answer[i] = ask(shape, key)
  end
else
  answer[1] = clients
  local told = 0
  for i = 1, #keys, 7 do
    local name = ask(show, {unpack(keys, i, i + 6)})
    answer[#answer + 1] = name
    told = told + #name[5] + #name[6] + #name[7]
    if told + #clients > ENOUGH then
      break
    end
  end
end
return answer
