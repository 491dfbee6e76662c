"""Runs unfinished repeats in batches on all cores."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Future, as_completed
from concurrent.futures.process import BrokenProcessPool
from contextlib import ExitStack
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from time import process_time

from rtclab import simulate, simulate_together
from rtclab.backend import backend
from rtclab.errors import reason_of
from rtclab.processes import cores, process_pool
from rtclab.scenario import Scenario
from rtclab.trace import Trace, only_writer
from rtclab_papers.reproduce.measures import MEASURES, MEDIA, measure
from rtclab_papers.reproduce.store import Store, fingerprint
from rtclab_papers.reproduce.variants import Draw, Variant, drawn, split

BATCH_S = 1800
"""Simulated time of a batch. Large batches are faster, but an interruption loses unfinished batches."""


@dataclass(frozen=True)
class Plan:
    """The repeats and measures of a scenario.

    Attributes:
        name: name of the scenario, with the names of its variants.
        repeats: number of repeats.
        traced: number of repeats, from the first on, whose full trace is kept.
        measures: names of the values to measure.
        given: the scenario, if it is not one that comes with rtclab.
        variants: the variants of the scenario that ``name`` names.
    """

    name: str
    repeats: int
    traced: int = 0
    measures: tuple[str, ...] = (MEDIA,)
    given: Scenario | None = None
    variants: tuple[Variant, ...] = ()

    @cached_property
    def scenario(self) -> Scenario:
        """The scenario to run. It records every packet only if a measure needs that."""
        packets = any(MEASURES[name.partition("@")[0]].packets for name in self.measures)
        changes: dict[str, object] = {"record": "packets" if packets else "seconds"}
        for variant in self.variants:
            changes |= variant.sets
        return self.given or Scenario.load(split(self.name)[0], changes)

    @cached_property
    def draws(self) -> list[Draw]:
        """The fields that are drawn anew for every repeat."""
        return [draw for variant in self.variants for draw in variant.draws]

    def store(self, out: Path) -> Store:
        """Where finished repeats of this plan are kept."""
        return Store(out, self.name, fingerprint(self.scenario, [*self.measures, *map(repr, self.draws)]))


@dataclass(frozen=True)
class Batch:
    """Repeats of a plan to run in one process."""

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
    """The repeats still to run, in batches. ``out`` is the directory of finished repeats."""
    store = plan.store(out)
    finished = store.read()
    todo = [
        repeat
        for repeat in range(plan.repeats)
        if repeat not in finished or (repeat < plan.traced and not store.has_trace(repeat))
    ]
    size = max(int(BATCH_S / plan.scenario.duration.s), 1)
    return [Batch(plan, store, todo[begin : begin + size]) for begin in range(0, len(todo), size)]


def run(
    batches: Sequence[Batch],
    *,
    jobs: int | None = None,
    on_finished: Callable[[int], None] = lambda repeats: None,
    on_interrupt: Callable[[], None] = lambda: None,
) -> list[Failure]:
    """Runs batches and returns the failures. A batch is kept as soon as it is finished.

    Args:
        jobs: number of processes, by default one per core; 0 runs everything in this process.
        on_finished: called with the number of repeats after each batch.
        on_interrupt: called on Ctrl-C, before waiting for the running batches.

    Raises:
        BadInput: another process writes to the same directory.
        KeyboardInterrupt: Ctrl-C was pressed; the running batches were finished and kept.
    """
    with ExitStack() as locks:
        for out in {batch.store.out for batch in batches}:
            out.mkdir(parents=True, exist_ok=True)
            locks.enter_context(only_writer(out))
        for store in {batch.store for batch in batches}:
            store.delete_unused()
        return _run(batches, jobs, on_finished, on_interrupt)


def _run(
    batches: Sequence[Batch],
    jobs: int | None,
    on_finished: Callable[[int], None],
    on_interrupt: Callable[[], None],
) -> list[Failure]:
    failures = []
    if jobs == 0:
        for batch in batches:
            failures += _run_batch(batch)
            on_finished(len(batch.repeats))
        return failures
    with process_pool(min(jobs or cores(), max(len(batches), 1))) as pool:
        futures = {pool.submit(_run_batch, batch): batch for batch in batches}
        try:
            for future in as_completed(futures):
                failures += _outcome(future, futures[future])
                on_finished(len(futures[future].repeats))
        except KeyboardInterrupt:
            on_interrupt()
            raise
    return failures


def _outcome(future: Future[list[Failure]], batch: Batch) -> list[Failure]:
    try:
        return future.result()
    except BrokenProcessPool:
        reason = "the process died; it or another process of the pool was killed or ran out of memory"
        return [Failure(batch.plan.name, batch.repeats, reason)]


def _run_batch(batch: Batch) -> list[Failure]:
    """Simulates, measures and saves the repeats of a batch."""
    failures = []
    began_s = process_time()
    try:
        finished = []
        for repeat, trace in _traces(batch).items():
            if trace.flows:
                batch.store.add(repeat, measure(trace, batch.plan.measures))
                finished.append(repeat)
            else:
                failures.append(Failure(batch.plan.name, [repeat], str(trace.manifest.failure)))
        # What failed repeats took counts for the others.
        took_s = process_time() - began_s
        for repeat in finished:
            batch.store.add_time(repeat, took_s / len(finished))
    except Exception as error:
        return [Failure(batch.plan.name, batch.repeats, reason_of(error))]
    return failures


def _traces(batch: Batch) -> dict[int, Trace]:
    """Simulates the repeats of a batch: one by one if their full traces are kept, the others together."""
    scenario, draws = batch.plan.scenario, batch.plan.draws
    backend("sim").check(scenario)
    traces = {}
    for repeat in [repeat for repeat in batch.repeats if repeat < batch.plan.traced]:
        own = drawn(scenario, draws, repeat)
        traces[repeat] = simulate(own, repeat)
        traces[repeat].save(batch.store.trace_path(repeat))
    others = [repeat for repeat in batch.repeats if repeat not in traces]
    if draws:
        runs = [(drawn(scenario, draws, repeat), [scenario.seed_of(repeat)]) for repeat in others]
    else:
        runs = [(scenario, [scenario.seed_of(repeat) for repeat in others])]
    if others:
        traces |= dict(zip(others, simulate_together(runs), strict=True))
    return traces
