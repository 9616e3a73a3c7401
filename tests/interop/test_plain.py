# SPDX-License-Identifier: MIT
"""?layout=plain beside the libraries that lock by SET NX PX. None of them is told of a release: each asks again and
again."""
import time

import pytest

from agents import LOOPS, ROUNDS, until
from conftest import milliseconds
from test_layout import broken, claims, listed

PEERS = ("redis-py", "node-redlock", "redsync", "redislock")
# Holdfast beside each, and a ring of the others, which shows what they do beside each other.
PAIRS = [pair for peer in PEERS for pair in (("holdfast", peer), (peer, "holdfast"))]
PAIRS += [(peer, PEERS[(i + 1) % len(PEERS)]) for i, peer in enumerate(PEERS)] + [("holdfast", "holdfast")]
LEASE_MS = 30000
PLAIN = "?layout=plain"

pairs = pytest.mark.parametrize("first,second", PAIRS, ids=["+".join(pair) for pair in PAIRS])


def two(place, first, second):
    return (place.actor(library, url=PLAIN) for library in (first, second))


@pairs
def test_excludes(place, first, second):
    a, b = two(place, first, second)
    a.take(place.name, "mutex", 0, LEASE_MS)
    assert place.redis.type(place.name) == b"string"
    assert 0 < place.redis.pttl(place.name) <= LEASE_MS
    assert b.acquire(place.name, "mutex", 0, LEASE_MS) == "busy"
    assert b.acquire(place.name, "mutex", 300, LEASE_MS) == "busy"
    a.give(place.name, "mutex")
    assert not place.redis.exists(place.name)
    b.take(place.name, "mutex", 0, LEASE_MS)
    assert a.acquire(place.name, "mutex", 0, LEASE_MS) == "busy"
    b.give(place.name, "mutex")


@pairs
def test_waits(place, first, second):
    a, b = two(place, first, second)
    a.take(place.name, "mutex", 0, LEASE_MS)
    waiting = b.start(place.name, "mutex", 20000, LEASE_MS)
    time.sleep(0.5)
    assert not waiting.done()
    released = time.monotonic()
    a.give(place.name, "mutex")
    waiting.ok(10)
    place.note(f"in after {milliseconds(released, waiting.came)} ms")
    b.give(place.name, "mutex")


@pairs
def test_expires(place, first, second):
    """The late release of who lost the lock leaves the next one's alone."""
    a, b = two(place, first, second)
    before = time.monotonic()
    a.take(place.name, "mutex", 0, 1500)
    waiting = b.start(place.name, "mutex", 20000, LEASE_MS)
    waiting.ok(20)
    assert waiting.came - before >= 1.4
    place.note(f"in after {milliseconds(before, waiting.came)} ms of 1500")
    token = place.redis.get(place.name)
    assert a.release(place.name, "mutex") == "lost"
    assert place.redis.get(place.name) == token
    b.give(place.name, "mutex")


@pytest.mark.parametrize("peer", PEERS)
def test_watchdog(place, peer):
    """Holdfast renews a plain lock as well, and a renewal leaves the value alone."""
    a, b = place.actor("holdfast", url=PLAIN, options=(1500,)), place.actor(peer)
    a.take(place.name, "mutex")
    token = place.redis.get(place.name)
    assert b.acquire(place.name, "mutex", 4000, LEASE_MS) == "busy"
    assert place.redis.get(place.name) == token
    a.give(place.name, "mutex")
    b.take(place.name, "mutex", 2000, LEASE_MS)
    b.give(place.name, "mutex")


@pytest.mark.parametrize("peer", PEERS)
def test_is_shown_and_broken(place, peer):
    """The command shows their locks in both layouts, by the look of the token, and breaks them."""
    a, b = two(place, peer, "holdfast")
    for query in (PLAIN, ""):
        a.take(place.name, "mutex", 0, LEASE_MS)
        row = listed(place, query)[place.name]
        assert (row["kind"], row["held"]) == ("mutex", 1)
        claim, = claims(place, query)
        assert claim["state"] == "held" and 0 < claim["left_ms"] <= LEASE_MS
        broken(place, query=query)
        assert not place.redis.exists(place.name)
        b.take(place.name, "mutex", 0, LEASE_MS)
        assert a.release(place.name, "mutex") == "lost"
        b.give(place.name, "mutex")


@pytest.mark.parametrize("peer", PEERS)
def test_turns(place, peer):
    """Six owners of both in a folder that only one may be in."""
    one, other = place.client("holdfast", url=PLAIN), place.client(peer)
    folder = place.folder()
    loops = [client.actor(f"t{i}").loop(place.name, "mutex", 60000, LEASE_MS, ROUNDS, 4, folder)
             for i in range(3) for client in (one, other)]
    for loop in loops:
        assert loop.wait(LOOPS) == ["ok", str(ROUNDS), "0", "0"]
    until(lambda: not place.redis.exists(place.name), "the lock is free")
    assert not [key for key, ttl in place.server.keys(place.name).items() if ttl == -1], "something is left for ever"
