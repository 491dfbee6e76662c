"""Runs conditions live and simulated, and keeps what was measured."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

from rtclab.errors import OtherSchema
from rtclab.experiment import MAX_TRIES, Condition, Experiment, Results, find_store
from rtclab.processes import cores, process_pool
from rtclab.trace import SCHEMA, Repeat, only_writer
from rtclab_papers.campaigns import LIVE, SIM
from rtclab_papers.validate.conditions import CallCondition
from rtclab_papers.validate.outcome_files import read_outcomes, write_chances, write_outcomes
from rtclab_papers.validate.outcomes import (
    COMPARED,
    SIMULATED_REPEATS,
    ConditionOutcome,
    Live,
    Simulated,
    counted,
    live_of,
    median_errors_by_chance,
    simulated_of,
)

Say = Callable[[str], None]


def outcomes(
    conditions: Sequence[CallCondition],
    file: Path,
    folder: Path,
    *,
    run_missing: bool,
    say: Say,
    repeats: int = SIMULATED_REPEATS,
    leave_out: bool = False,
) -> list[ConditionOutcome]:
    """Runs conditions on both backends and writes their rows to ``file``.

    First come the live calls, one after another, then the simulations, on all cores: they would disturb the
    calls. A call that does not connect, or fails, is a result. The values of a live call are taken from
    ``folder``, or else from ``file``; if neither has it, it is run, or with ``run_missing`` false the
    condition is left out.

    Args:
        conditions: what to run.
        file: the rows.
        folder: directory of the live and the simulated calls.
        run_missing: run live calls that are missing.
        say: called with a line on each condition.
        repeats: simulated calls of each condition.
        leave_out: compute the errors by chance of the conditions that are ``counted``, not of all.

    Raises:
        BadInput: another process writes the file or the calls.
    """
    for place in (file.parent, folder):
        place.mkdir(parents=True, exist_ok=True)
    with only_writer(file), only_writer(folder):
        kept = read_outcomes(file, conditions)
        if run_missing:
            _call([one for one in conditions if one.name not in kept], folder / LIVE, say)
        kept |= {one.condition.name: one for one in _called(conditions, folder / LIVE)}
        write_outcomes(file, [*kept.values()])
        known = [condition for condition in conditions if condition.name in kept]
        simulated = simulate(known, folder / SIM, repeats)
        found = [ConditionOutcome(one, kept[one.name].live, simulated[one.name]) for one in known]
        write_outcomes(file, found)
        for outcome in found:
            say(f"{outcome.condition.scenario.name}: {words(outcome)}")
        write_chances(file, median_errors_by_chance(counted(found) if leave_out else found))
    return stored(known, file)


def stored(conditions: Sequence[CallCondition], file: Path) -> list[ConditionOutcome]:
    """The outcomes of the conditions that ``file`` has, without running anything."""
    return [one for one in read_outcomes(file, conditions).values() if one.simulated.calls]


def _call(conditions: Sequence[CallCondition], folder: Path, say: Say) -> None:
    """Runs the live call of each condition that has none, and again if the machine disturbed it."""
    if not conditions:
        return
    told = {one.name: f"{one.scenario.name}: {one.words}" for one in conditions}

    def ended(name: str, outcome: Repeat) -> None:
        disturbed = f" (disturbed: {outcome.disturbed})" if outcome.disturbed else ""
        say(f"{told[name]}: {outcome.status}{disturbed}")

    experiment = Experiment({one.name: one.scenario for one in conditions}, repeats=1, backend=LIVE)
    experiment.run(into=folder, tries=MAX_TRIES, progress=False, ended=ended)


def _called(conditions: Sequence[CallCondition], folder: Path) -> Iterator[ConditionOutcome]:
    """The live side of each condition whose call is in ``folder``."""
    results: Mapping[str, Results] | Results = Results(folder) if find_store(folder, folder) else {}
    for condition in conditions:
        if condition.name in results and (live := _live(results[condition.name])):
            yield ConditionOutcome(condition, live)


def _live(results: Results) -> Live | None:
    """The live side of a condition; None if its call has no outcome or a trace of another rtclab."""
    outcome = next(iter(results.repeats), None)
    if outcome is None or not outcome.about_the_call:
        return None
    try:
        live = live_of(results)
    except OtherSchema:  # the file still has what was measured
        return None
    place = results.repeat_path(outcome.repeat)
    ended_s = (place if place.exists() else results.path).stat().st_mtime
    return replace(
        live,
        tries=outcome.attempt,
        disturbed=outcome.disturbed,
        measured=datetime.fromtimestamp(ended_s, UTC).date().isoformat(),
        schema=SCHEMA,
    )


def simulate(conditions: Sequence[CallCondition], folder: Path, repeats: int) -> Mapping[str, Simulated]:
    """Simulates conditions on all cores; what this rtclab has simulated in ``folder`` is not run again.

    It is run again if other metrics were measured then.
    """
    if not conditions:
        return {}
    own = {one.name: Condition(one.scenario, measures=COMPARED) for one in conditions}
    experiment = Experiment(own, repeats=repeats, traces=False, name="twin")
    with process_pool(cores()) as pool:
        results = experiment.run(into=folder, executor=pool, renew=True)
    return simulated_of(results)


def words(outcome: ConditionOutcome) -> str:
    """The rates of a condition, and how many live values lie in the simulated intervals, as one line."""
    if not outcome.pairs:
        return "nothing to compare"
    rates = [f"{pair.flow} {pair.error:+.1%}" for pair in outcome.pairs if pair.metric == "receiving_rate"]
    covered = sum(pair.covered for pair in outcome.pairs)
    told = f"{covered} of {len(outcome.pairs)} live values in the simulated interval"
    return f"simulated rate against live: {', '.join(rates)}; {told}" if rates else told
