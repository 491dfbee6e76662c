"""Runs the items of a campaign and keeps their rows."""

from __future__ import annotations

import shutil
import tempfile
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path

from rtclab.backend import Backend, backend, turn
from rtclab.errors import (
    BackendUnavailable,
    DiskFull,
    LaboratoryFailed,
    OtherSchema,
    ScenarioError,
    TraceError,
    UnsupportedScenario,
    reason_of,
)
from rtclab.experiment import MAX_TRIES, disturbances
from rtclab.processes import cores, process_pool
from rtclab.scenario import Scenario
from rtclab.trace import MANIFEST, Trace, only_writer
from rtclab_papers.campaigns.order import Item, encoders_at_once, shuffled
from rtclab_papers.campaigns.rows import Key, Record, RowFile, Value

Measure = Callable[[Item, Trace], Iterable[Value]]
"""Measures a finished repeat: flow, metric and value. Other processes must be able to import it."""


@dataclass(frozen=True)
class Unsupported:
    """The backend cannot run an item. Unlike the error, it can be passed between processes."""

    why: str


@dataclass(frozen=True)
class Outdated:
    """The trace that was kept of an item cannot be measured again, because another rtclab wrote it."""

    why: str


Outcome = Record | Unsupported | Outdated
"""What became of one attempt of an item."""


@dataclass
class Tally:
    """The outcomes of a campaign's repeats."""

    outcomes: Counter[str] = field(default_factory=Counter)
    """Number of repeats by outcome, including repeats of earlier runs of the campaign."""
    failed: dict[Key, str] = field(default_factory=dict)
    """Why repeats failed."""
    disturbed: dict[Key, str] = field(default_factory=dict)
    """How the machine disturbed repeats, ``MAX_TRIES`` times each."""
    unsupported: dict[str, str] = field(default_factory=dict)
    """Why the backend cannot run conditions."""
    outdated: dict[Key, str] = field(default_factory=dict)
    """Why the kept traces of repeats cannot be measured again. Earlier rows of the repeats are unchanged."""

    def count(self, record: Record) -> None:
        """Counts a repeat that is not run again."""
        self.outcomes[record.outcome] += 1
        if record.outcome != "finished":
            getattr(self, record.outcome)[record.key] = record.reason


@dataclass(frozen=True)
class Campaign:
    """Repeats of scenarios on one backend, whose measured values go into one file.

    Attributes:
        items: the repeats to run, in any order.
        backend: name of the backend.
        label: name of the backend in the rows, if several campaigns on one backend share a file.
        rows: the file of the rows. A repeat that has rows of the same scenario is not run again.
        measure: measures a repeat.
        seed: of the order.
        jobs: repeats at once. By default one per core if simulated, and as ``encoders_at_once`` allows if
            live. With 1, everything runs in this process.
        traces: directory in which traces are kept, by condition, repeat and try; by default none are kept. A
            repeat without rows whose trace is there is measured again instead of run again.
        versions: identifies, by condition, what else its rows depend on, such as the simulator's code.
        retry_failed: whether repeats run again that failed earlier, or whose kept trace another rtclab wrote.
    """

    items: Sequence[Item]
    backend: str
    rows: RowFile
    measure: Measure
    seed: int = 1
    jobs: int | None = None
    traces: Path | None = None
    versions: Mapping[str, str] = field(default_factory=dict)
    retry_failed: bool = False
    label: str = ""

    @property
    def name(self) -> str:
        """Name of the backend in the rows."""
        return self.label or self.backend

    def todo(self) -> list[Item]:
        """The items that are not finished, in the order in which they run."""
        known = self.rows.read()
        return [item for item in shuffled(self.items, self.seed) if not self._is_final(item, known)]

    def _is_final(self, item: Item, known: dict[Key, Record]) -> bool:
        if not self._is_current(item, known):
            return False
        record = known[item.key(self.name)]
        if record.outcome == "failed":
            return not self.retry_failed
        return record.outcome == "finished" or record.attempt >= MAX_TRIES

    def _digest(self, item: Item) -> str:
        return "-".join(filter(None, (item.digest, self.versions.get(item.condition, ""))))

    def run(self, on_done: Callable[[Item, Record | None], None] = lambda item, record: None) -> Tally:
        """Runs what is not finished; a repeat's rows are on the disk before the next one is reported.

        Args:
            on_done: called after every item that is not run again, with None if it has not been run.

        Live calls wait until no other process of this machine runs any.

        Raises:
            BackendUnavailable: this machine lacks what the backend needs.
            BadInput: another process writes the rows or the traces.
            DiskFull: no space is left.
            KeyboardInterrupt: Ctrl-C was pressed; finished repeats are kept.
        """
        with ExitStack() as locks:
            self.rows.path.parent.mkdir(parents=True, exist_ok=True)
            locks.enter_context(only_writer(self.rows.path))
            if self.traces is not None:
                self.traces.mkdir(parents=True, exist_ok=True)
                locks.enter_context(only_writer(self.traces))
            if self.todo() and not backend(self.backend).parallel:
                locks.enter_context(turn())
            return self._run(on_done)

    def _run(self, on_done: Callable[[Item, Record | None], None]) -> Tally:
        self.rows.compact()
        tally, queue = self._begin()
        for item, outcome in self._outcomes(queue):
            if isinstance(outcome, Unsupported):
                tally.unsupported[item.condition] = outcome.why
                on_done(item, None)
                continue
            if isinstance(outcome, Outdated):
                tally.outdated[item.key(self.name)] = outcome.why
                on_done(item, None)
                continue
            self.rows.append(outcome)
            if outcome.outcome == "disturbed" and outcome.attempt < MAX_TRIES:
                queue.append((item, outcome.attempt + 1))
                continue
            tally.count(outcome)
            on_done(item, outcome)
        # Rows of an older scenario that the backend cannot run as it is now would look current.
        known = self.rows.read()
        self.rows.compact(
            item.key(self.name)
            for item in self.items
            if item.condition in tally.unsupported and not self._is_current(item, known)
        )
        return tally

    def _is_current(self, item: Item, known: dict[Key, Record]) -> bool:
        """Whether an item has a record of its scenario and its version as they are now."""
        record = known.get(item.key(self.name))
        return record is not None and record.digest == self._digest(item)

    def _begin(self) -> tuple[Tally, deque[tuple[Item, int]]]:
        """The count of what is finished, and the other items with the number of their next try."""
        known, tally = self.rows.read(), Tally()
        for item in self.items:
            if self._is_final(item, known):
                tally.count(known[item.key(self.name)])
        queue: deque[tuple[Item, int]] = deque()
        for item in self.todo():
            attempt = 1
            if self._is_current(item, known) and known[item.key(self.name)].outcome == "disturbed":
                attempt += known[item.key(self.name)].attempt
            queue.append((item, attempt))
        return tally, queue

    def _outcomes(self, queue: deque[tuple[Item, int]]) -> Iterator[tuple[Item, Outcome]]:
        """Runs the items of the queue, to which the caller may append, and yields each outcome."""
        limit, at_once = self._limits()
        if at_once == 1:
            while queue:
                item, attempt = queue.popleft()
                yield item, self._attempt(item, attempt)
            return
        with process_pool(at_once) as pool:
            running: dict[Future[Outcome], Item] = {}
            while queue or running:
                self._fill(queue, running, pool, limit, at_once)
                for done in wait(running, return_when=FIRST_COMPLETED).done:
                    yield running.pop(done), done.result()

    def _limits(self) -> tuple[int | None, int]:
        """How many encoders, and how many repeats, run at once."""
        if self.jobs is not None or self.backend != "live":
            return None, self.jobs or cores()
        limit = encoders_at_once(cores())
        return limit, max(1, limit // 2)

    def _fill(
        self,
        queue: deque[tuple[Item, int]],
        running: dict[Future[Outcome], Item],
        pool: ProcessPoolExecutor,
        limit: int | None,
        at_once: int,
    ) -> None:
        """Starts the next items as long as there is room."""
        while queue and len(running) < at_once:
            item, attempt = queue[0]
            taken = sum(other.weight for other in running.values())
            if limit is not None and running and taken + item.weight > limit:
                return
            queue.popleft()
            running[pool.submit(self._attempt, item, attempt)] = item

    def _attempt(self, item: Item, attempt: int) -> Outcome:
        record = Record(item.key(self.name), attempt, "failed", digest=self._digest(item))
        return attempt_of(
            item, record, self.backend, self.measure, self.traces, renew_outdated=self.retry_failed
        )


def attempt_of(
    item: Item,
    record: Record,
    backend_name: str,
    measure: Measure,
    traces: Path | None,
    *,
    renew_outdated: bool = False,
) -> Outcome:
    """Runs an item once and measures it. A failure is a result.

    With ``renew_outdated`` a kept trace that another rtclab wrote is replaced by the trace of a new run.

    Returns:
        ``record`` with its outcome and what was measured, why the backend cannot run the item, or why its
        kept trace cannot be measured.

    Raises:
        BackendUnavailable: this machine lacks what the backend needs.
        DiskFull: no space is left.
    """
    runs = backend(backend_name)
    with tempfile.TemporaryDirectory(prefix="rtclab-") as temporary:
        folder = Path(temporary) if traces is None else traces / item.condition
        try:
            runs.check(item.scenario)
            name = f"repeat-{item.repeat}-try-{record.attempt}"
            try:
                kept = _kept(folder / name, item)
            except (OtherSchema, ScenarioError) as error:
                if not renew_outdated:
                    return Outdated(str(error))
                kept = None
            trace = kept or _run(item, runs, folder, name)
            if trace.manifest.failure is not None:
                return replace(record, reason=trace.manifest.failure)
            values = tuple(measure(item, trace))
            reason = "; ".join(disturbances(trace)) if backend_name == "live" else ""
        except UnsupportedScenario as error:
            return Unsupported(str(error))
        except (BackendUnavailable, DiskFull):
            raise
        except Exception as error:
            return replace(record, reason=reason_of(error))
    return replace(record, outcome="disturbed" if reason else "finished", reason=reason, values=values)


def _kept(place: Path, item: Item) -> Trace | None:
    """The trace in a directory if it can be read and is of the same scenario; otherwise None.

    Raises:
        OtherSchema: another rtclab wrote the trace.
        ScenarioError: its scenario has a field that this rtclab does not have.
    """
    try:
        trace = Trace(place)
    except OtherSchema:
        raise
    except TraceError:  # there is none, or its manifest is damaged
        return None
    # Read again, so that a field which rtclab did not have then has its default.
    was = Scenario.read(trace.manifest.scenario, str(place))
    return trace if replace(item, scenario=was).digest == item.digest else None


def _run(item: Item, runs: Backend, folder: Path, name: str) -> Trace:
    """The trace of a new run of an item.

    The directory gets its name when the run has ended; the name of a failed run ends in ``-failed``.
    """
    place, unfinished = folder / name, folder / f".{name}"
    for left_behind in (place, unfinished):
        shutil.rmtree(left_behind, ignore_errors=True)
    unfinished.mkdir(parents=True)
    try:
        trace = runs.run(item.scenario, seed=item.seed, repeat=item.repeat, out=unfinished)
    except Exception as error:
        failed = folder / f"{name}-failed"
        shutil.rmtree(failed, ignore_errors=True)
        unfinished.rename(failed)
        if isinstance(error, BackendUnavailable):  # a limit that the check before could not see
            raise LaboratoryFailed(str(error)) from error
        raise
    unfinished.rename(place)
    return Trace(place) if (place / MANIFEST).is_file() else trace
