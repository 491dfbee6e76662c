"""Fields that have another value in every repeat, drawn from a distribution."""

from __future__ import annotations

from collections.abc import Sequence
from math import inf
from random import Random
from typing import Any, Self

from pydantic import model_validator

from rtclab.errors import FieldError
from rtclab.scenario import Scenario, Table
from rtclab.scenario.units import with_unit


class Draw(Table):
    """A field that has another value in every repeat, with the distribution of its values.

    The distribution is one of: ``whole``, whole numbers between two bounds, all equally probable;
    ``log_uniform`` between two bounds, in ``unit``; or ``one_of``, values that are equally probable.
    ``words`` describes the field and its values to readers.
    """

    field: str
    words: str
    whole: tuple[int, int] | None = None
    log_uniform: tuple[float, float] | None = None
    one_of: tuple[Any, ...] | None = None
    unit: str = ""

    @model_validator(mode="after")
    def _has_one_distribution(self) -> Self:
        keys = ("whole", "log_uniform", "one_of")
        given = [key for key in keys if getattr(self, key) is not None]
        if len(given) != 1:
            raise FieldError(f"expected one of {', '.join(keys)}; got {', '.join(given) or 'none'}")
        if self.log_uniform is not None and not 0 < self.log_uniform[0] <= self.log_uniform[1] < inf:
            raise FieldError(
                f"log_uniform: got {self.log_uniform}; expected a positive number and a larger one"
            )
        return self

    @property
    def ends(self) -> tuple[Any, ...]:
        """The values that the field may have; of a range both ends."""
        if self.log_uniform is not None:
            return tuple(with_unit(value, self.unit) for value in self.log_uniform)
        return self.whole if self.whole is not None else self.one_of or ()

    def value(self, source: Random) -> Any:
        """A value of the field."""
        if self.whole is not None:
            return source.randint(*self.whole)
        if self.log_uniform is not None:
            low, high = self.log_uniform
            return with_unit(low * (high / low) ** source.random(), self.unit)
        return source.choice(self.one_of or ())


def drawn(scenario: Scenario, draws: Sequence[Draw], repeat: int) -> Scenario:
    """The scenario of a repeat; the repeat's seed decides what is drawn."""
    if not draws:
        return scenario
    source = Random(scenario.seed_of(repeat))
    values = {draw.field: draw.value(source) for draw in draws}
    return Scenario.load(scenario, values, by=scenario.read_from)
