"""Plots of the pages that compare simulated and live calls in many conditions."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np

from rtclab.metrics import METRICS, Array
from rtclab.report import QUIET, Axes, Axis, Dots, Drawing, Line, Style
from rtclab_papers.validate.outcomes import FIRST, ConditionOutcome, ValuePair
from rtclab_papers.validate.scores import errors_of, pairs_of

SCATTERED = tuple(name for name in FIRST if not name.startswith("setup_") or name == "setup_time")
"""The metrics whose values are drawn one by one."""
LOGARITHMIC = frozenset(
    {
        "receiving_rate",
        "rtt",
        "queuing_delay_p50",
        "queuing_delay_p95",
        "delay_variation_p50",
        "delay_variation_p95",
        "nacks",
        "packet_loss",
        "jitter_buffer_delay",
        "audio_delay",
        "audio_target_delay",
        "setup_time",
    }
)
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


def _scatter(name: str, pairs: Sequence[ValuePair], groups: Mapping[str, str]) -> Drawing:
    metric = METRICS[name]
    unit = f" ({metric.unit})" if metric.unit else ""
    logarithmic = name in LOGARITHMIC
    labels = (f"{metric.label}, live{unit}", f"simulated{unit}")
    x, y = (_axis(label, pairs, logarithmic=logarithmic) for label in labels)

    def placed(values: Sequence[float]) -> Array:
        array = np.asarray(values, dtype=np.float64)
        with np.errstate(divide="ignore"):
            found = np.log10(np.maximum(array, 0.0)) if logarithmic else array
        return np.clip(found, x.begin, x.end)

    axes = []
    for index, (group, words) in enumerate(groups.items()):
        own = [pair for pair in pairs if pair.group == group]
        if not own:
            continue
        shown = [pair for pair in own if not logarithmic or min(pair.live, pair.expected.middle) > 0]
        dots = Dots(
            Style.numbered(index, words),
            placed([pair.live for pair in shown]),
            placed([pair.expected.middle for pair in shown]),
            placed([pair.expected.low for pair in shown]),
            placed([pair.expected.high for pair in shown]),
        )
        ends = np.array([x.begin, x.end])
        left_out = len(own) - len(shown)
        note = f"{left_out} with a zero are not drawn" if left_out else ""
        axes.append(Axes(words, [Line(Style("equal", QUIET), ends, ends), dots], note))
    title = f"{metric.label}: simulated against live"
    return Drawing(name, title, title, x, y, axes)


def _axis(label: str, pairs: Sequence[ValuePair], *, logarithmic: bool) -> Axis:
    """An axis with room for all live and simulated values; bars may end at its ends."""
    values = [value for pair in pairs for value in (pair.live, pair.expected.middle)]
    if not logarithmic:
        return Axis.from_zero(label, max(values))
    positive = [value for value in values if value > 0] or [1.0]
    begin, end = math.log10(min(positive)) - 0.1, math.log10(max(positive)) + 0.1
    places, names = ticks(begin, end)
    return Axis(label, begin, end, names, places)


def ticks(begin: float, end: float) -> tuple[list[float], list[str]]:
    """Places and names of the ticks 1, 2 and 5 of each decade, or only 1 over more than three decades.

    Places and ends are decimal logarithms.
    """
    found = []
    digits = (1, 2, 5) if end - begin <= 3 else (1,)
    for decade in range(math.floor(begin), math.ceil(end) + 1):
        for digit in digits:
            place = math.log10(digit) + decade
            if begin <= place <= end:
                found.append((place, f"{digit * 10.0**decade:g}"))
    return [place for place, _ in found], [name for _, name in found]


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
