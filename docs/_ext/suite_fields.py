"""The fields of suites, from the models that read them."""

from __future__ import annotations

from markdown import code, one_line, table

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


def markdown() -> str:
    """A table of the fields. Those that a suite and its scenarios share come first."""
    rows = [
        [code(f"{prefix}{name}"), one_line(descriptions(model)[name])]
        for prefix, model, shared in TABLES
        for name in model.model_fields
        if name not in shared.model_fields
    ]
    return table(["field", "meaning"], rows)
