-- SPDX-License-Identifier: MIT
-- May this claim in, now? Permits of a semaphore: Redisson's RPermitExpirableSemaphore.
--
-- KEYS  1 free permits  2 permits that are out, by their ends (ms)  3 the last fence  4 the claim's tombstone
--       5 who waits  6 what holders say of themselves  7 the fair queue (of a mutex of that name)  8 its scores
-- ARGV  1 owner  2 lease (ms)  3 not after (server's us)  4 '1': is noted as waiting when refused;
--       '2': and be refused where another one waits, although there are permits
--       5 how long a fence is kept (ms); '0': Redisson's counter  6 the claim's note, or ''  7 how many permits
--       8 the limit  9 Redisson's channel  10 the claim's id, 16 bytes, which is its first permit
-- Sets  the fence; the permits, whose scores end them; the count. What Holdfast makes lives for a day, or the lease;
--       what has no end (Redisson's trySetPermits) keeps none, and its limit counts.
-- Answers  as attempt_mutex.lua; nobody has a place, and the ear is always 1.
--#include part_fence.lua
--#include part_who.lua
local time = redis.call('TIME')
local us = time[1] * 1000000 + time[2]
if us > tonumber(ARGV[3]) then
  return {3, us}
end
if redis.call('EXISTS', KEYS[4]) == 1 then
  return {4}
end
local DAY = 86400000
local ms = math.floor(us / 1000)
local lease, weight, limit = tonumber(ARGV[2]), tonumber(ARGV[7]), tonumber(ARGV[8])
local first = string.sub(ARGV[10], 1, 12)

-- The count, as a number; else what the key is in use as.
local value = redis.pcall('GET', KEYS[1])
if type(value) == 'table' then
  if not string.find(value.err, 'wrong kind') then
    return value
  end
  --#include part_occupant.lua
  local kind, detail = occupant(KEYS[1], KEYS[2], KEYS[6], ms)
  if kind then
    return {2, kind, detail}
  end
  value = false
end
local free = value and string.find(value, '^%-?%d+$') and #value < 16 and tonumber(value)
if value and not free then
  return {2, 'plain', string.sub(value, 1, 200)}
end

-- What has ended goes back.
--#include part_publish.lua
if value then
  local ended = redis.call('ZRANGEBYSCORE', KEYS[2], '-inf', string.format('%.0f', ms), 'LIMIT', 0, 1000)
  while #ended > 0 do
    redis.call('ZREM', KEYS[2], unpack(ended))
    for i = 1, #ended do
      redis.pcall('HDEL', KEYS[6], string.sub(ended[i], 1, 12))
    end
    free = redis.call('INCRBY', KEYS[1], #ended)
    if free > 0 then
      publish(ARGV[9], string.format('%.0f', free))
    end
    ended = redis.call('ZRANGEBYSCORE', KEYS[2], '-inf', string.format('%.0f', ms), 'LIMIT', 0, 1000)
  end
end
local out = redis.call('ZCARD', KEYS[2])
if not value and out > 0 then
  redis.call('ZREMRANGEBYSCORE', KEYS[2], '-inf', string.format('%.0f', ms))
  out = redis.call('ZCARD', KEYS[2])
end
if out == 0 and redis.call('EXISTS', KEYS[7]) == 1 then
  --#include part_queue.lua
  if head_of(KEYS[7], KEYS[8], ms, 5000, false) then
    return {2, 'mutex', ''}
  end
end

-- A permit is the claim's id with its index added to the last four bytes.
local function permit(index)
  local a, b, c, d = string.byte(ARGV[10], 13, 16)
  local sum = (((a * 256 + b) * 256 + c) * 256 + d + index) % 4294967296
  return first .. string.char(math.floor(sum / 16777216), math.floor(sum / 65536) % 256, math.floor(sum / 256) % 256,
                              sum % 256)
end

local function set_ends(ends)
  local i = 0
  while i < weight do
    local args = {}
    for index = i, math.min(i + 999, weight - 1) do
      args[#args + 1] = ends
      args[#args + 1] = permit(index)
    end
    local answer = redis.pcall('ZADD', KEYS[2], unpack(args))
    if type(answer) == 'table' then
      return answer
    end
    i = i + 1000
  end
end

-- How long what Holdfast makes lives: no shorter than other claims need it.
local life = string.format('%.0f', math.max(DAY, lease, redis.call('PTTL', KEYS[2])))

-- Raises the lives of what Holdfast made. What has no end keeps none; of the two either may be so, since Redisson's SET
-- takes the end of the count away.
local function live_on()
  for i = 1, 2 do
    local left = redis.call('PTTL', KEYS[i])
    if left >= 0 and left < tonumber(life) then
      redis.call('PEXPIRE', KEYS[i], life)
    end
  end
  redis.pcall('PEXPIRE', KEYS[6], life)
end

local score = out > 0 and tonumber(redis.call('ZSCORE', KEYS[2], ARGV[10]))
local left = redis.call('PTTL', KEYS[1])
if score then
  live_on()
  if score < ms + lease then
    score = ms + lease
    local failed = set_ends(string.format('%.0f', score))
    if failed then
      return failed
    end
  end
  local said = redis.call('HGET', KEYS[6], first)
  return {1, score - ms, tonumber(said and string.match(said, '^%S+ (%d+)') or redis.call('GET', KEYS[3]) or 0)}
end

local set = false
if out == 0 and left ~= -1 then
  set, free = free ~= limit, limit
elseif not free then
  set, free = true, limit - out -- the count was evicted, the permits were not
elseif free + out ~= limit then
  return {2, 'semaphore', free + out}
end
local ahead
if free >= weight and ARGV[4] == '2' then
  for _, member in ipairs(redis.call('ZRANGEBYSCORE', KEYS[5], string.format('%.0f', us), '+inf', 'LIMIT', 0, 2)) do
    if member ~= ARGV[1] .. ':' .. ARGV[7] then
      ahead = string.match(member, '^(.*):%d+$')
    end
  end
end
if free >= weight and not ahead then
  local number = fence(KEYS[3], ARGV[5], us)
  -- Each PEXPIRE before its key is made: where it is denied there is nothing yet that would stay for ever.
  if out == 0 then
    redis.pcall('DEL', KEYS[6]) -- what holders said that Redisson has taken out
  end
  redis.call('PEXPIRE', KEYS[6], life)
  local said = ARGV[1] .. ' ' .. string.format('%.0f', number) .. ' ' .. ARGV[6]
  if left == -1 then
    redis.call('HSET', KEYS[6], first, said)
  else
    redis.call('HSET', KEYS[6], first, said, 'limit', ARGV[8])
    redis.call('PEXPIRE', KEYS[2], life)
  end
  redis.call('PEXPIRE', KEYS[6], life)
  if set or not value then
    redis.call('SET', KEYS[1], string.format('%.0f', free), 'PX', life)
  elseif left >= 0 and left < math.max(DAY / 2, lease) then
    redis.call('PEXPIRE', KEYS[1], life)
  end
  redis.call('DECRBY', KEYS[1], weight)
  local failed = set_ends(string.format('%.0f', ms + lease))
  if failed then
    redis.call('INCRBY', KEYS[1], weight)
    return failed
  end
  if left ~= -1 or redis.call('PTTL', KEYS[2]) >= 0 then
    redis.call('PEXPIRE', KEYS[2], life)
  end
  redis.call('ZREM', KEYS[5], ARGV[1] .. ':' .. ARGV[7])
  return {1, lease, number}
end

local next_end = redis.call('ZRANGE', KEYS[2], 0, 0, 'WITHSCORES')
local said = next_end[1] and redis.call('HGET', KEYS[6], string.sub(next_end[1], 1, 12)) or ''
local owner, number, note = string.match(said, '^(%S+) (%d+) (.*)$')
local wait = next_end[2] and tonumber(next_end[2]) < 900000000000000 and next_end[2] - ms or -1
if ahead then
  owner, number, note, wait = ahead, '', '', 100 -- it was told, and may be dead
end
if ARGV[4] ~= '0' then
  redis.call('ZREMRANGEBYSCORE', KEYS[5], '-inf', string.format('%.0f', us))
  enlist(KEYS[5], ARGV[2], us + lease * 1000, ARGV[1] .. ':' .. ARGV[7])
end
return {0, wait, owner or '', who(owner or ''), 0, 1, note or '', number or ''}
