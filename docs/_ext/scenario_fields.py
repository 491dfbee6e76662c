"""The fields of scenarios and the units of their values, from the models that read them."""

from __future__ import annotations

from markdown import code, one_line, paragraphs, table
from pydantic.fields import FieldInfo

from rtclab.scenario.descriptions import descriptions
from rtclab.scenario.reference import (
    QUANTITIES,
    Place,
    default_in_words,
    own_fields,
    places,
    values_in_words,
)
from rtclab.scenario.table import Table


def markdown() -> str:
    """A section per table, tables of the top level first."""
    return "\n\n".join(_section(place) for place in places())


def units() -> str:
    """A table of the quantities."""
    return table(
        ["quantity", "units", "example"],
        [[kind.noun, ", ".join(map(code, kind.units)), code(f'"{kind.example}"')] for kind in QUANTITIES],
    )


def _section(place: Place) -> str:
    others = ", ".join(map(code, place.paths[1:]))
    base = place.model.__base__
    extends = base.model_fields and f"It also has every field of a [path](#{_anchor(base)})."
    return "\n\n".join(
        filter(
            None,
            [
                f"({_anchor(place.model)})=\n## {place.title(code)}",
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
    return [
        code(about.alias or name),
        values_in_words(about.annotation, about.metadata, code, _link),
        default_in_words(about, code),
        one_line(descriptions(place.model)[name]),
    ]


def _link(text: str, model: type[Table]) -> str:
    return f"[{text}](#{_anchor(model)})"


def _anchor(model: type) -> str:
    return f"scenario-{model.__name__.lower()}"
