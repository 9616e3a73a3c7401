-- SPDX-License-Identifier: MIT
-- ours(owner): a Holdfast client's? Its uuid is of version 8.
local function ours(owner)
  return string.sub(owner, 15, 15) == '8'
end

-- who(owner): what the owner's client says of itself; '' where nothing is known. That key lies in a slot of its own, so
-- it may be out of reach.
local function who(owner)
  if not ours(owner) then
    return ''
  end
  local text = redis.pcall('GET', 'holdfast_client:' .. string.sub(owner, 1, 36))
  return type(text) == 'string' and text or ''
end

-- raise(key, ms): a life of ms at least. Also to be called before the key is made: then it changes nothing, but a
-- server that denies PEXPIRE says so while there is nothing that would stay for ever.
local function raise(key, ms)
  local left = redis.call('PTTL', key)
  if left < tonumber(ms) then
    redis.call('PEXPIRE', key, ms)
  end
  return left
end
