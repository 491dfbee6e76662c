"""The plots of an arena: the rate attained against delay, the distribution of the delay, and ranks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from html import escape
from itertools import pairwise

import numpy as np

from rtclab.arenas.cases import Case
from rtclab.arenas.ranking import Ranking, front
from rtclab.arenas.values import DISTRIBUTION, PERCENTILES, Values
from rtclab.metrics.series import Array
from rtclab.metrics.statistics import means_of_known
from rtclab.phrases import count
from rtclab.report import DASHED, INK, Axes, Axis, Distribution, Dots, Line, Mark, Plot, Style, distributions

SMALLEST_MS = 0.3
"""Delays below are drawn here: a logarithmic axis has no 0."""
SMALL, LARGE = 0.6, 1.7
"""Sizes of the marks of a case, and of a mean over cases."""


def look(controls: Sequence[str], control: str) -> Style:
    """The look of a control, the same in all plots of a page."""
    return Style.numbered(list(controls).index(control), control)


def pareto(values: Values) -> Plot | None:
    """The rate attained against the queuing delay (95th percentile), for all queues and for each kind."""
    cases = values.of("rate_attained", values.of("queuing_delay_p95")[1])[1]
    if not cases:
        return None
    use, delay = (
        means_of_known(values.of(name, cases)[0]) for name in ("rate_attained", "queuing_delay_p95")
    )
    of_kinds = {
        kind: [one for one in cases if one.queue == kind] for kind in sorted({one.queue for one in cases})
    }
    panels = {"all queues": cases} | of_kinds if len(of_kinds) > 1 else of_kinds
    axes = [
        Axes(f"{name}, {count(len(own), 'case')}", _dots(values.controls, use, delay, cases, own))
        for name, own in panels.items()
    ]
    return Plot(
        "pareto",
        "Rate attained and queuing delay",
        "A small mark is a case, a large one the mean over the cases of the panel. Nobody beats what is on "
        "the dashed line: a higher rate costs delay there. Delays below "
        f"{SMALLEST_MS:g} ms are drawn at {SMALLEST_MS:g} ms.",
        _delay_axis("Queuing delay p95 (ms)", delay),
        Axis("Rate attained (%)", 0.0, max(105.0, 1.02 * float(np.nanmax(use, initial=0.0)))),
        axes,
    )


def _delay_axis(label: str, delay_ms: Array) -> Axis:
    """A logarithmic axis from the tick below the smallest delay to the tick above the largest."""
    known = np.maximum(delay_ms[~np.isnan(delay_ms)], SMALLEST_MS)
    least, most = (float(known.min()), float(known.max())) if known.size else (1.0, 1.0)
    ticks = [float(f"{digit}e{power}") for power in range(-1, 10) for digit in (1, 3)]
    begin = max((tick for tick in ticks if tick <= least), default=SMALLEST_MS)
    return Axis.logarithmic(label, begin, next(tick for tick in ticks if tick > most))


def _dots(
    controls: Sequence[str], use: Array, delay: Array, cases: Sequence[Case], own: Sequence[Case]
) -> list[Mark]:
    chosen = [index for index, case in enumerate(cases) if case in own]
    waits, up = delay[:, chosen], use[:, chosen]
    # NaN if a case is unknown, because other cases would not be comparable.
    right, middle = _log(waits.mean(axis=1)), up.mean(axis=1)

    def dots(index: int, x: Array, y: Array, size: float) -> Dots:
        known = ~(np.isnan(x) | np.isnan(y))
        return Dots(look(controls, controls[index]), x[known], y[known], y[known], y[known], size=size)

    best = front(right, middle)
    order = np.argsort(right[best], kind="stable")
    marks: list[Mark] = [dots(index, _log(waits[index]), up[index], SMALL) for index in range(len(controls))]
    marks.append(Line(Style("nobody is better", INK, DASHED), right[best][order], middle[best][order]))
    known = np.flatnonzero(~np.isnan(right)).tolist()
    return marks + [dots(index, right[[index]], middle[[index]], LARGE) for index in known]


def _log(delay_ms: Array) -> Array:
    """Positions of delays on a logarithmic axis."""
    return np.asarray(np.log10(np.maximum(delay_ms, SMALLEST_MS)))


def delays(values: Values) -> Plot | None:
    """The distribution of the queuing delay of each control, in which every case counts the same.

    A control that failed in a case is left out, because the other cases alone would not be comparable.
    """
    curves = []
    cases = values.of(DISTRIBUTION[0])[1]
    each = [means_of_known(values.of(name, cases)[0]) for name in DISTRIBUTION if cases]
    # A percentile stands for the packets around it; the first and the last also for the ends.
    edges = np.diff([0.0, *((a + b) / 2 for a, b in pairwise(PERCENTILES)), 100.0])
    weight = np.repeat(edges, len(cases))
    for index, control in enumerate(values.controls if cases else ()):
        waited = np.concatenate([of[index] for of in each])
        if np.isnan(waited).any():
            continue
        order = np.argsort(waited, kind="stable")
        share = np.cumsum(weight[order]) / weight.sum()
        curves.append(Distribution(look(values.controls, control), waited[order], share))
    if not curves:
        return None
    drawn = distributions(
        "delays",
        "Distribution of the queuing delay",
        f"Share of the packets that waited in queues for at most so long, over {len(cases)} cases of equal "
        "weight. It comes from the 5th, 25th, 50th, 75th and 95th percentile of each case.",
        [("", [replace(one, values=_log(one.values)) for one in curves])],
        "Queuing delay (ms)",
    )
    return replace(drawn, x=_delay_axis("Queuing delay (ms)", np.concatenate([one.values for one in curves])))


ROW, LEFT, WIDTH, TOP, BOTTOM = 19, 150, 620, 22, 28
RIGHT = 110
"""Room for the bars, and for the words above them."""


def rank_diagram(ranking: Ranking, controls: Sequence[str], title: str) -> str:
    """An ``<svg>`` with each control's mean rank and interval, and bars that join what is within chance."""
    count = len(controls)
    bars_px = 9 * len(ranking.bars)
    bottom = TOP + ROW * count
    right = WIDTH - (max(RIGHT, 30 + bars_px) if ranking.bars else 30)

    def x(rank: float) -> float:
        return LEFT + (rank - 1) / max(count - 1, 1) * (right - LEFT)

    parts = [
        f'<svg viewBox="0 0 {WIDTH} {bottom + BOTTOM}" class="ranks" role="img" '
        f'aria-label="{escape(title)}">',
        f'<text x="{(LEFT + right) / 2:.1f}" y="{bottom + 20}" text-anchor="middle">'
        "Mean rank, 1 is best</text>",
        *(
            f'<path d="M{x(tick):.1f} {TOP - 5}V{bottom + 4}" stroke="#e3e3e3"/>'
            f'<text x="{x(tick):.1f}" y="{TOP - 9}" text-anchor="middle">{tick}</text>'
            for tick in range(1, count + 1)
        ),
    ]
    for place, index in enumerate(ranking.order):
        y, one = TOP + ROW * place + 8, look(controls, controls[index])
        low, high = x(float(ranking.low[index])), x(float(ranking.high[index]))
        parts.append(
            f'<text x="{LEFT - 12}" y="{y + 4}" text-anchor="end">{escape(controls[index])}</text>'
            f'<path d="M{low:.1f} {y}H{high:.1f}" stroke="{one.colour}" stroke-width="2"/>'
            f'<circle cx="{x(float(ranking.mean[index])):.1f}" cy="{y}" r="4" fill="{one.colour}"/>'
        )
    if ranking.bars:
        parts.append(f'<text x="{WIDTH - 2}" y="{TOP - 9}" text-anchor="end">within chance</text>')
    for number, (first, last) in enumerate(ranking.bars):
        at = WIDTH - 6 - 9 * number
        parts.append(
            f'<path d="M{at} {TOP + ROW * first + 2}V{TOP + ROW * last + 14}" stroke="{INK}" '
            'stroke-width="4"/>'
        )
    return "".join([*parts, "</svg>"])
