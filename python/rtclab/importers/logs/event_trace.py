"""Makes traces of RTC event logs."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast

import polars as pl

from rtclab.errors import BadInput
from rtclab.importers.imported import Imported, check_span, with_gaps
from rtclab.importers.logs import event_packets
from rtclab.importers.logs.event_log import EventLog
from rtclab.importers.logs.getstats_rows import PAGE, REMOTE
from rtclab.importers.logs.live import rows_of
from rtclab.trace import (
    NS_PER_MS,
    NS_PER_S,
    SCHEMAS,
    CallInfo,
    CaptureInfo,
    FlowInfo,
    TraceManifest,
    delay_histogram_table,
    flow_seconds_table,
    without_fec,
)

_OUR_NAME = re.compile(r"event-log-(?P<own>[^-]+)-(?P<peer>[^-]+)(-\d+)?\.log(\.gz)?$")

CLOCKS_DIFFER = (
    "the clocks of the two ends differ; the smallest one-way delay was taken as half of the smallest "
    "round trip"
)

Names = tuple[str, str]
_KEY = ["ssrc", "seq", "rtp_timestamp"]


@dataclass(frozen=True)
class _End:
    """A log, the participant that wrote it, and the participant at the far end."""

    log: EventLog
    own: str
    peer: str

    @property
    def outgoing(self) -> str:
        return f"{self.own}->{self.peer}"

    @property
    def incoming(self) -> str:
        return f"{self.peer}->{self.own}"


def trace_of(logs: Sequence[EventLog], names: Names | None = None) -> Imported:
    """The trace of a connection from the log of one end, or the logs of both.

    With one log, the received direction has gaps in sequence numbers instead of lost packets. With two, both
    directions are known from the sender's log, and both browsers must have run on one machine. Packets other
    than RTP are left out. A flow ends with the last packet that is known to have arrived, because a browser
    loses the end of its log.

    Args:
        logs: the log of one end, or of both.
        names: the participant that wrote the first log, and the other end; by default those in the file name
            of a live call's log, and for other logs ``page`` and ``remote``.

    Raises:
        BadInput: the logs have no packet, are not of one connection, or their times are far apart.
    """
    named = _OUR_NAME.search(logs[0].path.name)
    own, peer = names or ((named["own"], named["peer"]) if named else (PAGE, REMOTE))
    ends = [_End(logs[0], own, peer), *(_End(log, peer, own) for log in logs[1:])]
    notes = [f"{end.log.path.name}: {note}" for end in ends for note in end.log.notes]
    packets = _two_ways(ends, notes) if len(ends) > 1 else _one_way(ends[0], notes)
    first = [
        cast(int, at) for at in (packets["sent_ns"].min(), packets["delivered_ns"].min()) if at is not None
    ]
    if not first:
        raise BadInput(
            f"{logs[0].path}: no RTP packet in the log",
            hint="Chromium writes its log every 5 s, so a shorter call leaves none",
        )
    begin_ns = min([*first, *(cast(int, end.log.tables["begin"]["at_ms"][0]) * NS_PER_MS for end in ends)])
    events = pl.concat([_events(end) for end in ends])
    begin_ns = min([begin_ns, *events["at_ns"].to_list()])
    moments = ["sent_ns", "delivered_ns", "dropped_ns"]
    packets = packets.with_columns(pl.col(moments) - begin_ns).sort("sent_ns", maintain_order=True)
    flows = _flows(packets)
    duration_ns = max(flow.end_ns for flow in flows.values())
    check_span(logs[0].path, duration_ns)
    seconds = flow_seconds_table(packets, flows, duration_ns, without_fec(packets))
    senders = [end for end in ends if end.outgoing in flows]
    decisions = [rows_of(end.log, end.own, end.outgoing, begin_ns) for end in senders]
    controller = pl.concat([SCHEMAS["controller"].to_frame(), *decisions])
    tables = {
        "packets": packets.select(name for name in SCHEMAS["packets"] if name in packets.columns),
        "flow_seconds": seconds if len(ends) > 1 else _with_gaps(seconds, packets, ends[0].incoming),
        "delay_histogram": delay_histogram_table(packets, flows),
        "controller": controller.sort("at_ns", maintain_order=True),
        "events": events.with_columns(pl.col("at_ns") - begin_ns).sort("at_ns", maintain_order=True),
    }
    wall_ns = begin_ns + ends[0].log.utc_offset_ms * NS_PER_MS
    files = tuple(str(end.log.path) for end in ends)
    about = CaptureInfo(files=files, begin_ns=wall_ns, notes=tuple({"note": note} for note in notes))
    manifest = TraceManifest(
        backend="log",
        duration_ns=max(duration_ns, 1),
        participants=(own, peer),
        calls=(CallInfo(kind="p2p", participants=(own, peer), start_ns=0, end_ns=duration_ns),),
        flows=flows,
        connections=1,
        capture=about,
    )
    return Imported(tables, manifest)


def _one_way(end: _End, notes: list[str]) -> pl.DataFrame:
    """Packets of both directions from the log of one end."""
    sent, same = event_packets.aligned(event_packets.sent_packets(end.log), "delivered_ns")
    sent, unreported = event_packets.with_unreported(sent)
    if unreported:
        notes.append(
            f"{end.outgoing}: the feedback on {unreported} packets was lost; they count as arrived, with the "
            "delay of the packets before and after them"
        )
    received = event_packets.received_packets(end.log)
    smallest_ns = event_packets.smallest_delay_ns(sent)
    received, _ = event_packets.aligned(received, "sent_ns", smallest_ns)
    if not same:
        notes.append(f"{end.log.path.name}: {CLOCKS_DIFFER}")
    flows = ((sent, end.outgoing), (received, end.incoming))
    return pl.concat([_of_flow(packets, flow) for packets, flow in flows])


def _two_ways(ends: list[_End], notes: list[str]) -> pl.DataFrame:
    """Packets of both directions, each from the log of its sender, and where they arrived.

    A packet has arrived if the receiver's log has it or feedback reports it. Any other packet is lost if
    feedback says so, or if the receiver's log has a later packet.
    """
    made = []
    for end, other in ((ends[0], ends[1]), (ends[1], ends[0])):
        sent = event_packets.sent_packets(end.log)
        received = event_packets.received_packets(other.log).unique(_KEY, keep="first", maintain_order=True)
        there = received.select(*_KEY, received_ns="delivered_ns")
        joined = sent.join(there, on=_KEY, how="left", maintain_order="left")
        if sent.height and received.height and joined["received_ns"].is_null().all():
            raise BadInput(
                f"{end.log.path} and {other.log.path}: not the two ends of one connection, because no packet "
                "of one arrived at the other"
            )
        delivered_ns = pl.coalesce("received_ns", "delivered_ns")
        last_ns = pl.col("sent_ns").filter(pl.col("received_ns").is_not_null()).max()
        gone = pl.col("dropped_ns").is_not_null() | (pl.col("sent_ns") < last_ns)
        packets = joined.with_columns(
            delivered_ns=delivered_ns, dropped_ns=pl.when(delivered_ns.is_null() & gone).then("sent_ns")
        )
        packets, same = event_packets.aligned(packets, "delivered_ns")
        if not same:
            notes.append(f"{end.outgoing}: {CLOCKS_DIFFER}")
        made.append(_of_flow(packets, end.outgoing))
    return pl.concat(made)


def _of_flow(packets: pl.DataFrame, flow: str) -> pl.DataFrame:
    return packets.select(
        *("sent_ns", "delivered_ns", "dropped_ns"),
        pl.lit(flow).alias("flow"),
        "size_bytes",
        pl.lit("rtp").alias("protocol"),
        *("kind", "ssrc", "payload_type", "seq", "rtp_timestamp", "marker"),
    )


def _flows(packets: pl.DataFrame) -> dict[str, FlowInfo]:
    """The flows, each from its first packet to the last one that is known to have arrived."""
    spans = packets.group_by("flow", maintain_order=True).agg(
        pl.col("sent_ns").min().alias("begin_ns"),
        pl.col("sent_ns").max().alias("sent_ns"),
        pl.col("delivered_ns").max(),
    )
    flows = {}
    for flow, begin_ns, sent_ns, delivered_ns in spans.iter_rows():
        sender, _, receiver = flow.partition("->")
        end_ns = max(begin_ns, sent_ns if delivered_ns is None else delivered_ns) + 1
        flows[flow] = FlowInfo(sender=sender, receiver=receiver, call=0, begin_ns=begin_ns, end_ns=end_ns)
    return flows


def _with_gaps(seconds: pl.DataFrame, packets: pl.DataFrame, flow: str) -> pl.DataFrame:
    """Counts gaps in the sequence numbers of a received flow as packets sent and dropped.

    A gap counts in the second in which it was noticed. When the packet comes late, the count is undone.
    """
    step = event_packets.nearest(pl.col("seq").diff().over("ssrc"), 1 << 16)
    number = step.fill_null(0).cum_sum().over("ssrc")
    lost = pl.col("number").cum_max().over("ssrc") + 1 - pl.int_range(1, pl.len() + 1).over("ssrc")
    missing = (
        packets.filter(pl.col("flow") == flow)
        .sort("delivered_ns", maintain_order=True)
        .with_columns(number=number)
        .with_columns(lost=lost)
        .with_columns(missing=pl.col("lost").diff().over("ssrc").fill_null(pl.col("lost")))
        .group_by(pl.col("delivered_ns") // NS_PER_S * NS_PER_S, "flow")
        .agg(pl.col("missing").sum().cast(pl.Int64))
        .rename({"delivered_ns": "at_ns"})
    )
    return with_gaps(seconds, missing)


def _events(end: _End) -> pl.DataFrame:
    """The events of the connection at one end. Times are on the monotonic clock."""
    tables = end.log.tables
    pairs, dtls = tables["candidate_pair_config"], tables["dtls_state"]
    selected = pairs.filter(pl.col("change") == "selected").sort("at_ms", maintain_order=True)
    addresses = pl.format(
        "{} {} to {} {}", "local_candidate", "local_family", "remote_candidate", "remote_family"
    )
    rows = [
        selected.head(1).select("at_ms", event=pl.lit("ice_connected"), detail=addresses),
        selected.slice(1).select("at_ms", event=pl.lit("route_changed"), detail=addresses),
        tables["route_change"].select(
            "at_ms",
            event=pl.lit("route_changed"),
            detail=pl.format("{} B of overhead", "overhead_bytes"),
        ),
        dtls.filter(pl.col("state") == "connected")
        .head(1)
        .select("at_ms", event=pl.lit("dtls_connected"), detail=pl.lit("")),
        dtls.filter(pl.col("state") == "failed").select(
            "at_ms", event=pl.lit("failed"), detail=pl.lit("DTLS")
        ),
        tables["probe_created"].select(
            "at_ms",
            event=pl.lit("probe"),
            detail=pl.format("cluster {} at {} bit/s, {} B", "probe", "rate_bps", "min_bytes"),
        ),
    ]
    return pl.concat(rows).select(
        (pl.col("at_ms") * NS_PER_MS).alias("at_ns"),
        pl.lit(end.own).alias("participant"),
        pl.lit(end.incoming).alias("flow"),
        "event",
        pl.col("detail").fill_null(""),
    )
