"""The values measured in a repeat and kept as rows: the papers' numbers, and further values of live calls."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from math import isnan, nan
from typing import Literal

import polars as pl

from rtclab.experiment import encode_ms
from rtclab.metrics import METRICS
from rtclab.trace import Trace
from rtclab_papers.campaigns import Item
from rtclab_papers.campaigns.rows import Value
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
    "freeze_count",
    "freeze_duration",
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

NOT_MEDIA = "not_media"
"""1 for a flow that carries no media between participants: legs of a server, feedback and cross traffic."""


@dataclass(frozen=True)
class Need:
    """The needs of the papers' numbers in a condition: names of measures, and patterns of flows."""

    measures: tuple[str, ...]
    flows: tuple[str, ...]


def measured(item: Item, trace: Trace, *, needs: Mapping[str, Need], more: More) -> list[Value]:
    """The values of a repeat.

    Args:
        item: the repeat.
        trace: the trace of the repeat.
        needs: the needs of the papers' numbers, by condition. Measures by which backends are compared are
            kept of all flows of media.
        more: further values to keep: none, the measures by which simulated and live calls are compared, or
            also values that only live calls have, per flow, participant and repeat.
    """
    need = needs[item.condition]
    found = measure(trace, dict.fromkeys((MEDIA, *need.measures)))
    media = {flow for flow, (is_media, _) in found.pop(MEDIA).items() if is_media}
    wanted = {flow for flow in trace.flows if _is_wanted(flow, need.flows, is_media=flow in media)}
    values: list[Value] = [(flow, NOT_MEDIA, 1.0) for flow in sorted(wanted - media)]
    values += [
        (flow, name, value)
        for name, of_flows in found.items()
        for flow, (value, _) in of_flows.items()
        if value is not None and flow in (wanted | media if name in COMPARED else wanted)
    ]
    if more == "compared":
        values += [*_of_flows(trace, (ONE_WAY_DELAY,)), *_shares(trace)]
    if more == "live":
        values += [
            *_of_flows(trace, OF_A_FLOW),
            *_of_participants(trace),
            *_shares(trace),
            *_of_the_repeat(trace),
        ]
    return [value for value in values if isinstance(value[2], str) or not isnan(value[2])]


def _is_wanted(flow: str, patterns: Sequence[str], *, is_media: bool) -> bool:
    """Whether a pattern matches the flow. The pattern of all flows means all flows of media."""
    return any(is_media if pattern == EVERY_FLOW else fnmatchcase(flow, pattern) for pattern in patterns)


def _of_flows(trace: Trace, names: Sequence[str]) -> Iterator[Value]:
    for flow in trace.flows:
        for name in names:
            yield flow, name, METRICS[name].function(trace, flow, None)


def _of_participants(trace: Trace) -> Iterator[Value]:
    host = trace.table("host").group_by("participant").agg(pl.col("cpu_percent", "memory_bytes").mean())
    for name, cpu, memory in host.sort("participant").iter_rows():
        yield name, CPU, nan if cpu is None else cpu
        yield name, MEMORY, nan if memory is None else memory / 1e6
    video = trace.table("outbound_rtp").filter(pl.col("kind") == "video")
    for name, mean_ms in encode_ms(trace).items():
        yield name, ENCODE_MS, mean_ms
    last = video.group_by("participant", maintain_order=True).last()
    for name, encoder in last.select("participant", "encoderImplementation").iter_rows():
        if encoder:
            yield name, ENCODER, encoder


def _shares(trace: Trace) -> Iterator[Value]:
    yield "", FAIRNESS, METRICS["fairness"].function(trace, None)
    yield "", TCP_SHARE, _tcp_share(trace)


def _of_the_repeat(trace: Trace) -> Iterator[Value]:
    manifest = trace.manifest
    yield "", CONNECTIONS, float(manifest.connections)
    yield "", NOT_CONNECTED, float(len(manifest.not_connected))
    if manifest.lateness is not None:
        yield "", LATE_MS, manifest.lateness.p99_ns / 1e6
    if manifest.browser is not None:
        yield "", BROWSER, manifest.browser


def _tcp_share(trace: Trace) -> float:
    """Cross traffic's share of all rates in %; NaN if there is none."""
    rates = {flow: METRICS["receiving_rate"].function(trace, flow, None) for flow in trace.flows}
    known = {flow: rate for flow, rate in rates.items() if not isnan(rate)}
    tcp = [rate for flow, rate in known.items() if trace.manifest.flows[flow].call is None]
    return 100 * sum(tcp) / (sum(known.values()) or nan) if tcp else nan
