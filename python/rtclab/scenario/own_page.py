"""Pages, programs and scripts of the user's own in live calls."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated, Any, Self

from pydantic import BeforeValidator, Field, model_validator

from rtclab.errors import FieldError
from rtclab.scenario.files import FileName
from rtclab.scenario.table import Table
from rtclab.scenario.units import Duration

ADDRESS = re.compile(r"https?://[^\s/]+\S*")
SCRIPTS = {".py": "Python", ".js": "Node.js", ".mjs": "Node.js"}
"""The program that runs a script, by the end of its name."""


def absolute(name: object) -> object:
    """The absolute path of a file, so that it is found from any directory."""
    if not isinstance(name, str):
        return name
    if not name:
        raise FieldError("is empty; expected the name of a file")
    return str(name.path if isinstance(name, FileName) else Path(name).absolute())


def _address_or_file(value: object) -> object:
    """The address of a page as it is, or the absolute path of its file."""
    if not isinstance(value, str) or ADDRESS.fullmatch(value):
        return str(value) if isinstance(value, str) else value
    if "://" in value:
        raise FieldError(f"cannot open `{value}`; expected http://…, https://… or the name of a file")
    return absolute(value)


def _script(value: object) -> object:
    name = absolute(value)
    if isinstance(name, str) and Path(name).suffix not in SCRIPTS:
        raise FieldError(f"cannot run `{value}`; expected a file that ends in {', '.join(SCRIPTS)}")
    return name


PageAddress = Annotated[str, BeforeValidator(_address_or_file)]
ScriptFile = Annotated[str, BeforeValidator(_script)]
Directory = Annotated[str, BeforeValidator(absolute)]
Port = Annotated[int, Field(strict=True, ge=1, le=65535)]


class Step(Table):
    """One step on a page of the user's own: exactly one of ``wait_for``, ``click``, ``type``, ``wait`` and
    ``screenshot``. Elements are named by CSS selectors; shadow trees and frames of the same origin are
    searched too."""

    at: Duration = Duration(0)
    """Earliest time of the step, counted from the begin of the run."""
    wait_for: str | None = None
    """Wait until this element is visible."""
    click: str | None = None
    """Click this element as soon as it is visible."""
    type: str | None = None
    """Type this text, as with a keyboard; a line break is the Enter key."""
    into: str | None = None
    """Element to click before typing; by default the text goes to the element that has the focus."""
    wait: Duration | None = None
    """Wait for this time."""
    screenshot: str | None = None
    """Take a picture of the page; it is kept beside the trace as ``PARTICIPANT-NAME.png``."""
    timeout: Duration = Duration(10_000_000_000)
    """How long to wait for the element. If it does not appear, the call fails."""

    @model_validator(mode="after")
    def _one_verb(self) -> Self:
        verbs = ("wait_for", "click", "type", "wait", "screenshot")
        given = [verb for verb in verbs if getattr(self, verb) is not None]
        if len(given) != 1:
            raise FieldError(
                f"does {' and '.join(given) or 'nothing'}; expected one of {', '.join(verbs)} in each step"
            )
        if self.into is not None and self.type is None:
            raise FieldError("is for `type` only", key="into")
        if self.screenshot is not None and re.fullmatch(r"[A-Za-z0-9_-]+", self.screenshot) is None:
            raise FieldError(
                f"`{self.screenshot}` cannot name a file; expected letters, digits, `-` and `_`",
                key="screenshot",
            )
        return self


def with_directory(data: Any) -> Any:
    """A server's table where a server with a command also has its ``directory``."""
    if not isinstance(data, dict) or "directory" in data:
        return data
    command = data.get("command")
    if not isinstance(command, str):
        return data
    directory = command.directory if isinstance(command, FileName) else Path()
    return data | {"command": str(command), "directory": str(directory.absolute())}
