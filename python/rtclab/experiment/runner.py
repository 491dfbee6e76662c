"""Runs the unfinished repeats of an experiment, and keeps each one as soon as it has ended."""

from __future__ import annotations

import random
import shlex
import shutil
import sys
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import BrokenExecutor, Executor, Future, ThreadPoolExecutor, as_completed
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Literal, get_args

import polars as pl

from rtclab.backend.backends import Backend, planned_flows
from rtclab.backend.taking_turns import turn
from rtclab.errors import BadInput, CallFailed, DiskFull, RtclabError, reason_of
from rtclab.experiment.conditions import SIM, check_trusted
from rtclab.experiment.definitions import Definitions
from rtclab.experiment.disturbance import disturbances
from rtclab.experiment.store import Result, Store, build
from rtclab.experiment.targets import note_on_targets
from rtclab.experiment.work import MIN_TASKS, TASKS_OF_JOB, Item, run_task, tasks_of
from rtclab.own_controls import digest_of, files_read
from rtclab.processes import cores
from rtclab.scenario import Scenario
from rtclab.trace import MANIFEST, Repeat, Trace, only_writer, watch_file, write_text

Order = Literal["plain", "shuffled", "paired"]
"""Condition by condition, shuffled, or the first repeat of every condition before the second."""
MAX_PENDING = 4000
"""Maximum number of submitted tasks, enough to keep a thousand cores busy."""
MAX_PENDING_BYTES = 100_000_000
"""Maximum size of submitted tasks. A task with a recorded capacity is large."""
SHUFFLE_SEED = 1

Advance = Callable[[int], None]
OnOutcome = Callable[[str, Repeat], None]
Observer = Callable[[Path], AbstractContextManager[object]]


class Stopped(RtclabError):
    """An executor could not run a task. Finished tasks are kept."""


@dataclass(frozen=True, kw_only=True)
class Execution:
    """How an experiment runs: the arguments of :meth:`Experiment.run`.

    ``advance`` is called in this thread, as ``ended`` is, with the number of repeats that have ended.
    """

    executor: Executor | None = None
    jobs: int | None = None
    order: Order = "plain"
    tries: int = 1
    renew: bool = False
    progress: bool = True
    advance: Advance = lambda repeats: None
    ended: OnOutcome = lambda label, outcome: None
    observer: Observer = nullcontext

    def __post_init__(self) -> None:
        """Raises BadInput for an argument with an impossible value."""
        if self.order not in get_args(Order):
            raise BadInput(f"order: got `{self.order}`; expected {', '.join(get_args(Order))}")
        for name, number in (("jobs", self.jobs), ("tries", self.tries)):
            if number is not None and number < 1:
                raise BadInput(f"{name}: got {number}; expected at least 1")


def run(
    store: Store, backend: Backend, execution: Execution, wanted: Mapping[int, Sequence[int]] | None = None
) -> dict[int, Trace]:
    """Runs what has not finished. Live repeats wait until no other process of this machine runs live calls.

    Returns the new traces of an experiment of one condition by repeat, which have cached what metrics need.
    A repeat in which the call or the laboratory fails is kept with its reason, and the others go on.

    Args:
        store: the experiment.
        backend: what runs it.
        execution: how it runs.
        wanted: the numbers of the repeats to run, by the number of their condition; by default all.

    Raises:
        BadInput: another process runs repeats there, or strangers made the experiment and it is not trusted.
        OtherVersion: a worker runs another build of rtclab.
        Stopped: a worker died, or the executor failed.
        DiskFull: an outcome could not be written.
        KeyboardInterrupt: Ctrl-C was pressed; finished repeats are kept, the others are marked.
    """
    wanted = store.plans if wanted is None else wanted
    check_trusted(store.conditions, live=backend.name != SIM, measure=store.about.measure)
    with only_writer(store.path):
        for told in forget_changed(store, wanted):
            tell(store, told)
        items = _ordered(unfinished(store, backend, wanted, renew=execution.renew), execution.order)
        size = sum(map(len, wanted.values()))
        execution.advance(size - len(items))
        if not items:
            return {}
        begun = "continued" if store.events() else "began"
        store.note(f"{begun}: {len(items)} of {size} repeats to run, by `{_command()}`, build {build()}")
        keeper = _Keeper(store, execution, len(items))
        try:
            with execution.observer(store.path), _noted_for_watchers(store, items):
                _run_all(store, backend, items, execution, keeper)
        except KeyboardInterrupt:
            _mark_interrupted(store, items)
            raise
        store.note(f"ended: {store.statuses().get('finished', 0)} of {store.planned} repeats are finished")
    return keeper.traces


@contextmanager
def _noted_for_watchers(store: Store, items: Sequence[Item]) -> Iterator[None]:
    """Says in the watch file when repeats that leave traces begin and end to run."""
    if not any(store.keeps_trace(*item) for item in items):
        yield
        return
    finished = store.statuses().get("finished", 0)
    about = {"name": store.name, "backend": store.about.backend, "planned": store.planned}
    watch_file.append(store.path, "run", **about, finished=finished)
    reason = ""
    try:
        yield
    except BaseException as error:
        reason = reason_of(error) if isinstance(error, Exception) else "interrupted"
        raise
    finally:
        watch_file.append(store.path, "end", reason=reason)


def _run_all(
    store: Store, backend: Backend, items: Sequence[Item], execution: Execution, keeper: _Keeper
) -> None:
    """Runs first the repeats that leave traces, then the others."""
    traced = [item for item in items if store.keeps_trace(*item)]
    if traced:
        _run_with_traces(store, backend, traced, execution, keeper)
    if others := [item for item in items if not store.keeps_trace(*item)]:
        _run_in_memory(store, others, execution, keeper)


def _command() -> str:
    """The command line of this process."""
    program = Path(sys.argv[0])
    name = program.parent.name if program.name == "__main__.py" else program.name
    return shlex.join([name or "python", *sys.argv[1:]])


def tell(store: Store, what: str) -> None:
    """Says on standard error, and keeps among the events, why repeats that had finished are run again."""
    store.note(what)
    print(what, file=sys.stderr)


def forget_changed(store: Store, wanted: Mapping[int, Sequence[int]]) -> list[str]:
    """Removes outcomes of controls that read a file which has changed; returns a sentence for each file.

    Such a control is another one, though its name is the same.
    """
    if not (files := store.files()):
        return []
    now = {file: digest_of(file) for file in {file for of in files.values() for file in of}}
    changed: dict[tuple[str, str], list[int]] = {}
    done = pl.col("status").is_in(["finished", "failed"])
    rows = store.outcomes().filter(done, pl.col("condition").is_in(list(wanted)))
    for outcome, condition in rows.select("outcome", "condition").iter_rows():
        for file, digest in files.get(outcome, {}).items():
            if digest != now[file]:
                controls = store.conditions.scenario(condition).own_controls()
                who = " or ".join(dict.fromkeys(control.label for control in controls))
                changed.setdefault((file, who), []).append(outcome)
    store.forget({outcome for outcomes in changed.values() for outcome in outcomes})
    return [_changed(*key, len(outcomes)) for key, outcomes in changed.items()]


def _changed(file: str, who: str, count: int) -> str:
    path, here = Path(file), Path.cwd()
    shown = str(path.relative_to(here) if path.is_relative_to(here) else path)
    what = shown if path.name == who.partition(":")[0] else f"{shown}, which {who} reads,"
    return f"{what} has changed: {count} {'repeat is' if count == 1 else 'repeats are'} run again"


def unfinished(
    store: Store, backend: Backend, wanted: Mapping[int, Sequence[int]], *, renew: bool = False
) -> list[Item]:
    """The repeats to run: those without an outcome, interrupted, or in which the laboratory failed.

    Live repeats whose call failed are run again, because they may succeed now. With ``renew``, so are
    simulated repeats of another build, those without a trace that other definitions measured, and those whose
    trace is to be kept and is not there.
    """
    final = {"finished", "failed"} if backend.deterministic else {"finished"}
    renew = renew and backend.deterministic
    definitions = Definitions.of(store.about)
    digests = {number: definitions.digest(store.measures_of(number)) for number in wanted if renew}
    done = {
        (row["condition"], row["repeat"])
        for row in store.outcomes().iter_rows(named=True)
        if row["status"] in final
        and not (renew and (row["code"], row["definitions"]) != (build(), digests.get(row["condition"])))
        and not (renew and store.lacks_trace(row["condition"], row["repeat"]))
    }
    every = ((condition, repeat) for condition, repeats in wanted.items() for repeat in repeats)
    return [item for item in every if item not in done]


def _ordered(items: list[Item], order: Order) -> list[Item]:
    if order == "shuffled":
        random.Random(SHUFFLE_SEED).shuffle(items)
    elif order == "paired":
        items.sort(key=lambda item: item[::-1])
    return items


class _Keeper:
    """Writes results into the store as they come, and remembers which repeats have ended."""

    def __init__(self, store: Store, execution: Execution, size: int) -> None:
        self.store, self._execution, self._code = store, execution, build()
        self.size = size
        self.ended: set[Item] = set()
        self.traces: dict[int, Trace] = {}

    def keep(self, results: Sequence[Result]) -> None:
        """Keeps the results of a task."""
        self.store.add(results, code=self._code)
        self.ended |= {(one.condition, one.outcome.repeat) for one in results}
        self._execution.advance(len(results))
        for one in results:
            self._execution.ended(self.store.conditions.label(one.condition), one.outcome)


def _mark_interrupted(store: Store, items: Sequence[Item]) -> None:
    """Marks the repeats that Ctrl-C stopped or kept from beginning, unless they have an earlier outcome."""
    known = set(store.outcomes().select("condition", "repeat").iter_rows())
    left = [item for item in items if item not in known]
    seeds = {
        number: store.conditions.scenario(number).seed_of for number in {condition for condition, _ in left}
    }
    marked = [
        Result(condition, Repeat(repeat, seeds[condition](repeat), "interrupted"))
        for condition, repeat in left
    ]
    store.add(marked, code=build())
    store.note(f"interrupted, {len(left)} repeats left")


def _run_in_memory(store: Store, items: Sequence[Item], execution: Execution, keeper: _Keeper) -> None:
    """Simulates and measures in tasks of many repeats, which leave no traces."""
    jobs = execution.jobs or cores()
    fewest = TASKS_OF_JOB * jobs if execution.executor is None else MIN_TASKS
    tasks = tasks_of(store.conditions, items, store.about, fewest)
    if execution.executor is None and jobs == 1:
        for task in tasks:
            keeper.keep(run_task(task.text))
        return
    _submit(((run_task, (task.text,), len(task.text)) for task in tasks), jobs, execution, keeper)


def _submit(calls: Iterator[Call], jobs: int, execution: Execution, keeper: _Keeper) -> None:
    """Runs calls in the executor or else in threads, and keeps their results."""
    # Processes would import the calling script again. The simulator releases the GIL, so threads suffice.
    with nullcontext(execution.executor) if execution.executor else ThreadPoolExecutor(jobs) as executor:
        try:
            _Submitter(executor, keeper.keep).run(calls)
        except RtclabError:
            raise
        except Exception as error:
            died = "a worker died: it was killed or ran out of memory"
            what = died if isinstance(error, BrokenExecutor) else f"{type(error).__name__}: {error}"
            path = keeper.store.path
            again = "the same command" if keeper.store.about.grows else f"`{resuming(keeper.store)}`"
            raise Stopped(
                f"{what}\n{len(keeper.ended)} of {keeper.size} repeats are finished and kept in {path}",
                hint=f"continue with {again}",
            ) from error


def resuming(store: Store) -> str:
    """The command that continues a run or a sweep."""
    return f"rtclab {'sweep' if store.conditions.fields else 'run'} --resume {shlex.quote(str(store.path))}"


Call = tuple[Callable[..., Sequence[Result]], tuple[object, ...], int]
"""A function, its arguments, and their size in bytes."""


class _Submitter:
    """Submits calls to an executor, a limited number at a time, and keeps their results as they come."""

    def __init__(self, executor: Executor, keep: Callable[[Sequence[Result]], None]) -> None:
        self._executor, self._keep = executor, keep
        self._pending: set[Future[Sequence[Result]]] = set()
        self._finished: SimpleQueue[Future[Sequence[Result]]] = SimpleQueue()

    def run(self, calls: Iterator[Call]) -> None:
        """Runs all calls.

        Raises:
            KeyboardInterrupt: Ctrl-C was pressed. The calls that were running are kept too.
        """
        most = 1
        try:
            while True:
                while len(self._pending) < most and (call := next(calls, None)) is not None:
                    function, arguments, size = call
                    future = self._executor.submit(function, *arguments)
                    self._pending.add(future)
                    future.add_done_callback(self._finished.put)
                    most = max(min(MAX_PENDING, MAX_PENDING_BYTES // size), 1)
                if not self._pending:
                    return
                self._collect(self._finished.get())
        except BaseException as error:
            for future in self._pending:
                future.cancel()
            if isinstance(error, KeyboardInterrupt):
                self._collect_running()
            raise

    def _collect(self, first: Future[Sequence[Result]]) -> None:
        """Keeps the results of a call, and of all calls that have ended meanwhile, in one transaction."""
        ended = [first]
        with suppress(Empty):
            while True:
                ended.append(self._finished.get_nowait())
        results: list[Result] = []
        try:
            for future in ended:
                self._pending.discard(future)
                results += future.result()
        finally:
            if results:
                self._keep(results)

    def _collect_running(self) -> None:
        """Waits for the running calls and keeps their results. A second Ctrl-C ends the wait.

        A running simulation cannot be stopped, but ends soon.
        """
        with suppress(KeyboardInterrupt):
            for future in as_completed([future for future in self._pending if not future.cancelled()]):
                # Polars passes Ctrl-C to whichever thread uses it, so a repeat may have been interrupted too.
                if future.exception() is None:
                    self._keep(future.result())


def _run_with_traces(
    store: Store, backend: Backend, items: Sequence[Item], execution: Execution, keeper: _Keeper
) -> None:
    """Runs repeats one by one, and each one leaves a trace; several at once if the backend allows it."""
    tries = 1 if backend.parallel else execution.tries

    def attempts(item: Item) -> list[Result]:
        for attempt in range(1, tries + 1):
            result, trace = _Traced.of(store, backend, item).run(attempt)
            if trace is not None and len(store.conditions) == 1:
                keeper.traces[item[1]] = trace
            if not result.outcome.disturbed or attempt == tries:
                return [result]
            store.note(
                f"{store.conditions.label(item[0])}, repeat {item[1]}: disturbed, tried again: "
                f"{result.outcome.disturbed}"
            )
        raise AssertionError("tries is at least 1")

    jobs = min(execution.jobs or cores(), len(items)) if backend.parallel else 1
    if execution.executor is not None:
        _submit(
            ((_run_apart, (_Traced.of(store, backend, item),), 1) for item in items), jobs, execution, keeper
        )
        return
    if jobs > 1:
        _submit(((attempts, (item,), 1) for item in items), jobs, execution, keeper)
        return
    with nullcontext() if backend.parallel else turn():
        for item in items:
            keeper.keep(attempts(item))


@dataclass(frozen=True)
class _Traced:
    """A repeat that leaves a trace: what it takes to run it in any process of this machine."""

    scenario: Scenario
    condition: int
    repeat: int
    place: Path
    backend: Backend
    definitions: Definitions
    names: tuple[str, ...]
    results: Path
    """The directory of the experiment."""
    label: str
    """Its condition; empty if there is only one."""

    @classmethod
    def of(cls, store: Store, backend: Backend, item: Item) -> _Traced:
        scenario, place, names = (
            store.scenario_of(*item),
            store.repeat_path(*item),
            store.measures_of(item[0]),
        )
        label = store.conditions.label(item[0]) if len(store.conditions) > 1 else ""
        definitions = Definitions.of(store.about)
        return cls(scenario, *item, place, backend, definitions, names, store.path, label)

    def run(self, attempt: int) -> tuple[Result, Trace | None]:
        """Runs it, and notes the files that its controls read."""
        with files_read() as read:
            result, trace = self._run(attempt)
        return replace(result, files=read.of(self.scenario.owned_controls())), trace

    def _run(self, attempt: int) -> tuple[Result, Trace | None]:
        """Runs it in a temporary directory, which is renamed when the repeat has finished."""
        watch = partial(watch_file.append, self.results, condition=self.label, repeat=self.repeat)
        watch(
            "repeat",
            attempt=attempt,
            duration_s=self.scenario.duration.s,
            participants=list(self.scenario.participants),
            flows={name: flow.model_dump() for name, flow in planned_flows(self.scenario).items()},
        )
        place, seed = self.place, self.scenario.seed_of(self.repeat)
        unfinished = place.with_name(f".{place.name}")
        try:
            shutil.rmtree(unfinished, ignore_errors=True)
            unfinished.mkdir(parents=True)
            made = self.backend.run(
                self.scenario,
                seed=seed,
                repeat=self.repeat,
                out=unfinished,
                watch=lambda new: watch("points", **new),
            )
            # Until here, the trace or the logs of an earlier try are kept.
            shutil.rmtree(place, ignore_errors=True)
            made.move(place)
        except Exception as error:
            _keep_logs(unfinished, place, error)
            failed = isinstance(error, CallFailed)
            trace = Trace(place) if failed and (place / MANIFEST).is_file() else None
            status: Literal["failed", "error"] = "failed" if failed else "error"
            outcome = Repeat(self.repeat, seed, status, reason_of(error), attempt=attempt)
        except BaseException:
            shutil.rmtree(unfinished, ignore_errors=True)
            raise
        else:
            trace = made
            about = made.manifest
            notes = [*map(str, about.not_connected), *about.notes, note_on_targets(made, self.scenario)]
            note = "; ".join(filter(None, notes))
            disturbed = "" if self.backend.parallel else "; ".join(disturbances(made))
            outcome = Repeat(self.repeat, seed, "finished", note=note, attempt=attempt, disturbed=disturbed)
        watch("outcome", **asdict(outcome))
        # If it cannot be measured, the trace is kept, and is measured when the reason is removed.
        result = self.definitions.result(self.condition, outcome, trace, self.names)
        return result, trace if outcome.status == "finished" else None


def _run_apart(repeat: _Traced) -> list[Result]:
    """Runs a repeat in a worker process, from which its trace comes back as files only."""
    return [repeat.run(1)[0]]


def _keep_logs(unfinished: Path, place: Path, error: Exception) -> None:
    """Keeps the files of a failed repeat, with a traceback if the error is unexpected."""
    try:
        if not isinstance(error, RtclabError):
            write_text(unfinished / "traceback.txt", "".join(traceback.format_exception(error)))
        shutil.rmtree(place, ignore_errors=True)
        if any(unfinished.iterdir()):
            unfinished.rename(place)
    except (OSError, DiskFull):
        pass
    shutil.rmtree(unfinished, ignore_errors=True)
