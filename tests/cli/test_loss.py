# SPDX-License-Identifier: MIT
"""Losses at bad moments: everything was frozen, nobody reads what is said, the guardian is gone."""
import ctypes
import fcntl
import os
import signal
import time

import pytest

from conftest import HOLDFAST, PYTHON, children, until

# One in the group and one that left group and session and lost its parent. They say when they get SIGTERM, and go on.
MEMBERS = r"""
import os, signal, time
def work(who):
    log = open("beat", "a", buffering=1)
    signal.signal(signal.SIGTERM, lambda *_: log.write("term %s\n" % who))
    while True:
        log.write("%s\n" % who)
        time.sleep(0.005)
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        work("orphan")
    os._exit(0)
work("command")
"""


def start_members(place, *options, **how):
    old = place.start("run", *options, "n", "--", "env", f"HFTEST_OLD={place.mark}", PYTHON, "-ISc", MEMBERS, **how)
    until(lambda: set(place.lines("beat")) == {"command", "orphan"}, "both are at work")
    return old


def old_ones(place):
    return place.marked(f"HFTEST_OLD={place.mark}")


def state(pid):
    with open(f"/proc/{pid}/stat") as file:
        return file.read().rsplit(")", 1)[1].split()[0]


@pytest.fixture
def full_pipe():
    """A pipe that nobody reads: (the full end to write to, a function that reads it empty)."""
    reader, writer = os.pipe()
    for end in (reader, writer):
        fcntl.fcntl(end, fcntl.F_SETFL, os.O_NONBLOCK)

    def fill():
        try:
            while True:
                os.write(writer, b"." * 4096)
        except BlockingIOError:
            pass

    def read():
        try:
            return os.read(reader, 1 << 20)
        except BlockingIOError:
            return b""
    fill()
    fcntl.fcntl(writer, fcntl.F_SETFL, 0)
    yield writer, read
    os.close(reader)
    os.close(writer)


class Frozen:
    """A process that no SIGCONT wakes, as in a cgroup's freezer."""

    PTRACE_DETACH, PTRACE_SEIZE, PTRACE_INTERRUPT, WALL = 17, 0x4206, 0x4207, 0x40000000

    def __init__(self, pid):
        self.pid = pid
        self.trace(self.PTRACE_SEIZE)
        self.trace(self.PTRACE_INTERRUPT)
        os.waitpid(pid, self.WALL)

    def trace(self, request):
        libc = ctypes.CDLL(None, use_errno=True)
        if libc.ptrace(request, self.pid, None, None) != 0:
            raise OSError(ctypes.get_errno(), "ptrace")

    def thaw(self):
        self.trace(self.PTRACE_DETACH)


@pytest.mark.parametrize("first", ["run", "guardian"])
def test_all_frozen_beyond_the_lease_gives_no_grace(place, first):
    """As after a suspend of the machine, or a container that was paused: whoever wakes first, the deadline is past, so
    none of the old ones may run once more."""
    old = start_members(place, "--watchdog", "2", "--grace", "0.6")
    guardian = place.guardian(old)
    for pid in (old.pid, *old_ones(place)):
        os.kill(pid, signal.SIGSTOP)
    freezer = Frozen(guardian)
    until(lambda: all(state(pid) == "T" for pid in old_ones(place)), "all stand")
    frozen = place.lines("beat")
    assert place.run("run", "n", "true").code == 0  # the next one is in
    if first == "guardian":
        freezer.thaw()
        until(lambda: old_ones(place) == {}, "the guardian kills them")
        old.send_signal(signal.SIGCONT)
    else:
        old.send_signal(signal.SIGCONT)
        until(lambda: len(old_ones(place)) == 1, "run kills the group")
        freezer.thaw()
    assert place.end(old) == 79
    assert place.lines("beat") == frozen and old_ones(place) == {}


def test_a_loss_is_acted_on_while_nobody_reads_the_messages(place, full_pipe):
    """The guardian is stopped besides, so that all depends on run."""
    full, read = full_pipe
    old = start_members(place, "--watchdog", "3", "--grace", "0.3", stderr=full)
    os.kill(place.guardian(old), signal.SIGSTOP)
    assert place.code("break", "--yes", "n") == 0
    until(lambda: old_ones(place) == {}, "the command is gone")
    until(lambda: place.free("n"), "the name is free")
    assert {"term command", "term orphan"} <= set(place.lines("beat"))
    assert old.poll() is None  # it still has something to say
    text = b""

    def ended():
        nonlocal text
        text += read()
        return old.poll() is not None
    until(ended, "run ends when it was read")
    assert place.end(old) == 79 and b"is lost or its time is over" in text + read()


def test_a_dead_guardian_is_replaced_while_nobody_reads_the_messages(place, full_pipe):
    old = place.hold("n", "--watchdog", "60", script="sleep 60 & wait", stderr=full_pipe[0])
    os.kill(place.guardian(old), signal.SIGKILL)
    until(lambda: place.free("n"), "the name is free")
    assert [pid for pid in place.marked() if pid != old.pid] == [] and old.poll() is None
    old.send_signal(signal.SIGTERM)
    assert place.end(old) == 79


def test_the_command_starts_and_ends_while_nobody_reads_the_messages(place, full_pipe):
    old = place.hold("n", "--verbose", script="while [ ! -e go ]; do sleep 0.02; done", stderr=full_pipe[0])
    open(place.path("go"), "w").close()
    until(lambda: place.free("n"), "the name is free")
    old.send_signal(signal.SIGTERM)
    assert place.end(old) == 0


def test_guardian_killed_with_on_loss_kill(place):
    old = place.hold("n", "--watchdog", "90", "--on-loss=kill", script="trap '' TERM; sleep 60 & wait")
    os.kill(place.guardian(old), signal.SIGKILL)
    assert place.end(old) == 79
    assert place.marked() == {} and place.free("n")


def test_signals_are_taken_after_the_death_of_the_guardian(place):
    member = "trap '' TERM; trap 'echo usr1 >>got' USR1; : >member; while :; do sleep 0.02; done"
    old = place.hold("n", "--watchdog", "180", "--grace", "60", script=f'sh -c "{member}" & wait')
    until(lambda: os.path.exists(place.path("member")), "the member is at work")
    guardian = place.guardian(old)
    command = children(guardian)[0]
    os.kill(guardian, signal.SIGKILL)
    until(lambda: command not in place.marked(), "the kernel ends the command")
    old.send_signal(signal.SIGUSR1)
    until(lambda: place.lines("got") == ["usr1"], "passed on")
    assert old.poll() is None
    old.send_signal(signal.SIGTERM)
    assert place.end(old) == 79
    assert place.marked() == {} and place.free("n")


def test_what_the_policy_stopped_is_not_continued_when_the_guardian_dies(place):
    member = "trap '' TERM; while :; do echo x >>beat; sleep 0.01; done"
    old = place.hold("n", "--watchdog", "3", "--grace", "1", "--on-loss=stop", script=f'sh -c "{member}" & wait')
    until(lambda: place.lines("beat"), "the member is at work")
    guardian = place.guardian(old)
    command = children(guardian)[0]
    assert place.code("break", "--yes", "n") == 0
    until(lambda: state(command) == "T" and all(state(pid) == "T" for pid in children(command)), "stopped")
    stopped = place.lines("beat")
    os.kill(guardian, signal.SIGKILL)
    assert place.end(old) == 79
    assert place.lines("beat") == stopped


def test_the_end_is_heard_of_although_the_guardian_had_much_to_tell(place):
    """While run is stopped, the command stops so often that the socket between the two is full."""
    old = place.hold("n", "--watchdog", "90", script="while [ ! -e go ]; do sleep 0.02; done; exit 3")
    command = children(place.guardian(old))[0]
    old.send_signal(signal.SIGSTOP)
    for _ in range(1000):
        os.kill(command, signal.SIGSTOP)
        time.sleep(0.001)
        os.kill(command, signal.SIGCONT)
        time.sleep(0.0005)
    open(place.path("go"), "w").close()
    until(lambda: command not in place.marked(), "the command ends")
    old.send_signal(signal.SIGCONT)
    assert place.end(old) == 3


def test_orphans_of_earlier_children_do_not_stay_zombies(place):
    """Run adopts what its own children, from before it was holdfast, leave behind; so it has to collect it."""
    script = (f"sh -c 'sh -c \"until [ -e go ]; do sleep 0.02; done\" & until [ -e up ]; do sleep 0.02; done' & "
              f"exec {HOLDFAST} run --watchdog 2 n -- sh -c ': >up; sleep 60'")
    old = place.start_other("/bin/sh", "-c", script)
    guardian = place.guardian(old)
    until(lambda: os.path.exists(place.path("up")), "start")
    until(lambda: len(children(old.pid)) >= 2, "the orphan is adopted")
    open(place.path("go"), "w").close()
    until(lambda: children(old.pid) == [guardian], "the orphan is collected")
    old.send_signal(signal.SIGTERM)
    assert place.end(old) == 143
