"""``rtclab gate``: checks a suite, prints a table and writes the result in other forms."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path

from rtclab.cli import tables
from rtclab.cli.running import EXIT_FAILED
from rtclab.gates import GateResult, gate
from rtclab.gates.result import HEADINGS
from rtclab.trace import write_text


@dataclass(frozen=True)
class Files:
    """The files to write, None for none."""

    junit: Path | None
    markdown: Path | None
    page: Path | None

    def write(self, result: GateResult) -> None:
        """Writes the files; directories are made."""
        for file, text in ((self.junit, result.junit), (self.markdown, result.markdown)):
            if file is not None:
                file.parent.mkdir(parents=True, exist_ok=True)
                write_text(file, text())
        if self.page is not None:
            result.report(self.page)


def gate_and_show(
    suite: Path,
    files: Files,
    reason: str | None,
    begin: str | None,
    end: str | None,
    jobs: int | None,
    out: Path,
    *,
    as_json: bool,
    trust: bool,
) -> int:
    """Runs a gate and shows its result; returns the exit status.

    ``reason`` is the reason for a new baseline, None to compare with the one that exists.
    """
    result = gate(suite, begin=begin, end=end, update_baseline=reason, jobs=jobs, out=out, trust=trust)
    files.write(result)
    if as_json:
        tables.print_json(result.as_dict())
    else:
        _show(result)
    return 0 if result.passed else EXIT_FAILED


def _show(result: GateResult) -> None:
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
