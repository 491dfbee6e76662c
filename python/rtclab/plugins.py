"""Commands and scenarios that other distributions add, by their entry points.

An entry point of the group ``rtclab.commands`` has the name of a command, and refers to a ``typer.Typer``
with this one command. An entry point of the group ``rtclab.scenarios`` refers to a package whose directory
has scenarios, also in folders. If a folder has the conditions of a published paper, the package's ``PAPERS``
has the title of the paper by the name of the folder.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from types import ModuleType
from typing import Any

from rtclab.errors import BadInput, RtclabError

COMMANDS = "rtclab.commands"
SCENARIOS = "rtclab.scenarios"
ELSEWHERE = {"reproduce": "rtclab-papers", "validate": "rtclab-papers"}
"""Commands of other distributions in rtclab's own repository, with the name of the distribution."""


def command_names() -> list[str]:
    """The names of the commands that other distributions add.

    A command that cannot be loaded is left out, and a sentence on standard error says so.
    """
    return [entry.name for entry in entry_points(group=COMMANDS) if _or_none(_command, entry) is not None]


def command(name: str) -> Any:
    """The click command of another distribution; None if there is no command of this name.

    Raises:
        RtclabError: the command cannot be loaded.
        BadInput: the distribution that has the command is not installed.
    """
    for entry in entry_points(group=COMMANDS, name=name):
        try:
            return _command(entry)
        except Exception as error:
            raise RtclabError(_cannot_load(entry, error)) from error
    if name in ELSEWHERE:
        raise BadInput(
            f"the command `{name}` is in the distribution {ELSEWHERE[name]}, which is not installed",
            hint="install its wheel; in the repository of rtclab, `pip install ./papers` does it",
        )
    return None


@cache
def scenario_packages() -> list[ModuleType]:
    """The packages of scenarios that can be loaded; a sentence on standard error names each other one."""
    loaded = [_or_none(EntryPoint.load, entry) for entry in entry_points(group=SCENARIOS)]
    return [package for package in loaded if package is not None]


def scenario_directories() -> list[Path]:
    """The directories of the packages of scenarios."""
    return [Path(directory) for package in scenario_packages() for directory in package.__path__]


def papers() -> dict[str, str]:
    """The titles of the published papers whose conditions are in folders of scenarios, by folder."""
    found: dict[str, str] = {}
    for package in scenario_packages():
        found |= getattr(package, "PAPERS", {})
    return found


def _command(entry: EntryPoint) -> Any:
    import typer

    made = typer.main.get_command(entry.load())
    made.name = entry.name
    return made


def _or_none(load: Callable[[EntryPoint], Any], entry: EntryPoint) -> Any:
    """What an entry point refers to; None, and a sentence on standard error, if it cannot be loaded."""
    try:
        return load(entry)
    except Exception as error:
        print(_cannot_load(entry, error), file=sys.stderr)
        return None


def _cannot_load(entry: EntryPoint, error: Exception) -> str:
    distribution = entry.dist.name if entry.dist else entry.value
    what = f"command `{entry.name}`" if entry.group == COMMANDS else "scenarios"
    return f"{distribution}: its {what} cannot be loaded: {type(error).__name__}: {error}"
