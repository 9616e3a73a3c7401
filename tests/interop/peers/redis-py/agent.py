# SPDX-License-Identifier: MIT
"""The agent of redis-py's Lock (agents.py says what is said to it). An actor is a thread. Its locks always have a
lease."""
import os
import queue
import sys
import threading
import time
import uuid

import redis
from redis.exceptions import LockError, LockNotOwnedError

DEFAULT_LEASE_MS = 30000
clients = {}
actors = {}
output = threading.Lock()


def answer(sequence, text):
    with output:
        print(sequence, text, flush=True)


def inside(folder, hold_ms):
    mine = os.path.join(folder, f"x.{uuid.uuid4()}.1")
    os.close(os.open(mine, os.O_CREAT | os.O_EXCL | os.O_WRONLY))
    others = [name for name in os.listdir(folder) if name != os.path.basename(mine) and name[1] == "."]
    time.sleep(hold_ms / 1000)
    os.unlink(mine)
    return 1 if others else 0


class Actor:
    def __init__(self, client):
        self.client = client
        self.work = queue.Queue()
        self.held = {}
        threading.Thread(target=self.run, daemon=True).start()

    def run(self):
        while True:
            sequence, words = self.work.get()
            try:
                answer(sequence, self.act(*words))
            except Exception as e:  # whatever it is, the driver is to see it
                answer(sequence, f"failed {type(e).__name__} {e}")

    def acquire(self, name, wait_ms, lease_ms):
        lock = self.client.lock(name, timeout=(lease_ms or DEFAULT_LEASE_MS) / 1000)
        if not lock.acquire(blocking=wait_ms != 0, blocking_timeout=None if wait_ms < 0 else wait_ms / 1000):
            return False
        self.held.setdefault(name, []).append(lock)
        return True

    def release(self, name):
        try:
            self.held[name].pop().release()
            return "ok"
        except (LockNotOwnedError, LockError):
            return "lost"

    def act(self, verb, name, kind, *numbers):
        if verb == "acquire":
            return "ok 0" if self.acquire(name, int(numbers[0]), int(numbers[1])) else "busy"
        if verb == "release":
            return self.release(name)
        if verb == "left":
            lock = self.held[name][-1]
            return f"ok {max(self.client.pttl(name), 0) if lock.owned() else 0}"
        if verb == "loop":
            wait_ms, lease_ms, rounds, hold_ms = map(int, numbers[:4])
            grants = busy = clashes = 0
            for _ in range(rounds):
                if not self.acquire(name, wait_ms, lease_ms):
                    busy += 1
                    continue
                grants += 1
                clashes += inside(numbers[4], hold_ms)
                self.release(name)
            return f"ok {grants} {busy} {clashes}"
        return f"failed verb {verb}"


def serve(sequence, who, verb, *rest):
    if "/" in who:
        if who not in actors:
            actors[who] = Actor(clients[who.split("/")[0]])
        actors[who].work.put((sequence, (verb, *rest)))
        return
    if verb == "open":
        clients[who] = redis.Redis.from_url(rest[0])
    answer(sequence, "ok")


for line in sys.stdin:
    words = line.split()
    if len(words) >= 3:
        serve(*words)
os._exit(0)
