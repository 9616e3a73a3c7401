# SPDX-License-Identifier: MIT
"""Fences beside RFencedLock's tokens: each is above all that were given before, whichever library gave them."""
import pytest

from agents import LOOPS, ROUNDS
from test_kinds import LEASE_MS, pairs


def token_key(place):
    return f"redisson_lock_token:{{{place.name}}}"


def grant(place, actor):
    fence = actor.take(place.name, "fenced", 10000, LEASE_MS)
    actor.give(place.name, "fenced")
    return fence


@pairs
def test_counted(place, first, second):
    """With ?fence=redisson the tokens are 1, 2, 3, ..., and the counter is kept for ever."""
    a, b = (place.actor(library, url="?fence=redisson") for library in (first, second))
    assert [grant(place, actor) for actor in (a, b, b, a, b, a)] == [1, 2, 3, 4, 5, 6]
    assert place.redis.get(token_key(place)) == b"6"
    assert place.redis.ttl(token_key(place)) == -1


@pairs
def test_clock(place, first, second):
    """Without it Holdfast's fences come from the server's clock; Redisson counts on from there."""
    a, b = (place.actor(library) for library in (first, second))
    fences = [grant(place, actor) for actor in (a, b, b, a, b, a)]
    assert fences == sorted(set(fences)), fences
    place.note(f"{fences[0]} ... {fences[-1]}")


def test_beside_a_lock_without_tokens(place):
    """A holder through Redisson's plain lock draws no number; ours before and after it differ all the same."""
    ours, theirs = place.actor("holdfast", url="?fence=redisson"), place.actor("redisson")
    fences = []
    for _ in range(3):
        fences.append(grant(place, ours))
        theirs.take(place.name, "mutex", 0, LEASE_MS)
        theirs.give(place.name, "mutex")
    assert fences == [1, 2, 3]


@pairs
def test_busy_draws_none(place, first, second):
    a, b = (place.actor(library, url="?fence=redisson") for library in (first, second))
    a.take(place.name, "fenced", 0, LEASE_MS)
    for _ in range(3):
        assert b.acquire(place.name, "fenced", 0, LEASE_MS) == "busy"
    assert place.redis.get(token_key(place)) == b"1"
    a.give(place.name, "fenced")


@pytest.mark.parametrize("url", ["?fence=redisson", ""], ids=["counted", "clock"])
@pairs
def test_crowd(place, first, second, url):
    """The fence is checked inside, where only one is: eight owners of both."""
    one, other = (place.client(library, url=url) for library in (first, second))
    folder = place.folder()
    loops = [client.actor(f"t{i}").loop(place.name, "fenced", -1, LEASE_MS, ROUNDS, 2, folder)
             for i in range(4) for client in (one, other)]
    for loop in loops:
        assert loop.wait(LOOPS) == ["ok", str(ROUNDS), "0", "0"]
