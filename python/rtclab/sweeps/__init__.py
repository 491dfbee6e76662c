"""Sweeps: run one scenario with every combination of some values and collect the results in one table.

docs/sweeps.md describes how to write fields and values, and how to run a sweep on many machines.
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
from rtclab.scenario.load import as_changes, as_time
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
    """Ctrl-C was pressed during a sweep; ``grid`` has the finished repeats."""

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
    duration: str | float | None = None,
    changes: Mapping[str, object] | Sequence[str | Change] = (),
    executor: Executor | None = None,
    jobs: int | None = None,
    out: str | Path = "runs",
    resume: str | Path | None = None,
    progress: bool = True,
) -> Grid:
    """Runs a scenario with every combination of values of some fields, each combination several times.

    All points use the same seeds, so two points differ only in the varied fields. Finished repeats are kept
    however a sweep ends, and ``resume`` continues it.

    Args:
        scenario: a name from ``rtclab list``, the path of a TOML file, or a loaded scenario.
        vary: for each field, a list of values or a text such as ``"0 %, 2 %"`` or ``"0.2..5 Mbit/s x8 log"``.
        repeats: number of repeats of each combination, instead of the scenario's own.
        backend: ``sim`` (virtual time) or ``live`` (real browsers); by default ``sim``.
        seed: seed from which the seed of each repeat is derived.
        duration: length of each run, such as ``"20 s"`` or 20 (seconds).
        changes: other fields to set, at every point.
        executor: runs the simulated repeats: any ``concurrent.futures`` executor, such as Dask's
            ``Client.get_executor()``. By default they run in threads of this process.
        jobs: number of threads, if no executor is given; by default one per core.
        out: directory of runs, in which a new directory is made.
        resume: a sweep to continue, with the same scenario, values and backend.
        progress: show a progress bar on a terminal or in a notebook.

    Raises:
        BadInput: an argument is invalid; nothing was started.
        BackendUnavailable: live calls need something that this machine lacks.
        OtherVersion: a worker runs another build of rtclab.
        SweepStopped: a worker died, or the executor failed.
        DiskFull: no disk space is left for a result.
        Interrupted: Ctrl-C was pressed; the error's attribute ``grid`` has the finished repeats.

    Example:
        >>> grid = rtclab.sweep("first-call", {"link.up.loss": ["0 %", "5 %"]}, duration="10 s", repeats=2)
        >>> grid.summary().filter(metric="packet_loss", flow="alice->bob")["link.up.loss"].to_list()
        ['0 %', '5 %']
    """
    shorthands = {"duration": as_time(duration), "seed": seed}
    wanted = [
        *as_changes(changes),
        *(Change(field, value, field) for field, value in shorthands.items() if value is not None),
    ]
    if resume is not None:
        if scenario is not None or vary or wanted or repeats:
            raise BadInput(
                "resume: the scenario of a sweep cannot be changed",
                hint="leave out the scenario, its changes, the varied fields and repeats",
            )
        store = Store.open(resume, Path(out))
        if backend not in (None, store.plan.backend):
            raise BadInput(
                f"backend: {store.path.name} was made by backend {store.plan.backend}, not {backend}",
                hint="leave the backend out, or start a new sweep",
            )
        store.check_versions()
        store.check_metrics()
        _check_workers(store.plan, executor, jobs)
    elif scenario is None:
        raise BadInput("no scenario given", hint="`rtclab list` shows them; for example first-call")
    else:
        made = backend_of(backend or "sim")
        plan = make_plan(scenario, vary or {}, wanted, made, repeats)
        _check_workers(plan, executor, jobs)
        store = Store.create(Path(out), plan)
    return _run(store, executor, jobs, show=progress)


def open_sweep(name_or_path: str | Path, *, out: str | Path = "runs") -> Grid:
    """Opens a sweep by its path or by its name below ``out``.

    Raises:
        TraceError: there is no such sweep.
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
    """The executor that runs the tasks: the given one, or a pool of threads. For one job there is none."""
    jobs = jobs or cores()
    if executor is not None or jobs == 1:
        return nullcontext(executor)
    # Processes would import the calling script again. The simulator releases the GIL, so threads suffice.
    return ThreadPoolExecutor(jobs)
