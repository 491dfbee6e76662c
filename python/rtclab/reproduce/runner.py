"""Runs the repeats that are not finished, in batches, on all cores."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from rtclab.errors import RtclabError
from rtclab.reproduce.measures import MEASURES, MEDIA, measure
from rtclab.reproduce.store import Store, fingerprint
from rtclab.scenario import Scenario

BATCH = 5
"""Repeats that a process runs before it asks for more: few, so that all processes end about together."""
_POLARS_THREADS = "POLARS_MAX_THREADS"


@dataclass(frozen=True)
class Plan:
    """What to run and measure of one scenario.

    ``repeats`` is how often it runs, ``traced`` of how many repeats the whole trace is kept, ``measures`` the
    names of what is measured. ``given`` is the scenario itself, if it is not one that comes with rtclab.
    """

    name: str
    repeats: int
    traced: int = 0
    measures: tuple[str, ...] = (MEDIA,)
    given: Scenario | None = None

    @cached_property
    def scenario(self) -> Scenario:
        """The scenario as it is run; every packet is recorded only if something to be measured needs it."""
        packets = any(MEASURES[name.partition("@")[0]].packets for name in self.measures)
        return self.given or Scenario.load(self.name, {"record": "packets" if packets else "seconds"})

    def store(self, out: Path) -> Store:
        """Where its finished repeats are kept."""
        return Store(out, self.name, fingerprint(self.scenario, self.measures))


@dataclass(frozen=True)
class Batch:
    """Some repeats of a plan that are to be run, one after another."""

    plan: Plan
    store: Store
    repeats: Sequence[int]


@dataclass(frozen=True)
class Failure:
    """Repeats of a scenario that failed, and why."""

    scenario: str
    repeats: Sequence[int]
    reason: str


def unfinished(plan: Plan, out: Path) -> list[Batch]:
    """The repeats that must still be run, in batches. ``out`` is the directory of finished repeats."""
    store = plan.store(out)
    finished = store.read()
    todo = [
        repeat
        for repeat in range(plan.repeats)
        if repeat not in finished or (repeat < plan.traced and not store.has_trace(repeat))
    ]
    return [Batch(plan, store, todo[begin : begin + BATCH]) for begin in range(0, len(todo), BATCH)]


def run(
    batches: Sequence[Batch],
    *,
    jobs: int | None = None,
    on_finished: Callable[[int], None] = lambda repeats: None,
    on_interrupt: Callable[[], None] = lambda: None,
) -> list[Failure]:
    """Runs batches and returns the failures. Each repeat is kept as soon as it is finished.

    Args:
        jobs: number of processes; as many as cores if None. 0 runs everything in this process.
        on_finished: called with the number of repeats after each batch.
        on_interrupt: called at Ctrl-C, before the running batches are finished.

    Raises:
        KeyboardInterrupt: after Ctrl-C, when the running batches are finished and kept.
    """
    for store in {batch.store for batch in batches}:
        store.forget_others()
    failures = []
    if jobs == 0:
        for batch in batches:
            failures += _run_batch(batch)
            on_finished(len(batch.repeats))
        return failures
    with _pool(min(jobs or len(os.sched_getaffinity(0)), max(len(batches), 1))) as pool:
        futures = {pool.submit(_run_batch, batch): batch for batch in batches}
        try:
            for future in as_completed(futures):
                batch = futures[future]
                try:
                    failures += future.result()
                except BrokenProcessPool:
                    reason = "the process died; it or one beside it was killed, or ran out of memory"
                    failures.append(Failure(batch.plan.name, batch.repeats, reason))
                on_finished(len(batch.repeats))
        except KeyboardInterrupt:
            on_interrupt()
            raise
    return failures


def _run_batch(batch: Batch) -> list[Failure]:
    """Simulates, measures and keeps the repeats of a batch; stops at the first that fails."""
    for done, repeat in enumerate(batch.repeats):
        try:
            _run_repeat(batch, repeat)
        except Exception as error:
            reason = str(error) if isinstance(error, RtclabError) else f"{type(error).__name__}: {error}"
            return [Failure(batch.plan.name, batch.repeats[done:], reason)]
    return []


def _run_repeat(batch: Batch, repeat: int) -> None:
    from rtclab.backend.sim import SimBackend

    scenario, backend = batch.plan.scenario, SimBackend()
    if repeat == batch.repeats[0]:
        backend.check(scenario)
    trace = backend.simulate(scenario, seed=scenario.seed_of(repeat), repeat=repeat)
    if repeat < batch.plan.traced:
        trace.save(batch.store.trace_path(repeat))
    batch.store.add(repeat, measure(trace, batch.plan.measures))


@contextmanager
def _pool(jobs: int) -> Iterator[ProcessPoolExecutor]:
    # Fresh processes, because a fork of one with running threads may hang; one thread each.
    before = os.environ.get(_POLARS_THREADS)
    os.environ[_POLARS_THREADS] = "1"
    context = multiprocessing.get_context("spawn")
    pool = ProcessPoolExecutor(jobs, mp_context=context, initializer=_begin_process)
    try:
        yield pool
    finally:
        pool.shutdown(cancel_futures=True)
        if before is None:
            del os.environ[_POLARS_THREADS]
        else:
            os.environ[_POLARS_THREADS] = before


def _begin_process() -> None:
    """Prepares a process of the pool.

    Ctrl-C reaches all processes of a terminal, but only the parent decides what it means. When the parent is
    killed, its processes end too; they would wait for work forever.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
    os._exit(1)
