"""Finds when something changed: the partition of a series with the least penalised cost."""

from __future__ import annotations

import numpy as np

from rtclab.metrics.series import Array


def partition(costs: Array, penalty: float) -> list[tuple[int, int]]:
    """Divides windows into segments, each with one value of a grid, so that the total cost is the smallest.

    This is optimal partitioning (Jackson et al., IEEE Signal Processing Letters 12(2), 2005): a segment costs
    the smallest sum over its windows for a single value, and each further segment costs ``penalty``.

    Args:
        costs: cost of each value in each window, of shape (windows, values).
        penalty: cost of a segment.

    Returns the first window of each segment, and the window after its last.
    """
    windows = len(costs)
    if not windows:
        return []
    sums = np.vstack([np.zeros(costs.shape[1]), np.cumsum(costs, axis=0)])
    best = np.full(windows + 1, np.inf)
    best[0] = -penalty
    begins = np.zeros(windows + 1, dtype=np.int64)
    starts = np.array([0])
    for end in range(1, windows + 1):
        totals = best[starts] + (sums[end] - sums[starts]).min(axis=1) + penalty
        chosen = int(np.argmin(totals))
        best[end], begins[end] = totals[chosen], starts[chosen]
        # A start that is worse now by more than a segment's cost never becomes the best (PELT, Killick 2012).
        starts = np.append(starts[totals - penalty <= best[end]], end)
    segments: list[tuple[int, int]] = []
    end = windows
    while end > 0:
        segments.append((int(begins[end]), end))
        end = int(begins[end])
    return segments[::-1]
