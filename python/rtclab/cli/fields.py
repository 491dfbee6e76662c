"""``rtclab schema --fields``: the fields of scenarios and suites, and the units of values, to be read."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Literal

from rtclab.arenas.suite import FIELDS as ARENA
from rtclab.cli import tables
from rtclab.gates.suite import FIELDS as SUITE
from rtclab.scenario.descriptions import descriptions
from rtclab.scenario.reference import QUANTITIES, scenario_fields
from rtclab.scenario.table import Table

Kind = Literal["scenario", "units", "suite", "arena"]
Entry = tuple[str, str, str]
"""A name, what it may be, and what it means."""


def show_fields(kind: Kind) -> None:
    """Prints every field of a kind of file, or the units of values."""
    for name, values, meaning in _ENTRIES[kind]():
        print(f"{name}: {values}" if values else name)
        tables.print_text(" ".join(meaning.replace("``", "`").split()), indent=4)


def _scenario() -> Iterator[Entry]:
    for path, values, default, meaning in scenario_fields():
        usual = f"; default {default}" if default not in ("", "required") else "; required" if default else ""
        yield path, re.sub(r"\\([][])", r"\1", values) + usual, meaning


def _of_tables(listed: list[tuple[str, type[Table], type[Table]]]) -> Iterator[Entry]:
    for prefix, model, shared in listed:
        for name in model.model_fields:
            if name not in shared.model_fields:
                yield f"{prefix}{name}", "", descriptions(model)[name]


_ENTRIES: dict[Kind, Callable[[], Iterator[Entry]]] = {
    "scenario": _scenario,
    "units": lambda: (
        (kind.noun, ", ".join(kind.units), f'for example "{kind.example}"') for kind in QUANTITIES
    ),
    "suite": lambda: _of_tables(SUITE),
    "arena": lambda: _of_tables(ARENA),
}
