"""Times as text in the user's language and time zone, as dumps of webrtc-internals had them until 2025.

A text such as ``4/29/2025, 8:22:54 PM`` says neither the order of day and month nor the time zone. Both
follow from the times of the statistics beside it, which are in UTC.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import NamedTuple

ORDERS = {
    "year, month, day": (0, 1, 2, 3, 4, 5),
    "month, day, year": (2, 0, 1, 3, 4, 5),
    "day, month, year": (2, 1, 0, 3, 4, 5),
    "time, day, month, year": (5, 4, 3, 0, 1, 2),
}
"""By name, which of the six numbers of a text are year, month, day, hour, minute and second."""
ZONES_MS = range(-12 * 3_600_000, 14 * 3_600_000 + 1, 15 * 60_000)
"""How much local times are ahead of UTC, in the steps that time zones have."""
EARLIEST_MS, LATEST_MS = 7 * 60_000, 60_000
"""The first event of a call is at most this long before its first statistics, the last one after the last."""
NEAR_MS = 60_000
"""If several time zones are possible, the right one has the first event this near to the first statistics."""
WHOLE_SECOND_MS = 1000
_FRACTION = re.compile(r"(?<=:\d\d)[.,]\d+")
_WORDS = {
    None: ("", "t", "klo", "kl", "гч", "à", "às"),
    0: ("am", "上午", "午前", "오전", "πμ"),
    12: ("pm", "下午", "午後", "오후", "μμ"),
}
_HOURS = {unicodedata.normalize("NFKC", word): hours for hours, words in _WORDS.items() for word in words}
"""By the letters of a text, what they add to a 12-hour clock; None where the hour is of 24."""


class DumpedCall(NamedTuple):
    """What a dump says about the times of a call.

    Attributes:
        texts: the times of its events.
        span_ms: first and last time of its statistics, in ms since 1970; None if they have none.
        whole: whether its statistics go back to its begin.
    """

    texts: Sequence[str]
    span_ms: tuple[float, float] | None
    whole: bool


@dataclass(frozen=True)
class LocalClock:
    """How local times are read.

    Attributes:
        order: a name in :data:`ORDERS`.
        zone_ms: how much they are ahead of UTC.
    """

    order: str
    zone_ms: int

    def at_ms(self, text: str) -> float | None:
        """A time in ms since 1970; None if it is impossible, such as the 29th month."""
        local_ms = _local_ms(text, self.order)
        return None if local_ms is None else local_ms - self.zone_ms

    @property
    def words(self) -> str:
        """The order and the time zone: ``month, day, year; UTC-07:00``."""
        hours, minutes = divmod(abs(self.zone_ms) // 60_000, 60)
        return f"{self.order}; UTC{'-' if self.zone_ms < 0 else '+'}{hours:02d}:{minutes:02d}"


def utc_ms(text: str) -> float | None:
    """A time such as ``2020-11-05T18:34:12.741Z`` in ms since 1970; None if it names no time zone."""
    try:
        at = datetime.fromisoformat(text)
        return None if at.tzinfo is None else at.timestamp() * 1000
    except (ValueError, OverflowError, OSError):
        return None


def local_clock(calls: Sequence[DumpedCall]) -> LocalClock | str:
    """The order and time zone in which all calls of a dump fit their statistics, or why there is none."""
    texts = [text for call in calls for text in call.texts]
    possible = {order: sum(_local_ms(text, order) is not None for text in texts) for order in ORDERS}
    most = max(possible.values())
    if not most:
        return "not six numbers of a date and a time"
    clocks = [
        LocalClock(order, zone_ms) for order in ORDERS if possible[order] == most for zone_ms in ZONES_MS
    ]
    # Orders that give the same times, as on 4/4, are one.
    fitting = {
        next(at_ms for text in texts if (at_ms := clock.at_ms(text)) is not None): clock
        for clock in reversed(clocks)
        if _fits(clock, calls)
    }
    if len(fitting) > 1:
        near = {at_ms: clock for at_ms, clock in fitting.items() if _is_near(clock, calls)}
        fitting = near or fitting
    if len(fitting) == 1:
        return next(iter(fitting.values()))
    how = "several orders of numbers or time zones fit" if fitting else "no order of numbers and no zone fits"
    return f"{how} the times of the statistics"


def _fits(clock: LocalClock, calls: Sequence[DumpedCall]) -> bool:
    """Whether all events are in the time of the statistics; false if there is nothing to compare."""
    compared = list(_compared(clock, calls))
    return bool(compared) and all(
        at_ms[-1] <= span_ms[1] + LATEST_MS and (not whole or at_ms[0] >= span_ms[0] - EARLIEST_MS)
        for at_ms, span_ms, whole in compared
    )


def _is_near(clock: LocalClock, calls: Sequence[DumpedCall]) -> bool:
    """Whether the first event of each call with whole statistics is near their begin; false without any."""
    apart = [abs(at_ms[0] - span_ms[0]) for at_ms, span_ms, whole in _compared(clock, calls) if whole]
    return bool(apart) and max(apart) <= NEAR_MS


def _compared(
    clock: LocalClock, calls: Sequence[DumpedCall]
) -> Iterator[tuple[list[float], tuple[float, float], bool]]:
    """Of calls that have both, the times of events and of the statistics, and whether these are whole."""
    for call in calls:
        at_ms = sorted(at for text in call.texts if (at := clock.at_ms(text)) is not None)
        if at_ms and call.span_ms is not None:
            yield at_ms, call.span_ms, call.whole


def _local_ms(text: str, order: str) -> float | None:
    """A text in ms since 1970 as if it were in UTC; None if it is no time in this order."""
    plain = unicodedata.normalize("NFKC", text)
    letters = "".join(character for character in plain.casefold() if character.isalpha())
    numbers = [int(digits) for digits in re.findall(r"\d{1,4}", _FRACTION.sub("", plain))]
    if len(numbers) != 6 or letters not in _HOURS:
        return None
    year, month, day, hour, minute, second = (numbers[index] for index in ORDERS[order])
    half = _HOURS[letters]
    if half is not None:
        if not 1 <= hour <= 12:
            return None
        hour = hour % 12 + half
    try:
        return datetime(year, month, day, hour, minute, second, tzinfo=UTC).timestamp() * 1000
    except (ValueError, OverflowError):
        return None
