# SPDX-License-Identifier: MIT
"""Runs every command of docs/guide, as a reader would, and compares what comes out with what the pages show.

  run_guide.py HOLDFAST ROOT REDIS-URL

Each page is run twice, with the embedded store and with a Redis server, in a folder and a database of its own; each block
begins with an empty store. What a block says must match the ```output block behind it: "..." stands for anything, on a line
of its own for any lines. Units of systemd are verified by systemd-analyze, and their commands are run; so are the commands
of crontabs and of Kubernetes' YAML. A fence of any other language fails, unless "<!-- not run: REASON -->" stands before it.

What is not as on a reader's machine: the host locks.example, the group lockers, /var/lib/locks, the folders of programs and
the default store are the test's own; "report" and "mailer" only note that they ran. And time: "sleep 1" waits until somebody
has a lock, and any other sleep until the block comes to its "wait", so that nothing depends on how busy this machine is.
"""
import concurrent.futures
import ctypes
import grp
import os
import re
import shlex
import signal
import subprocess
import sys

import yaml

HOLDFAST, ROOT, REDIS = sys.argv[1:]
GUIDE = os.path.join(ROOT, "docs", "guide")
HERE = os.environ.get("HF_TEST_DIR", os.getcwd())
LIBC = ctypes.CDLL(None)
PATIENCE = 60  # seconds for a block: for what takes one or two, on a machine that is busy

SLEEP = """#!/bin/sh
try=0
while [ $try -lt 300 ]; do
    if [ "$1" = 1 ]; then [ -z "$(holdfast ls --names)" ] || exit 0; elif [ -e go ]; then exit 0; fi
    /bin/sleep 0.05
    try=$((try + 1))
done
"""


class Failure(Exception):
    pass


def die_with_parent():
    LIBC.prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG


class Block:
    """A fenced block: its language, its text, the output that is shown behind it, why it is not run."""

    def __init__(self, page, line, language, text, excuse):
        self.where = f"{page}:{line}"
        self.language, self.text, self.excuse, self.output = language, text, excuse, None


def blocks_of(page):
    found, text, start, language, before = [], None, 0, None, ""
    with open(os.path.join(GUIDE, page)) as file:
        for number, line in enumerate(file, 1):
            if text is not None and line.rstrip() == "```":
                if language == "output":
                    if not found or found[-1].output is not None:
                        raise Failure(f"{page}:{start}: output of nothing")
                    found[-1].output = "".join(text)
                else:
                    excuse = re.match(r"<!-- not run: (.+) -->$", before)
                    found.append(Block(page, start, language, "".join(text), excuse and excuse[1]))
                text = None
            elif text is not None:
                text.append(line)
            elif line.startswith("```"):
                text, start, language = [], number, line.strip()[3:]
            if text is None and line.strip():
                before = line.strip()
    if text is not None:
        raise Failure(f"{page}:{start}: this block has no end")
    return found


class Place:
    """A folder with stand-ins for a reader's programs, and a store. `redis` is the URL of a database of its own."""

    def __init__(self, name, redis, on_redis):
        self.dir = os.path.join(HERE, "guide-" + name)
        self.redis, self.on_redis = redis, on_redis
        subprocess.run(["rm", "-rf", self.dir], check=True)
        os.makedirs(self.path("bin"))
        os.symlink(HOLDFAST, self.path("bin/holdfast"))
        for program in "report", "mailer":
            self.program(program, f'#!/bin/sh\necho {program} "$@" >>"$RAN"\n')
        self.program("sleep", SLEEP)
        self.count = 0

    def path(self, name):
        return os.path.join(self.dir, name)

    def program(self, name, text):
        with open(self.path("bin/" + name), "w") as file:
            file.write(text)
        os.chmod(self.path("bin/" + name), 0o755)

    def begin(self):
        """An empty store, and nothing that has run."""
        self.count += 1
        for name in "go", "ran":
            if os.path.exists(self.path(name)):
                os.unlink(self.path(name))
        subprocess.run(["redis-cli", "-u", self.redis, "FLUSHDB"], check=True, stdout=subprocess.DEVNULL)

    def fill(self, text):
        group = grp.getgrgid(os.getegid()).gr_name
        for name, value in (("redis://locks.example", self.redis), ("/var/lib/locks", self.path("shared")),
                            ("/usr/bin/", self.path("bin/")), ("/usr/local/bin/", self.path("bin/")),
                            ("-g lockers", "-g " + group), ("group=lockers", "group=" + group)):
            text = text.replace(name, value)
        return text

    def environment(self, more):
        env = {k: v for k, v in os.environ.items() if not k.startswith("HOLDFAST")}
        env.update(PATH=self.path("bin") + ":/usr/local/bin:/usr/bin:/bin", SHELL="/bin/sh", RAN=self.path("ran"),
                   LC_ALL="C.UTF-8")
        env["HOLDFAST_STORE"] = self.redis if self.on_redis else f"sqlite://{self.dir}/locks{self.count}.db"
        env.update(more)
        return env

    def run(self, argv, where, more=None):
        """What it says. It must end with 0, and in time."""
        process = subprocess.Popen(argv, cwd=self.dir, env=self.environment(more or {}), text=True,
                                   stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                   start_new_session=True, preexec_fn=die_with_parent)
        try:
            said, _ = process.communicate(timeout=PATIENCE)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            raise Failure(f"{where}: did not end in {PATIENCE} s") from None
        if process.returncode != 0:
            raise Failure(f"{where}: ended with {process.returncode}:\n{said}")
        return said

    def ran(self):
        try:
            with open(self.path("ran")) as file:
                return file.read().splitlines()
        except FileNotFoundError:
            return []


def matches(expected, said):
    """Columns may be wider than on the page."""
    pattern = ""
    for line in expected.splitlines():
        if line.strip() == "...":
            pattern += "(?:.*\n)*"
        else:
            parts = re.split(r"\s*\.\.\.\s*", re.sub(" +", " ", line.rstrip()))
            pattern += ".*".join(map(re.escape, parts)) + " ?\n"
    return re.fullmatch(pattern, re.sub(" +", " ", said)) is not None


def compare(block, said):
    if block.output is not None and not matches(block.output, said):
        raise Failure(f"{block.where}: the page shows\n{block.output}\nbut what came was\n{said}")


def run_sh(place, block):
    text = re.sub(r"(?m)^wait\b", ": >go; wait", place.fill(block.text))
    compare(block, place.run(["sh", "-euc", text], block.where))
    if block.output is None and "-- report" in block.text and not place.ran():
        raise Failure(f"{block.where}: nothing was run")


def run_python(place, block):
    compare(block, place.run([sys.executable, "-B", "-c", place.fill(block.text)], block.where))


def run_whole(place, where, argv, more):
    """A command that stands alone. With --at-least a second machine, whose clock is behind, does not run it again."""
    for _ in range(2 if "--at-least" in " ".join(argv) else 1):
        place.run(argv, where, more)
    if len(place.ran()) != 1:
        raise Failure(f"{where}: {' '.join(argv)} ran its command {len(place.ran())} times")


def run_crontab(place, block):
    more, lines = {}, 0
    for line in place.fill(block.text).splitlines():
        setting = re.match(r"(\w+)=(.*)$", line)
        job = re.match(r"(\S+\s+){5}(.*)$", line)
        if setting:
            more[setting[1]] = setting[2]
        elif job and "%" not in job[2]:
            run_whole(place, block.where, ["sh", "-euc", job[2]], more)
            lines += 1
        elif line.strip():
            raise Failure(f"{block.where}: no line of a crontab: {line}")
    if not lines:
        raise Failure(f"{block.where}: no job")


def run_ini(place, block):
    name = re.match(r"# (\S+\.(service|timer))\n", block.text)
    if not name:
        raise Failure(f"{block.where}: which unit is it?")
    text = place.fill(block.text)
    with open(place.path(name[1]), "w") as file:
        file.write(text)
    said = place.run(["systemd-analyze", "verify", place.path(name[1])], block.where)
    if place.dir in said:
        raise Failure(f"{block.where}: systemd says\n{said}")
    more = dict(re.findall(r"(?m)^Environment=(\w+)=(.*)$", text))
    for command in re.findall(r"(?m)^ExecStart=(.*)$", text):
        run_whole(place, block.where, shlex.split(command), more)


def run_yaml(place, block):
    pod = yaml.safe_load(place.fill(block.text))["spec"]["jobTemplate"]["spec"]["template"]["spec"]
    for container in pod["containers"]:
        more = {one["name"]: one["value"] for one in container["env"] if "value" in one}
        run_whole(place, block.where, container["command"], more)


RUNNERS = {"sh": run_sh, "python": run_python, "crontab": run_crontab, "ini": run_ini, "yaml": run_yaml}


def run_page(page, blocks, number, on_redis):
    name = f"{page.removesuffix('.md')}-{'redis' if on_redis else 'embedded'}"
    place = Place(name, f"{REDIS}/{number}", on_redis)
    failures = []
    for block in blocks:
        if block.excuse:
            continue
        try:
            if block.language not in RUNNERS:
                raise Failure(f"{block.where}: '{block.language}' is not run, and no reason is given")
            place.begin()
            RUNNERS[block.language](place, block)
        except Failure as failure:
            failures.append(f"{name}: {failure}")
    return failures


def check_text(page, text, manual, header):
    """Options, functions and links that the prose names must be there."""
    prose = re.sub(r"(?ms)^```.*?^```$", "", text)
    for option in re.findall(r"`[^`]*?(--[a-z][a-z-]+)", prose):
        if option != "--version" and not re.search(rf"\bFl -{option[2:]}\b", manual):
            yield f"{page}: holdfast(1) does not know {option}"
    for word in re.findall(r"\b(?:hf|HF)_\w+", prose):
        if not re.search(rf"\b{word}\b", header):
            yield f"{page}: holdfast.h does not know {word}"
    for link in re.findall(r"\]\(([^)#]+)", prose):
        if "://" not in link and not os.path.exists(os.path.join(GUIDE, link)):
            yield f"{page}: {link} is not there"


def check_texts(pages):
    with open(os.path.join(ROOT, "docs", "man", "holdfast.1")) as file:
        manual = file.read()
    with open(os.path.join(ROOT, "include", "holdfast.h")) as file:
        header = file.read()
    texts = {page: open(os.path.join(GUIDE, page)).read() for page in pages}
    for page, text in texts.items():
        yield from check_text(page, text, manual, header)
    known = subprocess.run([HOLDFAST, "--version"], check=True, capture_output=True, text=True).stdout
    for scheme in re.findall(r"`([a-z][a-z+-]+):(?:/[^`]*)?`", "".join(texts.values())):
        if not re.search(rf"[ (]{re.escape(scheme)}[ )\n]", known):
            yield f"the store {scheme}: is told of, and holdfast does not know it"
    for status in re.findall(r"(?m)^    (HF_\w+) = -?\d+,? +/\*", header[:header.index("hf_status_name")]):
        if f"`{status}`" not in texts["operation.md"]:
            yield f"operation.md: nothing is said of {status}"
    for field in re.findall(r"(?m)^\| `(\w+)`.* \| .*(?:it|mean|tail|stays|rise)", texts["operation.md"]):
        if not field.startswith("HF_") and not re.search(rf" {field};", header):
            yield f"operation.md: holdfast.h has no figure {field}"


def main():
    pages = sorted(name for name in os.listdir(GUIDE) if name.endswith(".md"))
    blocks = {page: blocks_of(page) for page in pages}
    failures = list(check_texts(pages))
    jobs = [(page, on_redis) for page in pages for on_redis in (False, True)]
    with concurrent.futures.ThreadPoolExecutor(len(jobs)) as pool:
        running = [pool.submit(run_page, page, blocks[page], number, on_redis)
                   for number, (page, on_redis) in enumerate(jobs)]
        for one in running:
            failures += one.result()
    for failure in failures:
        print("FAILED:", failure)
    for page in pages:
        run = [block for block in blocks[page] if not block.excuse]
        print(f"{page}: {len(run)} blocks run on two stores, {sum(b.output is not None for b in run)} outputs compared")
        for block in blocks[page]:
            if block.excuse:
                print(f"{block.where}: not run: {block.excuse}")
    sys.exit(1 if failures or not any(blocks.values()) else 0)


main()
