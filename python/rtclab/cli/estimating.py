"""``rtclab scenario from``: estimates a scenario from a call."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from rtclab.cli import tables
from rtclab.cli.importing import names_of
from rtclab.cli.sdp import sdp_text
from rtclab.errors import BadInput
from rtclab.estimate import Estimate
from rtclab.lab import scenario_from
from rtclab.progress import busy


@dataclass(frozen=True)
class EstimateRequest:
    """The options of ``rtclab scenario from``."""

    calls: Sequence[str]
    flow: str | None
    names: str | None
    sdp: Path | None
    same_clock: bool
    repeat: int | None
    scenario: Path | None
    page: Path | None
    simulations: int
    out: Path
    as_json: bool


def estimate_and_show(request: EstimateRequest, *, report: bool) -> None:
    """Estimates the scenario, writes it and its page, and prints its numbers.

    Raises:
        BadInput: the call cannot be read or an option is invalid; nothing was written.
    """
    if request.scenario is not None and request.scenario.exists():
        raise BadInput(f"--scenario {request.scenario}: exists already", hint="give another name")
    calls = request.calls[0] if len(request.calls) == 1 else request.calls
    names, sdp = names_of(request.names), sdp_text(request.sdp)
    with busy("estimating"):
        made = scenario_from(
            calls,
            flow=request.flow,
            names=names,
            sdp=sdp,
            same_clock=request.same_clock,
            repeat=request.repeat,
            out=request.out,
        )
    scenario = made.save(request.scenario or Path(f"{made.scenario.name}.toml"))
    page = request.page or (scenario.with_suffix(".html") if report else None)
    if page is not None:
        with busy("simulating"):
            made.report(page, request.simulations)
    if request.as_json:
        tables.print_json(
            {"file": str(scenario), "page": None if page is None else str(page), **made.as_dict()}
        )
        return
    _show(made)
    print(f"{scenario}: `rtclab run {scenario}` simulates it")
    if page is not None:
        print(page)


def _show(made: Estimate) -> None:
    for note in made.call.notes:
        print(f"note: {note}", file=sys.stderr)
    table = tables.new_table(*tables.whole("of", "number"), "value (95 % interval)", "known", "note")
    for one in made.findings:
        known = "" if one.grade in ("at least", "unknown") else one.grade
        table.add_row(one.of, one.name, one.words, known, one.note)
    tables.print_table(table)
