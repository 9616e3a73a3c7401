-- SPDX-License-Identifier: MIT
-- The end of a renewal of a mutex, with the keys and arguments of renew_mutex.lua: its owner has it.
if ARGV[2] == '0' then
  return 2
end
if redis.call('PTTL', KEYS[1]) < tonumber(ARGV[2]) then
  redis.call('PEXPIRE', KEYS[1], ARGV[2])
end
redis.pcall('PEXPIRE', KEYS[3], ARGV[2] + 60000)
return 1
