"""The fields of suites, from the models that read them."""

from __future__ import annotations

from markdown import code, one_line, table

from rtclab.arenas.suite import FIELDS as ARENA
from rtclab.gates.suite import FIELDS as SUITE
from rtclab.scenario.descriptions import descriptions
from rtclab.scenario.table import Table


def markdown() -> str:
    """A table of the fields of a gate's suite. Those that a suite and its scenarios share come first."""
    return _fields(SUITE)


def of_arenas() -> str:
    """A table of the fields of an arena's suite."""
    return _fields(ARENA)


def _fields(tables: list[tuple[str, type[Table], type[Table]]]) -> str:
    rows = [
        [code(f"{prefix}{name}"), one_line(descriptions(model)[name])]
        for prefix, model, shared in tables
        for name in model.model_fields
        if name not in shared.model_fields
    ]
    return table(["field", "meaning"], rows)
