"""Why checks fail: the first sentence of `rtclab why` about the flow that a check is about."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from rtclab.gates.checks import Check
from rtclab.gates.outcome import lines_of
from rtclab.report.shown_flows import main_flows
from rtclab.report.why import why, worst_first
from rtclab.trace import Run


def with_causes(checks: Sequence[Check], run_of: Callable[[str], Run | None]) -> list[Check]:
    """The checks; of each limit or comparison that fails, the worst one with its cause.

    A check of the whole run is about the flow whose video was frozen longest. ``run_of`` gives the run of a
    scenario with its traces, or None.
    """
    worst = [line.worst for line in lines_of(checks) if line.failing]
    causes = {id(check): cause for check in worst if (cause := _cause(check, run_of(check.scenario)))}
    return [replace(check, cause=causes[id(check)]) if id(check) in causes else check for check in checks]


def _cause(check: Check, run: Run | None) -> str:
    """The first sentence about the flow of a check; empty if it is not known, or nothing was measured."""
    if check.new is None or run is None or not run.traces:
        return ""
    flows = [check.flow] if check.flow in run.flows else worst_first(run, main_flows(run))[:1]
    accounts = why(run, flows).accounts if flows else []
    return accounts[0].sentences[0] if accounts else ""
