-- SPDX-License-Identifier: MIT
-- May this claim in, now? A fair mutex: Redisson's RFairLock with RFencedLock's token.
--
-- KEYS and ARGV as in attempt_mutex.lua; 4: '1': take a place in the fair queue when refused; 7: how long a place lives
--       unrenewed (ms), the lease at most.
-- Sets  the fence; the lock with its TTL; the place, of which an attempt that finds it renews the score.
-- Answers as attempt_mutex.lua; ear 2: the waiter's own Redisson channel too, since a foreign client is ahead of it.
--#include part_fence.lua
--#include part_who.lua
local time = redis.call('TIME')
local us = time[1] * 1000000 + time[2]
if us > tonumber(ARGV[3]) then
  return {3, us}
end

--#include part_grant.lua

if redis.call('EXISTS', KEYS[1], KEYS[3], KEYS[5]) == 0 then
  return grant()
end
if redis.call('EXISTS', KEYS[3]) == 1 then
  return {4}
end
--#include part_occupant.lua
--#include part_queue.lua
local DAY = 86400000
local ms = math.floor(us / 1000)
local wait = tonumber(ARGV[7])
local kind, holder = occupant(KEYS[1], KEYS[7], KEYS[8], ms)
if kind and kind ~= 'mutex' then
  return {2, kind, holder}
end
if holder == ARGV[1] then
  local left = raise(KEYS[1], ARGV[2])
  drop(KEYS[5], KEYS[6], ARGV[1])
  return {1, math.max(left, tonumber(ARGV[2])), tonumber(redis.call('GET', KEYS[2]) or 0)}
end
local head, score = head_of(KEYS[5], KEYS[6], ms, wait, not kind)
if not kind and (not head or head == ARGV[1]) then
  local answer = grant()
  if head then
    drop(KEYS[5], KEYS[6], head)
  end
  return answer
end

-- The score of a place behind the first `last` of the line.
local function place_score(line, last)
  local those = behind_nobody(ms, wait)
  for i = 1, last do
    behind(those, line[i], not ours(line[i]) and tonumber(redis.call('ZSCORE', KEYS[6], line[i]) or ms))
  end
  local heard = redis.pcall('PUBSUB', 'NUMSUB', 'holdfast_news:' .. string.sub(ARGV[1], 1, 36))
  local half = type(heard) == 'table' and not heard.err and tonumber(heard[2]) > 0 and 0.5 or 0
  return those.life + half
end

-- The queue outlives its waiters by a day at most. One that Redisson made has no end, and keeps none.
local function keep(key)
  local life = redis.call('PTTL', key)
  if life == -2 or (life >= 0 and life < DAY / 2) then
    redis.call('PEXPIRE', key, DAY)
  end
  return life == -2
end

local place, ear = 0, 0
local line = redis.call('LRANGE', KEYS[5], 0, -1)
for i = 1, #line do
  if line[i] == ARGV[1] then
    place = i
    break
  end
  if not ours(line[i]) then
    ear = 2
  end
end
if holder and not ours(holder) then
  ear = 2
end
if place > 0 then
  local old, new = tonumber(redis.call('ZSCORE', KEYS[6], ARGV[1]) or 0), place_score(line, place - 1)
  if new > old or (new % 1 > old % 1) then
    redis.call('ZREM', KEYS[6], '') -- where memory is full, a script that has written before may go on
    redis.call('ZADD', KEYS[6], string.format('%.1f', math.max(new, math.floor(old) + new % 1)), ARGV[1])
  end
elseif ARGV[4] == '1' then
  local new = place_score(line, #line)
  local fresh, scores_fresh = keep(KEYS[5]), keep(KEYS[6])
  redis.call('ZREM', KEYS[6], '')
  redis.call('ZADD', KEYS[6], string.format('%.1f', new), ARGV[1])
  if scores_fresh then
    redis.call('PEXPIRE', KEYS[6], DAY)
  end
  redis.call('RPUSH', KEYS[5], ARGV[1])
  if fresh then
    redis.call('PEXPIRE', KEYS[5], DAY)
  end
  place = #line + 1
  say(KEYS[8], ARGV[1], ARGV[6], DAY)
end
local before, left = holder, nil
if holder then
  left = redis.call('PTTL', KEYS[1])
else
  before, left = head, math.ceil(score - ms)
end
return {0, left, before, who(before), place, ear, redis.call('HGET', KEYS[8], before) or '',
        holder and redis.call('GET', KEYS[2]) or ''}
