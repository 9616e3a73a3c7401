# SPDX-License-Identifier: MIT
"""The fair queue, shared: first come, first served; who dies in it delays the others only for a while."""
import time

import pytest

from agents import LOOPS, ROUNDS, until
from conftest import milliseconds
from test_kinds import LEASE_MS, LIBRARIES, SOON, pairs

SLACK = 3  # seconds on top of a bound, on a machine that is busy
HEAD_WAIT = 5  # seconds that a dead Holdfast head may delay the queue


def queue_key(place):
    return f"redisson_lock_queue:{{{place.name}}}"


def timeout_key(place):
    return f"redisson_lock_timeout:{{{place.name}}}"


def queued(place):
    return place.redis.llen(queue_key(place))


def join(place, actor, wait_ms=60000, lease_ms=LEASE_MS):
    """Waits in the queue: it is there when this returns."""
    before = queued(place)
    answer = actor.start(place.name, "fair", wait_ms, lease_ms)
    until(lambda: queued(place) == before + 1 or answer.done(), "the waiter is in the queue")
    assert not answer.done()
    return answer


def serve(place, waiters):
    """Each comes in, and before the next one."""
    for i, (actor, answer) in enumerate(waiters):
        answer.ok(SOON)
        time.sleep(0.03)
        assert not any(later.done() for _, later in waiters[i + 1:]), "somebody overtook"
        actor.give(place.name, "fair")


def assert_idle(place):
    until(lambda: not place.redis.exists(place.name), "the lock is free")
    assert place.redis.lrange(queue_key(place), 0, -1) == []
    assert place.redis.zrange(timeout_key(place), 0, -1) == []


@pairs
def test_first_come_first_served(place, first, second):
    """Eight waiters of two clients of each, mixed."""
    one, other = [place.client(first) for _ in range(2)], [place.client(second) for _ in range(2)]
    holder = one[0].actor("holder")
    holder.take(place.name, "fair", 0, LEASE_MS)
    order = [one[0], other[0], other[1], one[1], other[0], one[0], one[1], other[1]]
    waiters = []
    for i, client in enumerate(order):
        actor = client.actor(f"w{i}")
        waiters.append((actor, join(place, actor)))
    released = time.monotonic()
    holder.give(place.name, "fair")
    serve(place, waiters)
    place.note(f"8 hand-overs in order in {milliseconds(released, time.monotonic()) - 8 * 30} ms")
    assert_idle(place)


@pairs
def test_who_gives_up_leaves(place, first, second):
    """A waiter whose time is over leaves the queue as if it had never been there."""
    holder, early, gone, late = (place.actor(library) for library in (first, second, first, second))
    holder.take(place.name, "fair", 0, LEASE_MS)
    waiters = [(early, join(place, early))]
    leaves = join(place, gone, 800)
    waiters.append((late, join(place, late)))
    scores = place.redis.zrange(timeout_key(place), 0, -1, withscores=True)
    assert leaves.word() == "busy"
    until(lambda: queued(place) == 2, "it has left")
    after = dict(place.redis.zrange(timeout_key(place), 0, -1, withscores=True))
    assert len(scores) == 3 and len(after) == 2
    holder.give(place.name, "fair")
    serve(place, waiters)
    assert_idle(place)


@pytest.mark.parametrize("behind", LIBRARIES)
def test_who_is_cancelled_leaves(place, behind):
    """A waiter of Holdfast's that is cancelled leaves at once, and tells who is the head now."""
    a, gone, b = place.actor("redisson"), place.actor("holdfast"), place.actor(behind)
    a.take(place.name, "fair", 0, LEASE_MS)
    cancelled = join(place, gone)
    waiters = [(b, join(place, b))]
    gone.cancel()
    assert cancelled.word() == "cancelled"
    until(lambda: queued(place) == 1, "it has left")
    a.give(place.name, "fair")
    serve(place, waiters)
    assert_idle(place)


@pairs
def test_one_shot_stands_back(place, first, second):
    """Who does not wait does not overtake those who do, though the lock is free: here behind a waiter of nobody's."""
    a, b = place.actor(first), place.actor(second)
    nobody = "00000000-0000-4000-8000-000000000000:1"
    place.redis.rpush(queue_key(place), nobody)
    place.redis.zadd(timeout_key(place), {nobody: (time.time() + 3) * 1000})
    assert a.acquire(place.name, "fair", 0, LEASE_MS) == "busy"
    assert b.acquire(place.name, "fair", 0, LEASE_MS) == "busy"
    start = time.monotonic()
    b.take(place.name, "fair", 20000, LEASE_MS)
    place.note(f"free after {milliseconds(start, time.monotonic())} ms of 3000")
    assert 2 < time.monotonic() - start < 3 + 2 * SLACK
    b.give(place.name, "fair")
    assert_idle(place)


@pytest.mark.parametrize("who", ["holdfast"])
def test_no_spin(place, who):
    """Behind a dead head with the lock free Redisson asks without a pause; Holdfast asks now and then."""
    nobody = "00000000-0000-4000-8000-000000000000:1"
    place.redis.rpush(queue_key(place), nobody)
    place.redis.zadd(timeout_key(place), {nobody: (time.time() + 3) * 1000})
    actor = place.actor(who)
    before = scripts(place)
    start = time.monotonic()
    actor.take(place.name, "fair", 20000, LEASE_MS)
    seconds = time.monotonic() - start
    asked = scripts(place) - before
    place.note(f"{asked} scripts in {seconds:.1f} s")
    assert asked < 25 * seconds
    actor.give(place.name, "fair")


def scripts(place):
    stats = place.redis.info("commandstats")
    return sum(stats.get(f"cmdstat_{name}", {}).get("calls", 0) for name in ("eval", "evalsha"))


@pytest.mark.parametrize("holder", LIBRARIES)
def test_dead_holdfast_head(place, holder):
    """The head of the queue is killed. The next one comes in 5 s after the release at the latest."""
    a, dead, b = place.actor(holder), place.client("holdfast", own=True), place.actor("holdfast")
    a.take(place.name, "fair", 0, LEASE_MS)
    join(place, dead.actor())
    waiting = join(place, b)
    dead.kill()
    place.clients.remove(dead)
    released = time.monotonic()
    a.give(place.name, "fair")
    waiting.ok(HEAD_WAIT + SLACK)
    place.note(f"in after {milliseconds(released, waiting.came)} ms")
    b.give(place.name, "fair")
    assert_idle(place)


@pytest.mark.parametrize("holder", LIBRARIES)
def test_dead_holdfast_head_before_redisson(place, holder):
    """The same before a waiter of Redisson's. Behind any dead head that one sleeps until the lease of the lock that
    it saw is over; so that the bound is that, or 5 s, whichever is later."""
    a, dead, b = place.actor(holder), place.client("holdfast", own=True), place.actor("redisson")
    a.take(place.name, "fair", 0, 8000)
    taken = time.monotonic()
    join(place, dead.actor())
    waiting = join(place, b)
    dead.kill()
    place.clients.remove(dead)
    released = time.monotonic()
    a.give(place.name, "fair")
    waiting.ok(20)
    place.note(f"in after {milliseconds(released, waiting.came)} ms")
    assert waiting.came - released < HEAD_WAIT + SLACK or waiting.came - taken < 8 + SLACK
    b.give(place.name, "fair")
    assert_idle(place)


@pairs
def test_dead_redisson_head(place, first, second):
    """A client of Redisson that is shut down leaves its place behind, and that holds up the queue until its own time
    is over: here 2 s after the end of the lease that it saw."""
    a, b = place.actor(first), place.actor(second)
    dead = place.client("redisson", options=(30000, 2000))
    a.take(place.name, "fair", 0, 3000)
    taken = time.monotonic()
    dead.actor().start(place.name, "fair", -1, LEASE_MS)
    until(lambda: queued(place) == 1, "the head is in the queue")
    waiting = join(place, b)
    dead.close()
    place.clients.remove(dead)
    a.give(place.name, "fair")
    waiting.ok(20)
    place.note(f"in {milliseconds(taken, waiting.came)} ms after the lock was taken")
    assert waiting.came - taken < 3 + 2 + 2 * SLACK
    b.give(place.name, "fair")
    assert_idle(place)


@pytest.mark.parametrize("behind", LIBRARIES)
def test_place_is_kept(place, behind):
    """A waiter of Holdfast keeps its place for longer than a dead one would."""
    a, b, c = place.actor("redisson"), place.actor("holdfast"), place.actor(behind)
    a.take(place.name, "fair", 0, LEASE_MS)
    waiters = [(b, join(place, b)), (c, join(place, c))]
    time.sleep(HEAD_WAIT + 2.5)
    a.give(place.name, "fair")
    serve(place, waiters)
    assert_idle(place)


@pairs
def test_nobody_is_overtaken_after_a_long_wait(place, first, second):
    """A waiter of Redisson's takes its whole wait off the times of all behind it when it gets in: those of Holdfast's
    live through that, also when they have waited for longer than one of their places lives."""
    a = place.actor(first)
    a.take(place.name, "fair", 0, LEASE_MS)
    waiters = []
    for i in range(6):
        actor = place.actor(second if i % 2 else first)
        waiters.append((actor, join(place, actor)))
    end = time.monotonic() + 11
    while time.monotonic() < end:
        members = place.redis.lrange(queue_key(place), 0, -1)
        scores = [place.redis.zscore(timeout_key(place), member) for member in members]
        assert len(members) == 6 and None not in scores
        assert min(scores) > time.time() * 1000
        time.sleep(0.2)
    a.give(place.name, "fair")
    serve(place, waiters)
    assert_idle(place)


@pairs
def test_turns(place, first, second):
    """Ten owners, short waits among them: nobody is in beside another, and nothing is left in the queue."""
    one, other = place.client(first), place.client(second)
    folder = place.folder()
    loops = [client.actor(f"t{i}").loop(place.name, "fair", wait_ms, LEASE_MS, ROUNDS, 4, folder)
             for i, wait_ms in enumerate((60000, 60000, 60000, 60000, 25)) for client in (one, other)]
    words = [loop.wait(LOOPS) for loop in loops]
    assert all(word[0] == "ok" and word[3] == "0" for word in words), words
    assert all(word[1] == str(ROUNDS) for word in words[:8]), words
    grants, busy = (sum(int(word[i]) for word in words) for i in (1, 2))
    place.note(f"{grants} grants, {busy} gave up, 0 clashes")
    until(lambda: queued(place) == 0, "the queue is empty", 10)
    assert_idle(place)
