"""``rtclab arena``: runs controls in the cases of a suite, and prints which one to pick."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from rtclab.arenas import Arena, arena
from rtclab.arenas.findings import picks
from rtclab.cli import tables
from rtclab.cli.running import EXIT_FAILED, EXIT_INTERRUPTED
from rtclab.experiment import Interrupted


def arena_and_show(
    controls: Sequence[str],
    *,
    suite: str,
    backend: str,
    repeats: int | None,
    jobs: int | None,
    into: Path | None,
    weights: str | None,
    traces: bool,
    trust: bool,
    quiet: bool,
) -> int:
    """Runs an arena and prints the picks and the path of the page; returns the exit status."""
    try:
        found = arena(
            controls,
            suite=suite,
            backend=backend,
            repeats=repeats,
            jobs=jobs,
            into=into,
            weights=weights,
            traces=traces,
            trust=trust,
        )
    except Interrupted as stopped:
        print(f"{stopped}; the same command continues", file=sys.stderr)
        return EXIT_INTERRUPTED
    if not quiet:
        _show(found)
    print(found.page)
    return EXIT_FAILED if found.failed else 0


def _show(found: Arena) -> None:
    table = tables.new_table(*tables.whole("when", "pick"), "how sure")
    controls = found.values.controls
    for pick in picks(found.values):
        won = controls[pick.winner.control] if pick.winner and pick.certain else "none"
        table.add_row(pick.use.when, won, pick.sentence(controls))
    tables.print_table(table)
    for control, cases, note in found.notes:
        print(f"{control}, {tables.count(cases, 'case')}: {note}", file=sys.stderr)
    failures = found.values.failures()
    for row in failures.iter_rows(named=True):
        print(f"failed: {row['control']} in {row['case']}: {row['reason']}", file=sys.stderr)
    pairs = found.pairs.filter(found.pairs["status"] != "finished")
    for row in pairs.iter_rows(named=True):
        print(f"failed: {row['first']} beside {row['second']}: {row['reason']}", file=sys.stderr)
    if mend := tables.controls_of([*failures["reason"], *pairs["reason"]]):
        print(f"  hint: mend {' and '.join(mend)}, and give the same command again", file=sys.stderr)
