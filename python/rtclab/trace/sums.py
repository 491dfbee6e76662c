"""The tables that are computed from the table ``packets``."""

from __future__ import annotations

from collections.abc import Collection, Mapping

import polars as pl

from rtclab.trace.manifest import FlowInfo
from rtclab.trace.schema import SCHEMAS
from rtclab.trace.times import NS_PER_MS, NS_PER_S

BINS_PER_MS = 10
"""The histograms of delays have bins of 0.1 ms."""


FIRST_TRANSMISSIONS = {
    "media_sent_packets": ("sent_ns", ["video", "audio"]),
    "media_dropped_packets": ("dropped_ns", ["video", "audio"]),
    "fec_sent_packets": ("sent_ns", ["fec"]),
    "fec_dropped_packets": ("dropped_ns", ["fec"]),
}
"""By column of ``flow_seconds``, the time at which a packet counts, and the kinds that count."""

OF_QUEUES = {
    "ect_packets": ("sent_ns", "capable"),
    "ect_delivered_packets": ("delivered_ns", "capable"),
    "marked_packets": ("delivered_ns", "marked"),
    "aqm_dropped_packets": ("dropped_ns", "by_discipline"),
}
"""By column of ``flow_seconds``, the time at which a packet counts, and the column that says whether it
does."""


def flow_seconds_table(
    packets: pl.DataFrame,
    flows: Mapping[str, FlowInfo],
    duration_ns: int,
    hides_fec: Collection[str],
) -> pl.DataFrame:
    """The table ``flow_seconds``: one row for each flow and second of the run, even if nothing was sent.

    A packet counts as sent, delivered or dropped in the second in which that happened, unless this was after
    the end of its flow or of the run. First transmissions of media and FEC are counted separately if the kind
    of any packet is known; otherwise their columns are null. So are the columns of FEC in the flows of
    ``hides_fec``, whose FEC cannot be told from media because it is encrypted.

    Columns about ECN and about drops by a discipline are null if ``packets`` has no ``ecn``, ``mark_path`` or
    ``drop_cause``, and in flows with a packet for which the column is null. ``marked``, whether a packet
    arrived with a mark, may be there in place of ``mark_path``. Packets with a false ``is_whole`` have no
    delay.
    """
    seconds = pl.int_range(0, -(-duration_ns // NS_PER_S) * NS_PER_S, NS_PER_S, eager=True).alias("at_ns")
    of_flows = pl.DataFrame({"flow": list(flows)}, schema={"flow": pl.String})
    table = seconds.to_frame().join(of_flows, how="cross")
    packets = _with_queues(packets).join(_ends(flows), on="flow", maintain_order="left")
    delay_ms = (pl.col("delivered_ns") - pl.col("sent_ns")) / NS_PER_MS
    if "is_whole" in packets.columns:
        delay_ms = pl.when("is_whole").then(delay_ms)
    counted = {
        "sent_ns": [pl.len().alias("sent_packets"), pl.col("size_bytes").sum().alias("sent_bytes")],
        "delivered_ns": [
            pl.len().alias("delivered_packets"),
            pl.col("size_bytes").sum().alias("delivered_bytes"),
            delay_ms.min().alias("one_way_delay_min_ms"),
            delay_ms.mean().alias("one_way_delay_mean_ms"),
            delay_ms.max().alias("one_way_delay_max_ms"),
        ],
        "dropped_ns": [pl.len().alias("dropped_packets")],
    }
    known = {name: of for name, of in OF_QUEUES.items() if of[1] in packets.columns}
    for name, (moment, counts) in known.items():
        counted[moment].append(pl.col(counts).sum().alias(name))
    for name, (moment, kinds) in FIRST_TRANSMISSIONS.items():
        counted[moment].append(pl.col("kind").is_in(kinds).sum().alias(name))
    for moment, aggregates in counted.items():
        at_ns = (pl.col(moment) // NS_PER_S * NS_PER_S).alias("at_ns")
        grouped = packets.filter(pl.col(moment) < pl.col("end_ns")).group_by(at_ns, "flow").agg(aggregates)
        table = table.join(grouped, on=["at_ns", "flow"], how="left", maintain_order="left")
    table = table.with_columns(pl.col("^.*_(packets|bytes)$").fill_null(0))
    if packets["kind"].is_null().all():
        table = table.with_columns(pl.lit(None).alias(name) for name in FIRST_TRANSMISSIONS)
    hidden = pl.col("flow").is_in(list(hides_fec))
    table = table.with_columns(
        pl.when(~hidden).then(name).alias(name) for name in FIRST_TRANSMISSIONS if name.startswith("fec")
    )
    for name, (moment, counts) in known.items():
        unknown = packets.filter(pl.col(moment).is_not_null(), pl.col(counts).is_null())["flow"].unique()
        table = table.with_columns(pl.when(~pl.col("flow").is_in(unknown.to_list())).then(name).alias(name))
    table = table.with_columns(pl.lit(None, pl.Int64).alias(name) for name in OF_QUEUES.keys() - known.keys())
    return table.select(pl.col(column).cast(dtype) for column, dtype in SCHEMAS["flow_seconds"].items())


def _with_queues(packets: pl.DataFrame) -> pl.DataFrame:
    """The packets with the columns that ``OF_QUEUES`` counts, as far as it is known."""
    counted = {
        "ecn": (pl.col("ecn") != "not-ect").alias("capable"),
        "drop_cause": (pl.col("drop_cause") == "aqm").alias("by_discipline"),
        "mark_path": pl.col("mark_path").is_not_null().alias("marked"),
    }
    return packets.with_columns(of for column, of in counted.items() if column in packets.columns)


def without_fec(packets: pl.DataFrame) -> set[str]:
    """The flows without a packet that is known to be FEC. In captures and logs, RED may hide it."""
    return set(packets["flow"]) - set(packets.filter(kind="fec")["flow"])


def with_fec(packets: pl.DataFrame, red: Collection[tuple[str, int]]) -> pl.DataFrame:
    """The table ``packets``, where packets of FEC inside RED have the kind ``fec``.

    Headers tell FEC from media, so it may be encrypted: FEC has a later sequence number than the packet with
    the marker of a frame, which is the frame's last one, and the same timestamp and no marker. In calls of
    Chromium 156 without encryption, where RED says what it carries, this was right for every packet.

    Source: libwebrtc f3ae3eb62e, ``modules/rtp_rtcp/source/ulpfec_generator.cc``: FEC is made after the last
    packet of a frame, with a copy of its header. Padding and retransmissions have an SSRC of their own.

    Args:
        packets: all packets that were sent, in order.
        red: flow and payload type of RED.
    """
    is_red = pl.struct("flow", "payload_type").is_in(
        pl.Series(
            [{"flow": flow, "payload_type": payload_type} for flow, payload_type in sorted(red)],
            dtype=pl.Struct({name: SCHEMAS["packets"][name] for name in ("flow", "payload_type")}),
        ).implode()
    )
    of_frame = ["flow", "ssrc", "rtp_timestamp"]
    last = pl.when("marker").then("seq").forward_fill().over(of_frame)
    behind = (pl.col("seq") - last) & 0xFFFF
    is_fec = is_red & ~pl.col("marker") & behind.is_between(1, 0x7FFF)
    return packets.with_columns(kind=pl.when(is_fec).then(pl.lit("fec")).otherwise("kind"))


def delay_histogram_table(packets: pl.DataFrame, flows: Mapping[str, FlowInfo]) -> pl.DataFrame:
    """The table ``delay_histogram``: packets by flow and 0.1 ms of one-way delay, until the flow's end."""
    return _histogram(packets, flows, pl.col("delivered_ns") - pl.col("sent_ns"), "delay_histogram")


def queuing_histogram_table(packets: pl.DataFrame, flows: Mapping[str, FlowInfo]) -> pl.DataFrame:
    """The table ``queuing_histogram``: packets by flow and 0.1 ms of queuing delay, until the flow's end."""
    return _histogram(packets.drop_nulls("queued_ns"), flows, pl.col("queued_ns"), "queuing_histogram")


def _histogram(
    packets: pl.DataFrame, flows: Mapping[str, FlowInfo], delay_ns: pl.Expr, table: str
) -> pl.DataFrame:
    ns_per_bin = NS_PER_MS // BINS_PER_MS
    _, edge, _ = SCHEMAS[table]
    if "is_whole" in packets.columns:
        packets = packets.filter("is_whole")
    # Rounded, because polars multiplies by the reciprocal of 10.
    lower_ms = (delay_ns // ns_per_bin / BINS_PER_MS).round(1)
    return (
        packets.join(_ends(flows), on="flow")
        .filter(pl.col("delivered_ns") < pl.col("end_ns"))
        .group_by("flow", lower_ms.alias(edge))
        .agg(pl.len().alias("packets"))
        .sort("flow", edge)
        .select(pl.col(column).cast(dtype) for column, dtype in SCHEMAS[table].items())
    )


def _ends(flows: Mapping[str, FlowInfo]) -> pl.DataFrame:
    ends = {"flow": list(flows), "end_ns": [flow.end_ns for flow in flows.values()]}
    return pl.DataFrame(ends, schema={"flow": pl.String, "end_ns": pl.Int64})
