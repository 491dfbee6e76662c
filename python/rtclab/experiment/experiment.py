"""An experiment: conditions x repeats on a backend."""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

from rtclab.backend import Backend, backends
from rtclab.errors import BadInput
from rtclab.experiment import runner
from rtclab.experiment.conditions import (
    SIM,
    Condition,
    Conditions,
    Listed,
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
from rtclab.experiment.recorded import check_known, packets_needed
from rtclab.experiment.results import Results, chosen_metrics
from rtclab.experiment.runner import Execution, Observer, OnOutcome, Order
from rtclab.experiment.store import About, Result, Store, build, find_store, open_store
from rtclab.experiment.window import Moment, check_reached, open_window
from rtclab.metrics import METRICS
from rtclab.processes import in_processes, unguarded_script
from rtclab.progress import progress as progress_bar
from rtclab.renamed import Gone
from rtclab.scenario import Change, Scenario
from rtclab.scenario.load import Changes, as_changes
from rtclab.trace import Repeat, Trace, new_directory, only_writer

Planned = str | Path | Scenario | Condition
"""A scenario that an experiment runs, or its name or path."""


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
        conditions: Planned | Sequence[Planned] | Mapping[str, Planned],
        *,
        vary: Mapping[str, object] | None = None,
        set: Changes = (),
        repeats: int | None = None,
        backend: str | Backend = SIM,
        name: str | None = None,
        metrics: str | Sequence[str] | None = None,
        begin: Moment | None = None,
        end: Moment | None = None,
        traces: bool | None = None,
        capture: bool = False,
        measure: Measure | None = None,
        trust: bool = False,
    ) -> None:
        """Plans an experiment, and checks that the backend can run every condition.

        Args:
            conditions: scenarios by label, or one scenario or several, whose names are their labels. Each is
                loaded, or given by its name or the path of its file, or a :class:`Condition`, which has
                repeats, measures and traces of its own.
            vary: fields of a single scenario and their values: every combination is a condition.
            set: fields to set in all scenarios.
            repeats: number of repeats of each condition, by default the first scenario's.
            backend, metrics, begin, end, traces, capture, trust: as in :func:`rtclab.run`.
            name: begin of the directory's name, by default the name of the first scenario and the backend.
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
        live = self.backend.name != SIM
        metrics, limits = chosen_metrics(metrics), open_window(begin, end)
        if measure is not None and (metrics or limits is not None):
            raise BadInput(
                "measure: a function of your own measures instead of metrics and over its own time"
            )
        traces = vary is None or live if traces is None else traces
        if live and not traces:
            raise BadInput("traces: live calls are measured from their traces; expected traces=True")
        if capture and not traces:
            raise BadInput("capture: a capture lies beside a trace; expected traces=True")
        needs_packets = not traces and packets_needed(metrics, in_window=limits is not None)
        if vary is not None:
            changes = as_changes(set)
            if not traces and not any(change.field == "record" for change in changes):
                changes = [*changes, Change("record", "packets" if needs_packets else "seconds")]
            self.conditions: Conditions = product(conditions, vary, changes, repeats, trust=trust)
        else:
            given = by_label(conditions, set, trust=trust)
            for one in given.values():
                scenario_of(one).check_trusted(live=live)
            self.conditions = listed(given, record="packets" if needs_packets else None)
        check(self.conditions, self.backend)
        scenarios = map(self.conditions.scenario, range(len(self.conditions)))
        check_reached(limits, (one.duration.s for one in scenarios))
        check_known(metrics or (), self.backend.name, self.conditions, in_window=limits is not None)
        first = self.conditions.scenario(0)
        self.about = About(
            name=name or (f"{first.name}-sweep" if vary is not None else f"{first.name}-{self.backend.name}"),
            backend=self.backend.name,
            repeats=first.repeats if repeats is None else repeats,
            metrics=() if measure is not None else tuple(METRICS if metrics is None else metrics),
            window=limits,
            traces=traces,
            capture=self.backend.capture,
            versions=backends.versions() | {"build": build()},
            machine=backends.machine(),
            measure="" if measure is None else name_of(measure),
        )
        if self.about.repeats < 1:
            raise BadInput(f"repeats: got {repeats}; expected at least 1")

    product = Gone("Experiment.product", "Experiment(scenario, vary={…})")

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
        ended: OnOutcome = lambda label, outcome: None,
        observer: Observer = nullcontext,
    ) -> Results:
        """Runs all repeats in a new directory, or those that another one lacks; returns the results.

        Finished repeats are kept however the process ends; ``rtclab.run(resume=…)`` runs the others.

        Args:
            out, jobs, progress: as in :func:`rtclab.run`.
            into: directory of results to which these conditions are added; it is made if there is none.
                Repeats that have finished there do not run again, unless the scenario of their condition has
                changed. The results are about these conditions.
            executor: as in :func:`rtclab.run`. Repeats that leave traces need a pool of processes of this
                machine.
            order: ``plain`` (condition by condition), ``shuffled``, or ``paired`` (the first repeat of every
                condition, then the second).
            tries: how often a live repeat is tried that the machine disturbed.
            renew: run simulated repeats again that another build of rtclab ran or other definitions measured,
                or whose trace is to be kept and is not there. Their earlier values are kept.
            ended: called with the label of the condition and the outcome after each repeat has been kept.
            observer: called with the directory; what it returns is entered as a context while repeats run.

        Raises:
            BadInput: an argument is invalid, or the results of ``into`` were made in another way; nothing
                was started.
            OtherVersion: a worker runs another build of rtclab.
            Stopped: a worker died, or the executor failed.
            DiskFull: no disk space is left for a result.
            Interrupted: Ctrl-C was pressed; the error's attribute ``results`` has the finished repeats.
        """
        execution = Execution(
            executor=executor,
            jobs=jobs,
            order=order,
            tries=tries,
            renew=renew,
            progress=progress,
            ended=ended,
            observer=observer,
        )
        check_workers(self.about, self.backend, execution)
        if into is not None:
            store, wanted = self._extended(Path(into))
            return run_store(store, self.backend, execution, wanted)
        path = new_directory(Path(out), f"{self.about.name}-")
        try:
            store = Store.create(path, self.about, self.conditions)
        except BaseException:
            path.rmdir()
            raise
        return run_store(store, self.backend, execution)

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
    execution: Execution | None = None,
    *,
    out: str | Path = "runs",
    backend: str | Backend | None = None,
    repeats: int | None = None,
    trust: bool = False,
) -> Results:
    """Continues an experiment: runs the repeats that have not finished, and adds repeats.

    Repeats of a congestion control in a file that has changed, or that read a file that has, are run again.

    Args:
        name: path, name below ``out``, or ``latest``.
        execution: how the repeats run.
        out: directory in which to look for a name.
        backend: the backend that began it, or its name, if given.
        repeats: number of repeats that each condition should have, if more than planned.
        trust: run what the scenarios of a directory from outside of the current project name, and the
            function that measures them.

    Raises:
        TraceError: there is no such experiment.
        BadInput: it was made by another backend, measures a metric that is not defined here, or has more
            repeats; or it is from elsewhere and not trusted.
        Interrupted: as in :meth:`Experiment.run`.
    """
    execution = execution or Execution()
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
    check_workers(about, made, execution)
    conditions, changed = with_controls_of_now(store.conditions)
    check(conditions, made)
    with only_writer(store.path):
        if changed is not None:
            store.extend(changed)
            runner.tell(store, f"{controls_in_words(changed)} has other code than before: it is run again")
        store.plan(repeats or about.repeats)
    return run_store(store, made, execution)


def backend_of(backend: str | Backend, *, capture: bool = False) -> Backend:
    """The backend of a name; with ``capture``, simulated calls leave captures. Live calls always do."""
    if not isinstance(backend, str):
        return backend
    if backend != SIM or not capture:
        return backends.backend(backend)
    from rtclab.backend.sim import SimBackend

    return SimBackend(capture=True)


def check_workers(about: About, backend: Backend, execution: Execution) -> None:
    """Checks that an experiment can run in parallel as asked."""
    if not backend.parallel and (execution.executor is not None or (execution.jobs or 1) > 1):
        option = "jobs" if execution.executor is None else "executor"
        raise BadInput(f"{option}: the {backend.name} backend runs one call at a time, in this process")
    if execution.executor is None:
        return
    processes = in_processes(execution.executor)
    if processes and (script := unguarded_script()):
        raise BadInput(
            f"executor: its processes import {script}, which would run again in each of them",
            hint='put what the script runs below `if __name__ == "__main__":`',
        )
    if about.traces and not (processes or isinstance(execution.executor, ThreadPoolExecutor)):
        raise BadInput(
            "executor: repeats that leave traces run on this machine",
            hint="set traces=False, or use a pool of concurrent.futures",
        )


def run_store(
    store: Store,
    backend: Backend,
    execution: Execution,
    wanted: Mapping[int, Sequence[int]] | None = None,
) -> Results:
    """Runs what is not finished, of all or of the wanted repeats, with a progress bar."""
    about = store.about
    title = f"{store.conditions.scenario(0).name} on {about.backend}" if wanted is None else about.name
    size = store.planned if wanted is None else sum(map(len, wanted.values()))
    chosen = None if wanted is None else list(wanted)
    live, show = not backend.parallel, execution.progress
    with progress_bar(title, size, "repeats", show=show, remaining=live) as advance:
        try:
            traces = runner.run(store, backend, replace(execution, advance=advance), wanted)
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
        about = About(
            name=name,
            backend=trace.manifest.backend,
            repeats=1,
            metrics=tuple(METRICS),
            versions=trace.manifest.versions,
        )
        store = Store.create(path, about, Listed({str(scenario["name"]): scenario}))
        kept = trace.save(store.repeat_path(0, 0))
        outcome, definitions = Repeat(0, 0, "finished"), Definitions.of(about)
        numbers = definitions.values(outcome, kept, about.metrics)
        store.add([Result(0, outcome, numbers, definitions.digest(about.metrics))], code=build())
    except BaseException:
        shutil.rmtree(path, ignore_errors=True)
        raise
    return Results(store, {0: kept})
