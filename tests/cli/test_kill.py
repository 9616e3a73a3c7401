# SPDX-License-Identifier: MIT
"""The promise of the guardian: whatever is done to `holdfast run`, no process of its command is alive when the next
one enters. The command here has a child in its group, one that left the group and the session, and one that lost its
parent besides; all of them ignore SIGTERM and write the time on CLOCK_BOOTTIME as long as they live.
"""
import os
import signal
import time

import pytest

from conftest import PYTHON, children, until

OLD = r"""
import os, signal, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
def beat(who):
    with open("beat", "a", buffering=1) as log:
        while True:
            log.write("%s %.6f\n" % (who, time.clock_gettime(time.CLOCK_BOOTTIME)))
            time.sleep(0.005)
if os.fork() == 0:
    beat("child")
if os.fork() == 0:
    os.setsid()
    beat("session")
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        beat("orphan")
    os._exit(0)
beat("command")
"""

# The next one: when it entered, and who of the old ones was alive then.
NEXT = r"""
import os, time
entered = time.clock_gettime(time.CLOCK_BOOTTIME)
alive = []
for pid in filter(str.isdigit, os.listdir("/proc")):
    try:
        if b"HFTEST_OLD=MARK" in open("/proc/%s/environ" % pid, "rb").read().split(b"\0"):
            if open("/proc/%s/stat" % pid).read().rsplit(")", 1)[1].split()[0] not in "ZX":
                alive.append(pid)
    except OSError:
        pass
print("%.6f %s" % (entered, " ".join(alive)))
"""


def beats(place):
    last = {}
    for line in place.lines("beat"):
        who, when = line.split()
        last[who] = float(when)
    return last


def start_old(place, *options):
    old = place.start("run", *options, "n", "--", "env", f"HFTEST_OLD={place.mark}", PYTHON, "-ISc", OLD)
    until(lambda: len(beats(place)) == 4, "all four are at work")
    return old


def check(place, next_one, *, patience=20):
    assert place.end(next_one, patience=patience) == 0, next_one.err
    entered, *alive = next_one.out.split()
    assert alive == []
    last = beats(place)
    time.sleep(0.1)
    assert beats(place) == last
    # A process that is gone as seen by the kernel cannot have written later; the log says the same.
    print(f"last of the old: {max(last.values()):.6f}, next entered {float(entered) - max(last.values()):.6f} s later")
    assert max(last.values()) < float(entered), (last, entered)


def wait_next(place):
    waiter = place.start("run", "n", "--", PYTHON, "-ISc", NEXT.replace("MARK", place.mark))
    place.await_waiter("n")
    return waiter


@pytest.mark.parametrize("round", range(3))
def test_run_killed(place, round):
    old = start_old(place, "--watchdog", "6", "--grace", "0.5")
    waiter = wait_next(place)
    old.send_signal(signal.SIGKILL)
    check(place, waiter)
    assert place.end(old) == 137


def test_run_killed_with_on_loss_kill(place):
    old = start_old(place, "--on-loss=kill")
    waiter = wait_next(place)
    old.send_signal(signal.SIGKILL)
    check(place, waiter, patience=10)


@pytest.mark.parametrize("policy", ["term", "kill"])
def test_run_stopped_beyond_its_lease(place, policy):
    old = start_old(place, "--watchdog", "3", "--on-loss", policy)
    waiter = wait_next(place)
    old.send_signal(signal.SIGSTOP)
    check(place, waiter)
    old.send_signal(signal.SIGCONT)
    assert place.end(old) == 79
    # What is not its own any more it leaves aplace.
    assert place.free("n")


def test_the_next_holder_is_not_disturbed(place):
    """Run is continued while the next one is at work: it says that it lost, and leaves the name alone."""
    old = place.hold("n", "--watchdog", "2")
    old.send_signal(signal.SIGSTOP)
    new = place.hold("n", script="while [ ! -e go ]; do sleep 0.02; done")
    old.send_signal(signal.SIGCONT)
    assert place.end(old) == 79
    claims = place.claims("n")
    assert [c["pid"] for c in claims] == [new.pid] and claims[0]["state"] == "held"
    open(place.path("go"), "w").close()
    assert place.end(new) == 0


def test_fixed_lease_over(place):
    old = start_old(place, "--lease", "3", "--grace", "0.3")
    waiter = wait_next(place)
    check(place, waiter)
    assert place.end(old) == 79


def test_stopped_while_its_group_is_stopped(place):
    """Both run and its command are stopped: the guardian continues and kills the group."""
    old = start_old(place, "--watchdog", "3")
    waiter = wait_next(place)
    group = children(place.guardian(old))[0]
    old.send_signal(signal.SIGSTOP)
    os.killpg(group, signal.SIGSTOP)
    check(place, waiter)
    old.send_signal(signal.SIGCONT)
    assert place.end(old) == 79


def test_run_killed_while_it_waits_for_the_kill(place):
    """First the lease ends, then run is killed while the guardian still gives grace."""
    old = start_old(place, "--lease", "4", "--grace", "1")
    waiter = wait_next(place)
    time.sleep(2.9)
    old.send_signal(signal.SIGKILL)
    check(place, waiter)


def test_run_and_guardian_killed_together(place):
    """Nobody is left to kill, but the kernel kills the command itself; what it had started is documented to stay."""
    old = place.hold("n", script="exec sleep 60")
    guardian = place.guardian(old)
    command = children(guardian)[0]
    old.send_signal(signal.SIGSTOP)
    os.kill(guardian, signal.SIGKILL)
    old.send_signal(signal.SIGKILL)
    until(lambda: command not in place.marked(), "the command is gone")
    until(lambda: place.free("n"), "the name is free")


def test_many_generations_are_killed(place):
    """A chain of processes, each in a session of its own: each kill turns the next one into a child of the guardian."""
    script = (
        "import os, sys, time\n"
        "for i in range(40):\n"
        "    if os.fork():\n"
        "        break\n"
        "    os.setsid()\n"
        "else:\n"
        "    open('deep', 'w').close()\n"
        "time.sleep(60)\n"
    )
    old = place.start("run", "--lease", "3", "--on-loss=kill", "n", "--", PYTHON, "-c", script)
    until(lambda: os.path.exists(place.path("deep")), "40 generations")
    assert place.end(old) == 79
    assert place.marked() == {}


def test_nothing_is_left_behind(place):
    for _ in range(10):
        assert place.code("run", "n", "true") == 0
    assert place.marked() == {}
    left = [name for name in os.listdir(place.path("locks.db-clients"))]
    assert left == [], left
