-- SPDX-License-Identifier: MIT
-- Renews a reader or a writer; only its owner's, only one that is there, and never to a shorter life. A reader with a
-- fixed lease, which is only looked at, raises the shared key again, that a Redisson reader's watchdog may have cut.
--
-- KEYS  1 the lock  2 the claim's tombstone  3 the reader's own key  4 what holders say of themselves
-- ARGV  1 owner  2 lease (ms); '0': only look
-- Answers  1 renewed, 2 held, 3 gone
local levels = redis.pcall('HMGET', KEYS[1], ARGV[1], ARGV[1] .. ':write')
if levels.err then
  if not string.find(levels.err, 'wrong kind') then
    return levels
  end
  return 3
end
if not (levels[1] or levels[2]) or redis.call('EXISTS', KEYS[2]) == 1 then
  return 3
end
local writer = levels[2] and true
local own = writer and KEYS[1] or KEYS[3]
local left, life = redis.call('PTTL', own), redis.call('PTTL', KEYS[1])
if left == -2 then
  return 3
end
local lease = tonumber(ARGV[2])
if left >= 0 and left < lease then
  redis.call('PEXPIRE', own, ARGV[2])
  left = lease
end
if not writer and life >= 0 and life < left then
  redis.call('PEXPIRE', KEYS[1], left)
end
if lease == 0 then
  return 2
end
redis.pcall('PEXPIRE', KEYS[4], lease + 60000)
return 1
