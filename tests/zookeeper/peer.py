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


def inside(folder, name, exclusive):
    mine = os.path.join(folder, "in", ("w-" if exclusive else "r-") + name)
    open(mine, "x").close()
    others = os.listdir(os.path.join(folder, "in"))
    if exclusive:
        if len(others) > 1:
            raise RuntimeError("beside others: " + " ".join(others))
        counter = os.path.join(folder, "counter")
        with open(counter) as f:
            value = int(f.read())
        with open(counter, "w") as f:
            f.write("%d\n" % (value + 1))
    elif any(other.startswith("w-") for other in others):
        raise RuntimeError("beside a writer")
    os.unlink(mine)


def play_one(client, kind, path, rounds, folder, name, broken):
    try:
        for i in range(rounds):
            if kind == "rw" and i % 3 != 0:
                lock = ReadLock(client, path, name)
            elif kind == "rw":
                lock = WriteLock(client, path, name)
            elif kind == "curator":
                lock = CuratorLock(client, path, name)
            else:
                lock = Lock(client, path, name)
            with lock:
                inside(folder, name, kind != "rw" or i % 3 == 0)
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
    for line in sys.stdin:
        print(play(client, *line.split()), flush=True)


main()
