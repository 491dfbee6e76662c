"""Random loss of a path: its ratio, the length of its bursts, and its changes over time."""

from __future__ import annotations

from dataclasses import dataclass
from math import sqrt

import numpy as np

from rtclab.estimate.changes import partition
from rtclab.estimate.packets import Flags
from rtclab.estimate.queue_model import Windows
from rtclab.metrics.series import Array

CHANGE_PENALTY = 8.0
"""Cost of a change of the loss, in units of log-likelihood."""
Z = 1.96
BURSTY = 1.25
"""Losses come in bursts if these are this many times longer than with independent losses."""
FEWEST_BURSTS = 10
SHORTEST_S = 5.0
"""Shorter changes of the loss are not looked for."""


@dataclass(frozen=True)
class LossSegment:
    """A loss ratio (0..1) that holds from ``begin_s`` in s until the next segment."""

    begin_s: float
    ratio: float


@dataclass(frozen=True)
class RandomLoss:
    """Loss that is no drop of a full queue.

    Attributes:
        ratio: mean over the call.
        low: lower end of the 95 % interval (Wilson, with bursts counted as one).
        high: upper end.
        burst: mean number of packets that are lost in a row.
        in_bursts: whether bursts are longer than independent losses would be.
        segments: one, unless the loss changed.
    """

    ratio: float
    low: float
    high: float
    burst: float
    in_bursts: bool
    segments: tuple[LossSegment, ...]


def random_loss(lost: Flags, sent_s: Array, windows: Windows) -> RandomLoss:
    """Fits the loss to packets in the order of sending, without drops of a full queue.

    The mean length of runs is the maximum-likelihood estimate of a Gilbert model, whose bursts lose all.
    """
    count, total = int(lost.sum()), max(len(lost), 1)
    ratio = count / total
    begins = int((lost & ~np.concatenate([[False], lost[:-1]])).sum())
    burst = count / begins if begins else 1.0
    alone = 1 / (1 - ratio) if ratio < 1 else float(total)
    error = sqrt(max(burst * (burst - 1), 0.25) / max(begins, 1))
    in_bursts = begins >= FEWEST_BURSTS and burst > BURSTY * alone and burst - alone > 2 * error
    low, high = _wilson(ratio, total / (2 * burst - 1 if in_bursts else 1.0))
    segments = _segments(lost, sent_s, windows, 2 * burst - 1 if in_bursts else 1.0)
    return RandomLoss(ratio, low, high, burst, in_bursts, segments)


def _wilson(ratio: float, count: float) -> tuple[float, float]:
    centre = ratio + Z**2 / (2 * count)
    half = Z * sqrt(ratio * (1 - ratio) / count + Z**2 / (4 * count**2))
    low = max((centre - half) / (1 + Z**2 / count), 0.0) if ratio else 0.0
    return low, min((centre + half) / (1 + Z**2 / count), 1.0)


def _segments(lost: Flags, sent_s: Array, windows: Windows, spread: float) -> tuple[LossSegment, ...]:
    together = max(1, round(SHORTEST_S / windows.length_s))
    index = windows.of(sent_s) // together
    bins = -(-windows.count // together)
    count = np.bincount(index, minlength=bins).astype(float)
    gone = np.bincount(index[lost], minlength=bins).astype(float)
    ratios = np.concatenate([[1e-5], np.geomspace(1e-3, 0.9, 60)])
    costs = -(gone[:, None] * np.log(ratios) + (count - gone)[:, None] * np.log(1 - ratios)) / spread
    return tuple(
        LossSegment(
            begin * together * windows.length_s, float(gone[begin:end].sum() / max(count[begin:end].sum(), 1))
        )
        for begin, end in partition(costs, CHANGE_PENALTY)
    )
