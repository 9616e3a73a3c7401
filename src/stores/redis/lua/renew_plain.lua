-- SPDX-License-Identifier: MIT
-- Renews a mutex in the plain layout; only its owner's, only one that is there, and never to a shorter life.
--
-- KEYS  1 the lock  2 the claim's tombstone  3 what holders say of themselves
-- ARGV  1 token, "holdfast:<uuid>:<claim>"  2 lease (ms); '0': only look
-- Answers  1 renewed, 2 held, 3 gone
local held = redis.pcall('GET', KEYS[1])
if type(held) == 'table' then
  if not string.find(held.err, 'wrong kind') then
    return held
  end
  return 3
end
if held ~= ARGV[1] or redis.call('EXISTS', KEYS[2]) == 1 then
  return 3
end
--#include part_renewed.lua
