# SPDX-License-Identifier: MIT
"""What the interop tests share: a Redis server of their own, the peers that were fetched, and a table of what was
seen.

Environment: HOLDFAST (the command), HF_INTEROP_AGENT (the agent of Holdfast), HF_INTEROP_PEERS (what
tests/interop/fetch made; may be missing), HF_WITH_REDIS (the program that starts several servers), HF_TEST_DIR (where
all files go).
"""
import os
import shutil
import socket
import subprocess
import sys
import time
import uuid

import pytest
import redis

from agents import Agent, Client, environment, until

HOLDFAST = os.environ.get("HOLDFAST", "holdfast")
WITH_REDIS = os.environ.get("HF_WITH_REDIS", "with_redis")
AGENT = os.environ.get("HF_INTEROP_AGENT", "interop_agent")
PEERS = os.environ.get("HF_INTEROP_PEERS", "")
DIR = os.environ.get("HF_TEST_DIR", ".")
HERE = os.path.dirname(os.path.abspath(__file__))
ROWS = []  # the table: test, figures


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


class Server:
    """A redis-server on a port and a socket of its own."""

    def __init__(self):
        self.dir = os.path.join(DIR, f"redis-{uuid.uuid4().hex[:8]}")
        os.makedirs(self.dir)
        for _ in range(5):  # the port may be taken by somebody else meanwhile
            self.port = free_port()
            self.process = subprocess.Popen(
                ["setpriv", "--pdeathsig", "KILL", "--", "redis-server", "--port", str(self.port),
                 "--bind", "127.0.0.1", "--dir", self.dir, "--save", "", "--appendonly", "no",
                 "--logfile", os.path.join(self.dir, "log")],
                stdin=subprocess.DEVNULL)
            self.redis = redis.Redis(port=self.port)
            if until(lambda: self.answers() or self.process.poll() is not None, "redis-server answers") \
                    and self.process.poll() is None:
                break
        assert self.process.poll() is None, "redis-server does not start"
        self.url = f"redis://127.0.0.1:{self.port}"

    def answers(self):
        try:
            return self.redis.ping()
        except redis.ConnectionError:
            return False

    def close(self):
        self.redis.close()
        self.process.kill()
        self.process.wait()
        shutil.rmtree(self.dir, ignore_errors=True)

    def keys(self, name):
        """Every key that belongs to the name: {key: ttl in ms, -1 none}."""
        found = {}
        for key in self.redis.scan_iter(match=f"*{name}*", count=1000):
            ttl = self.redis.pttl(key)
            if ttl != -2:
                found[key.decode(errors="surrogateescape")] = ttl
        return found


class Arrangement:
    """Several servers, which with_redis starts and ends: what it puts in for a mark is where they are."""

    MARKS = {"redlock": "redlock://@REDLOCK@", "sentinel": "redis-sentinel://@SENTINEL@",
             "cluster": "redis-cluster://@CLUSTER@"}

    def __init__(self, name):
        self.process = subprocess.Popen(
            ["setpriv", "--pdeathsig", "KILL", "--", WITH_REDIS, "--", "sh", "-c", "echo $1; exec cat", "sh",
             self.MARKS[name]], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=DIR)
        self.url = self.process.stdout.readline().strip()
        assert self.url, f"{name}: the servers do not start"
        # They are as young as can be, and would not vote yet.
        self.query = "?durable=yes" if name == "redlock" else ""

    def close(self):
        self.process.stdin.close()
        self.process.wait(30)


def peer_state(peer):
    """(is there, version or reason)"""
    for state in ("ready", "absent"):
        try:
            with open(os.path.join(PEERS, peer, state)) as file:
                return state == "ready", file.read().strip()
        except OSError:
            pass
    return False, "not fetched (tests/interop/fetch)"


def peer_path(peer, *rest):
    there, why = peer_state(peer)
    if not there:
        pytest.skip(f"{peer} cannot be had here: {why}")
    return os.path.join(PEERS, peer, *rest)


class World:
    """The server and the agents, for the whole run: there is one Java process."""

    def __init__(self):
        self.server = Server()
        self.agents = {}
        self.arrangements = {}

    def arrangement(self, name):
        if name not in self.arrangements:
            self.arrangements[name] = Arrangement(name)
        return self.arrangements[name]

    def log(self, name):
        return os.path.join(DIR, f"{name}.log")

    def argv(self, name):
        if name == "holdfast":
            return [AGENT], environment()
        if name == "redisson":
            jars, classes = peer_path(name, "jars", "*"), peer_path(name, "classes")
            small = ["-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"]
            return ["java", *small, "-cp", f"{jars}:{classes}", "Agent"], None
        if name == "redis-py":
            there, _ = peer_state(name)  # else Debian's
            env = environment(PYTHONPATH=os.path.join(PEERS, name, "modules")) if there else environment()
            return [sys.executable, "-B", os.path.join(HERE, "peers", name, "agent.py")], env
        if name == "node-redlock":
            return ["node", peer_path(name, "agent.js")], None
        if name in ("redsync", "redislock"):
            return [peer_path("go", "agent"), name], None
        raise KeyError(name)

    def agent(self, name, own=False):
        if own:
            argv, env = self.argv(name)
            return Agent(name, argv, self.log(f"{name}-{uuid.uuid4().hex[:6]}"), env)
        if name not in self.agents or self.agents[name].process.poll() is not None:
            argv, env = self.argv(name)
            self.agents[name] = Agent(name, argv, self.log(name), env)
        return self.agents[name]

    def close(self):
        for agent in self.agents.values():
            agent.close()
        for arrangement in self.arrangements.values():
            arrangement.close()
        self.server.close()


@pytest.fixture(scope="session")
def world():
    world = World()
    yield world
    world.close()


class Place:
    """What one test has: a name of its own, clients that end with it, a folder."""

    def __init__(self, world, test):
        self.world = world
        self.server = world.server
        self.redis = world.server.redis
        self.test = test
        self.name = f"n{uuid.uuid4().hex[:10]}"
        self.clients = []

    def client(self, library, own=False, url="", options=(), at=None, query=""):
        """A client of a library. `own`: in a process of its own. `url`: what is appended to Holdfast's URL. `at`: an
        arrangement of several servers. `query`: what is appended to another library's URL."""
        if library == "redisson" and own:
            raise ValueError("there is one Java process")
        query = url if library == "holdfast" else query
        if at and library == "holdfast":
            query = at.query + (url.replace("?", "&") if at.query else url)
        base = at.url if at else self.server.url
        client = Client(self.world.agent(library, own), base + query, *options, own_agent=own)
        self.clients.append(client)
        return client

    def actor(self, library, **options):
        return self.client(library, **options).actor()

    def folder(self):
        path = os.path.join(DIR, f"guard-{self.name}")
        os.makedirs(path, exist_ok=True)
        return path

    def command(self, *args, query=""):
        env = environment(HOLDFAST_STORE=self.server.url + query)
        return subprocess.run([HOLDFAST, *args], env=env, stdin=subprocess.DEVNULL, capture_output=True, timeout=30)

    def begin(self, *args, query=""):
        env = environment(HOLDFAST_STORE=self.server.url + query)
        return subprocess.Popen(["setpriv", "--pdeathsig", "KILL", "--", HOLDFAST, *args], env=env,
                                stdin=subprocess.DEVNULL)

    def note(self, figures):
        ROWS.append((self.test, figures))

    def close(self):
        slow = []
        for client in self.clients:
            try:
                client.close()
            except AssertionError as e:
                slow.append(str(e))
        shutil.rmtree(os.path.join(DIR, f"guard-{self.name}"), ignore_errors=True)
        assert not slow, slow


@pytest.fixture
def place(world, request):
    place = Place(world, label(request.node.nodeid))
    yield place
    place.close()


def label(nodeid):
    """"tests/interop/test_fair.py::test_turns[a-b]" is "fair: turns[a-b]"."""
    file, _, test = nodeid.partition("::")
    return f"{os.path.basename(file)[len('test_'):-len('.py')]}: {test.removeprefix('test_')}"


def milliseconds(start, end):
    return round((end - start) * 1000)


def pytest_terminal_summary(terminalreporter):
    outcome = {}
    for word in ("passed", "failed", "error", "skipped", "xfailed", "xpassed"):
        for report in terminalreporter.stats.get(word, []):
            outcome[label(report.nodeid)] = word
    figures = {}
    for test, text in ROWS:
        figures.setdefault(test, []).append(text)
    terminalreporter.section("interop")
    for peer in ("redisson", "redis-py", "node-redlock", "go") if PEERS else ():
        there, what = peer_state(peer)
        line = what if there else "LEFT OUT: " + " ".join(what.split())
        if peer == "redis-py" and not there:
            line += f"; Debian's {redis.__version__} stands in for it"
        terminalreporter.write_line(f"{peer:<14}{line}")
    terminalreporter.write_line("")
    for test, word in outcome.items():
        terminalreporter.write_line(f"{test:<64} | {word:<8} | {'; '.join(figures.get(test, []))}".rstrip(" |"))


def sleep_until(moment):
    time.sleep(max(0, moment - time.monotonic()))
