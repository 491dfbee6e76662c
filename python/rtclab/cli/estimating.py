"""``rtclab scenario from``: estimates a scenario from a call."""

from __future__ import annotations

import sys
from pathlib import Path

from rtclab.cli import tables
from rtclab.errors import BadInput
from rtclab.estimate import Estimate
from rtclab.estimate.estimate import check_new
from rtclab.estimate.scenario_text import scenario_name


def files_to_write(
    source: Path, toml: Path | None, page: Path | None, *, report: bool
) -> tuple[Path, Path | None]:
    """The scenario and the page to write.

    Raises:
        BadInput: one of them exists already, or both are the same file.
    """
    scenario = toml or Path(f"{scenario_name(source.resolve().name)}.toml")
    page = page or (scenario.with_suffix(".html") if report else None)
    if page is not None and page.resolve() == scenario.resolve():
        raise BadInput(
            f"{scenario}: both the scenario and the page would be written there",
            hint="the name of a scenario ends in .toml; --page names the page",
        )
    for option, file in (("--toml", scenario), ("--page", page)):
        if file is not None:
            check_new(file, option)
    return scenario, page


def show_estimate(made: Estimate) -> None:
    """Prints the notes on the call, and each number of the scenario with how sure it is."""
    for note in made.call.notes:
        print(f"note: {note}", file=sys.stderr)
    table = tables.new_table(*tables.whole("of", "number"), "value (95 % interval)", "known", "note")
    for one in made.findings:
        known = "" if one.grade in ("at least", "unknown") else one.grade
        table.add_row(one.of, one.name, one.words, known, one.note)
    tables.print_table(table)
