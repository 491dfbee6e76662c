"""Figures 2 to 16: incoming rate, round-trip time and packet loss, per session and per condition."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product

from rtclab.report import forms
from rtclab.report.forms import Bars
from rtclab.report.plot import Look, Plot
from rtclab.reproduce.figures import figure
from rtclab.reproduce.paper import Figure
from rtclab.reproduce.papers.iqbal.pairs import (
    BANDWIDTHS,
    DELAYS,
    FLOW,
    LOSSES,
    MIXED_500,
    MIXED_1000,
    UNCONSTRAINED,
    Pair,
)
from rtclab.reproduce.results import Results

METRICS = {
    "rate_kbps": ("Incoming rate", "kbit/s"),
    "rtt_ms": ("Round-trip time", "ms"),
    "packet_loss_pct": ("Packet loss", "%"),
}
RATE, RTT, LOSS = METRICS
CAPTION = "Mean over sessions with its 95 % interval."
LOOKS = (Look.numbered(0, "fixed decrease factor"), Look.numbered(1, "dynamic decrease factor"))

# The order of the figures in the paper.
NUMBERED = [
    *product(["nothing limited"], [[UNCONSTRAINED]], [RATE, RTT, LOSS]),
    *product(["limited bandwidth"], [BANDWIDTHS], [RATE, RTT, LOSS]),
    *product(["loss"], [LOSSES], [RATE, LOSS, RTT]),
    *product(["two-way delay"], [DELAYS], [RATE, LOSS, RTT]),
    *product(["everything together"], [[MIXED_500, MIXED_1000]], [RATE, LOSS, RTT]),
]


def figures() -> list[Figure]:
    """The figures by number."""
    return [_figure(str(number), *what) for number, what in enumerate(NUMBERED, start=2)]


def _figure(number: str, what_is_limited: str, pairs: Sequence[Pair], metric: str) -> Figure:
    title, unit = METRICS[metric]
    one_condition = pairs == [UNCONSTRAINED]

    def draw(results: Results, *heading: str) -> Plot:
        categories, series = (_per_session if one_condition else _per_condition)(results, pairs, metric)
        return forms.bars(*heading, series, categories, f"{title} ({unit})")

    return figure(
        number,
        f"{title}, {what_is_limited}",
        "Mean of each session." if one_condition else CAPTION,
        [name for pair in pairs for name in (pair.fixed, pair.dynamic)],
        draw,
    )


Categories = tuple[Sequence[str], Sequence[Bars]]
"""Names of the groups of bars, and the bars."""


def _per_condition(results: Results, pairs: Sequence[Pair], metric: str) -> Categories:
    series = []
    for look, names in zip(
        LOOKS, zip(*((one.fixed, one.dynamic) for one in pairs), strict=True), strict=True
    ):
        summaries = [results.measured(name, metric, FLOW).summary for name in names]
        series.append(Bars(look, [one.mean for one in summaries], [one.ci95 for one in summaries]))
    return [one.label for one in pairs], series


def _per_session(results: Results, pairs: Sequence[Pair], metric: str) -> Categories:
    (pair,) = pairs
    series = [
        Bars(look, [value or 0.0 for value, _ in results.per_repeat(name, metric, FLOW)])
        for look, name in zip(LOOKS, (pair.fixed, pair.dynamic), strict=True)
    ]
    longest = max(len(bars.values) for bars in series)
    return [str(session) for session in range(1, longest + 1)], series
