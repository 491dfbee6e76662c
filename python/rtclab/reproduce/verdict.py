"""Compares our number with the printed one."""

from __future__ import annotations

from enum import StrEnum
from math import isnan

from rtclab.reproduce.tables import UNUSABLE, Cell

RELATIVE = 0.20
"""Tolerance of rates and delays, as a share of the printed number."""
RELATIVE_LOSS, LOSS_POINTS = 0.30, 1.0
"""Tolerances of losses, as a share of the printed number and in percentage points."""

KINDS = {
    "rate_kbps": "rate",
    "media_rate_kbps": "rate",
    "rtt_ms": "delay",
    "media_rtt_ms": "delay",
    "owd_ms": "delay",
    "packet_loss_pct": "loss",
    "residual_loss_pct": "loss",
    "unseen_loss_pct": "loss",
}
OTHER = "other"


class Verdict(StrEnum):
    """The result of comparing a cell with our number.

    ``MISSING`` means that we have no number, ``UNPUBLISHED`` that the paper has none.
    """

    WITHIN = "within"
    OUTSIDE = "outside"
    NOT_EXPLAINED = "not explained"
    UNUSABLE = "unusable"
    MISSING = "missing"
    UNPUBLISHED = "not published"


def kind(cell: Cell) -> str:
    """The kind that a cell is counted with: rate, delay, loss, or other (frame rate, width, set-up time)."""
    return KINDS.get(cell.metric, OTHER)


def tolerance(cell: Cell) -> float:
    """How far our number may be from the printed one, in the unit of the cell.

    A cell may have a tolerance of its own. The tolerance of losses is the larger of 1 percentage point and
    30 %, that of everything else the larger of one published standard deviation and 20 %.
    """
    if cell.within is not None:
        return cell.within
    if kind(cell) == "loss":
        return max(LOSS_POINTS, RELATIVE_LOSS * abs(cell.mean))
    return max(cell.sd or 0.0, RELATIVE * abs(cell.mean))


def verdict(cell: Cell, ours: float) -> Verdict:
    """The verdict on our mean. A cell that cannot be compared is never within."""
    if isnan(cell.mean):
        return Verdict.UNPUBLISHED
    if cell.status == UNUSABLE:
        return Verdict.UNUSABLE
    if cell.status:
        return Verdict.NOT_EXPLAINED
    if isnan(ours):
        return Verdict.MISSING
    return Verdict.WITHIN if abs(ours - cell.mean) <= tolerance(cell) else Verdict.OUTSIDE
