"""Runs the conditions: simulated with the control of their time, simulated as of today, and live."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from pathlib import Path

from rtclab.campaigns import Campaign, RowFile, items_of
from rtclab.fingerprint import code_digest
from rtclab.reproduce.today.conditions import Plan
from rtclab.reproduce.today.measured import measured
from rtclab.scenario import Scenario

THEN, SIM, LIVE = "then", "sim", "live"
"""The three campaigns, as the column ``backend`` of the rows names them."""


@dataclass(frozen=True)
class How:
    """Options of a campaign of today's browsers.

    Attributes:
        rows: the file of the rows.
        out: directory of the traces of live calls.
        repeats: live repeats, instead of the plan's.
        jobs: repeats at once, instead of what the machine allows.
        retry_failed: whether live repeats that failed earlier run again.
    """

    rows: RowFile
    out: Path
    repeats: int | None = None
    jobs: int | None = None
    retry_failed: bool = False


def campaigns(plan: Plan, how: How, *, live: bool) -> list[Campaign]:
    """The campaigns of a plan, in the order in which they run; simulated ones depend on rtclab's code."""
    chosen, version = plan.conditions, code_digest()[:8]
    then = [(name, Scenario.load(name)) for name in plan.scenarios]
    today = [(name, plan.today[name].scenario) for name in plan.scenarios]
    needs_then = {name: plan.need(name, today=False) for name in plan.scenarios}
    needs_today = {name: plan.need(name, today=True) for name in plan.scenarios}
    simulated = partial(measured, needs=needs_today, everything=False)
    found = [
        Campaign(
            items_of(then, chosen.then_repeats),
            "sim",
            how.rows,
            partial(measured, needs=needs_then, everything=False),
            version=version,
            label=THEN,
        ),
        Campaign(
            items_of(today, chosen.simulated_repeats), "sim", how.rows, simulated, version=version, label=SIM
        ),
    ]
    if live:
        found.append(
            Campaign(
                items_of(today, how.repeats or chosen.repeats),
                "live",
                how.rows,
                partial(measured, needs=needs_today, everything=True),
                jobs=how.jobs,
                traces=how.out,
                retry_failed=how.retry_failed,
                label=LIVE,
            )
        )
    return found
