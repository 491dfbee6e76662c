"""Tests without the parts of a machine that they need, and machines on which rtclab cannot be built."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from rtclab.backend.live.browsers.launch_options import CHROMIUM_NAMES

ROOT = Path(__file__).parents[2]
LIVE = ("tests/live", "tests/browser", "tests/docs", "papers/tests/live")
FEWEST = 100
"""There are more live tests with Chromium than that."""


def programs_without(names: tuple[str, ...], folder: Path) -> Path:
    """A directory with a link to each program of this machine, except some."""
    folder.mkdir()
    for directory in map(Path, os.environ["PATH"].split(os.pathsep)):
        for program in directory.iterdir() if directory.is_dir() else ():
            if program.name not in names and not (folder / program.name).is_symlink():
                (folder / program.name).symlink_to(program)
    return folder


def run_pytest(tmp_path: Path, *arguments: str, **environment: str) -> Counter[tuple[str, str]]:
    """Runs tests in a child process; returns how many had which outcome and reason."""
    record = tmp_path / "record.jsonl"
    record.touch()
    # A child of a worker is none itself.
    own = {name: value for name, value in os.environ.items() if "XDIST" not in name}
    subprocess.run(
        [sys.executable, "-m", "pytest", *arguments, *LIVE],
        cwd=ROOT,
        env=own | {"RTCLAB_TEST_RECORD": str(record)} | environment,
        capture_output=True,
        check=False,
    )
    events = [json.loads(line) for line in record.read_text().splitlines()]
    return Counter((event["outcome"], event["reason"]) for event in events if "outcome" in event)


@pytest.mark.parametrize(("ci", "outcome"), [("", "skipped"), ("1", "failed")])
def test_without_chromium_each_test_that_needs_it_is_skipped_with_the_reason_or_fails_in_ci(
    ci: str, outcome: str, tmp_path: Path
) -> None:
    path = programs_without(CHROMIUM_NAMES, tmp_path / "bin")
    outcomes = run_pytest(tmp_path, "-m", "chromium", PATH=str(path), CI=ci)
    assert {found for found, _ in outcomes} == {outcome}
    # The reason is the first part that is missing. A machine may lack others too.
    named = re.compile(r"needs ([^:]+): [^;\n]+; [^;\n]+")
    missing = Counter[str]()
    for (_, reason), count in outcomes.items():
        part = named.fullmatch(reason.removeprefix("Skipped: "))
        assert part, reason
        missing[part[1]] += count
        if part[1] == "chromium":
            assert "not found in PATH; apt-get install chromium, or `make setup-live`" in reason
    assert missing["chromium"] > FEWEST


def test_every_live_test_names_the_parts_that_it_needs(tmp_path: Path) -> None:
    listed = subprocess.run(
        [sys.executable, "-m", "pytest", "--collect-only", "-m", "live and not needs", *LIVE],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert listed.returncode == pytest.ExitCode.NO_TESTS_COLLECTED, listed.stdout


def program(folder: Path, name: str, text: str) -> None:
    """Makes a program that is found before the one of this machine."""
    folder.mkdir(exist_ok=True)
    (folder / name).write_text(f"#!/bin/sh\n{text}\n")
    (folder / name).chmod(0o755)


def check_machine(path: str, python: str = sys.executable) -> tuple[int, str]:
    """Exit status and words of the check that comes before a build."""
    done = subprocess.run(
        [ROOT / "packaging" / "check_machine.sh", python],
        cwd=ROOT,
        env=os.environ | {"PATH": path},
        capture_output=True,
        text=True,
        check=False,
    )
    return done.returncode, done.stderr


@pytest.mark.parametrize(
    ("missing", "words"),
    [
        ("rustc", "no Rust; install it from https://rustup.rs"),
        ("cargo", "no Rust; install it from https://rustup.rs"),
        ("cc", "no C compiler `cc`; Debian: apt-get install build-essential"),
    ],
)
def test_what_is_missing_to_build_is_said_in_one_line(missing: str, words: str, tmp_path: Path) -> None:
    status, said = check_machine(str(programs_without((missing,), tmp_path / "bin")))
    assert status == 1
    assert said.startswith(f"rtclab cannot be built here: {words}")
    assert said.count("\n") == 1


def test_a_machine_that_lacks_nothing_passes_without_a_word() -> None:
    assert check_machine(os.environ["PATH"]) == (0, "")


@pytest.mark.parametrize(
    ("version", "builds"), [("1.63.0", False), ("1.84.1", False), ("1.85.0", True), ("2.0.0", True)]
)
def test_an_older_rust_is_named_with_the_one_that_is_needed(
    version: str, builds: bool, tmp_path: Path
) -> None:
    program(tmp_path / "bin", "rustc", f"echo 'rustc {version} (abc 2022-08-08)'")
    status, said = check_machine(f"{tmp_path / 'bin'}:{os.environ['PATH']}")
    assert (status == 0) is builds
    assert builds or f"Rust {version} is older than 1.85; install it from https://rustup.rs" in said


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("exit 127", "does not run; install Python 3.11 or newer"),
        (
            'case "$1$2" in -V) echo Python 3.9.2;; *version_info*) exit 1;; esac',
            "is Python 3.9.2; expected Python 3.11",
        ),
        ('case "$2" in *ensurepip*) exit 1;; esac', "has no venv; Debian: apt-get install python3-venv"),
    ],
)
def test_a_python_that_will_not_do_is_named_with_its_reason(text: str, words: str, tmp_path: Path) -> None:
    program(tmp_path / "bin", "python3", text)
    status, said = check_machine(os.environ["PATH"], str(tmp_path / "bin" / "python3"))
    assert status == 1
    assert words in said
