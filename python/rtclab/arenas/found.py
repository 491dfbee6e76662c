"""What an arena found: the values of its cases and of its pairs, from the stores of its directory."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from itertools import combinations_with_replacement
from pathlib import Path
from typing import Any

import polars as pl

from rtclab.arenas.suite import FIRST, SECOND, TCP, ArenaSuite
from rtclab.arenas.values import ALL, CDF, KEYS, Values, of_repeat, table
from rtclab.experiment import Results
from rtclab.replays.settings import Choice

SIM, LIVE = "sim", "live"
Numbers = dict[tuple[str, str], float]
"""The numbers of a repeat by metric and flow."""
PAIRS = pl.Schema(
    {
        "first": pl.String(),
        "second": pl.String(),
        "repeat": pl.Int64(),
        "seed": pl.Int64(),
        "status": pl.String(),
        "reason": pl.String(),
        "rate_first": pl.Float64(),
        "rate_second": pl.Float64(),
    }
)
"""The columns of the table of pairs."""


@dataclass(frozen=True)
class Arena:
    """What an arena found.

    Attributes:
        path: its directory, with ``arena.html``, tables as CSV, and a store per backend.
        suite: the suite.
        controls: the controls by the texts under which they appear.
        backend: the backend that just ran.
        repeats: number of repeats of each case with each control.
        results: by backend, what is in its store.
        weights: weights of a score, if they were asked for.
        traces: whether traces are kept.
        left_out: what the backend cannot run, with the reason.
    """

    path: Path
    suite: ArenaSuite
    controls: Mapping[str, Choice]
    backend: str
    repeats: int
    results: Mapping[str, Results]
    weights: Mapping[str, float]
    traces: bool = False
    left_out: Mapping[str, str] = field(default_factory=dict)

    @cached_property
    def values(self) -> Values:
        """The values of the backend that just ran."""
        return self.values_of(self.backend)

    def values_of(self, backend: str) -> Values:
        """The values of a backend, in the order of cases, controls and repeats."""
        found = self._by_repeat(backend)
        rows = []
        for case in self.suite.cases:
            for control in self.controls:
                for outcome, numbers in found.get(label_of(case.name, control), ()):
                    known = of_repeat(case, numbers) if outcome["status"] == "finished" else {}
                    rows.append({**outcome, "case": case.name, "control": control, **known})
        return Values(self.suite.cases, tuple(self.controls), table(rows, [*ALL, *CDF]))

    @cached_property
    def pairs(self) -> pl.DataFrame:
        """The rates in kbit/s of two flows at one bottleneck, over the second half of their time.

        Columns: ``first`` and ``second`` (a control, or TCP's), ``repeat``, ``seed``, ``status``, ``reason``,
        ``rate_first``, ``rate_second``. Empty if the suite has no pairings, or was not simulated.
        """
        found = self._by_repeat(SIM) if SIM in self.results else {}
        rows = []
        for first, second in pairs_of(self.suite, self.controls):
            for outcome, numbers in found.get(label_of_pair(first, second), ()):
                other = "tcp" if second in TCP else SECOND
                rates = [numbers.get(("late_rate", flow)) for flow in (FIRST, other)]
                told = (outcome[name] for name in ("repeat", "seed", "status", "reason"))
                rows.append((first, second, *told, *rates))
        return pl.DataFrame(rows, schema=PAIRS, orient="row")

    def _by_repeat(self, backend: str) -> dict[str, list[tuple[dict[str, Any], Numbers]]]:
        """By label of a condition its repeats in order: the outcome, and the numbers by metric and flow.

        An earlier command may have run more repeats. Those are left out, so that a command has one page.
        """
        results = self.results[backend]
        most = self.repeats if backend == self.backend else None
        numbers: dict[tuple[str, int], Numbers] = {}
        rows = results.metrics().select("condition", "repeat", "metric", "flow", "value")
        for condition, repeat, metric, flow, value in rows.iter_rows():
            numbers.setdefault((condition, repeat), {})[metric, flow] = value
        found: dict[str, list[tuple[dict[str, Any], Numbers]]] = {}
        names = [name for name in KEYS if name not in ("case", "control")]
        for row in results.outcomes().sort("condition", "repeat").iter_rows(named=True):
            if most is None or row["repeat"] < most:
                known = numbers.get((row["condition"], row["repeat"]), {})
                outcome = {name: row[name] for name in names}
                found.setdefault(row["condition"], []).append((outcome, known))
        return found

    @cached_property
    def notes(self) -> list[tuple[str, int, str]]:
        """What to know of finished repeats: a control, in how many cases it has a note, and the first one."""
        outcomes = self.results[self.backend].outcomes()
        noted = outcomes.filter(pl.col("status") == "finished", pl.col("note") != "")
        of_label = dict(reversed(noted.select("condition", "note").rows()))
        found = []
        for control in self.controls:
            labels = [label_of(case.name, control) for case in self.suite.cases]
            if notes := [of_label[label] for label in labels if label in of_label]:
                found.append((control, len(notes), notes[0]))
        return found

    @property
    def failed(self) -> bool:
        """Whether a repeat failed, of a case or of a pairing."""
        pairs = self.pairs.filter(pl.col("status") != "finished")
        return bool(self.values.failures().height or pairs.height)

    @property
    def command(self) -> str:
        """The command that makes the same page again. The number of jobs and the directory change nothing."""
        parts = [
            "rtclab",
            "arena",
            *self.controls,
            "--suite",
            self.suite.name,
            "--repeats",
            str(self.repeats),
        ]
        parts += ["--backend", LIVE] if self.backend == LIVE else []
        parts += ["--traces"] if self.traces and self.backend == SIM else []
        if self.weights:
            parts += ["--weights", ",".join(f"{name}={weight:g}" for name, weight in self.weights.items())]
        return shlex.join(parts)

    @property
    def page(self) -> Path:
        """The page."""
        return self.path / "arena.html"


def label_of(case: str, control: str) -> str:
    """The label of the condition of a case with a control."""
    return f"{case} with {control}"


def label_of_pair(first: str, second: str) -> str:
    """The label of the condition of two controls at one bottleneck."""
    return f"{first} beside {second}"


def pairs_of(suite: ArenaSuite, controls: Mapping[str, Any]) -> list[tuple[str, str]]:
    """The pairs that compete: of controls, each once, and of a control and TCP."""
    if not suite.pairings:
        return []
    of_calls = list(combinations_with_replacement(sorted(controls), 2))
    return [*of_calls, *((name, tcp) for name in sorted(controls) for tcp in TCP)]
