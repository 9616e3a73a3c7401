-- SPDX-License-Identifier: MIT
-- publish(channel, text): to who waits on a channel of Redisson's. News is a hint: nothing here may stop the verb that
-- gives it. In a cluster there is a "+" before the channel: there Redisson's clients hear sharded messages or the others,
-- as they are set, and each is told.
local function publish(channel, text)
  if string.byte(channel) == 43 then
    channel = string.sub(channel, 2)
    redis.pcall('SPUBLISH', channel, text)
  end
  redis.pcall('PUBLISH', channel, text)
end
