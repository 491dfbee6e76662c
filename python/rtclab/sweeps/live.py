"""Live points run one after another in this process; each is a run below the sweep, with all its traces."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from rtclab.backend import Backend
from rtclab.campaign import run_scenario
from rtclab.metrics import METRICS
from rtclab.sweeps.measure import Row, as_part, rows_of
from rtclab.sweeps.store import Store
from rtclab.trace import RUN_FILE, Run, subdirectories


def run_live(store: Store, backend: Backend, on_done: Callable[[int], None]) -> None:
    """Runs every point that is not finished, and those in which a repeat failed once more.

    ``on_done`` is called with the number of repeats of each point.

    Raises:
        KeyboardInterrupt: after Ctrl-C; finished repeats are kept.
        DiskFull: a result could not be kept.
    """
    plan = store.plan
    for point in range(plan.points):
        directory = store.point_directory(point)
        began = [Run(path) for path in subdirectories(directory) if (path / RUN_FILE).is_file()]
        run = run_scenario(
            plan.scenario_at(plan.indices(point)),
            backend,
            out=directory,
            repeats=plan.repeats,
            resume=began[0] if began else None,
        )
        store.add(point, as_part(_rows(point, run)))
        on_done(plan.repeats)
    store.merge()


def _rows(point: int, run: Run) -> Iterator[Row]:
    traces = {trace.manifest.repeat: trace for trace in run.traces}
    for outcome in run.repeats:
        yield from rows_of(point, outcome, traces.get(outcome.repeat), METRICS.values())
