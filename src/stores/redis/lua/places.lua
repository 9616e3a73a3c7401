-- SPDX-License-Identifier: MIT
-- Keeps a client's places in one fair queue alive, and sees to it that a dead head does not hold up the living: a foreign
-- holder that leaves tells the head, and nobody else.
--
-- KEYS  1 the fair queue  2 its scores  3 the lock
-- ARGV  1 how long a place lives unrenewed (ms)  2 '+' in a cluster, or ''  3.. owners, all of one client
-- Sets  each owner's score as part_queue.lua says, up; down only when no foreign waiter is ahead any more. A place of ours
--       that Redisson's subtractions have made look dead, and that nobody has taken out yet, lives.
-- Answers  how many places there are. Where the lock is free, tells who may get in.
--#include part_who.lua
--#include part_queue.lua
--#include part_publish.lua
--#include part_wake.lua
local time = redis.call('TIME')
local ms = time[1] * 1000 + math.floor(time[2] / 1000)
local wait, mine, score = tonumber(ARGV[1]), {}, {}
for i = 1, 2 do
  local life = redis.call('PTTL', KEYS[i])
  if life >= 0 and life < 43200000 then
    redis.call('PEXPIRE', KEYS[i], 86400000)
  end
end
redis.call('ZREM', KEYS[2], '') -- where memory is full, a script that has written before may go on
for i = 3, #ARGV do
  mine[ARGV[i]] = true
end
local scored = redis.call('ZRANGE', KEYS[2], 0, -1, 'WITHSCORES')
for i = 1, #scored, 2 do
  score[scored[i]] = tonumber(scored[i + 1])
end
local those, found = behind_nobody(ms, wait), 0
for _, owner in ipairs(redis.call('LRANGE', KEYS[1], 0, -1)) do
  local own = score[owner]
  if own and mine[owner] then
    found = found + 1
    local life = those.life + own % 1
    if life > own or (not those.chained and life < own) then
      redis.call('ZADD', KEYS[2], 'XX', string.format('%.1f', life), owner)
    end
  end
  behind(those, owner, own)
end
if redis.call('EXISTS', KEYS[3]) == 0 then
  wake_queue(ARGV[2] .. 'redisson_lock__channel' .. string.sub(KEYS[1], #'redisson_lock_queue' + 1), KEYS[1], KEYS[2],
             ms, wait)
end
return found
