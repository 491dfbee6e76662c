"""A scenario file laid over the profile that it extends, table by table."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from rtclab.errors import Problem, ScenarioError

EXTENDS = "extends"

Owners = dict[str, Any]
"""For every key the file that it comes from, or for tables merged of several files their own owners."""


@dataclass(frozen=True)
class Layered:
    """What several files say together: ``data``, and which ``origin`` each part comes from."""

    data: dict[str, Any]
    owners: Owners
    origin: str

    def blamed(self, error: ScenarioError) -> ScenarioError:
        """The error with each problem put down to the file that has the wrong field."""
        problems = [replace(problem, origin=self._owner(problem.field)) for problem in error.problems]
        return ScenarioError(self.origin, problems)

    def _owner(self, field: str) -> str:
        owner: Owners | str = self.owners
        for key in field.split("."):
            if isinstance(owner, dict):
                owner = owner.get(key, self.origin)
        return self.origin if isinstance(owner, dict) else owner


def is_profile(data: dict[str, Any]) -> bool:
    """Whether a file holds what scenarios have in common rather than a scenario: it has no name."""
    return "name" not in data


def read(file: Path, origin: str) -> Layered:
    """Reads a file and, below it, the profile that its ``extends`` names; ``origin`` begins its errors.

    Raises:
        ScenarioError: a file cannot be read, is missing, or extends itself.
    """
    return _read(file, origin, above=())


def _read(file: Path, origin: str, above: tuple[Path, ...]) -> Layered:
    data = _parsed(file, origin)
    extended = data.pop(EXTENDS, None)
    if extended is None:
        return Layered(data, dict.fromkeys(data, origin), origin)
    if not isinstance(extended, str):
        raise _wrong(
            origin, f"expected the name of a file beside this one, without `.toml`; got `{extended}`"
        )
    profile = file.parent / f"{extended}.toml"
    if not profile.is_file():
        raise _wrong(origin, f"no file `{profile.name}` in `{profile.parent}`")
    if profile.resolve() in (*above, file.resolve()):
        raise _wrong(origin, f"`{extended}` extends this file in turn; expected an end")
    below = _read(profile, _beside(origin, extended), (*above, file.resolve()))
    merged, owners = _merged(below.data, below.owners, data, origin)
    return Layered(merged, owners, origin)


def _parsed(file: Path, origin: str) -> dict[str, Any]:
    try:
        return tomllib.loads(file.read_text())
    except tomllib.TOMLDecodeError as error:
        raise ScenarioError(origin, [Problem("", f"not TOML: {error}")]) from None
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "not a text file"
        raise ScenarioError(origin, [Problem("", f"cannot be read: {reason}")]) from None


def _merged(
    below: dict[str, Any], owners: Owners | str, above: dict[str, Any], origin: str
) -> tuple[dict[str, Any], Owners]:
    """``above`` laid over ``below``: tables key by key, everything else (arrays too) as a whole."""
    data = dict(below)
    whose: Owners = dict.fromkeys(below, owners) if isinstance(owners, str) else dict(owners)
    for key, value in above.items():
        lower = data.get(key)
        if isinstance(lower, dict) and isinstance(value, dict):
            data[key], whose[key] = _merged(lower, whose[key], value, origin)
        else:
            data[key], whose[key] = value, origin
    return data, whose


def _beside(origin: str, extended: str) -> str:
    """How a file is called in errors that stands in ``extends`` of another."""
    return (Path(origin).parent / f"{extended}.toml").as_posix()


def _wrong(origin: str, message: str) -> ScenarioError:
    return ScenarioError(origin, [Problem(EXTENDS, message)])
