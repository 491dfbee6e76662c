"""The RTP packets of an event log, with the times at which they were sent and arrived.

All times are ns on the monotonic clock of the machine that made the log.
"""

from __future__ import annotations

from typing import cast

import polars as pl

from rtclab.importers.logs.event_log import EventLog
from rtclab.trace import NS_PER_MS

NS_PER_TICK = 250_000
"""Unit of arrivals in transport-wide feedback."""
NS_PER_HALF_MS = NS_PER_MS // 2
"""Mean rounding error of the log's times, which are rounded down."""

UNITS_PER_SECOND = 1 << 18
"""Unit of the send time in RTP headers, which has 24 bits (abs-send-time)."""
SEND_TIME_WRAP = 64 * UNITS_PER_SECOND
ARRIVAL_WRAP_TICKS = (1 << 24) * 256
NTP_SECONDS = 2_208_988_800
"""Seconds from 1900, where NTP begins, to 1970."""

HEADERS = {"ipv4": 20, "ipv6": 40}
UDP_BYTES = 8
SRTP_BYTES = 10
"""Tag of AES128_CM_HMAC_SHA1_80, which Chromium negotiates."""

LATEST_NS = 60_000_000_000
"""The sender has discarded a packet whose feedback comes later than this."""
EARLY_NS = 3_000_000
"""If both ends share a clock, a packet may seem to have arrived up to this long before it was sent."""


def _overhead_bytes(log: EventLog) -> pl.Expr:
    """Bytes of each packet outside RTP (IP, UDP, SRTP), by the last route or selected candidate pair."""
    pairs = log.tables["candidate_pair_config"].filter(pl.col("change") == "selected")
    selected = [
        (at_ms, HEADERS.get(family or "", HEADERS["ipv4"]) + UDP_BYTES + SRTP_BYTES)
        for at_ms, family in pairs.select("at_ms", "remote_family").iter_rows()
    ]
    routes = log.tables["route_change"].filter(pl.col("overhead_bytes") > 0)
    known = sorted([*selected, *routes.select("at_ms", "overhead_bytes").rows()])
    value: pl.Expr = pl.lit(known[0][1] if known else HEADERS["ipv4"] + UDP_BYTES + SRTP_BYTES)
    for since_ms, overhead in known:
        value = pl.when(pl.col("at_ms") >= since_ms).then(pl.lit(overhead)).otherwise(value)
    return value.cast(pl.Int64)


def sent_packets(log: EventLog) -> pl.DataFrame:
    """The packets that the browser sent, with the arrival that feedback reported.

    A packet is lost if feedback covers it and never reports it received.
    """
    kinds = _kinds(log, ("audio_send_config", "ssrc"), ("video_send_config", "rtx_ssrc"))
    packets = _described(log, log.tables["outgoing_rtp"], kinds)
    return _with_arrivals(log, packets, sent=True)


def received_packets(log: EventLog) -> pl.DataFrame:
    """The packets that the browser received, with the arrivals that its own feedback reported.

    The times at which they were sent are on the sender's clock.
    """
    kinds = _kinds(log, ("audio_receive_config", "remote_ssrc"), ("video_receive_config", "rtx_ssrc"))
    packets = _described(log, log.tables["incoming_rtp"], kinds)
    arrived = _with_arrivals(log, packets, sent=False)
    return arrived.with_columns(delivered_ns=pl.col("delivered_ns").fill_null(pl.col("logged_ns")))


def send_time_offset(log: EventLog) -> int:
    """Send times in RTP headers less the monotonic clock, in their own units.

    A browser fixes the difference when a renderer starts. It logs a packet just after it has stamped it, so
    the difference follows from the packets to a tenth of a millisecond; the beginning of the log has it only
    to a millisecond.
    """
    begin = round((log.utc_offset_ms / 1000 + NTP_SECONDS) * UNITS_PER_SECOND) % SEND_TIME_WRAP
    stamped = log.tables["outgoing_rtp"].drop_nulls("abs_send_time")
    if stamped.is_empty():
        return begin
    logged = (pl.col("at_ms") * 2 + 1) * UNITS_PER_SECOND // 2000
    error = stamped.select(nearest(pl.col("abs_send_time") - logged - begin, SEND_TIME_WRAP)).to_series()
    return (begin + round(cast(float, error.median()))) % SEND_TIME_WRAP


def nearest(difference: pl.Expr, wrap: int) -> pl.Expr:
    """A difference modulo ``wrap``, between ``-wrap / 2`` and ``wrap / 2``."""
    half = wrap // 2
    return (difference + half) % wrap - half


def _described(log: EventLog, rtp: pl.DataFrame, kinds: pl.DataFrame) -> pl.DataFrame:
    """Packets with size, kind and the time at which they were sent."""
    logged = (pl.col("at_ms") * 2 + 1) * UNITS_PER_SECOND // 2000
    early = nearest(pl.col("abs_send_time") - logged - send_time_offset(log), SEND_TIME_WRAP)
    logged_ns = pl.col("at_ms") * NS_PER_MS + NS_PER_HALF_MS
    sent_ns = logged_ns + early * 1_000_000_000 // UNITS_PER_SECOND
    media = pl.col("payload_bytes") > 0
    return (
        rtp.join(kinds, on="ssrc", how="left", maintain_order="left")
        .with_columns(
            logged_ns=logged_ns,
            sent_ns=sent_ns.fill_null(logged_ns),
            size_bytes=pl.sum_horizontal("payload_bytes", "header_bytes", "padding_bytes")
            + _overhead_bytes(log),
            kind=pl.when(media).then(pl.col("kind").fill_null("video")).otherwise(pl.lit("padding")),
            marker=pl.col("marker").cast(pl.Boolean),
        )
        .sort("sent_ns", maintain_order=True)
        .with_row_index("packet")
    )


def _kinds(log: EventLog, audio: tuple[str, str], repair: tuple[str, str]) -> pl.DataFrame:
    """Kind by SSRC, for audio and retransmissions; logs of Chromium 156 lack the SSRCs of sent video.

    ``audio`` and ``repair`` are each a table with its column of SSRCs.
    """
    frames = [
        log.tables[table].select(pl.col(column).alias("ssrc"), pl.lit(kind).alias("kind"))
        for kind, (table, column) in (("audio", audio), ("rtx", repair))
    ]
    return pl.concat(frames).drop_nulls().unique("ssrc", keep="first", maintain_order=True)


def _with_arrivals(log: EventLog, packets: pl.DataFrame, *, sent: bool) -> pl.DataFrame:
    """Adds ``delivered_ns``, ``dropped_ns`` and ``reported_ns`` from feedback (transport-wide or RFC 8888).

    A report belongs to the last packet with its number that was logged before it. (For feedback that the
    browser sent itself, this is the packet that arrived.)

    Args:
        log: the log.
        packets: packets that this end sent, or received.
        sent: whether this end sent the packets, and so received the feedback.
    """
    of_end = pl.col("sent") == int(not sent)
    ticks = pl.col("at_ms") * 4
    arrival_ticks = ticks + nearest(pl.col("arrival_ticks") - ticks, ARRIVAL_WRAP_TICKS)
    transport = log.tables["transport_feedback"].filter(of_end)
    reports = [
        _matched(transport, packets, arrival_ticks * NS_PER_TICK, {"transport_seq": "transport_seq"}),
    ]
    congestion = log.tables["congestion_feedback"].filter(of_end)
    if congestion.height:
        logged = pl.col("at_ms") * UNITS_PER_SECOND // 1000 + send_time_offset(log)
        after = nearest(pl.col("report_timestamp") * 4 - logged, SEND_TIME_WRAP)
        reported_ns = pl.col("at_ms") * NS_PER_MS + after * 1_000_000_000 // UNITS_PER_SECOND
        arrival_ns = reported_ns - pl.col("arrival_offset_ns")
        reports.append(_matched(congestion, packets, arrival_ns, {"media_ssrc": "ssrc", "seq": "seq"}))
    reported = (
        pl.concat(reports)
        .group_by("packet")
        .agg(pl.col("arrival_ns").drop_nulls().first(), pl.col("reported_ns").max())
    )
    known = packets.join(reported, on="packet", how="left", maintain_order="left")
    lost = pl.col("reported_ns").is_not_null() & pl.col("arrival_ns").is_null()
    return known.with_columns(
        delivered_ns=pl.col("arrival_ns"), dropped_ns=pl.when(lost & sent).then("sent_ns")
    ).drop("arrival_ns")


def _matched(
    feedback: pl.DataFrame, packets: pl.DataFrame, arrival_ns: pl.Expr, keys: dict[str, str]
) -> pl.DataFrame:
    """For each report, the number of the packet that it is about, its arrival, and the time of the report.

    ``keys`` are the columns of packets that identify one, by the column of the feedback.
    """
    numbers = list(keys.values())
    return (
        feedback.select(
            *(pl.col(given).alias(number) for given, number in keys.items()),
            arrival_ns=arrival_ns,
            reported_ns=(pl.col("at_ms") + 1) * NS_PER_MS,
        )
        .sort("reported_ns", maintain_order=True)
        .join_asof(
            packets.select("packet", *numbers, "logged_ns").drop_nulls().sort("logged_ns"),
            left_on="reported_ns",
            right_on="logged_ns",
            by=numbers,
            strategy="backward",
            tolerance=LATEST_NS,
            check_sortedness=False,
        )
        .drop_nulls("packet")
        .select("packet", "arrival_ns", "reported_ns")
    )


def with_unreported(packets: pl.DataFrame) -> tuple[pl.DataFrame, int]:
    """Packets that the browser sent, and the number of packets whose feedback was lost, which are included.

    This end does not know whether the latter arrived. Most did, and the rate would be too low without them.
    """
    delay_ns = pl.col("delivered_ns") - pl.col("sent_ns")
    last_ns = pl.col("sent_ns").filter(pl.col("reported_ns").is_not_null()).max()
    unknown = pl.col("reported_ns").is_null() & (pl.col("sent_ns") < last_ns)
    likely_ns = pl.col("sent_ns") + delay_ns.interpolate().forward_fill().backward_fill().cast(pl.Int64)
    filled = packets.with_columns(
        delivered_ns=pl.when(unknown).then(likely_ns).otherwise("delivered_ns"), unknown=unknown
    )
    return filled.drop("unknown"), int(filled["unknown"].sum())


def smallest_delay_ns(packets: pl.DataFrame) -> int | None:
    """Half of the smallest time from sending to feedback; None without feedback."""
    smallest = (
        (packets["reported_ns"] - packets["sent_ns"]).filter(packets["delivered_ns"].is_not_null()).min()
    )
    return None if smallest is None else cast(int, smallest) // 2


def aligned(packets: pl.DataFrame, moment: str, smallest_ns: int | None = None) -> tuple[pl.DataFrame, bool]:
    """Packets with all times on the clock of this end, and whether both ends share a clock.

    Args:
        packets: packets that the browser sent, or received.
        moment: the times on the clock of the other end, ``delivered_ns`` or ``sent_ns``.
        smallest_ns: the smallest delay, for clocks that differ. By default it is taken as half of the
            smallest time from sending to feedback.
    """
    delays = (packets["delivered_ns"] - packets["sent_ns"]).drop_nulls()
    if delays.is_empty():
        return packets, True
    least, most = cast(int, delays.min()), cast(int, delays.quantile(0.99))
    if least >= -EARLY_NS and most <= LATEST_NS // 2:
        return packets, True
    half_ns = smallest_ns if smallest_ns is not None else smallest_delay_ns(packets) or 0
    error_ns = least - half_ns
    shift_ns = -error_ns if moment == "delivered_ns" else error_ns
    return packets.with_columns(pl.col(moment) + shift_ns), False
