# SPDX-License-Identifier: MIT
"""Agents: one program per library, each doing what it is told on its standard input, a line at a time.

    SEQ CLIENT open URL [WATCHDOG_MS [FAIR_WAIT_MS]]    a client of its library
    SEQ CLIENT close
    SEQ CLIENT/ACTOR acquire NAME KIND WAIT_MS LEASE_MS   WAIT_MS: 0 once, -1 without end; LEASE_MS: 0 is the watchdog's
    SEQ CLIENT/ACTOR release NAME KIND
    SEQ CLIENT/ACTOR left NAME KIND                       what is left of a grant that this actor holds, 0: none
    SEQ CLIENT/ACTOR force NAME KIND                      frees it, whoever holds it
    SEQ CLIENT/ACTOR cancel                               ends a wait of this actor
    SEQ CLIENT/ACTOR loop NAME KIND WAIT_MS LEASE_MS ROUNDS HOLD_MS FOLDER

The answer is "SEQ WORD...": `ok [NUMBER]`, `busy`, `lost`, `failed TEXT`. An actor is a thread: an owner, that does
one thing after the other; different actors work side by side, so answers come in any order. KIND is mutex, fenced,
fair, spin, reader, writer, semaphore:LIMIT[:WEIGHT]. Not every library has every verb and kind.

`loop` takes and gives back the lock ROUNDS times, and guards nothing but a folder: whoever is in leaves a file there
(`x.` exclusive, `s.` shared, `c.` counted), then looks who else is in. The answer is `ok GRANTS BUSY CLASHES`. Where
the library gives a fence, `loop` also checks that the number in the folder's file `fence` is below it, and writes its
own there.
"""
import itertools
import os
import subprocess
import threading
import time

PATIENCE = 30  # seconds, for what should happen in milliseconds, on a machine that is busy
ROUNDS = int(os.environ.get("HF_INTEROP_ROUNDS", "8"))  # of each owner in a crowd
LOOPS = 60 + 4 * ROUNDS  # seconds for them


class Answer:
    """What will be answered."""

    def __init__(self, request):
        self.request = request
        self.sent = time.monotonic()
        self.came = None
        self.words = None
        self.event = threading.Event()

    def arrive(self, words):
        self.came = time.monotonic()
        self.words = words
        self.event.set()

    def done(self):
        return self.event.is_set()

    def wait(self, patience=PATIENCE):
        assert self.event.wait(patience), f"no answer in {patience} s: {self.request}"
        return self.words

    def word(self, patience=PATIENCE):
        return self.wait(patience)[0]

    def ok(self, patience=PATIENCE):
        words = self.wait(patience)
        assert words[0] == "ok", f"{self.request}: {' '.join(words)}"
        return int(words[1]) if len(words) > 1 else None


class Agent:
    """A running agent."""

    def __init__(self, name, argv, log, env=None):
        self.name = name
        self.log = open(log, "ab")
        self.process = subprocess.Popen(
            ["setpriv", "--pdeathsig", "KILL", "--", *argv],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.log, text=True, bufsize=1, env=env)
        self.sequence = itertools.count(1)
        self.pending = {}
        self.mutex = threading.Lock()
        self.reader = threading.Thread(target=self.read, daemon=True)
        self.reader.start()

    def read(self):
        for line in self.process.stdout:
            words = line.split()
            self.log.write(f"< {line}".encode())
            with self.mutex:
                answer = self.pending.pop(words[0], None)
            if answer:
                answer.arrive(words[1:])
        with self.mutex:
            left, self.pending = self.pending, {}
        for answer in left.values():
            answer.arrive(["failed", "the agent has ended"])

    def send(self, who, *words):
        sequence = str(next(self.sequence))
        line = " ".join([sequence, who, *map(str, words)])
        answer = Answer(f"{self.name}: {line}")
        with self.mutex:
            self.pending[sequence] = answer
            self.log.write(f"> {line}\n".encode())
            self.log.flush()
            try:
                self.process.stdin.write(line + "\n")
                self.process.stdin.flush()
            except (BrokenPipeError, ValueError):
                self.pending.pop(sequence, None)
                answer.arrive(["failed", "the agent has ended"])
        return answer

    def kill(self):
        """As a power cut ends it."""
        self.process.kill()
        self.process.wait()

    def close(self):
        try:
            self.process.stdin.close()
            self.process.wait(timeout=10)
        except (subprocess.TimeoutExpired, OSError):
            self.kill()
        self.reader.join(timeout=5)
        self.log.close()


class Client:
    """A client of a library, in some agent; its actors are made by naming them."""

    numbers = itertools.count(1)

    def __init__(self, agent, url, *options, own_agent=False):
        self.agent = agent
        self.name = f"c{next(self.numbers)}"
        self.own_agent = own_agent
        agent.send(self.name, "open", url, *options).ok()

    def actor(self, name="a"):
        return Actor(self, name)

    def kill(self):
        assert self.own_agent, "other clients live in this agent too"
        self.agent.kill()

    def close(self):
        if self.agent.process.poll() is None:
            self.agent.send(self.name, "close").word()
        if self.own_agent:
            self.agent.close()


class Actor:
    def __init__(self, client, name):
        self.client = client
        self.who = f"{client.name}/{name}"

    def send(self, *words):
        return self.client.agent.send(self.who, *words)

    def acquire(self, name, kind, wait_ms=0, lease_ms=0):
        """The answer's first word."""
        return self.start(name, kind, wait_ms, lease_ms).word(PATIENCE + max(wait_ms, 0) / 1000)

    def start(self, name, kind, wait_ms=60000, lease_ms=0):
        return self.send("acquire", name, kind, wait_ms, lease_ms)

    def take(self, name, kind, wait_ms=0, lease_ms=0):
        """Must be granted. Its fence, 0 where there is none."""
        return self.start(name, kind, wait_ms, lease_ms).ok(PATIENCE + max(wait_ms, 0) / 1000)

    def release(self, name, kind):
        return self.send("release", name, kind).word()

    def give(self, name, kind):
        """Must be released."""
        self.send("release", name, kind).ok()

    def left(self, name, kind):
        return self.send("left", name, kind).ok()

    def force(self, name, kind):
        return self.send("force", name, kind).word()

    def cancel(self):
        self.send("cancel")

    def loop(self, name, kind, wait_ms, lease_ms, rounds, hold_ms, folder):
        return self.send("loop", name, kind, wait_ms, lease_ms, rounds, hold_ms, folder)


def until(condition, what, patience=PATIENCE):
    """Waits for something that must happen."""
    end = time.monotonic() + patience
    while time.monotonic() < end:
        value = condition()
        if value:
            return value
        time.sleep(0.005)
    raise AssertionError(f"did not happen in {patience} s: {what}")


def environment(**more):
    env = {k: v for k, v in os.environ.items() if not k.startswith("HOLDFAST")}
    env.update(more)
    return env
