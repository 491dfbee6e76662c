"""The outcome of one check of a gate, and the sentence that says it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import polars as pl

from rtclab.metrics import METRICS
from rtclab.phrases import number

Verdict = Literal["holds", "broken", "not measured", "worse", "better", "undecided", "not worse", "new"]
FAILING: tuple[Verdict, ...] = ("broken", "not measured", "worse")
"""The verdicts that make a gate fail. What was not measured is unknown, and unknown is not a pass."""

CHECKS = pl.Schema(
    {
        **dict.fromkeys(("scenario", "check", "metric", "unit", "flow"), pl.String()),
        **dict.fromkeys(("base", "new", "difference", "difference_low", "difference_high"), pl.Float64()),
        **dict.fromkeys(("margin", "p"), pl.Float64()),
        "verdict": pl.String(),
        **dict.fromkeys(("repeats_needed", "broken", "repeats"), pl.Int64()),
        "fails": pl.Boolean(),
        "over_percent": pl.Float64(),
        "held_before": pl.Boolean(),
        "cause": pl.String(),
    }
)
"""The columns of the checks of a gate. The ones of a comparison have the names of ``rtclab.compare``."""


@dataclass(frozen=True)
class Check:
    """A limit, or a comparison of a metric with its baseline, for one flow of one scenario.

    ``check`` is the text of the limit, or the name of the compared metric. ``base`` is the bound of the
    limit, or the mean of the baseline. ``new`` is the mean over the ``repeats`` that were measured. Both are
    in the unit of the metric, and so are the ends of the 95 % interval of their difference and ``margin``, by
    which a compared metric may be worse. ``p`` is the probability of such a difference if the metric were no
    worse (one-sided). ``repeats_needed`` says how many repeats would decide what is undecided. ``broken`` is
    the number of repeats in which a limit does not hold. ``cause`` is a sentence of `rtclab why` about the
    worst flow of a check that fails; empty where it is not known. ``before`` is the baseline's mean of the
    metric of a limit. ``held_before`` says whether the check held in the baseline. Both are None if the
    baseline has no value.
    """

    scenario: str
    check: str
    metric: str
    flow: str
    verdict: Verdict
    base: float | None = None
    new: float | None = None
    difference_low: float | None = None
    difference_high: float | None = None
    margin: float | None = None
    p: float | None = None
    repeats_needed: int | None = None
    broken: int | None = None
    repeats: int = 0
    cause: str = ""
    before: float | None = None
    held_before: bool | None = None

    @property
    def fails(self) -> bool:
        """Whether the gate fails because of this check."""
        return self.verdict in FAILING

    @property
    def unit(self) -> str:
        """The unit of the metric."""
        return METRICS[self.metric].unit

    @property
    def compares(self) -> bool:
        """Whether this is a comparison with the baseline, and not a limit."""
        return self.check == self.metric

    @property
    def difference(self) -> float | None:
        """New minus base, None if one of them is unknown."""
        return None if self.new is None or self.base is None else self.new - self.base

    @property
    def over_percent(self) -> float | None:
        """Of a check that fails, how far the value is beyond the worst that passes, in % of the latter.

        The worst that passes is the bound of a limit, and of a comparison the baseline with its margin. None
        if that is 0, or a value is unknown.
        """
        passes = self.worst_that_passes
        if not self.fails or self.new is None or not passes:
            return None
        return 100 * abs(self.new - passes) / abs(passes)

    @property
    def worst_that_passes(self) -> float | None:
        """The bound of a limit, or the baseline's mean with its margin; None if that is not known."""
        if not self.compares or self.base is None or self.margin is None:
            return None if self.compares else self.base
        return self.base + (self.margin if METRICS[self.metric].better == "lower" else -self.margin)

    @property
    def since(self) -> str:
        """Whether the failure is ``new`` since the baseline or ``old``; empty if that is not known."""
        if not self.fails or self.held_before is None:
            return ""
        return "new" if self.held_before else "old"

    @property
    def excess(self) -> float:
        """How much worse the value is than the reference allows, in margins; for sorting.

        Of comparisons, 1 is exactly the margin. Of limits, it is the relative distance from the bound.
        """
        if self.difference is None:
            return float("inf") if self.fails else float("-inf")
        worse = self.difference if METRICS[self.metric].better == "lower" else -self.difference
        scale = self.margin or abs(self.base or 0) or 1
        if self.compares:
            return worse / scale
        return abs(self.difference) / scale * (1 if self.fails else -1)

    def sentence(self) -> str:
        """What came out: ``rtt_p95 < 150 ms: 182 ms for alice->bob, 32.3 ms too high, in 5 of 5 repeats``.

        The cause follows, if it is known.
        """
        return f"{self._outcome()}. Why: {self.cause}" if self.cause else self._outcome()

    def _outcome(self) -> str:
        subject = f"{self.check} of {self.flow}" if self.compares and self.flow else self.check
        if self.new is None:
            lost = f"; the baseline has {quantity(self.base, self)}" if self.compares else ""
            return f"{subject}: not measured{lost}"
        if not self.compares:
            return f"{subject}: {self._against_limit()}"
        if self.base is None:
            return f"{subject}: {quantity(self.new, self)}; the baseline has no value"
        return f"{subject}: {self._against_baseline()}"

    def _against_limit(self) -> str:
        of = f" for {self.flow}" if self.flow and f" of {self.flow} " not in self.check else ""
        text = f"{quantity(self.new, self)}{of}"
        if self.verdict == "broken" and self.difference is not None:
            side, beyond = "high" if self.difference > 0 else "low", abs(self.difference)
            text += f", {quantity(beyond, self)} too {side}" if beyond else ", exactly the limit"
        if self.verdict == "broken" and METRICS[self.metric].scope != "run":
            text += f", in {self.broken} of {self.repeats} repeats"
        return text

    def _against_baseline(self) -> str:
        text = f"{number(self.base)} before, {quantity(self.new, self)} now"
        if not self.difference:
            return text
        text += f": {quantity(abs(self.difference), self)} {'lower' if self.difference < 0 else 'higher'}"
        text += f" ({abs(100 * self.difference / self.base):.1f} %)" if self.base else ""
        chance = "" if self.p is None else f", p = {self.p:.2g}"
        return f"{text}, allowed {quantity(self.margin, self)}{chance}"


def checks_table(checks: Sequence[Check]) -> pl.DataFrame:
    """A row for each check, with the columns of ``CHECKS``."""
    rows = [tuple(getattr(check, column) for column in CHECKS.names()) for check in checks]
    return pl.DataFrame(rows, schema=CHECKS, orient="row")


def quantity(value: float | None, check: Check) -> str:
    """A number in the unit of the check's metric."""
    return f"{number(value)} {check.unit}".rstrip()
