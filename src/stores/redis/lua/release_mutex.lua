-- SPDX-License-Identifier: MIT
-- Takes a claim out of a mutex, fair or not, whatever its state: granted, waiting, unknown.
--
-- KEYS  1 the lock  2 the line of waiters  3 the fair queue  4 its scores  5 the claim's tombstone
-- ARGV  1 owner  2 Redisson's channel  3 how long a place lives unrenewed (ms)
--       4 until when an unanswered attempt may come (server's us); '0': none  5 keep the lock for that long (ms); '0'
-- Sets  the tombstone; when kept the lock's TTL, up or down.
-- Answers  1: there was a grant or a place; 0
-- Publishes '0' on Redisson's channel when the lock was granted to the claim, and tells who may get in: the head of the
-- fair queue, else the first in the line.
--#include part_publish.lua
local kept = ARGV[5] ~= '0' and redis.pcall('HEXISTS', KEYS[1], ARGV[1]) == 1
local found = kept and 1 or redis.pcall('HDEL', KEYS[1], ARGV[1])
if type(found) == 'table' then
  if not string.find(found.err, 'wrong kind') then
    return found
  end
  found = 0 -- something else has the key by now
end
if kept or ARGV[4] ~= '0' then
  --#include part_bury.lua
  if kept then
    redis.call('PEXPIRE', KEYS[1], ARGV[5])
  end
  bury(KEYS[5], ARGV[4], kept and ARGV[5] + 1000 or 0)
end
if found == 1 then
  publish(ARGV[2], '0')
end
if redis.call('EXISTS', KEYS[2], KEYS[3]) == 0 then
  return found
end

--#include part_who.lua
--#include part_queue.lua
--#include part_wake.lua
if found == 1 and redis.call('EXISTS', KEYS[3]) == 0 then
  wake_line(KEYS[2])
  return found
end
local wait = tonumber(ARGV[3])
local time = redis.call('TIME')
local ms = time[1] * 1000 + math.floor(time[2] / 1000)
local was_head = false
if found == 0 then
  was_head = redis.call('ZRANGE', KEYS[2], 0, 0)[1] == ARGV[1]
  found = redis.call('ZREM', KEYS[2], ARGV[1])
  if redis.call('ZREM', KEYS[4], ARGV[1]) == 1 then
    was_head = was_head or redis.call('LINDEX', KEYS[3], 0) == ARGV[1]
    redis.call('LREM', KEYS[3], 1, ARGV[1])
    found = 1
  end
  if not was_head then
    return found
  end
end
if not wake_queue(ARGV[2], KEYS[3], KEYS[4], ms, wait) then
  wake_line(KEYS[2])
end
return found
