-- SPDX-License-Identifier: MIT
-- bury(tomb, until_us, at_least): the claim's id is dead until that time of the server's, and for at_least ms.
local function bury(tomb, until_us, at_least)
  local time = redis.call('TIME')
  local left = math.ceil((tonumber(until_us) - (time[1] * 1000000 + time[2])) / 1000) + 1000
  left = math.max(left, at_least)
  if left > 0 then
    redis.pcall('HDEL', tomb, '') -- where memory is full, a script that has written before may go on
    redis.call('SET', tomb, '1', 'PX', string.format('%.0f', left))
  end
end
