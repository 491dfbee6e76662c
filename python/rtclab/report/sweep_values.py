"""Values of a sweep as its page shows them: the worst flows, limits, and amounts in words."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import nan

import polars as pl

from rtclab.metrics import METRICS, Metric, essentials
from rtclab.report.quality import SCALES
from rtclab.report.words import number

RATE, FREEZES, LOSS = "receiving_rate", "freeze_duration", "packet_loss"
DELAYS = ("picture_delay", "sound_delay", "queuing_delay_p95")
DECIDING = (RATE, FREEZES, *DELAYS, LOSS)
"""The metrics that decide how good a condition is, in the order of the page."""


@dataclass(frozen=True)
class DrawnLimit:
    """A value that a metric should not exceed, in the metric's unit, and who says so."""

    value: float
    words: str
    source: str


LIMITS: dict[str, tuple[DrawnLimit, ...]] = {
    name: tuple(DrawnLimit(value, f"{value:g} ms", scale.source) for value in (scale.good, scale.bad))
    for name, scale in SCALES.items()
    if name in DELAYS
}
LIMITS[FREEZES] = (DrawnLimit(0, "any freeze", ""),)
"""The limits of metrics that have any, in ascending order."""


@dataclass(frozen=True)
class Interval:
    """A mean over repeats with its 95 % interval, of the flow that has it.

    The ends are NaN for a single repeat. They are the mean if all repeats gave the same value.
    """

    mean: float
    low: float
    high: float
    flow: str
    repeats: int

    def apart(self, other: Interval) -> bool:
        """Whether the intervals do not overlap; never for single repeats."""
        return self.high < other.low or other.high < self.low

    def meets(self, other: Interval) -> bool:
        """Whether the intervals overlap, or the means are equal."""
        return self.mean == other.mean or (self.low <= other.high and other.low <= self.high)


def estimate(row: Mapping[str, object]) -> Interval:
    """The estimate in a row of a summary."""
    mean, repeats = float(str(row["mean"])), int(str(row["repeats"]))
    if repeats < 2:
        return Interval(mean, nan, nan, str(row["flow"]), repeats)
    low, high = (mean if row[end] is None else float(str(row[end])) for end in ("ci95_low", "ci95_high"))
    return Interval(mean, low, high, str(row["flow"]), repeats)


def worst(metric: Metric, found: Iterable[Interval]) -> Interval:
    """The worst of the estimates of several flows; the largest one if no direction is better."""
    return (min if metric.better == "higher" else max)(found, key=lambda one: one.mean)


def best(metric: Metric, found: Iterable[Interval]) -> Interval:
    """The best of several estimates; the smallest one if no direction is better."""
    return (max if metric.better == "higher" else min)(found, key=lambda one: one.mean)


def by_point(rows: pl.DataFrame, fields: Sequence[str]) -> dict[tuple[str, ...], dict[str, Interval]]:
    """The estimates of one metric's summary, by the values of some fields, and by flow."""
    found: dict[tuple[str, ...], dict[str, Interval]] = {}
    for row in rows.drop_nulls("mean").iter_rows(named=True):
        found.setdefault(tuple(str(row[name]) for name in fields), {})[row["flow"]] = estimate(row)
    return found


def worst_by_point(rows: pl.DataFrame, fields: Sequence[str]) -> dict[tuple[str, ...], Interval]:
    """The worst flow's estimate in one metric's summary, by the values of some fields."""
    if rows.is_empty():
        return {}
    metric = METRICS[rows["metric"][0]]
    return {key: worst(metric, flows.values()) for key, flows in by_point(rows, fields).items()}


def flows_are_alike(rows: pl.DataFrame, fields: Sequence[str]) -> bool:
    """Whether the intervals of all flows overlap at every point, in the summary of one metric."""
    points = list(by_point(rows, fields).values())
    alike = all(one.meets(other) for flows in points for one in flows.values() for other in flows.values())
    return alike and len({frozenset(flows) for flows in points}) == 1


def deciding(known: Iterable[str]) -> list[str]:
    """The metrics that decide among those with values; the essential ones if none of them has a value."""
    names = set(known)
    return [name for name in DECIDING if name in names] or essentials(names)[: len(DECIDING)]


def amount(value: float, unit: str) -> str:
    """A value in words, with three digits: ``1.61 Mbit/s`` for 1610 kbit/s."""
    if unit == "kbit/s" and abs(value) >= 1000:
        return amount(value / 1000, "Mbit/s")
    return f"{three_digits(value)} {unit}".strip()


def three_digits(value: float) -> str:
    """A number with up to three digits and no exponent."""
    if value == 0 or abs(value) >= 100:
        return number(float(round(value)))
    if abs(value) < 0.001:
        return number(value)
    return f"{value:.3g}".replace("-", "−")


def interval(found: Interval, unit: str) -> str:
    """The interval of an estimate in words; empty for a single repeat, or if all values were equal."""
    if not found.low < found.high:
        return ""
    size = 1000 if unit == "kbit/s" and abs(found.mean) >= 1000 else 1
    return f"[{three_digits(found.low / size)}, {three_digits(found.high / size)}]"
