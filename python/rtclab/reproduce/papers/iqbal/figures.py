"""Figures 2 to 16: incoming rate, round-trip time and packet loss, per session and per condition."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from itertools import product

from rtclab.report.bars import Bars, draw_bars
from rtclab.report.draw import Look
from rtclab.report.figure import Plot
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
    return [_figure(number, *what) for number, what in enumerate(NUMBERED, start=2)]


def _figure(number: int, title_of: str, pairs: Sequence[Pair], metric: str) -> Figure:
    names = [name for pair in pairs for name in (pair.fixed, pair.dynamic)]

    def draw(results: Results) -> Plot:
        title, unit = METRICS[metric]
        sessions = pairs == [UNCONSTRAINED]
        categories, series = (_per_session if sessions else _per_condition)(results, pairs, metric)
        return Plot(
            f"figure-{number}",
            f"Figure {number}. {title}, {title_of}",
            "Mean of each session." if sessions else CAPTION,
            1,
            partial(draw_bars, series, categories, f"{title} ({unit})"),
        )

    return Figure(str(number), names, draw, repeats=0)


Drawn = tuple[Sequence[str], Sequence[Bars]]


def _per_condition(results: Results, pairs: Sequence[Pair], metric: str) -> Drawn:
    series = []
    for look, names in zip(
        LOOKS, zip(*((one.fixed, one.dynamic) for one in pairs), strict=True), strict=True
    ):
        summaries = [results.measured(name, metric, FLOW).summary for name in names]
        series.append(Bars(look, [one.mean for one in summaries], [one.ci95 for one in summaries]))
    return [one.label for one in pairs], series


def _per_session(results: Results, pairs: Sequence[Pair], metric: str) -> Drawn:
    (pair,) = pairs
    series = [
        Bars(look, [value or 0.0 for value, _ in results.per_repeat(name, metric, FLOW)])
        for look, name in zip(LOOKS, (pair.fixed, pair.dynamic), strict=True)
    ]
    longest = max(len(bars.values) for bars in series)
    return [str(session) for session in range(1, longest + 1)], series
