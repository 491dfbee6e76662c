"""Tables and manifests of traces, from their schema."""

from __future__ import annotations

from dataclasses import is_dataclass
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin

from markdown import code, one_line, table
from pydantic import BaseModel

from rtclab.scenario.descriptions import descriptions
from rtclab.trace import TraceManifest
from rtclab.trace.columns import TABLES


def tables() -> str:
    """A section per table."""
    return "\n\n".join(
        f"### {name}\n\nA row is {about.row}.\n\n"
        + table(
            ["column", "type", "meaning"],
            [
                [code(column), str(kind.dtype) + "?" * kind.nullable, kind.meaning]
                for column, kind in about.columns.items()
            ],
        )
        for name, about in TABLES.items()
    )


def manifests() -> str:
    """A section for the manifest of a trace, and one for each kind of entry in it."""
    entries: dict[str, Any] = {}
    sections = [_section("`manifest.json`", TraceManifest, entries)]
    done: set[str] = set()
    while new := entries.keys() - done:
        for name in sorted(new, key=list(entries).index):
            done.add(name)
            sections.append(_section(f"{name}", entries[name], entries))
    return "\n\n".join(sections)


def _section(title: str, model: Any, entries: dict[str, Any]) -> str:
    fields, meanings = model.__pydantic_fields__, descriptions(model)
    rows = [
        [code(field.alias or name), _type(field.annotation, entries), one_line(meanings[name])]
        for name, field in fields.items()
    ]
    return f"### {title}\n\n{one_line((model.__doc__ or '').partition(chr(10))[0])}\n\n" + table(
        ["field", "type", "meaning"], rows
    )


def _type(annotation: Any, entries: dict[str, Any]) -> str:
    """A type in words; models among them are entered into ``entries``."""
    arguments = get_args(annotation)
    match get_origin(annotation):
        case None if annotation is Any:
            return "anything"
        case None if is_dataclass(annotation) or issubclass(annotation, BaseModel):
            entries[annotation.__name__] = annotation
            return f"[{annotation.__name__}](#{annotation.__name__.lower()})"
        case None:
            return {"str": "string", "int": "integer", "float": "number", "bool": "true or false"}[
                annotation.__name__
            ]
        case origin if origin in (Union, UnionType):
            inner = " or ".join(_type(one, entries) for one in arguments if one is not NoneType)
            return f"{inner}?" if NoneType in arguments else inner
        case origin if origin is Literal:
            return " or ".join(code(value) for value in arguments)
        case origin if origin is tuple:
            return f"array of {_type(arguments[0], entries)}"
        case origin if origin is dict:
            return f"{_type(arguments[1], entries)} by name"
    return _type(arguments[0], entries)  # Annotated
