# SPDX-License-Identifier: MIT
"""What live Redisson clients lay out: that it is what test_layout.py lays out by hand, and that the command shows and
breaks it."""
import re
import time

from agents import until
from test_fair import join
from test_kinds import LEASE_MS, SOON
from test_layout import broken, claims, listed, prefix, run, suffix

JAVA_OWNER = rb"[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}:[0-9]+"


def only_owner(place):
    (field, count), = place.redis.hgetall(place.name).items()
    assert re.fullmatch(JAVA_OWNER, field), field
    return count


def test_keys_of_a_mutex(place):
    a = place.actor("redisson")
    a.take(place.name, "fenced", 0, LEASE_MS)
    assert only_owner(place) == b"1"
    assert place.redis.get(prefix("redisson_lock_token", place.name)) == b"1"
    assert 0 < place.redis.pttl(place.name) <= LEASE_MS
    a.take(place.name, "fenced", 0, LEASE_MS)
    assert only_owner(place) == b"2"
    assert len(claims(place)) == 1
    a.give(place.name, "fenced")
    a.give(place.name, "fenced")
    assert claims(place) == []


def test_keys_of_a_fair_queue(place):
    a, b, c = (place.actor("redisson") for _ in range(3))
    a.take(place.name, "fair", 0, LEASE_MS)
    waiters = [(actor, join(place, actor)) for actor in (b, c)]
    queue = place.redis.lrange(prefix("redisson_lock_queue", place.name), 0, -1)
    times = place.redis.zrange(prefix("redisson_lock_timeout", place.name), 0, -1)
    assert queue == times and all(re.fullmatch(JAVA_OWNER, owner) for owner in queue) and len(queue) == 2
    shown = claims(place)
    assert [(claim["state"], claim["place"]) for claim in shown] == [("held", None), ("waiting", 1), ("waiting", 2)]
    row = listed(place)[place.name]
    assert (row["kind"], row["held"], row["waiting"]) == ("mutex", 1, 2)
    broken(place)
    for actor, answer in waiters:
        answer.ok(SOON)
        actor.give(place.name, "fair")
    assert a.release(place.name, "fair") in ("lost", "ok"), "Redisson lets who is late release a fair lock that is gone"


def test_keys_of_readers_and_writer(place):
    a, b = place.actor("redisson"), place.actor("redisson")
    a.take(place.name, "reader", 0, LEASE_MS)
    a.take(place.name, "reader", 0, LEASE_MS)
    b.take(place.name, "reader", 0, LEASE_MS)
    fields = place.redis.hgetall(place.name)
    assert fields.pop(b"mode") == b"read"
    assert sorted(fields.values()) == [b"1", b"2"] and all(re.fullmatch(JAVA_OWNER, owner) for owner in fields)
    for owner, count in fields.items():
        for i in range(1, int(count) + 1):
            assert place.redis.get(suffix(place.name, f"{owner.decode()}:rwlock_timeout:{i}")) == b"1"
    assert [(claim["state"], claim["mode"]) for claim in claims(place)] == [("held", "shared")] * 2
    for actor in (a, a, b):
        actor.give(place.name, "reader")
    a.take(place.name, "writer", 0, LEASE_MS)
    fields = place.redis.hgetall(place.name)
    assert fields.pop(b"mode") == b"write"
    (owner, count), = fields.items()
    assert re.fullmatch(JAVA_OWNER + b":write", owner) and count == b"1"
    assert [(claim["state"], claim["mode"]) for claim in claims(place)] == [("held", "exclusive")]
    broken(place)
    assert a.release(place.name, "writer") == "lost"


def test_keys_of_permits(place):
    a, b = place.actor("redisson"), place.actor("redisson")
    a.take(place.name, "semaphore:3:2", 0, LEASE_MS)
    b.take(place.name, "semaphore:3:1", 0, 0)
    times = place.redis.zrange(suffix(place.name, "timeout"), 0, -1, withscores=True)
    assert all(len(id) == 16 for id, _ in times) and len(times) == 3
    assert times[-1][1] == 922337203685477, "a permit without a lease"
    row = listed(place)[place.name]
    assert (row["kind"], row["held"], row["limit"]) == ("semaphore", 3, 3)
    waiting = place.actor("redisson")
    answer = waiting.start(place.name, "semaphore:3:3", 60000, LEASE_MS)
    time.sleep(0.3)
    assert not answer.done()
    broken(place)
    answer.ok(SOON)
    waiting.give(place.name, "semaphore:3:3")
    assert a.release(place.name, "semaphore:3:2") == "lost"


def test_broken_under_a_watchdog(place):
    """A lock of Redisson's that is broken while it is renewed: gone, not renewed again, and free for us."""
    a = place.actor("redisson", options=(1500,))
    a.take(place.name, "mutex")
    assert run(place).returncode == 75
    broken(place)
    assert run(place).returncode == 0
    b = place.actor("holdfast")
    b.take(place.name, "mutex", 0, LEASE_MS)
    time.sleep(1.2)
    assert place.redis.pttl(place.name) > 5000, "its watchdog left ours alone"
    assert a.release(place.name, "mutex") == "lost"
    assert place.redis.exists(place.name)
    b.give(place.name, "mutex")


def test_broken_claim_by_claim(place):
    """One of two readers is broken, and the other stays."""
    a, b = place.actor("redisson"), place.actor("holdfast")
    a.take(place.name, "reader", 0, LEASE_MS)
    b.take(place.name, "reader", 0, LEASE_MS)
    theirs, = [claim for claim in claims(place) if not claim["program"]]
    broken(place, "--claim", theirs["claim"])
    assert len(claims(place)) == 1
    assert run(place, "-x").returncode == 75
    b.give(place.name, "reader")
    until(lambda: run(place, "-x").returncode == 0, "it is free", 5)
