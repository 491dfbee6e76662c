"""Compares a paper with our results: a verdict for every cell, a finding for every trend."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import exp, log, nan
from statistics import median

from rtclab.metrics import summarise
from rtclab.report import number
from rtclab_papers.reproduce.ambiguities import Ambiguity, ReadingNumbers
from rtclab_papers.reproduce.changes import Changes
from rtclab_papers.reproduce.configured import configured
from rtclab_papers.reproduce.equations import EQUATIONS
from rtclab_papers.reproduce.estimate import Estimate, Outcome, estimate_of, exactly
from rtclab_papers.reproduce.measurements import Measured, Measurements
from rtclab_papers.reproduce.measures import DELAY, EQUATION, KINDS, LOSS, none_if_nan
from rtclab_papers.reproduce.null_model import null_of
from rtclab_papers.reproduce.paper import NUMBER_IN_TEXT, Paper
from rtclab_papers.reproduce.published_cells import Cell, Verdict, verdict
from rtclab_papers.reproduce.readings import CellReadings
from rtclab_papers.reproduce.trends import MOST_REPEATS, Finding, Trend

APART = (Verdict.UNUSABLE, Verdict.UNPUBLISHED)
"""Verdicts on cells without a published number to compare with."""
FEW_CALLS = 20
"""Number of calls that can show a coincidence. If none of 20 is within the tolerance, less than 3 / 20 = 15 %
of all calls are, in 95 % of cases.

Source: J. A. Hanley, A. Lippman-Hand, "If nothing goes wrong, is everything all right?", JAMA 249 (1983)."""


@dataclass(frozen=True)
class ComparedCell:
    """A published number, ours, and the verdict.

    Attributes:
        cell: the published number.
        ours: our measurement.
        configured: the delay that the authors set, in ms, if the number is a delay; else 0.
        is_fitted: whether the number was used to choose a parameter of the model.
        null: the null model's number; NaN if it has none.
        calls: the values that are averaged: of each flow in each repeat.
    """

    cell: Cell
    ours: Measured
    configured: float = 0.0
    is_fitted: bool = False
    null: float = nan
    calls: Sequence[float] = ()

    @property
    def verdict(self) -> Verdict:
        """The verdict on our mean, which does not count if it agrees by coincidence."""
        return Verdict.CONTRADICTED if self.is_coincidence else self._of_mean

    @cached_property
    def estimate(self) -> Estimate:
        """Our mean over the repeats, with its 95 % interval."""
        if self.cell.kind == EQUATION:
            return exactly(self.ours.mean)
        return estimate_of(self.ours.summary)

    @cached_property
    def _of_mean(self) -> Verdict:
        return verdict(self.cell, self.estimate, self.configured)

    @cached_property
    def is_coincidence(self) -> bool:
        """Whether the mean may be within the tolerance although none of the calls averaged is."""
        accepted = (self.cell.accepts(call, self.configured) for call in self.calls)
        may_be = self._of_mean in (Verdict.KEPT, Verdict.UNDECIDED)
        return may_be and len(self.calls) >= FEW_CALLS and not any(accepted)

    @property
    def null_is_within(self) -> bool:
        """Whether the null model is within the tolerance."""
        return self.cell.accepts(self.null, self.configured)

    @property
    def follows(self) -> bool:
        """Whether the number follows from the configuration, so that any model would agree with it."""
        if self.cell.kind not in (DELAY, LOSS):
            return False
        value = configured(self.cell.scenario).of(self.cell.metric)
        return value is not None and self.cell.accepts(value, self.configured)

    def as_dict(self) -> dict[str, object]:
        """The comparison as JSON values: published (base), ours (new), and the verdict. NaN becomes None."""
        cell, summary = self.cell, self.ours.summary
        return {
            **{key: value for key, value in vars(cell).items() if key != "mean" and value not in ("", None)},
            "base": none_if_nan(cell.mean),
            "tolerance": none_if_nan(cell.tolerance(self.configured)),
            "new": none_if_nan(summary.mean),
            "new_low": none_if_nan(self.estimate.low),
            "new_high": none_if_nan(self.estimate.high),
            "difference": none_if_nan(summary.mean - cell.mean),
            "new_sd_within_repeats": none_if_nan(self.ours.within_sd),
            "new_sd_between_repeats": none_if_nan(summary.sd),
            "repeats": summary.repeats,
            "verdict": str(self.verdict),
            "repeats_needed": self._would_decide(),
            "coincidence": self.is_coincidence,
            "fitted": self.is_fitted,
            "null_model": none_if_nan(self.null),
            "follows_from_configuration": self.follows,
        }

    def _would_decide(self) -> int | None:
        """About how many repeats would decide a cell that is undecided; see :class:`Estimate`."""
        if self.verdict != Verdict.UNDECIDED:
            return None
        needed = self.estimate.repeats_needed(*self.cell.bounds(self.configured))
        return int(needed) if needed < MOST_REPEATS else None


@dataclass(frozen=True)
class Comparison:
    """A paper and our results."""

    paper: Paper
    results: Measurements

    @cached_property
    def cells(self) -> list[ComparedCell]:
        """The comparison of every cell, in the order of the paper."""
        return [self.compare(cell) for cell in self.paper.cells]

    def compare(self, cell: Cell) -> ComparedCell:
        """The comparison of a cell with our number."""
        calls: list[float] = []
        if cell.scenario:
            what = (cell.scenario, cell.metric, self.paper.flows(cell))
            ours, calls = self.results.measured(*what), self.results.calls(*what)
        else:
            ours = Measured(summarise([EQUATIONS[cell.metric](cell.row, cell.column)]), nan)
        delay = configured(cell.scenario).of(cell.metric) if cell.kind == DELAY else None
        null = null_of(self.paper.null, cell)
        return ComparedCell(cell, ours, delay or 0.0, self.paper.is_fitted(cell), null, calls)

    @cached_property
    def trends(self) -> list[tuple[Trend, Finding]]:
        """Every trend of the paper with its finding."""
        return [(trend, trend.check(self.results)) for trend in self.paper.trends]

    @cached_property
    def ambiguities(self) -> list[tuple[Ambiguity, list[ReadingNumbers]]]:
        """Every condition that the paper leaves open, with the numbers of both readings."""
        return [(one, one.rows(self.results)) for one in self.paper.ambiguities]

    @cached_property
    def changes_by_reading(self) -> list[tuple[Trend, dict[str, tuple[Outcome, str]]]]:
        """Each statement on the effect of a setting, with its outcome and the mean change in each reading.

        Readings that were not run are left out, and statements if fewer than two readings were.
        """
        rows = []
        for trend in self.paper.trends:
            for check in trend.checks:
                if isinstance(check, Changes):
                    found = check.found(self.results)
                    judged = {label: (check.judge(of)[0], check.in_short(of)) for label, of in found.items()}
                    rows += [(trend, judged)] if len(judged) > 1 else []
        return rows

    def words(self, text: str) -> str:
        """The text with our numbers in place of their names in braces."""
        return re.sub(
            NUMBER_IN_TEXT, lambda found: number(self.paper.numbers[found[1]].of(self.results)), text
        )

    def of(self, table: str) -> list[ComparedCell]:
        """The comparisons of the cells of a table."""
        return [one for one in self.cells if one.cell.table == table]

    def counts(self) -> list[dict[str, object]]:
        """By kind of cell, how many are within tolerance and how many can be compared, as JSON values."""
        counts: list[dict[str, object]] = []
        for kind in KINDS:
            verdicts = [one.verdict for one in comparable(self.cells, kind)]
            if verdicts:
                kept, compared = verdicts.count(Verdict.KEPT), len(verdicts)
                percent = 100 * kept / compared
                counts.append({"kind": kind, "within": kept, "compared": compared, "percent": percent})
        return counts

    def verdicts(self) -> Counter[Verdict]:
        """Number of cells with each verdict."""
        return Counter(one.verdict for one in self.cells)

    def outcomes(self) -> Counter[str]:
        """Number of statements with each outcome."""
        return Counter(str(finding.outcome) for _, finding in self.trends)

    def explained(self) -> list[ComparedCell]:
        """The cells that are not kept for which the paper's file has a reason, in the order of the paper."""
        not_kept = (Verdict.CONTRADICTED, Verdict.UNDECIDED)
        return [one for one in self.cells if one.verdict in not_kept and one.cell.status]

    def as_dict(self) -> dict[str, object]:
        """The comparison as JSON values: everything in the report."""
        return {
            "paper": self.paper.name,
            "counts": self.counts(),
            "verdicts": {str(name): number for name, number in self.verdicts().items()},
            "trends": [
                trend.model_dump(exclude={"checks"})
                | {
                    "outcome": str(finding.outcome),
                    "figures": finding.figures,
                    "would_decide": finding.would_decide,
                }
                for trend, finding in self.trends
            ],
            "ambiguities": [
                reading.model_dump(exclude={"numbers"}) | {"numbers": [row.as_dict() for row in rows]}
                for reading, rows in self.ambiguities
            ],
            "cells": [one.as_dict() for one in self.cells],
        }


EQUAL = 0.01
"""Median errors that differ by less than 1 % of the published numbers do not decide between readings."""


@dataclass(frozen=True)
class ComparedReadings:
    """A set of readings with our numbers: by the words of a reading, the comparison of each cell."""

    readings: CellReadings
    by_reading: Mapping[str, Sequence[ComparedCell]]

    @property
    def is_measured(self) -> bool:
        """Whether all readings were simulated."""
        return all(one.verdict != Verdict.MISSING for of in self.by_reading.values() for one in of)

    @property
    def rows(self) -> list[tuple[ComparedCell, ...]]:
        """The comparisons of each cell, in the order of the readings."""
        return list(zip(*self.by_reading.values(), strict=True))

    def kept(self, words: str) -> str:
        """How many cells of each kind a reading keeps, as text."""
        parts = []
        for kind in KINDS:
            of_kind = comparable(self.by_reading[words], kind)
            kept = sum(one.verdict == Verdict.KEPT for one in of_kind)
            parts += [f"{kind} {kept} of {len(of_kind)}"] if of_kind else []
        return ", ".join(parts)

    @property
    def verdict(self) -> str:
        """Which reading agrees better with the numbers of each kind, as a sentence."""
        parts = []
        for kind in KINDS:
            errors = {words: _median_error(of, kind) for words, of in self.by_reading.items()}
            known = {words: error for words, error in errors.items() if error is not None}
            if not known:
                continue
            best = min(known.values())
            equal = [words for words, error in known.items() if error - best < EQUAL]
            if len(equal) == len(known):
                parts.append(f"{_PLURALS[kind]} agree equally well (median factor {exp(best):.2f})")
            else:
                off = ", ".join(f"{words} {exp(error):.2f}" for words, error in known.items())
                parts.append(f"{_PLURALS[kind]} agree best with {' and '.join(equal)} (median factor: {off})")
        text = "; ".join(parts)
        return f"{text[:1].upper()}{text[1:]}." if text else ""


_PLURALS = {"rate": "rates", "delay": "delays", "loss": "losses", "other": "other numbers"}


def comparable(of: Sequence[ComparedCell], kind: str) -> list[ComparedCell]:
    """The cells of a kind that have a published number to compare with."""
    return [one for one in of if one.cell.kind == kind and one.verdict not in APART]


def _median_error(of: Sequence[ComparedCell], kind: str) -> float | None:
    """Median over the cells of |ln(ours / published)|; None if no cell has both numbers above zero.

    Numbers that follow from the configuration are left out, because every reading agrees with them.
    """
    errors = [
        abs(log(one.ours.mean / one.cell.mean))
        for one in comparable(of, kind)
        if one.ours.mean > 0 and one.cell.mean > 0 and not one.follows
    ]
    return median(errors) if errors else None


def compared_readings(comparison: Comparison) -> list[ComparedReadings]:
    """The readings of a paper that were simulated, each with the comparison of its cells."""
    found = []
    for readings in comparison.paper.readings_of_cells:
        cells = readings.cells(comparison.paper.cells)
        by_reading = {
            words: [
                comparison.compare(cell.model_copy(update={"scenario": cell.scenario + suffix}))
                for cell in cells
            ]
            for words, suffix in ({readings.first: ""} | readings.others).items()
        }
        found.append(ComparedReadings(readings, by_reading))
    return [one for one in found if one.is_measured]
