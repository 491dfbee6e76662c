"""Runs the points of a live sweep one after another in this process.

Each point is a run in the sweep's directory, with all its traces.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from rtclab.backend import Backend
from rtclab.campaign import run_scenario
from rtclab.metrics import METRICS, Metric
from rtclab.sweeps.measure import Row, as_part, rows_of
from rtclab.sweeps.store import Store
from rtclab.trace import RUN_FILE, Run, subdirectories


def run_live(store: Store, backend: Backend, on_done: Callable[[int], None]) -> None:
    """Runs the unfinished and failed repeats of every point.

    ``on_done`` is called after each point with its number of repeats.

    Raises:
        KeyboardInterrupt: Ctrl-C was pressed; finished repeats are kept.
        DiskFull: no disk space is left for a result.
    """
    plan, metrics = store.plan, [METRICS[name] for name in store.metrics]
    for point in range(plan.points):
        directory = store.point_directory(point)
        started = [Run(path) for path in subdirectories(directory) if (path / RUN_FILE).is_file()]
        run = run_scenario(
            plan.scenario_at(plan.indices(point)),
            backend,
            out=directory,
            repeats=plan.repeats,
            resume=started[0] if started else None,
        )
        store.add(point, as_part(_rows(point, run, metrics)))
        on_done(plan.repeats)
    store.merge()


def _rows(point: int, run: Run, metrics: Sequence[Metric]) -> Iterator[Row]:
    traces = {trace.manifest.repeat: trace for trace in run.traces}
    for outcome in run.repeats:
        yield from rows_of(point, outcome, traces.get(outcome.repeat), metrics)
