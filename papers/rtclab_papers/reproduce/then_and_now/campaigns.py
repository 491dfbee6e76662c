"""Runs the conditions: simulated as of their time, simulated as of 2026, and live."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from rtclab.backend import backend
from rtclab.experiment import Condition, digest_of
from rtclab.fingerprint import code_digest
from rtclab.scenario import Scenario
from rtclab_papers.campaigns import Campaign, Key, Record, RowFile
from rtclab_papers.reproduce.measures import MEASURING
from rtclab_papers.reproduce.then_and_now.conditions import Plan
from rtclab_papers.reproduce.then_and_now.row_values import More, measured

THEN, SIM, LIVE = "then", "sim", "live"
"""The three campaigns, as the column ``backend`` of the rows names them."""
FOLDERS = {THEN: "then", SIM: "2026", LIVE: "live"}
"""The directory of the experiment of each campaign."""


def campaigns(plan: Plan, rows: RowFile, folder: Path, *, jobs: int | None = None) -> list[Campaign]:
    """The simulated campaigns of a plan, in the order in which they run: the past, and 2026.

    Simulated repeats run again if rtclab's code has changed, and all if the papers need other numbers.

    Args:
        plan: what is run.
        rows: the file of the rows.
        folder: directory of the experiments.
        jobs: number of processes that simulate, by default one per core.
    """
    then = _campaign(plan, rows, folder, THEN, plan.conditions.then_repeats, "none")
    sim = _campaign(plan, rows, folder, SIM, plan.conditions.simulated_repeats, "compared")
    return [replace(then, jobs=jobs), replace(sim, jobs=jobs)]


def live_campaign(
    plan: Plan, rows: RowFile, folder: Path, *, repeats: int | None = None, retry_failed: bool = False
) -> Campaign:
    """The live campaign of a plan, with its own number of repeats by default.

    With ``retry_failed``, repeats that failed earlier run again.
    """
    count = repeats or plan.conditions.repeats
    return replace(_campaign(plan, rows, folder, LIVE, count, "live"), retry_failed=retry_failed)


def _campaign(plan: Plan, rows: RowFile, folder: Path, label: str, repeats: int, more: More) -> Campaign:
    """A campaign. Rows depend on the measures besides the scenario, and simulated ones on the code."""
    code = "" if label == LIVE else code_digest((*MEASURING, Path(__file__).with_name("row_values.py")))
    needs = {name: plan.need(name, today=label != THEN) for name in plan.scenarios}
    return Campaign(
        {
            name: Condition(scenario, range(repeats), needs[name].names(more))
            for name, scenario in scenarios(plan, label).items()
        },
        backend("live" if label == LIVE else "sim"),
        rows,
        folder / FOLDERS[label],
        measured,
        {name: hashlib.sha256(f"{code} {need}".encode()).hexdigest()[:8] for name, need in needs.items()},
        label,
    )


def scenarios(plan: Plan, campaign: str) -> dict[str, Scenario]:
    """The scenarios of a campaign by the names of their conditions."""
    if campaign == THEN:
        return {name: Scenario.load(name) for name in plan.scenarios}
    return {name: plan.today[name].scenario for name in plan.scenarios}


def current(plan: Plan, records: Mapping[Key, Record]) -> dict[Key, Record]:
    """The records of scenarios as they are now, including simulations of an older rtclab."""
    digests = {
        (campaign, name): digest_of(scenario)
        for campaign in FOLDERS
        for name, scenario in scenarios(plan, campaign).items()
    }
    return {
        key: record
        for key, record in records.items()
        if record.digest.partition("-")[0] == digests.get((key.backend, key.condition))
    }
