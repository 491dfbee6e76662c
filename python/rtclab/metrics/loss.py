"""Losses: packets lost in the network, and media still missing after repair."""

from __future__ import annotations

from collections.abc import Sequence
from math import nan

import polars as pl

from rtclab.metrics.registry import EXACT, OF_REPORTS, UNKNOWN, bounded, metric, sources
from rtclab.metrics.series import (
    NO_SECONDS,
    SECOND_NS,
    Samples,
    active_seconds,
    counter,
    increase,
    total,
)
from rtclab.trace import NS_PER_MS, NS_PER_S, Trace, rows_by

_MEDIA_SENT, _MEDIA_DROPPED = ("media_sent_packets",), ("media_dropped_packets",)
_FIRST_SENT = (*_MEDIA_SENT, "fec_sent_packets")
_ALL_SENT, _ALL_DROPPED = ("sent_packets",), ("dropped_packets",)
_FIRST_DROPPED = (*_MEDIA_DROPPED, "fec_dropped_packets")


@metric(
    unit="%",
    better="lower",
    source="RFC 8868, section 3; RFC 7680",
    bounds=(0, 100),
    known=sources(
        EXACT,
        EXACT,
        bounded("of all RTP packets; at least: gaps and packets that only the first capture has"),
        bounded("of all RTP packets; at least: gaps and packets that feedback does not report"),
        UNKNOWN,
    ),
)
def packet_loss(trace: Trace, flow: str) -> float:
    """Packets that never arrived, in % of the packets sent while the flow was active.

    It counts first transmissions of media and FEC or, if these cannot be told from retransmissions, all
    packets. A packet that had not arrived when the flow ended counts if it was sent more than a second before
    and the slowest packet took less time.
    """
    rows = _seconds(trace, flow)
    known_apart = total(rows, *_FIRST_SENT) > 0
    sent, dropped = (_FIRST_SENT, _FIRST_DROPPED) if known_apart else (_ALL_SENT, _ALL_DROPPED)
    lost, of = total(rows, *dropped) + _stuck(rows, sent, dropped), total(rows, *sent)
    return 100 * min(lost / of, 1.0) if of else float("nan")


@metric(
    unit="%",
    better="lower",
    source="RFC 8868, section 3 (post-repair loss)",
    bounds=(0, 100),
    known=sources(EXACT, UNKNOWN, UNKNOWN, UNKNOWN, UNKNOWN),
)
def residual_loss(trace: Trace, flow: str) -> float:
    """Media packets that neither arrived nor were repaired in time for the decoder, in % of those sent.

    Repair is by retransmission or FEC. No browser counts the packets that it repaired, so only simulated
    calls have a value; unseen_loss is what can be observed in all calls.
    """
    repairs = counter(trace, "inbound_rtp", flow, "packetsRepaired")
    if not repairs.at_s.size:
        return nan
    rows = _seconds(trace, flow)
    sent = total(rows, *_MEDIA_SENT)
    lost = total(rows, *_MEDIA_DROPPED) + _stuck(rows, _MEDIA_SENT, _MEDIA_DROPPED)
    missing = max(lost - increase(repairs, trace.window), 0.0)
    return 100 * min(missing / sent, 1.0) if sent else float("nan")


@metric(
    unit="%",
    better="lower",
    source="W3C webrtc-stats, packetsLost; RFC 4588",
    bounds=(0, 100),
    known=OF_REPORTS,
)
def unseen_loss(trace: Trace, flow: str) -> float:
    """Sequence numbers never received, not even by retransmission, in % of those expected.

    This is what an observer of sequence numbers at the receiver sees, and not the loss of media: the observer
    does not know what FEC recovers, and takes lost FEC packets for lost media. Padding on the stream of
    retransmissions counts as retransmission, as in a browser's counters.
    """
    # By stream: packetsLost does not fall when a repair arrives, so the received retransmissions are
    # subtracted. Lost FEC packets share the sequence numbers of the media in RED and are never sent again.
    # Media sent after the last packet that arrived leave no gap in sequence numbers and are added.
    missing = expected = total(_seconds(trace, flow), "unheard_of")
    for counters in trace.cached(_counters_of_streams).get(flow, []):
        lost, received, repaired = (increase(counted, trace.window) for counted in counters)
        missing += max(lost - repaired, 0.0)
        expected += received - repaired + lost
    return 100 * missing / expected if expected > 0 else float("nan")


def _seconds(trace: Trace, flow: str) -> pl.DataFrame:
    """The flow's rows of :func:`_with_unfinished`."""
    return trace.cached_in_window(_seconds_of_flows).get(flow, NO_SECONDS_UNFINISHED)


def _seconds_of_flows(trace: Trace) -> dict[object, pl.DataFrame]:
    unfinished = trace.cached(_with_unfinished)
    if trace.window is not None:
        shares = active_seconds(trace).select("flow", "at_ns", "share")
        unfinished = unfinished.drop("share").join(shares, on=["flow", "at_ns"], maintain_order="left")
    return rows_by(unfinished, "flow")


def _with_unfinished(trace: Trace) -> pl.DataFrame:
    """The seconds of all flows, with the number of packets sent in each that were lost without a drop.

    ``stuck`` packets neither arrived nor were dropped. Packets arrive in the order in which they were sent,
    so the last of those that were not dropped are stuck.

    ``unheard_of`` are packets of media and FEC sent after the last one that the receiver knows of. They are
    counted only if nothing arrived at the end, because the receiver's counters stop at the last packet that
    arrived.

    Packets that may still have been in flight when the flow ended count as neither. These are the packets of
    the last second, or of the largest one-way delay if that is longer. In captures both columns are 0,
    because a packet that was not seen at the other point may have passed while that capture was not running.
    """
    # FEC shares the sequence numbers of media.
    numbered = pl.sum_horizontal(pl.col(_FIRST_SENT).fill_null(0))
    delivered = pl.col("delivered_packets")
    admitted = pl.col("sent_packets") - pl.col("dropped_packets")
    slowest_ns = pl.col("one_way_delay_max_ms").max().over("flow").fill_null(0) * NS_PER_MS
    in_time = pl.col("at_ns") + SECOND_NS <= pl.col("end_ns") - pl.max_horizontal(slowest_ns, SECOND_NS)
    if trace.manifest.capture is not None:
        in_time = pl.lit(False)
    died = (in_time & (delivered.cum_sum(reverse=True).over("flow") == 0)).any().over("flow")
    not_arrived = admitted.cum_sum().over("flow") - delivered.sum().over("flow")
    not_known = numbered.cum_sum().over("flow") - pl.col("known").fill_null(0)
    return (
        active_seconds(trace)
        .lazy()
        .join(_known_to_receivers(trace), on="flow", how="left", maintain_order="left")
        .with_columns(
            stuck=not_arrived.clip(0, pl.max_horizontal(admitted, 0)) * in_time.cast(pl.Int64),
            unheard_of=not_known.clip(0, numbered) * (in_time & died).cast(pl.Int64),
        )
        .drop("known")
        .collect()
    )


NO_SECONDS_UNFINISHED = NO_SECONDS.with_columns(stuck=pl.lit(0), unheard_of=pl.lit(0))


def _known_to_receivers(trace: Trace) -> pl.LazyFrame:
    """By flow, ``known``: the first transmissions that the receiver knows of, received or missing."""
    lost, received, repaired = (pl.col(name).fill_null(0) for name in _COUNTERS)
    reports = trace.table("inbound_rtp").lazy().select("flow", "ssrc", "at_ns", *_COUNTERS)
    rows = reports.sort("at_ns", maintain_order=True)
    last = rows.group_by("flow", "ssrc").agg((received - repaired + lost).last().alias("known"))
    return last.group_by("flow").agg(pl.col("known").sum())


def _stuck(rows: pl.DataFrame, sent: Sequence[str], dropped: Sequence[str]) -> float:
    """Number of stuck packets of the given kinds, assuming their share of all packets not dropped."""
    if not rows["stuck"].sum():
        return 0.0
    rows = rows.filter(pl.col("stuck") > 0)
    of_these = pl.sum_horizontal(pl.col(sent).fill_null(0)) - pl.sum_horizontal(pl.col(dropped).fill_null(0))
    of_all = pl.col("sent_packets") - pl.col("dropped_packets")
    return total(rows.with_columns(stuck=pl.col("stuck") * of_these / of_all), "stuck")


_COUNTERS = ("packetsLost", "packetsReceived", "retransmittedPacketsReceived")


def _counters_of_streams(trace: Trace) -> dict[object, list[tuple[Samples, ...]]]:
    """By flow, the counters of lost, received and retransmitted packets of every received stream."""
    known = pl.col(_COUNTERS).cast(pl.Float64).fill_null(0.0)
    rows = trace.table("inbound_rtp").select("flow", "ssrc", "at_ns", known)
    streams = rows_by(rows.sort("at_ns", maintain_order=True), "flow", "ssrc")
    found: dict[object, list[tuple[Samples, ...]]] = {}
    for (flow, _), stream in streams.items():
        at_s = stream["at_ns"].to_numpy() / NS_PER_S
        counters = tuple(Samples(at_s, stream[name].to_numpy()) for name in _COUNTERS)
        found.setdefault(flow, []).append(counters)
    return found
