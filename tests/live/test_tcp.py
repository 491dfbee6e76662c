"""The simulator's TCP against the kernel's, through the same bottleneck."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest
from conftest import undisturbed

from rtclab.backend.live.tcp import kernel_congestion_controls
from rtclab.validate.tcp import BOUNDS_PERCENT, Condition, Figures, of_kernel, simulated

pytestmark = pytest.mark.live

SECONDS = 20
LATE_MS = 3.0
"""Lateness is a longer path to the kernel's TCP: 6 % of this round trip of 50 ms (99th percentile)."""
# Two bandwidth-delay products of queue: NewReno's sawtooth has a period of 25 round trips, 2.5 s.
CONDITIONS = {
    f"{control} {flows}": Condition(4_000_000, 50, 50_000, control, flows)
    for control, flows in (("newreno", 1), ("cubic", 1), ("bbr", 1), ("cubic", 2))
}


@pytest.fixture(scope="module")
def kernel() -> dict[str, tuple[Figures, float]]:
    """All conditions at the same time, each in a lab of its own: 700 packets per second are no load."""

    def measured(condition: Condition) -> tuple[Figures, float]:
        return undisturbed(lambda: of_kernel(condition, SECONDS), lambda seen: seen[1] > LATE_MS)

    known = {
        name: own
        for name, own in CONDITIONS.items()
        if own.congestion_control in kernel_congestion_controls()
    }
    with ThreadPoolExecutor(len(known)) as pool:
        return dict(zip(known, pool.map(measured, known.values()), strict=True))


@pytest.mark.parametrize("name", CONDITIONS)
def test_rate_queue_and_share_are_those_of_the_kernels_tcp(
    kernel: dict[str, tuple[Figures, float]], name: str
) -> None:
    if name not in kernel:
        pytest.skip(f"this kernel has no {CONDITIONS[name].congestion_control}")
    theirs, late_ms = kernel[name]
    if late_ms > LATE_MS:
        pytest.skip(f"the machine stood still: the kernel's path was longer by {late_ms:.1f} ms, three times")
    ours, condition = simulated(CONDITIONS[name], SECONDS), CONDITIONS[name]
    differences = ours.differences_percent(theirs)
    if condition.congestion_control == "bbr":
        # BBR's queue is what its estimates are too high by, so it grows with every late acknowledgement; its
        # window of two bandwidth-delay products keeps it below one.
        product_bytes = condition.capacity_bps / 8 * condition.rtt_ms / 1000
        assert all(0 < figures.queue_bytes < product_bytes for figures in (ours, theirs))
        del differences["queue"]
    # Alike flows meet at a half after many sawtooths; here are six, and slow start decides who is ahead.
    assert all(figures.larger_share < 2 / 3 for figures in (ours, theirs)) or condition.flows == 1
    del differences["share"]
    for figure, percent in differences.items():
        assert abs(percent) <= BOUNDS_PERCENT[figure], (figure, percent, ours, theirs)
