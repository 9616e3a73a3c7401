# SPDX-License-Identifier: MIT
"""Readers and writers of both libraries beside each other."""
import itertools
import time

import pytest

from agents import LOOPS, ROUNDS, until
from conftest import milliseconds, sleep_until
from test_kinds import LEASE_MS, LIBRARIES, SOON, pairs


@pytest.mark.parametrize("writer", LIBRARIES)
@pytest.mark.parametrize("last", LIBRARIES)
def test_readers_together(place, writer, last):
    """Four readers at once; the writer comes in when the last of them leaves."""
    readers = [place.actor(library) for library in sorted(LIBRARIES * 2, key=lambda library: library == last)]
    w = place.actor(writer)
    for reader in readers:
        reader.take(place.name, "reader", 0, LEASE_MS)
    waiting = w.start(place.name, "writer", 60000, LEASE_MS)
    for reader in readers:
        time.sleep(0.2)
        assert not waiting.done()
        released = time.monotonic()
        reader.give(place.name, "reader")
    waiting.ok(SOON)
    place.note(f"writer in after {milliseconds(released, waiting.came)} ms")
    for reader in readers:
        assert reader.acquire(place.name, "reader", 0, LEASE_MS) == "busy"
    w.give(place.name, "writer")
    until(lambda: not place.redis.exists(place.name), "the lock is free")
    assert not [key for key in place.server.keys(place.name) if "rwlock_timeout" in key], "a reader's life is left"


@pytest.mark.parametrize("writer", LIBRARIES)
def test_readers_come_in_together(place, writer):
    """When the writer leaves, all readers that wait come in, of both."""
    w = place.actor(writer)
    clients = [place.client(library) for library in LIBRARIES]
    readers = [client.actor(f"r{i}") for client, i in itertools.product(clients, range(3))]
    w.take(place.name, "writer", 0, LEASE_MS)
    answers = [reader.start(place.name, "reader", 60000, LEASE_MS) for reader in readers]
    time.sleep(0.5)
    assert not any(answer.done() for answer in answers)
    released = time.monotonic()
    w.give(place.name, "writer")
    for answer in answers:
        answer.ok(SOON)
    place.note(f"6 readers in after {max(milliseconds(released, answer.came) for answer in answers)} ms")
    for reader in readers:
        reader.give(place.name, "reader")


@pytest.mark.parametrize("reader", LIBRARIES)
def test_holdfast_downgrades(place, reader):
    """A writer of Holdfast becomes a reader: readers come in, and no writer does."""
    a, r, w = place.actor("holdfast"), place.actor(reader), place.actor(reader)
    a.take(place.name, "writer", 0, LEASE_MS)
    a.take(place.name, "reader", 0, LEASE_MS)
    wants_read = r.start(place.name, "reader", 60000, LEASE_MS)
    time.sleep(0.2)  # a reader that comes after a writer stands behind it
    wants_write = w.start(place.name, "writer", 60000, LEASE_MS)
    time.sleep(0.2)
    assert not wants_read.done()
    released = time.monotonic()
    a.give(place.name, "writer")
    wants_read.ok(SOON)
    place.note(f"reader in after {milliseconds(released, wants_read.came)} ms")
    assert not wants_write.done()
    r.give(place.name, "reader")
    time.sleep(0.2)
    assert not wants_write.done()
    a.give(place.name, "reader")
    wants_write.ok(SOON)
    w.give(place.name, "writer")


@pytest.mark.parametrize("reader", LIBRARIES)
def test_redisson_downgrades(place, reader):
    """Redisson tells nobody of its downgrade: a reader that waits comes in when the lease that it saw is over, at the
    latest; one that comes later, at once."""
    a, r, late = place.actor("redisson"), place.actor(reader), place.actor(reader)
    a.take(place.name, "writer", 0, 4000)
    a.take(place.name, "reader", 0, 4000)
    waits = r.start(place.name, "reader", 60000, LEASE_MS)
    time.sleep(0.3)
    released = time.monotonic()
    a.give(place.name, "writer")
    late.take(place.name, "reader", 0, LEASE_MS)
    waits.ok(10)
    place.note(f"the reader that waited is in after {milliseconds(released, waits.came)} ms of a lease of 4000")
    assert place.actor("holdfast").acquire(place.name, "writer", 0, LEASE_MS) == "busy"
    r.give(place.name, "reader")
    late.give(place.name, "reader")


@pytest.mark.parametrize("writer", LIBRARIES)
@pairs
def test_dead_reader(place, first, second, writer):
    """A reader that is silent keeps writers out until its lease ends, and not until the end of a longer one that was
    given back before."""
    silent, other, w = place.actor(first), place.actor(second), place.actor(writer)
    silent.take(place.name, "reader", 0, 2500)
    taken = time.monotonic()
    other.take(place.name, "reader", 0, LEASE_MS)
    assert w.acquire(place.name, "writer", 0, LEASE_MS) == "busy"
    other.give(place.name, "reader")
    waiting = w.start(place.name, "writer", 60000, LEASE_MS)
    waiting.ok(15)
    place.note(f"writer in {milliseconds(taken, waiting.came)} ms after a reader with a lease of 2500")
    assert 2.4 <= waiting.came - taken < 10
    w.give(place.name, "writer")


def test_reader_survives_a_shorter_watchdog(place):
    """The watchdog of a Redisson reader cuts the time of the whole lock to its own; a reader of Holdfast with a
    longer lease sees to it that its own time stands."""
    ours = place.actor("holdfast")
    theirs = place.client("redisson", options=(3000,))
    w = place.actor("redisson")
    ours.take(place.name, "reader", 0, 6000)
    taken = time.monotonic()
    theirs.actor().take(place.name, "reader")
    sleep_until(taken + 1.5)
    theirs.close()
    place.clients.remove(theirs)
    sleep_until(taken + 5.3)
    left = ours.left(place.name, "reader")
    assert left > 0, "it was lost"
    assert w.acquire(place.name, "writer", 0, LEASE_MS) == "busy"
    w.take(place.name, "writer", 10000, LEASE_MS)
    assert time.monotonic() - taken >= 5.9
    w.give(place.name, "writer")


@pairs
def test_crowd(place, first, second):
    """Readers and writers of both in a folder that only readers share."""
    one, other = place.client(first), place.client(second)
    folder = place.folder()
    loops = [client.actor(f"{kind}{i}").loop(place.name, kind, -1, LEASE_MS, ROUNDS, 4, folder)
             for kind, count in (("reader", 3), ("writer", 2)) for i in range(count) for client in (one, other)]
    for loop in loops:
        assert loop.wait(LOOPS) == ["ok", str(ROUNDS), "0", "0"]
