"""What a scenario says of pages and servers of the user's own, as the session needs it."""

from __future__ import annotations

import shlex
import shutil
import sys
from pathlib import Path

from rtclab.backend.live.connections import Json
from rtclab.errors import BackendUnavailable, BadInput, UnsupportedScenario
from rtclab.scenario import Scenario


def user_pages(scenario: Scenario) -> dict[str, Json]:
    """By participant, ``page``, ``steps`` and ``script``. Times are in ns."""
    found = {}
    for name in scenario.pages():
        own = scenario.participants[name]
        steps = [
            {
                "at_ns": step.at.ns,
                "wait_for": step.wait_for,
                "click": step.click,
                "type": step.type,
                "into": step.into,
                "wait_ns": None if step.wait is None else step.wait.ns,
                "screenshot": step.screenshot,
                "timeout_ns": step.timeout.ns,
            }
            for step in own.steps
        ]
        found[name] = {"page": own.page, "steps": steps, "script": own.script}
    return found


def user_servers(scenario: Scenario) -> dict[str, Json]:
    """By node, ``command`` (its words), ``port`` and ``directory`` of each server that is a command."""
    return {
        name: {"command": words(name, server.command), "port": server.port, "directory": server.directory}
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
        if not Path(settings["directory"]).is_dir():
            raise BadInput(f"servers.{node}.directory: there is no directory `{settings['directory']}`")


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
