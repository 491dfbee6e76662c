"""The results of an arena: the values of its cases and of its pairs, from the store of its directory."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from itertools import combinations_with_replacement
from pathlib import Path
from typing import Any

import polars as pl

from rtclab.arenas.suite import FIRST, SECOND, TCP, ArenaSuite, beside
from rtclab.arenas.values import OUTCOME, Values, of_repeat, table
from rtclab.experiment import Results
from rtclab.replays.settings import ControlChoice
from rtclab.trace import OpenWindow

SIM, LIVE = "sim", "live"
PAIRS = pl.Schema(
    {"first": pl.String(), "second": pl.String(), **OUTCOME}
    | dict.fromkeys(("rate_first", "rate_second"), pl.Float64())
)
"""The columns of the table of pairs."""
Repeats = dict[tuple[str, str], list[tuple[dict[str, Any], dict[tuple[str, str], float]]]]
"""By case and control the repeats in order: the outcome, and the values by metric and flow."""


@dataclass(frozen=True)
class Arena:
    """The results of an arena.

    Attributes:
        suite: the suite.
        controls: the controls by the texts under which they appear.
        repeats: number of repeats of each case with each control.
        results: the results of the backend that just ran, whose fields are ``case`` and ``control``.
        other: the results of the other backend, if it has run the same suite beside them.
        traces: whether traces are kept.
        left_out: what the backend cannot run, with the reason.
    """

    suite: ArenaSuite
    controls: Mapping[str, ControlChoice]
    repeats: int
    results: Results
    other: Results | None = None
    traces: bool = False
    left_out: Mapping[str, str] = field(default_factory=dict)

    @property
    def path(self) -> Path:
        """The directory, with ``arena.html``, tables as CSV, and the store."""
        return self.results.path

    @property
    def page(self) -> Path:
        """The page."""
        return self.path / "arena.html"

    @property
    def backend(self) -> str:
        """The backend that just ran."""
        return self.results.backend

    @property
    def window(self) -> OpenWindow | None:
        """Begin and end in s of the part of each repeat that was measured; None for all of it."""
        return self.results.window

    @cached_property
    def values(self) -> Values:
        """The values of the backend that just ran, in the order of cases, controls and repeats."""
        return self._values(self._repeats)

    @cached_property
    def other_values(self) -> Values | None:
        """The values of the other backend, if it has run."""
        return None if self.other is None else self._values(_by_case_and_control(self.other))

    def _values(self, found: Repeats) -> Values:
        rows = []
        for case in self.suite.cases:
            for control in self.controls:
                for outcome, numbers in found.get((case.name, control), ()):
                    known = of_repeat(case, numbers) if outcome["status"] == "finished" else {}
                    rows.append({**outcome, "case": case.name, "control": control, **known})
        return Values(self.suite.cases, tuple(self.controls), table(rows))

    @cached_property
    def pairs(self) -> pl.DataFrame:
        """The rates in kbit/s of two flows at one bottleneck, over the second half of their time.

        Columns: ``first`` and ``second`` (a control, or TCP's), ``repeat``, ``seed``, ``status``, ``reason``,
        ``rate_first``, ``rate_second``. Empty if the suite has no pairings, or was not simulated.
        """
        live = self.backend == LIVE
        found = self._repeats if not live else _by_case_and_control(self.other) if self.other else {}
        rows = []
        for first, second in pairs_of(self.suite, self.controls):
            for outcome, numbers in found.get((beside(second), first), ()):
                other = "tcp" if second in TCP else SECOND
                rates = [numbers.get(("late_rate", flow)) for flow in (FIRST, other)]
                rows.append((first, second, *outcome.values(), *rates))
        return pl.DataFrame(rows, schema=PAIRS, orient="row")

    @cached_property
    def _repeats(self) -> Repeats:
        return _by_case_and_control(self.results, self.repeats)

    @cached_property
    def notes(self) -> list[tuple[str, int, str]]:
        """What to know of finished repeats: a control, in how many cases it has a note, and the first one."""
        cases = [case.name for case in self.suite.cases]
        noted = self.results.outcomes().filter(
            pl.col("status") == "finished", pl.col("note") != "", pl.col("case").cast(pl.String).is_in(cases)
        )
        rows = noted.group_by("control", maintain_order=True).agg(
            pl.col("case").n_unique(), pl.col("note").first()
        )
        found = {str(control): (count, note) for control, count, note in rows.iter_rows()}
        return [(control, *found[control]) for control in self.controls if control in found]

    @property
    def short_cases(self) -> list[str]:
        """The cases that end before the measured part of the time begins."""
        begin_s = self.window[0] if self.window else 0.0
        return [case.name for case in self.suite.cases if case.scenario.duration.s <= begin_s]

    @property
    def failed(self) -> bool:
        """Whether a repeat failed, of a case or of a pairing."""
        pairs = self.pairs.filter(pl.col("status") != "finished")
        return bool(self.values.failures().height or pairs.height)

    @property
    def command(self) -> str:
        """The command that makes the same page again. The number of jobs and the directory change nothing."""
        return shlex.join(["rtclab", "arena", *self.controls, *self._options()])

    def _options(self) -> Iterator[str]:
        yield from ("--suite", self.suite.name, "--repeats", str(self.repeats))
        if self.backend == LIVE:
            yield from ("--backend", LIVE)
        elif self.traces:
            yield "--traces"
        for option, moment_s in zip(("--from", "--to"), self.window or (), strict=False):
            if moment_s:
                yield from (option, f"{moment_s:g}s")


def _by_case_and_control(results: Results, most: int | None = None) -> Repeats:
    """The repeats of results, or the first ones of each condition.

    An earlier command may have run more repeats. Those are left out, so that a command has one page.
    """
    numbers: dict[tuple[str, str, int], dict[tuple[str, str], float]] = {}
    rows = results.metrics().select("case", "control", "repeat", "metric", "flow", "value")
    for case, control, repeat, metric, flow, value in rows.iter_rows():
        numbers.setdefault((case, control, repeat), {})[metric, flow] = value
    found: Repeats = {}
    for case, control, *outcome in results.outcomes().select("case", "control", *OUTCOME).iter_rows():
        known = dict(zip(OUTCOME, outcome, strict=True))
        if most is None or known["repeat"] < most:
            of_repeat = numbers.get((case, control, known["repeat"]), {})
            found.setdefault((case, control), []).append((known, of_repeat))
    return found


def pairs_of(suite: ArenaSuite, controls: Mapping[str, Any]) -> list[tuple[str, str]]:
    """The pairs that compete: of controls, each once, and of a control and TCP."""
    if not suite.pairings:
        return []
    of_calls = list(combinations_with_replacement(sorted(controls), 2))
    return [*of_calls, *((name, tcp) for name in sorted(controls) for tcp in TCP)]
