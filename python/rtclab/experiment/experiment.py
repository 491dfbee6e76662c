"""An experiment: conditions x repeats on a backend."""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from concurrent.futures import Executor
from pathlib import Path
from typing import Any

from rtclab import backend as backends
from rtclab.backend import Backend
from rtclab.errors import BadInput
from rtclab.experiment import runner
from rtclab.experiment.conditions import Conditions, Listed, check, listed, product
from rtclab.experiment.measure import measured, metrics_digest
from rtclab.experiment.results import Moment, Results, check_names, window
from rtclab.experiment.runner import How, Order
from rtclab.experiment.store import About, Result, Store, build, open_store
from rtclab.metrics import METRICS
from rtclab.progress import progress as progress_bar
from rtclab.scenario import Change, Scenario
from rtclab.scenario.load import as_changes
from rtclab.trace import Repeat, Trace, new_directory

SIM = "sim"


class Interrupted(KeyboardInterrupt):
    """Ctrl-C was pressed during an experiment; ``results`` has the finished repeats."""

    def __init__(self, results: Results) -> None:
        super().__init__(f"interrupted; finished repeats are kept in {results.path}")
        self.results = results


class Experiment:
    """Labelled scenarios, each repeated on one backend.

    Example:
        >>> slow = rtclab.Scenario.load("first-call", {"link.up.capacity": "0.5 Mbit/s", "duration": "5 s"})
        >>> fast = rtclab.Scenario.load("first-call", {"link.up.capacity": "2 Mbit/s", "duration": "5 s"})
        >>> rtclab.Experiment({"slow": slow, "fast": fast}, repeats=2).run().conditions
        ['slow', 'fast']
    """

    def __init__(
        self,
        conditions: Mapping[str, Scenario] | Sequence[Scenario] | Conditions,
        *,
        repeats: int | None = None,
        backend: str | Backend = SIM,
        name: str | None = None,
        metrics: Sequence[str] | None = None,
        begin: Moment | None = None,
        end: Moment | None = None,
        traces: bool = True,
        capture: bool = False,
    ) -> None:
        """Plans an experiment, and checks that the backend can run every condition.

        Args:
            conditions: scenarios by label, or scenarios, whose names are their labels.
            repeats: number of repeats of each condition, by default the first scenario's.
            backend: ``sim`` (virtual time) or ``live`` (real browsers).
            name: begin of the directory's name, by default the name of the first scenario and the backend.
            metrics: metrics to measure, by default all.
            begin: measure from this time on, such as ``"10 s"`` or 10 (seconds).
            end: measure up to this time.
            traces: keep the trace of each repeat. Without traces, simulated repeats are measured in memory,
                and no other time can be measured later.
            capture: write a capture beside each simulated trace.

        Raises:
            BadInput: an argument is invalid, or the backend cannot run a condition.
            BackendUnavailable: this machine lacks something that the backend needs.
        """
        self.backend = backend_of(backend, capture=capture)
        if isinstance(conditions, (Mapping, Sequence)):
            conditions = listed(conditions)
            check(conditions, self.backend)
        self.conditions: Conditions = conditions
        check_names(metrics or ())
        if not traces and self.backend.name != SIM:
            raise BadInput("traces: live calls are measured from their traces; expected traces=True")
        if capture and not traces:
            raise BadInput("capture: a capture lies beside a trace; expected traces=True")
        first = self.conditions.scenario(0)
        self.about = About(
            name or f"{first.name}-{self.backend.name}",
            self.backend.name,
            first.repeats if repeats is None else repeats,
            tuple(METRICS if metrics is None else metrics),
            window(begin, end, run_end_s=first.duration.s),
            traces,
            self.backend.capture,
            backends.versions() | {"build": build()},
            backends.machine(),
        )
        if self.about.repeats < 1:
            raise BadInput(f"repeats: got {repeats}; expected at least 1")

    @classmethod
    def product(
        cls,
        scenario: str | Path | Scenario,
        vary: Mapping[str, object],
        *,
        set: Mapping[str, object] | Sequence[str | Change] = (),
        repeats: int | None = None,
        backend: str | Backend = SIM,
        traces: bool = False,
        metrics: Sequence[str] | None = None,
        begin: Moment | None = None,
        end: Moment | None = None,
    ) -> Experiment:
        """An experiment with every combination of values of some fields of a scenario.

        Arguments and errors are those of :func:`rtclab.sweep`.
        """
        made = backend_of(backend)
        traces = traces or made.name != SIM
        wanted = as_changes(set)
        if not traces:
            wanted = [*wanted, Change("record", "seconds")]
        conditions, repeats = product(scenario, vary, wanted, made, repeats)
        return cls(
            conditions,
            repeats=repeats,
            backend=made,
            name=f"{conditions.name}-sweep",
            metrics=metrics,
            begin=begin,
            end=end,
            traces=traces,
        )

    def run(
        self,
        *,
        out: str | Path = "runs",
        executor: Executor | None = None,
        jobs: int | None = None,
        order: Order = "plain",
        tries: int = 1,
        progress: bool = True,
    ) -> Results:
        """Runs all repeats in a new directory; returns the results.

        Finished repeats are kept however the process ends; ``rtclab.run(resume=…)`` runs the others.

        Args:
            out: directory in which the new directory is made.
            executor: runs simulated repeats without traces: any ``concurrent.futures`` executor, such as
                Dask's ``Client.get_executor()``. By default they run in threads of this process.
            jobs: number of threads, if no executor is given; by default one per core.
            order: ``plain`` (condition by condition), ``shuffled``, or ``paired`` (the first repeat of every
                condition, then the second).
            tries: how often a live repeat is tried that the machine disturbed.
            progress: show a progress bar on a terminal or in a notebook.

        Raises:
            BadInput: an argument is invalid; nothing was started.
            OtherVersion: a worker runs another build of rtclab.
            Stopped: a worker died, or the executor failed.
            DiskFull: no disk space is left for a result.
            Interrupted: Ctrl-C was pressed; the error's attribute ``results`` has the finished repeats.
        """
        how = How(executor, jobs, order, tries)
        check_workers(self.about, self.backend, how)
        path = new_directory(Path(out), f"{self.about.name}-")
        try:
            store = Store.create(path, self.about, self.conditions)
        except BaseException:
            path.rmdir()
            raise
        return run_store(store, self.backend, how, show=progress)


def resumed(
    name: str | Path,
    *,
    out: str | Path = "runs",
    backend: str | None = None,
    repeats: int | None = None,
    executor: Executor | None = None,
    jobs: int | None = None,
    renew: bool = False,
    progress: bool = True,
) -> Results:
    """Continues an experiment: runs the repeats that have not finished, and adds repeats.

    Args:
        name: path, name below ``out``, or ``latest``.
        out: directory in which to look for a name.
        backend: the backend that began it, if given.
        repeats: number of repeats that each condition should have, if more than planned.
        executor: as in :meth:`Experiment.run`.
        jobs: as in :meth:`Experiment.run`.
        renew: run simulated repeats again that another build of rtclab ran. Its values are kept.
        progress: as in :meth:`Experiment.run`.

    Raises:
        TraceError: there is no such experiment.
        BadInput: it was made by another backend, measures a metric that is not defined here, or has more
            repeats.
        Interrupted: as in :meth:`Experiment.run`.
    """
    store = open_store(name, Path(out))
    about = store.about
    if backend not in (None, about.backend):
        raise BadInput(
            f"backend: {store.name} was made by backend {about.backend}, not {backend}",
            hint="leave the backend out, or start a new run",
        )
    missing = [f"`{metric}`" for metric in about.metrics if metric not in METRICS]
    if missing:
        raise BadInput(
            f"{store.path} measures {', '.join(missing)}, which this program does not define",
            hint="resume it in Python, after importing the module that defines the metric",
        )
    if repeats is not None and repeats < about.repeats:
        raise BadInput(
            f"repeats: {store.name} has {about.repeats}; got {repeats}",
            hint="repeats can be added, not taken away",
        )
    made = backend_of(about.backend, capture=about.capture)
    how = How(executor, jobs, renew=renew)
    check_workers(about, made, how)
    check(store.conditions, made)
    with store.only_writer():
        store.plan(repeats or about.repeats)
    return run_store(store, made, how, show=progress)


def backend_of(backend: str | Backend, *, capture: bool = False) -> Backend:
    """The backend of a name; with ``capture``, simulated calls leave captures. Live calls always do."""
    if not isinstance(backend, str):
        return backend
    if backend != SIM or not capture:
        return backends.backend(backend)
    from rtclab.backend.sim import SimBackend

    return SimBackend(capture=True)


def check_workers(about: About, backend: Backend, how: How) -> None:
    """Checks that an experiment can run in parallel as asked."""
    if not backend.parallel and (how.executor is not None or (how.jobs or 1) > 1):
        option = "jobs" if how.executor is None else "executor"
        raise BadInput(f"{option}: the {backend.name} backend runs one call at a time, in this process")
    if about.traces and how.executor is not None:
        raise BadInput(
            "executor: repeats that leave traces run in this process", hint="set traces=False, or jobs"
        )


def run_store(store: Store, backend: Backend, how: How, *, show: bool) -> Results:
    """Runs what is not finished, with a progress bar if ``show``."""
    about = store.about
    title = f"{store.conditions.scenario(0).name} on {about.backend}"
    size = len(store.conditions) * about.repeats
    with progress_bar(title, size, "repeats", show=show) as advance:
        how = How(how.executor, how.jobs, how.order, how.tries, how.renew, advance)
        try:
            traces = runner.run(store, backend, how)
        except KeyboardInterrupt:
            raise Interrupted(Results(store)) from None
    return Results(store, traces)


def keep_trace(trace: Trace, scenario: dict[str, Any], name: str, out: Path) -> Results:
    """Makes results of one trace that rtclab did not run, such as of a capture, in a new directory.

    Args:
        trace: the trace, in memory or elsewhere.
        scenario: what is known of the call, as JSON values: name, title, duration and participants.
        name: begin of the directory's name.
        out: directory in which it is made.

    Raises:
        DiskFull: no disk space is left. Nothing is left behind.
    """
    path = new_directory(out, f"{name}-")
    try:
        about = About(name, trace.manifest.backend, 1, tuple(METRICS), versions=trace.manifest.versions)
        store = Store.create(path, about, Listed({str(scenario["name"]): scenario}))
        kept = trace.save(store.repeat_path(0, 0))
        outcome = Repeat(0, 0, "finished")
        numbers = measured(outcome, kept, METRICS.values())
        store.add([Result(0, outcome, numbers)], code=build(), metrics=metrics_digest(about.metrics))
    except BaseException:
        shutil.rmtree(path, ignore_errors=True)
        raise
    return Results(store, {0: kept})
