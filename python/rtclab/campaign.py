"""Runs all repeats of a scenario, in parallel if the backend allows it; interrupted runs can be resumed."""

from __future__ import annotations

import shutil
import traceback
from collections.abc import Callable
from concurrent.futures import Executor, Future, as_completed
from contextlib import suppress
from pathlib import Path

from rtclab.backend import Backend, run_manifest
from rtclab.backend.turns import turn
from rtclab.errors import BadInput, CallFailed, DiskFull, RtclabError, reason_of
from rtclab.scenario import Scenario
from rtclab.trace import Repeat, Run, Trace, write_text

Progress = Callable[[Repeat], None]


def _nothing(_: object) -> None:
    """Ignores an outcome or a trace."""


class Interrupted(KeyboardInterrupt):
    """Ctrl-C was pressed during a run; ``run`` has the finished repeats."""

    def __init__(self, run: Run) -> None:
        super().__init__(f"interrupted; finished repeats are kept in {run.path}")
        self.run = run


def run_scenario(
    scenario: Scenario,
    backend: Backend,
    *,
    out: Path = Path("runs"),
    repeats: int | None = None,
    executor: Executor | None = None,
    resume: Run | None = None,
    create: Callable[..., Run] = Run.create,
    on_progress: Progress = _nothing,
    on_trace: Callable[[Trace], None] = _nothing,
) -> Run:
    """Runs all repeats of a scenario and returns the run, which has the outcome of each repeat.

    A repeat in which the call or the laboratory fails is marked with its reason, and the others go on. On
    Ctrl-C, finished repeats are kept and the others are marked as interrupted. Live repeats wait until no
    other process of this machine runs live calls.

    Args:
        scenario: the scenario to run.
        backend: the backend that runs it.
        out: directory of runs, in which a new directory is made unless ``resume`` is given.
        repeats: number of repeats, instead of ``scenario.repeats``.
        executor: runs repeats in parallel; without one, they run one after another in this thread.
        resume: a run to continue; it must have the same scenario and backend.
        create: creates the new run; a subclass of ``Run`` passes its own ``create``.
        on_progress: called in this thread after each repeat.
        on_trace: called in this thread with the trace of each finished repeat, as the run keeps it.

    Raises:
        UnsupportedScenario: the backend cannot run the scenario; nothing was started.
        BackendUnavailable: this machine lacks what the backend needs; nothing was started.
        BadInput: ``resume`` has another scenario or backend, or another process is writing to it.
        DiskFull: the outcome of a repeat could not be written.
        Interrupted: Ctrl-C was pressed.
    """
    backend.check(scenario)
    run = resume or create(out, scenario=scenario.name, manifest=run_manifest(scenario, backend))
    with run.writing():
        if resume is not None:
            run.reload()
            _check_same(run, scenario, backend)
        run.plan(repeats or scenario.repeats)
        finished = {entry.repeat for entry in run.repeats if entry.status == "finished"}
        todo = [repeat for repeat in range(run.planned) if repeat not in finished]
        _run_repeats(scenario, backend, run, todo, executor, on_progress, on_trace)
    return run


def _check_same(run: Run, scenario: Scenario, backend: Backend) -> None:
    """Raises BadInput if a run differs in anything but the number of repeats."""
    if run.backend != backend.name:
        raise BadInput(f"{run.name} was made by backend {run.backend}, not {backend.name}")
    # Read again, so that a field which rtclab did not have then has its default.
    was = Scenario.read(run.scenario, run.name)
    changed = [name for name in scenario.differences(was) if name != "repeats"]
    if changed:
        raise BadInput(
            f"{run.name} ran another scenario: {', '.join(changed)} changed",
            hint="start a new run without --resume",
        )


def _run_repeats(
    scenario: Scenario,
    backend: Backend,
    run: Run,
    todo: list[int],
    executor: Executor | None,
    on_progress: Progress,
    on_trace: Callable[[Trace], None],
) -> None:
    open_repeats = set(todo)

    def note(outcome: Repeat) -> None:
        run.record(outcome)
        open_repeats.discard(outcome.repeat)
        on_progress(outcome)
        if outcome.status == "finished":
            on_trace(run.trace(outcome.repeat))

    futures: list[Future[Repeat]] = []
    try:
        if not todo:
            return
        if not backend.parallel:
            with turn():
                for repeat in todo:
                    note(_run_one(scenario, backend, run, repeat))
        elif executor is None:
            for repeat in todo:
                note(_run_one(scenario, backend, run, repeat))
        else:
            futures = [executor.submit(_run_one, scenario, backend, run, repeat) for repeat in todo]
            for future in as_completed(futures):
                note(future.result())
    except KeyboardInterrupt:
        for future in futures:
            future.cancel()
        with suppress(KeyboardInterrupt):  # a second Ctrl-C stops waiting
            for future in futures:
                # A running simulation cannot be stopped, but ends soon, so its result is kept. Polars passes
                # Ctrl-C to whichever thread uses it, so a repeat may have been interrupted too.
                if future.cancelled() or future.exception() is not None:
                    continue
                if (outcome := future.result()).repeat in open_repeats:
                    run.record(outcome)
                    open_repeats.discard(outcome.repeat)
        for repeat in sorted(open_repeats):
            run.record(Repeat(repeat, scenario.seed_of(repeat), "interrupted"))
        raise Interrupted(run) from None


def _run_one(scenario: Scenario, backend: Backend, run: Run, repeat: int) -> Repeat:
    """Runs one repeat in a temporary directory, which is renamed when the repeat has finished."""
    seed = scenario.seed_of(repeat)
    place = run.repeat_path(repeat)
    unfinished = run.path / f".{place.name}"
    try:
        for left_behind in (unfinished, place):
            shutil.rmtree(left_behind, ignore_errors=True)
        unfinished.mkdir()
        trace = backend.run(scenario, seed=seed, repeat=repeat, out=unfinished)
        unfinished.rename(place)
    except Exception as error:
        _keep_logs(unfinished, place, error)
        return Repeat(repeat, seed, "failed" if isinstance(error, CallFailed) else "error", reason_of(error))
    except BaseException:
        shutil.rmtree(unfinished, ignore_errors=True)
        raise
    note = "; ".join([*map(str, trace.manifest.not_connected), *trace.manifest.notes])
    return Repeat(repeat, seed, "finished", note=note)


def _keep_logs(unfinished: Path, place: Path, error: Exception) -> None:
    """Keeps the files of a failed repeat, with a traceback if the error is unexpected."""
    try:
        if not isinstance(error, RtclabError):
            write_text(unfinished / "traceback.txt", "".join(traceback.format_exception(error)))
        if any(unfinished.iterdir()):
            unfinished.rename(place)
    except (OSError, DiskFull):
        pass
    shutil.rmtree(unfinished, ignore_errors=True)
