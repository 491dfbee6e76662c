"""Readings of a paper beside each other: which cells each keeps, and which agrees better with what."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import exp, log
from statistics import median

from rtclab_papers.reproduce.cells import Verdict
from rtclab_papers.reproduce.comparison import Compared, Comparison
from rtclab_papers.reproduce.measures import KINDS
from rtclab_papers.reproduce.readings import CellReadings

EQUAL = 0.01
"""Median errors that differ by less than 1 % of the published numbers do not decide between readings."""


@dataclass(frozen=True)
class Judged:
    """A set of readings with our numbers: by the words of a reading, the comparison of each cell."""

    readings: CellReadings
    by_reading: Mapping[str, Sequence[Compared]]

    @property
    def is_measured(self) -> bool:
        """Whether all readings were simulated."""
        return all(one.verdict != Verdict.MISSING for of in self.by_reading.values() for one in of)

    @property
    def rows(self) -> list[tuple[Compared, ...]]:
        """The comparisons of each cell, in the order of the readings."""
        return list(zip(*self.by_reading.values(), strict=True))

    def kept(self, words: str) -> str:
        """How many cells of each kind a reading keeps, as text."""
        parts = []
        for kind in KINDS:
            of_kind = _comparable(self.by_reading[words], kind)
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


def _comparable(of: Sequence[Compared], kind: str) -> list[Compared]:
    return [one for one in of if one.cell.kind == kind and one.verdict != Verdict.UNUSABLE]


def _median_error(of: Sequence[Compared], kind: str) -> float | None:
    """Median over the cells of |ln(ours / published)|; None if no cell has both numbers above zero.

    Numbers that follow from the configuration are left out, because every reading agrees with them.
    """
    errors = [
        abs(log(one.ours.mean / one.cell.mean))
        for one in _comparable(of, kind)
        if one.ours.mean > 0 and one.cell.mean > 0 and not one.follows
    ]
    return median(errors) if errors else None


def judged(comparison: Comparison) -> list[Judged]:
    """The readings of a paper that were simulated, each with the comparison of its cells."""
    found = [_judged(one, comparison) for one in comparison.paper.readings_of_cells]
    return [one for one in found if one.is_measured]


def _judged(readings: CellReadings, comparison: Comparison) -> Judged:
    cells = readings.cells(comparison.paper.cells)
    suffixes = {readings.first: ""} | readings.others
    return Judged(
        readings,
        {
            words: [
                comparison.compare(cell.model_copy(update={"scenario": cell.scenario + suffix}))
                for cell in cells
            ]
            for words, suffix in suffixes.items()
        },
    )
