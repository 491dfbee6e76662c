"""Runs random conditions live, one after another. A campaign can be interrupted and continued."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from rtclab.errors import TraceError
from rtclab.experiment import MAX_TRIES, Experiment, Results, disturbances
from rtclab.trace import Run
from rtclab_papers.validate.conditions import Condition


@dataclass(frozen=True)
class LiveRun:
    """The live run of a condition."""

    run: Run
    tries: int
    disturbed: str
    """How the machine disturbed it; empty if it did not."""


def live_run(
    condition: Condition, folder: Path, *, run_missing: bool, say: Callable[[str], None]
) -> LiveRun | None:
    """The live run of a condition, from ``folder`` if it is there.

    A run that the machine disturbed is repeated, at most ``MAX_TRIES`` times in all; the last one is kept.
    A call that does not connect, or fails, is a result.

    Args:
        condition: the condition.
        folder: directory of the live runs.
        run_missing: run the condition if there is no run yet; otherwise the result is None.
        say: called with a line on what happens.
    """
    for attempt in range(1, MAX_TRIES + 1):
        place = folder / f"{condition.scenario.name}-live-{attempt}"
        run = _finished(place)
        if run is None:
            if not run_missing:
                return None
            say(f"{condition.scenario.name}: {condition.words}")
            shutil.rmtree(place, ignore_errors=True)
            made = Experiment([condition.scenario], repeats=1, backend="live").run(out=folder, progress=False)
            if made.path != place:
                made.path.rename(place)
            run = Results(place).run
        disturbed = disturbance(run)
        if not disturbed or attempt == MAX_TRIES:
            return LiveRun(run, attempt, disturbed)
        say(f"{condition.scenario.name}: disturbed ({disturbed})")
    return None


def _finished(place: Path) -> Run | None:
    """The run in a directory if its only repeat has finished or its call has failed, otherwise None."""
    try:
        run = Results(place).run
    except TraceError:
        return None
    return run if any(repeat.about_the_call for repeat in run.repeats) else None


def disturbance(run: Run) -> str:
    """How the machine, rather than the network, disturbed a live run; empty if it did not."""
    return "; ".join(reason for trace in run.traces for reason in disturbances(trace))
