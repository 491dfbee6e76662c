"""The fields of scenarios and the units of their values, from the models that read them."""

from __future__ import annotations

from dataclasses import dataclass, field
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from annotated_types import Ge, Le, MinLen
from markdown import code, one_line, paragraphs, table
from pydantic import Tag
from pydantic.fields import FieldInfo

from rtclab.scenario import Bitrate, Duration, PixelRate, Probability, QueueLimit, Ratio, Size
from rtclab.scenario.descriptions import descriptions
from rtclab.scenario.model import ScenarioTables
from rtclab.scenario.table import Table, one_of
from rtclab.scenario.units import Quantity

NAME = "NAME"
QUANTITIES: list[type[Quantity]] = [Duration, Bitrate, Size, Ratio, Probability, QueueLimit, PixelRate]


@dataclass
class Place:
    """A table of a scenario and everywhere it may stand; ``variant`` is the key that identifies it there."""

    model: type[Table]
    variant: str
    paths: list[str] = field(default_factory=list)

    @property
    def title(self) -> str:
        """The heading."""
        if not self.paths[0]:
            return "Top level"
        return code(self.paths[0]) + (f" with {code(self.variant)}" if self.variant else "")


def markdown() -> str:
    """A section per table, tables of the top level first."""
    return "\n\n".join(_section(place) for place in places())


def units() -> str:
    """A table of the quantities."""
    return table(
        ["quantity", "units", "example"],
        [
            [kind.noun, ", ".join(map(code, kind.units)), code(f'"{kind.example}"')]
            for kind in QUANTITIES
            if kind is not Probability  # has the noun and the units of a ratio
        ],
    )


def places() -> list[Place]:
    """Every table, in the order in which they are reached from the top."""
    found: dict[type[Table], Place] = {ScenarioTables: Place(ScenarioTables, "", [""])}
    for place in (waiting := list(found.values())):
        for name, about in own_fields(place.model).items():
            path = _join(place.paths[0], about.alias or name)
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


def _section(place: Place) -> str:
    others = ", ".join(map(code, place.paths[1:]))
    base = place.model.__base__
    extends = base is not Table and f"It also has every field of a [path](#{_anchor(base)})."
    return "\n\n".join(
        filter(
            None,
            [
                f"({_anchor(place.model)})=\n## {place.title}",
                paragraphs(place.model.__doc__),
                extends,
                f"The same at {others}." if others else "",
                table(
                    ["field", "value", "default", "meaning"],
                    [_row(place, name, about) for name, about in own_fields(place.model).items()],
                ),
            ],
        )
    )


def _row(place: Place, name: str, about: FieldInfo) -> list[str]:
    path = _join(place.paths[0], about.alias or name)
    return [
        code(path),
        _values(about.annotation, about.metadata),
        _default(about),
        one_line(descriptions(place.model)[name]),
    ]


def _default(about: FieldInfo) -> str:
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


def _values(annotation: Any, metadata: list[Any]) -> str:
    """What a field may be set to, in words."""
    if annotation is Any:
        return "any value"
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        return _values(arguments[0], list(arguments[1:]))
    if origin in (Union, UnionType):
        return " or ".join(_values(one, []) for one in arguments if one is not NoneType)
    if origin is Literal:
        return one_of([code("false" if value is False else f'"{value}"') for value in arguments])
    if origin is dict:
        return f"{_values(arguments[1], [])} by name"
    if origin is list:
        least = next((about.min_length for about in metadata if isinstance(about, MinLen)), 0)
        return f"array of {_values(arguments[0], [])}" + (f", {least} or more" if least > 1 else "")
    if origin is tuple:
        return rf"\[{', '.join(_values(one, []) for one in arguments)}\]"
    if issubclass(annotation, Table):
        keys = [about.tag.strip("<>") for about in metadata if isinstance(about, Tag)]
        which = "".join(f" with {code(key)}" for key in keys if key not in ("", "table"))
        return f"[table{which}](#{_anchor(annotation)})"
    if issubclass(annotation, Probability):
        return "probability"
    if issubclass(annotation, Quantity):
        return annotation.noun
    words = {bool: "`true` or `false`", int: "whole number", float: "number", str: "string"}[annotation]
    return words + _bounds(metadata)


def _bounds(metadata: list[Any]) -> str:
    metadata = [part for about in metadata for part in getattr(about, "metadata", [about])]
    least = next((about.ge for about in metadata if isinstance(about, Ge)), None)
    most = next((about.le for about in metadata if isinstance(about, Le)), None)
    if most is not None:
        return f", {least} to {most}"
    return "" if least is None else f", {least} or more"


def _anchor(model: type) -> str:
    return f"scenario-{model.__name__.lower()}"


def _join(path: str, key: str) -> str:
    return f"{path}.{key}" if path else key
