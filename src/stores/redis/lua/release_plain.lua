-- SPDX-License-Identifier: MIT
-- Takes a claim out of a mutex in the plain layout, whatever its state: compare and delete.
--
-- KEYS  1 the lock  2 the line of Holdfast's waiters  3 the claim's tombstone
-- ARGV  1 token, "holdfast:<uuid>:<claim>"  2 owner
--       3 until when an unanswered attempt may come (server's us); '0': none  4 keep the lock for that long (ms); '0'
-- Sets  the tombstone; when kept the lock's TTL, up or down.
-- Answers  1: there was a grant or a place; 0. Tells the first in the line.
local held = redis.pcall('GET', KEYS[1])
if type(held) == 'table' then
  if not string.find(held.err, 'wrong kind') then
    return held
  end
  held = false -- something else has the key by now
end
local found = held == ARGV[1] and 1 or 0
local kept = found == 1 and ARGV[4] ~= '0'
if found == 1 and not kept then
  redis.call('DEL', KEYS[1])
end
if kept or ARGV[3] ~= '0' then
  --#include part_bury.lua
  if kept then
    redis.call('PEXPIRE', KEYS[1], ARGV[4])
  end
  bury(KEYS[3], ARGV[3], kept and ARGV[4] + 1000 or 0)
end
local first = redis.call('ZRANGE', KEYS[2], 0, 0)[1]
if not first then
  return found
end
if found == 0 then
  found = redis.call('ZREM', KEYS[2], ARGV[2])
  if first ~= ARGV[2] then
    return found
  end
end
--#include part_publish.lua
--#include part_wake.lua
wake_line(KEYS[2])
return found
