"""Runs the repeats that have no current row as an experiment, and writes the rows of what has ended."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import nullcontext, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import polars as pl

from rtclab.backend import Backend, backend
from rtclab.errors import OtherSchema, TraceError, UnsupportedScenario
from rtclab.experiment import (
    MAX_TRIES,
    STORE_FILE,
    Condition,
    Definitions,
    Experiment,
    Measure,
    Result,
    Results,
    Store,
    build,
    digest_of,
)
from rtclab.processes import cores, process_pool
from rtclab.trace import Repeat, only_writer
from rtclab_papers.campaigns.rows import Key, Outcome, Record, RowFile, Value

Ended = Callable[[str, Repeat], None]


@dataclass
class Tally:
    """The outcomes of a campaign's repeats."""

    outcomes: Counter[str] = field(default_factory=Counter)
    """Number of repeats by outcome, including repeats of earlier runs of the campaign."""
    failed: dict[Key, str] = field(default_factory=dict)
    """Why repeats failed. Those in which the laboratory failed, not the call, have no row and run again."""
    disturbed: dict[Key, str] = field(default_factory=dict)
    """How the machine disturbed repeats, in each of ``MAX_TRIES`` tries."""
    unsupported: dict[str, str] = field(default_factory=dict)
    """Why the backend cannot run conditions."""
    outdated: dict[Key, str] = field(default_factory=dict)
    """Why the kept traces of repeats cannot be measured again. Earlier rows of the repeats are unchanged."""


@dataclass(frozen=True)
class Campaign:
    """Conditions on one backend, whose values go into one file.

    Attributes:
        conditions: the conditions by name, with the numbers of their repeats and their measures.
        backend: what runs them.
        rows: the file of the rows. A repeat that has a row of the same scenario and version does not run
            again.
        folder: directory of the experiment.
        measure: measures a repeat instead of rtclab's metrics.
        versions: identifies, by condition, what else its rows depend on, such as the simulator's code.
        label: name of the backend in the rows, if several campaigns on one backend share a file.
        jobs: number of processes that simulate, by default one per core.
        retry_failed: whether repeats run again that failed earlier, or whose kept trace another rtclab wrote.
    """

    conditions: Mapping[str, Condition]
    backend: Backend
    rows: RowFile
    folder: Path
    measure: Measure | None = None
    versions: Mapping[str, str] = field(default_factory=dict)
    label: str = ""
    jobs: int | None = None
    retry_failed: bool = False

    @property
    def name(self) -> str:
        """Name of the backend in the rows."""
        return self.label or self.backend.name

    def todo(self) -> dict[str, Condition]:
        """The conditions with the repeats that have no current row, or that failed and are to run again."""
        current = self._current()
        final = {key for key, one in current.items() if not (self.retry_failed and one.outcome == "failed")}
        left = {
            name: [repeat for repeat in _repeats(condition) if self._key(name, repeat) not in final]
            for name, condition in self.conditions.items()
        }
        return {name: replace(self.conditions[name], repeats=some) for name, some in left.items() if some}

    def run(self, ended: Ended = lambda name, outcome: None, title: str = "") -> Tally:
        """Runs what is not finished. The rows are written when all has ended, also after Ctrl-C or an error.

        What ended before a kill is in the store of the experiment, from which the next run takes it.

        Args:
            ended: called with the name of the condition and the outcome after each repeat.
            title: title of a progress bar, which is shown on a terminal; by default there is none.

        Raises:
            BackendUnavailable: this machine lacks what the backend needs.
            BadInput: another process writes the rows or the experiment.
            DiskFull: no space is left.
            KeyboardInterrupt: Ctrl-C was pressed; finished repeats are kept.
        """
        self.rows.path.parent.mkdir(parents=True, exist_ok=True)
        with only_writer(self.rows.path):
            todo, tally = self.todo(), Tally()
            for name in [*todo]:
                try:
                    self.backend.check(todo[name].scenario)
                except UnsupportedScenario as error:
                    tally.unsupported[name] = str(error)
                    del todo[name]
            if todo:
                self._forget_unreadable(todo, tally)
                try:
                    self._run(todo, ended, title)
                finally:
                    self._export(todo, tally)
            for record in self._current().values():
                tally.outcomes[record.outcome] += 1
                if record.outcome != "finished":
                    getattr(tally, record.outcome)[record.key] = record.reason
            return tally

    def _run(self, todo: Mapping[str, Condition], ended: Ended, title: str) -> None:
        live = not self.backend.parallel
        experiment = Experiment(
            todo, repeats=1, backend=self.backend, name=title or self.name, traces=live, measure=self.measure
        )
        jobs = 1 if live else self.jobs or cores()
        with process_pool(jobs) if jobs > 1 else nullcontext() as pool:
            experiment.run(
                into=self.folder,
                executor=pool,
                jobs=jobs,
                order="shuffled" if live else "plain",
                tries=MAX_TRIES,
                renew=True,
                progress=bool(title),
                ended=ended,
            )

    def _outcomes(self, todo: Mapping[str, Condition]) -> Iterator[tuple[str, dict[str, Any], bool]]:
        """The name, the outcome and whether today's definitions measured it, of each repeat that has ended.

        Only repeats to do count, of the scenario as it is now, and simulated ones only if today's code ran
        and measured them.
        """
        if not (self.folder / STORE_FILE).is_file():
            return
        store, code = Store(self.folder), build()
        labels = [store.conditions.label(number) for number in range(len(store.conditions))]
        definitions = Definitions.of(store.about)
        digests = {name: definitions.digest(one.settings.measures or ()) for name, one in todo.items()}
        for row in store.outcomes().iter_rows(named=True):
            name, number = labels[row["condition"]], row["condition"]
            if name not in todo or store.digests[number] != digest_of(todo[name].scenario):
                continue
            if row["repeat"] not in _repeats(todo[name]) or row["status"] == "interrupted":
                continue
            measured = row["definitions"] == digests[name]
            if not self.backend.deterministic or (measured and row["code"] == code):
                yield name, row, measured

    def _forget_unreadable(self, todo: Mapping[str, Condition], tally: Tally) -> None:
        """Has live repeats run again that other definitions measured and whose traces cannot be read.

        Repeats whose traces another rtclab wrote are only noted, unless failed ones are to run again.
        """
        for name, row, measured in [*self._outcomes(todo)]:
            if measured or row["status"] != "finished":
                continue
            try:
                Results(self.folder)[name].run.trace(row["repeat"])
            except TraceError as error:
                if isinstance(error, OtherSchema) and not self.retry_failed:
                    tally.outdated[self._key(name, row["repeat"])] = str(error)
                    continue
                forgotten = Repeat(row["repeat"], row["seed"], "interrupted")
                Store(self.folder).add([Result(row["condition"], forgotten)], code=build())

    def _export(self, todo: Mapping[str, Condition], tally: Tally) -> None:
        """Writes the rows of what has ended. The earlier rows of what cannot be measured again stay.

        A repeat in which the laboratory failed says nothing about the call, so it gets no row.
        """
        for name in {name for name, _, measured in self._outcomes(todo) if not measured}:
            with suppress(TraceError):
                Results(self.folder)[name].metrics()  # measures again what other definitions measured
        ended = [*self._outcomes(todo)]
        values = self._values([row["outcome"] for _, row, _ in ended])
        records = self.rows.read()
        for name, row, measured in ended:
            key = self._key(name, row["repeat"])
            of_repeat, found = (key, row["attempt"]), values.get(row["outcome"], ())
            if row["status"] == "error":
                tally.failed[key] = f"the laboratory failed: {row['reason']}"
            elif row["status"] == "finished" and measured:
                outcome: Outcome = "disturbed" if row["disturbed"] else "finished"
                records[key] = Record(*of_repeat, outcome, row["disturbed"], self._digest(name), found)
            elif key not in tally.outdated:
                why = row["reason"] or row["note"] or "it cannot be measured as now defined"
                records[key] = Record(*of_repeat, "failed", why, self._digest(name))
        self.rows.write(records.values())

    def _values(self, outcomes: Sequence[int]) -> dict[int, list[Value]]:
        """The values of outcomes by their number in the store, in the order of metric and flow."""
        found: dict[int, list[Value]] = {}
        numbers = Store(self.folder).numbers(outcomes) if outcomes else pl.DataFrame()
        for outcome, metric, flow, value, _ in numbers.iter_rows():
            name, is_text, text = metric.partition("=")
            found.setdefault(outcome, []).append((flow, name, text if is_text else value))
        return {outcome: sorted(some, key=lambda one: (one[1], one[0])) for outcome, some in found.items()}

    def _key(self, name: str, repeat: int) -> Key:
        return Key(name, self.name, repeat)

    def _digest(self, name: str) -> str:
        """Identifies what the rows of a condition depend on."""
        return "-".join(filter(None, (digest_of(self.conditions[name].scenario), self.versions.get(name))))

    def _current(self) -> dict[Key, Record]:
        """The repeats that have a row of their scenario and version as they are now."""
        digests = {
            self._key(name, repeat): self._digest(name)
            for name, condition in self.conditions.items()
            for repeat in _repeats(condition)
        }
        return {key: one for key, one in self.rows.read().items() if one.digest == digests.get(key)}


def _repeats(condition: Condition) -> Sequence[int]:
    """The numbers of the repeats of a condition."""
    return condition.settings.repeats or ()


LIVE, SIM = "live", "sim"


def run_both(
    conditions: Mapping[str, Mapping[str, Condition]],
    rows: RowFile,
    folder: Path,
    *,
    run_live: bool,
    say: Callable[[str], None],
) -> list[Tally]:
    """Runs conditions live, one call at a time, and then simulated; the rows of both go into one file.

    Repeats that have rows are not run again, simulated ones only if the code has not changed.

    Args:
        conditions: the conditions by name, for each backend: ``live`` and ``sim``.
        rows: the file.
        folder: directory of the two experiments.
        run_live: run live calls; otherwise only the simulations.
        say: called with a line after each live repeat.

    Raises:
        BackendUnavailable: this machine cannot run live calls.
        BadInput: another process writes the file or the experiments.
    """

    def ended(name: str, one: Repeat) -> None:
        what = f"disturbed {one.disturbed}" if one.disturbed else f"{one.status} {one.reason}"
        say(f"{name}, repeat {one.repeat}: {what.strip()}")

    tallies = []
    for side in (LIVE, SIM) if run_live else (SIM,):
        code = build() if side == SIM else ""
        own = conditions[side]
        campaign = Campaign(own, backend(side), rows, folder / side, versions=dict.fromkeys(own, code))
        tallies.append(campaign.run(ended if side == LIVE else lambda name, one: None))
    return tallies
