-- SPDX-License-Identifier: MIT
-- grant(): a mutex becomes ours, with the keys and arguments of attempt_mutex.lua. The first PEXPIRE changes nothing:
-- where it is denied, it is so before there is a key that would stay for ever.
local function grant()
  local number = fence(KEYS[2], ARGV[5], us)
  redis.call('PEXPIRE', KEYS[1], ARGV[2])
  redis.call('HSET', KEYS[1], ARGV[1], '1')
  redis.call('PEXPIRE', KEYS[1], ARGV[2])
  say(KEYS[8], ARGV[1], ARGV[6], ARGV[2] + 60000)
  return {1, tonumber(ARGV[2]), number}
end
