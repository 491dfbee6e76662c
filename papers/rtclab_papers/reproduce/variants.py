"""Variants of shipped scenarios: fields that a paper's TOML file sets, or draws for every repeat.

The name of a scenario is followed by the names of its variants: ``iqbal/delay-50ms-fixed-alpha+shared-path``.
"""

from __future__ import annotations

from typing import Any

from pydantic import Field

from rtclab.experiment import Draw
from rtclab.scenario import Table

SEPARATOR = "+"
"""Separates the names of variants."""


class Variant(Table):
    """Changes of a scenario: values by field (``sets``), and fields that are drawn (``draws``).

    ``words`` describes the variant to readers. ``repeats`` replaces the number of repeats.
    """

    words: str
    sets: dict[str, Any] = {}
    draws: tuple[Draw, ...] = ()
    repeats: int | None = Field(default=None, ge=1)

    @property
    def remark(self) -> str:
        """The fixed and the drawn fields with their values, as text."""
        drawn = "; ".join(draw.words for draw in self.draws)
        return f"{self.words}. Drawn for every session: {drawn}." if drawn else f"{self.words}."


def split(name: str) -> tuple[str, list[str]]:
    """The name of the shipped scenario, and the names of the variants."""
    scenario, *variants = name.split(SEPARATOR)
    return scenario, variants
