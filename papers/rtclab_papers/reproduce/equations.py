"""Published numbers that follow from an equation and need no simulation."""

from __future__ import annotations

import re
from collections.abc import Callable
from math import exp


def dynamic_alpha(value_ms: float, threshold_ms: float, *, near_max: bool = False) -> float:
    """Decrease factor of the incoming rate at over-use, when the detector's value is above its threshold.

    Source: Iqbal et al., equations 4 and 5, as in the simulator's ``dynamic-alpha``.
    """
    b = exp(-(value_ms - threshold_ms) / (2 * value_ms))
    return b + ((1 - b) / 1.14 if near_max else (0.99 - b) / 1.3)


def detector_of(row: str, column: str) -> tuple[float, float]:
    """The detector's value and threshold in ms, read from headings (``T = 26 ms``, ``threshold 25 ms``)."""
    value_ms, threshold_ms = (float(re.findall(r"[\d.]+", text)[0]) for text in (row, column))
    return value_ms, threshold_ms


EQUATIONS: dict[str, Callable[[str, str], float]] = {
    "alpha": lambda row, column: dynamic_alpha(*detector_of(row, column))
}
"""Functions by metric; each computes our number from the headings of a cell's row and column."""
