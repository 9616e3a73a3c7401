-- SPDX-License-Identifier: MIT
-- check: what this user may do, and whether a key can be written. Leaves nothing behind, and touches no lock.
--
--   ARGV  1 a key for the trial, 2 our own channel, 3 how many keys of locks follow; then these; then channels of
--         Redisson's. (They are no KEYS, since a user who lacks one of them could not call the script at all.)
--
--   answers {error of the trial or "", commands that are missing, those that are only wanted, keys and channels that
--   may not be used}; of a server before 7.0, which cannot say, only the first.

local trial, own, count = ARGV[1], ARGV[2], tonumber(ARGV[3])

-- What the scripts call, and what the client sends itself, with as many arguments as it takes, or more: Redis 7.0 ends
-- when it is asked about a command without its key. "k" stands for a key.
local needed = {
  'EVALSHA x 1 k', 'EVAL x 1 k', 'INFO', 'TIME', 'TYPE k', 'EXISTS k', 'DEL k', 'PTTL k', 'PEXPIRE k 1', 'PERSIST k',
  'GET k', 'GETRANGE k 0 1', 'STRLEN k', 'SET k 1', 'INCR k', 'INCRBY k 1', 'DECRBY k 1',
  'HGET k f', 'HMGET k f', 'HGETALL k', 'HKEYS k', 'HLEN k', 'HEXISTS k f', 'HSET k f 1', 'HDEL k f',
  'LINDEX k 0', 'LRANGE k 0 0', 'RPUSH k x', 'LREM k 0 x',
  'ZRANGE k 0 0', 'ZRANGEBYSCORE k 0 1', 'ZCARD k', 'ZCOUNT k 0 1', 'ZSCORE k x', 'ZADD k 1 x',
  'ZREM k x', 'ZREMRANGEBYSCORE k 0 1',
}

-- Without these there is less comfort: waiters poll, or are not woken; some waiters, names and notes are not listed.
local wanted = {'SUBSCRIBE c', 'UNSUBSCRIBE c', 'PUBLISH c x', 'PUBSUB NUMSUB c', 'SCAN 0', 'CLIENT SETNAME x',
  'HSTRLEN k f'}

local function may(...)
  local known, allowed = pcall(redis.acl_check_cmd, ...)
  return allowed or not known
end

-- Whether a command line is allowed with this key.
local function may_line(line, key)
  local words = {}
  for word in line:gmatch('%S+') do
    words[#words + 1] = word == 'k' and key or word == 'c' and own or word
  end
  return may(unpack(words))
end

local function missing_of(list, key)
  local missing = {}
  for _, line in ipairs(list) do
    if not may_line(line, key) then
      missing[#missing + 1] = line:match('^%u+ ?%u*'):match('^(.-) ?$')
    end
  end
  return missing
end

-- The keys that may not be used, and one that may: by a command that is allowed on one of them.
local function keys_of()
  for _, line in ipairs({'SET k 1', 'DEL k', 'PEXPIRE k 1', 'HSET k f 1', 'GET k'}) do
    local denied, usable = {}, nil
    for i = 4, 3 + count do
      if may_line(line, ARGV[i]) then
        usable = ARGV[i]
      else
        denied[#denied + 1] = ARGV[i]
      end
    end
    if usable then
      return denied, usable
    end
  end
  return {unpack(ARGV, 4, 3 + count)}, nil
end

local function try_to_write()
  local answer = redis.pcall('SET', trial, '1', 'PX', 1000)
  if answer.err then
    return answer.err
  end
  redis.pcall('DEL', trial)
  return ''
end

local result = try_to_write()
if not redis.acl_check_cmd then
  return {result}
end
local denied, usable = keys_of()
for i = 4 + count, #ARGV do
  local name = ARGV[i]:match('^%+?(.*)$')
  if not may('PUBLISH', name, '0') or name ~= ARGV[i] and not (may('SPUBLISH', name, '0') and may('SSUBSCRIBE', name)) then
    denied[#denied + 1] = name
  end
end
if not usable then
  return {result, {}, {}, denied}
end
return {result, missing_of(needed, usable), missing_of(wanted, usable), denied}
