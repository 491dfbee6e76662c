"""Runs the conditions: simulated as of their time, simulated as of 2026, and live."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from rtclab.fingerprint import code_digest
from rtclab.scenario import Scenario
from rtclab_papers.campaigns import Campaign, Item, Key, Record, RowFile, items_of
from rtclab_papers.reproduce.measures import MEASURING
from rtclab_papers.reproduce.today.conditions import Plan
from rtclab_papers.reproduce.today.measured import More, Need, measured

THEN, SIM, LIVE = "then", "sim", "live"
"""The three campaigns, as the column ``backend`` of the rows names them."""


@dataclass(frozen=True)
class How:
    """Options of a campaign of ``rtclab reproduce --backend live``.

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
    """The campaigns of a plan, in the order in which they run: the past and 2026 simulated, and live.

    Simulated repeats run again if rtclab's code has changed, and all if the papers need other numbers.
    """
    chosen, code = plan.conditions, code_digest((*MEASURING, Path(__file__).with_name("measured.py")))
    needs = {
        today: {name: plan.need(name, today=today) for name in plan.scenarios} for today in (False, True)
    }
    then = [(name, Scenario.load(name)) for name in plan.scenarios]
    today = [(name, plan.today[name].scenario) for name in plan.scenarios]
    simulated: list[tuple[str, list[tuple[str, Scenario]], int, More]] = [
        (THEN, then, chosen.then_repeats, "none"),
        (SIM, today, chosen.simulated_repeats, "compared"),
    ]
    found = [
        Campaign(
            items_of(scenarios, repeats),
            "sim",
            how.rows,
            partial(measured, needs=needs[label == SIM], more=more),
            versions=_versions(needs[label == SIM], code),
            label=label,
        )
        for label, scenarios, repeats, more in simulated
    ]
    if live:
        calls = Campaign(
            items_of(today, how.repeats or chosen.repeats),
            "live",
            how.rows,
            partial(measured, needs=needs[True], more="live"),
            jobs=how.jobs,
            traces=how.out,
            versions=_versions(needs[True]),
            retry_failed=how.retry_failed,
            label=LIVE,
        )
        found.append(calls)
    return found


def _versions(needs: Mapping[str, Need], code: str = "") -> dict[str, str]:
    """By condition, what its rows depend on besides the scenario: the measures and the code."""
    return {name: hashlib.sha256(f"{code} {need}".encode()).hexdigest()[:8] for name, need in needs.items()}


def current(plan: Plan, records: Mapping[Key, Record]) -> dict[Key, Record]:
    """The records of scenarios as they are now, including simulations of an older rtclab."""
    digests = {(THEN, name): Item(name, Scenario.load(name), 0).digest for name in plan.scenarios}
    for name in plan.scenarios:
        digests[SIM, name] = digests[LIVE, name] = Item(name, plan.today[name].scenario, 0).digest
    return {
        key: record
        for key, record in records.items()
        if record.digest.partition("-")[0] == digests.get((key.backend, key.condition))
    }
