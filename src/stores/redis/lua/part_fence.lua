-- SPDX-License-Identifier: MIT
-- fence(token, keep, us) -> the next fence: above the last one, and the server's microseconds at least.
-- A key that has no end (Redisson's) keeps none; ours lives `keep` ms beyond its last use. keep '0': Redisson's counter,
-- from 1 and for ever. It is the first write of an attempt: where memory is short the server refuses it here.
local BEYOND = 9e15 -- from there on scripts do not count exactly, and what cannot rise is no fence
local function none()
  error('wrong kind of value in the key of the fence')
end

local function fence(token, keep, us)
  if keep == '0' then
    local count = redis.call('INCR', token)
    if count > BEYOND then
      none()
    end
    if count > 1e12 then
      redis.call('PERSIST', token)
    end
    return count
  end
  local last = redis.call('GET', token)
  if last then
    last = tonumber(last)
    if not last or last > BEYOND then
      none()
    end
    if us <= last then
      us = last + 1
    end
    local left = redis.call('PTTL', token)
    if left == -1 then
      redis.call('SET', token, string.format('%.0f', us))
      return us
    end
    if left > tonumber(keep) then
      keep = left
    end
  end
  redis.call('SET', token, string.format('%.0f', us), 'PX', keep)
  return us
end
