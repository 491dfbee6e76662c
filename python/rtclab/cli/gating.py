"""``rtclab gate``: prints the result of a suite."""

from __future__ import annotations

import sys

from rtclab.cli import tables
from rtclab.gates import GateResult
from rtclab.gates.result import HEADINGS


def show_result(result: GateResult, *, quiet: bool) -> None:
    """Prints the verdict and a sentence for each failing check; without ``quiet``, also a table of all."""
    if not quiet:
        table = tables.new_table(*tables.whole(*HEADINGS[:3]), *tables.right(*HEADINGS[3:7]), HEADINGS[7])
        previous = ""
        for line in result.lines:
            scenario, *cells = line.cells
            table.add_row("" if scenario == previous else scenario, *cells)
            previous = scenario
        tables.print_table(table)
    for note in result.notes:
        print(note, file=sys.stderr)
    for sentence in result.sentences():
        print(sentence)
    print(f"{result.suite} {result.verdict()}")
