# SPDX-License-Identifier: MIT
"""ls, show, break, doctor, the help, and the manual: what they print."""
import json
import os
import re
import signal
import subprocess

from conftest import HERE, until

ODD = b"a\xff\x1b[31m\n\"\\ \xc3\xa9"
ROOT = os.path.dirname(os.path.dirname(HERE))


def table(text):
    """The rows of a table by their headings; columns begin where the headings do, or end there (numbers)."""
    lines = text.decode().split("\n")[:-1]
    return lines[0].split() if lines else [], lines[1:]


def test_ls_of_an_empty_store(place):
    shown = place.run("ls")
    assert shown.code == 0 and shown.out == b"" and shown.err == b""
    assert json.loads(place.run("ls", "--json").out) == {"locks": []}


def test_ls_and_show_of_holders_and_waiters(place):
    holder = place.hold("order:1001", "--note", "the note")
    waiter = place.start("run", "order:1001", "true")
    place.await_waiter("order:1001")
    place.hold("pool", "--permits", "3", "--weight", "2")
    place.hold("book", "-s")
    place.hold("book", "-s")

    headings, rows = table(place.run("ls").out)
    assert headings == "NAME KIND HELD WAITING HOST PID PROGRAM NOTE SINCE LEFT".split()
    assert [row.split()[:4] for row in rows] == [
        ["book", "rw", "2", "0"], ["order:1001", "mutex", "1", "1"], ["pool", "semaphore", "1", "0"]]
    assert "the note" in rows[1] and str(holder.pid) in rows[1] and "holdfast" in rows[1]

    locks = {lock["name"]: lock for lock in json.loads(place.run("ls", "--json").out)["locks"]}
    assert set(locks) == {"book", "order:1001", "pool"}
    order = locks["order:1001"]
    assert (order["held"], order["waiting"], order["pid"], order["note"]) == (1, 1, holder.pid, "the note")
    assert order["host"] == os.uname().nodename[:63] and 0 < order["left_ms"] <= 30000 and order["name_hex"] is None
    assert locks["pool"]["limit"] == 3 and order["limit"] is None

    held, waiting = place.claims("order:1001")
    assert (held["state"], held["place"], held["mode"], held["pid"]) == ("held", None, "exclusive", holder.pid)
    assert (waiting["state"], waiting["place"], waiting["fence"]) == ("waiting", 1, None)
    assert waiting["pid"] == waiter.pid and held["fence"] > 0 and held["claim"] != waiting["claim"]
    headings, rows = table(place.run("show", "order:1001").out)
    assert headings == "CLAIM STATE MODE WEIGHT FENCE HOST PID PROGRAM NOTE SINCE LEFT".split()
    assert rows[0].split()[:3] == [held["claim"], "held", "exclusive"]
    assert rows[1].split()[:4] == [waiting["claim"], "waits", "(1)", "exclusive"]


def test_ls_with_a_pattern(place):
    place.hold("order:1")
    place.hold("order:2")
    place.hold("stock")
    assert place.run("ls", "--names").out == b"order:1\norder:2\nstock\n"
    assert place.run("ls", "--names", "order:*").out == b"order:1\norder:2\n"
    assert place.run("ls", "--names", "[r-t]*").out == b"stock\n"
    assert place.run("ls", "nothing*").out == b""


def test_odd_names_are_escaped(place):
    place.hold(os.fsdecode(ODD), "--note", os.fsdecode(b"\x1b]0;title\x07\xfe"))
    env = {**place.env, "LC_ALL": "C.UTF-8"}
    for args in (["ls"], ["ls", "--names"], ["show", ODD]):
        shown = place.run(*args, env=env)
        assert shown.code == 0 and not re.search(rb"[\x00-\x09\x0b-\x1f\x7f-\x9f\xfe\xff](?<!\xc3\xa9)", shown.out.replace(b"\xc3\xa9", b"")), shown.out
    assert b"a\\xff\\x1b[31m\\x0a\"\\x5c \xc3\xa9\n" == place.run("ls", "--names", env=env).out
    assert b"\\xc3\\xa9" in place.run("ls", "--names", env={**place.env, "LC_ALL": "C"}).out
    lock = json.loads(place.run("ls", "--json").out)["locks"][0]
    assert lock["name"] == "a\ufffd\x1b[31m\n\"\\ é" and bytes.fromhex(lock["name_hex"]) == ODD
    assert lock["note"] == "\x1b]0;title\x07\ufffd"
    assert len(place.claims(os.fsdecode(ODD))) == 1


def test_show_of_an_idle_name(place):
    shown = place.run("show", "nobody")
    assert shown.code == 0 and b"nobody is idle" in shown.out and place.store.encode() in shown.out
    assert json.loads(place.run("show", "--json", "nobody").out) == {"claims": []}


def test_json_has_nothing_that_a_terminal_would_obey(place):
    name = "c1 \x9b31m, del \x7f, bidi \u202e"
    place.hold(name, "--note", "note \x9b")
    for process in (place.run("ls", "--json"), place.run("show", "--json", name)):
        assert process.code == 0 and not any(c in process.out.decode() for c in "\x9b\x7f\u202e"), process.out
    lock = json.loads(place.run("ls", "--json").out)["locks"][0]
    assert lock["name"] == "c1 \ufffd31m, del \ufffd, bidi \ufffd" and lock["note"] == "note \ufffd"
    assert bytes.fromhex(lock["name_hex"]).decode() == name


def test_break(place):
    first = place.hold("n", "--permits", "3", "--watchdog", "3")
    second = place.hold("n", "--permits", "3", "--watchdog", "3")
    claim = [c["claim"] for c in place.claims("n") if c["pid"] == first.pid][0]
    broken = place.run("break", "--claim", claim, "--yes", "n")
    assert broken.code == 0 and b"1 claim removed" in broken.out
    assert place.end(first) == 79
    assert [c["pid"] for c in place.claims("n")] == [second.pid] and second.poll() is None
    broken = place.run("break", "--yes", "n")
    assert broken.code == 0 and b"1 claim removed" in broken.out
    assert place.end(second) == 79
    broken = place.run("break", "--yes", "n")
    assert broken.code == 0 and b"0 claims removed" in broken.out


def test_break_without_yes_breaks_nothing(place):
    place.hold("n")
    assert place.code("break", "n") == 64
    assert len(place.claims("n")) == 1


def test_break_of_a_claim_that_is_not_there(place):
    place.hold("n")
    broken = place.run("break", "--yes", "--claim", "0" * 32, "n")
    assert broken.code == 0 and b"0 claims removed" in broken.out
    assert len(place.claims("n")) == 1
    assert place.code("break", "--yes", "--claim", "no id", "n") in (0, 64)
    assert len(place.claims("n")) == 1


def findings(place, *args):
    examined = place.run("doctor", "--json", *args)
    return examined, {finding["topic"]: finding for finding in json.loads(examined.out)["findings"]}


def test_doctor_of_a_sound_store(place):
    place.hold("n")
    examined, found = findings(place)
    assert examined.code == 0 and examined.err == b""
    assert found["file"]["text"] == place.path("locks.db") and found["journal mode"]["text"] == "wal"
    assert {finding["severity"] for finding in found.values()} <= {"fine", "note"}
    headings, rows = table(place.run("doctor").out)
    assert headings == "STATE TOPIC WHAT IT MEANS".split() and len(rows) == len(found)
    assert rows[0].split() == ["fine", "file", place.path("locks.db")]
    assert len(place.claims("n")) == 1


def test_doctor_says_what_endangers_locks(place):
    assert place.free("n")
    os.chmod(place.path("locks.db"), 0o606)
    examined, found = findings(place)
    assert examined.code == 78 and found["rights"]["severity"] == "danger"
    assert b"1 finding endangers locks in store " + place.store.encode() in examined.err
    examined = place.run("doctor")
    assert examined.code == 78 and [row.split()[1] for row in table(examined.out)[1] if row.startswith("DANGER")] == ["rights"]


def test_doctor_without_a_store_to_examine(place):
    examined = place.run("doctor", "--store", "sqlite:///nowhere/at/all.db")
    assert examined.code == 69 and examined.out == b"" and b"/nowhere/at" in examined.err
    assert place.code("doctor", "--store", "nothing://known") == 64
    assert place.code("doctor", "name") == 64
    assert place.code("doctor", "--yes") == 64


def test_doctor_escapes_what_it_shows(place):
    os.mkdir(place.path("odd\x1b[31m\x9b"))
    store = f"sqlite://{place.dir}/odd%1b%5b31m%c2%9b/l.db"
    examined, found = findings(place, "--store", store)
    assert examined.code == 0 and found["file"]["text"] == place.path("odd\x1b[31m\ufffd/l.db")
    shown = place.run("doctor", "--store", store, env={**place.env, "LC_ALL": "C.UTF-8"})
    assert b"odd\\x1b[31m\\xc2\\x9b/l.db" in shown.out and not re.search(rb"[\x00-\x09\x0b-\x1f\x7f-\x9f]", shown.out)


def test_output_that_cannot_be_written(place):
    place.hold("n")
    for args in (["ls"], ["ls", "--json"], ["show", "n"], ["doctor"], ["--help"]):
        with open("/dev/full", "w") as full:
            assert place.code(*args, stdout=full) == 71, args


def words(text):
    return set(re.findall(r"--[a-z-]+[a-z]", text))


def test_help_manual_and_completion_agree(place):
    with open(os.path.join(ROOT, "docs", "man", "holdfast.1")) as file:
        manual = file.read()
    with open(os.path.join(ROOT, "cli", "completion", "holdfast.bash")) as file:
        completion = file.read()
    documented = {"--" + name for name in re.findall(r"Fl -([a-z-]+)", manual)} | {"--help", "--version"}
    for verb in ("run", "ls", "show", "break", "doctor"):
        offered = words(place.run(verb, "--help").out.decode())
        assert len(offered) >= 3
        for option in offered:
            assert option in documented | {"--help"}, option
            assert option in completion, option
            assert b"unrecognized option" not in place.run(verb, option, "--help").err, option
    for verb, expected in (("run", "64 69 71 75 79 126 127"), ("doctor", "0 64 69 71 78")):
        codes = set(re.findall(r"(?m)^  (\d+) ", place.run(verb, "--help").out.decode()))
        assert codes == set(expected.split())
        assert codes <= set(re.findall(r"(?m)^\.It (\d+)$", manual))


def test_options_may_stand_after_the_name_of_show(place):
    assert json.loads(place.run("show", "n", "--json").out) == {"claims": []}


def complete(place, *typed):
    """What bash would offer for this line."""
    script = """
        . /usr/share/bash-completion/bash_completion; . "$1"; shift
        COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); COMP_LINE="$*"; COMP_POINT=${#COMP_LINE}
        compopt() { :; }
        _holdfast "$1" "${COMP_WORDS[COMP_CWORD]}" "${COMP_WORDS[COMP_CWORD-1]}"
        printf '%s\\n' "${COMPREPLY[@]}"
    """
    from conftest import HOLDFAST
    env = {**place.env, "PATH": os.path.dirname(HOLDFAST) + ":" + place.env["PATH"]}
    done = subprocess.run(["bash", "--norc", "-c", script, "bash", os.path.join(ROOT, "cli", "completion", "holdfast.bash"),
                           *typed], env=env, cwd=place.dir, stdout=subprocess.PIPE, stdin=subprocess.DEVNULL, timeout=20)
    return done.stdout.decode().split()


def test_timeout_is_a_duration_within_bounds(place):
    for good in ("10ms", "1.5", "10m"):
        assert place.code("ls", "--timeout", good) == 0
    for bad in ("9ms", "0", "11m", "-1", "soon", ""):
        wrong = place.run("doctor", "--timeout", bad)
        assert wrong.code == 64 and b"--timeout" in wrong.err


def test_completion(place):
    place.hold("stock")
    place.hold("store")
    assert complete(place, "holdfast", "b") == ["break"]
    assert complete(place, "holdfast", "do") == ["doctor"]
    assert complete(place, "holdfast", "doctor", "--j") == ["--json"]
    assert complete(place, "holdfast", "doctor", "st") == []
    assert complete(place, "holdfast", "run", "--at") == ["--at-least"]
    assert complete(place, "holdfast", "run", "--on-loss", "k") == ["kill"]
    assert complete(place, "holdfast", "show", "st") == ["stock", "store"]
    assert complete(place, "holdfast", "break", "--yes", "sto") == ["stock", "store"]
    assert complete(place, "holdfast", "run", "-w", "5", "stoc") == ["stock"]
    assert "mktemp" in complete(place, "holdfast", "run", "-w", "5", "stock", "--", "mktem")
    assert "mktemp" in complete(place, "holdfast", "run", "stock", "mktem")
