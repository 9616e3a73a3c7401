-- SPDX-License-Identifier: MIT
-- May this claim in, now? A mutex: Redisson's RLock with RFencedLock's token.
--
-- KEYS  1 the lock  2 its last fence  3 the claim's tombstone  4 the line of waiters  5 the fair queue  6 its scores
--       7 permits (of a semaphore of that name)  8 what holders say of themselves
-- ARGV  1 owner  2 lease (ms)  3 not after (server's us)  4 '1': stand in the line when refused; '2': and be
--       refused where another one stands at its head, although the lock is free
--       5 how long a fence is kept (ms); '0': Redisson's counter  6 the claim's note, or ''  7 a fair head's time (ms)
-- Sets  the fence; the lock with its TTL; a place in the line. An attempt that finds its own grant renews it.
-- Answers  {1, lease left, fence}   granted
--          {0, ms until something ends (-1: never), owner in the way, its client, place, ear, its note, its fence}
--          {2, kind, detail}        in use as something else
--          {3, server's us}         too late
--          {4}                      released already
-- Waiters of the fair queue are not passed.
--#include part_fence.lua
--#include part_who.lua
local time = redis.call('TIME')
local us = time[1] * 1000000 + time[2]
if us > tonumber(ARGV[3]) then
  return {3, us}
end

--#include part_grant.lua

if redis.call('EXISTS', KEYS[1], KEYS[3], KEYS[4], KEYS[5]) == 0 then
  return grant()
end
-- The same where others stand in the line: whoever was told comes here, and the next one waits for him.
if ARGV[4] ~= '2' and redis.call('EXISTS', KEYS[1], KEYS[3], KEYS[5]) == 0 then
  local answer = grant()
  redis.call('ZREM', KEYS[4], ARGV[1])
  return answer
end
if redis.call('EXISTS', KEYS[3]) == 1 then
  return {4}
end
--#include part_occupant.lua
--#include part_queue.lua
local ms = math.floor(us / 1000)
local kind, detail = occupant(KEYS[1], KEYS[7], KEYS[8], ms)
if kind and kind ~= 'mutex' then
  return {2, kind, detail}
end
if detail == ARGV[1] then
  local left = raise(KEYS[1], ARGV[2])
  return {1, math.max(left, tonumber(ARGV[2])), tonumber(redis.call('GET', KEYS[2]) or 0)}
end
local left
if kind then
  left = redis.call('PTTL', KEYS[1])
else
  local score
  detail, score = head_of(KEYS[5], KEYS[6], ms, tonumber(ARGV[7]), true)
  local first = not detail and ARGV[4] == '2' and redis.call('ZRANGE', KEYS[4], 0, 0)[1]
  if first and first ~= ARGV[1] then
    detail, score = first, ms + 100 -- it was told, and may be dead
  end
  if not detail then
    local answer = grant()
    redis.call('ZREM', KEYS[4], ARGV[1])
    return answer
  end
  left = math.ceil(score - ms)
end

local ear = 0
if ARGV[4] ~= '0' then
  enlist(KEYS[4], ARGV[2], us, ARGV[1], 'NX')
  if not ours(detail) and redis.call('ZRANGE', KEYS[4], 0, 0)[1] == ARGV[1] then
    ear = 1
  end
end
return {0, left, detail, who(detail), 0, ear, redis.call('HGET', KEYS[8], detail) or '',
        kind and redis.call('GET', KEYS[2]) or ''}
