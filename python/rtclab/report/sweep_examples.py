"""The command that makes a simulated example of a condition, with traces and plots over time."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any

from rtclab.errors import RtclabError
from rtclab.experiment.fields import Field
from rtclab.scenario import Scenario
from rtclab.scenario.ignored import LIVE, SIM
from rtclab.scenario.layers import split_fields
from rtclab.trace import Run

FILE = "SCENARIO.toml"
"""Stands for the scenario's file, whose place no store keeps."""
NOT_SET = ("name", "title", "source", "repeats", "record")
"""Fields of a scenario that a command need not set, because the example does not depend on them."""
PARTICIPANTS = "participants."
CONTROL = "control"
"""The varied field that ``--control`` sets."""
MOST_SET = 12
"""A scenario that differs in more fields from the one that comes with rtclab is not the same one."""


def example_command(run: Run, fields: Sequence[Field], texts: Mapping[str, str]) -> str:
    """The command that runs one repeat of a condition of a sweep, with its first seed.

    Args:
        run: the condition.
        fields: the varied fields.
        texts: the value of each field, as it was given.
    """
    name = str(run.scenario["name"])
    changed = _changes(run.scenario, fields)
    options = ["rtclab", "run", name if changed is not None else FILE]
    for field in fields:
        option = "--control" if field.name == CONTROL else "--set"
        value = texts[field.name]
        options += [option, value if field.name == CONTROL else f"{field.name}={value}"]
    if changed is None:
        changed = {"duration": run.scenario["duration"], "seed": run.scenario["seed"]}
    for path, value in changed.items():
        short = path in ("duration", "seed")
        text = str(value).replace(" ", "") if short else _text(value)
        options += [f"--{path}", text] if short else ["--set", f"{path}={text}"]
    return shlex.join([*options, "--repeats", "1"])


def can_be_set(run: Run, fields: Sequence[Field]) -> bool:
    """Whether a command can set the varied fields: they are of the scenario, and not of the user's own."""
    return run.backend in (SIM, LIVE) and all(
        name == CONTROL or _has(run.scenario, name.split("."))
        for field in fields
        for name in split_fields(field.name)
    )


def _has(table: Any, keys: Sequence[str]) -> bool:
    """Whether a table of a scenario has a field; what is below a value that is not set is unknown."""
    if not keys or table is None:
        return True
    if isinstance(table, list):
        return keys[0].isdigit() and int(keys[0]) < len(table) and _has(table[int(keys[0])], keys[1:])
    if not isinstance(table, dict):
        return False
    return keys[0] in table and _has(table[keys[0]], keys[1:])


def needs_file(command: str) -> bool:
    """Whether a command names a file that its reader must fill in."""
    return FILE in command


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _changes(scenario: Mapping[str, Any], fields: Sequence[Field]) -> dict[str, Any] | None:
    """The fields beside the varied ones in which a scenario differs from the one with its name.

    None if no scenario with its name comes with rtclab, or if a command cannot set what differs.
    """
    shipped = _shipped(str(scenario["name"]))
    if shipped is None:
        return None
    varied = [name for field in fields for name in split_fields(field.name)]
    found = {}
    for path, value, usual in _differences(scenario, _with_defaults(shipped, scenario)):
        if path in NOT_SET or path.endswith("digest") or any(_within(path, name) for name in varied):
            continue
        if value is None or isinstance(value, dict | list) or isinstance(usual, list):
            return None
        found[path] = value
    return found if len(found) <= MOST_SET else None


@lru_cache(maxsize=1)
def _shipped(name: str) -> dict[str, Any] | None:
    """The scenario with a name that comes with rtclab; None if there is none."""
    try:
        return Scenario.load(name).model_dump(mode="json")
    except RtclabError:
        return None


def _with_defaults(shipped: Mapping[str, Any], scenario: Mapping[str, Any]) -> dict[str, Any]:
    """The shipped scenario; what its participants do not set is as in the tables for everybody."""
    everybody = {
        who: {key: scenario.get(key) if value is None else value for key, value in own.items()}
        for who, own in shipped["participants"].items()
    }
    return {**shipped, "participants": everybody}


def _differences(one: Any, other: Any, path: str = "") -> Iterator[tuple[str, Any, Any]]:
    """The path of each leaf that differs, with both values."""
    if one is None and path.startswith(PARTICIPANTS):
        return  # as in the table for everybody
    if isinstance(one, dict) and (isinstance(other, dict) or other is None):
        for key in one:
            yield from _differences(one[key], (other or {}).get(key), f"{path}.{key}".lstrip("."))
    elif one != other:
        yield path, one, other


def _within(path: str, field: str) -> bool:
    """Whether a path is of a varied field: the field itself, a part of it, or a table that it sets."""
    if field == CONTROL:
        return "congestion_control" in path.split(".")
    return path == field or path.startswith(f"{field}.") or field.startswith(f"{path}.")
