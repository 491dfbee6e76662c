"""Finds a scenario by name or path, reads it, and applies changes from the command line."""

from __future__ import annotations

import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rtclab.errors import BadInput, Problem, ScenarioError
from rtclab.scenario.model import Scenario
from rtclab.scenario.table import closest

SHIPPED = Path(__file__).resolve().parent.parent / "scenarios"


def shipped() -> dict[str, Path]:
    """The scenarios that come with rtclab, by name: ``first-call``, ``rfc8867/5.1`` …"""
    files = sorted(SHIPPED.rglob("*.toml"), key=lambda file: (len(file.relative_to(SHIPPED).parts), file))
    return {file.relative_to(SHIPPED).as_posix().removesuffix(".toml"): file for file in files}


def load(name_or_path: str | Path, overrides: Sequence[str] | dict[str, object] = ()) -> Scenario:
    """See :meth:`Scenario.load`."""
    file, origin = _find(name_or_path)
    try:
        data = tomllib.loads(file.read_text())
    except tomllib.TOMLDecodeError as error:
        raise ScenarioError(origin, [Problem("", f"not TOML: {error}")]) from None
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "not a text file"
        raise ScenarioError(origin, [Problem("", f"cannot be read: {reason}")]) from None
    changes = overrides if isinstance(overrides, dict) else dict(map(_split_override, overrides))
    for field, value in changes.items():
        _set(data, field, value)
    return Scenario.read(data, origin, context={"directory": file.parent})


def _find(name_or_path: str | Path) -> tuple[Path, str]:
    text = str(name_or_path)
    known = shipped()
    if text in known:
        return known[text], f"{text}.toml"
    if Path(text).is_file():
        return Path(text), text
    raise BadInput(
        f"no scenario `{text}`: neither shipped nor a file",
        hint=closest(text, known) or "`rtclab list` shows the shipped ones",
    )


def _split_override(text: str) -> tuple[str, object]:
    field, equals, value = text.partition("=")
    if not (equals and field.strip()):
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
