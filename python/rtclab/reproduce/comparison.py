"""Compares a paper with our results: a verdict for every cell, a finding for every trend."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import isnan, nan

from rtclab.metrics.statistics import summarise
from rtclab.reproduce.cells import OVERALL, Cell, Verdict, verdict
from rtclab.reproduce.equations import EQUATIONS
from rtclab.reproduce.measures import DELAY, KINDS, RATE, none_if_nan
from rtclab.reproduce.paper import Paper
from rtclab.reproduce.results import Measured, Results
from rtclab.reproduce.trends import Finding, Trend


@dataclass(frozen=True)
class Compared:
    """A published number, ours, and the verdict."""

    cell: Cell
    ours: Measured
    verdict: Verdict

    @property
    def off_percent(self) -> float | None:
        """Difference of our mean from the published one, in per cent of it; None if it cannot be computed."""
        if not self.cell.mean or isnan(self.ours.mean):
            return None
        return 100 * (self.ours.mean - self.cell.mean) / self.cell.mean

    def as_dict(self) -> dict[str, object]:
        """The comparison as JSON values; NaN becomes None."""
        cell, summary = self.cell, self.ours.summary
        return {
            **{key: value for key, value in vars(cell).items() if value not in ("", None)},
            "mean": none_if_nan(cell.mean),
            "tolerance": none_if_nan(cell.tolerance),
            "ours": none_if_nan(summary.mean),
            "ours_within_sd": none_if_nan(self.ours.within_sd),
            "ours_sd_between_repeats": none_if_nan(summary.sd),
            "ours_ci95": none_if_nan(summary.ci95),
            "repeats": summary.repeats,
            "verdict": str(self.verdict),
        }


@dataclass(frozen=True)
class Count:
    """Number of cells of a kind that are within tolerance, and of those that can be compared."""

    kind: str
    within: int
    compared: int

    @property
    def percent(self) -> float:
        """Share of cells that are within tolerance; NaN if there are none."""
        return 100 * self.within / self.compared if self.compared else nan


@dataclass(frozen=True)
class Comparison:
    """A paper and our results."""

    paper: Paper
    results: Results

    @cached_property
    def cells(self) -> list[Compared]:
        """The comparison of every cell, in the order of the paper."""
        return [self._compare(cell) for cell in self.paper.cells]

    def _compare(self, cell: Cell) -> Compared:
        if cell.scenario:
            ours = self.results.measured(cell.scenario, cell.metric, self.paper.flows(cell))
        else:
            ours = Measured(summarise([EQUATIONS[cell.metric](cell.row, cell.column)]), nan)
        return Compared(cell, ours, verdict(cell, ours.mean))

    @cached_property
    def trends(self) -> list[tuple[Trend, Finding]]:
        """Every trend of the paper with its finding."""
        return [(trend, trend.check(self.results)) for trend in self.paper.trends]

    def of(self, table: str) -> list[Compared]:
        """The comparisons of the cells of a table."""
        return [one for one in self.cells if one.cell.table == table]

    def counts(self, *, overall: bool = False) -> list[Count]:
        """The count of each kind of cell; with ``overall``, only in rows over all machines."""
        counted = [self._count([kind], overall=overall) for kind in KINDS]
        return [count for count in counted if count.compared]

    def rates_and_delays(self, *, unexplained: bool = False) -> Count:
        """The count of rates and delays together, in rows over all machines if the paper has such rows.

        With ``unexplained``, cells that are not explained count as outside.
        """
        overall = any(cell.machine == OVERALL for cell in self.paper.cells)
        return self._count([RATE, DELAY], overall=overall, unexplained=unexplained)

    def _count(self, kinds: Sequence[str], *, overall: bool, unexplained: bool = False) -> Count:
        apart = {Verdict.UNUSABLE, Verdict.UNPUBLISHED}
        if not unexplained:
            apart.add(Verdict.NOT_EXPLAINED)
        cells = [one for one in self.cells if one.cell.kind in kinds and one.verdict not in apart]
        verdicts = [one.verdict for one in cells if one.cell.machine == OVERALL or not overall]
        return Count(" and ".join(kinds), verdicts.count(Verdict.WITHIN), len(verdicts))

    def verdicts(self) -> Counter[Verdict]:
        """Number of cells with each verdict."""
        return Counter(one.verdict for one in self.cells)

    def listed(self, *verdicts: Verdict) -> Iterator[Compared]:
        """The cells with one of these verdicts, in the order of the paper."""
        return (one for one in self.cells if one.verdict in verdicts)

    def as_dict(self) -> dict[str, object]:
        """The comparison as JSON values: everything in the report."""
        return {
            "paper": self.paper.name,
            "rates_and_delays": vars(self.rates_and_delays()),
            "with_unexplained": vars(self.rates_and_delays(unexplained=True)),
            "counts": [vars(count) | {"percent": none_if_nan(count.percent)} for count in self.counts()],
            "verdicts": {str(name): number for name, number in self.verdicts().items()},
            "trends": [
                trend.model_dump(exclude={"checks"}) | vars(finding) for trend, finding in self.trends
            ],
            "cells": [one.as_dict() for one in self.cells],
        }
