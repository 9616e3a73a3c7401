# SPDX-License-Identifier: MIT
"""A Redis server of a test's own, ended with the test, whatever ends it: on a port for the command, and on a socket in
the place's folder for looks beside it."""
import ctypes
import os
import signal
import socket
import subprocess

from conftest import Place, until

LIBC = ctypes.CDLL(None)
PR_SET_PDEATHSIG = 1


class RedisError(Exception):
    pass


def read_reply(file):
    kind, rest = (lambda line: (line[:1], line[1:-2]))(file.readline())
    if kind == b"+":
        return rest
    if kind == b"-":
        raise RedisError(rest.decode())
    if kind == b":":
        return int(rest)
    if kind == b"$":
        return None if rest == b"-1" else file.read(int(rest) + 2)[:-2]
    if kind == b"*":
        return [read_reply(file) for _ in range(int(rest))]
    raise AssertionError(f"no RESP: {kind + rest}")


def to_bytes(word):
    return word if isinstance(word, bytes) else str(word).encode()


class Server:
    def __init__(self, dir, *args):
        self.dir = dir
        self.path = os.path.join(dir, "redis.sock")
        self.args = args
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        self.start()

    def start(self):
        self.process = self.spawn(*self.args)
        until(self.answers, "the server answers", 60)

    def spawn(self, *args):
        parent = os.getpid()

        def tie():
            LIBC.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
            if os.getppid() != parent:
                os._exit(1)
        return subprocess.Popen(
            ["redis-server", "--bind", "127.0.0.1", "--port", str(self.port), "--unixsocket", self.path, "--dir", self.dir,
             "--save", "", *args],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, preexec_fn=tie, cwd=self.dir)

    def answers(self):
        assert self.process.poll() is None, "the server ended"
        try:
            return self.ask("PING") == b"PONG"
        except (OSError, RedisError):
            return False

    def open(self):
        connection = socket.socket(socket.AF_UNIX)
        connection.settimeout(10)
        connection.connect(self.path)
        return connection

    def ask(self, *words):
        """One command over a connection of its own."""
        with self.open() as connection:
            return self.talk(connection, *words)

    def talk(self, connection, *words):
        words = [to_bytes(word) for word in words]
        connection.sendall(b"*%d\r\n" % len(words) + b"".join(b"$%d\r\n%s\r\n" % (len(w), w) for w in words))
        with connection.makefile("rb") as file:
            return read_reply(file)

    def calls(self, command):
        """How often this command was called since the last CONFIG RESETSTAT."""
        for line in self.ask("INFO", "commandstats").decode().split("\r\n"):
            if line.startswith(f"cmdstat_{command}:"):
                return int(line.split("calls=")[1].split(",")[0])
        return 0

    def url(self, options="", user=""):
        return f"redis://{user}127.0.0.1:{self.port}{options}"

    def stop(self):
        self.process.kill()
        self.process.wait()


class RedisPlace(Place):
    def __init__(self, *args):
        super().__init__()
        self.server = Server(self.dir, *args)
        self.use(self.server.url())

    def use(self, store):
        self.store = self.env["HOLDFAST_STORE"] = store

    def close(self):
        self.server.stop()
        super().close()
