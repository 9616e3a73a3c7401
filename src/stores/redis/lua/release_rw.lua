-- SPDX-License-Identifier: MIT
-- Takes a reader or a writer out, whatever its state; or turns a writer into a reader in one step.
--
-- KEYS  1 the lock  2 who waits  3 the reader's own key  4 the claim's tombstone  5 the lock's last fence
-- ARGV  1 owner  2 Redisson's channel  3 '1': the claim waits as a writer
--       4 until when an unanswered attempt may come (server's us); '0': none  5 keep the grant for that long (ms); '0'
--       6 '1': turn the writer into a reader  7 the lease of that reader (ms), where the lock has no end
-- Sets  the tombstone; when kept the TTLs of the grant, up or down; when turned, the reader's own key; the lock's TTL down
--       to that of the reader that is left and lives longest, by which Redisson's writers go.
-- Answers  1: there was a grant or a place; 0
-- Publishes on Redisson's channel '1' when a writer has left, waits no more or became a reader, '0' when the last reader
-- has left.
--#include part_publish.lua
local levels = redis.pcall('HMGET', KEYS[1], ARGV[1], ARGV[1] .. ':write')
if levels.err then
  if not string.find(levels.err, 'wrong kind') then
    return levels
  end
  levels = {} -- something else has the key by now
end
-- Nobody may know whether a writer has become a reader yet; so what is there counts, not what the claim says.
local writer = levels[2] and true or not levels[1] and ARGV[3] == '1'
local field = writer and ARGV[1] .. ':write' or ARGV[1]
local held = (levels[1] or levels[2]) and 1 or 0
if ARGV[6] == '1' then
  if not levels[2] then
    return held == 1 and redis.call('EXISTS', KEYS[3]) or 0
  end
  local left = redis.call('PTTL', KEYS[1])
  redis.call('HDEL', KEYS[1], '') -- where memory is full, a script that has written before may go on
  if left < 0 then -- somebody took its end away
    left = ARGV[7]
    redis.call('PEXPIRE', KEYS[1], left)
  end
  redis.call('SET', KEYS[3], redis.call('GET', KEYS[5]) or '0', 'PX', math.max(tonumber(left), 1))
  redis.call('HSET', KEYS[1], 'mode', 'read', ARGV[1], '1')
  redis.call('HDEL', KEYS[1], field)
  publish(ARGV[2], '1')
  return 1
end

-- lower(lock, base, all): the lock ends with the last of its readers (`base`, `all`: as readers_gone() has them).
local function lower(lock, base, all)
  local most = -1
  for i = 1, #all, 2 do
    for level = 1, all[i] ~= 'mode' and math.min(tonumber(all[i + 1]) or 1, 1000) or 0 do
      local left = redis.call('PTTL', base .. all[i] .. ':rwlock_timeout:' .. level)
      if left == -1 then
        return
      end
      most = math.max(most, left)
    end
  end
  if most > 0 and most < redis.call('PTTL', lock) then
    redis.call('PEXPIRE', lock, most)
  end
end

local found, kept = held, held == 1 and ARGV[5] ~= '0'
if not writer and held == 1 then
  found = redis.call('EXISTS', KEYS[3]) -- without its own key a reader's grant has ended
  kept = kept and found == 1
end
if kept then
  local mode_left = redis.call('PTTL', KEYS[1])
  if writer or redis.call('HLEN', KEYS[1]) == 2 or (mode_left >= 0 and mode_left < tonumber(ARGV[5])) then
    redis.call('PEXPIRE', KEYS[1], ARGV[5])
  end
  if not writer then
    redis.call('PEXPIRE', KEYS[3], ARGV[5])
  end
elseif held == 1 then
  redis.call('HDEL', KEYS[1], field)
  if not writer then
    redis.call('DEL', KEYS[3])
  end
end
if held == 1 and not kept then
  -- What is left without anybody in it goes.
  local left = redis.call('HLEN', KEYS[1])
  if left == 1 and redis.call('HEXISTS', KEYS[1], 'mode') == 1 then
    redis.call('DEL', KEYS[1])
    left = 0
  elseif left > 1 and left <= 65 then
    --#include part_occupant.lua
    local all, base = redis.call('HGETALL', KEYS[1]), string.sub(KEYS[3], 1, -(#ARGV[1] + 18))
    if redis.call('HGET', KEYS[1], 'mode') == 'read' then
      if readers_gone(KEYS[1], base, all) then
        left = 0
      else
        lower(KEYS[1], base, all)
      end
    end
  end
  if writer or left == 0 then
    publish(ARGV[2], writer and '1' or '0')
  end
elseif kept then
  publish(ARGV[2], '1')
end
if kept or ARGV[4] ~= '0' then
  --#include part_bury.lua
  bury(KEYS[4], ARGV[4], kept and ARGV[5] + 1000 or 0)
end
if held == 0 and redis.call('ZREM', KEYS[2], field) == 1 then
  found = 1
  if writer then
    publish(ARGV[2], '1') -- readers stood behind it
  end
end
return found
