"""Trends: statements of a paper, with checks that decide whether they hold in our results.

Trends are written in ``published/<paper>.toml``; docs/add-a-paper.md shows how.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from math import nan
from typing import Annotated, Any, ClassVar, Literal, Self

import numpy as np
from pydantic import BeforeValidator, Field, InstanceOf, field_validator, model_validator

from rtclab.errors import FieldError
from rtclab.report.words import number
from rtclab.reproduce.cells import RELATIVE, Metric
from rtclab.reproduce.measures import WINDOW_S
from rtclab.reproduce.results import EVERY_FLOW, Results, mean_of_known
from rtclab.scenario.table import Table

RELATIONS: dict[str, Callable[[float, float], float]] = {
    "percent_of": lambda ours, other: 100 * ours / other,
    "percent_below": lambda ours, other: 100 - 100 * ours / other,
    "ratio_to": lambda ours, other: ours / other,
    "minus": lambda ours, other: ours - other,
}
"""Relations of a quantity to another one, by key in TOML."""
SHARED = ("metric", "scenario", "flows", "window_s", "combine")
"""Keys that a nested quantity inherits from the outer one, unless it has its own."""
KEPT, BROKEN, UNTESTABLE = OUTCOMES = ("kept", "broken", "untestable here")
"""The possible outcomes of a statement."""
Need = tuple[str, str]
"""A scenario, and the name of a value to measure in it."""


@dataclass(frozen=True)
class Finding:
    """Whether a statement is kept, and the numbers that show it; or why it cannot be tested here."""

    holds: bool
    figures: str
    testable: bool = True

    @property
    def outcome(self) -> str:
        """The finding in words."""
        if not self.testable:
            return UNTESTABLE
        return KEPT if self.holds else BROKEN


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
        inner = {key: _inherit(shared, data[key]) for key in ("mean_of", *RELATIONS) if key in data}
        if "each" in data:
            inner["each"] = _inherit(
                {key: data[key] for key in Quantity.key_names() if key in data}, data["each"]
            )
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

    def of(self, results: Results) -> float:
        """The number; NaN if nothing was measured."""
        ours = self._unrelated(results)
        for key, related in RELATIONS.items():
            other: Quantity | None = getattr(self, key)
            if other is not None:
                ours = related(ours, other.of(results) or nan)
        return ours

    def _unrelated(self, results: Results) -> float:
        """The number before it is related to another one."""
        if self.value is not None:
            return self.value
        if self.mean_of:
            return float(np.mean([one.of(results) for one in self.mean_of]))
        if self.combine == "jain":
            return self._jain(results)
        if self.combine == "sum":
            flows = results.flows(self.scenario, self.flows)
            sums = [[results.mean(self.scenario, name, flow) for flow in flows] for name in self._names]
            return mean_of_known(float(np.nansum(of_flows)) for of_flows in sums)
        return mean_of_known(
            results.mean(self.scenario, name, flows) for name in self._names for flows in self.flows
        )

    @property
    def _names(self) -> list[str]:
        """The names of the measured values: the metric's own, or one for each ten seconds of the window."""
        if self.window_s is None:
            return [self.metric or ""]
        return [f"{self.metric}@{begin_s}" for begin_s in range(*self.window_s, WINDOW_S)]

    def _jain(self, results: Results) -> float:
        """Mean over repeats of Jain's index, (Σ x)² / (n Σ x²), of the flows that have values."""
        rates = []
        for flow in results.flows(self.scenario, self.flows):
            windows = [results.per_repeat(self.scenario, name, flow) for name in self._names]
            rates.append([mean_of_known(mean for mean, _ in of) for of in zip(*windows, strict=True)])
        known = np.array([of_flow for of_flow in rates if not np.isnan(of_flow).all()])
        return float((known.sum(axis=0) ** 2 / (len(known) * (known**2).sum(axis=0))).mean())


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
    def check(self, results: Results) -> Finding:
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

    def check(self, results: Results) -> Finding:
        """Whether all quantities meet the condition, and their values."""
        values = [one.of(results) for one in self.each or [self]]
        figures = f"{', '.join(map(number, values))} {self.unit}".strip()
        if self.bounds is None:
            return Finding(all(later < earlier for earlier, later in pairwise(values)), figures)
        low, high = self.bounds
        return Finding(all(low <= value <= high for value in values), figures)


class Trend(Table):
    """A statement of a paper in our words. It is kept if our results meet all ``checks``.

    ``how`` describes the checks in words. ``reason`` says why the statement is broken, if that is known.
    ``untestable`` says why it cannot be tested here; then there are no checks.
    """

    statement: str
    source: str
    how: str = ""
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

    def check(self, results: Results) -> Finding:
        """Whether the statement is kept, and the numbers that show it."""
        if self.untestable:
            return Finding(False, self.untestable, testable=False)
        if not all(results.repeats_of(scenario) for scenario, _ in self.needs):
            return Finding(False, "not measured")
        findings = [one.check(results) for one in self.checks]
        return Finding(all(one.holds for one in findings), "; ".join(one.figures for one in findings))


def _inherit(shared: dict[str, Any], inner: Any) -> Any:
    """Adds the keys of ``shared`` to a table, or to each table of an array, unless it has them."""
    if isinstance(inner, dict):
        return shared | inner
    return [_inherit(shared, one) for one in inner] if isinstance(inner, list) else inner
