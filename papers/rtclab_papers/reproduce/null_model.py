"""The null model of a paper: a few constants, which any model of calls must beat."""

from __future__ import annotations

from fnmatch import fnmatchcase
from math import nan
from typing import Literal

from rtclab.scenario import Table
from rtclab_papers.reproduce.configured import configured
from rtclab_papers.reproduce.published_cells import Cell, Metric


class NullConstant(Table):
    """A constant for some cells of a paper; the last one that applies counts.

    Attributes:
        metrics: metrics of the cells.
        scenarios: patterns of the cells' scenarios.
        value: the constant, in the unit of the cells.
        share_of_capacity: the value is at most this share of the capacity that was set.
        plus: the setting that is added: the one-way delay, the round trip, or the loss.
    """

    metrics: tuple[Metric, ...]
    scenarios: tuple[str, ...] = ("*",)
    value: float = 0.0
    share_of_capacity: float | None = None
    plus: Literal["nothing", "delay", "round trip", "loss"] = "nothing"

    def applies(self, cell: Cell) -> bool:
        """Whether the constant is for this cell."""
        return cell.metric in self.metrics and any(fnmatchcase(cell.scenario, one) for one in self.scenarios)

    def of(self, cell: Cell) -> float:
        """The number for a cell."""
        if self.share_of_capacity is None and self.plus == "nothing":
            return self.value
        known = configured(cell.scenario)
        if self.share_of_capacity is not None:
            return min(self.value, known.capacity_kbps * self.share_of_capacity)
        added = {"delay": known.delay_ms, "round trip": 2 * known.delay_ms, "loss": known.loss_percent}
        return self.value + added[self.plus]


def null_of(constants: tuple[NullConstant, ...], cell: Cell) -> float:
    """The null model's number for a cell; NaN if it has none."""
    of_cell = [one.of(cell) for one in constants if one.applies(cell)]
    return of_cell[-1] if of_cell else nan
