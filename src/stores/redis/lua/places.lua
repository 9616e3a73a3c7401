-- SPDX-License-Identifier: MIT
-- Keeps a client's places in one fair queue alive.
--
-- KEYS  1 the fair queue  2 its scores
-- ARGV  1 how long a place lives unrenewed (ms)  2.. owners, all of one client
-- Sets  each owner's score to now + that time; behind a foreign waiter to that of the one before it + that time, where
--       that is more: Redisson's waiters subtract theirs when they get in or leave, and must not make ours look dead.
-- Answers  how many places there are
local time = redis.call('TIME')
local ms = time[1] * 1000 + math.floor(time[2] / 1000)
local wait, mine, score, chained = tonumber(ARGV[1]), {}, {}, false
for i = 1, 2 do
  local life = redis.call('PTTL', KEYS[i])
  if life >= 0 and life < 43200000 then
    redis.call('PEXPIRE', KEYS[i], 86400000)
  end
end
redis.call('ZREM', KEYS[2], '') -- where memory is full, a script that has written before may go on
for i = 2, #ARGV do
  mine[ARGV[i]] = true
end
local scored = redis.call('ZRANGE', KEYS[2], 0, -1, 'WITHSCORES')
for i = 1, #scored, 2 do
  score[scored[i]] = tonumber(scored[i + 1])
end
local before, found = ms, 0
for _, owner in ipairs(redis.call('LRANGE', KEYS[1], 0, -1)) do
  local own = score[owner]
  if own and mine[owner] and own > ms then
    found = found + 1
    local new = math.floor(before) + wait + own % 1
    if new > own then
      redis.call('ZADD', KEYS[2], 'XX', string.format('%.1f', new), owner)
      own = new
    end
  end
  chained = chained or string.sub(owner, 15, 15) ~= '8'
  before = chained and math.max(own or ms, ms) or ms
end
return found
