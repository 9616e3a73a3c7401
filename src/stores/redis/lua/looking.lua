-- SPDX-License-Identifier: MIT
-- Included by list and break: what stands at a name, recognised by its shape, whoever wrote it. Reads only.
--
-- The keys of a name, in this order: 1 the lock, 2 its last fence, 3 the fair queue, 4 the deadlines of those who
-- queue, 5 the permits, 6 the wake list, 7 what holders say of themselves. All that is read was written by somebody
-- else, so each loop over it has a bound.

local MOST = 10000 -- entries of one hash, queue or zset; beyond that it is data, or shown in part
local RE_ENTRIES = 100 -- of one reader
local NEVER_MS = 922337203685477 -- Redisson's score of a permit without an end

local x4 = '%x%x%x%x'
local UUID = '^' .. x4 .. x4 .. '%-' .. x4 .. '%-' .. x4 .. '%-' .. x4 .. '%-' .. x4 .. x4 .. x4 .. '$'

local time = redis.call('TIME')
local now_us = time[1] * 1000000 + time[2]
local now_ms = math.floor(now_us / 1000)

-- "<uuid>:<decimal>" and what follows it (":write", a number of permits), or nil.
local function split(member)
  if not member:sub(1, 36):match(UUID) then
    return nil
  end
  local decimal, rest = member:match('^:(%-?%d+)(.*)$', 37)
  if not decimal then
    return nil
  end
  return member:sub(1, 36) .. ':' .. decimal, rest
end

-- The id by which a claim is listed and broken: of Holdfast's own owners the claim's, which the caller reads from the
-- owner (""), of others a digest.
local function id_of(owner)
  if owner:sub(15, 15) == '8' and owner:match('^:%d+$', 37) and #owner == 77 then
    return ''
  end
  return redis.sha1hex(owner):sub(1, 32)
end

local function type_of(key)
  return redis.call('TYPE', key).ok
end

-- When a reader's last re-entry ends: milliseconds, -1 never, nil: it is over. `lives`: what its keys begin with.
local function reader_left(lives, owner, count)
  local left
  for i = math.min(count, RE_ENTRIES), 1, -1 do
    local ms = redis.call('PTTL', lives .. owner .. ':rwlock_timeout:' .. i)
    if ms == -1 then
      return -1
    end
    if ms >= 0 and (not left or ms > left) then
      left = ms
    end
  end
  return left
end

-- A mutex or a reader/writer lock: its fields {owner, rest, count}, and the mode; nil: this hash is no lock.
local function fields_of(key)
  local size = redis.call('HLEN', key)
  if size == 0 or size > MOST then
    return nil
  end
  local all, fields, mode = redis.call('HGETALL', key), {}, nil
  for i = 1, #all, 2 do
    if all[i] == 'mode' then
      mode = all[i + 1]
    else
      local owner, rest = split(all[i])
      if not owner or not (rest == '' or rest == ':write') or not all[i + 1]:match('^%d+$') then
        return nil
      end
      fields[#fields + 1] = {owner = owner, write = rest ~= '', count = tonumber(all[i + 1])}
    end
  end
  if mode ~= nil and mode ~= 'read' and mode ~= 'write' then
    return nil
  end
  for _, field in ipairs(fields) do
    if field.write and mode ~= 'write' then
      return nil
    end
  end
  return fields, mode
end

-- The permits that are held, those of one claim together: {id, weight, score, members}. Those of a claim follow each
-- other in their last four bytes and end at one time.
local function permits_of(key)
  local all = redis.call('ZRANGEBYSCORE', key, '(' .. now_ms, '+inf', 'WITHSCORES', 'LIMIT', 0, MOST)
  local groups, found = {}, {}
  for i = 1, #all, 2 do
    local member, score = all[i], all[i + 1]
    if #member == 16 then
      local group = score .. member:sub(1, 12)
      groups[group] = groups[group] or {}
      groups[group][struct.unpack('>I4', member:sub(13))] = true
      found[#found + 1] = {group = group, member = member, score = tonumber(score)}
    end
  end
  local claims = {}
  for _, permit in ipairs(found) do
    local group, index = groups[permit.group], struct.unpack('>I4', permit.member:sub(13))
    if not group[(index - 1) % 4294967296] then
      local members = {}
      while group[index] and #members < MOST do
        members[#members + 1] = permit.member:sub(1, 12) .. struct.pack('>I4', index)
        index = (index + 1) % 4294967296
      end
      claims[#claims + 1] = {id = permit.member, weight = #members, score = permit.score, members = members}
    end
  end
  return claims
end

-- Redisson's channels of a name begin with their own word; the rest is that of the key of the queue.
local function channel(keys, word)
  return word .. keys[3]:sub(#'redisson_lock_queue' + 1)
end

local function hex(bytes)
  return (bytes:gsub('.', function(c) return string.format('%02x', c:byte()) end))
end

local TOKEN_MOST = 512 -- bytes of what may be the token of a plain lock

-- A random token as other libraries make it: 16 bytes, 20 or a UUID in hexadecimal, 16 bytes in base64. Where the
-- layout says that locks are plain, anything of that length that has no spaces.
local function is_token(value, plain)
  if value:match('^holdfast:') and value:sub(10, 45):match(UUID) then
    return true
  end
  if plain then
    return #value >= 16 and #value <= 128 and value:match('^[%w+/=_:.%-]+$') ~= nil
  end
  if #value == 32 or #value == 40 then
    return value:match('^%x+$') ~= nil
  end
  return value:match(UUID) ~= nil or (#value == 22 or #value == 24) and value:match('^[%w+/_%-]+=?=?$') ~= nil
end

-- The token of a plain lock, whose key ends by itself. `how`: "any": it may look as it likes; "plain", "": is_token().
local function token_of(key, how)
  if redis.call('PTTL', key) < 0 or redis.call('STRLEN', key) > TOKEN_MOST then
    return nil
  end
  local value = redis.call('GET', key)
  return value and (how == 'any' or is_token(value, how == 'plain')) and value or nil
end

-- The claim's id: in a token of our own, "holdfast:<uuid>:<id>"; of others a digest.
local function token_id(token)
  local id = token:match('^holdfast:.*:(%x+)$')
  return id and #id == 32 and #token == 78 and token:sub(10, 45):match(UUID) and id or redis.sha1hex(token):sub(1, 32)
end
