"""Finds a scenario by name or path, reads it, and applies changes from the command line."""

from __future__ import annotations

import tomllib
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

from rtclab.errors import BadInput, Problem, ScenarioError
from rtclab.scenario import layers
from rtclab.scenario.layers import is_profile
from rtclab.scenario.model import Scenario
from rtclab.scenario.table import closest

_NO_NAME = Problem(
    "name",
    "missing; a file without a name is a profile, for others to extend",
    hint="give it a name, or run a scenario that extends it",
)
SHIPPED = Path(__file__).resolve().parent.parent / "scenarios"


@cache
def shipped() -> dict[str, Path]:
    """The scenarios that come with rtclab, by name: ``first-call``, ``rfc8867/5.1`` …; no profiles."""
    files = sorted(SHIPPED.rglob("*.toml"), key=lambda file: (len(file.relative_to(SHIPPED).parts), file))
    return {_shipped_name(file): file for file in files if not is_profile(tomllib.loads(file.read_text()))}


def load(name_or_path: str | Path, overrides: Sequence[str] | dict[str, object] = ()) -> Scenario:
    """See :meth:`Scenario.load`."""
    file, origin = _find(name_or_path)
    merged = layers.read(file, origin)
    changes = overrides if isinstance(overrides, dict) else dict(map(_split_override, overrides))
    for field, value in changes.items():
        if field.split(".")[:2] == ["calls", "0"]:
            # Left out, there is one call of everybody; it can be changed all the same.
            merged.data.setdefault("calls", [{}])
        _set(merged.data, field, value)
    if is_profile(merged.data):
        raise ScenarioError(origin, [_NO_NAME])
    try:
        return Scenario.read(merged.data, origin, context={"directory": file.parent})
    except ScenarioError as error:
        raise merged.blamed(error) from None


def _shipped_name(file: Path) -> str:
    return file.relative_to(SHIPPED).as_posix().removesuffix(".toml")


def _find(name_or_path: str | Path) -> tuple[Path, str]:
    text = str(name_or_path)
    file = SHIPPED / f"{text}.toml"
    if file.is_file():
        return file, f"{text}.toml"
    if Path(text).is_file():
        return Path(text), text
    raise BadInput(
        f"no scenario `{text}`: neither shipped nor a file",
        hint=closest(text, shipped()) or "`rtclab list` shows the shipped ones",
    )


def _split_override(text: str) -> tuple[str, object]:
    field, equals, value = text.partition("=")
    if not (equals and all(key.strip() for key in field.split("."))):
        raise BadInput(
            f"--set: cannot read `{text}`; expected path.to.field=value",
            hint="for example --set 'link.up.capacity=2 Mbit/s'",
        )
    try:
        return field.strip(), tomllib.loads(f"value = {value}")["value"]
    except tomllib.TOMLDecodeError:
        # Not a TOML value, so the text itself: `--set duration=20s` needs no quotes.
        return field.strip(), value.strip()


def _set(data: dict[str, Any], field: str, value: object) -> None:
    """Sets ``a.b.0.c`` in nested tables and arrays; missing tables are made."""
    *parents, last = field.split(".")
    place: Any = data
    for depth, key in enumerate(parents, start=1):
        place = _element(place, key, field) if isinstance(place, list) else place.setdefault(key, {})
        if not isinstance(place, dict | list):
            here = ".".join(parents[:depth])
            raise BadInput(
                f"--set: {field}: {here} is `{place}`, not a table",
                hint=f"set {here} itself, for example to an inline table in braces",
            )
    if isinstance(place, list):
        _element(place, last, field)
        place[int(last)] = value
    else:
        place[last] = value


def _element(array: list[Any], key: str, field: str) -> Any:
    if key.isdecimal() and int(key) < len(array):
        return array[int(key)]
    raise BadInput(f"--set: {field}: `{key}` is no element; expected 0 to {len(array) - 1}")
