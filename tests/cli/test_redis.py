# SPDX-License-Identifier: MIT
"""ls, show, break and doctor on a Redis server: what is ours, what is Redisson's, what is a plain client's, what is data."""
import json
import os
import re
import socket
import time

import pytest

from conftest import HERE, until
from redis_place import RedisPlace, Server

ROOT = os.path.dirname(os.path.dirname(HERE))
LUA = os.path.join(ROOT, "src", "stores", "redis", "lua")
JAVA = "8f4ab2cc-3b1f-4c6e-9d1c-2f6c1a0b7d55"  # a client of Redisson's: a uuid of version 4
SOUND = ("--appendonly", "yes", "--appendfsync", "everysec")


@pytest.fixture
def redis():
    place = RedisPlace()
    yield place
    place.close()


@pytest.fixture
def sound():
    """With a server of which nothing is to be said."""
    place = RedisPlace(*SOUND)
    yield place
    place.close()


@pytest.fixture
def start():
    """Places with servers of other arguments."""
    places = []

    def make(*args):
        places.append(RedisPlace(*args))
        return places[-1]
    yield make
    for place in places:
        place.close()


def locks(place, *args):
    listed = place.run("ls", "--json", *args)
    assert listed.code == 0, listed.err
    return {lock["name"]: lock for lock in json.loads(listed.out)["locks"]}


def findings(place, *args):
    examined = place.run("doctor", "--json", *args)
    found = json.loads(examined.out)["findings"] if examined.out else []
    return examined, {finding["topic"]: finding for finding in found}


def severity(found, topic):
    return found[topic]["severity"]


# ---- looking


def test_ls_and_show_of_our_own(redis):
    holder = redis.hold("order:1001", "--note", "the note")
    waiter = redis.start("run", "order:1001", "true")
    redis.hold("pool", "--permits", "5", "--weight", "2", "--note", "two of five")
    redis.hold("book", "-s")
    redis.hold("book", "-s")
    redis.hold("queue", "--fair")
    others = [redis.start("run", "--fair", "queue", "true")]
    redis.await_waiter("queue")
    others.append(redis.start("run", "--fair", "queue", "true"))
    redis.await_waiter("queue", 2)
    redis.await_waiter("order:1001")

    found = locks(redis)
    assert {name: (lock["kind"], lock["held"], lock["waiting"]) for name, lock in found.items()} == {
        "book": ("rw", 2, 0), "order:1001": ("mutex", 1, 1), "pool": ("semaphore", 1, 0), "queue": ("mutex", 1, 2)}
    assert found["pool"]["limit"] == 5 and found["pool"]["note"] == "two of five"
    order = found["order:1001"]
    assert (order["pid"], order["note"], order["program"]) == (holder.pid, "the note", "holdfast")
    assert order["host"] == os.uname().nodename[:63] and 0 < order["left_ms"] <= 30000
    assert abs(order["since_ms"] / 1000 - time.time()) < 60
    assert redis.run("ls", "--names").out == b"book\norder:1001\npool\nqueue\n"

    held, waiting = redis.claims("order:1001")
    assert (held["state"], held["mode"], held["pid"]) == ("held", "exclusive", holder.pid)
    assert (waiting["state"], waiting["place"], waiting["pid"]) == ("waiting", 1, waiter.pid)
    assert held["fence"] > 0 and held["claim"] != waiting["claim"]
    claims = redis.claims("queue")
    assert [(c["state"], c["place"], c["pid"]) for c in claims[1:]] == [
        ("waiting", 1, others[0].pid), ("waiting", 2, others[1].pid)]
    assert [(c["mode"], c["weight"], c["limit"]) for c in redis.claims("pool")] == [("counted", 2, 5)]
    readers = redis.claims("book")
    assert [(c["mode"], c["state"]) for c in readers] == [("shared", "held")] * 2
    assert readers[0]["fence"] != readers[1]["fence"]


def test_redissons_locks_are_shown(redis):
    ask = redis.server.ask
    ask("HSET", "plain", f"{JAVA}:41", 1)
    ask("PEXPIRE", "plain", 25000)
    ask("HSET", "fair", f"{JAVA}:42", 2)
    ask("PEXPIRE", "fair", 25000)
    for thread in (43, 44):
        ask("RPUSH", "redisson_lock_queue:{fair}", f"{JAVA}:{thread}")
        ask("ZADD", "redisson_lock_timeout:{fair}", int(time.time() * 1000) + 300000, f"{JAVA}:{thread}")
    ask("HSET", "book", "mode", "read", f"{JAVA}:45", 1, f"{JAVA}:46", 1)
    ask("PEXPIRE", "book", 25000)
    ask("SET", f"{{book}}:{JAVA}:45:rwlock_timeout:1", 1, "PX", 20000)  # the other one has ended
    ask("HSET", "page", "mode", "write", f"{JAVA}:47:write", 1)
    ask("PEXPIRE", "page", 25000)
    ask("SET", "pool", 1)
    ask("ZADD", "{pool}:timeout", int(time.time() * 1000) + 20000, b"\x00\xff0123456789abcd", 922337203685477, b"0" * 16)

    found = locks(redis)
    assert {name: (lock["kind"], lock["held"], lock["waiting"]) for name, lock in found.items()} == {
        "plain": ("mutex", 1, 0), "fair": ("mutex", 1, 2), "book": ("rw", 1, 0), "page": ("rw", 1, 0),
        "pool": ("semaphore", 2, 0)}
    assert found["pool"]["limit"] == 3
    claims = redis.claims("fair")
    assert [(c["note"], c["program"], c["place"]) for c in claims] == [
        (f"{JAVA}:42", None, None), (f"{JAVA}:43", None, 1), (f"{JAVA}:44", None, 2)]
    assert [c["note"] for c in redis.claims("book")] == [f"{JAVA}:45"]
    assert redis.claims("page")[0]["mode"] == "exclusive"
    assert len({c["claim"] for name in found for c in redis.claims(name)}) == 8
    assert redis.server.ask("DBSIZE") == 9  # looking changes nothing


def test_redissons_waiters_are_counted(redis):
    redis.hold("n")
    with redis.server.open() as one, redis.server.open() as two:
        redis.server.talk(one, "SUBSCRIBE", "redisson_lock__channel:{n}")
        redis.server.talk(two, "SUBSCRIBE", "redisson_lock__channel:{n}")
        claims = redis.claims("n")
        assert [c["state"] for c in claims] == ["held", "waiting", "waiting"]
        assert [c["claim"] for c in claims[1:]] == [None, None]
    until(lambda: len(redis.claims("n")) == 1, "they have left")


def test_plain_locks_are_shown_and_data_is_not(redis):
    ask = redis.server.ask
    ask("SET", "py", "9f86d081884c7d659a2feaa0c55ad015", "PX", 25000)          # redis-py, node-redlock
    ask("SET", "go", "3q2+7wAAAAAAAAAAAAAAAA==", "PX", 25000)                   # redsync
    for name, value in (("text", "hello"), ("token", "9f86d081884c7d659a2feaa0c55ad015"), ("number", "7")):
        ask("SET", name, value)                                                # without an end: no lock
    ask("SET", "cached", "x" * 4000, "PX", 25000)
    ask("HSET", "hash", "field", "1")
    ask("HSET", "almost", f"{JAVA}:1", "1", "field", "1")
    ask("RPUSH", "list", "x")
    ask("ZADD", "zset", 1, "x")
    ask("SADD", "set", "x")
    found = locks(redis)
    assert {name: lock["kind"] for name, lock in found.items()} == {"py": "mutex", "go": "mutex"}
    assert found["py"]["host"] is None and 0 < found["py"]["left_ms"] <= 25000
    for name in ("text", "hash", "list", "almost"):
        assert redis.claims(name) == []


def test_our_plain_layout(redis):
    redis.use(redis.server.url("?layout=plain"))
    holder = redis.hold("n", "--note", "the note")
    claim, = redis.claims("n")
    assert (claim["pid"], claim["state"], claim["program"]) == (holder.pid, "held", "holdfast")
    redis.server.ask("SET", "own", "a token of somebody's", "PX", 25000)
    assert len(redis.claims("own")) == 1 and set(locks(redis)) == {"n"}


def test_one_name_is_found_without_a_scan_and_all_without_keys(redis):
    for i in range(3000):
        redis.server.ask("SET", f"data:{i}", "x") if i < 30 else None
    redis.hold("n")
    redis.server.ask("CONFIG", "RESETSTAT")
    assert len(redis.claims("n")) == 1
    assert redis.server.calls("scan") == 0
    assert set(locks(redis)) == {"n"}
    assert redis.server.calls("scan") > 0 and redis.server.calls("keys") == 0


def test_many_names_come_in_order(redis):
    with redis.server.open() as connection:
        for i in range(700):
            redis.server.talk(connection, "HSET", f"name:{i}", f"{JAVA}:{i}", 1)
            redis.server.talk(connection, "PEXPIRE", f"name:{i}", 60000)
    names = redis.run("ls", "--names").out.decode().split()
    assert names == sorted(f"name:{i}" for i in range(700))


def test_many_claims_on_many_names(redis):
    """More than one answer of the server should hold."""
    with redis.server.open() as connection:
        for name in range(4):
            fields = [f"{JAVA}:{i}" for i in range(4000)]
            redis.server.talk(connection, "HSET", f"n{name}", "mode", "read", *[word for f in fields for word in (f, 1)])
            redis.server.talk(connection, "PEXPIRE", f"n{name}", 120000)
            redis.server.talk(connection, "MSET", *[
                word for f in fields for word in (f"{{n{name}}}:{f}:rwlock_timeout:1", 1)])
    found = locks(redis, "--timeout", "1m")
    assert {name: lock["held"] for name, lock in found.items()} == {f"n{name}": 4000 for name in range(4)}
    redis.server.ask("HSET", "n0", *[word for i in range(4000, 12000) for word in (f"{JAVA}:{i}", 1)])
    assert len(locks(redis, "--timeout", "1m")) == 3  # that is no lock any more


def test_odd_bytes_are_escaped(redis):
    name = b"a\xff\x1b[31m\n\"\\ {b} \xc3\xa9"
    redis.hold(os.fsdecode(name), "--note", "note \x1b[0m")
    redis.server.ask("HSET", b"\x1b]0;x\x07", f"{JAVA}:1", 1)
    redis.server.ask("PEXPIRE", b"\x1b]0;x\x07", 20000)
    shown = redis.run("ls", env={**redis.env, "LC_ALL": "C.UTF-8"})
    assert shown.code == 0 and not re.search(rb"[\x00-\x09\x0b-\x1f\x7f]", shown.out), shown.out
    hexes = {lock["name_hex"] for lock in locks(redis).values()}
    assert name.hex() in hexes
    claim, = redis.claims(os.fsdecode(name))
    assert claim["note"] == "note \x1b[0m"
    assert redis.code("break", "--yes", os.fsdecode(name)) == 0
    assert redis.claims(os.fsdecode(name)) == []


def test_a_prefix_is_no_part_of_the_name(redis):
    redis.hold("outside")
    redis.use(redis.server.url("?prefix=app:"))
    redis.hold("inside", "--fair")
    redis.start("run", "--fair", "inside", "true")
    redis.await_waiter("inside")
    assert {name: lock["waiting"] for name, lock in locks(redis).items()} == {"inside": 1}
    assert redis.server.ask("EXISTS", "app:inside") == 1


# ---- breaking


def test_break_of_one_grant_and_of_all(redis):
    first = redis.hold("n", "--permits", "3", "--watchdog", "3")
    second = redis.hold("n", "--permits", "3", "--watchdog", "3")
    third = redis.hold("n", "--permits", "3", "--watchdog", "3")
    claims = redis.claims("n")
    assert len(claims) == 3
    broken = redis.run("break", "--yes", "--claim", claims[0]["claim"], "n")
    assert broken.code == 0 and b"1 claim removed" in broken.out
    assert [c["claim"] for c in redis.claims("n")] == [c["claim"] for c in claims[1:]]
    broken = redis.run("break", "--yes", "n")
    assert broken.code == 0 and b"2 claims removed" in broken.out
    assert redis.claims("n") == [] and redis.free("n")
    assert [redis.end(process) for process in (first, second, third)] == [79] * 3
    broken = redis.run("break", "--yes", "n")
    assert broken.code == 0 and b"0 claims removed" in broken.out


@pytest.mark.parametrize("options", [[], ["--fair"], ["-x"], ["--permits", "1"]], ids=" ".join)
def test_break_wakes_who_waits(redis, options):
    redis.hold("n", *options)
    waiter = redis.start("run", *options, "n", "echo", "in")
    redis.await_waiter("n")
    began = time.monotonic()
    assert redis.code("break", "--yes", "n") == 0
    assert redis.end(waiter) == 0 and waiter.out == b"in\n"
    assert time.monotonic() - began < 8  # the lease was 30 s


def test_break_of_readers_lets_the_writer_in(redis):
    redis.hold("n", "-s")
    redis.hold("n", "-s")
    writer = redis.start("run", "-x", "n", "true")
    redis.await_waiter("n")
    first, second = [c["claim"] for c in redis.claims("n") if c["state"] == "held"]
    assert b"1 claim removed" in redis.run("break", "--yes", "--claim", first, "n").out
    assert [c["claim"] for c in redis.claims("n") if c["state"] == "held"] == [second]
    assert writer.poll() is None
    assert b"1 claim removed" in redis.run("break", "--yes", "n").out
    assert redis.end(writer) == 0


def test_break_of_a_waiter_that_queues_again(redis):
    redis.hold("n", "--fair")
    first = redis.start("run", "--fair", "n", "echo", "first")
    redis.await_waiter("n")
    second = redis.start("run", "--fair", "n", "echo", "second")
    redis.await_waiter("n", 2)
    waiting = [c for c in redis.claims("n") if c["state"] == "waiting"]
    assert [c["pid"] for c in waiting] == [first.pid, second.pid]
    assert b"1 claim removed" in redis.run("break", "--yes", "--claim", waiting[0]["claim"], "n").out

    def behind():
        return [c["pid"] for c in redis.claims("n") if c["state"] == "waiting"] == [second.pid, first.pid]
    until(behind, "the one that was broken stands behind")
    assert redis.code("break", "--yes", "n") == 0
    assert redis.end(second) == 0 and redis.end(first) == 0


def test_break_of_redissons_grants(redis):
    ask = redis.server.ask
    ask("HSET", "n", f"{JAVA}:41", 3)
    ask("PEXPIRE", "n", 25000)
    ask("HSET", "book", "mode", "read", f"{JAVA}:45", 1, f"{JAVA}:46", 1)
    ask("PEXPIRE", "book", 25000)
    for thread in (45, 46):
        ask("SET", f"{{book}}:{JAVA}:{thread}:rwlock_timeout:1", 1, "PX", 20000)
    ask("SET", "pool", 1)
    ask("ZADD", "{pool}:timeout", int(time.time() * 1000) + 20000, b"\x00\xff0123456789abcd")
    ask("SET", "py", "9f86d081884c7d659a2feaa0c55ad015", "PX", 25000)
    with redis.server.open() as java:
        redis.server.talk(java, "SUBSCRIBE", "redisson_lock__channel:{n}")
        assert redis.code("break", "--yes", "--claim", redis.claims("n")[0]["claim"], "n") == 0
        with java.makefile("rb") as news:
            assert b"message" in news.read(20)
    assert ask("EXISTS", "n") == 0
    claim = [c["claim"] for c in redis.claims("book") if c["note"].endswith(":45")][0]
    assert b"1 claim removed" in redis.run("break", "--yes", "--claim", claim, "book").out
    assert ask("HKEYS", "book") == [b"mode", f"{JAVA}:46".encode()]
    assert b"1 claim removed" in redis.run("break", "--yes", "pool").out
    assert ask("GET", "pool") == b"2" and ask("EXISTS", "{pool}:timeout") == 0
    assert b"1 claim removed" in redis.run("break", "--yes", "py").out
    assert ask("EXISTS", "py") == 0


def test_break_never_touches_data(redis):
    ask = redis.server.ask
    ask("RPUSH", "list", "x")
    ask("HSET", "hash", "field", "1")
    ask("HSET", "almost", f"{JAVA}:1", "1", "field", "1")
    ask("SET", "text", "hello")
    ask("SET", "number", "7")
    ask("SADD", "set", "x")
    for name in ("list", "hash", "almost", "text", "set"):
        broken = redis.run("break", "--yes", name)
        assert broken.code == 69 and b"no lock" in broken.err, name
    assert b"0 claims removed" in redis.run("break", "--yes", "number").out  # or a semaphore of which no permit is out
    assert ask("DBSIZE") == 6


# ---- doctor


def test_doctor_of_a_sound_server(sound):
    sound.hold("n")
    size = sound.server.ask("DBSIZE")
    examined, found = findings(sound)
    assert examined.code == 0, examined.out
    assert {topic for topic in found if severity(found, topic) == "danger"} == set()
    for topic in ("round trip", "clock", "server", "eviction", "memory", "persistence", "replication", "clients",
                  "trial write", "rights", "news"):
        assert severity(found, topic) == "fine", topic
    assert "7." in found["server"]["text"] or "Valkey" in found["server"]["text"] or "8." in found["server"]["text"]
    assert severity(found, "access") == "note" and "without a password" in found["access"]["text"]
    assert sound.server.ask("DBSIZE") == size and len(sound.claims("n")) == 1


def test_doctor_warns_of_eviction(sound):
    sound.server.ask("CONFIG", "SET", "maxmemory-policy", "volatile-ttl")
    assert severity(findings(sound)[1], "eviction") == "note"
    sound.server.ask("CONFIG", "SET", "maxmemory", "100mb")
    examined, found = findings(sound)
    assert examined.code == 78 and severity(found, "eviction") == "danger" and "volatile-ttl" in found["eviction"]["text"]
    sound.server.ask("CONFIG", "SET", "maxmemory-policy", "noeviction")
    assert findings(sound)[0].code == 0
    sound.server.ask("CONFIG", "SET", "maxmemory", "1")
    examined, found = findings(sound)
    assert examined.code == 78 and severity(found, "memory") == "danger" and severity(found, "trial write") == "danger"
    assert "OOM" in found["trial write"]["text"] or "memory" in found["trial write"]["text"]


def test_doctor_warns_of_a_restart_that_forgets(sound):
    assert "each second" in findings(sound)[1]["persistence"]["text"]
    sound.server.ask("CONFIG", "SET", "appendfsync", "always")
    assert "synced always" in findings(sound)[1]["persistence"]["text"]
    sound.server.ask("CONFIG", "SET", "appendfsync", "no")
    assert severity(findings(sound)[1], "persistence") == "note"
    sound.server.ask("CONFIG", "SET", "appendonly", "no")
    examined, found = findings(sound)
    assert examined.code == 78 and severity(found, "persistence") == "danger"
    sound.server.ask("CONFIG", "SET", "save", "3600 1")
    examined, found = findings(sound)
    assert examined.code == 0 and severity(found, "persistence") == "note" and "snapshots" in found["persistence"]["text"]


def test_doctor_without_the_right_to_read_settings(sound):
    sound.server.ask("ACL", "SETUSER", "worker", "on", ">secret", "~*", "&*", "+@all", "-config")
    sound.use(sound.server.url(user="worker:secret@"))
    sound.server.ask("CONFIG", "SET", "maxmemory-policy", "allkeys-lru")
    sound.server.ask("CONFIG", "SET", "maxmemory", "100mb")
    examined, found = findings(sound)
    assert examined.code == 78 and severity(found, "eviction") == "danger"  # INFO says it, too
    assert "does not say" in found["persistence"]["text"]
    assert severity(found, "access") == "fine" and b"secret" not in examined.out


def test_doctor_names_missing_rights(sound):
    ask = sound.server.ask
    ask("ACL", "SETUSER", "worker", "on", ">secret", "~*", "&*", "+@all", "-hset", "-lrem", "-subscribe")
    sound.use(sound.server.url(user="worker:secret@"))
    examined, found = findings(sound)
    assert examined.code == 78 and severity(found, "rights") == "danger"
    assert "HSET" in found["rights"]["text"] and "LREM" in found["rights"]["text"]
    assert "SUBSCRIBE" in found["comfort"]["text"] and severity(found, "comfort") == "note"
    ask("ACL", "SETUSER", "worker", "reset", "on", ">secret", "~app:*", "~holdfast_*", "&*", "+@all")
    examined, found = findings(sound)
    assert severity(found, "keys") == "note" and "redisson_lock_token" in found["keys"]["text"]
    assert severity(found, "trial write") == "fine"
    ask("ACL", "SETUSER", "worker", "reset", "on", ">secret", "~*", "&*", "+@all", "-set")
    examined, found = findings(sound)
    assert examined.code == 78 and severity(found, "trial write") == "danger"
    assert ask("PING") == b"PONG"  # asking about rights has ended servers


def test_doctor_is_content_with_the_documented_rights(sound):
    with open(os.path.join(ROOT, "docs", "stores", "redis.md")) as file:
        rules = re.search(r"^ACL SETUSER \S+ (.*)$", file.read(), re.M).group(1).split()
    sound.server.ask("ACL", "SETUSER", "worker", *[word for word in rules if not word.startswith(">")], ">secret", "+config|get")
    sound.use(sound.server.url(user="worker:secret@"))
    examined, found = findings(sound)
    assert examined.code == 0, examined.out
    assert severity(found, "rights") == "fine" and "comfort" not in found and "keys" not in found


def test_doctor_says_that_waiters_poll(sound):
    sound.use(sound.server.url("?news=off"))
    examined, found = findings(sound)
    assert examined.code == 0 and severity(found, "news") == "note" and "poll" in found["news"]["text"]


def test_doctor_warns_of_replicas(sound, start):
    replica = start("--replicaof", "127.0.0.1", str(sound.server.port))
    until(lambda: b"connected_slaves:1" in sound.server.ask("INFO", "replication"), "the replica follows")
    examined, found = findings(sound)
    assert severity(found, "replication") == "note" and "1 replica," in found["replication"]["text"]
    examined, found = findings(replica)
    assert examined.code == 69 or (examined.code == 78 and severity(found, "replication") == "danger")
    assert b"replica" in examined.out + examined.err


def test_doctor_warns_of_too_few_clients(sound):
    sound.server.ask("CONFIG", "SET", "maxclients", "12")
    idle = [sound.server.open() for _ in range(10)]
    examined, found = findings(sound)
    for connection in idle:
        connection.close()
    assert examined.code == 78 and severity(found, "clients") == "danger" and "of 12" in found["clients"]["text"]


def test_doctor_of_a_server_that_runs_a_script_without_end(sound):
    sound.server.ask("CONFIG", "SET", "busy-reply-threshold", "50")
    with sound.server.open() as connection:
        connection.sendall(b"*3\r\n$4\r\nEVAL\r\n$17\r\nwhile true do end\r\n$1\r\n0\r\n")
        until(lambda: not sound.server.answers(), "the server is busy")
        examined, found = findings(sound)
        sound.server.ask("SCRIPT", "KILL")
    assert examined.code in (69, 78) and (b"BUSY" in examined.out + examined.err or b"script" in examined.out + examined.err)
    assert examined.code == 69 or severity(found, "server") == "danger"


def test_doctor_without_a_server(sound):
    sound.server.stop()
    examined = sound.run("doctor")
    assert examined.code == 69 and examined.out == b"" and b"127.0.0.1" in examined.err


def test_doctor_knows_what_the_scripts_call():
    with open(os.path.join(LUA, "check.lua")) as file:
        known = {line.split()[0] for line in re.findall(r"'([A-Z]+[^']*)'", file.read())}
    for name in os.listdir(LUA):
        if not name.endswith(".lua"):
            continue
        with open(os.path.join(LUA, name)) as file:
            called = set(re.findall(r"redis\.p?call\('([A-Za-z]+)'", file.read()))
        assert {command.upper() for command in called} <= known, name
