-- SPDX-License-Identifier: MIT
-- Renews a claim's permits; only those that have not ended, and never to an earlier end.
--
-- KEYS  1 free permits  2 permits that are out, by their ends (ms)  3 the claim's tombstone
--       4 what holders say of themselves
-- ARGV  1 lease (ms); '0': only look  2 how many permits  3 the claim's id, 16 bytes, which is its first permit
-- Answers  1 renewed, 2 held, 3 gone
local time = redis.call('TIME')
local ms = time[1] * 1000 + math.floor(time[2] / 1000)
local score = redis.pcall('ZSCORE', KEYS[2], ARGV[3])
if type(score) == 'table' then
  if not string.find(score.err, 'wrong kind') then
    return score
  end
  return 3
end
if not score or tonumber(score) <= ms or redis.call('EXISTS', KEYS[3]) == 1 then
  return 3
end
local lease = tonumber(ARGV[1])
if lease == 0 then
  return 2
end
local a, b, c, d = string.byte(ARGV[3], 13, 16)
local base = ((a * 256 + b) * 256 + c) * 256 + d
local life = string.format('%.0f', math.max(lease, 86400000))
for i = 1, 2 do
  local left = redis.call('PTTL', KEYS[i]) -- what has no end keeps none
  if left >= 0 and left < math.max(lease, 43200000) then
    redis.call('PEXPIRE', KEYS[i], life)
    if i == 2 then
      redis.pcall('PEXPIRE', KEYS[4], life)
    end
  end
end
if tonumber(score) < ms + lease then
  redis.call('ZREM', KEYS[2], '') -- where memory is full, a script that has written before may go on
  for index = 0, tonumber(ARGV[2]) - 1 do
    local sum = (base + index) % 4294967296
    redis.call('ZADD', KEYS[2], 'XX', string.format('%.0f', ms + lease),
               string.sub(ARGV[3], 1, 12) .. string.char(math.floor(sum / 16777216), math.floor(sum / 65536) % 256,
                                                         math.floor(sum / 256) % 256, sum % 256))
  end
end
return 1
