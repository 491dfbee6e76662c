"""Pages and servers of the user's own: what the scenario says of them, and its check."""

from __future__ import annotations

import shlex
import shutil
import sys
from dataclasses import dataclass
from pathlib import Path

from rtclab.errors import BackendUnavailable, BadInput, UnsupportedScenario
from rtclab.scenario import Scenario
from rtclab.scenario.own_page import Step


@dataclass(frozen=True)
class UserPageSettings:
    """The page of a participant, its steps, and the script that drives it."""

    page: str
    """Path of a file, or a URL."""
    steps: tuple[Step, ...] = ()
    script: str | None = None
    """Path of the script."""


@dataclass(frozen=True)
class UserServerSettings:
    """A server that is a command of the user."""

    command: tuple[str, ...]
    """The words of the command."""
    port: int | None
    """TCP port at which it listens, None if nobody waits for it."""
    directory: str
    """Directory in which it is started."""


def user_pages(scenario: Scenario) -> dict[str, UserPageSettings]:
    """The page of each participant who has one of the user's own."""
    return {
        name: UserPageSettings(own.page, tuple(own.steps), own.script)
        for name, own in scenario.participants.items()
        if own.page is not None
    }


def user_servers(scenario: Scenario) -> dict[str, UserServerSettings]:
    """The server of each node that has one of the user's own."""
    return {
        name: UserServerSettings(tuple(words(name, server.command)), server.port, str(server.directory))
        for name, server in scenario.servers.items()
        if server.command is not None
    }


def words(node: str, command: str) -> list[str]:
    """The words of a command, as a shell splits them.

    Raises:
        BadInput: a quotation mark is missing, or there is no word.
    """
    try:
        found = shlex.split(command)
    except ValueError as error:
        raise BadInput(f"servers.{node}.command: cannot split `{command}`: {error}") from None
    if not found:
        raise BadInput(f"servers.{node}.command: is empty; expected a command such as `npm start`")
    return found


def check_user_files(scenario: Scenario) -> None:
    """Checks pages, scripts and commands of the user's own before anything starts.

    Raises:
        BadInput: a file or directory is missing, or a command cannot be split.
        BackendUnavailable: nothing runs the script.
        UnsupportedScenario: the participant's table asks for what only rtclab's page can do.
    """
    for name in scenario.pages():
        own = scenario.participants[name]
        for key, file in (("page", own.page), ("script", own.script)):
            if file is not None and "://" not in file and not Path(file).is_file():
                raise BadInput(f"participants.{name}.{key}: there is no file `{file}`")
        if own.script is not None:
            if scenario.browser_of(name).name != "chromium":
                raise UnsupportedScenario(f"participants.{name}.script", "drives Chromium only; got Firefox")
            runner_of(Path(own.script))
    for node, settings in user_servers(scenario).items():
        if not Path(settings.directory).is_dir():
            raise BadInput(f"servers.{node}.directory: there is no directory `{settings.directory}`")


def runner_of(script: Path) -> str:
    """The program that runs a script.

    Raises:
        BackendUnavailable: Node.js is not installed.
    """
    if script.suffix == ".py":
        return sys.executable
    node = shutil.which("node")
    if node is None:
        raise BackendUnavailable(
            f"`node`, which runs {script.name}, is not installed", hint="apt-get install nodejs"
        )
    return node
