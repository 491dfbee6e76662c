"""A part of the time of repeats."""

from __future__ import annotations

Window = tuple[float, float]
"""Begin and end of a part of a repeat, in seconds since it began. The end is excluded."""
OpenWindow = tuple[float, float | None]
"""As a window, for repeats of any length: without an end it lasts until a repeat ends."""


def closed(window: OpenWindow, end_s: float) -> Window:
    """The window in a repeat that ends at ``end_s``; empty if the repeat ends before it begins."""
    begin_s, until_s = window
    return begin_s, max(begin_s, end_s if until_s is None else min(until_s, end_s))


def window_in_words(window: OpenWindow) -> str:
    """``from 10 s on``, or ``from 10 s to 20 s``."""
    begin_s, end_s = window
    return f"from {begin_s:g} s on" if end_s is None else f"from {begin_s:g} s to {end_s:g} s"


def window_in_names(window: OpenWindow | None) -> str:
    """What file names of pages about a window end with: ``-from-10s-to-20s``; empty without a window."""
    if window is None:
        return ""
    begin_s, end_s = window
    return f"-from-{begin_s:g}s" + ("" if end_s is None else f"-to-{end_s:g}s")
