"""The part of the time that results are about, from times as users write them."""

from __future__ import annotations

from collections.abc import Iterable

from rtclab.errors import BadInput, FieldError
from rtclab.scenario.units import Duration
from rtclab.trace import OpenWindow

Moment = str | float
"""A time as in a scenario (``"20 s"``), or in seconds."""


def open_window(begin: Moment | None, end: Moment | None) -> OpenWindow | None:
    """The window from one time to another; without an end it lasts until each repeat ends. None for all.

    Raises:
        BadInput: a time cannot be read or is negative, or the end is not after the begin.
    """
    if begin is None and end is None:
        return None
    begin_s = 0.0 if begin is None else seconds_in("begin", begin)
    end_s = None if end is None else seconds_in("end", end)
    if not 0 <= begin_s < (float("inf") if end_s is None else end_s):
        until = "the end" if end_s is None else f"{end_s:g} s"
        raise BadInput(f"cannot measure from {begin_s:g} s to {until}; expected an end after the begin")
    return begin_s, end_s


def check_reached(window: OpenWindow | None, ends_s: Iterable[float]) -> None:
    """Checks that some repeat lasts until the window begins.

    Raises:
        BadInput: all end before.
    """
    if window is None:
        return
    longest_s = 0.0
    for end_s in ends_s:
        longest_s = max(longest_s, end_s)
        if window[0] < end_s:
            return
    if longest_s:
        raise BadInput(
            f"nothing to measure from {window[0]:g} s on: the run ends at {longest_s:g} s",
            hint=f"choose a time before {longest_s:g} s",
        )


def seconds_in(name: str, moment: Moment) -> float:
    """A time in s, given as an argument with a name.

    Raises:
        BadInput: it cannot be read.
    """
    if not isinstance(moment, str):
        return float(moment)
    try:
        return Duration.parse(moment).s
    except FieldError as error:
        raise BadInput(f"{name}: {error.message}", hint=error.hint) from None
