# SPDX-License-Identifier: MIT
"""Job control on a real pseudo-terminal, with bash as the shell where a shell is needed."""
import fcntl
import os
import pty
import select
import signal
import struct
import termios

import pytest

from conftest import HOLDFAST, PATIENCE, now, until


class Terminal:
    """A program as the session leader of a terminal of its own."""

    def __init__(self, place, *argv):
        self.text = b""
        self.seen = 0
        self.place = place
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            os.chdir(place.dir)
            for number in (signal.SIGINT, signal.SIGQUIT, signal.SIGHUP, signal.SIGTSTP):
                signal.signal(number, signal.SIG_DFL)
            os.execvpe(argv[0], argv, {**place.env, "PS1": "$ ", "TERM": "xterm", "HOLDFAST": HOLDFAST})
        fcntl.ioctl(self.fd, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 200, 0, 0))
        self.status = None

    def pump(self, seconds=0.02):
        while self.fd is not None and select.select([self.fd], [], [], seconds)[0]:
            try:
                more = os.read(self.fd, 65536)
            except OSError:
                return False
            if not more:
                return False
            self.text += more
        return True

    def type(self, text):
        os.write(self.fd, text.encode())

    def expect(self, text):
        """Waits for text after what was expected before."""
        def come():
            self.pump()
            at = self.text.find(text.encode(), self.seen)
            if at < 0:
                return False
            self.seen = at + len(text)
            return True
        try:
            until(come, f"{text!r} on the terminal")
        except AssertionError as problem:
            raise AssertionError(f"{problem}; there is: {self.text[self.seen:]!r}") from None

    def foreground(self):
        return os.tcgetpgrp(self.fd)

    def hang_up(self):
        os.close(self.fd)
        self.fd = None

    def end(self):
        """The wait status."""
        def ended():
            if self.fd is not None:
                self.pump(0)
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                self.status = status
            return pid
        if self.status is None:
            until(ended, "the session leader ends")
        return self.status

    def close(self):
        if self.status is None:
            os.kill(self.pid, signal.SIGKILL)
            os.waitpid(self.pid, 0)
        if self.fd is not None:
            os.close(self.fd)


@pytest.fixture
def terminal(place):
    open_ones = []

    def make(*argv):
        open_ones.append(Terminal(place, *argv))
        return open_ones[-1]
    yield make
    for one in open_ones:
        one.close()


@pytest.fixture
def shell(terminal):
    bash = terminal("bash", "--norc", "--noprofile", "--noediting", "-i")
    bash.expect("$ ")
    bash.type("bind 'set enable-bracketed-paste off' 2>/dev/null; stty -echo\n")
    bash.expect("$ ")
    return bash


# Where Ctrl-Z is typed, bash runs it: dash starts its commands by vfork, and a child that is stopped before its exec keeps
# dash from being stopped, also without holdfast.
LOOP = "while :; do sleep 0.05; done"


def test_ctrl_c_reaches_the_command_once(place, terminal):
    one = terminal(HOLDFAST, "run", "n", "--", "sh", "-c", f"trap 'echo x >>count; exit 7' INT; echo up; {LOOP}")
    one.expect("up")
    one.type("\x03")
    assert os.waitstatus_to_exitcode(one.end()) == 7
    assert place.lines("count") == ["x"]
    assert place.free("n")


def test_ctrl_c_that_ends_the_command_ends_run_by_the_same_signal(place, terminal):
    one = terminal(HOLDFAST, "run", "n", "--", "sh", "-c", f"echo up; {LOOP}")
    one.expect("up")
    one.type("\x03")
    assert os.waitstatus_to_exitcode(one.end()) == -signal.SIGINT
    assert place.free("n") and place.marked() == {}


def test_ctrl_backslash(place, terminal):
    one = terminal(HOLDFAST, "run", "n", "--", "sh", "-c", f"ulimit -c 0; echo up; {LOOP}")
    one.expect("up")
    one.type("\x1c")
    assert os.waitstatus_to_exitcode(one.end()) == 131
    assert place.free("n")


def test_ctrl_c_during_the_wait(place, terminal):
    place.hold("n")
    one = terminal(HOLDFAST, "run", "n", "--", "sh", "-c", ": >started")
    one.expect("waiting for n")
    one.type("\x03")
    assert os.waitstatus_to_exitcode(one.end()) == -signal.SIGINT
    # The holder's only, before any other command has tidied up.
    assert len(os.listdir(place.path("locks.db-clients"))) == 1
    until(lambda: len(place.claims("n")) == 1, "the waiter leaves the queue")
    assert not os.path.exists(place.path("started"))


def test_ctrl_s_on_the_terminal_holds_nobody_up(place, terminal):
    """The line that shows the wait cannot be written: the wait ends all the same, and so does the hold."""
    holder = place.hold("n", script="while [ ! -e go ]; do sleep 0.02; done")
    one = terminal(HOLDFAST, "run", "--verbose", "n", "--", "sh", "-c", ": >done")
    one.expect("waiting for n")
    one.type("\x13")
    open(place.path("go"), "w").close()
    assert place.end(holder) == 0
    until(lambda: os.path.exists(place.path("done")), "the command runs")
    until(lambda: place.free("n"), "the name is free")
    one.type("\x11")
    one.expect("released n")
    assert one.end() == 0


def test_ctrl_c_stops_the_script_around_it(place, shell):
    with open(place.path("script"), "w") as file:
        file.write(f'"$HOLDFAST" run n -- sh -c "echo up; {LOOP}"\n: >went-on\n')
    shell.type("bash script\n")
    shell.expect("up")
    shell.type("\x03")
    shell.expect("$ ")
    shell.type("echo code $?\n")
    shell.expect("code 130")
    assert not os.path.exists(place.path("went-on"))


def test_the_wait_is_shown_and_erased(place, terminal):
    holder = place.hold("n", "--note", "the night job", script="while [ ! -e go ]; do sleep 0.02; done")
    other = place.start("run", "n", "sleep", "0.2")
    place.await_waiter("n")
    one = terminal(HOLDFAST, "run", "n", "echo", "it is mine")
    one.expect("\r\x1b[Kholdfast: waiting for n (")
    one.expect(f":{holder.pid} (holdfast, the night job) since ")
    one.expect("place 2 in the queue")
    one.expect(place.store[:30])  # as much as fits in any case
    open(place.path("go"), "w").close()
    # Redrawn in place: no new line before it is erased.
    one.expect("\r\x1b[Kit is mine")
    assert b"\n" not in one.text[:one.text.index(b"it is mine")]
    assert one.end() == 0 and place.end(other) == 0


def test_the_shown_line_fits_the_terminal(place, terminal):
    place.hold("n" * 300)
    one = terminal(HOLDFAST, "run", "-w", "1", "n" * 300, "true")
    one.expect("waiting for n")
    assert os.waitstatus_to_exitcode(one.end()) == 75
    one.pump()
    drawn = one.text.split(b"\r\x1b[K")[1]
    assert 150 < len(drawn) < 200


def test_doctor_breaks_its_lines_between_words(place, terminal):
    one = terminal("bash", "--norc", "-c", 'stty cols 50; "$HOLDFAST" doctor')
    one.expect("SQLite")
    assert os.waitstatus_to_exitcode(one.end()) == 0
    one.pump()
    lines = one.text.decode().split("\r\n")
    first = next(number for number, line in enumerate(lines) if "synchronous" in line)
    told = lines[first:first + 3]
    assert max(map(len, told)) < 55
    assert " ".join(line[22:].strip() for line in told).endswith("newest grants, whose holders ran on this machine")


def test_ctrl_z_stops_both_and_fg_continues_both(place, shell):
    shell.type(f'"$HOLDFAST" run n -- bash -c "echo up; while :; do echo x >>beat; sleep 0.02; done"; echo code $?\n')
    shell.expect("up")
    until(lambda: place.lines("beat"), "beats")
    shell.type("\x1a")
    shell.expect("Stopped")
    shell.type("echo back\n")
    shell.expect("back")
    count = len(place.lines("beat"))
    os.sched_yield()
    shell.pump(0.3)
    assert len(place.lines("beat")) <= count + 1
    assert not place.free("n")
    shell.type("fg\n")
    until(lambda: len(place.lines("beat")) > count + 3, "it goes on")
    shell.type("\x1a")
    shell.expect("Stopped")
    count = len(place.lines("beat"))
    shell.type("bg\n")
    until(lambda: len(place.lines("beat")) > count + 3, "it goes on in the background")
    shell.type("echo shell $((1 + 1)) has the terminal\n")
    shell.expect("shell 2 has the terminal")
    shell.type("fg\n")
    shell.expect("run n")
    shell.type("\x03")
    shell.type("echo end $((40 + 2))\n")
    shell.expect("end 42")
    assert place.free("n")


def test_the_command_reads_the_terminal(place, shell):
    shell.type('"$HOLDFAST" run n -- sh -c "read x; echo got \\$x"\n')
    shell.type("a line\n")
    shell.expect("got a line")
    shell.expect("$ ")


def test_the_command_is_in_the_foreground_from_its_start(place, shell):
    script = 'import os; print("mine" if os.tcgetpgrp(0) == os.getpgrp() else "not mine")'
    shell.type(f"\"$HOLDFAST\" run n -- python3 -c '{script}'\n")
    shell.expect("mine")
    assert b"not mine" not in shell.text
    shell.expect("$ ")
    assert shell.foreground() == shell.pid


def test_in_a_pipeline_the_command_gets_the_terminal_when_it_asks(place, shell):
    shell.type('"$HOLDFAST" run n -- sh -c "read x; echo got \\$x" | cat\n')
    shell.type("a line\n")
    shell.expect("got a line")
    shell.expect("$ ")


def test_ctrl_c_in_a_pipeline(place, shell):
    shell.type(f"\"$HOLDFAST\" run n -- sh -c 'echo up; trap \"echo x >>count; exit 3\" INT; {LOOP}' | cat\n")
    shell.expect("up")
    shell.type("\x03")
    shell.expect("$ ")
    until(lambda: place.lines("count") == ["x"], "it got the signal once")
    until(lambda: place.free("n"), "free")


def test_a_background_job_that_reads_stops_until_fg(place, shell):
    shell.type('"$HOLDFAST" run n -- sh -c "read x; echo got \\$x" &\n')
    shell.expect("$ ")
    until(lambda: place.claims("n"), "held")
    until(lambda: stopped_jobs(shell), "stopped by reading")
    assert shell.foreground() == shell.pid
    shell.type("fg\n")
    shell.type("a line\n")
    shell.expect("got a line")
    shell.expect("$ ")


def stopped_jobs(shell):
    shell.pump()
    before = len(shell.text)
    shell.type("jobs\n")
    shell.pump(0.1)
    return b"Stopped" in shell.text[before:]


def test_a_background_job_leaves_the_terminal_alone(place, shell):
    shell.type('"$HOLDFAST" run n -- sh -c ": >up; sleep 0.5; : >done" &\n')
    until(lambda: os.path.exists(place.path("up")), "start")
    assert shell.foreground() == shell.pid
    until(lambda: os.path.exists(place.path("done")), "end")
    shell.type("wait; echo code $?\n")
    shell.expect("code 0")


def test_run_stopped_from_elsewhere_and_continued_by_fg(place, shell):
    """The shell takes its terminal back, and the command gets it again, without asking for it."""
    with open(place.path("front.py"), "w") as file:
        file.write("import os, time\nlast = None\nwhile True:\n"
                   "    front = os.tcgetpgrp(0) == os.getpgrp()\n"
                   "    if front != last:\n        print('at the front' if front else 'at the back', flush=True)\n"
                   "    last = front\n    time.sleep(0.01)\n")
    shell.type('"$HOLDFAST" run n -- python3 front.py\n')
    shell.expect("at the front")
    os.kill(place.claims("n")[0]["pid"], signal.SIGSTOP)
    shell.expect("at the back")
    shell.type("fg\n")
    shell.expect("at the front")
    shell.type("\x03")
    shell.expect("$ ")
    assert place.free("n")


def test_a_job_stopped_beyond_its_lease_is_ended(place, shell):
    shell.type(f'"$HOLDFAST" run --watchdog 3 n -- bash -c "echo up; {LOOP}"; echo code $?\n')
    shell.expect("up")
    shell.type("\x1a")
    shell.expect("Stopped")
    until(lambda: place.free("n"), "the lease ends")
    assert not [line for line in place.marked().values() if line.startswith("bash -c")]
    shell.type("fg; echo code $?\n")
    shell.expect("code 79")


def test_closing_the_terminal_ends_command_and_lock(place, terminal):
    one = terminal(HOLDFAST, "run", "n", "--", "sh", "-c", f"echo up; {LOOP}")
    one.expect("up")
    one.hang_up()
    one.end()
    until(lambda: place.marked() == {}, "nobody is left")
    assert place.free("n")


def test_closing_the_terminal_of_a_shell(place, shell):
    shell.type(f'"$HOLDFAST" run n -- sh -c "echo up; {LOOP}"\n')
    shell.expect("up")
    shell.hang_up()
    shell.end()
    until(lambda: place.marked() == {}, "nobody is left")
    assert place.free("n")


def test_modes_of_the_terminal_come_back_after_a_loss(place, shell):
    shell.type('stty -a | grep -o -e "-*icanon"; "$HOLDFAST" run --lease 3 n -- sh -c "stty raw; echo up; sleep 60"; '
               'echo code $?; stty -a | grep -o -e "-*icanon" | sed "s/^/again /"\n')
    shell.expect("icanon")
    shell.expect("up")
    shell.expect("code 79")
    shell.expect("again icanon")


def test_break_asks_on_a_terminal(place, terminal):
    place.hold("n")
    for answer, left in (("n\n", 1), ("\n", 1), ("y\n", 0)):
        one = terminal(HOLDFAST, "break", "n")
        one.expect("held by ")
        one.expect("[y/N] ")
        one.type(answer)
        assert one.end() == 0
        assert len(place.claims("n")) == left


def test_break_breaks_only_what_was_asked_about(place, terminal):
    for free_at_first in (False, True):
        old = None if free_at_first else place.hold("n", script="while [ ! -e go ]; do sleep 0.02; done")
        waiter = None if free_at_first else place.start("run", "n", "-c", ": >new; sleep 60")
        if waiter:
            place.await_waiter("n")
        one = terminal(HOLDFAST, "break", "n")
        if old:
            one.expect("[y/N] ")
            open(place.path("go"), "w").close()
            assert place.end(old) == 0
            until(lambda: os.path.exists(place.path("new")), "the next one is in")
            one.type("y\n")
        one.expect("0 claims removed")
        assert one.end() == 0
        if waiter:
            assert [c["pid"] for c in place.claims("n")] == [waiter.pid] and waiter.poll() is None
            waiter.send_signal(signal.SIGTERM)
            place.end(waiter)
