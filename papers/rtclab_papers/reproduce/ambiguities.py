"""Points that a paper leaves open, simulated in two ways.

An ambiguity is written as ``[[ambiguities]]`` in ``published/<paper>.toml``; docs/add-a-paper.md shows how.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import isnan, log
from typing import Any, Literal

from pydantic import Field, InstanceOf

from rtclab.scenario import Table
from rtclab_papers.reproduce.measurements import Measurements
from rtclab_papers.reproduce.measures import none_if_nan
from rtclab_papers.reproduce.trends import Need, Quantity

Side = Literal["first", "other"]
EQUAL = 0.01
"""Two numbers whose ratio differs from 1 by less than this do not decide between readings."""


@dataclass(frozen=True)
class ReadingNumbers:
    """A number under both readings, and the published one; None if the paper prints none."""

    label: str
    unit: str
    first: float
    other: float
    published: float | None

    @property
    def nearer(self) -> Side | None:
        """The reading whose number has the smaller ratio to the published one; None if nothing decides."""
        first, other = self.error("first"), self.error("other")
        if isnan(first) or isnan(other) or abs(first - other) < EQUAL:
            return None
        return "first" if first < other else "other"

    def as_dict(self) -> dict[str, object]:
        """The row as JSON values; NaN becomes None."""
        ours = {"first": none_if_nan(self.first), "other": none_if_nan(self.other)}
        return {"label": self.label, "unit": self.unit, "published": self.published, **ours}

    def error(self, side: Side) -> float:
        """|ln(ours / published)|; NaN if it cannot be computed."""
        ours = self.first if side == "first" else self.other
        if not self.published or not ours > 0:
            return float("nan")
        return abs(log(ours / self.published))


class Number(Table):
    """A quantity under both readings, and the printed number."""

    label: str
    unit: str = ""
    published: float | None = None
    first: Quantity
    other: Quantity


class Ambiguity(Table):
    """A condition that a paper leaves open.

    Attributes:
        ambiguous: the open point.
        source: the place in the paper.
        first: the reading that the tables, trends and figures have, in words.
        other: the other reading, in words.
        variant: suffix of the other reading's scenarios, added to the names of the first reading's.
        changes: the fields in which the other reading's scenarios differ from the first reading's.
        fits: which reading is nearer to the published numbers; ``neither`` if they do not decide.
        verdict: the conclusion from the numbers.
        numbers: the numbers to compare. In TOML, a number is a quantity of a trend with ``label``, ``unit``
            and ``published``.
    """

    ambiguous: str
    source: str
    first: str
    other: str
    variant: str
    changes: tuple[str, ...] = Field(min_length=1)
    fits: Literal["first", "other", "neither"]
    verdict: str
    numbers: tuple[InstanceOf[Number], ...] = Field(min_length=1)

    @property
    def needs(self) -> list[Need]:
        """What must be measured for both readings."""
        return [need for one in self.numbers for side in (one.first, one.other) for need in side.needs]

    @property
    def scenarios(self) -> list[tuple[str, str]]:
        """The scenarios of the first reading, each with its scenario of the other reading."""
        pairs = [(one.first.scenario, one.other.scenario) for one in self.numbers]
        return list(dict.fromkeys(pairs))

    def rows(self, results: Measurements) -> list[ReadingNumbers]:
        """The numbers under both readings."""
        return [
            ReadingNumbers(one.label, one.unit, one.first.of(results), one.other.of(results), one.published)
            for one in self.numbers
        ]


def ambiguity_of(data: dict[str, Any], origin: str) -> Ambiguity:
    """The ambiguity of an entry of ``[[ambiguities]]``.

    Raises:
        ScenarioError: a key is missing or unknown; the error names the ambiguity.
    """
    place = f"{origin}: ambiguity `{data.get('ambiguous', '')}`"
    numbers = data.get("numbers")
    if isinstance(numbers, list):
        variant = str(data.get("variant", ""))
        data = data | {
            "numbers": [_number(row, variant, f"{place}: number {i}") for i, row in enumerate(numbers, 1)]
        }
    return Ambiguity.read(data, place)


def _number(row: dict[str, Any], variant: str, place: str) -> Number:
    own = {key: row[key] for key in ("label", "unit", "published") if key in row}
    first = {key: value for key, value in row.items() if key not in own}
    other = first | {"scenario": f"{row.get('scenario', '')}{variant}"}
    return Number.read(own | {"first": first, "other": other}, place)
