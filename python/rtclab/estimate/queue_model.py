"""What a first-in first-out queue would have done to the packets of a call, for many capacities at once.

The wait of a packet follows from the work that is left in the queue (Lindley 1952). Each window begins with
the work that the delay of the packet before it shows, so windows are independent of each other and a capacity
that changes does no harm. Whether a lost packet used capacity is not known. So the first packet that arrives
after a loss only shows the work that is left, and no capacity is judged by it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from rtclab.estimate.packets import Flags, Packets
from rtclab.metrics.series import Array
from rtclab.trace import BITS_PER_BYTE

MOST_CELLS = 20_000_000
"""Numbers held at once, so that memory stays bounded."""


@dataclass(frozen=True)
class Windows:
    """The packets of a direction by window of time.

    Attributes:
        begin_s: when the first window begins.
        length_s: length of a window.
        count: number of windows.
        rows: indices of the packets of each window, of shape (windows, most packets); -1 where there is none.
    """

    begin_s: float
    length_s: float
    count: int
    rows: NDArray[np.int64]

    def of(self, at_s: Array) -> NDArray[np.int64]:
        """The index of the window that each time in s lies in."""
        index = ((at_s - self.begin_s) // self.length_s).astype(np.int64)
        return np.clip(index, 0, max(self.count - 1, 0))


def windows_of(packets: Packets, length_s: float) -> Windows:
    """Divides packets into windows by the time at which they were sent."""
    begin_s = float(packets.sent_s[0])
    index = ((packets.sent_s - begin_s) // length_s).astype(np.int64)
    count = int(index[-1]) + 1
    sizes = np.bincount(index, minlength=count)
    place = np.arange(len(index)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    rows = np.full((count, int(sizes.max())), -1, dtype=np.int64)
    rows[index, place] = np.arange(len(index))
    return Windows(begin_s, length_s, count, rows)


def costs(packets: Packets, windows: Windows, base_s: Array, rates_bps: Array, most_s: float) -> Array:
    """How far the observed delays are from the delays behind a queue, for each window and capacity.

    Args:
        packets: the packets.
        windows: their windows.
        base_s: delay of each packet without queue and transmission, in s.
        rates_bps: the capacities, in bit/s; the same for all windows, or a row for each.
        most_s: a single packet counts at most this much.

    Returns sums of absolute differences in s, of shape (windows, capacities).
    """
    values = rates_bps.shape[-1]
    total = np.zeros((windows.count, values))
    of_all_s = packets.delay_s - base_s
    step = max(1, MOST_CELLS // (values * 8))
    for first in range(0, windows.count, step):
        part = slice(first, first + step)
        rates = rates_bps if rates_bps.ndim == 1 else rates_bps[part]
        for rows, _, sojourn_s in _passes(packets, windows.rows[part], base_s, rates):
            observed_s = np.where(rows >= 0, of_all_s[rows], np.nan)
            error_s = np.minimum(np.abs(observed_s[:, None] - sojourn_s), most_s)
            total[part] += np.nan_to_num(error_s, copy=False)
    return total


def sojourns(packets: Packets, windows: Windows, base_s: Array, rate_bps: Array) -> tuple[Array, Array]:
    """Wait of each packet, and wait and transmission together, in s, with one capacity for each window.

    The first packet that arrives after a loss has the sojourn that was observed.
    """
    wait_s, sojourn_s = np.zeros(len(packets.sent_s)), np.zeros(len(packets.sent_s))
    for rows, waits_s, both_s in _passes(packets, windows.rows, base_s, rate_bps[:, None]):
        there = rows >= 0
        wait_s[rows[there]], sojourn_s[rows[there]] = waits_s[there, 0], both_s[there, 0]
    return wait_s, sojourn_s


def after_loss(packets: Packets) -> Flags:
    """The first packets whose arrivals are known after a lost packet."""
    known = np.flatnonzero(~np.isnan(packets.arrived_s))
    lost = np.cumsum(packets.lost)[known]
    flags: Flags = np.zeros(len(packets.lost), dtype=bool)
    flags[known] = np.diff(lost, prepend=0) > 0
    return flags


def _passes(
    packets: Packets, rows: NDArray[np.int64], base_s: Array, rates_bps: Array
) -> Iterator[tuple[NDArray[np.int64], Array, Array]]:
    """For the first packets of all windows, then the second ones, and so on: rows, wait and sojourn in s."""
    left_s = np.maximum(packets.delay_s - base_s, 0.0)
    shown = ~np.isnan(left_s)
    restarts = after_loss(packets)
    # The last packet before each packet whose delay is known.
    before = np.maximum.accumulate(np.where(shown, np.arange(len(shown)), -1))
    firsts = rows[:, 0]
    previous = np.where(firsts > 0, before[np.maximum(firsts, 1) - 1], -1)
    at_s = np.where(previous >= 0, packets.sent_s[previous], packets.sent_s[np.maximum(firsts, 0)])
    work_s = np.where(previous >= 0, left_s[previous], 0.0)[:, None]
    work_s = np.broadcast_to(work_s, (len(rows), rates_bps.shape[-1])).copy()
    for column in rows.T:
        there = column >= 0
        sent_s = np.where(there, packets.sent_s[column], at_s)
        wait_s = np.maximum(work_s - (sent_s - at_s)[:, None], 0.0)
        service_s = BITS_PER_BYTE * packets.size_bytes[column][:, None] / rates_bps
        restart = (there & restarts[column])[:, None]
        sojourn_s = np.where(restart, left_s[column][:, None], wait_s + service_s)
        wait_s = np.where(restart, np.maximum(sojourn_s - service_s, 0.0), wait_s)
        work_s = np.where((there & ~packets.lost[column])[:, None], sojourn_s, wait_s)
        at_s = sent_s
        yield column, wait_s, sojourn_s
