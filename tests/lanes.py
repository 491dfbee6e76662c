"""Runs all tests in lanes side by side, shows how far they are, and sums them up on one screen: `make test`.

Live tests wait for real time and need few instructions, and the others compute. So each kind has a lane, and
the lanes that compute give way. Each lane keeps its output in ``target/test``.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from side_by_side import is_silence_wanted

ROOT = Path(__file__).parents[1]
LOGS = ROOT / "target" / "test"
GIVE_WAY = ROOT / "tests" / "give_way.sh"
SECONDS = ROOT / "tests" / "seconds.json"
RECORD = "RTCLAB_TEST_RECORD"
SHOWN_EVERY_S = 20
MOST_LINES = 200
"""How much is shown of the output of a lane that failed. Its file has all of it."""
SLOWEST = 4
NO_TESTS = 5
"""Exit status of pytest if no test was chosen."""
CARGO_RESULT = re.compile(r"^test result: \S+ (\d+) passed; (\d+) failed; (\d+) ignored", re.MULTILINE)
CARGO_FAILED = re.compile(r"^test (\S+).* \.\.\. FAILED$", re.MULTILINE)
CORES = len(os.sched_getaffinity(0))
PYTEST = [sys.executable, "-m", "pytest"]
SIDE_BY_SIDE = [f"--numprocesses={max(2, CORES)}", "--no-loadscope-reorder"]
LIVE = ["tests/live", "tests/browser", "tests/docs", "papers/tests/live"]
"""Where live tests are. To collect all others takes a quarter of a minute."""
CARGO_TEST = ["cargo", "test", "--quiet", "--locked", "--no-fail-fast"]
OF_STRANGERS = "livekit-server or whip-whep or janus-demos"
"""Tests with servers and pages of others, which take minutes to build."""


@dataclass
class Lane:
    """Commands that run one after the other, beside the other lanes."""

    name: str
    niceness: int
    commands: list[list[str]]
    pauses: bool = False
    """Whether it stands still while a test wants silence. Nothing in it may depend on real time."""
    after: str = ""
    """The lane that must have ended before this one begins."""
    status: int = 0
    """The first exit status that was not 0."""
    began: float = 0
    took_s: float | None = None
    """None until the lane has ended."""
    tests: int = 0
    done: Counter[str] = field(default_factory=Counter)
    """Number of tests by outcome."""
    failed: list[str] = field(default_factory=list)
    skipped: Counter[str] = field(default_factory=Counter)
    """Number of tests by the reason why they were skipped."""
    seconds: Counter[str] = field(default_factory=Counter)
    """Seconds by file of tests."""
    running: dict[str, float] = field(default_factory=dict)
    """The tests that run, and when they began."""
    _line: str = ""
    """The beginning of a line of the record whose end is not written yet."""

    @property
    def log(self) -> Path:
        """What the commands print."""
        return LOGS / f"{self.name}.log"

    @property
    def record(self) -> Path:
        """What pytest writes about each test; see `conftest.py`."""
        return LOGS / f"{self.name}.jsonl"

    def run(self) -> Iterator[None]:
        """Runs the commands. Each step reads what is new."""
        self.began = time.monotonic()
        self.record.write_text("")
        with self.log.open("w+") as log, self.record.open() as record:
            for command in self.commands:
                process = subprocess.Popen(
                    [GIVE_WAY, str(self.niceness), *command],
                    cwd=ROOT,
                    start_new_session=True,
                    env=os.environ | {RECORD: str(self.record)},
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=subprocess.STDOUT,
                )
                try:
                    stopped = False
                    while process.poll() is None:
                        self._read(record.read())
                        if self.pauses and stopped != is_silence_wanted():
                            stopped = not stopped
                            os.killpg(process.pid, signal.SIGSTOP if stopped else signal.SIGCONT)
                        yield
                finally:
                    if process.poll() is None:
                        for number in (signal.SIGTERM, signal.SIGCONT):
                            os.killpg(process.pid, number)
                self._read(record.read())
                if process.returncode not in (0, NO_TESTS):
                    self.status = self.status or process.returncode
            log.seek(0)
            self._count_of_cargo(log.read())
        self.took_s = time.monotonic() - self.began
        self.running.clear()

    def _read(self, new: str) -> None:
        *lines, self._line = (self._line + new).split("\n")
        for event in map(json.loads, lines):
            match event:
                case {"tests": tests}:
                    self.tests = tests
                case {"begins": test, "at": at}:
                    self.running[test] = at
                case {"outcome": outcome, "test": test, "reason": reason}:
                    self.done[outcome] += 1
                    if outcome == "failed":
                        self.failed.append(test)
                    if outcome == "skipped":
                        self.skipped[reason.removeprefix("Skipped: ")] += 1
                case {"ends": test, "seconds": seconds}:
                    self.running.pop(test, None)
                    self.seconds[test.partition("::")[0]] += seconds

    def _count_of_cargo(self, output: str) -> None:
        for passed, failed, ignored in CARGO_RESULT.findall(output):
            self.done.update(passed=int(passed), failed=int(failed), skipped=int(ignored))
        self.failed += CARGO_FAILED.findall(output)

    def progress(self) -> str:
        """How far the lane is, for a line that all lanes share."""
        if self.took_s is not None:
            return f"{self.name} {'failed' if self.status else 'done'}"
        count = f"{sum(self.done.values())}/{self.tests}" if self.tests else self._without_count()
        failed = f", {len(self.failed)} failed" if self.failed else ""
        slow = min(self.running.items(), key=lambda test: test[1], default=None)
        now = f" ({short(slow[0])}, {time.time() - slow[1]:.0f} s)" if slow else ""
        return f"{self.name} {count}{failed}{now}"

    def _without_count(self) -> str:
        """How far a lane without tests of pytest is. Cargo counts the tests of a crate at their end."""
        if not self.began:
            return "waits"
        passed = sum(int(found[0]) for found in CARGO_RESULT.findall(self.log.read_text(errors="replace")))
        return f"{passed} passed" if passed else "builds"

    def summary(self) -> str:
        """What became of the tests."""
        counts = ", ".join(f"{self.done[outcome]} {outcome}" for outcome in ("passed", "failed", "skipped"))
        failed = f"; exit status {self.status}, see {self.log.relative_to(ROOT)}" if self.status else ""
        return f"{self.name:<10} {clock(self.took_s or 0)}  {counts}{failed}"


def short(test: str) -> str:
    """The file of a test without its directory, and its name without parameters."""
    file, _, name = test.partition("::")
    name = re.split(r"[@\[]", name)[0].removeprefix("test_")
    return f"{Path(file).name}: {name[:50]}"


def clock(seconds: float) -> str:
    """A time as minutes and seconds."""
    return f"{int(seconds) // 60:>2}:{int(seconds) % 60:02}"


def lanes() -> list[Lane]:
    """The lanes of all tests, each with the lanes that must have ended before.

    Tests that measure come first, with compilers beside them, which give way. Then come other live tests,
    with those beside them that compute.
    """
    own = ["-m", f"live and not measures and not ({OF_STRANGERS})"]
    crates = ["--package", "rtclab-core", "--package", "rtclab-emu"]
    server = ["--package", "rtclab-sfu", "--profile", "server"]
    return [
        Lane("measuring", 0, [[*PYTEST, "-m", "measures", *LIVE]]),
        # Tests whose parts could not be built are skipped by name, or fail in CI.
        Lane("rust", 15, [[*CARGO_TEST, *crates], [*CARGO_TEST, *server]], pauses=True),
        Lane(
            "strangers",
            15,
            [["sh", "-c", "make --keep-going setup-strangers || true"], [*PYTEST, "-m", OF_STRANGERS, *LIVE]],
            pauses=True,
        ),
        Lane("live", 0, [[*PYTEST, *SIDE_BY_SIDE, "--dist=loadgroup", *own, *LIVE]], after="measuring"),
        Lane(
            "python", 10, [[*PYTEST, *SIDE_BY_SIDE, "--dist=loadfile", "-m", "not live"]], after="measuring"
        ),
    ]


def run(chosen: list[Lane]) -> None:
    """Runs lanes until all have ended, and prints every failure at once and every few seconds a line."""
    begin = shown = time.monotonic()
    steps = {lane.name: lane.run() for lane in chosen}
    told: Counter[str] = Counter()
    while steps:
        for lane in chosen:
            if lane.name in steps and lane.after not in steps and next(steps[lane.name], steps) is steps:
                del steps[lane.name]
            for test in lane.failed[told[lane.name] :]:
                print(f"{clock(time.monotonic() - begin)}  FAILED in {lane.name}: {test}", flush=True)
            told[lane.name] = len(lane.failed)
        if time.monotonic() - shown > SHOWN_EVERY_S:
            shown = time.monotonic()
            print(clock(shown - begin), *(lane.progress() for lane in chosen), sep="  ", flush=True)
        time.sleep(0.2)


def show_failures(lane: Lane) -> None:
    """Prints what a lane that failed says about it."""
    output = lane.log.read_text(errors="replace")
    _, _, failures = output.partition("= FAILURES =") if "= FAILURES =" in output else ("", "", output)
    lines = failures.splitlines()[-MOST_LINES:]
    print(f"\n── {lane.name}: the end of {lane.log.relative_to(ROOT)} ──", *lines, sep="\n")


def show_skipped(chosen: list[Lane]) -> None:
    """Prints for each reason how many tests were skipped. The reason says what would run them."""
    skipped = sum((lane.skipped for lane in chosen), Counter())
    for reason, count in skipped.most_common():
        print(f"skipped {count:>4}: {reason}")


def keep_seconds(chosen: list[Lane]) -> None:
    """Keeps how long each file of tests took, for the order of the next run."""
    seconds = dict(sum((lane.seconds for lane in chosen), Counter()).most_common())
    kept = {file: round(took, 1) for file, took in seconds.items() if took >= 1}
    SECONDS.write_text(json.dumps(kept, indent=1) + "\n")


def left_in(directory: Path) -> list[str]:
    """What tests left in the temporary directory, without pytest's own files."""
    return sorted(path.name for path in directory.iterdir() if not path.name.startswith("pytest-of-"))


def main() -> None:
    """Runs the lanes, prints the summary, and exits with 1 if something failed or was left behind."""
    parser = argparse.ArgumentParser(description=__doc__)
    known = {lane.name: lane for lane in lanes()}
    parser.add_argument("names", nargs="*", choices=[*known, []], metavar="LANE", help=", ".join(known))
    parser.add_argument("--keep-seconds", action="store_true", help=f"write {SECONDS.relative_to(ROOT)}")
    asked = parser.parse_args()
    chosen = [known[name] for name in asked.names] or list(known.values())
    LOGS.mkdir(parents=True, exist_ok=True)
    # The variables of the make that may have started this, and one that makes each of a thousand processes
    # compile its modules again.
    for name in ("MAKEFLAGS", "MFLAGS", "MAKELEVEL", "PYTHONDONTWRITEBYTECODE"):
        os.environ.pop(name, None)
    if "CI" in os.environ:
        os.environ["CARGO_INCREMENTAL"] = "0"  # nothing is built twice there
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # ends the lanes
    begin = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="rtclab-") as temporary:
        os.environ["TMPDIR"] = temporary
        Path(temporary).chmod(0o1777)  # some tests are another user's
        run(chosen)
        left = left_in(Path(temporary))
    failed = [lane for lane in chosen if lane.status or lane.failed]
    for lane in failed:
        show_failures(lane)
    print(f"\n── tests, {clock(time.monotonic() - begin).strip()} min ──")
    for lane in chosen:
        print(lane.summary())
    slowest = sum((lane.seconds for lane in chosen), Counter()).most_common(SLOWEST)
    print("slowest:  ", ", ".join(f"{Path(file).name} {seconds:.0f} s" for file, seconds in slowest))
    show_skipped(chosen)
    if left:
        print(f"left in the temporary directory, which is a failure: {', '.join(left)}")
    done = sum((lane.done for lane in chosen), Counter())
    print(f"{done['passed']} passed, {done['failed']} failed, {done['skipped']} skipped")
    if asked.keep_seconds:
        keep_seconds(chosen)
    sys.exit(1 if failed or left else 0)


if __name__ == "__main__":
    main()
