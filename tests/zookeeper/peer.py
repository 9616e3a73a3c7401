# SPDX-License-Identifier: MIT
"""Kazoo on the names that Holdfast uses; the same lines and answers as Peer.java."""
import logging
import os
import sys
import threading

from kazoo.client import KazooClient
from kazoo.recipe.lock import Lock, ReadLock, WriteLock

logging.disable(logging.CRITICAL)


class CuratorLock(Lock):
    """Kazoo's lock by the name that Curator honours."""

    _NODE_NAME = "-lock-"
    _EXCLUDE_NAMES = ["-lock-"]


def inside(folder, name):
    mine = os.path.join(folder, "in", "w-" + name)
    open(mine, "x").close()
    others = os.listdir(os.path.join(folder, "in"))
    if len(others) > 1:
        raise RuntimeError("beside others: " + " ".join(others))
    counter = os.path.join(folder, "counter")
    with open(counter) as f:
        value = int(f.read())
    with open(counter, "w") as f:
        f.write("%d\n" % (value + 1))
    os.unlink(mine)


def play_one(client, kind, path, rounds, folder, name, broken):
    try:
        for _ in range(rounds):
            if kind == "writer":
                lock = WriteLock(client, path, name)
            elif kind == "curator":
                lock = CuratorLock(client, path, name)
            else:
                lock = Lock(client, path, name)
            with lock:
                inside(folder, name)
    except Exception as e:  # told to the test
        broken.append(repr(e))


def play(client, kind, path, rounds, threads, folder):
    broken = []
    all_threads = [
        threading.Thread(
            target=play_one,
            args=(client, kind, path, int(rounds), folder, "python-%d" % t, broken),
        )
        for t in range(int(threads))
    ]
    for thread in all_threads:
        thread.start()
    for thread in all_threads:
        thread.join()
    return "broken: " + broken[0] if broken else "done"


def main():
    client = KazooClient(hosts="127.0.0.1:" + sys.argv[1], timeout=20)
    client.start()
    print("ready", flush=True)
    held = None
    for line in sys.stdin:
        words = line.split()
        if words[0] == "read":  # Kazoo 2.8's readers wait for later writers too: they only hold here
            held = ReadLock(client, words[1], "python")
            answer = "done" if held.acquire(timeout=20) else "broken: no read lock"
        elif words[0] == "unread":
            held.release()
            answer = "done"
        else:
            answer = play(client, *words)
        print(answer, flush=True)


main()
