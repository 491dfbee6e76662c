"""What was found of a path: numbers with their intervals, and how they are known."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from rtclab.scenario.units import Bitrate

Grade = Literal["measured", "at least", "half of the round trip", "assumed", "unknown"]
"""How a number is known.

``measured``: from the packets or counters of this direction. ``at least``: the call never came to the limit.
``half of the round trip``: only the sum of both directions is known. ``assumed``: the source does not tell,
and the scenario has the usual value. ``unknown``: the source does not tell, and the scenario has nothing.
"""


@dataclass(frozen=True)
class Finding:
    """A number that describes a call.

    Attributes:
        of: the direction, or the participant, that it describes.
        name: what it is, such as ``capacity``.
        value: in ``unit``; None if it is unknown. Of a number that changes, its mean over the time.
        low: lower end of the 95 % interval; None if there is no bound.
        high: upper end.
        unit: unit of the numbers.
        grade: how it is known.
        note: what a reader must know, as a sentence without full stop.
    """

    of: str
    name: str
    value: float | None
    low: float | None
    high: float | None
    unit: str
    grade: Grade
    note: str = ""

    @property
    def words(self) -> str:
        """The number with its interval: ``1.36 Mbit/s (1.33 to 1.37)``, or ``at least 1.2 Mbit/s``."""
        if self.value is None:
            return "unknown"
        text = f"{_number(self.value)} {self.unit}".strip()
        if self.grade == "at least":
            return f"at least {text}"
        if self.low is None or self.high is None:
            return text
        return f"{text} ({_number(self.low)} to {_number(self.high)})"


def _number(value: float) -> str:
    return f"{value:.0f}" if abs(value) >= 100 else f"{value:.3g}"


def rate_text(bps: float) -> str:
    """A rate with three digits and more: ``1.36 Mbit/s``."""
    return str(Bitrate(round(bps / 1000) * 1000 if bps >= 1e5 else round(bps)))


def time_text(time_s: float) -> str:
    """A time in ms, to a tenth: ``25.1 ms``."""
    return f"{max(time_s, 0.0) * 1000:.1f} ms".replace(".0 ms", " ms")


def percent_text(ratio: float) -> str:
    """A ratio in per cent, to a hundredth."""
    return f"{100 * ratio:.2f} %"
