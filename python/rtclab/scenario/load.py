"""Finds a scenario by name or path, reads it, and applies changes from the command line."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path, PurePath
from typing import Any

from rtclab import plugins
from rtclab.arguments import items
from rtclab.errors import BadInput, Problem, ScenarioError
from rtclab.scenario import layers
from rtclab.scenario.layers import PROFILE, SHIPPED, Change, Layered, shipped_file, split_fields
from rtclab.scenario.table import closest

_ONLY_EXTENDED = Problem(
    PROFILE,
    "a profile is only extended by others",
    hint="run a scenario that extends it, or remove this line",
)
IN_PYTHON = "set"
"""The origin, in errors, of changes that were passed as a dict."""
Changes = Mapping[str, object] | Sequence[str | Change] | str
"""Changes of fields: ``{"link.up.capacity": "2 Mbit/s"}``, ``["link.up.capacity=2 Mbit/s"]``, or one
such text."""


@cache
def shipped() -> dict[str, Path]:
    """The files of the shipped scenarios by name (``rfc8867/5.1``), without profiles.

    They come with rtclab, and with other distributions that add scenarios.
    """
    named: dict[PurePath, Path] = {}
    for directory in (*plugins.scenario_directories()[::-1], SHIPPED):
        named |= {file.relative_to(directory): file for file in directory.rglob("*.toml")}
    names = sorted(named, key=lambda name: (len(name.parts), name))
    files = {name.as_posix().removesuffix(".toml"): named[name] for name in names}
    return {name: file for name, file in files.items() if not layers.parsed(file, str(file)).get(PROFILE)}


def is_shipped(name: str) -> bool:
    """Whether a shipped scenario has this name, which is known without reading all the others."""
    file = shipped_file(name)
    return file is not None and not layers.parsed(file, str(file)).get(PROFILE)


def load(name_or_path: str | Path, overrides: Changes = ()) -> Layered:
    """Reads a scenario's files and applies ``overrides``, without validation; see :meth:`Scenario.load`.

    Raises:
        BadInput: there is no such scenario, or a change names something that does not exist.
        ScenarioError: a file cannot be read, or is a profile.
    """
    file, origin, name = _find(name_or_path)
    layered = _apply(layers.read(file, origin), overrides)
    if layered.data.pop(PROFILE, False):
        raise ScenarioError(origin, [_ONLY_EXTENDED])
    layered.data.setdefault("name", name)
    return layered


def changed(data: dict[str, Any], origin: str, overrides: Changes) -> Layered:
    """Applies ``overrides`` to a scenario's tables, without validation. Errors begin with ``origin``.

    Raises:
        BadInput: a change names something that does not exist.
    """
    return _apply(Layered(data, dict.fromkeys(data, origin), origin), overrides)


def _apply(layered: Layered, overrides: Changes) -> Layered:
    for change in as_changes(overrides):
        layered.apply(change)
    return layered


def as_changes(overrides: Changes) -> list[Change]:
    """The changes as a list, one for each field. They may be a dict, texts of ``--set``, or :class:`Change`.

    Raises:
        BadInput: a change cannot be read.
    """
    if isinstance(overrides, Mapping):
        changes = [Change(field, value, IN_PYTHON) for field, value in overrides.items()]
    else:
        expected = 'changes such as {"link.up.capacity": "2 Mbit/s"}'
        given = items(IN_PYTHON, overrides, (str, Change), expected, may_be_empty=True)
        changes = [change if isinstance(change, Change) else Change.parse(change) for change in given]
    return [replace(change, field=name) for change in changes for name in split_fields(change.field)]


def as_time(time: str | float | None) -> str | None:
    """A time as scenarios write it, from such a text or from a number of seconds, rounded to nanoseconds."""
    if time is None or isinstance(time, str):
        return time
    return f"{time:.9f}".rstrip("0").rstrip(".") + " s"


def shipped_or_in(directory: Path, name: str) -> str | Path:
    """The name of a shipped scenario, or else the file of that name in a directory.

    Raises:
        BadInput: there is neither.
    """
    if name in shipped():
        return name
    if (directory / name).is_file():
        return directory / name
    raise BadInput(
        f"no scenario `{name}`: neither a shipped scenario nor a file in `{directory}`",
        hint=closest(name, shipped()) or "`rtclab list` shows the shipped scenarios",
    )


def _find(name_or_path: str | Path) -> tuple[Path, str, str]:
    """The file of a scenario, the file's name in errors, and the scenario's name if the file says none."""
    text = str(name_or_path)
    if file := shipped_file(text):
        return file, f"{text}.toml", text.replace("/", "-")
    if (own := Path(text)).is_file():
        return own, text, own.stem
    raise BadInput(
        f"no scenario `{text}`: neither a shipped scenario nor a file",
        hint=closest(text, shipped()) or "`rtclab list` shows the shipped scenarios",
    )
