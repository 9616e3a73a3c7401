-- SPDX-License-Identifier: MIT
-- Takes a claim's permits back, whatever its state.
--
-- KEYS  1 free permits  2 permits that are out, by their ends (ms)  3 who waits  4 what holders say of themselves
--       5 the claim's tombstone
-- ARGV  1 owner  2 Redisson's channel  3 how many permits
--       4 until when an unanswered attempt may come (server's us); '0': none  5 keep them for that long (ms); '0'
--       6 the claim's id, 16 bytes, which is its first permit
-- Sets  the count; the tombstone; when kept the ends of the permits, up or down.
-- Answers  1: there were permits that had not ended, or a place; 0
-- Publishes the count on Redisson's channel.
--#include part_publish.lua
local time = redis.call('TIME')
local ms = time[1] * 1000 + math.floor(time[2] / 1000)
local weight = tonumber(ARGV[3])
local a, b, c, d = string.byte(ARGV[6], 13, 16)
local base = ((a * 256 + b) * 256 + c) * 256 + d
local permits = {}
for index = 0, weight - 1 do
  local sum = (base + index) % 4294967296
  permits[index + 1] = string.sub(ARGV[6], 1, 12) ..
      string.char(math.floor(sum / 16777216), math.floor(sum / 65536) % 256, math.floor(sum / 256) % 256, sum % 256)
end
local score = redis.pcall('ZSCORE', KEYS[2], ARGV[6])
if type(score) == 'table' then
  if not string.find(score.err, 'wrong kind') then
    return score
  end
  score = false -- something else has the key by now
end
local found = score and tonumber(score) > ms and 1 or 0
local kept = found == 1 and ARGV[5] ~= '0'
if kept then
  local ends = string.format('%.0f', ms + ARGV[5])
  redis.call('ZREM', KEYS[2], '') -- where memory is full, a script that has written before may go on
  for i = 1, #permits do
    redis.call('ZADD', KEYS[2], 'XX', ends, permits[i])
  end
  for i = 1, 2 do
    local life = redis.call('PTTL', KEYS[i]) -- what has no end keeps none
    if life >= 0 and life < tonumber(ARGV[5]) then
      redis.call('PEXPIRE', KEYS[i], ARGV[5])
    end
  end
  publish(ARGV[2], '0')
elseif score then
  local back = 0
  for i = 1, #permits, 1000 do
    back = back + redis.call('ZREM', KEYS[2], unpack(permits, i, math.min(i + 999, #permits)))
  end
  if back > 0 then
    -- A count that is gone (it was evicted) is made by the next attempt.
    local free = redis.call('EXISTS', KEYS[1]) == 1 and redis.call('INCRBY', KEYS[1], back) or back
    publish(ARGV[2], string.format('%.0f', math.max(free, 0)))
  end
  redis.pcall('HDEL', KEYS[4], string.sub(ARGV[6], 1, 12))
end
if kept or ARGV[4] ~= '0' then
  --#include part_bury.lua
  bury(KEYS[5], ARGV[4], kept and ARGV[5] + 1000 or 0)
end
if not score and redis.call('ZREM', KEYS[3], ARGV[1] .. ':' .. ARGV[3]) == 1 then
  found = 1
end
return found
