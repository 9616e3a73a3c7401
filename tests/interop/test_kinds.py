# SPDX-License-Identifier: MIT
"""Each kind, between each two of Redisson and Holdfast: who holds, blocks; who gives back, wakes; what expires, is
free.

Redisson beside Redisson shows what its own answers are, and that the agents do what they should.
"""
import time

import pytest

from agents import LOOPS, ROUNDS, until
from conftest import milliseconds

LIBRARIES = ("redisson", "holdfast")
PAIRS = [(a, b) for a in LIBRARIES for b in LIBRARIES]
# who holds, who comes beside it
KINDS = [("mutex", "mutex"), ("fenced", "fenced"), ("fair", "fair"), ("writer", "writer"), ("writer", "reader"),
         ("reader", "writer"), ("semaphore:1", "semaphore:1"), ("semaphore:3:3", "semaphore:3:2")]
LEASE_MS = 30000
SOON = 5  # seconds: far below the lease, far above a hand-over

pairs = pytest.mark.parametrize("first,second", PAIRS, ids=["-".join(pair) for pair in PAIRS])
kinds = pytest.mark.parametrize("held,wanted", KINDS, ids=["+".join(kind) for kind in KINDS])


def query(kind):
    return "?fence=redisson" if kind == "fenced" else ""


def two(place, first, second, kind):
    return place.actor(first, url=query(kind)), place.actor(second, url=query(kind))


@pairs
@kinds
def test_excludes(place, first, second, held, wanted):
    a, b = two(place, first, second, held)
    a.take(place.name, held, 0, LEASE_MS)
    assert b.acquire(place.name, wanted, 0, LEASE_MS) == "busy"
    assert b.acquire(place.name, wanted, 300, LEASE_MS) == "busy"
    a.give(place.name, held)
    b.take(place.name, wanted, 0, LEASE_MS)
    assert a.acquire(place.name, held, 0, LEASE_MS) == "busy"
    b.give(place.name, wanted)
    a.take(place.name, held, 0, LEASE_MS)
    a.give(place.name, held)


@pairs
@kinds
def test_wakes(place, first, second, held, wanted):
    """Well before the lease ends: by its message alone."""
    a, b = two(place, first, second, held)
    took = []
    for _ in range(3):
        a.take(place.name, held, 10000, LEASE_MS)
        waiting = b.start(place.name, wanted, 60000, LEASE_MS)
        time.sleep(0.3)
        assert not waiting.done()
        released = time.monotonic()
        a.give(place.name, held)
        waiting.ok(SOON)
        took.append(milliseconds(released, waiting.came))
        b.give(place.name, wanted)
    place.note(f"woken after {sorted(took)[1]} ms")


@pairs
@kinds
def test_expires(place, first, second, held, wanted):
    """A holder that is silent: its lease ends, the next one comes in, and the late release touches nothing."""
    a, b = two(place, first, second, held)
    before = time.monotonic()
    a.take(place.name, held, 0, 1500)
    waiting = b.start(place.name, wanted, 60000, LEASE_MS)
    waiting.ok(20)
    assert waiting.came - before >= 1.5
    place.note(f"free after {milliseconds(before, waiting.came)} ms of a lease of 1500")
    assert a.release(place.name, held) == "lost"
    assert a.acquire(place.name, held, 0, LEASE_MS) == "busy"
    b.give(place.name, wanted)


@pairs
def test_watchdog(place, first, second):
    """Without a lease it is renewed, and nobody comes in however long that is."""
    one, other = place.client(first, options=(1500,)), place.client(second, options=(1500,))
    kinds = [("mutex", "mutex"), ("fair", "fair"), ("reader", "writer"), ("writer", "writer")]
    waits = []
    for held, wanted in kinds:
        one.actor(held).take(place.name + held, held)
        waits.append(other.actor(held).start(place.name + held, wanted, 5000, LEASE_MS))
    assert [wait.word() for wait in waits] == ["busy"] * len(kinds)
    for held, wanted in kinds:
        one.actor(held).give(place.name + held, held)
        other.actor(held).take(place.name + held, wanted, 5000, LEASE_MS)
        other.actor(held).give(place.name + held, wanted)


@pairs
@pytest.mark.parametrize("kind", ["mutex", "fair", "writer", "reader"])
def test_forced(place, first, second, kind):
    """Freed by force, by the other library: a waiter comes in, and the holder's release says that it was late. A waiter
    of Holdfast behind a holder of Holdfast's does not hear Redisson's force: it looks after a third of its lease."""
    waits_for = "writer" if kind == "reader" else kind
    a, b, c = place.actor(first), place.actor(second), place.actor(first)
    a.take(place.name, kind, 0, LEASE_MS)
    waiting = c.start(place.name, waits_for, 60000, LEASE_MS)
    time.sleep(0.3)
    forced = time.monotonic()
    assert b.force(place.name, kind) == "ok"
    deaf = (first, second) == ("holdfast", "redisson") and kind in ("mutex", "fair")
    waiting.ok(LEASE_MS / 3000 + SOON if deaf else SOON)
    place.note(f"woken after {milliseconds(forced, waiting.came)} ms")
    assert a.release(place.name, kind) == "lost"
    c.give(place.name, waits_for)


@pytest.mark.parametrize("kind", ["mutex", "fair", "writer"])
def test_force_is_told(place, kind):
    """Whose lock Redisson has freed by force learns of it at the next renewal."""
    a, b = place.actor("holdfast", options=(1500,)), place.actor("redisson")
    a.take(place.name, kind)
    time.sleep(0.7)
    assert a.left(place.name, kind) > 0
    forced = time.monotonic()
    assert b.force(place.name, kind) == "ok"
    until(lambda: a.left(place.name, kind) == 0, "it is told", 5)
    place.note(f"told after {milliseconds(forced, time.monotonic())} ms, lease 1500")
    assert a.release(place.name, kind) == "lost"


@pytest.mark.parametrize("waiter", LIBRARIES)
@pytest.mark.parametrize("held,wanted", [("mutex", "mutex"), ("fair", "fair"), ("writer", "reader")])
def test_kept(place, waiter, held, wanted):
    """What stays taken for a while after its release (--at-least) is free then, and not at the end of the lease that a
    waiter saw."""
    b = place.actor(waiter)
    options = {"fair": ["--fair"], "writer": ["-x"]}.get(held, [])
    start = time.monotonic()
    run = place.begin("run", *options, "--at-least", "2500ms", place.name, "sleep", "0.5")
    until(lambda: place.redis.exists(place.name), "it is held")
    waiting = b.start(place.name, wanted, 60000, LEASE_MS)
    assert run.wait(20) == 0
    assert not waiting.done()
    waiting.ok(15)
    place.note(f"free after {milliseconds(start, waiting.came)} ms of 2500")
    assert 2.3 < waiting.came - start < 8
    b.give(place.name, wanted)


@pytest.mark.parametrize("waiter", LIBRARIES)
def test_spin_lock(place, waiter):
    """Redisson's spin lock tells nobody of its release: who waits comes in at the end of the lease that it saw."""
    a, b = place.actor("redisson"), place.actor(waiter)
    a.take(place.name, "spin", 0, 3000)
    waiting = b.start(place.name, "mutex", 60000, LEASE_MS)
    time.sleep(0.3)
    a.give(place.name, "spin")
    start = time.monotonic()
    waiting.ok(10)
    place.note(f"in {milliseconds(start, waiting.came)} ms after a release that nobody was told of, lease 3000")
    assert a.acquire(place.name, "spin", 0, LEASE_MS) == "busy"
    b.give(place.name, "mutex")
    a.take(place.name, "spin", 0, LEASE_MS)
    a.give(place.name, "spin")


ODD = ["a{b}c", "{tag}", "colon:{x}:y", "100%-%s", "Gr\u00fc\u00dfe", "quote'\"\\"]


@pytest.mark.parametrize("first,second", [("holdfast", "redisson"), ("redisson", "holdfast")])
@pytest.mark.parametrize("odd", ODD, ids=["braces", "tag", "colons", "percents", "utf8", "quotes"])
def test_odd_names(place, first, second, odd):
    """The same name is the same keys and channels, whatever is in it."""
    a, b = place.actor(first), place.actor(second)
    for held, wanted in KINDS:
        name = f"{place.name}-{odd}-{held}-{wanted}"
        a.take(name, held, 10000, LEASE_MS)
        assert b.acquire(name, wanted, 0, LEASE_MS) == "busy"
        waiting = b.start(name, wanted, 60000, LEASE_MS)
        time.sleep(0.15)
        a.give(name, held)
        waiting.ok(SOON)
        b.give(name, wanted)
        place.redis.delete(name)


def test_prefix(place):
    """With ?prefix= a name is what Redisson finds behind the prefix."""
    a, b = place.actor("holdfast", url="?prefix=app:"), place.actor("redisson")
    for kind in ("mutex", "fair", "writer", "semaphore:1"):
        name = place.name + kind[:3]
        a.take(name, kind, 0, LEASE_MS)
        waiting = b.start("app:" + name, kind, 60000, LEASE_MS)
        time.sleep(0.2)
        assert not waiting.done()
        a.give(name, kind)
        waiting.ok(SOON)
        assert a.acquire(name, kind, 0, LEASE_MS) == "busy"
        waiting = a.start(name, kind, 60000, LEASE_MS)
        time.sleep(0.2)
        b.give("app:" + name, kind)
        waiting.ok(SOON)
        a.give(name, kind)


@pairs
def test_reentrant_holder(place, first, second):
    """A holder that took it twice holds it until it gave it back twice, whoever waits beside."""
    a, b = place.actor(first), place.actor(second)
    a.take(place.name, "mutex", 0, LEASE_MS)
    a.take(place.name, "mutex", 0, LEASE_MS)
    waiting = b.start(place.name, "mutex", 60000, LEASE_MS)
    time.sleep(0.3)
    a.give(place.name, "mutex")
    time.sleep(0.3)
    assert not waiting.done()
    a.give(place.name, "mutex")
    waiting.ok(SOON)
    b.give(place.name, "mutex")


@pairs
def test_many_in_turn(place, first, second):
    """Twelve owners of both take turns at a folder that only one may be in."""
    one, other = place.client(first), place.client(second)
    loops = [client.actor(f"t{i}").loop(place.name, "mutex", -1, LEASE_MS, ROUNDS, 5, place.folder())
             for i in range(6) for client in (one, other)]
    for loop in loops:
        assert loop.wait(LOOPS) == ["ok", str(ROUNDS), "0", "0"]


@pytest.mark.parametrize("first,second", [("holdfast", "redisson"), ("redisson", "holdfast")])
def test_killed_holder(place, first, second):
    """A holder that is killed (or, in Java, whose client is shut down) blocks nobody for longer than its lease."""
    a = place.client(first, own=first == "holdfast", options=(2000,))
    b = place.actor(second)
    a.actor().take(place.name, "mutex")
    waiting = b.start(place.name, "mutex", 60000, LEASE_MS)
    time.sleep(0.3)
    killed = time.monotonic()
    a.kill() if first == "holdfast" else a.close()
    place.clients.remove(a)
    waiting.ok(20)
    place.note(f"free {milliseconds(killed, waiting.came)} ms after its end, lease 2000")
    assert waiting.came - killed < 10
    b.give(place.name, "mutex")


@pairs
def test_leftovers(place, first, second):
    """What stays in the store afterwards has an end, but for what Redisson itself leaves without one."""
    a, b = place.actor(first), place.actor(second)
    for held, wanted in KINDS:
        name = f"{place.name}-{held.replace(':', '')}-{wanted.replace(':', '')}"
        a.take(name, held, 0, LEASE_MS)
        waiting = b.start(name, wanted, 60000, LEASE_MS)
        time.sleep(0.1)
        a.give(name, held)
        waiting.ok()
        b.give(name, wanted)
    until(lambda: not endless(place), "nothing without an end is left")
    place.note(f"{len(place.server.keys(place.name))} keys left, each with a TTL")


def endless(place):
    """Keys without a TTL, but for the tokens and the counters of semaphores, which Redisson keeps for ever."""
    return [key for key, ttl in place.server.keys(place.name).items()
            if ttl == -1 and not key.startswith("redisson_lock_token:") and not is_counter(place, key)]


def is_counter(place, key):
    return "semaphore" in key and place.redis.type(key) == b"string"
