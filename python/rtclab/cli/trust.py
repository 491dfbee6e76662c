"""Scenarios from elsewhere that run programs, open files or use the network: only if the user says so.

Such a scenario is code, like a makefile: its author chooses programs that run as the user, and files that a
browser without sandbox opens as pages.
"""

from __future__ import annotations

import shlex
import sys
from collections.abc import Iterable
from pathlib import Path

from rtclab.errors import BadInput
from rtclab.plugins import scenario_directories
from rtclab.scenario import Scenario
from rtclab.scenario.layers import SHIPPED

MARKS = (".git", ".hg", ".jj")
"""Directories at the root of a project."""


def check_trusted(scenario: Scenario, files: Iterable[Path], *, live: bool = True, trust: bool) -> None:
    """Refuses a scenario that comes from outside of the current project and needs trust.

    With ``trust`` it says on standard error what the scenario does.

    Args:
        scenario: the scenario.
        files: the files that it was read from: its own, those that it extends, and the suite or the directory
            of the run that has it.
        live: whether its calls are live.
        trust: whether the user trusts it.

    Raises:
        BadInput: the user has not said so. The message lists what the scenario would do.
    """
    powers = list(powers_of(scenario) if live else controls_of(scenario))
    strangers = [file for file in files if is_stranger(file)]
    if not powers or not strangers:
        return
    listed = "".join(f"\n  {power}" for power in powers)
    if not trust:
        raise BadInput(
            f"{strangers[0]} is outside of the current project, {project_root()}, "
            f"and would do as you:{listed}",
            hint="read it, and add --trust if you trust it",
        )
    print(f"{strangers[0]} does as you:{listed}", file=sys.stderr)


def is_stranger(file: Path) -> bool:
    """Whether a file comes neither with rtclab nor from the current project."""
    return not (comes_with_rtclab(file) or in_project(file))


def controls_of(scenario: Scenario) -> Iterable[str]:
    """The congestion controls that a scenario runs as the user in simulated calls, as ``field: value``."""
    return (f"congestion_control.name: {control.text}" for control in scenario.own_controls())


def comes_with_rtclab(file: Path) -> bool:
    """Whether a file is one of the scenarios and profiles of rtclab or of its plugins."""
    return any(file.resolve().is_relative_to(place.resolve()) for place in (SHIPPED, *scenario_directories()))


def powers_of(scenario: Scenario) -> Iterable[str]:
    """What a scenario does in live calls that needs trust, as ``field: value``.

    It runs programs besides rtclab's own, lets pages and servers use the network of this machine, or opens a
    file in a browser without sandbox, with the files beside it. A page at an address needs no trust of its
    own: without these powers, nothing answers there but rtclab's own servers.
    """
    if scenario.internet:
        yield "internet: true"
    for name, own in scenario.participants.items():
        if given := scenario.browser_of(name).args:
            yield f"participants.{name}.browser.args: {shlex.join(given)}"
        if own.page is not None and "://" not in own.page:
            yield f"participants.{name}.page: {own.page}"
        if own.script is not None:
            yield f"participants.{name}.script: {own.script}"
    for name, server in scenario.servers.items():
        if server.command is not None:
            yield f"servers.{name}.command: {server.command}"


def in_project(file: Path) -> bool:
    """Whether a file is in the current project."""
    return file.resolve().is_relative_to(project_root())


def project_root() -> Path:
    """The root of the repository around the current directory; without one, the current directory."""
    here = Path.cwd().resolve()
    return next(
        (place for place in (here, *here.parents) if any((place / mark).exists() for mark in MARKS)), here
    )
