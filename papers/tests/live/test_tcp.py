"""The simulator's TCP against the kernel's, through the same bottleneck."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext

import pytest
from live_tests import undisturbed
from parts import LAB

from rtclab.backend.live import kernel_congestion_controls
from rtclab_papers.validate.tcp import BOUNDS_PERCENT, Bottleneck, Figures, Lateness, of_kernel, simulated
from side_by_side import TURNS

pytestmark = [pytest.mark.live, pytest.mark.measures, pytest.mark.needs(*LAB, "iperf3")]

SECONDS = 20
LATE_MS = 3.0
"""Bound of the 99th percentile: to the kernel's TCP, lateness adds 6 % to the round-trip time of 50 ms."""
STOOD_STILL_MS = 50.0
"""Bound of the maximum: after a round trip, all acknowledgements come in one burst."""
# With a queue of two bandwidth-delay products, NewReno's sawtooth has a period of 25 round trips, 2.5 s.
CONDITIONS = {
    f"{control} {flows}": Bottleneck(4_000_000, 50, 50_000, control, flows)
    for control, flows in (("newreno", 1), ("cubic", 1), ("bbr", 1), ("cubic", 2))
}


def disturbed(seen: tuple[Figures, Lateness]) -> bool:
    """Whether the emulator was too late, so that the kernel had a different network than the simulator."""
    return seen[1].p99_ms > LATE_MS or seen[1].max_ms > STOOD_STILL_MS


Kernel = dict[str, Figures | BaseException]
"""By condition, the figures of the kernel's TCP, or the exception that skips or fails an undecided test."""


@pytest.fixture(scope="module")
def kernel() -> Kernel:
    """All conditions at the same time, each in its own lab; 700 packets per second are a light load."""

    def measured(condition: Bottleneck) -> Figures | BaseException:
        try:
            figures, _ = undisturbed(lambda: of_kernel(condition, SECONDS), disturbed, nullcontext)
        except (pytest.skip.Exception, pytest.fail.Exception) as undecided:
            return undecided
        return figures

    known = {
        name: own
        for name, own in CONDITIONS.items()
        if own.congestion_control in kernel_congestion_controls()
    }
    with TURNS.in_silence(), ThreadPoolExecutor(len(known)) as pool:
        return dict(zip(known, pool.map(measured, known.values()), strict=True))


@pytest.mark.parametrize("name", CONDITIONS)
def test_rate_queue_and_share_agree_with_the_kernels_tcp(kernel: Kernel, name: str) -> None:
    if name not in kernel:
        pytest.skip(f"this kernel has no {CONDITIONS[name].congestion_control}")
    theirs = kernel[name]
    if isinstance(theirs, BaseException):
        raise theirs
    ours, condition = simulated(CONDITIONS[name], SECONDS), CONDITIONS[name]
    differences = ours.differences_percent(theirs)
    if condition.congestion_control == "bbr":
        # BBR queues only as much as it overestimates, so its queue grows with every late acknowledgement; its
        # window of two bandwidth-delay products keeps it below one.
        product_bytes = condition.capacity_bps / 8 * condition.rtt_ms / 1000
        assert 0 < ours.queue_bytes < product_bytes
        assert 0 < theirs.queue_bytes < product_bytes
        del differences["queue"]
    # Equal flows converge to half after many sawtooths. Here there are only six, so slow start still matters.
    for figures in (ours, theirs):
        assert 1 / 2 <= figures.larger_share < 2 / 3 or condition.flows == 1
    del differences["share"]
    for figure, percent in differences.items():
        bound = BOUNDS_PERCENT[figure]
        assert -bound <= percent <= bound, (figure, percent, ours, theirs)
