"""Every field of a scenario, with what it may be set to, its default and its meaning."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from annotated_types import Ge, Le, MinLen
from pydantic import Tag
from pydantic.fields import FieldInfo

from rtclab.scenario.descriptions import descriptions
from rtclab.scenario.model import ScenarioTables
from rtclab.scenario.table import Table, one_of
from rtclab.scenario.units import (
    Bitrate,
    Duration,
    PixelRate,
    Probability,
    Quantity,
    QueueLimit,
    Ratio,
    Size,
)

Code = Callable[[object], str]
"""Writes a value as code."""
Link = Callable[[str, type[Table]], str]
"""Writes text that is about a table."""
NAME = "NAME"
QUANTITIES: list[type[Quantity]] = [Duration, Bitrate, Size, Ratio, QueueLimit, PixelRate]


def plain(value: object) -> str:
    """A value as plain text, where no markup is wanted."""
    return str(value)


def unlinked(text: str, _table: type[Table]) -> str:
    """The text without a link to the table."""
    return text


@dataclass
class Place:
    """A table of a scenario and everywhere it may stand; ``variant`` is the key that identifies it there."""

    model: type[Table]
    variant: str
    paths: list[str] = field(default_factory=list)

    def title(self, code: Code = plain) -> str:
        """The heading of the table in a reference: its first place, and its variant."""
        if not self.paths[0]:
            return "Top level"
        return code(self.paths[0]) + (f" with {code(self.variant)}" if self.variant else "")


def scenario_fields() -> Iterator[tuple[str, str, str, str]]:
    """Path, values, default and meaning of every field, beginning with the top level."""
    for place in places():
        meanings = descriptions(place.model)
        for name, about in own_fields(place.model).items():
            path = joined(place.paths[0], about.alias or name)
            values = values_in_words(about.annotation, about.metadata)
            yield path, values, default_in_words(about), meanings[name]


def places() -> list[Place]:
    """Every table, in the order in which they are reached from the top."""
    found: dict[type[Table], Place] = {ScenarioTables: Place(ScenarioTables, "", [""])}
    for place in (waiting := list(found.values())):
        for name, about in own_fields(place.model).items():
            path = joined(place.paths[0], about.alias or name)
            for model, variant, suffix in _tables_in(about.annotation):
                if model not in found:
                    found[model] = Place(model, variant)
                    waiting.append(found[model])
                found[model].paths.append(path + suffix)
    return waiting


def own_fields(model: type[Table]) -> dict[str, FieldInfo]:
    """The fields of a table, without fields of the table that it extends."""
    base = model.__base__
    known = base.model_fields if base and issubclass(base, Table) else {}
    return {name: about for name, about in model.model_fields.items() if name not in known}


def _tables_in(annotation: Any, variant: str = "", suffix: str = "") -> list[tuple[type[Table], str, str]]:
    """The tables that a field may hold: model, the key that identifies it, and what follows the path."""
    if isinstance(annotation, type) and issubclass(annotation, Table):
        return [(annotation, variant, suffix)]
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        tags = [about.tag.strip("<>") for about in arguments[1:] if isinstance(about, Tag)]
        key = next((tag for tag in tags if tag != "table"), variant)
        return _tables_in(arguments[0], key, suffix)
    if origin is dict:
        return _tables_in(arguments[1], variant, f".{NAME}")
    return [found for inner in arguments for found in _tables_in(inner, variant, suffix)]


def values_in_words(annotation: Any, metadata: list[Any], code: Code = plain, link: Link = unlinked) -> str:
    """What a field may be set to, in words.

    Args:
        annotation: the type of the field.
        metadata: what pydantic knows of it beside its type.
        code: writes a value as code.
        link: writes text that is about a table.
    """

    def inner(one: Any, about: list[Any]) -> str:
        return values_in_words(one, about, code, link)

    if annotation is Any:
        return "any value"
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        return inner(arguments[0], list(arguments[1:]))
    if origin in (Union, UnionType):
        return " or ".join(inner(one, []) for one in arguments if one is not NoneType)
    if origin is Literal:
        return one_of([code("false" if value is False else f'"{value}"') for value in arguments])
    if origin is dict:
        return f"{inner(arguments[1], [])} by name"
    if origin is list:
        least = next((about.min_length for about in metadata if isinstance(about, MinLen)), 0)
        return f"array of {inner(arguments[0], [])}" + (f", {least} or more" if least > 1 else "")
    if origin is tuple:
        return rf"\[{', '.join(inner(one, []) for one in arguments)}\]"
    if issubclass(annotation, Table):
        keys = [about.tag.strip("<>") for about in metadata if isinstance(about, Tag)]
        which = "".join(f" with {code(key)}" for key in keys if key not in ("", "table"))
        return link(f"table{which}", annotation)
    if issubclass(annotation, Probability):
        return "probability"
    if issubclass(annotation, Quantity):
        return str(annotation.noun)
    truth = f"{code('true')} or {code('false')}"
    words: dict[Any, str] = {bool: truth, int: "whole number", float: "number", str: "string"}
    return words[annotation] + _bounds(metadata)


def default_in_words(about: FieldInfo, code: Code = plain) -> str:
    """The default of a field; empty if it is nothing."""
    if about.is_required():
        return "required"
    extra = about.json_schema_extra
    if isinstance(extra, dict) and "default" in extra:
        return code(f'"{extra["default"]}"')
    match about.default:
        case None | Table() | [] | {} | "":
            return ""
        case bool() as switch:
            return code(str(switch).lower())
        case Quantity() | str() as text:
            return code(f'"{text}"')
    return code(about.default)


def _bounds(metadata: list[Any]) -> str:
    metadata = [part for about in metadata for part in getattr(about, "metadata", [about])]
    least = next((about.ge for about in metadata if isinstance(about, Ge)), None)
    most = next((about.le for about in metadata if isinstance(about, Le)), None)
    if most is not None:
        return f", {least} to {most}"
    return "" if least is None else f", {least} or more"


def joined(path: str, key: str) -> str:
    """The path of a key in the table with a path, which is empty for the top level."""
    return f"{path}.{key}" if path else key
