-- SPDX-License-Identifier: MIT
local OWNER = '^%x+%-%x+%-%x+%-%x+%-%x+:%-?%d+'

-- readers_gone(lock, base, all): takes out readers whose own keys have ended. True: none is left, and the key is gone.
-- `base` is what the names of these keys begin with, `all` the hash. A Redisson reader has one key for each level.
local function readers_gone(lock, base, all)
  local first = {}
  for i = 1, #all, 2 do
    if all[i] ~= 'mode' then
      first[#first + 1] = base .. all[i] .. ':rwlock_timeout:1'
    end
  end
  local alive = 0
  for i = 1, #first, 500 do
    alive = alive + redis.call('EXISTS', unpack(first, i, math.min(i + 499, #first)))
  end
  if alive == #first and alive > 0 then
    return false
  end
  alive = 0
  for i = 1, #all, 2 do
    if all[i] ~= 'mode' then
      local level = math.min(tonumber(all[i + 1]) or 1, 1000)
      while level > 0 and redis.call('EXISTS', base .. all[i] .. ':rwlock_timeout:' .. level) == 0 do
        level = level - 1
      end
      if level > 0 then
        alive = alive + 1
      else
        redis.call('HDEL', lock, all[i])
      end
    end
  end
  if alive == 0 then
    redis.call('DEL', lock)
  end
  return alive == 0
end

-- occupant(lock, permits, holders, ms) -> what lives at a lock's key, after what is dead was taken out:
--   nil                  nothing
--   'mutex', owner       'rw', 'read' or 'write'      'semaphore', limit
--   'plain', token       'data', type: no lock of any layout; it is never touched
local function occupant(lock, permits, holders, ms)
  local kind = redis.call('TYPE', lock).ok
  if kind == 'none' then
    return nil
  end
  if kind == 'hash' then
    local mode = redis.call('HGET', lock, 'mode')
    if not mode then
      -- One owner; a client that broke its lock's rules may have left a second: then nobody is let in beside either.
      local fields = redis.call('HLEN', lock) < 10 and redis.call('HKEYS', lock) or {''}
      local holder = fields[1]
      for i = 1, #fields do
        if not string.find(fields[i], OWNER .. '$') then
          return 'data', kind
        end
        holder = ours(fields[i]) and holder or fields[i]
      end
      return 'mutex', holder
    end
    local all = redis.call('HGETALL', lock)
    for i = 1, #all, 2 do
      if all[i] ~= 'mode' and not string.find(all[i], OWNER) then
        return 'data', kind
      end
    end
    if mode == 'write' and #all > 2 then
      return 'rw', mode
    end
    if mode ~= 'read' or #all == 2 then
      return 'data', kind
    end
    if readers_gone(lock, string.sub(permits, 1, -8), all) then
      return nil
    end
    return 'rw', mode
  end
  if kind ~= 'string' then
    return 'data', kind
  end
  local value = redis.call('GETRANGE', lock, 0, 200)
  local count = string.find(value, '^%-?%d+$') and #value < 16 and tonumber(value)
  if not count then
    return 'plain', value
  end
  if redis.call('ZCOUNT', permits, string.format('(%.0f', ms), '+inf') == 0 and
      redis.call('HEXISTS', holders, 'limit') == 1 then
    redis.call('DEL', lock, permits, holders) -- Holdfast made it, and it is idle
    return nil
  end
  return 'semaphore', count + redis.call('ZCARD', permits)
end
