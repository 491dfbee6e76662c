"""The values measured in a repeat and kept as rows: the papers' numbers, and further values of live calls."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from math import isnan, nan
from typing import Literal

import polars as pl

from rtclab.experiment import Number, encode_ms
from rtclab.metrics import METRICS
from rtclab.trace import Trace
from rtclab_papers.reproduce.measurements import EVERY_FLOW
from rtclab_papers.reproduce.measures import MEDIA, measure

COMPARED = ("rate_kbps", "rtt_ms")
"""Measures by which live and simulated calls are compared."""

ONE_WAY_DELAY = "one_way_delay"
OF_A_FLOW = (
    "goodput",
    ONE_WAY_DELAY,
    "queuing_delay_p50",
    "queuing_delay_p95",
    "delay_variation_p50",
    "delay_variation_p95",
    "packet_loss",
    "unseen_loss",
    "frame_rate",
    "frame_height",
    "freeze_count_w3c",
    "freeze_duration_w3c",
    "setup_signalling",
    "setup_ice",
    "setup_dtls",
    "setup_first_frame",
    "setup_time",
    "tcp_throughput",
    "tcp_retransmissions",
)
"""Metrics of each flow of a live call, where they apply."""

SETUP_STAGES = ("setup_signalling", "setup_ice", "setup_dtls", "setup_first_frame", "setup_time")

CPU, MEMORY, ENCODE_MS, ENCODER = "cpu", "memory", "encode_ms", "encoder"
"""Of a participant: % of one core, MB of 10^6 bytes, mean time per frame in ms, and the encoder's name."""
FAIRNESS, TCP_SHARE = "fairness", "tcp_share"
"""Of a repeat: Jain's index of the flows of media, and TCP's share of all rates in %."""
CONNECTIONS, NOT_CONNECTED, LATE_MS, BROWSER = "connections", "not_connected", "late_p99_ms", "browser"
"""Of a repeat: planned and failed connections, the emulator's lateness (p99), and the browser's version."""

More = Literal["none", "compared", "live"]
"""Values kept of a repeat beyond the papers' numbers; see :func:`measured`."""

FLOW, MORE = "flow:", "more:"
"""Prefixes of names: patterns of the flows to measure, and which further values to keep."""

NOT_MEDIA = "not_media"
"""1 for a flow that carries no media between participants: legs of a server, feedback and cross traffic."""


@dataclass(frozen=True)
class Need:
    """The needs of the papers' numbers in a condition: names of measures, and patterns of flows."""

    measures: tuple[str, ...]
    flows: tuple[str, ...]

    def names(self, more: More) -> tuple[str, ...]:
        """The names for :func:`measured`."""
        return (*self.measures, *(f"{FLOW}{flow}" for flow in self.flows), f"{MORE}{more}")


def measured(trace: Trace, names: Sequence[str]) -> Iterator[Number]:
    """The values of a repeat.

    Args:
        trace: the trace of the repeat.
        names: the names of the papers' measures; patterns of the flows that they are kept of, after ``FLOW``;
            and, after ``MORE``, further values to keep: none, the measures by which simulated and live calls
            are compared, or also values that only live calls have, per flow, participant and repeat. Measures
            by which backends are compared are kept of all flows of media.
    """
    patterns = [name.removeprefix(FLOW) for name in names if name.startswith(FLOW)]
    found = measure(trace, (MEDIA, *(name for name in names if not name.startswith((FLOW, MORE)))))
    flows = found.pop(MEDIA)
    media = {flow for flow, (is_media, _) in flows.items() if is_media}
    wanted = {flow for flow in flows if _is_wanted(flow, patterns, is_media=flow in media)}
    for flow in wanted - media:
        yield Number(NOT_MEDIA, flow, 1.0)
    for name, of_flows in found.items():
        for flow, (value, _) in of_flows.items():
            if value is not None and flow in (wanted | media if name in COMPARED else wanted):
                yield Number(name, flow, value)
    if f"{MORE}compared" in names:
        yield from _of_flows(trace, (ONE_WAY_DELAY,))
        yield from _shares(trace)
    if f"{MORE}live" in names:
        yield from _of_flows(trace, OF_A_FLOW)
        yield from _of_participants(trace)
        yield from _shares(trace)
        yield from _of_the_repeat(trace)


def _text(metric: str, flow: str, text: str) -> Number:
    """A value that is a text, which a campaign writes into the rows as such."""
    return Number(f"{metric}={text}", flow, 1.0)


def _is_wanted(flow: str, patterns: Sequence[str], *, is_media: bool) -> bool:
    """Whether a pattern matches the flow. The pattern of all flows means all flows of media."""
    return any(is_media if pattern == EVERY_FLOW else fnmatchcase(flow, pattern) for pattern in patterns)


def _of_flows(trace: Trace, names: Sequence[str]) -> Iterator[Number]:
    for flow in trace.flows:
        for name in names:
            yield Number(name, flow, METRICS[name].function(trace, flow))


def _of_participants(trace: Trace) -> Iterator[Number]:
    host = trace.table("host").group_by("participant").agg(pl.col("cpu_percent", "memory_bytes").mean())
    for name, cpu, memory in host.sort("participant").iter_rows():
        yield Number(CPU, name, nan if cpu is None else cpu)
        yield Number(MEMORY, name, nan if memory is None else memory / 1e6)
    video = trace.table("outbound_rtp").filter(pl.col("kind") == "video")
    for name, mean_ms in encode_ms(trace).items():
        yield Number(ENCODE_MS, name, mean_ms)
    last = video.group_by("participant", maintain_order=True).last()
    for name, encoder in last.select("participant", "encoderImplementation").iter_rows():
        if encoder:
            yield _text(ENCODER, name, encoder)


def _shares(trace: Trace) -> Iterator[Number]:
    yield Number(FAIRNESS, "", METRICS["fairness"].function(trace))
    yield Number(TCP_SHARE, "", _tcp_share(trace))


def _of_the_repeat(trace: Trace) -> Iterator[Number]:
    manifest = trace.manifest
    yield Number(CONNECTIONS, "", float(manifest.connections))
    yield Number(NOT_CONNECTED, "", float(len(manifest.not_connected)))
    if manifest.lateness is not None:
        yield Number(LATE_MS, "", manifest.lateness.p99_ns / 1e6)
    if manifest.browser is not None:
        yield _text(BROWSER, "", manifest.browser)


def _tcp_share(trace: Trace) -> float:
    """Cross traffic's share of all rates in %; NaN if there is none."""
    rates = {flow: METRICS["receiving_rate"].function(trace, flow) for flow in trace.flows}
    known = {flow: rate for flow, rate in rates.items() if not isnan(rate)}
    tcp = [rate for flow, rate in known.items() if trace.manifest.flows[flow].call is None]
    return 100 * sum(tcp) / (sum(known.values()) or nan) if tcp else nan
