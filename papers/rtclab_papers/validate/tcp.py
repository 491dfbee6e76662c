"""Compares the simulator's TCP with the kernel's over the same bottlenecks."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import ArrayLike

from rtclab.backend import backend, turn
from rtclab.scenario import Scenario
from rtclab_papers.markdown import table

SCENARIO = "tcp-vs-kernel"
DURATION_S = 30
AT_ONCE = 3
"""Number of labs at the same time. A thousand packets per second in each are a light load."""
WARM_UP_S = 5.0
"""The measurement begins after this time, when slow start and its losses are over."""
END_S = 0.5
"""The measurement ends this long before the run, because connections open slightly after it begins."""
BOUNDS_PERCENT = {"rate": 5.0, "queue": 20.0, "share": 10.0}
"""Maximum differences from the kernel's figures; see :meth:`Figures.differences_percent`."""


@dataclass(frozen=True)
class Bottleneck:
    """A bottleneck and the TCP flows that share it. Each direction has half of the round-trip time."""

    capacity_bps: int
    rtt_ms: int
    queue_bytes: int
    congestion_control: str
    flows: int = 1

    def scenario(self, duration_s: int) -> Scenario:
        """The scenario of this condition."""
        return Scenario.load(
            SCENARIO,
            [
                f"duration={duration_s} s",
                f"link.up.capacity={self.capacity_bps} bit/s",
                f"link.up.queue={self.queue_bytes} B",
                f"link.up.delay={self.rtt_ms / 2:g} ms",
                f"link.down.delay={self.rtt_ms / 2:g} ms",
                f"traffic.upload.congestion_control={self.congestion_control}",
                f"traffic.upload.flows={self.flows}",
            ],
        )


CONDITIONS = tuple(
    Bottleneck(capacity_bps, rtt_ms, queue_bytes, control, flows)
    for capacity_bps, rtt_ms, queue_bytes in (
        (10_000_000, 50, 62_500),
        (10_000_000, 50, 125_000),
        (2_000_000, 100, 100_000),
    )
    for flows in (1, 2)
    for control in ("newreno", "cubic", "bbr")
)
"""The queues are one, two and four bandwidth-delay products."""


@dataclass(frozen=True)
class Figures:
    """Figures of one side: share of the capacity used, mean bytes queued, and the first flow's share."""

    rate: float
    queue_bytes: float
    share: float

    @property
    def larger_share(self) -> float:
        """The larger of two flows' shares, or 1 for a single flow. Which flow is ahead is random."""
        return max(self.share, 1 - self.share)

    def differences_percent(self, kernel: Figures) -> dict[str, float]:
        """Differences from the kernel's figures: rate and queue in per cent, share in percentage points."""
        return {
            "rate": 100 * (self.rate / kernel.rate - 1),
            "queue": 100 * (self.queue_bytes / kernel.queue_bytes - 1),
            "share": 100 * (self.larger_share - kernel.larger_share),
        }


def simulated(condition: Bottleneck, duration_s: int) -> Figures:
    """The figures of the simulator's TCP."""
    scenario = condition.scenario(duration_s)
    with TemporaryDirectory(prefix="rtclab-tcp-") as out:
        every = backend("sim").run(scenario, seed=1, repeat=0, out=Path(out)).table("packets")
        packets = every.filter(pl.col("flow").str.contains(r"^upload(\.\d+)?$"))
    received = packets.drop_nulls("delivered_ns").group_by("flow").agg(pl.sum("size_bytes")).sort("flow")
    columns = (packets["sent_ns"], packets["delivered_ns"].fill_null(-1), packets["size_bytes"])
    return _figures(condition, columns, received["size_bytes"].to_list(), duration_s)


@dataclass(frozen=True)
class Lateness:
    """How late the emulator wrote packets, relative to its model."""

    p99_ms: float
    max_ms: float


def of_kernel(condition: Bottleneck, duration_s: int) -> tuple[Figures, Lateness]:
    """The figures of the kernel's TCP through the emulator, and the emulator's lateness."""
    from rtclab.backend.live import kernel_tcp

    network: Any = condition.scenario(duration_s).native(seed=1)["network"]
    paths = {path["name"]: path for path in network["paths"]}
    seen = kernel_tcp(
        paths["alice.up"], paths["alice.down"], condition.congestion_control, condition.flows, duration_s
    )
    columns = (seen["sent_ns"], seen["delivered_ns"], seen["size_bytes"])
    figures = _figures(condition, columns, seen["flow_bytes"], duration_s)
    late = seen["lateness"]
    return figures, Lateness(p99_ms=late["p99_ns"] / 1e6, max_ms=late["max_ns"] / 1e6)


def _figures(
    condition: Bottleneck, packets: tuple[ArrayLike, ...], flow_bytes: list[int], duration_s: int
) -> Figures:
    """Figures from the warm-up to the end of the measurement.

    The mean queue is the sum of bytes times their waiting times, divided by the time (Little's law).
    """
    sent_ns, delivered_ns, size_bytes = (np.asarray(column, dtype=np.float64) for column in packets)
    begin_ns, end_ns = sent_ns.min() + np.array([WARM_UP_S, duration_s - END_S]) * 1e9
    arrived = (delivered_ns > begin_ns) & (delivered_ns <= end_ns)
    window_s = (end_ns - begin_ns) / 1e9
    served_ns = delivered_ns - condition.rtt_ms / 2 * 1e6 - size_bytes * 8e9 / condition.capacity_bps
    waited_ns = np.clip(served_ns, begin_ns, end_ns) - np.clip(sent_ns, begin_ns, end_ns)
    waited_ns = np.where(delivered_ns >= 0, np.maximum(waited_ns, 0), 0)
    return Figures(
        rate=float(size_bytes[arrived].sum() * 8 / window_s / condition.capacity_bps),
        queue_bytes=float((waited_ns * size_bytes).sum() / (end_ns - begin_ns)),
        share=flow_bytes[0] / sum(flow_bytes),
    )


@dataclass(frozen=True)
class TcpComparison:
    """One condition on both sides."""

    condition: Bottleneck
    kernel: Figures
    simulated: Figures
    lateness: Lateness


def compare(*, duration_s: int, say: Callable[[str], None]) -> list[TcpComparison]:
    """Measures every condition on both sides."""
    say(f"{len(CONDITIONS)} conditions of {duration_s} s, {AT_ONCE} at a time")
    with turn(), ThreadPoolExecutor(AT_ONCE) as pool:
        # Nothing is simulated until all is measured: it would make the emulators late.
        measured = []
        for condition, seen in zip(
            CONDITIONS, pool.map(partial(of_kernel, duration_s=duration_s), CONDITIONS), strict=True
        ):
            measured.append(seen)
            say(f"  kernel, {condition.congestion_control}: {100 * seen[0].rate:.1f} % of the capacity")
    compared = []
    for condition, (kernel, late) in zip(CONDITIONS, measured, strict=True):
        compared.append(TcpComparison(condition, kernel, simulated(condition, duration_s), late))
        say(" | ".join(_cells(compared[-1])))
    return compared


def page(compared: Sequence[TcpComparison], duration_s: int) -> Iterator[str]:
    """The generated part of the page."""
    expected = ", ".join(f"{name} within {bound:g} %" for name, bound in BOUNDS_PERCENT.items())
    yield "# TCP: simulated against the kernel's"
    yield f"""\
Made by `rtclab validate tcp`, which compares iperf3 through the emulator with the simulator's
TCP over the same bottleneck, for {duration_s} s without the first {WARM_UP_S:g} s. The rate is
in per cent of the capacity, the queue is the mean number of bytes that wait, and the share is the
larger flow's. Late is the 99th percentile of the emulator's lateness, which adds to the kernel's
round-trip time."""
    yield f"Expected: {expected}."
    sides = [f"{name} {side}" for name in BOUNDS_PERCENT for side in ("kernel", "simulated")]
    heads = ["capacity, RTT, queue", "TCP", "flows", *sides, "late", "within"]
    yield table(heads, map(_cells, compared), f"ll{'r' * (len(sides) + 2)}l")


def _cells(one: TcpComparison) -> list[str]:
    condition, kernel, ours = one.condition, one.kernel, one.simulated
    over = [
        f"{name} {percent:+.0f} %"
        for name, percent in ours.differences_percent(kernel).items()
        if abs(percent) > BOUNDS_PERCENT[name]
    ]
    shares = [f"{side.larger_share:.2f}" if condition.flows > 1 else "" for side in (kernel, ours)]
    return [
        f"{condition.capacity_bps / 1e6:g} Mbit/s, {condition.rtt_ms} ms, {condition.queue_bytes / 1e3:g} kB",
        condition.congestion_control,
        str(condition.flows),
        f"{100 * kernel.rate:.1f} %",
        f"{100 * ours.rate:.1f} %",
        f"{kernel.queue_bytes / 1000:.1f} kB",
        f"{ours.queue_bytes / 1000:.1f} kB",
        *shares,
        f"{one.lateness.p99_ms:.1f} ms",
        f"**{', '.join(over)}**" if over else "yes",
    ]
