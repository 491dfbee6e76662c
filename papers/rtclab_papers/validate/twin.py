"""Runs conditions live and simulated, and keeps what was measured."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

from rtclab.errors import OtherSchema
from rtclab.experiment import STORE_FILE
from rtclab.processes import cores, process_pool
from rtclab.trace import SCHEMA, only_writer
from rtclab_papers.validate.campaign import LiveRun, live_run
from rtclab_papers.validate.chance import chance_file, chances, read_chances, write_chances
from rtclab_papers.validate.conditions import Condition
from rtclab_papers.validate.kept import Kept, read_kept, write_kept
from rtclab_papers.validate.outcomes import SIMULATED_REPEATS, Live, Outcome, live_of, simulated_of

Say = Callable[[str], None]


def outcomes(
    conditions: Sequence[Condition],
    file: Path,
    folder: Path,
    *,
    run_missing: bool,
    say: Say,
    repeats: int = SIMULATED_REPEATS,
) -> list[Outcome]:
    """Runs conditions on both backends and writes their rows to ``file`` as they come.

    First come the live calls, one after another, then the simulations, on all cores: they would disturb the
    calls. A live run is taken from ``folder``, or else its values from ``file``; if neither has it, it is
    run, or with ``run_missing`` false the condition is left out.

    Args:
        conditions: what to run.
        file: the rows.
        folder: directory of the live runs; each condition names its own in it.
        run_missing: run live calls that are missing.
        say: called with a line on each condition.
        repeats: simulated calls of each condition.

    Raises:
        BadInput: another process writes the file or the live runs.
    """
    for place in (file.parent, folder):
        place.mkdir(parents=True, exist_ok=True)
    with only_writer(file), only_writer(folder):
        kept = read_kept(file)
        for condition in conditions:
            place = folder / condition.folder
            _keep_live(condition, kept, place, run_missing=run_missing, say=say)
            write_kept(file, kept)
        known = [condition for condition in conditions if condition.name in kept]
        simulated = _simulate(known, kept, file, repeats, say)
        write_chances(chance_file(file), read_chances(chance_file(file)) | chances(simulated))
    return stored(known, file)


def stored(conditions: Sequence[Condition], file: Path) -> list[Outcome]:
    """The outcomes of the conditions that ``file`` has, without running anything."""
    kept = read_kept(file)
    found = [kept[one.name].outcome(one) for one in conditions if one.name in kept]
    return [one for one in found if one is not None]


def _keep_live(
    condition: Condition, kept: dict[str, Kept], folder: Path, *, run_missing: bool, say: Say
) -> None:
    """Puts the live side of a condition into ``kept``: of its run, which may be newer than what is there."""
    known = kept.get(condition.name)
    try:
        run = live_run(condition, folder, run_missing=run_missing and known is None, say=say)
    except OtherSchema:  # the file still has what was measured
        if known is None:
            raise
        run = None
    if run is not None:
        kept[condition.name] = Kept(condition.words, condition.group, _live(run))
    elif known is not None:
        kept[condition.name] = replace(known, condition=condition.words, group=condition.group)


def _live(found: LiveRun) -> Live:
    """The live side of a condition, from its run."""
    run, traces = found.run, found.run.traces
    live = live_of(traces, failed=len(run.repeats) - len(traces))
    written = (run.path / STORE_FILE).stat().st_mtime
    return replace(
        live,
        tries=found.tries,
        disturbed=found.disturbed,
        measured=datetime.fromtimestamp(written, UTC).date().isoformat(),
        schema=SCHEMA,
    )


def _simulate(
    conditions: Sequence[Condition], kept: dict[str, Kept], file: Path, repeats: int, say: Say
) -> list[Outcome]:
    """Simulates the conditions, adds what that gives to ``kept`` and the file, and returns it."""
    found: list[Outcome] = []
    if not conditions:
        return found
    with process_pool(cores()) as pool:
        for condition in conditions:
            simulated = simulated_of(condition.scenario, pool, repeats)
            kept[condition.name] = replace(kept[condition.name], simulated=simulated)
            write_kept(file, kept)
            outcome = Outcome(condition, kept[condition.name].live, simulated)
            found.append(outcome)
            say(f"{condition.scenario.name}: {words(outcome)}")
    return found


def words(outcome: Outcome) -> str:
    """The rates of a condition, and how many live values lie in the simulated intervals, as one line."""
    if not outcome.pairs:
        return "nothing to compare"
    rates = [f"{pair.flow} {pair.error:+.1%}" for pair in outcome.pairs if pair.metric == "receiving_rate"]
    covered = sum(pair.covered for pair in outcome.pairs)
    told = f"{covered} of {len(outcome.pairs)} live values in the simulated interval"
    return f"simulated rate against live: {', '.join(rates)}; {told}" if rates else told
