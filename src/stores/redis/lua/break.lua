-- SPDX-License-Identifier: MIT
-- break: takes claims away by force: the one with an id, or all grants of the name. Whoever can get in now is woken,
-- as a release would; a waiter that is taken out of its queue is told, and queues again.
--
--   KEYS  those of a name, as looking.lua says
--   ARGV  1 the claim's id in hexadecimal, or "" (all grants); 2 the same as an owner has it (40 digits)
--         3 how long the head of a fair queue may take (ms); 4 what a text is that ends by itself, as token_of() has it
--         5 '+' in a cluster, or ''
--
--   answers {how many claims were taken away, "" or the type of the key: it is no lock, and was not touched}

--#include looking.lua
--#include part_who.lua
--#include part_queue.lua
--#include part_publish.lua
--#include part_wake.lua

local lock, queue, timeouts, permits, wake, holders = KEYS[1], KEYS[3], KEYS[4], KEYS[5], KEYS[6], KEYS[7]
local id, digits, wait = ARGV[1], ARGV[2], tonumber(ARGV[3])
local removed, was_head = 0, false

local function is_meant(owner)
  if id == '' then
    return true
  end
  local own = id_of(owner)
  return own == id or own == '' and owner:sub(38) == digits
end

local function tell_redisson(word, text)
  publish(ARGV[5] .. channel(KEYS, word), text)
end

local function break_mutex(fields)
  for _, field in ipairs(fields) do
    if is_meant(field.owner) then
      removed = removed + redis.call('HDEL', lock, field.owner)
      redis.pcall('HDEL', holders, field.owner)
    end
  end
  if redis.call('EXISTS', lock) == 0 then
    tell_redisson('redisson_lock__channel', '0')
  end
end

-- A writer may have read locks beneath: they stay, unless they are meant, too. A reader's own keys go with its field.
local function break_rw(fields, mode)
  local lives, left = permits:sub(1, -#'timeout' - 1), 0
  for _, field in ipairs(fields) do
    if is_meant(field.owner) then
      removed = removed + redis.call('HDEL', lock, field.owner .. (field.write and ':write' or ''))
      redis.pcall('HDEL', holders, field.owner)
      for i = 1, field.write and 0 or math.min(field.count, RE_ENTRIES) do
        redis.call('DEL', lives .. field.owner .. ':rwlock_timeout:' .. i)
      end
      mode = field.write and 'read' or mode
    else
      left = left + 1
    end
  end
  if left == 0 then
    redis.call('DEL', lock)
  elseif removed > 0 then
    redis.call('HSET', lock, 'mode', mode)
  end
  if removed > 0 then
    tell_redisson('redisson_rwlock', '1')
  end
end

local function break_permits()
  local count = 0
  for _, claim in ipairs(permits_of(permits)) do
    if id == '' or hex(claim.id) == id then
      for _, member in ipairs(claim.members) do
        count = count + redis.call('ZREM', permits, member)
      end
      redis.pcall('HDEL', holders, claim.id:sub(1, 12))
      removed = removed + 1
    end
  end
  if count > 0 then
    -- A count that is gone (it was evicted) is made by the next attempt; made here it would stay for ever.
    local free = redis.call('EXISTS', lock) == 1 and redis.call('INCRBY', lock, count) or count
    tell_redisson('redisson_sc', tostring(math.max(free, 0)))
  end
end

local function break_token(token)
  if id == '' or token_id(token) == id then
    removed = removed + redis.call('DEL', lock)
    redis.pcall('DEL', holders)
  end
end

-- A semaphore of which no permit is out.
local function is_count(key)
  return redis.call('STRLEN', key) < 16 and redis.call('GET', key):match('^%-?%d+$') ~= nil
end

-- Waiters are only taken out one by one. What is taken out is told, so that it queues again or gives up.
local function break_waiters()
  if type_of(queue) == 'list' and type_of(timeouts) == 'zset' then
    for index, owner in ipairs(redis.call('LRANGE', queue, 0, MOST - 1)) do
      if is_meant(owner) and removed == 0 then
        drop(queue, timeouts, owner)
        removed, was_head = 1, index == 1
        tell(owner)
      end
    end
  end
  if type_of(wake) == 'zset' then
    for index, member in ipairs(redis.call('ZRANGE', wake, 0, MOST - 1)) do
      local owner = split(member)
      if owner and is_meant(owner) and removed == 0 then
        removed, was_head = redis.call('ZREM', wake, member), index == 1
        tell(owner)
      end
    end
  end
end

-- Answers the type of a key that is no lock.
local function break_grants()
  local kind = type_of(lock)
  if kind == 'hash' then
    local fields, mode = fields_of(lock)
    if not fields then
      return kind
    elseif mode then
      break_rw(fields, mode)
    else
      break_mutex(fields)
    end
  elseif type_of(permits) == 'zset' and (kind == 'string' or kind == 'none') then
    break_permits()
  elseif kind == 'string' then
    local token = token_of(lock, ARGV[4])
    if token then
      break_token(token)
    elseif not is_count(lock) then
      return kind
    end
  elseif kind ~= 'none' then
    return kind
  end
  return ''
end

local data = break_grants()
if id ~= '' and removed == 0 then
  break_waiters()
end
if was_head or removed > 0 and redis.call('EXISTS', lock) == 0 then
  if not wake_queue(ARGV[5] .. channel(KEYS, 'redisson_lock__channel'), queue, timeouts, now_ms, wait) then
    wake_line(wake)
  end
end
return {removed, data}
