"""Values of our results that trends are about, and ways to check them.

Bounds are the published number ± 20 %, or what the words say with both ends.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fnmatch import fnmatchcase

import numpy as np

from rtclab.reproduce.paper import EVERY_FLOW, Finding
from rtclab.reproduce.papers.jansen2017.measure import WINDOW_S
from rtclab.reproduce.papers.jansen2017.names import (
    BACK,
    FORWARD,
    MINUTES,
    SHARED_KBPS,
    THREE_CALLS,
    TO_TABLET,
    wireless,
)
from rtclab.reproduce.results import Results
from rtclab.reproduce.trends import Check, between, listed

Value = Callable[[Results], float]


def over(scenario: str, begin_s: int, end_s: int, *, what: str = "kbps", flows: str = EVERY_FLOW) -> Value:
    """Mean of the windows between two moments, over flows and repeats."""

    def value(results: Results) -> float:
        windows = [results.mean(scenario, f"{what}@{at}", flows) for at in range(begin_s, end_s, WINDOW_S)]
        return float(np.nanmean(windows)) if not np.isnan(windows).all() else float("nan")

    return value


def of(scenario: str, metric: str, flows: str = EVERY_FLOW) -> Value:
    """Mean of a metric."""
    return lambda results: results.mean(scenario, metric, flows)


def near(published: float, value: Value, unit: str) -> Check:
    """Within 20 % of a published number."""
    return between(0.8 * published, 1.2 * published, value, unit)


def in_seconds(milliseconds: Value) -> Value:
    return lambda results: milliseconds(results) / 1e3


def ratio(above: Value, below: Value) -> Value:
    """One value divided by another."""
    return lambda results: above(results) / below(results)


def percent_of(above: Value, below: Value) -> Value:
    """One value as a share of another, in per cent."""
    return lambda results: 100 * above(results) / below(results)


def percent_used(scenarios: Sequence[tuple[str, float]]) -> Value:
    """Mean over scenarios of the share of a capacity that is used, in per cent."""

    def value(results: Results) -> float:
        return float(np.mean([100 * results.mean(name, "rate_kbps") / kbps for name, kbps in scenarios]))

    return value


def jain(scenario: str, flows: Sequence[str], begin_s: int, end_s: int) -> Value:
    """Jain's index of mean rates between two moments, in each repeat, then over repeats."""

    def value(results: Results) -> float:
        rates = np.array([_rates(results, scenario, flow, begin_s, end_s) for flow in flows])
        return float((rates.sum(axis=0) ** 2 / (len(flows) * (rates**2).sum(axis=0))).mean())

    return value


def _rates(results: Results, scenario: str, flow: str, begin_s: int, end_s: int) -> list[float]:
    """Mean rate of a flow between two moments, one per repeat."""
    windows = [results.per_repeat(scenario, f"kbps@{at}", flow) for at in range(begin_s, end_s, WINDOW_S)]
    return [
        float(np.mean([mean for mean, _ in repeat if mean is not None]))
        for repeat in zip(*windows, strict=True)
    ]


def ordered(*values: Value, unit: str) -> Check:
    """Each value is above the next."""

    def check(results: Results) -> Finding:
        ours = [value(results) for value in values]
        return Finding(bool(np.all(np.diff(ours) < 0)), f"{listed(ours)} {unit}".strip())

    return check


def second_half(minute: int) -> tuple[int, int]:
    """Begin and end of the second half of a minute, in seconds since the run began."""
    return minute * MINUTES + MINUTES // 2, (minute + 1) * MINUTES


def calls(numbers: Sequence[str], way: str) -> list[str]:
    """Flows of some of the three calls in one direction; the first call has no number."""
    return [way + number for number in numbers]


def both_ways(value: Callable[[str], Value]) -> Value:
    """Mean of both directions."""
    return lambda results: (value(FORWARD)(results) + value(BACK)(results)) / 2


def fairness(numbers: Sequence[str], begin_s: int, end_s: int) -> Value:
    """Jain's index among some of the three calls between two moments, mean of both directions."""
    return both_ways(lambda way: jain(THREE_CALLS, calls(numbers, way), begin_s, end_s))


def used_by_calls(results: Results) -> float:
    """Share of 2000 kbit/s that all calls of a direction use together, while there is one, two and three."""
    rates = [
        sum(
            float(np.mean(_rates(results, THREE_CALLS, flow, at, at + WINDOW_S)))
            for flow in calls(numbers, way)
        )
        for way in (FORWARD, BACK)
        for start, end, numbers in ((0, 60, ("",)), (60, 120, ("", "#2")), (120, 240, ("", "#2", "#3")))
        for at in range(start, end, WINDOW_S)
    ]
    return 100 * float(np.mean(rates)) / SHARED_KBPS


def uplink(scenario: str) -> Value:
    """What one participant sends: to everybody in a mesh."""
    return _sum(scenario, "alice->*")


def downlink(scenario: str) -> Value:
    """What one participant receives from everybody."""
    return _sum(scenario, "*->alice")


def _sum(scenario: str, flows: str) -> Value:
    def value(results: Results) -> float:
        chosen = [flow for flow in results.flows(scenario) if fnmatchcase(flow, flows)]
        return float(np.nansum([results.mean(scenario, "rate_kbps", flow) for flow in chosen]))

    return value


def lower_by(worse: str, better: str, what: str) -> Value:
    """By how many per cent a value is lower, at the tablet."""
    share = percent_of(of(worse, what, TO_TABLET), of(better, what, TO_TABLET))
    return lambda results: 100 - share(results)


def far_lower_by(place: str, what: str) -> Value:
    """By how many per cent a value is lower far from the access point than near it."""
    return lower_by(wireless(place, "far"), wireless(place, "near"), what)
