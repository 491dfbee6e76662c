"""Merges profiles, a scenario file and changes into one scenario, and records the origin of each value."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable
from copy import deepcopy
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from rtclab import plugins
from rtclab.errors import BadInput, Problem, ScenarioError
from rtclab.scenario.files import located
from rtclab.scenario.merge import NAMED, Owners, merged, owners_of_parts
from rtclab.scenario.own_control import parse_control
from rtclab.scenario.participant import INHERITED, INHERITED_BY_SERVERS
from rtclab.scenario.path import TRACES
from rtclab.scenario.table import closest, one_of
from rtclab.scenario.toml_text import read_value, toml_text

EXTENDS = "extends"
PROFILE = "profile"
"""Marks a file that only others extend."""
JOINED = "+"
"""Joins the names of fields that get the same value."""
CONTROL = "control"
"""Short form of the table ``congestion_control``: ``NAME`` or ``NAME,OPTION=VALUE,…``."""
SHIPPED = Path(__file__).resolve().parent.parent / "scenarios"
"""The directory of the scenarios that come with rtclab."""


def split_fields(text: str) -> list[str]:
    """The fields that a text names: one, or several that are joined by ``+``."""
    return [name.strip() for name in text.split(JOINED)]


def is_field(text: str) -> bool:
    """Whether a text has the form of a field, or of several that are joined."""
    return all(key.strip() for name in split_fields(text) for key in name.split("."))


@dataclass(frozen=True)
class Change:
    """One field that is set on the command line or in Python. Errors name ``origin``, the option.

    Several fields that get the same value are joined: ``link.up.delay+link.down.delay``.
    """

    field: str
    value: object
    origin: str = "--set"

    @classmethod
    def parse(cls, text: str) -> Change:
        """Parses a value of ``--set`` such as ``link.up.capacity=2 Mbit/s``.

        Raises:
            BadInput: there is no ``=``, or the field or a part of it is empty.
        """
        field, equals, value = text.partition("=")
        if not (equals and is_field(field)):
            raise BadInput(
                f"--set: cannot read `{text}`; expected path.to.field=value",
                hint="for example --set 'link.up.capacity=2 Mbit/s'",
            )
        # A value that is not TOML is text, so that `--set duration=20s` needs no quotes.
        return cls(field.strip(), read_value(value))


@dataclass
class Layered:
    """A scenario merged from files and options: its ``data``, and the owner of each part.

    ``origin`` is the name of the scenario file in errors.
    """

    data: dict[str, Any]
    owners: Owners
    origin: str
    files: tuple[Path, ...] = ()
    """The file of the scenario, and the files that it extends."""

    def attributed(self, error: ScenarioError) -> ScenarioError:
        """The error, with each problem attributed to the file or option that sets the field.

        A problem of the scenario's own tables is not repeated for every participant who inherits it.
        """
        found = {(problem.field, problem.message) for problem in error.problems}
        return ScenarioError(
            self.origin,
            [
                self._attributed(problem)
                for problem in error.problems
                if (_inherited_from(problem.field), problem.message) not in found
            ],
        )

    def _attributed(self, problem: Problem) -> Problem:
        origin = self._owner(problem.field)
        # An argument of the field's own name, such as `duration`, already says where.
        return replace(problem, origin=origin, field="" if origin == problem.field else problem.field)

    def _owner(self, field: str) -> str:
        owner: Owners | str = self.owners
        for key in field.split("."):
            if isinstance(owner, dict):
                owner = owner.get(key, self.origin)
        origins = set(_origins(owner))
        return origins.pop() if len(origins) == 1 else self.origin

    def apply(self, change: Change) -> None:
        """Sets a field such as ``a.b.0.c`` in nested tables and arrays. Missing tables are created.

        If the change names a file, it is looked for in the current directory. Content of the file that the
        same table named before is forgotten.

        Raises:
            BadInput: the field has an index that the array lacks, lies below a value that is neither a table
                nor an array, or names a participant, server, bottleneck or traffic that does not exist.
        """
        *parents, last = change.field.split(".")
        if last == CONTROL and isinstance(change.value, str):
            last, value = "congestion_control", parse_control(change.value)
            change = Change(".".join([*parents, last]), value, change.origin)
        if parents[:1] == ["calls"]:
            # Without calls there is one call of everybody. It can be changed too.
            self.data.setdefault("calls", [{}])
        place: Any = self.data
        owners = self.owners
        for depth, key in enumerate(parents, start=1):
            element = _element(place, key, parents[: depth - 1], change)
            inner = place[element] if isinstance(place, list) else place.setdefault(element, {})
            if not isinstance(inner, dict | list):
                here = ".".join(parents[:depth])
                raise BadInput(
                    f"{change.origin}: {change.field}: {here} is `{toml_text(inner)}`, not a table",
                    hint=f"set {here} itself, for example to an inline table in braces",
                )
            owners[key] = owners_of_parts(owners.get(key, {}), inner)
            place, owners = inner, owners[key]
        place[_element(place, last, parents, change)] = located({last: change.value}, Path())[last]
        if last == "trace" and parents and parents[-1] in TRACES:
            place.pop(TRACES[parents[-1]][0], None)  # the content of the file that was named before
        if parents[-1:] == ["congestion_control"] and last == "name":
            place.pop("digest", None)  # of the control that was named before
        owners[last] = change.origin


def parsed(file: Path, origin: str) -> dict[str, Any]:
    """The data of one TOML file, with a table for each of the joined names (``[participants."ben+carl"]``).

    Raises:
        ScenarioError: the file cannot be read, is not TOML, or gives a name twice.
    """
    try:
        # Some editors write a byte order mark.
        data = tomllib.loads(file.read_text(encoding="utf-8-sig"))
    except tomllib.TOMLDecodeError as error:
        raise ScenarioError(origin, [Problem("", f"not TOML: {error}")]) from None
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "not a text file"
        raise ScenarioError(origin, [Problem("", f"cannot be read: {reason}")]) from None
    for table in NAMED:
        if isinstance(joined := data.get(table), dict):
            data[table] = {}
            for key, value in joined.items():
                for name in split_fields(key):
                    if name in data[table]:
                        raise ScenarioError(origin, [Problem(f"{table}.{name}", "given twice")])
                    data[table][name] = deepcopy(value)
    return data


def read(file: Path, origin: str, above: tuple[Path, ...] = ()) -> Layered:
    """Reads a file and the profiles that it extends.

    Args:
        file: the file.
        origin: its name in errors.
        above: the files that extend it.

    Raises:
        ScenarioError: a file cannot be read, is missing, or extends itself.
    """
    data = _without_short_forms(located(parsed(file, origin), file.parent), origin)
    extended = data.pop(EXTENDS, None)
    if extended is None:
        return Layered(data, dict.fromkeys(data, origin), origin, (file,))
    if not isinstance(extended, str):
        raise _wrong(
            origin,
            "expected a shipped scenario, or a file in this directory without `.toml`; "
            f"got `{toml_text(extended)}`",
        )
    profile, its_origin = _extended(extended, file, origin)
    if profile.resolve() in (*above, file.resolve()):
        raise _wrong(origin, f"`{extended}` extends this file in turn; expected no cycle")
    below = read(profile, its_origin, (*above, file.resolve()))
    for of_its_file in (PROFILE, "name"):
        below.data.pop(of_its_file, None)
    whole, owners = merged(below.data, below.owners, data, origin)
    return Layered(whole, owners, origin, (file, *below.files))


def _without_short_forms(data: dict[str, Any], origin: str) -> dict[str, Any]:
    """A scenario's tables in which every :data:`CONTROL` is a table ``congestion_control``."""
    changed = dict(data)
    if isinstance(text := changed.pop(CONTROL, None), str):
        if "congestion_control" in data:
            raise ScenarioError(origin, [Problem(CONTROL, "cannot be combined with `congestion_control`")])
        try:
            changed["congestion_control"] = parse_control(text)
        except BadInput as error:
            raise ScenarioError(origin, [Problem(CONTROL, error.message)]) from None
    elif text is not None:
        raise ScenarioError(
            origin, [Problem(CONTROL, f"expected the name of a congestion control; got `{toml_text(text)}`")]
        )
    for key in ("participants", "servers"):
        if isinstance(tables := changed.get(key), dict):
            changed[key] = {
                name: _without_short_forms(table, origin) if isinstance(table, dict) else table
                for name, table in tables.items()
            }
    return changed


def _inherited_from(field: str) -> str | None:
    """The scenario's field from which a participant's or server's is inherited; None for other fields."""
    table, _, rest = field.partition(".")
    own = rest.partition(".")[2]
    inherited = {"participants": INHERITED, "servers": INHERITED_BY_SERVERS}.get(table, ())
    return own if own.partition(".")[0] in inherited else None


def _origins(owners: Owners | str) -> Iterable[str]:
    if isinstance(owners, str):
        return [owners]
    return (origin for part in owners.values() for origin in _origins(part))


def _element(place: dict[str, Any] | list[Any], key: str, parents: list[str], change: Change) -> Any:
    """The key or index of the changed element in ``place``, the table or array at ``parents``."""
    if isinstance(place, list):
        if key.isdecimal() and int(key) < len(place):
            return int(key)
        expected = "0, the only one" if len(place) == 1 else f"0 to {len(place) - 1}"
        raise BadInput(
            f"{change.origin}: {change.field}: no element `{key}` in {'.'.join(parents)}; expected {expected}"
        )
    if parents in [[table] for table in NAMED] and key not in place:
        known = f"expected {one_of([f'`{name}`' for name in place])}" if place else "it is empty"
        raise BadInput(
            f"{change.origin}: {change.field}: no `{key}` in {parents[0]}; {known}",
            hint=closest(key, place) or "add a new one in a TOML file",
        )
    return key


def shipped_file(name: str) -> Path | None:
    """The file of a shipped scenario or profile; None if there is none. Files of rtclab itself come first."""
    own = SHIPPED / f"{name}.toml"
    if own.is_file():
        return own
    others = (directory / f"{name}.toml" for directory in plugins.scenario_directories())
    return next(filter(Path.is_file, others), None)


def _extended(name: str, file: Path, origin: str) -> tuple[Path, str]:
    """The file that ``file`` extends by this name, and the file's name in errors.

    A file beside it comes before a shipped one.
    """
    beside = file.parent / f"{name}.toml"
    if beside.is_file():
        return beside, (Path(origin).parent / f"{name}.toml").as_posix()
    if shipped := shipped_file(name):
        return shipped, f"{name}.toml"
    without = name.removesuffix(".toml")
    raise _wrong(
        origin,
        f"no file `{name}.toml` in `{file.parent}`, and no shipped scenario `{name}`",
        hint=f"leave out `.toml`: write `{without}`"
        if without != name
        else "`rtclab list` lists the shipped scenarios; a path to a file is relative to this one",
    )


def _wrong(origin: str, message: str, hint: str | None = None) -> ScenarioError:
    return ScenarioError(origin, [Problem(EXTENDS, message, hint=hint)])
