-- SPDX-License-Identifier: MIT
-- Telling who may get in to a mutex. News is a hint: nothing here may stop the verb that gives it. With publish() of
-- part_publish.lua.

-- tell(owner): how many connections of this Holdfast client heard that its claim may get in.
local function tell(owner)
  local heard = redis.pcall('PUBLISH', 'holdfast_news:' .. string.sub(owner, 1, 36),
                            'c' .. string.sub(owner, 38, 77))
  return type(heard) == 'number' and heard or 1
end

-- wake_line(wake): the first of those outside the fair queue who hears it. Who does not is dead, or has lost its
-- connection: then it looks again by itself when it is back.
local function wake_line(wake)
  while true do
    local first = redis.call('ZRANGE', wake, 0, 0)[1]
    if not first or tell(first) > 0 then
      return
    end
    redis.call('ZREM', wake, first)
  end
end

-- wake_queue(channel, queue, timeouts, ms, wait) -> true: somebody stands in the fair queue, and was told. One of
-- Holdfast's that nobody heard for is dead if it was heard before, and leaves; else it has `wait` ms, and the next one
-- is told too, who will come back by then.
local function wake_queue(channel, queue, timeouts, ms, wait)
  local owner, score = head_of(queue, timeouts, ms, wait, true)
  local index = 0
  while owner do
    if not ours(owner) then
      publish(channel .. ':' .. owner, '0')
      return true
    end
    if tell(owner) > 0 then
      return true
    end
    if score % 1 ~= 0 then
      drop(queue, timeouts, owner)
    else
      redis.call('ZADD', timeouts, string.format('%.1f', math.min(score, ms + wait)), owner)
      index = index + 1
    end
    owner = redis.call('LINDEX', queue, index)
    score = owner and tonumber(redis.call('ZSCORE', timeouts, owner) or ms)
  end
  return index > 0
end
