"""Losses: what the network dropped, and what is still missing after repair."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import polars as pl

from rtclab.metrics.registry import metric
from rtclab.metrics.series import (
    NS_PER_S,
    SECOND_NS,
    Samples,
    Window,
    counter,
    flow_seconds,
    increase,
    span_ns,
    total,
)
from rtclab.trace import Trace

NS_PER_MS = 1_000_000
_MEDIA_SENT, _MEDIA_DROPPED = ("media_sent_packets",), ("media_dropped_packets",)
_FIRST_SENT = (*_MEDIA_SENT, "fec_sent_packets")
_ALL_SENT, _ALL_DROPPED = ("sent_packets",), ("dropped_packets",)
_FIRST_DROPPED = (*_MEDIA_DROPPED, "fec_dropped_packets")


@metric(unit="%", better="lower", source="RFC 8868, section 3; RFC 7680", bounds=(0, 100))
def packet_loss(trace: Trace, flow: str, window: Window | None = None) -> float:
    """Packets that never arrived (dropped by queue and wire, or stuck) as a share of the packets sent.

    Of first transmissions of media and FEC where these are known apart from retransmissions, else of all. A
    packet is stuck if the flow ended before it arrived, longer after it was sent than any other packet took,
    and than a second.
    """
    rows = _seconds(trace, flow, window)
    known_apart = total(rows, *_FIRST_SENT) > 0
    sent, dropped = (_FIRST_SENT, _FIRST_DROPPED) if known_apart else (_ALL_SENT, _ALL_DROPPED)
    lost, of = total(rows, *dropped) + _stuck(rows, sent, dropped), total(rows, *sent)
    return 100 * min(lost / of, 1.0) if of else float("nan")


@metric(
    unit="%",
    better="lower",
    source="RFC 8868, section 3 (post-repair loss); W3C webrtc-stats, packetsLost",
    bounds=(0, 100),
)
def residual_loss(trace: Trace, flow: str, window: Window | None = None) -> float:
    """Media packets that were not there for the decoder in time, as a share of the media packets sent.

    Dropped or stuck, less repaired in time by retransmission or FEC. Where packetsRepaired is not known (RTX)
    it is the same as the unseen loss.
    """
    repairs = counter(trace, "inbound_rtp", flow, "packetsRepaired")
    if not repairs.at_s.size:
        return unseen_loss(trace, flow, window)
    rows = _seconds(trace, flow, window)
    sent = total(rows, *_MEDIA_SENT)
    lost = total(rows, *_MEDIA_DROPPED) + _stuck(rows, _MEDIA_SENT, _MEDIA_DROPPED)
    missing = max(lost - increase(repairs, window), 0.0)
    return 100 * min(missing / sent, 1.0) if sent else float("nan")


@metric(unit="%", better="lower", source="W3C webrtc-stats, packetsLost; RFC 4588", bounds=(0, 100))
def unseen_loss(trace: Trace, flow: str, window: Window | None = None) -> float:
    """Packets of which no copy arrived, as a share of those expected: residual loss seen from the wire.

    A passive observer at the receiver cannot see what FEC recovers, and takes lost FEC, which shares the
    media's sequence numbers in RED and is never sent again, for lost media. Per stream: missing =
    packetsLost - retransmittedPacketsReceived, not below 0, since packetsLost does not fall when a repair
    arrives; expected = packetsReceived - retransmittedPacketsReceived + packetsLost. A probe that is padded
    with repeated packets counts as a repair, which makes the figure a lower bound. Media sent after the last
    packet that arrived leave no gap in sequence numbers; where nothing arrives for the last second or longer,
    they are missing too, but for what could still have been on its way when the flow ended.
    """
    missing = expected = _sent_into_silence(trace, flow, window)
    for counters in trace.cached(_counters_of_streams).get(flow, []):
        lost, received, repaired = (increase(counted, window) for counted in counters)
        missing += max(lost - repaired, 0.0)
        expected += received - repaired + lost
    return 100 * missing / expected if expected > 0 else float("nan")


def _seconds(trace: Trace, flow: str, window: Window | None) -> pl.DataFrame:
    """Rows of the flow, with a column ``stuck``: packets sent in time that neither arrived nor were dropped.

    Packets arrive in the order in which they were sent, so of those not dropped the last ones are stuck. What
    may have been on its way when the flow ended is left out.
    """
    whole = flow_seconds(trace, flow)
    admitted = (whole["sent_packets"] - whole["dropped_packets"]).to_numpy()
    too_many = np.cumsum(admitted) - float(whole["delivered_packets"].sum())
    stuck = np.clip(too_many, 0, np.maximum(admitted, 0)) * _in_time(trace, flow, whole)
    with_stuck = whole.select("at_ns", stuck=pl.Series(stuck, dtype=pl.Float64))
    return flow_seconds(trace, flow, window).join(with_stuck, on="at_ns", how="left", maintain_order="left")


def _in_time(trace: Trace, flow: str, whole: pl.DataFrame) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    """Whether all that was sent in a second should have arrived by the flow's end.

    Captures do not tell: what was not seen at the other point may have passed there when nobody captured.
    """
    longest_ms = whole["one_way_delay_max_ms"].max()
    longest_ns = float(longest_ms) * NS_PER_MS if isinstance(longest_ms, float) else 0.0
    latest_ns = span_ns(trace, flow)[1] - max(longest_ns, SECOND_NS)
    seen: np.ndarray[tuple[int], np.dtype[np.bool_]] = whole["at_ns"].to_numpy() + SECOND_NS <= latest_ns
    return seen & (trace.manifest.capture is None)


def _stuck(rows: pl.DataFrame, sent: Sequence[str], dropped: Sequence[str]) -> float:
    """How many of what these columns count are stuck: as large a part as of all that was not dropped."""
    of_these = pl.sum_horizontal(pl.col(sent).fill_null(0)) - pl.sum_horizontal(pl.col(dropped).fill_null(0))
    of_all = pl.col("sent_packets") - pl.col("dropped_packets")
    stuck = pl.col("stuck") * pl.col("share") * of_these / of_all
    return float(rows.filter(pl.col("stuck") > 0).select(stuck.sum()).item())


def _sent_into_silence(trace: Trace, flow: str, window: Window | None) -> float:
    """Media packets that were sent after all that the receiver knows of, if nothing arrived at the end.

    Its counters end with the last packet that arrived. What was sent in the last moments does not count, as
    it could still have been on its way.
    """
    whole = flow_seconds(trace, flow)
    in_time = _in_time(trace, flow, whole)
    if not np.any(in_time & (whole["delivered_packets"].reverse().cum_sum().reverse() == 0).to_numpy()):
        return 0.0
    sent = whole["media_sent_packets"].fill_null(0).to_numpy()
    unknown = np.clip(np.cumsum(sent) - _expected(trace, flow), 0, sent) * in_time
    with_unknown = whole.select("at_ns", unknown=pl.Series(unknown, dtype=pl.Float64))
    return total(flow_seconds(trace, flow, window).join(with_unknown, on="at_ns"), "unknown")


def _expected(trace: Trace, flow: str) -> float:
    """First transmissions that the receiver knows of, whether they arrived or not."""
    return sum(
        increase(received) - increase(repaired) + increase(lost)
        for lost, received, repaired in trace.cached(_counters_of_streams).get(flow, [])
    )


def _counters_of_streams(trace: Trace) -> dict[object, list[tuple[Samples, ...]]]:
    """Lost, received and retransmitted packets of every stream that was received, by flow."""
    columns = ["packetsLost", "packetsReceived", "retransmittedPacketsReceived"]
    rows = trace.table("inbound_rtp").with_columns(pl.col(columns).cast(pl.Float64).fill_null(0.0))
    streams = rows.sort("at_ns", maintain_order=True).partition_by("flow", "ssrc", as_dict=True)
    found: dict[object, list[tuple[Samples, ...]]] = {}
    for (flow, _), stream in streams.items():
        at_s = stream["at_ns"].to_numpy() / NS_PER_S
        counters = tuple(Samples(at_s, stream[name].to_numpy()) for name in columns)
        found.setdefault(flow, []).append(counters)
    return found
