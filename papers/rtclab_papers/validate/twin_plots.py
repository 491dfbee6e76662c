"""Plots of the pages that compare simulated and live calls in many conditions."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np

from rtclab.metrics import METRICS, Array
from rtclab.report import COLOURS, INK, QUIET, Axes, Axis, Columns, Dots, Drawing, Line, Style
from rtclab_papers.validate.outcomes import FIRST, ConditionOutcome, ErrorByChance, ValuePair
from rtclab_papers.validate.scores import GOALS, MetricScore, errors_of, pairs_of

SCATTERED = tuple(name for name in FIRST if not name.startswith("setup_") or name == "setup_time")
"""The metrics whose values are drawn one by one."""
LOGARITHMIC = {name for name in SCATTERED if METRICS[name].unit in ("kbit/s", "ms")} | {
    "nacks",
    "packet_loss",
}
DISTRIBUTED = (
    "receiving_rate",
    "rtt",
    "queuing_delay_p95",
    "nacks",
    "jitter_buffer_delay",
    "frame_rate",
    "setup_time",
)
"""The metrics whose distributions of errors are drawn."""
LARGEST_ERROR_PERCENT = 50
"""End of the axis of errors."""


def drawings(outcomes: Sequence[ConditionOutcome], groups: Mapping[str, str]) -> list[Drawing]:
    """A scatter per metric, with the groups side by side, and the distributions of the errors.

    Groups without conditions, and metrics that no condition knows, are left out. Nothing is drawn of nothing.
    """
    pairs = pairs_of(outcomes)
    if not pairs:
        return []
    shown = {name: words for name, words in groups.items() if any(pair.group == name for pair in pairs)}
    scatters = [_scatter(name, own, shown) for name in SCATTERED if (own := pairs_of(outcomes, name))]
    return [*scatters, _distributions(pairs, shown)]


def against_chance(
    scores: Sequence[MetricScore], chances: Mapping[str, ErrorByChance], name: str
) -> Drawing | None:
    """The median errors of the metrics with goals, beside what chance makes of them; None without any."""
    shown = [one for one in scores if one.metric in GOALS and one.metric in chances]
    if not shown:
        return None
    lucky = [chances[one.metric] for one in shown]
    errors = 100 * np.array([one.error for one in shown])
    middle, low, high = (
        100 * np.array(values)
        for values in zip(*((one.error, one.low, one.high) for one in lucky), strict=True)
    )
    places = np.arange(len(shown), dtype=np.float64)
    nothing = np.full(len(shown), np.nan)
    bars = Columns(Style("simulated against live", COLOURS[0]), places, 0.6, errors, nothing, nothing)
    dots = Dots(Style("by chance", INK), places, middle, low, high)
    title = "Median errors, and what chance makes of them"
    x = Axis("", -0.5, len(shown) - 0.5, [METRICS[one.metric].label for one in shown])
    y = Axis.from_zero("median error (%)", float(np.nanmax([*errors, *high])))
    return Drawing(name, title, title, x, y, [Axes("", [bars, dots])])


def _scatter(name: str, pairs: Sequence[ValuePair], groups: Mapping[str, str]) -> Drawing:
    metric = METRICS[name]
    unit = f" ({metric.unit})" if metric.unit else ""
    values = [(one.live, one.expected.middle, one.expected.low, one.expected.high) for one in pairs]
    places = np.array(values)
    if name in LOGARITHMIC:
        with np.errstate(divide="ignore"):
            places = np.log10(np.maximum(places, 0.0))
    drawn = np.isfinite(places[:, :2]).all(axis=1)
    labels = (f"{metric.label}, live{unit}", f"simulated{unit}")
    x, y = (_axis(label, places[:, :2], logarithmic=name in LOGARITHMIC) for label in labels)
    ends = np.array([x.begin, x.end])
    axes = []
    for index, (group, words) in enumerate(groups.items()):
        own = np.array([pair.group == group for pair in pairs])
        if own.any():
            dots = Dots(Style.numbered(index, words), *np.clip(places[own & drawn], *ends).T)
            left_out = (own & ~drawn).sum()
            note = f"{left_out} with a zero are not drawn" if left_out else ""
            axes.append(Axes(words, [Line(Style("equal", QUIET), ends, ends), dots], note))
    title = f"{metric.label}: simulated against live"
    return Drawing(name, title, title, x, y, axes)


def _axis(label: str, places: Array, *, logarithmic: bool) -> Axis:
    """An axis with room for all live and simulated values; bars may end at its ends."""
    if not logarithmic:
        return Axis.from_zero(label, float(places.max()))
    known = places[np.isfinite(places)] if np.isfinite(places).any() else np.zeros(1)
    begin, end = float(known.min()) - 0.1, float(known.max()) + 0.1
    at, named = ticks(begin, end)
    return Axis(label, begin, end, named, at)


def ticks(begin: float, end: float) -> tuple[list[float], list[str]]:
    """Places and names of the ticks 1, 2 and 5 of each decade, or only 1 over more than three decades.

    Places and ends are decimal logarithms.
    """
    digits = (1, 2, 5) if end - begin <= 3 else (1,)
    powers = range(math.floor(begin), math.ceil(end) + 1)
    found = {math.log10(digit) + power: digit * 10.0**power for power in powers for digit in digits}
    inside = {place: f"{value:g}" for place, value in found.items() if begin <= place <= end}
    return [*inside], [*inside.values()]


def _distributions(pairs: Sequence[ValuePair], groups: Mapping[str, str]) -> Drawing:
    axes = []
    for group, words in groups.items():
        lines = []
        for index, name in enumerate(DISTRIBUTED):
            own = [pair for pair in pairs if (pair.metric, pair.group) == (name, group)]
            errors = 100 * np.sort(errors_of(own))
            lines.append(Line(Style.numbered(index, METRICS[name].label), *steps(errors), steps=True))
        axes.append(Axes(words, lines))
    title = "Errors: share of the values whose error is at most this large"
    x, y = Axis("error (%)", 0, LARGEST_ERROR_PERCENT), Axis("share of values (%)", 0, 100)
    return Drawing("errors", title, title, x, y, axes)


def steps(values: Array) -> tuple[Array, Array]:
    """The empirical distribution of sorted values: places and the share in % up to them, from 0 % on."""
    if not values.size:
        return values, values
    shares = 100 * np.arange(values.size + 1) / values.size
    return np.concatenate([values[:1], values]), shares
