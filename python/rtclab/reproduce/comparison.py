"""A paper compared with our results: a verdict for every cell, a finding for every trend."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import isnan, nan

from rtclab.metrics.statistics import summarise
from rtclab.reproduce.measure import none_if_nan
from rtclab.reproduce.paper import Paper
from rtclab.reproduce.results import Measured, Results
from rtclab.reproduce.tables import Cell, Table
from rtclab.reproduce.trends import Finding, Trend
from rtclab.reproduce.verdict import Verdict, kind, tolerance, verdict

ORDER = ("rate", "delay", "loss", "other")
OVERALL = "overall"


@dataclass(frozen=True)
class Compared:
    """A printed number, ours, and the verdict."""

    cell: Cell
    ours: Measured
    verdict: Verdict

    @property
    def off_percent(self) -> float | None:
        """Our mean minus the printed one, in per cent of the printed one; None if it cannot be computed."""
        if not self.cell.mean or isnan(self.ours.mean):
            return None
        return 100 * (self.ours.mean - self.cell.mean) / self.cell.mean

    def as_dict(self) -> dict[str, object]:
        """The cell as JSON has it; NaN is None."""
        cell, summary = self.cell, self.ours.summary
        return {
            **{key: value for key, value in vars(cell).items() if value not in ("", None)},
            "mean": none_if_nan(cell.mean),
            "tolerance": none_if_nan(tolerance(cell)),
            "ours": none_if_nan(summary.mean),
            "ours_within_sd": none_if_nan(self.ours.within_sd),
            "ours_sd_between_repeats": none_if_nan(summary.sd),
            "ours_ci95": none_if_nan(summary.ci95),
            "repeats": summary.repeats,
            "verdict": str(self.verdict),
        }


@dataclass(frozen=True)
class Count:
    """How many cells of one kind are within, of those that can be compared."""

    kind: str
    within: int
    compared: int

    @property
    def percent(self) -> float:
        """Share of cells that are within; NaN without cells."""
        return 100 * self.within / self.compared if self.compared else float("nan")


@dataclass(frozen=True)
class Comparison:
    """One paper and our results."""

    paper: Paper
    results: Results

    @cached_property
    def cells(self) -> dict[Cell, Compared]:
        """The comparison of every cell, by cell."""
        return {cell: self._compare(cell) for cell in self.paper.cells}

    def _compare(self, cell: Cell) -> Compared:
        if cell.computed is None:
            ours = self.results.measured(cell.scenario, cell.metric, self.paper.flows(cell))
        else:
            ours = Measured(summarise([cell.computed]), nan)
        return Compared(cell, ours, verdict(cell, ours.mean))

    @cached_property
    def trends(self) -> list[tuple[Trend, Finding]]:
        """Every trend with its finding."""
        return [(trend, trend.check(self.results)) for trend in self.paper.trends]

    def of(self, table: Table) -> list[Compared]:
        """The comparisons of one table's cells."""
        return [self.cells[cell] for cell in table.cells]

    def counts(self, machine: str | None = None) -> list[Count]:
        """How many cells are within, by kind; with ``machine``, only of that machine's rows."""
        chosen = [one for one in self.cells.values() if machine in (None, one.cell.machine)]
        return [count for name in ORDER if (count := _count(name, chosen)).compared]

    @property
    def rates_and_delays(self) -> Count:
        """Rates and delays together. If the paper has rows over all machines, only these count."""
        overall = any(cell.machine == OVERALL for cell in self.paper.cells)
        chosen = [one for one in self.counts(OVERALL if overall else None) if one.kind in ("rate", "delay")]
        return Count("rate and delay", sum(one.within for one in chosen), sum(one.compared for one in chosen))

    @property
    def with_unexplained(self) -> Count:
        """Rates and delays as in ``rates_and_delays``, with unexplained cells counted as not within."""
        main, overall = self.rates_and_delays, any(cell.machine == OVERALL for cell in self.paper.cells)
        unexplained = [
            one
            for one in self.listed(Verdict.NOT_EXPLAINED)
            if kind(one.cell) in ("rate", "delay") and (one.cell.machine == OVERALL or not overall)
        ]
        return Count(main.kind, main.within, main.compared + len(unexplained))

    def verdicts(self) -> Counter[Verdict]:
        """How many cells have each verdict."""
        return Counter(one.verdict for one in self.cells.values())

    def listed(self, *verdicts: Verdict) -> Iterator[Compared]:
        """Cells with one of these verdicts, in the order of the paper."""
        return (one for one in self.cells.values() if one.verdict in verdicts)

    def as_dict(self) -> dict[str, object]:
        """The comparison as JSON has it: everything that the report says."""
        return {
            "paper": self.paper.name,
            "rates_and_delays": vars(self.rates_and_delays),
            "with_unexplained": vars(self.with_unexplained),
            "counts": [vars(count) | {"percent": none_if_nan(count.percent)} for count in self.counts()],
            "verdicts": {str(name): number for name, number in self.verdicts().items()},
            "trends": [
                {"statement": trend.statement, "source": trend.source, "how": trend.how,
                 "keeps": finding.keeps, "figures": finding.figures, "reason": trend.reason}
                for trend, finding in self.trends
            ],
            "cells": [one.as_dict() for one in self.cells.values()],
        }  # fmt: skip


def _count(name: str, cells: Sequence[Compared]) -> Count:
    compared = [
        one
        for one in cells
        if kind(one.cell) == name
        and one.verdict not in (Verdict.NOT_EXPLAINED, Verdict.UNUSABLE, Verdict.UNPUBLISHED)
    ]
    return Count(name, sum(one.verdict == Verdict.WITHIN for one in compared), len(compared))
