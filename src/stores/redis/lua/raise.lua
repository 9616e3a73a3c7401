-- SPDX-License-Identifier: MIT
-- Raises a holder's fence to one that another server gave for the same claim.
--
-- KEYS  1 the lock  2 its last fence
-- ARGV  1 the owner's field, or the plain layout's token  2 the fence  3 how long a fence is kept (ms)  4 '1': plain
-- Answers  1: the last fence is at least that; 0: the claim does not hold the lock here.
local mine
if ARGV[4] == '1' then
  mine = redis.call('GET', KEYS[1]) == ARGV[1]
else
  mine = redis.call('HEXISTS', KEYS[1], ARGV[1]) == 1
end
if not mine then
  return 0
end
local last = tonumber(redis.call('GET', KEYS[2]) or 0)
if not last then
  return 0
end
if last < tonumber(ARGV[2]) then
  local left = redis.call('PTTL', KEYS[2])
  if left == -1 then
    redis.call('SET', KEYS[2], ARGV[2])
  else
    redis.call('SET', KEYS[2], ARGV[2], 'PX', math.max(left, tonumber(ARGV[3])))
  end
end
return 1
