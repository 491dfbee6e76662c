"""``rtclab scenario from``: estimates a scenario from a call."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from rtclab.cli import tables
from rtclab.cli.importing import names_of
from rtclab.cli.sdp import sdp_text
from rtclab.errors import BadInput, RtclabError
from rtclab.estimate import Estimate
from rtclab.estimate.estimate import check_new
from rtclab.estimate.scenario_text import scenario_name
from rtclab.experiment.store import find_store
from rtclab.lab import scenario_from
from rtclab.progress import busy

SIMULATIONS = 10
"""Number of simulations that a page shows beside the call, by default."""


def estimate_and_show(
    *,
    calls: Sequence[str],
    flow: str | None,
    names: str | None,
    sdp: Path | None,
    same_clock: bool,
    repeat: int | None,
    begin: str | None,
    end: str | None,
    toml: Path | None,
    page: Path | None,
    simulations: int | None,
    out: Path,
    no_report: bool,
    as_json: bool,
) -> None:
    """Estimates the scenario, writes it and its page, and prints its numbers.

    Raises:
        BadInput: the call cannot be read or an option is invalid; nothing was written.
    """
    if no_report and (page is not None or simulations is not None):
        raise BadInput("--no-report: the page is not written; expected neither --page nor --simulations")
    scenario, page = _files(find_store(calls[0], out) or Path(calls[0]), toml, page, report=not no_report)
    of_ends, text = names_of(names), sdp_text(sdp)
    with busy("estimating"):
        made = scenario_from(
            calls[0] if len(calls) == 1 else calls,
            flow=flow,
            names=of_ends,
            sdp=text,
            same_clock=same_clock,
            repeat=repeat,
            begin=begin,
            end=end,
            out=out,
        )
    if page is not None:
        with busy("simulating"):
            made.report(page, simulations or SIMULATIONS)
    try:
        made.save(scenario)
    except (OSError, RtclabError):
        if page is not None:
            page.unlink()
        raise
    if as_json:
        tables.print_json(
            {"file": str(scenario), "page": None if page is None else str(page), **made.as_dict()}
        )
        return
    _show(made)
    print(f"{scenario}: `rtclab run {scenario}` simulates it")
    if page is not None:
        print(page)


def _files(source: Path, toml: Path | None, page: Path | None, *, report: bool) -> tuple[Path, Path | None]:
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


def _show(made: Estimate) -> None:
    for note in made.call.notes:
        print(f"note: {note}", file=sys.stderr)
    table = tables.new_table(*tables.whole("of", "number"), "value (95 % interval)", "known", "note")
    for one in made.findings:
        known = "" if one.grade in ("at least", "unknown") else one.grade
        table.add_row(one.of, one.name, one.words, known, one.note)
    tables.print_table(table)
