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

-- enlist(line, lease, score, member, ...): stands in a line that lives for the lease at least; `...` may be NX. ZREM takes
-- nothing out: where memory is full, a script that has written before may go on, and who waits need not fail.
local function enlist(line, lease, score, member, ...)
  local life = raise(line, lease)
  redis.call('ZREM', line, '')
  local args = {...}
  args[#args + 1] = string.format('%.0f', score)
  args[#args + 1] = member
  redis.call('ZADD', line, unpack(args))
  if life == -2 then
    redis.call('PEXPIRE', line, lease)
  end
end

-- say(holders, owner, note, ms): what a holder or waiter says of itself, for ms at least. It is for people, and may fail;
-- but without PEXPIRE it would stay for ever.
local function say(holders, owner, note, ms)
  if note == '' then
    return
  end
  local count, life = redis.pcall('HLEN', holders), redis.pcall('PTTL', holders)
  if type(count) == 'number' and count >= 64 then
    redis.pcall('DEL', holders)
  end
  if type(life) == 'number' and type(redis.pcall('PEXPIRE', holders, math.max(life, ms))) == 'number' then
    redis.pcall('HSET', holders, owner, note)
    redis.pcall('PEXPIRE', holders, math.max(life, ms))
  end
end
