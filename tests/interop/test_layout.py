# SPDX-License-Identifier: MIT
"""Keys laid out by hand as Redisson and the plain libraries lay them out, and what Holdfast makes of them; and
Holdfast's own, looked at by hand. Needs no net: this is left where the libraries themselves cannot be had.
"""
import json
import re
import time

import pytest

from agents import until

JAVA = "6f1c1b0e-5b1f-4f4e-9f3a-0c8f5a1b2c3d"  # the id of a Redisson client: a UUID of version 4
OTHER = "2b7e9d64-0a55-4c0e-8b8f-7a1d3e5f9b10"
OWNER = re.compile(rb"^[0-9a-f]{8}-[0-9a-f]{4}-8[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}:[0-9]+$")
NEVER = 922337203685477
LEASE_MS = 30000
BUSY, REFUSED = 75, 69


class Heard:
    """What is published meanwhile, on every channel: [(channel, payload)]."""

    def __init__(self, redis):
        self.pubsub = redis.pubsub()
        self.pubsub.psubscribe("*")
        until(lambda: self.pubsub.get_message(timeout=0.1), "subscribed")
        self.messages = []

    def about(self, name):
        """Of Redisson's channels of that name."""
        message = self.pubsub.get_message(timeout=0.3)
        while message:
            self.messages.append((message["channel"].decode(), message["data"]))
            message = self.pubsub.get_message(timeout=0.1)
        return [(channel, data) for channel, data in self.messages
                if channel.startswith("redisson_") and name in channel]


@pytest.fixture
def heard(place):
    heard = Heard(place.redis)
    yield heard
    heard.pubsub.close()


def prefix(word, name):
    return f"{word}:{name}" if "{" in name else f"{word}:{{{name}}}"


def suffix(name, word):
    return f"{name}:{word}" if "{" in name else f"{{{name}}}:{word}"


def lay_mutex(place, holds=1):
    place.redis.hset(place.name, f"{JAVA}:7", holds)
    place.redis.pexpire(place.name, LEASE_MS)


def lay_readers(place):
    place.redis.hset(place.name, mapping={"mode": "read", f"{JAVA}:7": 2, f"{OTHER}:9": 1})
    for i in (1, 2):
        place.redis.set(suffix(place.name, f"{JAVA}:7:rwlock_timeout:{i}"), 1, px=LEASE_MS)
    place.redis.set(suffix(place.name, f"{OTHER}:9:rwlock_timeout:1"), 1, px=LEASE_MS)
    place.redis.pexpire(place.name, LEASE_MS)


def lay_writer(place):
    place.redis.hset(place.name, mapping={"mode": "write", f"{JAVA}:7:write": 1})
    place.redis.pexpire(place.name, LEASE_MS)


def lay_permits(place, limit=3, taken=2):
    place.redis.set(place.name, limit - taken)
    for i in range(taken):
        ends = time.time() * 1000 + LEASE_MS if i else NEVER
        place.redis.zadd(suffix(place.name, "timeout"), {bytes([0xC3, i] * 8): ends})


def lay_fair(place):
    lay_mutex(place)
    for i, owner in enumerate((f"{JAVA}:8", f"{OTHER}:3")):
        place.redis.rpush(prefix("redisson_lock_queue", place.name), owner)
        place.redis.zadd(prefix("redisson_lock_timeout", place.name), {owner: (time.time() + 300 + 300 * i) * 1000})


def claims(place, query=""):
    shown = place.command("show", "--json", place.name, query=query)
    assert shown.returncode == 0, shown.stderr
    return json.loads(shown.stdout)["claims"]


def listed(place, query=""):
    shown = place.command("ls", "--json", query=query)
    assert shown.returncode == 0, shown.stderr
    return {row["name"]: row for row in next(iter(json.loads(shown.stdout).values()))}


def run(place, *options, query=""):
    return place.command("run", "-n", *options, place.name, "--", "printenv", "HOLDFAST_FENCE", query=query)


def broken(place, *options, query=""):
    done = place.command("break", "--yes", *options, place.name, query=query)
    assert done.returncode == 0, done.stderr
    return done


# ---------------------------------------------------------------- theirs, read and broken by us


def test_their_mutex(place, heard):
    lay_mutex(place)
    row = listed(place)[place.name]
    assert (row["kind"], row["held"], row["waiting"]) == ("mutex", 1, 0)
    assert 0 < row["left_ms"] <= LEASE_MS
    claim, = claims(place)
    assert (claim["state"], claim["kind"], claim["mode"]) == ("held", "mutex", "exclusive")
    assert run(place).returncode == BUSY
    assert place.redis.hgetall(place.name) == {f"{JAVA}:7".encode(): b"1"}
    broken(place)
    assert not place.redis.exists(place.name)
    assert (prefix("redisson_lock__channel", place.name), b"0") in heard.about(place.name), "its waiters are told"
    assert run(place).returncode == 0


def test_their_mutex_held_twice(place):
    lay_mutex(place, holds=2)
    assert len(claims(place)) == 1
    assert run(place).returncode == BUSY
    broken(place)
    assert run(place).returncode == 0


def test_their_mutex_by_claim(place):
    lay_mutex(place)
    claim, = claims(place)
    broken(place, "--claim", claim["claim"])
    assert not place.redis.exists(place.name)


def test_their_mutex_without_an_end(place):
    """A key that somebody made PERSIST: still theirs, and broken as any other."""
    lay_mutex(place)
    place.redis.persist(place.name)
    assert run(place).returncode == BUSY
    assert claims(place)[0]["state"] == "held"
    broken(place)
    assert run(place).returncode == 0


def test_their_token(place):
    place.redis.set(prefix("redisson_lock_token", place.name), 41)
    done = run(place, query="?fence=redisson")
    assert (done.returncode, done.stdout) == (0, b"42\n")
    assert place.redis.get(prefix("redisson_lock_token", place.name)) == b"42"
    assert place.redis.ttl(prefix("redisson_lock_token", place.name)) == -1


def test_their_fair_queue(place, heard):
    lay_fair(place)
    row = listed(place)[place.name]
    assert (row["kind"], row["held"], row["waiting"]) == ("mutex", 1, 2)
    shown = claims(place)
    assert [claim["state"] for claim in shown] == ["held", "waiting", "waiting"]
    assert [claim["place"] for claim in shown[1:]] == [1, 2]
    assert run(place, "--fair").returncode == BUSY
    assert place.redis.llen(prefix("redisson_lock_queue", place.name)) == 2, "who does not wait leaves no place"
    broken(place)
    assert not place.redis.exists(place.name)
    head = prefix("redisson_lock__channel", place.name) + f":{JAVA}:8"
    assert (head, b"0") in heard.about(place.name), "the head is told"
    assert run(place, "--fair").returncode == BUSY, "the queue stands before us"


def test_their_waiter_is_broken(place):
    lay_fair(place)
    second = claims(place)[2]
    broken(place, "--claim", second["claim"])
    assert place.redis.lrange(prefix("redisson_lock_queue", place.name), 0, -1) == [f"{JAVA}:8".encode()]
    assert place.redis.zscore(prefix("redisson_lock_timeout", place.name), f"{OTHER}:3") is None
    assert place.redis.exists(place.name)


def test_their_dead_waiters(place):
    """Places whose time is over are taken out by whoever comes next."""
    lay_fair(place)
    place.redis.delete(place.name)
    for owner in (f"{JAVA}:8", f"{OTHER}:3"):
        place.redis.zadd(prefix("redisson_lock_timeout", place.name), {owner: (time.time() - 1) * 1000})
    assert run(place, "--fair").returncode == 0
    assert not place.redis.exists(prefix("redisson_lock_queue", place.name))
    assert not place.redis.exists(prefix("redisson_lock_timeout", place.name))


def test_their_readers(place, heard):
    lay_readers(place)
    row = listed(place)[place.name]
    assert (row["kind"], row["held"]) == ("rw", 2)
    assert [(claim["state"], claim["mode"]) for claim in claims(place)] == [("held", "shared")] * 2
    assert run(place, "-x").returncode == BUSY
    before = place.redis.hgetall(place.name)
    assert run(place, "-s").returncode == 0
    assert place.redis.hgetall(place.name) == before, "we came and went"
    assert place.redis.pttl(place.name) > LEASE_MS / 2
    broken(place)
    assert not place.redis.exists(place.name)
    assert heard.about(place.name)[-1][0] == prefix("redisson_rwlock", place.name)
    assert run(place, "-x").returncode == 0


def test_their_reader_is_broken(place):
    lay_readers(place)
    broken(place, "--claim", claims(place)[0]["claim"])
    left = place.redis.hgetall(place.name)
    assert len(left) == 2 and left[b"mode"] == b"read"
    assert run(place, "-x").returncode == BUSY
    broken(place, "--claim", claims(place)[0]["claim"])
    assert run(place, "-x").returncode == 0


def test_their_writer(place, heard):
    lay_writer(place)
    claim, = claims(place)
    assert (claim["state"], claim["kind"], claim["mode"]) == ("held", "rw", "exclusive")
    assert run(place, "-s").returncode == BUSY
    assert run(place, "-x").returncode == BUSY
    assert run(place).returncode == REFUSED, "in use as another kind"
    broken(place)
    assert (prefix("redisson_rwlock", place.name), b"1") in heard.about(place.name), "all readers are told"
    assert run(place, "-s").returncode == 0


def test_their_permits(place, heard):
    lay_permits(place)
    row = listed(place)[place.name]
    assert (row["kind"], row["held"], row["limit"]) == ("semaphore", 2, 3)
    assert {(claim["state"], claim["mode"]) for claim in claims(place)} == {("held", "counted")}
    assert run(place, "--permits", "3").returncode == 0
    assert run(place, "--permits", "3", "--weight", "2").returncode == BUSY
    assert run(place, "--permits", "4").returncode == REFUSED
    assert (place.redis.get(place.name), place.redis.zcard(suffix(place.name, "timeout"))) == (b"1", 2)
    broken(place)
    assert (place.redis.get(place.name), place.redis.zcard(suffix(place.name, "timeout"))) == (b"3", 0)
    said = [data for channel, data in heard.about(place.name) if channel == prefix("redisson_sc", place.name)]
    assert said and all(re.fullmatch(rb"[0-9]+", data) for data in said)


def test_their_permits_that_are_over(place):
    lay_permits(place, 3, 3)
    place.redis.zadd(suffix(place.name, "timeout"), {bytes([0xC3, 1] * 8): time.time() * 1000 - 1})
    assert run(place, "--permits", "3").returncode == 0
    assert (place.redis.get(place.name), place.redis.zcard(suffix(place.name, "timeout"))) == (b"1", 2)


def test_plain_lock(place):
    place.redis.set(place.name, "5f0c3a7a9c5f4c0d8e1b", px=LEASE_MS)
    query = "?layout=plain"
    assert listed(place, query)[place.name]["held"] == 1
    claim, = claims(place, query)
    assert claim["state"] == "held" and 0 < claim["left_ms"] <= LEASE_MS
    assert run(place, query=query).returncode == BUSY
    broken(place, query=query)
    assert not place.redis.exists(place.name)
    assert run(place, query=query).returncode == 0


def test_plain_lock_beside_redissons(place):
    """A value that is no lock of Redisson's is shown as what it may be, or not at all; it is never touched."""
    place.redis.set(place.name, "5f0c3a7a9c5f4c0d8e1b", px=LEASE_MS)
    assert run(place).returncode == REFUSED
    assert place.redis.get(place.name) == b"5f0c3a7a9c5f4c0d8e1b"


SHAPES = ("list", "set", "zset", "text", "number", "hash")
KINDS = {"mutex": [], "fair": ["--fair"], "reader": ["-s"], "writer": ["-x"], "semaphore": ["--permits", "3"]}
# A number is a semaphore of Redisson's, and a text a plain lock.
DATA = [(shape, kind, "") for shape in SHAPES for kind in KINDS if (shape, kind) != ("number", "semaphore")]
DATA += [(shape, "mutex", "?layout=plain") for shape in SHAPES if shape not in ("text", "number")]


@pytest.mark.parametrize("shape,kind,query", DATA, ids=["-".join(case) for case in DATA])
def test_data_is_not_touched(place, shape, kind, query):
    """A key that is no lock at all: refused, and left as it is."""
    {"list": lambda: place.redis.rpush(place.name, "a", "b"), "set": lambda: place.redis.sadd(place.name, "a"),
     "zset": lambda: place.redis.zadd(place.name, {"a": 1}), "text": lambda: place.redis.set(place.name, "hello"),
     "number": lambda: place.redis.set(place.name, 17),
     "hash": lambda: place.redis.hset(place.name, mapping={"user": "jane", "age": "40"})}[shape]()
    before = place.redis.dump(place.name)
    done = run(place, *KINDS[kind], query=query)
    assert done.returncode == REFUSED, done
    assert place.redis.dump(place.name) == before
    assert place.redis.ttl(place.name) == -1
    place.command("break", "--yes", place.name, query=query)
    assert place.redis.dump(place.name) == before, "break took what is no lock"


def test_their_leftovers(place):
    """What Redisson leaves behind is in nobody's way, and is no lock in a list."""
    name = place.name
    place.redis.set(prefix("redisson_unlock_latch", name) + ":4f0c4f0c4f0c4f0c4f0c4f0c4f0c4f0c", 1, px=20000)
    place.redis.set(suffix(name, f"{JAVA}:7:rwlock_timeout:1"), 1, px=20000)
    place.redis.set(prefix("redisson_lock_token", name), 5)
    assert [row for row in listed(place) if name in row] == []
    assert claims(place) == []
    assert run(place).returncode == 0
    assert run(place, "-x").returncode == 0


# ---------------------------------------------------------------- ours, as they would read it


NAMES = ["", "a{b}c", "with space", "100%", "a:b", "colon:{tag}:x"]


@pytest.mark.parametrize("odd", NAMES, ids=["plain", "tag", "space", "percent", "colon", "tags"])
def test_our_mutex(place, heard, odd):
    name = place.name = place.name + odd
    done = place.command("run", "-n", name, "-c", f"redis-cli -p {place.server.port} hgetall '{name}'; "
                         f"redis-cli -p {place.server.port} pttl '{name}'")
    assert done.returncode == 0, done.stderr
    field, count, ttl = done.stdout.split(b"\n")[:3]
    assert OWNER.match(field) and count == b"1"
    assert 0 < int(ttl) <= LEASE_MS
    assert not place.redis.exists(name)
    assert int(place.redis.get(prefix("redisson_lock_token", name))) > 1_700_000_000_000_000
    assert (prefix("redisson_lock__channel", name), b"0") in heard.about(place.name)


def test_our_mutex_is_handed_over_with_one_message(place, heard):
    """However many wait in Redisson: the shared channel says 0 once per release, never anything else."""
    for _ in range(3):
        assert run(place).returncode == 0
    assert [data for channel, data in heard.about(place.name)] == [b"0"] * 3


def test_our_fair_waiter(place):
    """The queue, the times and the lock are where a script of Redisson's looks for them."""
    a, b = place.actor("holdfast"), place.actor("holdfast")
    a.take(place.name, "fair", 0, LEASE_MS)
    waiting = b.start(place.name, "fair", 60000, LEASE_MS)
    queue, times = prefix("redisson_lock_queue", place.name), prefix("redisson_lock_timeout", place.name)
    owner, = until(lambda: place.redis.lrange(queue, 0, -1), "the waiter is in the queue")
    assert OWNER.match(owner)
    for _ in range(8):
        score = place.redis.zscore(times, owner)
        ahead = place.redis.pttl(place.name)
        assert score - time.time() * 1000 <= ahead + 5000 + 1000, "dead, it would hold up the queue for too long"
        assert score > time.time() * 1000
        time.sleep(0.5)
    a.give(place.name, "fair")
    waiting.ok()
    assert not place.redis.exists(queue) and not place.redis.exists(times)
    assert list(place.redis.hgetall(place.name).values()) == [b"1"]
    b.give(place.name, "fair")


def test_our_place_outlives_their_subtraction(place):
    """A waiter of Redisson's that has waited for long gets in, and takes its five minutes off the times of all behind
    it: ours is not taken for dead, and comes down to its own length afterwards."""
    queue, times = prefix("redisson_lock_queue", place.name), prefix("redisson_lock_timeout", place.name)
    lay_mutex(place)
    place.redis.rpush(queue, f"{OTHER}:3")
    place.redis.zadd(times, {f"{OTHER}:3": (time.time() + 100) * 1000})
    a = place.actor("holdfast")
    waiting = a.start(place.name, "fair", 60000, LEASE_MS)
    until(lambda: place.redis.llen(queue) == 2, "the waiter is in the queue")
    ours = place.redis.lindex(queue, 1)
    with place.redis.pipeline() as they:
        they.delete(place.name).lpop(queue).zrem(times, f"{OTHER}:3").zincrby(times, -300000, ours)
        they.hset(place.name, f"{OTHER}:3", 1).pexpire(place.name, LEASE_MS).execute()
    assert place.redis.zscore(times, ours) > time.time() * 1000
    until(lambda: place.redis.zscore(times, ours) < (time.time() + 6) * 1000, "its place is short again", 10)
    assert place.redis.lrange(queue, 0, -1) == [ours]
    place.redis.delete(place.name)
    place.redis.publish(prefix("redisson_lock__channel", place.name) + ":" + ours.decode(), "0")
    waiting.ok(5)
    a.give(place.name, "fair")


def test_our_dead_head_behind_their_holder(place):
    """Redisson's holder tells the head of the queue, who is dead, and nobody else. The next one comes in all the
    same."""
    queue, times = prefix("redisson_lock_queue", place.name), prefix("redisson_lock_timeout", place.name)
    dead = "2b7e9d64-0a55-8c0e-8b8f-7a1d3e5f9b10:17"
    lay_mutex(place)
    place.redis.rpush(queue, dead)
    place.redis.zadd(times, {dead: int(time.time() * 1000) + 5000.5})
    a = place.actor("holdfast")
    waiting = a.start(place.name, "fair", 60000, LEASE_MS)
    until(lambda: place.redis.llen(queue) == 2, "the waiter is in the queue")
    time.sleep(0.5)  # it has subscribed, and looked once more
    place.redis.delete(place.name)
    place.redis.publish(prefix("redisson_lock__channel", place.name) + ":" + dead, "0")
    waiting.ok(8)
    a.give(place.name, "fair")


def test_our_reader_leaves_with_its_lease(place):
    """The time of the lock goes down to that of the readers that are left: Redisson's writers sleep by it."""
    place.redis.hset(place.name, mapping={"mode": "read", f"{JAVA}:7": 1})
    place.redis.set(suffix(place.name, f"{JAVA}:7:rwlock_timeout:1"), 1, px=9000)
    place.redis.pexpire(place.name, 9000)
    a = place.actor("holdfast")
    a.take(place.name, "reader", 0, LEASE_MS)
    assert place.redis.pttl(place.name) > 20000
    a.give(place.name, "reader")
    assert 0 < place.redis.pttl(place.name) <= 9000


def test_our_readers_and_writer(place, heard):
    a, b = place.actor("holdfast"), place.actor("holdfast")
    a.take(place.name, "reader", 0, LEASE_MS)
    b.take(place.name, "reader", 0, LEASE_MS)
    fields = place.redis.hgetall(place.name)
    assert fields.pop(b"mode") == b"read"
    assert len(fields) == 2 and set(fields.values()) == {b"1"}
    for owner in fields:
        assert OWNER.match(owner)
        life = suffix(place.name, f"{owner.decode()}:rwlock_timeout:1")
        assert 0 < place.redis.pttl(life) <= LEASE_MS
    assert 0 < place.redis.pttl(place.name) <= LEASE_MS
    a.give(place.name, "reader")
    assert heard.about(place.name) == []
    b.give(place.name, "reader")
    assert not place.redis.exists(place.name)
    channel = prefix("redisson_rwlock", place.name)
    assert heard.about(place.name) == [(channel, b"0")]
    a.take(place.name, "writer", 0, LEASE_MS)
    fields = place.redis.hgetall(place.name)
    assert fields.pop(b"mode") == b"write"
    (owner, count), = fields.items()
    assert OWNER.match(owner.removesuffix(b":write")) and owner.endswith(b":write") and count == b"1"
    a.give(place.name, "writer")
    assert heard.about(place.name) == [(channel, b"0"), (channel, b"1")]


def test_our_permits(place, heard):
    a, b = place.actor("holdfast"), place.actor("holdfast")
    a.take(place.name, "semaphore:3:2", 0, LEASE_MS)
    b.take(place.name, "semaphore:3:1", 0, LEASE_MS)
    ids = place.redis.zrange(suffix(place.name, "timeout"), 0, -1, withscores=True)
    assert len({id for id, _ in ids}) == 3 and all(len(id) == 16 for id, _ in ids)
    assert all(0 < score - time.time() * 1000 <= LEASE_MS + 1000 for _, score in ids)
    assert place.redis.get(place.name) == b"0"
    a.give(place.name, "semaphore:3:2")
    assert place.redis.get(place.name) == b"2"
    b.give(place.name, "semaphore:3:1")
    assert place.redis.get(place.name) == b"3"
    assert [(channel, data) for channel, data in heard.about(place.name)] == [
        (prefix("redisson_sc", place.name), b"2"), (prefix("redisson_sc", place.name), b"3")]


def test_our_plain_lock(place):
    a = place.actor("holdfast", url="?layout=plain")
    a.take(place.name, "mutex", 0, LEASE_MS)
    first = place.redis.get(place.name)
    assert first and 0 < place.redis.pttl(place.name) <= LEASE_MS
    a.give(place.name, "mutex")
    assert not place.redis.exists(place.name)
    a.take(place.name, "mutex", 0, LEASE_MS)
    assert place.redis.get(place.name) != first, "a token of its own for each grant"
    place.redis.set(place.name, "somebody else's", px=LEASE_MS)
    assert a.release(place.name, "mutex") == "lost"
    assert place.redis.get(place.name) == b"somebody else's"
