#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The Redis store's scripts alone: each of them in each state of a lock, with each command denied in turn, and with full
memory. Whatever is denied, no key is left without an end, and the answer is the script's own or the server's refusal.

    redis_scripts.py redis://HOST:PORT FOLDER-OF-SCRIPTS
"""
import functools
import re
import socket
import sys

CLIENTS = ["11111111-1111-8111-8111-111111111111", "22222222-2222-8222-8222-222222222222"]
ONE, TWO, THREE = [f"{CLIENTS[i > 0]}:{i + 1:040d}" for i in range(3)]
FAR_US = 10**17
DAY_MS = 86400000
NAME = "n"
KINDS = ("mutex", "fair", "reader", "writer", "permits", "plain")
DENIED = ("set get del hset hget hmget hgetall hkeys hlen hexists hdel exists type pttl pexpire persist incr incrby decrby "
          "zadd zrem zrange zscore zcard zcount zrangebyscore zremrangebyscore lindex lrange lrem rpush publish pubsub time "
          "getrange").split()


class Refused(Exception):
    pass


class Link:
    """A connection; what the server refuses is returned, not raised."""

    def __init__(self, host, port):
        self.socket = socket.create_connection((host, port), timeout=10)
        self.file = self.socket.makefile("rb")

    def __call__(self, *words):
        text = b"*%d\r\n" % len(words)
        for word in words:
            word = str(word).encode()
            text += b"$%d\r\n%s\r\n" % (len(word), word)
        self.socket.sendall(text)
        return self.reply()

    def reply(self):
        line = self.file.readline()[:-2]
        kind, rest = line[:1], line[1:]
        if kind == b"-":
            return Refused(rest.decode())
        if kind == b":":
            return int(rest)
        if kind == b"$":
            return None if rest == b"-1" else self.file.read(int(rest) + 2)[:-2]
        if kind == b"*":
            return [self.reply() for _ in range(int(rest))]
        return rest


@functools.lru_cache(None)
def script(name):
    text = open(f"{sys.argv[2]}/{name}.lua", encoding="utf-8").read()
    return re.sub(r"--#include ([a-z_]+)\.lua\n", lambda found: script(found.group(1)), text)


def key(prefix):
    return f"{prefix}:{{{NAME}}}"


TOKEN, WAKE, QUEUE, SCORES, HOLDERS = map(key, ("redisson_lock_token", "holdfast_wake", "redisson_lock_queue",
                                                "redisson_lock_timeout", "holdfast_holders"))
PERMITS = f"{{{NAME}}}:timeout"


def tomb(owner):
    return f"{key('holdfast_dead')}:{owner[-1]}"


def reader(owner):
    return f"{{{NAME}}}:{owner}:rwlock_timeout:1"


def run(link, name, keys, args):
    return link("EVAL", script(name), len(keys), *keys, *args)


def attempt(link, kind, owner, lease_ms=30000, note="a note"):
    terms = [lease_ms, FAR_US, 1, DAY_MS, note]
    if kind in ("mutex", "fair"):
        keys = [NAME, TOKEN, tomb(owner), WAKE, QUEUE, SCORES, PERMITS, HOLDERS]
        return run(link, "attempt_" + kind, keys, [owner, *terms, 5000])
    if kind in ("reader", "writer"):
        keys = [NAME, TOKEN, tomb(owner), WAKE, reader(owner), PERMITS, HOLDERS, QUEUE, SCORES]
        return run(link, "attempt_rw", keys, [owner, *terms, int(kind == "writer")])
    if kind == "permits":
        keys = [NAME, PERMITS, TOKEN, tomb(owner), WAKE, HOLDERS, QUEUE, SCORES]
        return run(link, "attempt_permits", keys, [owner, *terms, 2, 3, key("redisson_sc"), owner[-1] * 16])
    keys = [NAME, key("holdfast_fence"), tomb(owner), WAKE, HOLDERS, PERMITS]
    return run(link, "attempt_plain", keys, ["holdfast:" + owner, *terms, owner])


def release(link, kind, owner, keep_ms=0, until_us=0, to_shared=0):
    if kind in ("mutex", "fair"):
        keys = [NAME, WAKE, QUEUE, SCORES, tomb(owner)]
        return run(link, "release_mutex", keys, [owner, key("redisson_lock__channel"), 5000, until_us, keep_ms])
    if kind in ("reader", "writer"):
        keys = [NAME, WAKE, reader(owner), tomb(owner), TOKEN]
        return run(link, "release_rw", keys,
                   [owner, key("redisson_rwlock"), int(kind == "writer"), until_us, keep_ms, to_shared, 30000])
    if kind == "permits":
        keys = [NAME, PERMITS, WAKE, HOLDERS, tomb(owner)]
        return run(link, "release_permits", keys, [owner, key("redisson_sc"), 2, until_us, keep_ms, owner[-1] * 16])
    return run(link, "release_plain", [NAME, WAKE, tomb(owner)], ["holdfast:" + owner, owner, until_us, keep_ms])


def renew(link, kind, owner, lease_ms=60000):
    if kind in ("mutex", "fair"):
        return run(link, "renew_mutex", [NAME, tomb(owner), HOLDERS], [owner, lease_ms])
    if kind in ("reader", "writer"):
        return run(link, "renew_rw", [NAME, tomb(owner), reader(owner), HOLDERS], [owner, lease_ms])
    if kind == "permits":
        return run(link, "renew_permits", [NAME, PERMITS, tomb(owner), HOLDERS], [lease_ms, 2, owner[-1] * 16])
    return run(link, "renew_plain", [NAME, tomb(owner), HOLDERS], ["holdfast:" + owner, lease_ms])


def places(link, kind, owner):
    del kind
    return run(link, "places", [QUEUE, SCORES, NAME], [5000, owner])


# What is there before, by whom, and then the step that is watched. A step that only some kinds have names them.
STEPS = {
    "granted": ([], attempt, {}),
    "granted again": ([(attempt, ONE, {"lease_ms": 1000})], attempt, {}),
    "waits": ([(attempt, TWO, {})], attempt, {}),
    "waits, third": ([(attempt, TWO, {}), (attempt, THREE, {})], attempt, {}),
    "waits again": ([(attempt, TWO, {}), (attempt, ONE, {})], attempt, {}),
    "granted after waiting": ([(attempt, TWO, {}), (attempt, ONE, {}), (release, TWO, {})], attempt, {}),
    "renewed": ([(attempt, ONE, {})], renew, {}),
    "released": ([(attempt, ONE, {}), (attempt, TWO, {})], release, {}),
    "gives up": ([(attempt, TWO, {}), (attempt, ONE, {}), (attempt, THREE, {})], release, {"until_us": 10**16}),
    "released, unknown": ([], release, {"until_us": 10**16}),
    "kept": ([(attempt, ONE, {}), (attempt, TWO, {})], release, {"keep_ms": 5000}),
    "writer turns reader": ([(attempt, ONE, {})], release, {"to_shared": 1}),
    "places": ([(attempt, TWO, {}), (attempt, ONE, {})], places, {}),
}
ONLY = {"writer turns reader": ("writer",), "places": ("fair",)}
NEEDS_MEMORY = {"granted", "granted after waiting"}  # the others must get through where memory is full


class Bench:
    def __init__(self, host, port):
        self.boss, self.user = Link(host, port), Link(host, port)
        self.runs, self.faults = 0, []

    def allow(self, denied):
        self.boss("ACL", "SETUSER", "tried", "reset", "on", ">pw", "~*", "&*", "+@all", *[f"-{word}" for word in denied])
        self.user("AUTH", "tried", "pw")

    def step(self, kind, name, denied=(), full=False):
        before, do, options = STEPS[name]
        self.boss("FLUSHALL")
        self.allow(denied)
        for first, owner, its in before:
            first(self.boss, "writer" if kind == "reader" and owner != ONE else kind, owner, **its)
        self.boss("CONFIG", "SET", "maxmemory", int(full))
        answer = do(self.user, kind, ONE, **options)
        self.boss("CONFIG", "SET", "maxmemory", 0)
        self.runs += 1
        endless = [k for k in self.boss("KEYS", "*") if self.boss("PTTL", k) == -1]
        what = f"{kind}, {name}, without {' '.join(denied) or 'memory' if full or denied else 'nothing'}"
        if endless:
            self.faults.append(f"{what}: no end: {endless}")
        if isinstance(answer, Refused):
            expected = "can't run this command|NOPERM" if denied else "OOM" if full and name in NEEDS_MEMORY else "^$"
            if not re.search(expected, str(answer)):
                self.faults.append(f"{what}: {answer}")

    def all(self):
        for kind in KINDS:
            for name in STEPS:
                if kind not in ONLY.get(name, KINDS):
                    continue
                self.step(kind, name)
                self.step(kind, name, full=True)
                for word in DENIED:
                    self.step(kind, name, denied=(word,))


def main():
    host, port = re.match(r"redis://([^:/]+):(\d+)", sys.argv[1]).groups()
    bench = Bench(host, int(port))
    bench.all()
    for fault in bench.faults:
        print(fault)
    print(f"{bench.runs} steps, {len(bench.faults)} faults")
    return 1 if bench.faults or bench.runs < 1000 else 0


if __name__ == "__main__":
    sys.exit(main())
