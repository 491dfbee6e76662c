"""Runs the repeats that are not finished, in batches, on all cores."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from pathlib import Path

from rtclab.errors import reason_of
from rtclab.processes import cores, process_pool
from rtclab.reproduce.measure import MeasureMore, Values, measure
from rtclab.reproduce.store import Store, fingerprint
from rtclab.scenario import Scenario

BATCH = 3
"""Repeats that a process runs before it reports: few, so that little is lost when it is stopped."""


@dataclass(frozen=True)
class Plan:
    """What to run and measure of one scenario.

    ``repeats`` is how often it runs, ``traced`` of how many repeats the whole trace is kept. ``measure_more``
    adds values to the standard ones; with ``packets`` every packet is recorded, not only sums per second.
    ``scenario`` is the scenario itself, if it is not one that comes with rtclab.
    """

    name: str
    repeats: int
    traced: int = 0
    measure_more: MeasureMore | None = None
    packets: bool = False
    scenario: Scenario | None = None

    def load(self) -> Scenario:
        """The scenario as it is run."""
        record = "packets" if self.packets else "seconds"
        return self.scenario or Scenario.load(self.name, {"record": record})

    def store(self, out: Path) -> Store:
        """Where its finished repeats are kept."""
        code = [Path(self.measure_more.__code__.co_filename)] if self.measure_more else []
        return Store(out, self.name, fingerprint(self.load(), *code))


@dataclass(frozen=True)
class Failure:
    """Repeats of a scenario that failed, and why."""

    scenario: str
    repeats: Sequence[int]
    reason: str


def run_plans(
    plans: Sequence[Plan],
    out: Path,
    *,
    jobs: int | None = None,
    on_finished: Callable[[int], None] = lambda repeats: None,
    on_interrupt: Callable[[], None] = lambda: None,
) -> list[Failure]:
    """Runs every repeat that is not finished and returns the failures.

    Args:
        out: directory of finished repeats; repeats that are there are not run again.
        jobs: number of processes; as many as cores if None. 0 runs everything in this process.
        on_finished: called with the number of repeats after each batch.
        on_interrupt: called at Ctrl-C, before the running batches are finished.

    Raises:
        KeyboardInterrupt: after Ctrl-C, when the running batches are finished and kept.
    """
    batches = [batch for plan in plans for batch in _batches(plan, out)]
    if jobs == 0:
        return list(_here(batches, on_finished))
    with process_pool(min(jobs or cores(), max(len(batches), 1))) as pool:
        return list(_in_parallel(pool, batches, on_finished, on_interrupt))


def unfinished(plan: Plan, out: Path) -> list[int]:
    """The repeats that must still be run."""
    store = plan.store(out)
    finished = store.read()
    return [
        repeat
        for repeat in range(plan.repeats)
        if repeat not in finished or (repeat < plan.traced and not store.has_trace(repeat))
    ]


@dataclass(frozen=True)
class _Batch:
    plan: Plan
    store: Store
    repeats: list[int]


def _batches(plan: Plan, out: Path) -> Iterator[_Batch]:
    todo, store = unfinished(plan, out), plan.store(out)
    if todo:
        store.forget_others()
    for begin in range(0, len(todo), BATCH):
        yield _Batch(plan, store, todo[begin : begin + BATCH])


@dataclass
class _Outcome:
    """The result of a batch: the repeats that finished, and why the others did not."""

    finished: list[tuple[int, Values]]
    reason: str = ""


def _run(batch: _Batch) -> _Outcome:
    """Simulates and measures a batch; runs in a process of its own."""
    outcome = _Outcome([])
    try:
        for repeat in batch.repeats:
            outcome.finished.append((repeat, _run_repeat(batch, repeat)))
    except Exception as error:
        outcome.reason = reason_of(error)
    return outcome


def _run_repeat(batch: _Batch, repeat: int) -> Values:
    from rtclab.backend.sim import SimBackend

    scenario, backend = batch.plan.load(), SimBackend()
    backend.check(scenario)
    trace = backend.simulate(scenario, seed=scenario.seed_of(repeat), repeat=repeat)
    if repeat < batch.plan.traced:
        trace.save(batch.store.trace_path(repeat))
    return measure(trace, batch.plan.measure_more)


def _note(batch: _Batch, outcome: _Outcome) -> Iterator[Failure]:
    batch.store.add(outcome.finished)
    if outcome.reason:
        yield Failure(batch.plan.name, batch.repeats[len(outcome.finished) :], outcome.reason)


def _here(batches: Sequence[_Batch], on_finished: Callable[[int], None]) -> Iterator[Failure]:
    for batch in batches:
        yield from _note(batch, _run(batch))
        on_finished(len(batch.repeats))


def _in_parallel(
    pool: ProcessPoolExecutor,
    batches: Sequence[_Batch],
    on_finished: Callable[[int], None],
    on_interrupt: Callable[[], None],
) -> Iterator[Failure]:
    futures = {pool.submit(_run, batch): batch for batch in batches}
    waiting = set(futures)
    try:
        for future in as_completed(futures):
            waiting.discard(future)
            yield from _note(futures[future], _outcome(future, futures[future]))
            on_finished(len(futures[future].repeats))
    except KeyboardInterrupt:
        on_interrupt()
        for future in waiting:
            future.cancel()
        # The running batches end soon: keep them.
        for future in as_completed([future for future in waiting if not future.cancelled()]):
            futures[future].store.add(_outcome(future, futures[future]).finished)
        raise


def _outcome(future: Future[_Outcome], batch: _Batch) -> _Outcome:
    try:
        return future.result()
    except BrokenProcessPool:
        return _Outcome([], "the process died; it or one beside it was killed, or ran out of memory")
