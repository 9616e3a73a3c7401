# SPDX-License-Identifier: MIT
"""What the tests of the command share: a place with a store of its own, and processes that do not outlive it.

Every process of a place carries a mark in its environment, by which those that a command left behind are found, in
whatever group or session they are.
"""
import json
import os
import shutil
import signal
import subprocess
import tempfile
import time
import uuid

import pytest

HOLDFAST = os.environ["HOLDFAST"]
PYTHON = os.environ.get("HF_TEST_PYTHON", "python3")
HERE = os.path.dirname(os.path.abspath(__file__))
PATIENCE = 20  # seconds; only for what should happen in milliseconds, on a machine that is busy


def now():
    return time.clock_gettime(time.CLOCK_BOOTTIME)


def until(condition, what, patience=PATIENCE):
    """Waits for something that must happen."""
    end = now() + patience
    while now() < end:
        value = condition()
        if value:
            return value
        time.sleep(0.01)
    raise AssertionError(f"did not happen in {patience} s: {what}")


class Place:
    def __init__(self, store=None):
        self.dir = tempfile.mkdtemp(prefix="cli-", dir=os.environ.get("HF_TEST_DIR", "."))
        self.store = store or f"sqlite://{self.dir}/locks.db"
        self.mark = uuid.uuid4().hex
        self.started = []
        self.env = {k: v for k, v in os.environ.items() if not k.startswith("HOLDFAST")}
        self.env["HOLDFAST_STORE"] = self.store
        self.env["HFTEST_MARK"] = self.mark
        self.env["PATH"] = "/usr/local/bin:/usr/bin:/bin"  # in a folder that may not be searched, a command may be
        self.env["SHELL"] = "/bin/sh"  # bash ignores SIGQUIT, whatever it was given

    def path(self, name):
        return os.path.join(self.dir, name)

    def read(self, name):
        try:
            with open(self.path(name), errors="surrogateescape") as file:
                return file.read()
        except FileNotFoundError:
            return ""

    def lines(self, name):
        return self.read(name).split("\n")[:-1]

    def start(self, *args, **options):
        """holdfast with these arguments."""
        return self.start_other(HOLDFAST, *args, **options)

    def start_other(self, *argv, **options):
        """A program, in a session of its own: no terminal of who runs the tests plays a part."""
        options.setdefault("stdin", subprocess.DEVNULL)
        options.setdefault("stdout", subprocess.PIPE)
        options.setdefault("stderr", subprocess.PIPE)
        options.setdefault("env", self.env)
        options.setdefault("start_new_session", True)
        process = subprocess.Popen(argv, cwd=self.dir, **options)
        self.started.append(process)
        return process

    def end(self, process, input=None, patience=PATIENCE):
        """Waits for its end. The exit code as a shell shows it."""
        process.out, process.err = process.communicate(input=input, timeout=patience)
        code = process.returncode
        return 128 - code if code < 0 else code

    def run(self, *args, input=None, **options):
        if input is not None:
            options["stdin"] = subprocess.PIPE
        process = self.start(*args, **options)
        process.code = self.end(process, input=input)
        return process

    def code(self, *args, **options):
        return self.run(*args, **options).code

    def hold(self, name="name", *options, script="sleep 60", **how):
        """A run that holds the name; its command is running."""
        flag = uuid.uuid4().hex
        process = self.start("run", *options, name, "-c", f": >{flag}; {script}", **how)
        until(lambda: os.path.exists(self.path(flag)), f"{name} is held")
        return process

    def claims(self, name="name"):
        shown = self.run("show", "--json", name)
        assert shown.code == 0, shown.err
        return json.loads(shown.out)["claims"]

    def await_waiter(self, name="name", count=1):
        until(lambda: sum(c["state"] == "waiting" for c in self.claims(name)) == count, f"{count} wait for {name}")

    def free(self, name="name"):
        """True where the name can be had at once."""
        return self.code("run", "-n", name, "true") == 0

    def marked(self, extra=None):
        """The living processes of this place, or those with `extra` in their environment: {pid: command line}."""
        found = {}
        wanted = (extra or f"HFTEST_MARK={self.mark}").encode()
        for pid in filter(str.isdigit, os.listdir("/proc")):
            try:
                with open(f"/proc/{pid}/environ", "rb") as file:
                    environ = file.read()
                with open(f"/proc/{pid}/cmdline", "rb") as file:
                    line = file.read().replace(b"\0", b" ").decode(errors="replace")
                with open(f"/proc/{pid}/stat", "rb") as file:
                    state = file.read().rsplit(b")", 1)[1].split()[0]
            except OSError:
                continue
            if wanted in environ.split(b"\0") and state not in (b"Z", b"X"):
                found[int(pid)] = line.strip()
        return found

    def guardian(self, process):
        """The id of the guardian of a run."""
        def find():
            for child in children(process.pid):
                try:
                    with open(f"/proc/{child}/comm") as file:
                        if file.read().strip() == "holdfast-guard":
                            return child
                except OSError:
                    pass
            return None
        return until(find, "the guardian")

    def close(self):
        for pid in self.marked():
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        for process in self.started:
            process.wait(timeout=PATIENCE)
            for stream in (process.stdin, process.stdout, process.stderr):
                if stream:
                    stream.close()
        shutil.rmtree(self.dir, ignore_errors=True)


def children(pid):
    try:
        with open(f"/proc/{pid}/task/{pid}/children") as file:
            return [int(word) for word in file.read().split()]
    except OSError:
        return []


@pytest.fixture
def place():
    place = Place()
    yield place
    place.close()
