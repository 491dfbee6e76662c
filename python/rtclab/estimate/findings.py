"""Numbers that describe a call, with their intervals, and how each is known."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from rtclab.scenario.units import Bitrate

Grade = Literal["measured", "at least", "half of the round trip", "assumed", "unknown"]
"""How a number is known.

``measured``: from the packets or counters of this direction. ``at least``: the call never came to the limit.
``half of the round trip``: only the sum of both directions is known. ``assumed``: the source does not tell,
and the scenario has the usual value. ``unknown``: the source does not tell, and the scenario has nothing.
"""

UNITS = {
    "capacity": "kbit/s",
    "delay": "ms",
    "jitter": "ms",
    "queue": "ms",
    "loss": "%",
    "burst": "packets",
    "outage": "packets",
    "video width": "px",
    "video height": "px",
    "frame rate": "frame/s",
    "max bitrate": "kbit/s",
    "audio bitrate": "kbit/s",
    "codec": "",
}
"""The numbers that describe a call, and their units."""


@dataclass(frozen=True)
class Finding:
    """A number that describes a call.

    Attributes:
        of: the direction, or the participant, that it describes.
        name: what it is, one of :data:`UNITS`.
        value: in ``unit``; None if it is unknown. Of a number that changes, its mean over the time.
        low: lower end of the 95 % interval; None if there is no bound.
        high: upper end.
        grade: how it is known.
        note: what a reader must know, as a sentence without full stop.
    """

    of: str
    name: str
    value: float | None
    low: float | None
    high: float | None
    grade: Grade
    note: str = ""

    @property
    def unit(self) -> str:
        """The unit of the value and of its interval."""
        return UNITS[self.name]

    @property
    def words(self) -> str:
        """The number with its interval: ``1.36 Mbit/s (1.33 to 1.37)``, or ``at least 1.2 Mbit/s``."""
        if self.value is None:
            return "unknown"
        text = f"{in_digits(self.value)} {self.unit}".strip()
        if self.grade == "at least":
            return f"at least {text}"
        if self.low is None or self.high is None:
            return text
        return f"{text} ({in_digits(self.low)} to {in_digits(self.high)})"


@dataclass(frozen=True)
class Parameters:
    """What was estimated of a path or of a sender.

    Attributes:
        of: the direction, or the participant.
        values: its table in a scenario, by field. Fields that are not known are absent.
        findings: how each number is known, in the order of the table.
    """

    of: str
    values: dict[str, Any] = field(default_factory=dict)
    findings: list[Finding] = field(default_factory=list)

    @property
    def loaded(self) -> bool:
        """Of a path: whether the call came to the limit of its capacity."""
        return "capacity" in self.values

    def add(
        self,
        name: str,
        number: float | None,
        low: float | None = None,
        high: float | None = None,
        *,
        grade: Grade = "measured",
        note: str = "",
        value: Any = None,
    ) -> None:
        """Adds a number; see :class:`Finding`. ``value`` goes into the scenario, unless it is None."""
        self.findings.append(Finding(self.of, name, number, low, high, grade, note))
        if value is not None:
            self.values[name] = value

    def unknown(self, name: str, note: str) -> None:
        """Adds a number that the source does not tell; the note says why."""
        self.add(name, None, grade="unknown", note=note)


def in_digits(value: float) -> str:
    """A number with three digits and more: ``999``, ``55.8``."""
    return f"{value:.0f}" if abs(value) >= 100 else f"{value:.3g}"


def steps(points: Sequence[tuple[float, str]]) -> dict[str, Any]:
    """A value of a scenario that changes at times in s; the first one holds from the begin on."""
    at_s = [0.0, *(round(at, 1) for at, _ in points[1:])]
    latest = {at: value for at, (_, value) in zip(at_s, points, strict=True)}
    return {"steps": [[f"{at:.1f} s", value] for at, value in latest.items()]}


def rate_text(bps: float) -> str:
    """A rate with three digits and more: ``1.36 Mbit/s``."""
    return str(Bitrate(round(bps / 1000) * 1000 if bps >= 1e5 else round(bps)))


def time_text(time_s: float) -> str:
    """A time in ms, to a tenth: ``25.1 ms``."""
    return f"{max(time_s, 0.0) * 1000:.1f} ms".replace(".0 ms", " ms")


def percent_text(ratio: float) -> str:
    """A ratio in per cent, to a hundredth."""
    return f"{100 * ratio:.2f} %"
