"""Scenarios from elsewhere that run programs, open files or use the network: only if the user says so.

Such a scenario is code, like a makefile: its author chooses the programs and the Python that run as the user,
and files that a browser without sandbox opens as pages. A scenario therefore remembers the files it was read
from, and whoever would run something for it asks ``Scenario.check_trusted`` first.

Files that come with rtclab or its plugins and files of the current project are the user's own. All others are
strangers' files.
"""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Self

from rtclab.errors import BadInput
from rtclab.plugins import scenario_directories
from rtclab.scenario import mixing
from rtclab.scenario.layers import CONTROL, SHIPPED
from rtclab.scenario.model import ScenarioTables

MARKS = (".git", ".hg", ".jj")
"""Directories at the root of a project."""
HINT = "read it; if you trust it, add --trust, or in Python trust=True"


@dataclass(frozen=True)
class ReadFrom:
    """Where a scenario comes from. Two scenarios are equal wherever they come from.

    Attributes:
        strangers: the files or directories from outside of the current project that it was read from; none
            if the caller made it.
        trusted: whether the user trusts them.
        named: fields that the user set, whose values are therefore the user's own.
    """

    strangers: tuple[Path, ...] = field(default=(), compare=False)
    trusted: bool = field(default=False, compare=False)
    named: frozenset[str] = field(default=frozenset(), compare=False)

    @classmethod
    def of(cls, files: Iterable[Path], *, trust: bool = False) -> Self:
        """A scenario that is read from files or directories."""
        return cls(tuple(file for file in files if is_stranger(file)), trust)

    def beside(self, other: ReadFrom) -> ReadFrom:
        """A scenario that is read from both, such as from a suite and from the file that the suite names."""
        strangers = tuple(dict.fromkeys((*self.strangers, *other.strangers)))
        return ReadFrom(strangers, self.trusted or other.trusted, self.named | other.named)

    def naming(self, fields: Iterable[str]) -> ReadFrom:
        """The same after the user has set some fields."""
        return replace(self, named=self.named | {_long_form(name) for name in fields})

    def check(self, powers: Iterable[str]) -> None:
        """Refuses a stranger's files if they would do something as the user. If they are trusted, says it.

        ``powers`` are what would be done, one a line.

        Raises:
            BadInput: the user does not trust them. The message lists the files and ``powers``.
        """
        listed = "".join(f"\n  {power}" for power in powers)
        if not (self.strangers and listed):
            return
        files = " and ".join(map(str, self.strangers))
        if not self.trusted:
            are = "is" if len(self.strangers) == 1 else "are"
            raise BadInput(
                f"{files} {are} outside of the current project, {_project_in_words()}, "
                f"and would do as you:{listed}",
                hint=HINT,
            )
        _say(f"{files} {'does' if len(self.strangers) == 1 else 'do'} as you:{listed}")


CALLER = ReadFrom()
"""The caller made the scenario, or it is read from files of the user's own."""


def powers(scenario: ScenarioTables, read_from: ReadFrom, *, live: bool) -> list[str]:
    """What strangers' files make a scenario do that needs trust, as ``field: value``.

    What the user named does not count. ``live`` says whether its calls are live.
    """
    if not read_from.strangers:
        return []
    found = _of_live_calls(scenario) if live else _of_simulated_calls(scenario)
    own = {value for field, value in found.items() if any(_is_below(field, one) for one in read_from.named)}
    return [f"{field}: {value}" for field, value in found.items() if value not in own]


def is_stranger(file: Path) -> bool:
    """Whether a file or directory comes neither with rtclab nor from the current project.

    Symbolic links are followed: a link in the project to a file elsewhere is a stranger's file.
    """
    path = file.resolve()
    # Other distributions come last, because looking for them takes time.
    return not (
        path.is_relative_to(SHIPPED)
        or _in_project(path)
        or any(path.is_relative_to(place.resolve()) for place in scenario_directories())
    )


def _of_simulated_calls(scenario: ScenarioTables) -> dict[str, str]:
    """What a scenario does in simulated calls that needs trust, by field: it runs controls of its own."""
    controls = mixing.controls(scenario).items()
    return {f"{table}.name".lstrip("."): own.text for table, one in controls if (own := one.own) is not None}


def _of_live_calls(scenario: ScenarioTables) -> dict[str, str]:
    """What a scenario does in live calls that needs trust, by field.

    It runs programs besides rtclab's own, lets pages and servers use the network of this machine, or opens a
    file in a browser without sandbox, with the files beside it. A page at an address needs no trust of its
    own: without these powers, nothing answers there but rtclab's own servers.
    """
    found = {"internet": "true"} if scenario.internet else {}
    for name, own in scenario.participants.items():
        if given := scenario.browser_of(name).args:
            table = "browser" if own.browser is None else f"participants.{name}.browser"
            found[f"{table}.args"] = shlex.join(given)
        if own.page is not None and "://" not in own.page:
            found[f"participants.{name}.page"] = own.page
        if own.script is not None:
            found[f"participants.{name}.script"] = own.script
    for name, server in scenario.servers.items():
        if server.command is not None:
            found[f"servers.{name}.command"] = server.command
    return found


def _long_form(name: str) -> str:
    """A field in which ``control`` is written as the table it stands for."""
    *tables, last = name.split(".")
    return ".".join([*tables, "congestion_control" if last == CONTROL else last])


def _is_below(name: str, table: str) -> bool:
    """Whether a field is another one, or lies below it."""
    return f"{name}.".startswith(f"{table}.")


@cache
def _say(sentence: str) -> None:
    """Prints a sentence on standard error, once in a process."""
    print(sentence, file=sys.stderr)


def _in_project(path: Path) -> bool:
    """Whether a file, without symbolic links, is in the current project.

    If that is the home directory, it has no directories.
    """
    root = project_root()
    return path.parent == root if _is_home_or_above(root) else path.is_relative_to(root)


def project_root() -> Path:
    """The repository around the current directory, or else that directory.

    The repository and the directories up to it must belong to the user, because anybody may make a ``.git``
    in a shared directory. The home directory is not the root of a repository, and nothing above it is.
    """
    here = Path.cwd().resolve()
    for place in (here, *here.parents):
        if _is_home_or_above(place) or not _is_own(place):
            break
        if any(_is_own(place / mark) for mark in MARKS):
            return place
    return here


def _is_home_or_above(place: Path) -> bool:
    """Whether a directory is the user's home directory or has it below."""
    try:
        return Path.home().resolve().is_relative_to(place)
    except RuntimeError:  # the user has none
        return False


def _is_own(path: Path) -> bool:
    """Whether a file or directory exists and belongs to the user. Windows does not tell the owner."""
    try:
        owner = path.lstat().st_uid
    except OSError:
        return False
    return sys.platform == "win32" or owner == os.geteuid()


def _project_in_words() -> str:
    root = project_root()
    return f"the files directly in {root}" if _is_home_or_above(root) else str(root)
