"""``rtclab gate``: prints the result of a suite."""

from __future__ import annotations

import sys

from rich.table import Table
from rich.text import Text

from rtclab.cli import tables
from rtclab.gates import GateResult
from rtclab.gates.outcome import HEADINGS, CheckRow

LEFT_OUT = ("allowed", "worst flow", "before", "change")
"""Columns that a narrow terminal has no room for; the first ones go first."""


def show_result(result: GateResult, *, quiet: bool) -> None:
    """Prints the verdict and a sentence for each failing check; without ``quiet``, also a table of all."""
    if not quiet:
        _show_checks(result)
    for note in result.notes:
        print(note, file=sys.stderr)
    for sentence in result.sentences():
        print(sentence)
    print(f"{result.suite} {result.verdict()}")


def _show_checks(result: GateResult) -> None:
    """Prints a row for each check, with the columns that fit; the names of others follow."""
    table = _table(result.lines)
    shown = [*HEADINGS]
    for heading in LEFT_OUT:
        if tables.fits(table):
            break
        shown.remove(heading)
        table = tables.part(_table(result.lines), [HEADINGS.index(name) for name in shown])
    tables.print_table(table)
    if left_out := [name for name in HEADINGS if name not in shown]:
        print(f"the terminal is too narrow for: {', '.join(left_out)}; --page and --json have all\n")


def _table(lines: list[CheckRow]) -> Table:
    table = tables.new_table(
        *tables.whole(*HEADINGS[:3]), *tables.right(*HEADINGS[3:7]), *tables.whole(HEADINGS[7])
    )
    previous = ""
    for line in lines:
        scenario, *cells, verdict = line.cells
        table.add_row("" if scenario == previous else scenario, *cells, Text(verdict, _style(line)))
        previous = scenario
    return table


def _style(line: CheckRow) -> str:
    if line.failing:
        return "bold red"
    return {"undecided": "yellow", "better": "green"}.get(line.worst.verdict, "")
