"""Bars side by side: one group per condition, one bar of each group per series."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib.axes import Axes

from rtclab.report.draw import Look
from rtclab.report.figure import INK

GROUP_WIDTH = 0.76
"""Share of the place of a group that its bars take."""


@dataclass(frozen=True)
class Bars:
    """One value per group, NaN for none, and how far its error bar goes to each side; none if left out."""

    look: Look
    values: Sequence[float]
    errors: Sequence[float] = ()


def draw_bars(series: Sequence[Bars], groups: Sequence[str], unit: str, axes: Sequence[Axes]) -> None:
    """The bars of all series, from zero up, with the names of the groups below them."""
    (axis,) = axes
    width = GROUP_WIDTH / len(series)
    errors: dict[str, Any] = {"ecolor": INK, "capsize": 3, "error_kw": {"elinewidth": 1.0}}
    for index, bars in enumerate(series):
        places = np.arange(len(bars.values)) + (index - (len(series) - 1) / 2) * width
        # Told apart in grey too.
        look: dict[str, Any] = {"color": bars.look.colour, "alpha": 1.0 if index % 2 == 0 else 0.65}
        axis.bar(
            places, bars.values, width, yerr=bars.errors or None, label=bars.look.label, **look, **errors
        )
    axis.set_xticks(range(len(groups)), groups)
    axis.tick_params(axis="x", length=0)
    axis.grid(visible=False, axis="x")
    axis.set_ylim(bottom=0)
    axis.set_ylabel(unit)
