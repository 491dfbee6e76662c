"""Printed numbers, and the verdict on ours."""

from __future__ import annotations

from enum import StrEnum
from math import isnan, nan
from typing import Annotated

from pydantic import AfterValidator, BeforeValidator

from rtclab.errors import FieldError
from rtclab.reproduce.equations import EQUATIONS
from rtclab.reproduce.measures import LOSS, MEASURES, OTHER
from rtclab.scenario.table import Table, closest

OVERALL = "overall"
"""The machine of rows over all machines."""
UNUSABLE = "unusable"
"""Status of a cell that the paper itself contradicts, so that there is nothing to compare with."""
RELATIVE = 0.20
"""Tolerance of rates and delays, as a share of the printed number."""
RELATIVE_LOSS, LOSS_POINTS = 0.30, 1.0
"""Tolerances of losses, as a share of the printed number and in percentage points."""


def _empty_is(value: float | None) -> BeforeValidator:
    """What a column of numbers stands for where nothing is written in it."""
    return BeforeValidator(lambda text: value if text == "" else text)


def _known(metric: str) -> str:
    known = [*MEASURES, *EQUATIONS]
    if metric.partition("@")[0] not in known:
        raise FieldError(f"no metric `{metric}`", hint=closest(metric, known))
    return metric


Metric = Annotated[str, AfterValidator(_known)]
"""The name of a measure, of one from some second on (``name@60``), or of an equation."""


class Cell(Table):
    """One printed number and what it is: a line of ``published/<paper>.csv``.

    ``metric`` is the quantity it really is, ``column`` the heading it stands under; they differ where a paper
    mislabels. ``mean`` (NaN: no number was published) and ``sd`` are what to compare with; ``printed`` is
    what the paper has where that is something else, and ``note`` says why. ``status`` is empty, ``unusable``,
    or the key of a reason why a model of network and congestion control cannot explain the number. ``within``
    is how far ours may be from it, if the rule for its kind does not apply. Without ``scenario`` our number
    follows from an equation.
    """

    table: str
    row: str
    machine: str
    column: str
    scenario: str
    metric: Metric
    mean: Annotated[float, _empty_is(nan)]
    sd: Annotated[float | None, _empty_is(None)] = None
    printed: str = ""
    status: str = ""
    note: str = ""
    within: Annotated[float | None, _empty_is(None)] = None

    @property
    def kind(self) -> str:
        """The kind that it is counted with: rate, delay, loss, or other (frame rate, width, set-up time)."""
        return MEASURES[self.metric].kind if self.metric in MEASURES else OTHER

    @property
    def tolerance(self) -> float:
        """How far our number may be from the printed one, in the unit of the cell.

        A cell may have a tolerance of its own. Losses have the larger of 1 percentage point and 30 %,
        everything else has the larger of one published standard deviation and 20 %.
        """
        if self.within is not None:
            return self.within
        if self.kind == LOSS:
            return max(LOSS_POINTS, RELATIVE_LOSS * abs(self.mean))
        return max(self.sd or 0.0, RELATIVE * abs(self.mean))


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
    return Verdict.WITHIN if abs(ours - cell.mean) <= cell.tolerance else Verdict.OUTSIDE
