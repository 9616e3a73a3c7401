-- SPDX-License-Identifier: MIT
-- May this claim in, now? A mutex in the plain layout: one string, as SET NX PX makes it.
--
-- KEYS  1 the lock  2 its last fence  3 the claim's tombstone  4 the line of Holdfast's waiters
--       5 what holders say of themselves  6 permits (of a semaphore of that name)
-- ARGV  1 token, "holdfast:<uuid>:<claim>"  2 lease (ms)  3 not after (server's us)
--       4 as in attempt_mutex.lua  5 how long a fence is kept (ms)  6 the claim's note, or ''
--       7 owner
-- Sets  the fence; the lock with its TTL; a place in the line.
-- Answers as attempt_mutex.lua; the ear is 1 where a foreign holder will tell nobody.
--#include part_fence.lua
--#include part_who.lua
local time = redis.call('TIME')
local us = time[1] * 1000000 + time[2]
if us > tonumber(ARGV[3]) then
  return {3, us}
end
if redis.call('EXISTS', KEYS[3]) == 1 then
  return {4}
end
local held = redis.pcall('GET', KEYS[1])
if type(held) == 'table' then
  if not string.find(held.err, 'wrong kind') then
    return held
  end
  return {2, 'data', redis.call('TYPE', KEYS[1]).ok}
end
if held and string.find(held, '^%-?%d+$') then
  --#include part_occupant.lua
  local kind, detail = occupant(KEYS[1], KEYS[6], KEYS[5], math.floor(us / 1000))
  if kind == 'semaphore' and redis.call('HEXISTS', KEYS[5], 'limit') == 1 then
    return {2, kind, detail}
  end
  held = kind and held
end
if held == ARGV[1] then
  local left = raise(KEYS[1], ARGV[2])
  return {1, math.max(left, tonumber(ARGV[2])), tonumber(redis.call('GET', KEYS[2]) or 0)}
end
local first = not held and ARGV[4] == '2' and redis.call('ZRANGE', KEYS[4], 0, 0)[1]
if first == ARGV[7] then
  first = false
end
if not held and not first then
  local number = fence(KEYS[2], ARGV[5], us)
  redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
  say(KEYS[5], string.sub(ARGV[1], 10), ARGV[6], ARGV[2] + 60000)
  redis.call('ZREM', KEYS[4], ARGV[7])
  return {1, tonumber(ARGV[2]), number}
end
local holder = first or (string.sub(held, 1, 9) == 'holdfast:' and string.sub(held, 10) or '')
if ARGV[4] ~= '0' then
  enlist(KEYS[4], ARGV[2], us, ARGV[7], 'NX')
end
return {0, first and 100 or redis.call('PTTL', KEYS[1]), holder, who(holder), 0, holder == '' and 1 or 0,
        redis.call('HGET', KEYS[5], holder) or '', redis.call('GET', KEYS[2]) or ''}
