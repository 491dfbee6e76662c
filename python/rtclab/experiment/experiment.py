"""An experiment: conditions x repeats on a backend."""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from concurrent.futures import Executor, ProcessPoolExecutor, ThreadPoolExecutor
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

from rtclab import backend as backends
from rtclab.backend import Backend
from rtclab.errors import BadInput
from rtclab.experiment import runner
from rtclab.experiment.conditions import (
    SIM,
    Condition,
    Conditions,
    Listed,
    Product,
    by_label,
    check,
    check_trusted,
    controls_in_words,
    listed,
    product,
    scenario_of,
    with_controls_of_now,
)
from rtclab.experiment.definitions import Definitions, Measure, name_of
from rtclab.experiment.recorded import check_known, packets_needed, recording_for
from rtclab.experiment.results import Results, chosen_metrics
from rtclab.experiment.runner import Beside, Ended, How, Order
from rtclab.experiment.store import About, Result, Store, build, find_store, open_store
from rtclab.experiment.window import Moment, check_reached, open_window
from rtclab.metrics import METRICS
from rtclab.processes import unguarded_script
from rtclab.progress import progress as progress_bar
from rtclab.scenario import Change, Scenario
from rtclab.scenario.load import Changes, as_changes
from rtclab.trace import Repeat, Trace, new_directory, only_writer


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
        conditions: Mapping[str, Scenario | Condition]
        | Sequence[Scenario | Condition]
        | Scenario
        | Condition
        | Conditions,
        *,
        repeats: int | None = None,
        backend: str | Backend = SIM,
        name: str | None = None,
        metrics: str | Sequence[str] | None = None,
        begin: Moment | None = None,
        end: Moment | None = None,
        traces: bool = True,
        capture: bool = False,
        measure: Measure | None = None,
    ) -> None:
        """Plans an experiment, and checks that the backend can run every condition.

        Args:
            conditions: scenarios by label, or one scenario or several, whose names are their labels. A
                :class:`Condition` has repeats, measures and traces of its own.
            repeats: number of repeats of each condition, by default the first scenario's.
            backend: ``sim`` (virtual time) or ``live`` (real browsers).
            name: begin of the directory's name, by default the name of the first scenario and the backend.
            metrics: metrics to measure, by default all.
            begin: measure from this time on, such as ``"10 s"`` or 10 (seconds).
            end: measure up to this time.
            traces: keep the trace of each repeat. Without traces, simulated repeats are measured in memory,
                and no other time can be measured later.
            capture: write a capture beside each simulated trace.
            measure: measures repeats instead of the metrics. It is a function of a module, is called with the
                trace and the names ``measures`` of the condition, and returns a :class:`Number` for each
                value. It measures failed calls too, if they left a trace. Repeats that are measured together
                share tables: their flows have names such as ``7:alice->bob``, whose prefix is removed from
                the result.

        Raises:
            BadInput: an argument is invalid, or the backend cannot run a condition.
            BackendUnavailable: this machine lacks something that the backend needs.
        """
        self.backend = backend_of(backend, capture=capture)
        metrics, limits = chosen_metrics(metrics), open_window(begin, end)
        if not isinstance(conditions, (Listed, Product)):
            given = by_label(conditions)
            for one in given.values():
                scenario_of(one).check_trusted(live=self.backend.name != SIM)
            conditions = listed(given)
            if not traces:
                conditions = recording_for(metrics, conditions, in_window=limits is not None)
            check(conditions, self.backend)
        check_trusted(conditions, live=self.backend.name != SIM)
        self.conditions: Conditions = conditions
        check_reached(limits, (conditions.scenario(number).duration.s for number in range(len(conditions))))
        check_known(metrics or (), self.backend.name, self.conditions, in_window=limits is not None)
        if not traces and self.backend.name != SIM:
            raise BadInput("traces: live calls are measured from their traces; expected traces=True")
        if measure is not None and (metrics or limits is not None):
            raise BadInput(
                "measure: a function of your own measures instead of metrics and over its own time"
            )
        if capture and not traces:
            raise BadInput("capture: a capture lies beside a trace; expected traces=True")
        first = self.conditions.scenario(0)
        self.about = About(
            name or f"{first.name}-{self.backend.name}",
            self.backend.name,
            first.repeats if repeats is None else repeats,
            () if measure is not None else tuple(METRICS if metrics is None else metrics),
            limits,
            traces,
            self.backend.capture,
            backends.versions() | {"build": build()},
            backends.machine(),
            measure="" if measure is None else name_of(measure),
        )
        if self.about.repeats < 1:
            raise BadInput(f"repeats: got {repeats}; expected at least 1")

    @classmethod
    def product(
        cls,
        scenario: str | Path | Scenario,
        vary: Mapping[str, object],
        *,
        set: Changes = (),
        repeats: int | None = None,
        backend: str | Backend = SIM,
        traces: bool = False,
        metrics: str | Sequence[str] | None = None,
        begin: Moment | None = None,
        end: Moment | None = None,
        trust: bool = False,
    ) -> Experiment:
        """An experiment with every combination of values of some fields of a scenario.

        Arguments and errors are as in :func:`rtclab.sweep`.
        """
        made = backend_of(backend)
        traces = traces or made.name != SIM
        wanted = as_changes(set)
        if not traces and not any(change.field == "record" for change in wanted):
            in_window = open_window(begin, end) is not None
            needed = packets_needed(chosen_metrics(metrics), in_window=in_window)
            wanted = [*wanted, Change("record", "packets" if needed else "seconds")]
        conditions, repeats = product(scenario, vary, wanted, made, repeats, trust=trust)
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
        into: str | Path | None = None,
        executor: Executor | None = None,
        jobs: int | None = None,
        order: Order = "plain",
        tries: int = 1,
        renew: bool = False,
        progress: bool = True,
        ended: Ended = lambda label, outcome: None,
        beside: Beside = nullcontext,
    ) -> Results:
        """Runs all repeats in a new directory, or those that another one lacks; returns the results.

        Finished repeats are kept however the process ends; ``rtclab.run(resume=…)`` runs the others.

        Args:
            out: directory in which the new directory is made.
            into: directory of results to which these conditions are added; it is made if there is none.
                Repeats that have finished there do not run again, unless the scenario of their condition has
                changed. The results are about these conditions.
            executor: runs simulated repeats: any ``concurrent.futures`` executor, such as Dask's
                ``Client.get_executor()``. Repeats that leave traces need a pool of processes of this machine.
                By default they run in threads of this process.
            jobs: number of threads, if no executor is given; by default one per core.
            order: ``plain`` (condition by condition), ``shuffled``, or ``paired`` (the first repeat of every
                condition, then the second).
            tries: how often a live repeat is tried that the machine disturbed.
            renew: run simulated repeats again that another build of rtclab ran or other definitions measured,
                or whose trace is to be kept and is not there. Their earlier values are kept.
            progress: show a progress bar on a terminal or in a notebook.
            ended: called with the label of the condition and the outcome after each repeat has been kept.
            beside: called with the directory; what it returns is entered as a context while repeats run.

        Raises:
            BadInput: an argument is invalid, or the results of ``into`` were made in another way; nothing
                was started.
            OtherVersion: a worker runs another build of rtclab.
            Stopped: a worker died, or the executor failed.
            DiskFull: no disk space is left for a result.
            Interrupted: Ctrl-C was pressed; the error's attribute ``results`` has the finished repeats.
        """
        how = How(executor, jobs, order, tries, renew, ended=ended, beside=beside)
        check_workers(self.about, self.backend, how)
        if into is not None:
            store, wanted = self._extended(Path(into))
            return run_store(store, self.backend, how, show=progress, wanted=wanted)
        path = new_directory(Path(out), f"{self.about.name}-")
        try:
            store = Store.create(path, self.about, self.conditions)
        except BaseException:
            path.rmdir()
            raise
        return run_store(store, self.backend, how, show=progress)

    def _extended(self, path: Path) -> tuple[Store, dict[int, Sequence[int]]]:
        """The store in a directory with these conditions added, and their repeats by their number there."""
        conditions = self.conditions
        if not isinstance(conditions, Listed):
            raise BadInput("into: conditions that are a product need a directory of their own")
        path.mkdir(parents=True, exist_ok=True)
        with only_writer(path):
            if find_store(path, path) is None:
                store = Store.create(path, replace(self.about, grows=True), conditions)
            else:
                store = Store(path)
                self._check_same(store)
                store.allow()  # only this experiment's own conditions run
                store.extend(conditions)
        assert isinstance(store.conditions, Listed)
        wanted: dict[int, Sequence[int]] = {}
        for number, label in enumerate(conditions.scenarios):
            repeats = self.about.repeats_of(conditions.settings(number))
            wanted[store.conditions.number(label)] = repeats
        return store, wanted

    def _check_same(self, store: Store) -> None:
        """Checks that results were made as this experiment would make them."""
        if not store.about.grows:
            raise BadInput(f"into: {store.path} was made by another command", hint="name another directory")
        names = ("backend", "repeats", "measure", "metrics", "window", "traces", "capture")
        pairs = [(name, getattr(store.about, name), getattr(self.about, name)) for name in names]
        fields = [[field.name for field in of.fields] for of in (store.conditions, self.conditions)]
        for name, had, has in [*pairs, ("fields", *fields)]:
            if had != has:
                raise BadInput(
                    f"into: {store.path} was made with {name} `{had}`; got `{has}`",
                    hint="name another directory",
                )


def resumed(
    name: str | Path,
    *,
    out: str | Path = "runs",
    backend: str | Backend | None = None,
    repeats: int | None = None,
    executor: Executor | None = None,
    jobs: int | None = None,
    renew: bool = False,
    progress: bool = True,
    beside: Beside = nullcontext,
    trust: bool = False,
) -> Results:
    """Continues an experiment: runs the repeats that have not finished, and adds repeats.

    Repeats of a congestion control in a file that has changed, or that read a file that has, are run again.

    Args:
        name: path, name below ``out``, or ``latest``.
        out: directory in which to look for a name.
        backend: the backend that began it, or its name, if given.
        repeats: number of repeats that each condition should have, if more than planned.
        executor: as in :meth:`Experiment.run`.
        jobs: as in :meth:`Experiment.run`.
        renew: run simulated repeats again that another build of rtclab ran. Its values are kept.
        progress: as in :meth:`Experiment.run`.
        beside: as in :meth:`Experiment.run`.
        trust: run what the scenarios of a directory from outside of the current project name, and the
            function that measures them.

    Raises:
        TraceError: there is no such experiment.
        BadInput: it was made by another backend, measures a metric that is not defined here, or has more
            repeats; or it is from elsewhere and not trusted.
        Interrupted: as in :meth:`Experiment.run`.
    """
    store = open_store(name, Path(out), trust=trust)
    about = store.about
    given = None if isinstance(backend, str) else backend
    wanted = given.name if given is not None else backend
    if wanted not in (None, about.backend):
        raise BadInput(
            f"backend: {store.name} was made by backend {about.backend}, not {wanted}",
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
    made = backend_of(given or about.backend, capture=about.capture)
    check_trusted(store.conditions, live=made.name != SIM, measure=about.measure)
    store.allow()
    how = How(executor, jobs, renew=renew, beside=beside)
    check_workers(about, made, how)
    conditions, changed = with_controls_of_now(store.conditions)
    check(conditions, made)
    with store.only_writer():
        if changed is not None:
            store.extend(changed)
            runner.tell(store, f"{controls_in_words(changed)} has other code than before: it is run again")
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
    if isinstance(how.executor, ProcessPoolExecutor) and (script := unguarded_script()):
        raise BadInput(
            f"executor: its processes import {script}, which would run again in each of them",
            hint='put what the script runs below `if __name__ == "__main__":`',
        )
    local = isinstance(how.executor, (ProcessPoolExecutor, ThreadPoolExecutor))
    if about.traces and how.executor is not None and not local:
        raise BadInput(
            "executor: repeats that leave traces run on this machine",
            hint="set traces=False, or use a pool of concurrent.futures",
        )


def run_store(
    store: Store,
    backend: Backend,
    how: How,
    *,
    show: bool,
    wanted: Mapping[int, Sequence[int]] | None = None,
) -> Results:
    """Runs what is not finished, of all or of the wanted repeats, with a progress bar if ``show``."""
    about = store.about
    title = f"{store.conditions.scenario(0).name} on {about.backend}" if wanted is None else about.name
    size = store.planned if wanted is None else sum(map(len, wanted.values()))
    chosen = None if wanted is None else list(wanted)
    live = not backend.parallel
    with progress_bar(title, size, "repeats", show=show, remaining=live) as advance:
        try:
            traces = runner.run(store, backend, replace(how, advance=advance), wanted)
        except KeyboardInterrupt:
            raise Interrupted(Results(store, chosen=chosen)) from None
    return Results(store, traces, chosen)


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
        outcome, definitions = Repeat(0, 0, "finished"), Definitions.of(about)
        numbers = definitions.values(outcome, kept, about.metrics)
        store.add([Result(0, outcome, numbers, definitions.digest(about.metrics))], code=build())
    except BaseException:
        shutil.rmtree(path, ignore_errors=True)
        raise
    return Results(store, {0: kept})
