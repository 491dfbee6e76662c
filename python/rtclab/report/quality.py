"""How good the pictures and the sound of a flow are, by standards that say so: good, poor or bad.

ITU-T has limits for the delay of sound and pictures and for missing sound, and a model of what frozen video
is worth. RFC 8868 has none that a single call could pass or fail. The model of ITU-T G.1070 would need
coefficients for the codec and the size of the screen, which it does not have for the codecs of WebRTC.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import ceil, exp, log
from statistics import fmean

import numpy as np

from rtclab.metrics.media import frozen_spans
from rtclab.metrics.promises import inside_ns
from rtclab.metrics.series import IntegerArray, span_ns
from rtclab.report.answer import BAD, GOOD, MARKS, POOR
from rtclab.trace import NS_PER_S, Run

STALLS, SHARE, APART = 9.35158684, 0.91890815, 11.0567558
RECENT, RECENT_HALF_S = 0.48412879, 10.0
"""Coefficients of ITU-T P.1203.3: how many freezes, which part of the time, and how far apart they are; and
how much an early freeze counts beside a late one."""
LONG_FROM_S, LONG_TO_S = 15.0, 30.0
"""From this frozen time on the worth falls, and nothing is left from the second (amendment 1, clause 8.4)."""
SHORTEST_S, LONGEST_S = 60.0, 300.0
"""The model is for 1 to 5 minutes. Longer calls are judged 5 minutes at a time, and shorter ones as if they
went on in the same way for a minute."""
BEST = 5.0
"""The best of the five grades of ITU-T P.910: 5 is excellent, 4 good, 3 fair, 2 poor and 1 bad."""


@dataclass(frozen=True)
class Scale:
    """How a value of a metric is marked: up to ``good`` it is good, above ``bad`` it is bad."""

    good: float
    bad: float
    source: str

    def mark(self, value: float) -> str:
        """The mark of a value, one of ``MARKS``; empty for NaN."""
        if value != value:
            return ""
        return GOOD if value <= self.good else BAD if value > self.bad else POOR


LOSS = "packet_loss"
"""Loss is marked only if nothing tells what was seen and heard."""
SCALES: dict[str, Scale] = {
    "picture_delay": Scale(
        150,
        400,
        "Delay of pictures: ITU-T G.1010, table I.1, prefers 150 ms for a videophone and ends at 400 ms",
    ),
    "sound_delay": Scale(
        150,
        400,
        "Delay of sound: up to 150 ms most users are content; 400 ms is the limit (ITU-T G.114)",
    ),
    "audio_concealed": Scale(
        3,
        10,
        "Sound made up: ITU-T G.1010, table I.1, allows 3 % of lost packets. At 10 %, ITU-T G.107.2 with the "
        "coefficients of Opus (Alahmadi, Pocta and Melvin, ACM TOMM 2021) falls to R = 50, below which "
        "nearly all users are dissatisfied (ITU-T G.107, annex B)",
    ),
    LOSS: Scale(
        1,
        10,
        "Lost packets, if nothing tells what was seen and heard: ITU-T G.1010, table I.1, allows 1 % for a "
        "videophone and 3 % for sound. At 10 %, ITU-T G.107.2 with the coefficients of Opus falls to R = 50",
    ),
}
"""The metrics whose values are marked, beside the freezes."""
FREEZES = "freeze_duration"
FREEZES_SOURCE = (
    "Freezes: what ITU-T P.1203.3, equation 31, predicts from their number, length and place, from 1 to 5: "
    "from 3.5 on good (nearest to good or excellent), below 2.5 bad (nearest to poor or bad). "
    "The model was made for streaming of 1 to 5 minutes; a shorter call counts as if it went on like that"
)
FREEZES_GOOD, FREEZES_BAD = 3.5, 2.5


@dataclass(frozen=True)
class Judged:
    """A value of a flow and its mark: frozen video in s per minute, or the mean of a metric of ``SCALES``."""

    flow: str
    metric: str
    value: float
    mark: str


def stalling_indication(frozen: IntegerArray, span: tuple[int, int]) -> float:
    """What freezes are worth, from 1 to 5, by equation 31 of ITU-T P.1203.3 and by its amendment 1, 8.4.

    It is the mean over parts of equal length of at most 5 minutes. What is shorter than a minute is repeated
    until it lasts about one.

    Args:
        frozen: begin and end of each freeze in ns, in order, of shape (freezes, 2).
        span: begin and end in ns of the time in which there should have been pictures.
    """
    begin_ns, end_ns = span
    if end_ns <= begin_ns:
        return BEST
    times = round(SHORTEST_S * NS_PER_S / (end_ns - begin_ns))
    if times > 1:
        inside = frozen.clip(begin_ns, end_ns)[inside_ns(frozen, span) > 0]
        shifts = np.arange(times)[:, None, None] * (end_ns - begin_ns)
        frozen, end_ns = (inside + shifts).reshape(-1, 2), begin_ns + times * (end_ns - begin_ns)
    parts = max(ceil((end_ns - begin_ns) / NS_PER_S / LONGEST_S), 1)
    edges = np.linspace(begin_ns, end_ns, parts + 1).astype(np.int64).tolist()
    return fmean(_stalling_indication(frozen, part) for part in pairwise(edges))


def _stalling_indication(frozen: IntegerArray, span: tuple[int, int]) -> float:
    begin_ns, end_ns = span
    lengths_ns = inside_ns(frozen, span)
    inside, lengths_ns = frozen[lengths_ns > 0], lengths_ns[lengths_ns > 0]
    if not lengths_ns.size:
        return BEST
    ago_s = (end_ns - inside[:, 0].clip(min=begin_ns)) / NS_PER_S
    weights = [RECENT + (1 - RECENT) * exp(-log(2) * one / RECENT_HALF_S) for one in ago_s.tolist()]
    lasts_s = (end_ns - begin_ns) / NS_PER_S
    total_s = sum(
        weight * length / NS_PER_S for weight, length in zip(weights, lengths_ns.tolist(), strict=True)
    )
    apart_s = (inside[-1, 0] - inside[0, 0]) / NS_PER_S / (len(inside) - 1) if len(inside) > 1 else 0.0
    worth = exp(-len(inside) / STALLS) * exp(-total_s / lasts_s / SHARE) * exp(-apart_s / lasts_s / APART)
    left = min(max((LONG_TO_S - total_s) / (LONG_TO_S - LONG_FROM_S), 0.0), 1.0)
    return float(1 + (BEST - 1) * worth * left)


def freezes_mark(run: Run, flow: str) -> str:
    """The mark of a flow's freezes, from the mean prediction over repeats; empty without promised ones."""
    found = []
    for trace in run.traces:
        if flow in trace.manifest.flows and (frozen := trace.cached(frozen_spans, flow)) is not None:
            found.append(stalling_indication(frozen, span_ns(trace, flow)))
    if not found:
        return ""
    mean = fmean(found)
    return GOOD if mean >= FREEZES_GOOD else BAD if mean < FREEZES_BAD else POOR


def judged(run: Run, means: Mapping[tuple[str, str], float], flows: Sequence[str]) -> list[Judged]:
    """The values of flows that a standard marks.

    ``means`` has the mean of each metric, by metric and flow, with totals per minute.
    """
    found = []
    for flow in flows:
        of_scales = [
            Judged(flow, metric, means[metric, flow], scale.mark(means[metric, flow]))
            for metric, scale in SCALES.items()
            if (metric, flow) in means
        ]
        own = [one for one in of_scales if one.metric != LOSS]
        if (FREEZES, flow) in means:
            own.insert(0, Judged(flow, FREEZES, means[FREEZES, flow], freezes_mark(run, flow)))
        found += own or of_scales
    return [one for one in found if one.mark]


def marks_of(marked: Sequence[Judged], silent: Iterable[str]) -> dict[str, str]:
    """The worst mark of each flow that has one; ``silent`` are the flows of which nothing was seen."""
    of_flow: dict[str, list[str]] = {}
    for one in marked:
        of_flow.setdefault(one.flow, []).append(one.mark)
    return {flow: worst(marks) for flow, marks in of_flow.items()} | dict.fromkeys(silent, BAD)


def worst(marks: Sequence[str]) -> str:
    """The worst of some marks; empty without any."""
    return max(filter(None, marks), key=MARKS.index, default="")
