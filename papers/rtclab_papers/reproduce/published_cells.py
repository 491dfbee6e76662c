"""Cells of published tables, and the verdict on our numbers."""

from __future__ import annotations

from enum import StrEnum
from math import isnan, nan
from typing import Annotated

from pydantic import AfterValidator, BeforeValidator

from rtclab.errors import FieldError
from rtclab.scenario import Table, closest
from rtclab_papers.reproduce.equations import EQUATIONS
from rtclab_papers.reproduce.estimate import Estimate
from rtclab_papers.reproduce.measures import DELAY, EQUATION, LOSS, MEASURES

OVERALL = "overall"
"""Name of the machine in rows over all machines."""
UNUSABLE = "unusable"
"""Status of a cell that the paper itself contradicts, so that it cannot be compared."""
RELATIVE = 0.20
"""Tolerance of rates, as a share of the published number, and of delays, as a share of the part not set."""
DELAY_MS = 2.0
"""Smallest tolerance of delays: emulators ticked once a millisecond, and RTCP had whole milliseconds."""
RELATIVE_LOSS, LOSS_POINTS = 0.30, 0.2
"""Tolerances of losses, as a share of the published number and in percentage points."""


def _empty_is(value: float | None) -> BeforeValidator:
    """Replaces an empty field of a CSV file."""
    return BeforeValidator(lambda text: value if text == "" else text)


def _known(metric: str) -> str:
    known = [*MEASURES, *EQUATIONS]
    if metric.partition("@")[0] not in known:
        raise FieldError(f"no metric `{metric}`", hint=closest(metric, known))
    return metric


Metric = Annotated[str, AfterValidator(_known)]
"""Name of a measure, of its value from a given second on (``name@60``), or of an equation."""


class Cell(Table):
    """A published number and what it describes: a line of ``published/<paper>.csv``.

    Attributes:
        table: number of the table.
        row: heading of the row, which is the condition.
        machine: machine that measured it, or ``overall``.
        column: heading of the column.
        scenario: scenario of the condition; if empty, our number follows from an equation.
        metric: the actual quantity of the number; it differs from ``column`` where a paper mislabels it.
        mean: number to compare with; NaN if none was published.
        sd: published standard deviation.
        printed: the text in the paper, if it differs from ``mean`` and ``sd``.
        status: empty, ``unusable``, or the key of a reason why our number differs.
        note: why ``printed`` was corrected, or another remark.
        within: tolerance, if the rule for the kind of number does not apply.
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
        """Kind of number, for counting: rate, delay, loss, other (such as frame rate), or equation."""
        return MEASURES[self.metric].kind if self.metric in MEASURES else EQUATION

    def tolerance(self, configured: float = 0.0) -> float:
        """Largest allowed difference between our number and the published one, in the unit of the cell.

        A cell may have a tolerance of its own. The tolerance of losses is 0.2 percentage points or 30 %; of
        delays 2 ms or 20 % of the part beyond the ``configured`` delay; of everything else one published
        standard deviation or 20 %. The larger one applies.
        """
        if self.within is not None:
            return self.within
        if self.kind == LOSS:
            return max(LOSS_POINTS, RELATIVE_LOSS * abs(self.mean))
        if self.kind == DELAY:
            return max(DELAY_MS, RELATIVE * abs(self.mean - configured))
        return max(self.sd or 0.0, RELATIVE * abs(self.mean))

    def accepts(self, ours: float, configured: float = 0.0) -> bool:
        """Whether a number is within the tolerance of the published one."""
        return abs(ours - self.mean) <= self.tolerance(configured)

    def bounds(self, configured: float = 0.0) -> tuple[float, float]:
        """The smallest and the largest number within the tolerance."""
        tolerance = self.tolerance(configured)
        return self.mean - tolerance, self.mean + tolerance


class Verdict(StrEnum):
    """Result of comparing a cell with our number.

    ``KEPT`` means that the whole 95 % interval of our mean is within the tolerance, ``CONTRADICTED`` that all
    of it is outside, and ``UNDECIDED`` that it crosses a bound. ``MISSING`` means that we have no number,
    ``UNPUBLISHED`` that the paper has none, and ``UNUSABLE`` that the paper contradicts its own number.
    """

    KEPT = "kept"
    CONTRADICTED = "contradicted"
    UNDECIDED = "undecided"
    UNUSABLE = "unusable"
    MISSING = "not measured"
    UNPUBLISHED = "not published"


def verdict(cell: Cell, ours: Estimate, configured: float = 0.0) -> Verdict:
    """The verdict on our number; ``configured`` is the delay that the authors set, for delays."""
    if isnan(cell.mean):
        return Verdict.UNPUBLISHED
    if cell.status == UNUSABLE:
        return Verdict.UNUSABLE
    return Verdict(ours.within(*cell.bounds(configured)))
