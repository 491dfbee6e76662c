"""Finds the examples of a Markdown page and runs them, each in its language."""

from __future__ import annotations

import doctest
import os
import re
import shlex
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from rtclab.cli import main
from rtclab.gates import Suite
from rtclab.scenario import Scenario
from rtclab.scenario.layers import SHIPPED

FENCE = re.compile(r"^```([^\s`]+) *([^\s`]*)[^\n]*\n(.*?)^```$", re.DOTALL | re.MULTILINE)
NUMBER = re.compile(r"[-+]?\d[\d.,]*")
INTERVAL = re.compile(r"# \[# #\]|all equal|# … #")
RULES = re.compile(r"[─━-]{2,}")
LIVE = re.compile(r"--backend live|-live-|rtclab (link|doctor)|backend=\"live\"")
SHELL = re.compile(r"[|><&;*$]")
STAYS = re.compile(r"(cd|export) ")
"""A command that changes the directory or the environment of those after it."""
ADDED_TO = f'name = "example"\nextends = "{SHIPPED / "first-call"}"'
"""What an example that is only a part of a scenario is added to."""
BUSY = re.compile(r"^(.*: The emulator was late in .*|waiting for process .*)\n", re.MULTILINE)
"""What a run says if the machine is too busy for it, or runs another, which no page shows."""
ANY_LINES = r"(?:[^\n]*\n)*"


@dataclass(frozen=True)
class Example:
    """A fenced block of a page. Behind the fence stand ``language`` and, if it is a file's text, ``file``."""

    page: str
    line: int
    language: str
    text: str
    file: str = ""

    @property
    def live(self) -> bool:
        """Whether it needs what live calls need."""
        return LIVE.search(self.text) is not None

    def __str__(self) -> str:
        return f"{self.page}:{self.line}"


def examples_of(file: Path) -> list[Example]:
    """The fenced blocks of a page in their order, directives of MyST left out."""
    text = file.read_text(encoding="utf-8")
    return [
        Example(file.name, text.count("\n", 0, found.start()) + 1, found[1], found[3], found[2])
        for found in FENCE.finditer(text)
        if not found[1].startswith("{")
    ]


class Reader:
    """Somebody who does in an empty directory, one after the other, what a page says."""

    def __init__(
        self, capture: pytest.CaptureFixture[str], bin_directory: Path, patch: pytest.MonkeyPatch
    ) -> None:
        self.capture = capture
        self.patch = patch
        self.shell_path = bin_directory
        self.names: dict[str, Any] = {"__name__": "__main__"}
        write_command(bin_directory / "rtclab")

    def follow(self, example: Example) -> None:
        """Writes a file, or runs an example; fails if it does not do what the page shows."""
        if example.file:
            Path(example.file).parent.mkdir(parents=True, exist_ok=True)
            Path(example.file).write_text(example.text)
            return
        match example.language:
            case "console":
                self._commands(example)
            case "python":
                exec(compile(example.text, str(example), "exec"), self.names)
            case "pycon":
                self._session(example)
            case "toml":
                load_scenario(example)

    def _commands(self, example: Example) -> None:
        parts = re.split(r"^\$ ", example.text.replace("\\\n", " "), flags=re.MULTILINE)
        assert not parts[0], f"{example}: a console block begins with `$ `"
        for part in parts[1:]:
            command, _, shown = part.partition("\n")
            status, output = self._run(command)
            told = shown and "…" not in shown.splitlines()
            assert status == 0 or told, f"{example}: {command} failed without the page showing it\n{output}"
            assert matches(shown, output), f"{example}: {command}\nshown:\n{shown}\nprinted:\n{output}"

    def _run(self, command: str) -> tuple[int, str]:
        if STAYS.match(command):
            return self._change(command)
        plain = not SHELL.search(re.sub(r"'[^']*'", "", command))
        # This process has its native module already.
        if command.startswith("rtclab ") and plain and "RTCLAB_NATIVE" not in os.environ:
            with pytest.raises(SystemExit) as ended:
                main(shlex.split(command, comments=True)[1:])
            written = self.capture.readouterr()
            return int(ended.value.code or 0), written.out + written.err
        done = subprocess.run(
            ["bash", "-c", f"PATH={shlex.quote(str(self.shell_path))}:$PATH; {command}"],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        return done.returncode, done.stdout

    def _change(self, command: str) -> tuple[int, str]:
        done = subprocess.run(
            ["bash", "-c", f"{command} && env --null"], capture_output=True, text=True, check=False
        )
        if done.returncode == 0:
            variables = dict(line.split("=", 1) for line in done.stdout.split("\0") if line)
            self.patch.chdir(variables["PWD"])
            for name, value in variables.items():
                self.patch.setenv(name, value)
        return done.returncode, done.stderr

    def _session(self, example: Example) -> None:
        test = doctest.DocTestParser().get_doctest(example.text, self.names, str(example), None, example.line)
        runner = doctest.DocTestRunner(checker=Alike(), verbose=False)
        said: list[str] = []
        runner.run(test, out=said.append, clear_globs=False)
        self.names.update(test.globs)
        assert not runner.failures, "".join(said)


class Alike(doctest.OutputChecker):
    """Accepts an output that differs in numbers alone."""

    def check_output(self, want: str, got: str, optionflags: int) -> bool:
        return matches(want, got)


def matches(shown: str, printed: str) -> bool:
    """Whether a page shows what was printed; figures may differ, and a line `…` stands for any lines.

    That the machine was busy need not be shown.
    """
    wanted = [ANY_LINES if line == "…" else re.escape(f"{line}\n") for line in _without_figures(shown)]
    output = "".join(f"{line}\n" for line in _without_figures(BUSY.sub("", printed)))
    return not wanted or re.fullmatch("".join(wanted), output) is not None


def _without_figures(text: str) -> list[str]:
    """The lines that are not empty, without figures, intervals, and what depends on their widths."""
    lines = (" ".join(RULES.sub("─", NUMBER.sub("#", line)).split()) for line in text.splitlines())
    return [INTERVAL.sub("#", line) for line in lines if line]


def load_scenario(example: Example) -> Scenario | Suite:
    """Loads a suite, a scenario, or a part of one laid over `first-call`.

    The first line may name the file to keep.
    """
    named = re.match(r"# (\S+\.toml)\n", example.text)
    file = Path(named[1] if named else "example.toml")
    if re.search(r"^\[scenarios\.", example.text, re.MULTILINE):
        file.write_text(example.text)
        return Suite.load(file)
    whole = re.search(r"^(name|extends) =", example.text, re.MULTILINE)
    file.write_text(example.text if whole else f"{ADDED_TO}\n{example.text}")
    return Scenario.load(file)


def write_command(file: Path) -> None:
    """The command ``rtclab`` of this very package, for shells."""
    package = Path(sys.modules["rtclab"].__file__ or "").parents[1]
    file.write_text(f'#!/bin/sh\nPYTHONPATH="{package}" exec "{sys.executable}" -m rtclab "$@"\n')
    file.chmod(0o755)
