-- SPDX-License-Identifier: MIT
-- May this claim in, now? A reader or a writer: Redisson's RReadWriteLock.
--
-- KEYS  1 the lock  2 its last fence  3 the claim's tombstone  4 who waits  5 the reader's own key
--       6 permits (of a semaphore of that name)  7 what holders say of themselves  8 the fair queue (of a mutex of that
--       name)  9 its scores
-- ARGV  1 owner  2 lease (ms)  3 not after (server's us)  4 '1': is noted as waiting when refused;
--       '2': and be refused where another one waits before it, although the lock is free
--       5 how long a fence is kept (ms); '0': Redisson's counter  6 the claim's note, or ''  7 '1': the writer
-- Sets  the fence; a reader's own key, whose value is its fence, with its TTL; the lock with its TTL, which is never
--       lowered. An attempt that finds its own grant renews it.
-- Answers as attempt_mutex.lua; nobody has a place, and the ear is always 1.
--#include part_fence.lua
--#include part_who.lua
local time = redis.call('TIME')
local us = time[1] * 1000000 + time[2]
if us > tonumber(ARGV[3]) then
  return {3, us}
end
local writer = ARGV[7] == '1'
local field = writer and ARGV[1] .. ':write' or ARGV[1]

-- `life`: the lock's PTTL, -2 where it is not there.
local function grant(life)
  local number = fence(KEYS[2], ARGV[5], us)
  if not writer then
    redis.call('SET', KEYS[5], string.format('%.0f', number), 'PX', ARGV[2])
  end
  if life == -2 then
    redis.call('PEXPIRE', KEYS[1], ARGV[2])
    redis.call('HSET', KEYS[1], 'mode', writer and 'write' or 'read', field, '1')
    redis.call('PEXPIRE', KEYS[1], ARGV[2])
  else
    if life >= 0 and life < tonumber(ARGV[2]) then
      redis.call('PEXPIRE', KEYS[1], ARGV[2])
    end
    redis.call('HSET', KEYS[1], field, '1')
  end
  say(KEYS[7], ARGV[1], ARGV[6], ARGV[2] + 60000)
  return {1, tonumber(ARGV[2]), number}
end

if redis.call('EXISTS', KEYS[1], KEYS[3], KEYS[4], KEYS[8]) == 0 then
  return grant(-2)
end
if redis.call('EXISTS', KEYS[3]) == 1 then
  return {4}
end
--#include part_occupant.lua
--#include part_queue.lua

-- Its own grant. A reader's own key has the say: without it the grant has ended.
local function again(own)
  local left = math.max(raise(own, ARGV[2]), tonumber(ARGV[2]))
  local shared = redis.call('PTTL', KEYS[1])
  if shared >= 0 and shared < left then
    redis.call('PEXPIRE', KEYS[1], string.format('%.0f', left)) -- a Redisson reader's watchdog may have cut it
  end
  local number = redis.call('GET', writer and KEYS[2] or own)
  return {1, left, tonumber(number or 0)}
end

local ms = math.floor(us / 1000)
local held = redis.pcall('HEXISTS', KEYS[1], field) == 1
if held and (writer or redis.call('EXISTS', KEYS[5]) == 1) then
  return again(writer and KEYS[1] or KEYS[5])
end
if writer and redis.pcall('HEXISTS', KEYS[1], ARGV[1]) == 1 then
  return {4} -- it has become a reader since this was sent
end
local kind, detail = occupant(KEYS[1], KEYS[6], KEYS[7], ms)
if kind and kind ~= 'rw' then
  return {2, kind, detail}
end
if not kind and head_of(KEYS[8], KEYS[9], ms, 5000, false) then
  return {2, 'mutex', ''}
end

-- A writer of Holdfast's that waits goes before readers that come after it, or it would never get in. One whose client
-- nobody hears any more is taken out. `any`: readers count too.
local function waits_ahead(any)
  for _, member in ipairs(redis.call('ZRANGE', KEYS[4], 0, 99)) do
    if member == field then
      return nil
    end
    local writes = string.sub(member, -6) == ':write'
    if writes or any then
      local heard = redis.pcall('PUBSUB', 'NUMSUB', 'holdfast_news:' .. string.sub(member, 1, 36))
      if heard.err or tonumber(heard[2]) > 0 then
        return writes and string.sub(member, 1, -7) or member
      end
      redis.call('ZREM', KEYS[4], member)
    end
  end
end

-- Who dies while waiting stays in the line; so each time that it has grown by some, all are asked for at once. Who came
-- just now may not be heard yet.
local function sweep()
  local new = tonumber(redis.call('ZSCORE', KEYS[4], field)) == us
  if not new or redis.call('ZCARD', KEYS[4]) % 64 ~= 0 then
    return
  end
  local old = redis.call('ZRANGEBYSCORE', KEYS[4], '-inf', string.format('%.0f', us - 1000000), 'LIMIT', 0, 1000)
  local channels = {}
  for i = 1, #old do
    channels[i] = 'holdfast_news:' .. string.sub(old[i], 1, 36)
  end
  local heard = redis.pcall('PUBSUB', 'NUMSUB', unpack(channels))
  for i = 1, heard.err and 0 or #old do
    if tonumber(heard[2 * i]) == 0 then
      redis.call('ZREM', KEYS[4], old[i])
    end
  end
end

local life = redis.call('PTTL', KEYS[1])
local yields = not kind and ARGV[4] == '2'
local ahead = (yields or (not writer and detail ~= 'write')) and waits_ahead(yields)
if not ahead and (not kind or (detail == 'read' and not writer)) then
  local answer = grant(life)
  redis.call('ZREM', KEYS[4], field)
  return answer
end

-- Somebody in the way, and when the last of those ends, where they are few enough to be asked one by one.
local base, holder, number, left = string.sub(KEYS[6], 1, -8), '', '', life
if ahead then
  holder, left = ahead, yields and 100 or 2000 -- it may die, and nobody tells
elseif detail == 'write' then
  for _, name in ipairs(redis.call('HKEYS', KEYS[1])) do
    if string.sub(name, -6) == ':write' then
      holder = string.sub(name, 1, -7)
    end
  end
  number = redis.call('GET', KEYS[2]) or ''
else
  local readers, last = redis.call('HKEYS', KEYS[1]), -2
  for i = 1, math.min(#readers, 65) do
    if readers[i] ~= 'mode' then
      local own = base .. readers[i] .. ':rwlock_timeout:1'
      holder = readers[i]
      number = redis.call('GET', own) or ''
      last = math.max(last, redis.call('PTTL', own))
    end
  end
  if #readers <= 65 and last > 0 and (life < 0 or last < life) and ours(holder) then
    left = last
  end
end
if ARGV[4] ~= '0' then
  enlist(KEYS[4], ARGV[2], us, field, 'NX')
  sweep()
end
return {0, left, holder, who(holder), 0, 1, redis.call('HGET', KEYS[7], holder) or '', number}
