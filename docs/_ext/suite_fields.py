"""The fields of suites, from the models that read them."""

from __future__ import annotations

from markdown import code, one_line, table

from rtclab.arenas.suite import _ArenaFile, _CaseTable
from rtclab.gates.suite import Margin, _Common, _Scenario, _Suite
from rtclab.scenario.descriptions import descriptions
from rtclab.scenario.table import Table

TABLES: list[tuple[str, type[Table], type[Table]]] = [
    ("", _Common, Table),
    ("", _Suite, _Common),
    ("scenarios.NAME.", _Scenario, _Common),
    ("compare.METRIC.", Margin, Table),
]
"""Prefix of the fields, their table, and the table whose fields it shares."""


OF_ARENAS: list[tuple[str, type[Table], type[Table]]] = [
    ("", _ArenaFile, Table),
    ("cases.NAME.", _CaseTable, Table),
]
"""The same for the suites of an arena."""


def markdown() -> str:
    """A table of the fields of a gate's suite. Those that a suite and its scenarios share come first."""
    return _fields(TABLES)


def of_arenas() -> str:
    """A table of the fields of an arena's suite."""
    return _fields(OF_ARENAS)


def _fields(tables: list[tuple[str, type[Table], type[Table]]]) -> str:
    rows = [
        [code(f"{prefix}{name}"), one_line(descriptions(model)[name])]
        for prefix, model, shared in tables
        for name in model.model_fields
        if name not in shared.model_fields
    ]
    return table(["field", "meaning"], rows)
