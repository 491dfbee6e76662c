"""Bounds what a page may send. Its reports become rows in memory, and pages may send what they like."""

from __future__ import annotations

import time

BURST_S = 5.0


class RateLimit:
    """Mean rates of what one page sends, and bursts of as much as ``BURST_S`` seconds.

    Args:
        per_s: the mean rate of each quantity, by its name.
    """

    def __init__(self, **per_s: int) -> None:
        self._per_s = per_s
        self._left = {name: rate * BURST_S for name, rate in per_s.items()}
        self._filled_s = time.monotonic()

    def allows(self, **amounts: int) -> bool:
        """Whether the page may send these amounts now. If so, they are used up; otherwise nothing is."""
        now_s = time.monotonic()
        for name, rate in self._per_s.items():
            earned = (now_s - self._filled_s) * rate
            self._left[name] = min(self._left[name] + earned, rate * BURST_S)
        self._filled_s = now_s
        if any(amount > self._left[name] for name, amount in amounts.items()):
            return False
        for name, amount in amounts.items():
            self._left[name] -= amount
        return True


def page_rate_limit() -> RateLimit:
    """What a page of a live call may send.

    Each connection of a page reports once a second: some kilobytes, and a row for each frame and stream.
    """
    return RateLimit(reports=200, characters=3_000_000, rows=2000)
