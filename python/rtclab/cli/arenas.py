"""``rtclab arena``: runs controls in the cases of a suite, and prints which one to pick."""

from __future__ import annotations

import sys
from typing import Any

import polars as pl

from rtclab.arenas import Arena, arena
from rtclab.arenas.findings import comparisons, recommendations
from rtclab.arenas.page import answer, undecided
from rtclab.cli import tables
from rtclab.cli.running import EXIT_FAILED, EXIT_INTERRUPTED
from rtclab.experiment import Interrupted
from rtclab.phrases import count
from rtclab.trace import window_in_words


def arena_and_show(*, quiet: bool, as_csv: bool, as_json: bool, **options: Any) -> int:
    """Runs :func:`rtclab.arena` with options, prints what it found and returns the exit status."""
    try:
        found = arena(**options)
    except Interrupted as stopped:
        print(f"{stopped}; the same command continues", file=sys.stderr)
        return EXIT_INTERRUPTED
    if as_json:
        tables.print_json(_as_json(found))
    elif as_csv:
        sys.stdout.write(comparisons(found.values).write_csv())
    else:
        if not quiet:
            _show(found)
        print(found.page)
    return EXIT_FAILED if found.failed else 0


def _as_json(found: Arena) -> dict[str, Any]:
    controls = found.values.controls
    return {
        "run": str(found.path),
        "page": str(found.page),
        "window": found.window,
        "picks": [
            {
                "use": one.use.name,
                "pick": controls[one.winner.control] if one.winner and one.certain else None,
                "sentence": one.sentence(controls),
            }
            for one in recommendations(found.values)
        ],
        "comparisons": comparisons(found.values).to_dicts(),
        "failures": found.values.failures().to_dicts(),
        "pair_failures": _failed_pairs(found).select("first", "second", "repeat", "reason").to_dicts(),
        "notes": [{"control": name, "cases": cases, "note": note} for name, cases, note in found.notes],
    }


def _failed_pairs(found: Arena) -> pl.DataFrame:
    return found.pairs.filter(pl.col("status") != "finished")


def _show(found: Arena) -> None:
    if found.window is not None:
        left = f"; nothing is left of {', '.join(found.short_cases)}" if found.short_cases else ""
        print(f"{found.results.name}: measured {window_in_words(found.window)}{left}")
    controls = found.values.controls
    tables.print_text(answer(found).how)
    picks = [pick for pick in recommendations(found.values) if pick.certain]
    if picks:
        table = tables.new_table("when", *tables.whole("pick"), "how sure")
        for pick in picks:
            won = controls[pick.winner.control] if pick.winner else ""
            table.add_row(pick.use.when, won, pick.sentence(controls))
        print()
        tables.print_table(table)
    for sentence in undecided(found):
        tables.print_text(f"not decided: {sentence}", hanging=2)
    for control, cases, note in found.notes:
        print(f"{control}, {count(cases, 'case')}: {note}", file=sys.stderr)
    failures, pairs = found.values.failures(), _failed_pairs(found)
    for row in failures.iter_rows(named=True):
        print(f"failed: {row['control']} in {row['case']}: {row['reason']}", file=sys.stderr)
    for row in pairs.iter_rows(named=True):
        print(f"failed: {row['first']} beside {row['second']}: {row['reason']}", file=sys.stderr)
    if mend := tables.controls_of([*failures["reason"], *pairs["reason"]]):
        print(f"  hint: mend {' and '.join(mend)}, and give the same command again", file=sys.stderr)
