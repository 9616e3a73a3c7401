# SPDX-License-Identifier: MIT
"""Semaphores, whose permits both libraries take."""
import time

import pytest

from agents import LOOPS, ROUNDS, until
from conftest import milliseconds
from test_kinds import LEASE_MS, LIBRARIES, SOON, pairs

LIMIT = 3


def kind(weight=1, limit=LIMIT):
    return f"semaphore:{limit}:{weight}"


def free(place):
    return int(place.redis.get(place.name) or 0)


def taken(place):
    return place.redis.zcard(f"{{{place.name}}}:timeout")


@pairs
def test_counts(place, first, second):
    """Three permits, by ones and twos; who waits gets what the other gives back."""
    a, b, c = place.actor(first), place.actor(second), place.actor(second)
    a.take(place.name, kind(2), 0, LEASE_MS)
    b.take(place.name, kind(1), 0, LEASE_MS)
    assert (free(place), taken(place)) == (0, 3)
    assert a.acquire(place.name, kind(1), 0, LEASE_MS) == "busy"
    assert c.acquire(place.name, kind(1), 300, LEASE_MS) == "busy"
    waiting = c.start(place.name, kind(2), 60000, LEASE_MS)
    time.sleep(0.2)
    b.give(place.name, kind(1))
    time.sleep(0.3)
    assert not waiting.done(), "one permit is not two"
    released = time.monotonic()
    a.give(place.name, kind(2))
    waiting.ok(SOON)
    place.note(f"in after {milliseconds(released, waiting.came)} ms")
    b.take(place.name, kind(1), 0, LEASE_MS)
    assert (free(place), taken(place)) == (0, 3)
    c.give(place.name, kind(2))
    b.give(place.name, kind(1))
    assert (free(place), taken(place)) == (3, 0)


@pairs
def test_all_come_in(place, first, second):
    """Three permits come free at once, and three that wait, of both, come in."""
    a = place.actor(first)
    waiting = [place.actor(library) for library in (second, first, second)]
    a.take(place.name, kind(3), 0, LEASE_MS)
    answers = [actor.start(place.name, kind(1), 60000, LEASE_MS) for actor in waiting]
    time.sleep(0.5)
    released = time.monotonic()
    a.give(place.name, kind(3))
    for answer in answers:
        answer.ok(SOON)
    place.note(f"3 in after {max(milliseconds(released, answer.came) for answer in answers)} ms")
    for actor in waiting:
        actor.give(place.name, kind(1))
    assert (free(place), taken(place)) == (3, 0)


@pairs
def test_permits_come_back(place, first, second):
    """Permits whose lease is over are given to the other, and a late release adds none."""
    a, b = place.actor(first), place.actor(second)
    a.take(place.name, kind(3), 0, 1500)
    start = time.monotonic()
    b.take(place.name, kind(2), 20000, LEASE_MS)
    place.note(f"in after {milliseconds(start, time.monotonic())} ms of 1500")
    assert a.release(place.name, kind(3)) == "lost"
    assert free(place) + taken(place) == 3
    b.give(place.name, kind(2))
    until(lambda: free(place) == 3 and taken(place) == 0, "all permits are back")


def test_killed_holder(place):
    """The permits of a client of Holdfast that was killed come back; those of Redisson without a lease never would."""
    dead = place.client("holdfast", own=True, options=(2000,))
    dead.actor().take(place.name, kind(3))
    b = place.actor("redisson")
    assert b.acquire(place.name, kind(1), 3500, LEASE_MS) == "busy", "it is renewed"
    killed = time.monotonic()
    dead.kill()
    place.clients.remove(dead)
    b.take(place.name, kind(3), 20000, LEASE_MS)
    place.note(f"in {milliseconds(killed, time.monotonic())} ms after its end, lease 2000")
    b.give(place.name, kind(3))
    assert (free(place), taken(place)) == (3, 0)


def test_other_limit_is_refused(place):
    """A name that Redisson uses with three permits is in use with three."""
    a, b = place.actor("redisson"), place.actor("holdfast")
    a.take(place.name, kind(1), 0, LEASE_MS)
    words = b.start(place.name, kind(1, 5), 0, LEASE_MS).wait()
    assert words[:2] == ["failed", "HF_ECONFLICT"]
    assert (free(place), taken(place)) == (2, 1)
    a.give(place.name, kind(1))


@pytest.mark.parametrize("held,wanted",
                         [("mutex", "writer"), ("writer", "mutex"), ("mutex", kind()), (kind(), "mutex")])
@pytest.mark.parametrize("holder", LIBRARIES)
def test_other_kind_is_refused(place, holder, held, wanted):
    """A name that is in use as another kind is left as it is."""
    a, b = place.actor(holder), place.actor("holdfast")
    a.take(place.name, held, 0, LEASE_MS)
    before = place.redis.dump(place.name)
    words = b.start(place.name, wanted, 0, LEASE_MS).wait()
    assert words[:2] == ["failed", "HF_ECONFLICT"], words
    assert place.redis.dump(place.name) == before
    a.give(place.name, held)


@pairs
def test_crowd(place, first, second):
    """Owners of both with one permit or two in a folder that holds three."""
    one, other = place.client(first), place.client(second)
    folder = place.folder()
    loops = [client.actor(f"t{i}").loop(place.name, kind(weight), -1, LEASE_MS, ROUNDS, 4, folder)
             for i, weight in enumerate((1, 1, 2, 2)) for client in (one, other)]
    for loop in loops:
        assert loop.wait(LOOPS) == ["ok", str(ROUNDS), "0", "0"]
    assert (free(place), taken(place)) == (3, 0)
