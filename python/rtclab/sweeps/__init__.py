"""Sweeps: one scenario with every combination of some values, each point repeated, in one table.

docs/sweeps.md says how fields, lists and ranges are written and how the same runs on many machines.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path

from rtclab.backend import backend as backend_of
from rtclab.errors import BadInput
from rtclab.processes import cores
from rtclab.progress import progress as progress_bar
from rtclab.scenario import Change, Scenario
from rtclab.scenario.load import as_changes
from rtclab.sweeps.grid import Grid
from rtclab.sweeps.live import run_live
from rtclab.sweeps.plan import Plan, make_plan
from rtclab.sweeps.runner import SweepStopped, run_tasks
from rtclab.sweeps.store import SWEEP_FILE, Store
from rtclab.sweeps.values import parse_vary
from rtclab.sweeps.worker import OtherVersion

__all__ = [
    "SWEEP_FILE",
    "Grid",
    "Interrupted",
    "OtherVersion",
    "SweepStopped",
    "open_sweep",
    "parse_vary",
    "sweep",
]

SIM = "sim"


class Interrupted(KeyboardInterrupt):
    """Ctrl-C during a sweep; ``grid`` has what was finished until then."""

    def __init__(self, grid: Grid) -> None:
        super().__init__(f"interrupted; finished repeats are kept in {grid.path}")
        self.grid = grid


def sweep(
    scenario: str | Path | Scenario | None = None,
    vary: Mapping[str, object] | None = None,
    *,
    repeats: int | None = None,
    backend: str | None = None,
    seed: int | None = None,
    duration: str | None = None,
    changes: Mapping[str, object] | Sequence[str | Change] = (),
    executor: Executor | None = None,
    jobs: int | None = None,
    out: str | Path = "runs",
    resume: str | Path | None = None,
    progress: bool = True,
) -> Grid:
    """Runs a scenario with every combination of values of some fields, each combination several times.

    All points have the same seeds, so two points differ in the varied fields alone. Whatever ends a sweep,
    finished repeats are kept; ``resume`` goes on.

    Args:
        scenario: a name from ``rtclab list``, a TOML file, or a scenario that is loaded already.
        vary: fields with lists of values, or with texts such as ``"0 %, 2 %"`` or ``"0.2..5 Mbit/s x8 log"``.
        repeats: number of repeats of each combination, instead of the scenario's own.
        backend: ``sim`` (virtual time) or ``live`` (real browsers); by default ``sim``.
        seed: seed from which each repeat derives its own.
        duration: length of each run, such as ``"20 s"``.
        changes: other fields to set, the same for all points.
        executor: runs simulated repeats, wherever it likes; a ``concurrent.futures`` executor, or
            ``Client.get_executor()`` of Dask. Without one they run in threads of this process.
        jobs: number of these threads; by default one per core.
        out: directory of runs, in which a new directory is made.
        resume: a sweep to go on with; what it runs stays as it was.
        progress: show a progress bar on a terminal or in a notebook.

    Raises:
        BadInput: something that was asked for cannot be used; nothing was started.
        BackendUnavailable: live calls need something that this machine lacks.
        OtherVersion: a worker runs another rtclab than this one.
        SweepStopped: a worker died, or the executor failed otherwise.
        DiskFull: a result could not be kept.
        Interrupted: by Ctrl-C; ``grid`` of the error holds what was finished.

    Example:
        >>> grid = rtclab.sweep("first-call", {"link.up.loss": ["0 %", "5 %"]}, duration="10 s", repeats=2)
        >>> grid.summary().filter(metric="packet_loss", flow="alice->bob")["link.up.loss"].to_list()
        ['0 %', '5 %']
    """
    shorthands = {"duration": duration, "seed": seed}
    wanted = [
        *as_changes(changes),
        *(Change(field, value, field) for field, value in shorthands.items() if value is not None),
    ]
    if resume is not None:
        if scenario is not None or vary or wanted or repeats or backend:
            raise BadInput("resume: goes on with the sweep as it was", hint="leave everything else out")
        store = Store.open(resume, Path(out))
        store.check_versions()
    elif scenario is None:
        raise BadInput("which scenario?", hint="`rtclab list` shows them; for example first-call")
    else:
        made = backend_of(backend or "sim")
        plan = make_plan(scenario, vary or {}, wanted, made, repeats)
        _check_workers(plan, executor, jobs)
        store = Store.create(Path(out), plan)
    return _run(store, executor, jobs, show=progress)


def open_sweep(name_or_path: str | Path, *, out: str | Path = "runs") -> Grid:
    """Opens a sweep by its path or its name below ``out``.

    Raises:
        TraceError: there is none.
    """
    return Grid(Store.open(name_or_path, Path(out)).path)


def _check_workers(plan: Plan, executor: Executor | None, jobs: int | None) -> None:
    if plan.backend != SIM and (executor is not None or (jobs or 1) > 1):
        option = "jobs" if executor is None else "executor"
        raise BadInput(f"{option}: the {plan.backend} backend runs one call at a time, in this process")


def _run(store: Store, executor: Executor | None, jobs: int | None, *, show: bool) -> Grid:
    plan = store.plan
    title = f"{plan.name} on {plan.backend}"
    with store.writing(), progress_bar(title, plan.size, "repeats", show=show) as advance:
        try:
            if plan.backend != SIM:
                run_live(store, backend_of(plan.backend), advance)
            elif not store.finished:
                advance(store.repeats_done())
                with _workers(executor, jobs) as workers:
                    run_tasks(store, workers, advance)
                store.merge()
        except KeyboardInterrupt:
            raise Interrupted(Grid(store.path)) from None
    return Grid(store.path)


def _workers(executor: Executor | None, jobs: int | None) -> AbstractContextManager[Executor | None]:
    """Who runs tasks: the given executor, threads, or for one job nobody but the caller."""
    jobs = jobs or cores()
    if executor is not None or jobs == 1:
        return nullcontext(executor)
    # Threads need no copy of a script that calls this, as processes do. The simulator lets others run.
    return ThreadPoolExecutor(jobs)
