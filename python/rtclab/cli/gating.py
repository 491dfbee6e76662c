"""``rtclab gate``: checks a suite, prints a table and writes the result in other forms."""

from __future__ import annotations

import sys
from pathlib import Path

from rtclab.cli import tables
from rtclab.cli.running import EXIT_FAILED
from rtclab.errors import BadInput
from rtclab.gates import GateResult, gate
from rtclab.gates.result import HEADINGS
from rtclab.trace import write_text


def gate_and_show(
    *,
    suite: Path,
    update_baseline: bool,
    reason: str | None,
    junit: Path | None,
    markdown: Path | None,
    page: Path | None,
    jobs: int | None,
    trust: bool,
    out: Path,
    quiet: bool,
    as_csv: bool,
    as_json: bool,
) -> int:
    """Runs a gate, writes the files that were asked for and shows its result; returns the exit status.

    With ``reason``, a new baseline is written instead of compared with.
    """
    if update_baseline != (reason is not None):
        raise BadInput(
            "--update-baseline and --reason: expected both or neither",
            hint="for example --update-baseline --reason 'frames are paced'",
        )
    result = gate(suite, update_baseline=reason, jobs=jobs, out=out, trust=trust)
    for file, text in ((junit, result.junit), (markdown, result.markdown)):
        if file is not None:
            file.parent.mkdir(parents=True, exist_ok=True)
            write_text(file, text())
    if page is not None:
        result.report(page)
    if as_json:
        tables.print_json(result.as_dict())
    elif not tables.print_rows(result.table(), as_csv=as_csv, as_json=False):
        _show(result, quiet=quiet)
    return 0 if result.passed else EXIT_FAILED


def _show(result: GateResult, *, quiet: bool) -> None:
    if not quiet:
        _show_checks(result)
    for sentence in result.sentences():
        print(sentence)
    print(f"{result.suite} {result.verdict()}")


def _show_checks(result: GateResult) -> None:
    table = tables.new_table(*tables.whole(*HEADINGS[:3]), *tables.right(*HEADINGS[3:7]), HEADINGS[7])
    previous = ""
    for line in result.lines:
        scenario, *cells = line.cells
        table.add_row("" if scenario == previous else scenario, *cells)
        previous = scenario
    tables.print_table(table)
    for note in result.notes:
        print(note, file=sys.stderr)
