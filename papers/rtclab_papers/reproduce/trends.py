"""Trends: statements of a paper, with checks that decide whether they hold in our results.

Trends are written in ``published/<paper>.toml``; docs/add-a-paper.md shows how.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from math import inf, nan
from typing import Annotated, Any, ClassVar, Literal, Self

import numpy as np
from pydantic import BeforeValidator, Field, InstanceOf, field_validator, model_validator

from rtclab.errors import FieldError
from rtclab.metrics import Array, Jackknife
from rtclab.scenario import Table
from rtclab_papers.reproduce.estimate import (
    SMALLEST,
    Estimate,
    Outcome,
    jackknifed,
    mean_of,
    proportion,
)
from rtclab_papers.reproduce.measurements import EVERY_FLOW, Measurements, mean_of_known
from rtclab_papers.reproduce.measures import MEASURES, WINDOW_S
from rtclab_papers.reproduce.published_cells import RELATIVE, Metric

RELATIONS: dict[str, Callable[[Array, Array], Array]] = {
    "percent_of": lambda ours, other: 100 * ours / other,
    "percent_below": lambda ours, other: 100 - 100 * ours / other,
    "ratio_to": lambda ours, other: ours / other,
    "minus": lambda ours, other: ours - other,
}
"""Relations of a quantity to another one, by key in TOML."""
SHARED = ("metric", "scenario", "flows", "window_s", "combine")
"""Keys that a nested quantity inherits from the outer one, unless it has its own."""
Need = tuple[str, str]
"""A scenario, and the name of a value to measure in it."""
MOST_REPEATS = 10_000
"""If more repeats than this would be needed to decide a check, the number is on its bound."""


@dataclass(frozen=True)
class Finding:
    """The outcome of a check or a statement, and the numbers that show it or the reason why there are none.

    ``repeats_needed`` is about how many repeats would decide it if it is undecided.
    """

    outcome: Outcome
    figures: str
    repeats_needed: float = 0

    @property
    def holds(self) -> bool:
        """Whether the statement is kept."""
        return self.outcome == Outcome.KEPT

    @property
    def testable(self) -> bool:
        """Whether the simulator can test the statement at all."""
        return self.outcome != Outcome.UNTESTABLE

    @property
    def would_decide(self) -> str:
        """How many repeats would decide an undecided check, as text; empty for other outcomes."""
        if self.outcome != Outcome.UNDECIDED:
            return ""
        if self.repeats_needed > MOST_REPEATS:
            return "our number is on the bound"
        return f"about {self.repeats_needed:.0f} calls would decide"


def together(findings: Iterable[tuple[Outcome, float]]) -> tuple[Outcome, float]:
    """The outcome of several checks together, and how many repeats would decide it.

    They are kept together if each is kept, and contradicted if one is contradicted.
    """
    found = list(findings)
    outcomes = [outcome for outcome, _ in found]
    for worst in (Outcome.MISSING, Outcome.CONTRADICTED, Outcome.UNDECIDED):
        if worst in outcomes:
            return worst, max(repeats for outcome, repeats in found if outcome == worst)
    return Outcome.KEPT, 0


class Quantity(Table):
    """A number from our results, optionally related to another one.

    It is a metric of a scenario, a constant (``value``), or the mean of other quantities (``mean_of``).
    ``flows`` are patterns of flows. ``combine`` says how the values of several flows become one: mean, sum,
    or Jain's index. With ``window_s`` it is the mean from begin to end, in seconds.
    """

    metric: Metric | None = None
    scenario: str = ""
    flows: Annotated[tuple[str, ...], BeforeValidator(lambda of: (of,) if isinstance(of, str) else of)] = (
        EVERY_FLOW,
    )
    window_s: tuple[int, int] | None = None
    combine: Literal["mean", "sum", "jain"] = "mean"
    value: float | None = None
    mean_of: tuple[Quantity, ...] = ()
    percent_of: Quantity | None = None
    percent_below: Quantity | None = None
    ratio_to: Quantity | None = None
    minus: Quantity | None = None

    @model_validator(mode="before")
    @classmethod
    def _nested_quantities_inherit(cls, data: Any) -> Any:
        if not isinstance(data, dict):
            return data
        shared = {key: data[key] for key in SHARED if key in data}
        inner = {key: _inherit(shared, data[key]) for key in RELATIONS if key in data}
        if "mean_of" in data:
            inner["mean_of"] = _inherit(shared, in_rows(data["mean_of"]))
        if "each" in data:
            own = {key: data[key] for key in Quantity.key_names() if key in data}
            inner["each"] = _inherit(own, in_rows(data["each"]))
        return data | inner

    @model_validator(mode="after")
    def _has_a_source(self) -> Self:
        known = self.value is not None or self.mean_of or getattr(self, "each", None)
        for key in () if known else ("metric", "scenario"):
            if not getattr(self, key):
                raise FieldError("missing", key=key)
        return self

    @field_validator("window_s")
    @classmethod
    def _has_whole_windows(cls, window_s: tuple[int, int] | None) -> tuple[int, int] | None:
        begin_s, end_s = window_s or (0, WINDOW_S)
        if begin_s >= end_s or begin_s % WINDOW_S or end_s % WINDOW_S:
            raise FieldError(f"expected whole tens of seconds; got {begin_s} to {end_s}")
        return window_s

    @property
    def needs(self) -> list[Need]:
        """What must be measured for this quantity and for the quantities that it is related to."""
        others = [getattr(self, key) for key in RELATIONS]
        own = (
            [] if self.mean_of or self.value is not None else [(self.scenario, name) for name in self._names]
        )
        return [*own, *(need for one in (*self.mean_of, *others) if one for need in one.needs)]

    def of(self, results: Measurements) -> float:
        """The number; NaN if nothing was measured."""
        return self.statistic(results).whole

    def estimate(self, results: Measurements) -> Estimate:
        """The number with its 95 % interval."""
        plain = self.value is None and not self.mean_of and not self._related and self.combine == "mean"
        if (
            plain
            and len(self._names) == len(self.flows) == 1
            and MEASURES[self._names[0].partition("@")[0]].is_share
        ):
            values = results.per_repeat(self.scenario, self._names[0], self.flows[0])
            return proportion(nan if value is None else value for value, _ in values)
        return jackknifed(self.statistic(results))

    def statistic(self, results: Measurements) -> Jackknife:
        """The number, computed from all repeats and without each of them."""
        ours = self._unrelated(results)
        for key, other in self._related.items():
            ours = Jackknife.combine(partial(_against, RELATIONS[key]), [ours, other.statistic(results)])
        return ours

    @property
    def _related(self) -> dict[str, Quantity]:
        """The quantities that this one is related to, by the key of the relation."""
        return {key: other for key in RELATIONS if (other := getattr(self, key)) is not None}

    def _unrelated(self, results: Measurements) -> Jackknife:
        """The number before it is related to another one."""
        if self.value is not None:
            return Jackknife.constant(self.value)
        if self.mean_of:
            return Jackknife.combine(
                lambda table: table.mean(axis=0), [one.statistic(results) for one in self.mean_of]
            )
        if self.combine == "jain":
            return self._jain(results)
        if self.combine == "sum":
            flows = results.flows(self.scenario, self.flows)
            return mean_of(
                [
                    Jackknife.combine(
                        lambda table: np.nansum(table, axis=0),
                        [results.statistic(self.scenario, name, flow) for flow in flows],
                    )
                    for name in self._names
                ]
            )
        return mean_of(
            [results.statistic(self.scenario, name, flows) for name in self._names for flows in self.flows]
        )

    @property
    def _names(self) -> list[str]:
        """The names of the measured values: the metric's own, or one for each ten seconds of the window."""
        if self.window_s is None:
            return [self.metric or ""]
        return [f"{self.metric}@{begin_s}" for begin_s in range(*self.window_s, WINDOW_S)]

    def _jain(self, results: Measurements) -> Jackknife:
        """Mean over repeats of Jain's index, (Σ x)² / (n Σ x²), of the flows that have values."""
        rates = []
        for flow in results.flows(self.scenario, self.flows):
            windows = [results.per_repeat(self.scenario, name, flow) for name in self._names]
            rates.append([mean_of_known(mean for mean, _ in of) for of in zip(*windows, strict=True)])
        known = np.array([of_flow for of_flow in rates if not np.isnan(of_flow).all()])
        return Jackknife.mean(known.sum(axis=0) ** 2 / (len(known) * (known**2).sum(axis=0)))


def _against(relation: Callable[[Array, Array], Array], table: Array) -> Array:
    """Relates the first row of a table to the second; nothing is related to 0."""
    return relation(table[0], np.where(table[1] == 0, nan, table[1]))


class Check(Table):
    """A condition that our results must meet for a trend to hold.

    ``between`` has the lower and the upper bound. ``near`` is a published number; the bounds are 20 % below
    and above it, which is the tolerance of published rates.
    """

    one_of: ClassVar[tuple[str, ...]] = ("between", "near")
    """A check must have exactly one of these keys."""

    between: tuple[float, float] | None = None
    near: float | None = None

    @model_validator(mode="after")
    def _has_one(self) -> Self:
        given = [key for key in self.one_of if getattr(self, key) not in (None, False)]
        if len(given) != 1:
            raise FieldError(f"expected one of {', '.join(self.one_of)}; got {', '.join(given) or 'none'}")
        if self.between is not None and self.between[0] > self.between[1]:
            low, high = self.between
            raise FieldError(f"expected the smaller bound first; got {low:g} and {high:g}", key="between")
        return self

    @property
    def bounds(self) -> tuple[float, float] | None:
        """The lower and the upper bound; None if the check has no bounds."""
        if self.near is None:
            return self.between
        low, high = sorted((self.near * (1 - RELATIVE), self.near * (1 + RELATIVE)))
        return low, high

    @property
    @abstractmethod
    def needs(self) -> list[Need]:
        """What must be measured for the check."""

    @abstractmethod
    def check(self, results: Measurements) -> Finding:
        """Whether our results meet the condition, and the numbers that show it."""


class Numbers(Quantity, Check):
    """Checks that every quantity is within bounds, or smaller than the previous one (``falling``).

    ``each`` has the quantities; they inherit the other keys. Without ``each``, the other keys are the only
    quantity.
    """

    one_of: ClassVar[tuple[str, ...]] = (*Check.one_of, "falling")

    each: tuple[Quantity, ...] | None = Field(default=None, min_length=1)
    falling: bool = False
    unit: str = ""

    @property
    def needs(self) -> list[Need]:
        """What must be measured for all quantities."""
        return [need for one in self.each for need in one.needs] if self.each else super().needs

    def check(self, results: Measurements) -> Finding:
        """Whether all quantities meet the condition, and their values with their intervals."""
        quantities = self.each or (self,)
        shown = [one.estimate(results) for one in quantities]
        figures = f"{', '.join(map(str, shown))} {self.unit}".strip()
        if self.bounds is not None:
            judged, (low, high) = shown, self.bounds
        else:
            # Each minus the one before it.
            found = [one.statistic(results) for one in quantities]
            steps = [Jackknife.combine(lambda table: table[1] - table[0], pair) for pair in pairwise(found)]
            judged, (low, high) = [jackknifed(step) for step in steps], (-inf, -SMALLEST)
        outcome, repeats = together((one.within(low, high), one.repeats_needed(low, high)) for one in judged)
        return Finding(outcome, figures, repeats)


class Trend(Table):
    """A statement of a paper in our words. It is kept if our results meet all ``checks``.

    ``how`` describes the checks in words. ``reason`` says why the statement is not kept, if that is known.
    ``fitted`` says which choice in the model was made by the statement, or puts it in. ``untestable`` says
    why it cannot be tested here; then there are no checks.
    """

    statement: str
    source: str
    how: str = ""
    fitted: str = ""
    checks: tuple[InstanceOf[Check], ...] = ()
    reason: str = ""
    untestable: str = ""

    @model_validator(mode="after")
    def _can_be_judged(self) -> Self:
        if bool(self.checks) == bool(self.untestable):
            raise FieldError("expected either checks or `untestable`", key="checks")
        if self.checks and not self.how:
            raise FieldError("missing", key="how")
        return self

    @property
    def needs(self) -> list[Need]:
        """What must be measured for the trend."""
        return [need for one in self.checks for need in one.needs]

    def check(self, results: Measurements) -> Finding:
        """Whether the statement is kept, and the numbers that show it."""
        if self.untestable:
            return Finding(Outcome.UNTESTABLE, self.untestable)
        if not all(results.repeats_of(scenario) for scenario, _ in self.needs):
            return Finding(Outcome.MISSING, "not measured")
        findings = [one.check(results) for one in self.checks]
        outcome, repeats = together((one.outcome, one.repeats_needed) for one in findings)
        return Finding(outcome, "; ".join(one.figures for one in findings), repeats)


def in_rows(several: Any) -> Any:
    """An array of tables. It may also be written as one table, in which some keys have an array of values."""
    if not isinstance(several, dict):
        return several
    columns = {key: values for key, values in several.items() if isinstance(values, list)}
    if len({len(values) for values in columns.values()}) != 1:
        raise FieldError("expected arrays with the same number of values")
    return [several | dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]


def _inherit(shared: dict[str, Any], inner: Any) -> Any:
    """Adds the keys of ``shared`` to a table, or to each table of an array, unless it has them."""
    if isinstance(inner, dict):
        return shared | inner
    return [_inherit(shared, one) for one in inner] if isinstance(inner, list) else inner
