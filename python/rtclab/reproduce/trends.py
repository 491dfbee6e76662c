"""Ways to check a trend; each returns a function of the results."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from math import nan

from rtclab.report.words import number
from rtclab.reproduce.paper import EVERY_FLOW, Finding
from rtclab.reproduce.results import Results

Check = Callable[[Results], Finding]


def falls(scenarios: Sequence[str], metric: str = "media_rate_kbps", flows: str = EVERY_FLOW) -> Check:
    """Each mean is below the one before."""

    def check(results: Results) -> Finding:
        means = [results.mean(name, metric, flows) for name in scenarios]
        return Finding(all(later < earlier for earlier, later in pairwise(means)), listed(means))

    return check


def rises(scenarios: Sequence[str], metric: str = "media_rate_kbps", flows: str = EVERY_FLOW) -> Check:
    """Each mean is above the one before."""
    falling = falls(scenarios[::-1], metric, flows)

    def check(results: Results) -> Finding:
        return Finding(falling(results).keeps, listed([results.mean(s, metric, flows) for s in scenarios]))

    return check


def between(low: float, high: float, value: Callable[[Results], float], unit: str = "") -> Check:
    """A number lies between two bounds, which count as inside."""

    def check(results: Results) -> Finding:
        ours = value(results)
        return Finding(low <= ours <= high, f"{number(ours)} {unit}".strip())

    return check


def all_between(
    scenarios: Sequence[str],
    low: float,
    high: float,
    metric: str = "media_rate_kbps",
    flows: str = EVERY_FLOW,
) -> Check:
    """The means of all scenarios lie between two bounds, which count as inside."""

    def check(results: Results) -> Finding:
        means = [results.mean(name, metric, flows) for name in scenarios]
        return Finding(all(low <= mean <= high for mean in means), listed(means))

    return check


def shares_between(
    low: float,
    high: float,
    scenarios: Sequence[str],
    whole: str,
    metric: str = "media_rate_kbps",
    flows: str = EVERY_FLOW,
) -> Check:
    """The mean of each scenario, as a share of that of ``whole`` in per cent, lies between two bounds."""

    def check(results: Results) -> Finding:
        shares = [percent(name, whole, metric, flows)(results) for name in scenarios]
        return Finding(all(low <= share <= high for share in shares), f"{listed(shares)} %")

    return check


def both(*checks: Check) -> Check:
    """Several things at once."""

    def check(results: Results) -> Finding:
        findings = [one(results) for one in checks]
        return Finding(all(one.keeps for one in findings), "; ".join(one.figures for one in findings))

    return check


def percent(
    of: str, whole: str, metric: str = "media_rate_kbps", flows: str = EVERY_FLOW
) -> Callable[[Results], float]:
    """Mean of a metric in one scenario as a share of that in another, in per cent; NaN of nothing."""
    return lambda results: 100 * results.mean(of, metric, flows) / (results.mean(whole, metric, flows) or nan)


def listed(values: Sequence[float]) -> str:
    """Numbers in a row."""
    return ", ".join(map(number, values))
