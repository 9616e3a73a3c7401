# SPDX-License-Identifier: MIT
"""Beyond one server: Redisson's RedLock over five servers, Redisson beside Sentinels and in a cluster, and node-redlock
and redsync over the same five. Who holds, blocks; who gives back, wakes; what expires, is free."""
import time

import pytest

from agents import LOOPS, ROUNDS
from conftest import milliseconds

PAIRS = [("redisson", "holdfast"), ("holdfast", "redisson"), ("holdfast", "holdfast")]
MAJORITY_KINDS = [("mutex", "mutex"), ("writer", "reader"), ("reader", "writer")]
KINDS = MAJORITY_KINDS + [("fenced", "fenced"), ("fair", "fair"), ("semaphore:3:3", "semaphore:3:2")]
SEVERAL = ["redlock", "sentinel", "cluster"]
CASES = [(several, *kinds) for several in SEVERAL for kinds in (MAJORITY_KINDS if several == "redlock" else KINDS)]
PLAIN_PEERS = ("node-redlock", "redsync")
PLAIN_PAIRS = [pair for peer in PLAIN_PEERS for pair in (("holdfast", peer), (peer, "holdfast"))]
LEASE_MS = 30000
SOON = 5  # seconds: far below the lease, far above a hand-over

pairs = pytest.mark.parametrize("first,second", PAIRS, ids=["-".join(pair) for pair in PAIRS])
plain_pairs = pytest.mark.parametrize("first,second", PLAIN_PAIRS, ids=["-".join(pair) for pair in PLAIN_PAIRS])
cases = pytest.mark.parametrize("several,held,wanted", CASES,
                                ids=[f"{several}-{held}+{wanted}" for several, held, wanted in CASES])


def two(place, several, first, second, kind):
    at, query = place.world.arrangement(several), "?fence=redisson" if kind == "fenced" else ""
    return place.actor(first, url=query, at=at), place.actor(second, url=query, at=at)


def two_plain(place, first, second):
    at = place.world.arrangement("redlock")
    return place.actor(first, url="?layout=plain", at=at), place.actor(second, url="?layout=plain", at=at)


def handed_over(place, a, b, held, wanted):
    """The first holds it; the second waits, and comes in when it is given back."""
    a.take(place.name, held, 0, LEASE_MS)
    assert b.acquire(place.name, wanted, 0, LEASE_MS) == "busy"
    waiting = b.start(place.name, wanted, 60000, LEASE_MS)
    time.sleep(0.4)
    assert not waiting.done()
    released = time.monotonic()
    a.give(place.name, held)
    waiting.ok(SOON)
    place.note(f"in after {milliseconds(released, waiting.came)} ms")
    assert a.acquire(place.name, held, 0, LEASE_MS) == "busy"
    b.give(place.name, wanted)


@pairs
@cases
def test_excludes_and_wakes(place, several, first, second, held, wanted):
    a, b = two(place, several, first, second, held)
    handed_over(place, a, b, held, wanted)
    a.take(place.name, held, 10000, LEASE_MS)
    a.give(place.name, held)


@pytest.mark.parametrize("several", SEVERAL)
@pytest.mark.parametrize("first,second", [("redisson", "holdfast"), ("holdfast", "redisson")])
def test_expires(place, several, first, second):
    a, b = two(place, several, first, second, "mutex")
    before = time.monotonic()
    a.take(place.name, "mutex", 0, 1500)
    waiting = b.start(place.name, "mutex", 60000, LEASE_MS)
    waiting.ok(20)
    assert waiting.came - before >= 1.4
    place.note(f"free after {milliseconds(before, waiting.came)} ms of a lease of 1500")
    a.release(place.name, "mutex")  # RedLock's own release tells nobody that it was late
    assert a.acquire(place.name, "mutex", 0, LEASE_MS) == "busy"
    b.give(place.name, "mutex")


@pytest.mark.parametrize("several", SEVERAL)
def test_turns(place, several):
    """Six owners of both in a folder that only one may be in."""
    at, folder = place.world.arrangement(several), place.folder()
    one, other = place.client("holdfast", at=at), place.client("redisson", at=at)
    loops = [client.actor(f"t{i}").loop(place.name, "mutex", -1, LEASE_MS, ROUNDS, 4, folder)
             for i in range(3) for client in (one, other)]
    for loop in loops:
        assert loop.wait(LOOPS) == ["ok", str(ROUNDS), "0", "0"]


@pytest.mark.parametrize("first,second", [("redisson", "holdfast"), ("holdfast", "redisson")])
@pytest.mark.parametrize("kind", ["mutex", "fair", "writer"])
def test_cluster_by_classic_messages(place, first, second, kind):
    """Redisson that publishes by PUBLISH, as it does when it is told not to shard, and as its older versions do."""
    at = place.world.arrangement("cluster")
    clients = {"holdfast": place.client("holdfast", at=at)}
    clients["redisson"] = place.client("redisson", at=at, query="?classic")
    handed_over(place, clients[first].actor(), clients[second].actor(), kind, kind)


@plain_pairs
def test_plain_excludes(place, first, second):
    handed_over(place, *two_plain(place, first, second), "mutex", "mutex")


@pytest.mark.parametrize("peer", PLAIN_PEERS)
def test_plain_turns(place, peer):
    at, folder = place.world.arrangement("redlock"), place.folder()
    one, other = place.client("holdfast", url="?layout=plain", at=at), place.client(peer, at=at)
    loops = [client.actor(f"t{i}").loop(place.name, "mutex", 60000, LEASE_MS, ROUNDS, 4, folder)
             for i in range(2) for client in (one, other)]
    for loop in loops:
        assert loop.wait(LOOPS) == ["ok", str(ROUNDS), "0", "0"]
