-- SPDX-License-Identifier: MIT
-- The fair queue. A score is the time (ms) at which its waiter counts as dead. One of Holdfast's has half a millisecond
-- more when its client heard its channel as it took its place: then nobody hears there only when it is dead.
local function drop(queue, timeouts, owner)
  redis.call('ZREM', timeouts, owner)
  redis.call('LREM', queue, 1, owner)
end

-- Until when a place behind some others lives: `wait` from now, to begin with. But Redisson's waiters never raise their
-- scores, and one that gets in or leaves takes its whole wait off everybody else's: as much as it stands above another one
-- of theirs, and where nobody can tell, five minutes (its default), or all of its score where that is more.
local FOREIGN_WAIT = 300000
local function behind_nobody(ms, wait)
  return {ms = ms, life = ms + wait, chained = false}
end

-- behind(those, owner, score): now behind this one too. The score matters of foreign ones only.
local function behind(those, owner, score)
  if ours(owner) then
    those.before = nil
    return
  end
  those.chained = true
  if score and score > those.ms then
    local wait = those.before and math.max(score - those.before, 0) or math.max(score - those.ms, FOREIGN_WAIT)
    those.life = those.life + math.floor(wait)
  end
  those.before = score
end

-- head_of(queue, timeouts, ms, wait, free) -> owner, score of the first that is alive; nil. The dead before it leave.
-- One of Holdfast's that could get in (free) has `wait` ms for it at most. A place without a score, which no client makes,
-- gets one, so that it ends.
local function head_of(queue, timeouts, ms, wait, free)
  while true do
    local head = redis.call('LINDEX', queue, 0)
    if not head then
      return nil
    end
    local score = tonumber(redis.call('ZSCORE', timeouts, head) or ms + wait)
    if score > ms then
      if (free and ours(head) and score > ms + wait + 1) or not redis.call('ZSCORE', timeouts, head) then
        score = ms + wait + score % 1
        redis.call('ZADD', timeouts, string.format('%.1f', score), head)
      end
      return head, score
    end
    drop(queue, timeouts, head)
  end
end
