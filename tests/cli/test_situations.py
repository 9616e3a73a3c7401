# SPDX-License-Identifier: MIT
"""What `holdfast` exits with, one situation a line, as holdfast(1) documents it.

Each situation is real: real processes, signals and a real store of its own. They run some at a time, and the table is
printed at the end. A situation may assert more than its code; what fails then stands in the last column.
"""
import concurrent.futures
import os
import re
import resource
import signal
import subprocess
import time

from conftest import PYTHON, Place, now, until

SITUATIONS = []


def situation(expected, text):
    def add(function):
        SITUATIONS.append((expected, text, function))
        return function
    return add


def simple(expected, text, *args, err=None, **options):
    """One call of the command; `err`: what must stand in its message."""
    def function(place):
        process = place.run(*args, **options)
        if err is not None:
            assert err.encode() in process.err, process.err
        return process.code
    SITUATIONS.append((expected, text, function))


# ---------------------------------------------------------------- the command's own code

simple(0, "command ends with 0", "run", "n", "--", "true")
simple(7, "command ends with 7", "run", "n", "--", "sh", "-c", "exit 7")
simple(255, "command ends with 255", "run", "n", "--", "sh", "-c", "exit 255")
simple(5, "without --", "run", "n", "sh", "-c", "exit 5")
simple(3, "-c SCRIPT before the name", "run", "-c", "exit 3", "n")
simple(4, "-c SCRIPT after the name, as flock has it", "run", "n", "-c", "exit 4")
simple(137, "command killed by KILL", "run", "n", "--", "sh", "-c", "kill -KILL $$")
simple(143, "command killed by TERM", "run", "n", "--", "sh", "-c", "kill -TERM $$")
simple(139, "command killed by SEGV", "run", "n", "--", "sh", "-c", "ulimit -c 0; kill -SEGV $$")
simple(127, "command not found", "run", "n", "--", "no-such-command-here", err="No such file")
simple(126, "command not executable", "run", "n", "--", "/etc/passwd", err="Permission denied")
simple(126, "command is a folder", "run", "n", "--", "/usr", err="cannot run /usr")


@situation(0, "arguments with spaces, quotes and newlines arrive untouched")
def arguments(place):
    wanted = ["a b", "'", '"', "$HOME", "", "x\ny", "*", "\\", "-n", "--", "é\udcff"]
    script = "import os, sys; open('out', 'wb').write(b'\\0'.join(os.fsencode(a) for a in sys.argv[1:]))"
    code = place.code("run", "n", "--", PYTHON, "-c", script, *wanted)
    with open(place.path("out"), "rb") as file:
        assert file.read().split(b"\0") == [os.fsencode(a) for a in wanted]
    return code


@situation(0, "standard input reaches the command")
def stdin(place):
    process = place.run("run", "n", "cat", input=b"some\0bytes\n")
    assert process.out == b"some\0bytes\n"
    return process.code


@situation(0, "other open files reach the command")
def descriptors(place):
    with open(place.path("out"), "w") as file:
        code = place.code("run", "n", "-c", f"echo here >/proc/self/fd/{file.fileno()}", pass_fds=[file.fileno()])
    assert place.read("out") == "here\n"
    return code


@situation(0, "no file of the store reaches the command")
def no_leak(place):
    process = place.run("run", "n", "ls", "-l", "/proc/self/fd")
    links = [line.split(" -> ")[1] for line in process.out.decode().split("\n") if " -> " in line]
    links = [link for link in links if not link.startswith(("/dev/null", "pipe:", "/proc/"))]
    assert links == [], links
    return process.code


def closed(*which):
    return lambda: [os.close(fd) for fd in which]


simple(0, "standard input closed", "run", "n", "cat", preexec_fn=closed(0))
simple(9, "standard output closed", "run", "n", "-c", "echo x; exit 9", preexec_fn=closed(1))
simple(6, "input, output and error closed", "run", "n", "-c", "echo x; exit 6", preexec_fn=closed(0, 1, 2))


@situation(0, "closed descriptors are not taken by the store")
def closed_not_taken(place):
    code = place.code("run", "n", "-c", "ls -l /proc/self/fd/0 /proc/$PPID/fd/1 >out 2>&1", preexec_fn=closed(0, 1, 2))
    assert "locks.db" not in place.read("out")
    return code


@situation(0, "HOLDFAST_NAME and HOLDFAST_FENCE; fences rise; an outer run's values do not leak in")
def environment(place):
    place.env["HOLDFAST_DEADLINE"] = "5"
    script = 'echo "$HOLDFAST_NAME/$HOLDFAST_FENCE/$HOLDFAST_DEADLINE" >>out'
    code = place.code("run", "n", "-c", script) or place.code("run", "n", "-c", script)
    first, second = [line.split("/") for line in place.lines("out")]
    assert first[0] == second[0] == "n" and first[2] == second[2] == ""
    assert 0 < int(first[1]) < int(second[1])
    return code


@situation(0, "HOLDFAST_DEADLINE with a fixed lease, on CLOCK_BOOTTIME")
def deadline(place):
    before = now()
    code = place.code("run", "--lease", "50", "n", "-c", "echo $HOLDFAST_DEADLINE >out")
    assert before + 45 < float(place.read("out")) <= now() + 50
    return code


@situation(0, "a password in HOLDFAST_STORE or --store is not seen by the command, nor in /proc")
def password(place):
    place.env["HOLDFAST_STORE"] = "redis://joe:s3cret@host/0?password=s3cret&x=1"
    place.env["HOLDFAST_REDIS_PASSWORD"] = "s3cret"
    script = ("env >env; run=$(awk '/^PPid/ { print $2 }' /proc/$PPID/status);"
              "for p in $PPID $run; do cat /proc/$p/environ; done >environs;"
              "for p in $PPID $run; do cat /proc/$p/cmdline; done >lines")
    code = place.code("run", "--store", "redis://ann:s3cret@host", "--store=redis://bob:s3cret@host",
                      "--store", place.store, "n", "-c", script)
    assert "HOLDFAST_STORE=redis://joe@host/0?password=&x=1\n" in place.read("env")
    assert place.read("environs").count("joe@host") == 2 and "s3cret" not in place.read("environs") + place.read("env")
    lines = place.read("lines")
    assert lines.count("ann@host") == lines.count("bob@host") == 2 and "s3cret" not in lines, lines
    return code


@situation(75, "the holder's command is named to who finds it taken, its arguments are not")
def command_named(place):
    process = place.start("run", "n", "/bin/sleep", "60.5")
    until(lambda: place.claims("n"), "held")
    refused = place.run("run", "-n", "n", "true")
    assert b"(holdfast, sleep)" in refused.err and b"60.5" not in refused.err and process.poll() is None
    return refused.code


@situation(0, "nohup's ignored HUP stays ignored by both")
def nohup(place):
    process = place.start("run", "n", "-c", ": >up; sleep 0.4; : >done",
                          preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN))
    until(lambda: os.path.exists(place.path("up")), "start")
    os.killpg(process.pid, signal.SIGHUP)
    code = place.end(process)
    assert os.path.exists(place.path("done"))
    return code


@situation(0, "signal mask and dispositions of the command are those that were given")
def dispositions(place):
    def before():
        signal.signal(signal.SIGUSR2, signal.SIG_IGN)
        signal.signal(signal.SIGCHLD, signal.SIG_IGN)
        signal.signal(signal.SIGPIPE, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGALRM])
    wanted = subprocess.run(["grep", "^Sig[BI]", "/proc/self/status"], preexec_fn=before, restore_signals=False,
                            stdout=subprocess.PIPE).stdout
    process = place.run("run", "n", "grep", "^Sig[BI]", "/proc/self/status", preexec_fn=before, restore_signals=False)
    assert process.out == wanted and b"2000" in wanted, (process.out, wanted)
    return process.code


# ---------------------------------------------------------------- not acquired

@situation(75, "busy, -n; the command is not started")
def busy(place):
    holder = place.hold("n", "--note", "the night job")
    process = place.run("run", "-n", "n", "-c", ": >started")
    assert not os.path.exists(place.path("started"))
    assert b"n is held by " in process.err and b"the night job" in process.err, process.err
    assert f":{holder.pid} ".encode() in process.err and place.store.encode() in process.err, process.err
    return process.code


@situation(42, "busy, -n -E 42")
def busy_code(place):
    place.hold("n")
    return place.code("run", "-n", "-E", "42", "n", "true")


@situation(0, "busy, -n -E 0 --quiet: silent")
def busy_quiet(place):
    place.hold("n")
    process = place.run("run", "-n", "-E", "0", "--quiet", "n", "true")
    assert process.err == b""
    return process.code


@situation(75, "busy, -w 0.3: waits so long and not much longer")
def busy_wait(place):
    place.hold("n")
    before = now()
    code = place.code("run", "-w", "0.3", "n", "-c", ": >started")
    assert 0.3 <= now() - before < 5 and not os.path.exists(place.path("started"))
    return code


@situation(0, "-w 20, and it is released in time")
def wait_in_time(place):
    place.hold("n", script="sleep 0.4")
    return place.code("run", "-w", "20s", "n", "true")


@situation(0, "waits without a limit, silently where there is no terminal")
def wait_forever(place):
    place.hold("n", script="sleep 0.6")
    process = place.run("run", "n", "true")
    assert process.err == b""
    return process.code


@situation(0, "waits with --verbose: says for whom, in which store")
def wait_verbose(place):
    holder = place.hold("n", script="sleep 1")
    process = place.run("run", "--verbose", "n", "true")
    for text in (b"waiting for n", f":{holder.pid} ".encode(), place.store.encode(), b"acquired n after", b"released n"):
        assert text in process.err, process.err
    return process.code


def end_waiter(number):
    def function(place):
        holder = place.hold("n")
        waiter = place.start("run", "n", "-c", ": >started")
        place.await_waiter("n")
        waiter.send_signal(number)
        code = place.end(waiter)
        until(lambda: len(place.claims("n")) == 1, "the waiter leaves the queue")
        assert not os.path.exists(place.path("started")) and holder.poll() is None
        return code
    return function


for number, code in ((signal.SIGTERM, 143), (signal.SIGINT, 130), (signal.SIGHUP, 129), (signal.SIGKILL, 137)):
    situation(code, f"waiter gets {number.name}: leaves the queue")(end_waiter(number))


# ---------------------------------------------------------------- signals while the command runs

def pass_signal(number):
    def function(place):
        process = place.start("run", "n", "-c", ": >up; while :; do sleep 0.05; done")
        until(lambda: os.path.exists(place.path("up")), "start")
        process.send_signal(number)
        code = place.end(process)
        assert place.free("n")
        return code
    return function


for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2):
    situation(128 + number, f"{number.name} to run reaches the command, and ends it")(pass_signal(number))


@situation(5, "TERM to run; the command catches it once, cleans up and ends with 5")
def caught(place):
    script = "trap 'echo x >>count; exit 5' TERM; : >up; while :; do sleep 0.05; done"
    process = place.start("run", "n", "-c", script)
    until(lambda: os.path.exists(place.path("up")), "start")
    process.send_signal(signal.SIGTERM)
    code = place.end(process)
    assert place.lines("count") == ["x"]
    return code


@situation(8, "TERM to run; the command ignores it and goes on, locked, to its own end")
def ignored(place):
    process = place.start("run", "n", "-c", "trap '' TERM; : >up; sleep 0.8; exit 8")
    until(lambda: os.path.exists(place.path("up")), "start")
    process.send_signal(signal.SIGTERM)
    assert not place.free("n")
    return place.end(process)


@situation(143, "TERM to run reaches the whole group of the command")
def whole_group(place):
    script = "sh -c 'trap \"echo in >>got; exit 0\" TERM; : >up; while :; do sleep 0.05; done' & wait"
    process = place.start("run", "n", "-c", script)
    until(lambda: os.path.exists(place.path("up")), "start")
    process.send_signal(signal.SIGTERM)
    code = place.end(process)
    until(lambda: place.lines("got") == ["in"], "the member of the group got it")
    return code


@situation(0, "CONT, WINCH, USR1 to run arrive once each")
def others(place):
    script = "for s in CONT WINCH USR1; do trap \"echo $s >>got\" $s; done; : >up; while [ ! -e go ]; do sleep 0.02; done"
    process = place.start("run", "n", "--", "bash", "-c", script)
    until(lambda: os.path.exists(place.path("up")), "start")
    for number in (signal.SIGCONT, signal.SIGWINCH, signal.SIGUSR1):
        process.send_signal(number)
        until(lambda: len(place.lines("got")) >= 1, "arrival")
        time.sleep(0.1)
    open(place.path("go"), "w").close()
    code = place.end(process)
    assert sorted(place.lines("got")) == ["CONT", "USR1", "WINCH"], place.lines("got")
    return code


@situation(0, "the command ends and leaves a daemon (setsid): the name is free, run has ended")
def daemon(place):
    process = place.run("run", "n", "-c", "setsid sleep 30 >/dev/null 2>&1 </dev/null & exit 0")
    assert place.free("n")
    left = [pid for pid, line in place.marked().items() if line.startswith("sleep")]
    assert len(left) == 1
    links = [os.readlink(f"/proc/{left[0]}/fd/{fd}") for fd in os.listdir(f"/proc/{left[0]}/fd")]
    assert set(links) == {"/dev/null"}, links
    return process.code


@situation(0, "the command ends and leaves a member of its group: let go, the name is free")
def straggler(place):
    process = place.run("run", "n", "-c", "sleep 30 >/dev/null 2>&1 </dev/null & exit 0")
    assert place.free("n")
    assert [line for line in place.marked().values()] == ["sleep 30"]
    return process.code


# ---------------------------------------------------------------- loss

@situation(79, "fixed lease over: TERM in time, and gone before the next one enters")
def lease_over(place):
    script = "trap 'echo term >>got; exit 0' TERM; : >up; while :; do sleep 0.02; done"
    process = place.start("run", "--lease", "3", "n", "-c", script)
    until(lambda: os.path.exists(place.path("up")), "start")
    place.run("run", "n", "-c", "cp got seen")
    code = place.end(process)
    assert place.lines("seen") == ["term"] and b"lost or its time is over" in process.err
    return code


@situation(79, "fixed lease over; the command and its child ignore TERM: killed")
def lease_over_stubborn(place):
    script = "trap '' TERM; sh -c ': >up; while :; do sleep 0.02; done' & wait; while :; do sleep 0.02; done"
    process = place.start("run", "--lease", "3", "--grace", "0.5", "n", "-c", script,
                          env={**place.env, "HFTEST_OLD": place.mark})
    until(lambda: os.path.exists(place.path("up")), "start")
    code = place.end(process)
    assert place.marked(f"HFTEST_OLD={place.mark}") == {}
    return code


@situation(79, "fixed lease over, --on-loss=kill: no TERM")
def lease_over_kill(place):
    script = "trap 'echo term >>got; exit 0' TERM; : >up; while :; do sleep 0.02; done"
    code = place.code("run", "--lease", "0.8", "--on-loss=kill", "n", "-c", script)
    assert place.lines("got") == []
    return code


@situation(79, "fixed lease over, --on-loss=ignore: it runs to its end")
def lease_over_ignore(place):
    code = place.code("run", "--lease", "0.4", "--on-loss", "ignore", "n", "-c", "sleep 0.9; : >done")
    assert os.path.exists(place.path("done"))
    return code


@situation(79, "fixed lease over, --on-loss=stop: stopped; TERM to run then kills it")
def lease_over_stop(place):
    process = place.start("run", "--lease", "2", "--on-loss=stop", "n", "-c", "while :; do echo x >>beat; sleep 0.02; done")
    until(lambda: place.lines("beat"), "start")
    until(lambda: place.free("n"), "the lease ends")
    count = len(place.lines("beat"))
    time.sleep(0.3)
    assert process.poll() is None and len(place.lines("beat")) == count > 0
    process.send_signal(signal.SIGTERM)
    return place.end(process)


@situation(79, "--max-hold over")
def max_hold(place):
    before = now()
    code = place.code("run", "--max-hold", "0.8", "n", "sleep", "30")
    assert now() - before < 10
    return code


@situation(79, "the lock is broken: TERM to the group within the lease")
def broken(place):
    process = place.hold("n", "--watchdog", "3", script="trap 'echo term >>got; exit 0' TERM; while :; do sleep 0.02; done")
    assert place.code("break", "--yes", "n") == 0
    code = place.end(process)
    assert place.lines("got") == ["term"]
    return code


@situation(79, "run is stopped beyond its lease and continued: the command is gone before the next one enters")
def stopped(place):
    process = place.hold("n", "--watchdog", "3", script="while :; do cut -d' ' -f1 /proc/uptime >>beat; sleep 0.02; done")
    process.send_signal(signal.SIGSTOP)
    entered = place.run("run", "n", "-c", "cut -d' ' -f1 /proc/uptime")
    last = float(place.lines("beat")[-1])
    process.send_signal(signal.SIGCONT)
    code = place.end(process)
    assert entered.code == 0 and last <= float(entered.out), (last, entered.out)
    assert float(place.lines("beat")[-1]) == last
    return code


@situation(137, "run is killed -9: the group is gone and the name free long before the lease ends")
def killed(place):
    process = place.hold("n")
    process.send_signal(signal.SIGKILL)
    before = now()
    code = place.end(process)
    assert place.code("run", "-w", "15", "n", "true") == 0 and now() - before < 15
    return code


@situation(79, "the guardian is killed -9: the command's group ends, the name is free")
def guardian_killed(place):
    process = place.hold("n", script="trap '' TERM; sleep 60 & wait; sleep 60")
    os.kill(place.guardian(process), signal.SIGKILL)
    code = place.end(process)
    assert place.marked() == {} and place.free("n")
    return code


@situation(79, "the guardian is stopped and a fixed lease ends: ended all the same")
def guardian_stopped(place):
    process = place.hold("n", "--lease", "3")
    os.kill(place.guardian(process), signal.SIGSTOP)
    code = place.end(process)
    assert place.marked() == {} and place.free("n")
    return code


@situation(71, "the guardian is killed -9 during the wait")
def guardian_killed_waiting(place):
    place.hold("n")
    waiter = place.start("run", "n", "true")
    place.await_waiter("n")
    os.kill(place.guardian(waiter), signal.SIGKILL)
    return place.end(waiter)


def write_lock(place, seconds):
    """Another process inside a write transaction: the store answers nobody."""
    script = ("import sqlite3, sys, time\n"
              f"db = sqlite3.connect({place.path('locks.db')!r}, isolation_level=None)\n"
              "db.execute('PRAGMA busy_timeout = 10000')\n"
              "db.execute('BEGIN IMMEDIATE')\n"
              f"open({place.path('blocked')!r}, 'w').close()\n"
              f"time.sleep({seconds})\n")
    blocker = subprocess.Popen([PYTHON, "-c", script], env=place.env, stdin=subprocess.DEVNULL)
    place.started.append(blocker)
    until(lambda: os.path.exists(place.path("blocked")), "the store is blocked")
    return blocker


@situation(79, "the store cannot be reached for longer than the lease: TERM before the deadline")
def unreachable_while_running(place):
    process = place.hold("n", "--watchdog", "3", script="trap 'echo term >>got; exit 0' TERM; while :; do sleep 0.02; done")
    write_lock(place, 30)
    before = now()
    code = place.end(process)
    assert place.lines("got") == ["term"] and now() - before < 15
    return code


@situation(4, "the store cannot be reached for less than the lease: nothing happens to the command")
def unreachable_for_a_while(place):
    process = place.hold("n", "--watchdog", "9", script="sleep 5; exit 4")
    write_lock(place, 2.5)
    return place.end(process)


@situation(69, "the store cannot be reached at the start")
def unreachable(place):
    assert place.free("n")
    write_lock(place, 30)
    before = now()
    code = place.code("run", "n", "-c", ": >started")
    assert not os.path.exists(place.path("started")) and now() - before < 15
    return code


# ---------------------------------------------------------------- kinds and times

@situation(75, "--at-least: the name stays taken after a short command")
def at_least(place):
    assert place.code("run", "--at-least", "30", "n", "true") == 0
    return place.code("run", "-n", "n", "true")


@situation(0, "--at-least over: free")
def at_least_over(place):
    before = now()
    assert place.code("run", "--at-least", "0.7", "n", "true") == 0
    code = place.code("run", "n", "true")
    assert now() - before >= 0.7
    return code


@situation(75, "--permits 2: the third is not let in")
def permits(place):
    place.hold("n", "--permits", "2")
    place.hold("n", "--permits", "2")
    return place.code("run", "-n", "--permits", "2", "n", "true")


@situation(0, "--permits 3: weights 2 and 1 fit")
def weights(place):
    place.hold("n", "--permits", "3", "--weight", "2")
    assert place.code("run", "-n", "--permits", "3", "--weight", "2", "n", "true") == 75
    return place.code("run", "-n", "--permits", "3", "n", "true")


@situation(69, "--permits 3 beside --permits 2")
def permits_conflict(place):
    place.hold("n", "--permits", "2")
    return place.code("run", "-n", "--permits", "3", "n", "true")


@situation(0, "-s beside -s")
def readers(place):
    place.hold("n", "-s")
    return place.code("run", "-n", "-s", "n", "true")


@situation(75, "-x beside -s")
def writer(place):
    place.hold("n", "-s")
    return place.code("run", "-n", "-x", "n", "true")


@situation(75, "-s beside -x")
def reader_beside_writer(place):
    place.hold("n", "-x")
    return place.code("run", "-n", "-s", "n", "true")


@situation(69, "a mutex beside -s: says what the name is in use as")
def kinds_conflict(place):
    place.hold("n", "-s")
    process = place.run("run", "-n", "n", "true")
    assert b"holdfast: " in process.err and len(process.err) > 20
    return process.code


@situation(0, "--fair: three waiters enter in the order of their coming")
def fair(place):
    place.hold("n", "--fair", script="while [ ! -e go ]; do sleep 0.02; done")
    waiters = []
    for i in range(3):
        waiters.append(place.start("run", "--fair", "n", "-c", f"echo {i} >>order"))
        place.await_waiter("n", i + 1)
    open(place.path("go"), "w").close()
    code = max(place.end(waiter) for waiter in waiters)
    assert place.lines("order") == ["0", "1", "2"]
    return code


simple(0, "a name of 1,024 bytes", "run", "x" * 1024, "true")
simple(64, "a name of 1,025 bytes", "run", "x" * 1025, "true", err="1024")
simple(64, "an empty name", "run", "", "true", err="name")


@situation(0, "a name of odd bytes: locks, and is escaped where it is shown")
def odd_name(place):
    name = b"a\xff\x1b[31m\n\"\\ \xc3\xa9"
    holder = place.hold(os.fsdecode(name))
    process = place.run("run", "-n", name, "true")
    assert process.code == 75 and b"\x1b" not in process.err and b"\xff" not in process.err
    holder.send_signal(signal.SIGTERM)
    place.end(holder)
    return place.code("run", "-n", name, "true")


# ---------------------------------------------------------------- the line is wrong

simple(64, "no verb", err="verb")
simple(64, "unknown verb", "lock", "n", err="lock")
simple(64, "unknown option", "run", "--no-such", "n", "true")
simple(64, "no name", "run", err="NAME")
simple(64, "no command", "run", "n", err="COMMAND")
simple(64, "no command after --", "run", "n", "--", err="COMMAND")
simple(64, "-c and a command", "run", "-c", "true", "n", "true")
simple(64, "-w without a number", "run", "-w", "soon", "n", "true", err="duration")
simple(64, "-w negative", "run", "-w", "-1", "n", "true")
simple(64, "-E 256", "run", "-E", "256", "n", "true")
simple(64, "-s and -x", "run", "-s", "-x", "n", "true")
simple(64, "--weight without --permits", "run", "--weight", "2", "n", "true")
simple(64, "--weight above --permits", "run", "--permits", "2", "--weight", "3", "n", "true")
simple(64, "--permits 0", "run", "--permits", "0", "n", "true")
simple(64, "--on-loss=perhaps", "run", "--on-loss=perhaps", "n", "true")
simple(64, "--lease 1ms", "run", "--lease", "1ms", "n", "true")
simple(64, "--lease of 9,000,000,000,000,000,000 s", "run", "--lease", "9000000000000000000", "n", "true")
simple(64, "--lease of 400 d", "run", "--lease", "400d", "n", "true")
simple(64, "--grace above a third of the lease", "run", "--lease", "10", "--grace", "4", "n", "true", err="third")
simple(64, "--lease and --watchdog", "run", "--lease", "10", "--watchdog", "4", "n", "true")

# ---------------------------------------------------------------- the store

simple(64, "unknown scheme", "run", "--store", "gopher://host", "n", "true", err="gopher")
simple(64, "unknown option in the URL", "run", "--store", "sqlite:///tmp/x.db?colour=red", "n", "true", err="colour")


@situation(69, "a scheme that is known but not in this build")
def not_built(place):
    schemes = place.run("--version").out.decode()
    found = re.search(r"[(\[]([\w+-]+)", schemes)
    if found is None:  # this build has them all
        assert "postgresql" in schemes and "zookeeper" in schemes
        return 69
    missing = found.group(1)
    process = place.run("run", "--store", f"{missing}://localhost", "n", "true")
    assert missing.encode() in process.err
    return process.code


simple(69, "store below a file", "run", "--store", "sqlite:///dev/null/locks.db", "n", "true")
simple(69, "store in a folder that is not there", "run", "--store", "sqlite:///no-such-folder/locks.db", "n", "true")
simple(69, "store is a folder", "run", "--store", "sqlite:///usr", "n", "true")
simple(69, "store on a file system that cannot hold it", "run", "--store", "sqlite:///proc/locks.db", "n", "true")


@situation(69, "store is a file that is no database, which is left as it was")
def no_database(place):
    with open(place.path("text"), "w") as file:
        file.write("this is no database, and longer than a header would be. " * 100)
    os.chmod(place.path("text"), 0o600)
    before = place.read("text")
    code = place.code("run", "--store", f"sqlite://{place.path('text')}", "n", "true")
    assert place.read("text") == before
    return code


@situation(71, "any small number of descriptors: an answer, never a hang")
def few_descriptors(place):
    assert place.free("n")
    codes = [place.code("run", "n", "true", preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (n, n)))
             for n in range(5, 28)]
    assert set(codes) == {0, 69, 71} and codes[-1] == 0, codes
    return max(codes)


# ---------------------------------------------------------------- the other verbs

simple(0, "--help", "--help")
simple(0, "--version", "--version")
simple(0, "run --help", "run", "--help")
simple(0, "ls of an empty store", "ls")
simple(64, "ls --no-such", "ls", "--no-such")
simple(64, "show without a name", "show")
simple(0, "show of an idle name", "show", "n")
simple(64, "break without a terminal and without --yes", "break", "n", err="--yes")
simple(0, "break of an idle name", "break", "--yes", "n")


def seen(function):
    place = Place()
    try:
        return function(place), ""
    except Exception as problem:
        return None, f"{type(problem).__name__}: {problem}"
    finally:
        place.close()


def test_situations():
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        results = list(pool.map(lambda s: seen(s[2]), SITUATIONS))
    rows, wrong = [], 0
    for (expected, text, _), (code, problem) in zip(SITUATIONS, results):
        good = code == expected and not problem
        wrong += not good
        rows.append(f"{'ok   ' if good else 'WRONG'}  {expected:>8}  {code if code is not None else '-':>4}  {text}"
                    + (f"   <- {problem}" if problem else ""))
    print("\n       expected  seen  situation")
    print("\n".join(rows))
    print(f"{len(rows)} situations, {wrong} wrong")
    assert len(rows) >= 40 and wrong == 0
