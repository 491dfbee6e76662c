"""The paper's equations 4 and 5, which give its table 1."""

from __future__ import annotations

import re
from math import exp

from rtclab.reproduce.tables import Cell


def dynamic_alpha(value_ms: float, threshold_ms: float, *, near_max: bool = False) -> float:
    """Share of the incoming rate that over-use leaves, for a detector's value above its threshold.

    Source: equations 4 and 5; the same as in the simulator's ``dynamic-alpha``.
    """
    b = exp(-(value_ms - threshold_ms) / (2 * value_ms))
    return b + ((1 - b) / 1.14 if near_max else (0.99 - b) / 1.3)


def of_table_1(cell: Cell) -> tuple[float, float]:
    """Detector's value and threshold in ms, from the headings ``T = 26 ms`` and ``threshold 25 ms``."""
    value_ms, threshold_ms = (float(re.findall(r"[\d.]+", text)[0]) for text in (cell.row, cell.column))
    return value_ms, threshold_ms
