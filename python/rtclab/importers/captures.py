"""Makes traces of captures."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import polars as pl

from rtclab import monitoring
from rtclab.errors import TraceError
from rtclab.importers.addresses import changes, changes_in_words, first_addresses, with_first_addresses
from rtclab.importers.imported import MOST_SECONDS, Imported, Names, two_names, with_gaps
from rtclab.monitoring import Tables
from rtclab.trace import (
    NS_PER_S,
    CaptureInfo,
    FlowInfo,
    TraceManifest,
    delay_histogram_table,
    flow_seconds_table,
    without_fec,
)
from rtclab.trace.manifest import in_words
from rtclab.trace.sums import FIRST_TRANSMISSIONS

Flows = dict[str, FlowInfo]
Addressed = Mapping[str, str]
"""Names by address (``10.0.0.1``) or by address and port (``10.0.0.1:5004``)."""

_ADDRESS = r"^\[?(.*?)\]?:\d+$"
_OF_RTP = ["kind", "ssrc", "payload_type", "seq", "rtp_timestamp"]


def read_captures(
    sender: Path, receiver: Path | None, names: Names, sdp: str | None, *, corrected: bool
) -> Imported:
    """The trace of one capture, or of two captures of the same call.

    Of one capture it is everything that passed one point, in all protocols. A packet's ``sent_ns`` is when it
    was seen. In ``flow_seconds``, packets that were seen count as delivered, and gaps in sequence numbers
    count as dropped packets in the second in which the gap was noticed. There are no delays. An end whose
    addresses change has one name, and ``events`` says when they did.

    Args:
        sender: the capture nearer to the sender, or the only one.
        receiver: the capture nearer to the receiver.
        names, sdp, corrected: as in :func:`rtclab.import_files`. Participants without a name are named after
            addresses and ports.

    Raises:
        BadInput: a capture cannot be read.
        TraceError: nothing was captured.
    """
    if receiver is not None:
        return from_two(sender, receiver, names, sdp, corrected=corrected)
    captured = monitoring.monitor(sender, sdp=sdp, packets=True, seconds=True)
    flows_seen = captured["flows"]
    ways = flows_seen.group_by("source", "destination", "transport").agg(pl.col("direction").n_unique())
    # Packets both entering and leaving, as in the emulator's capture.
    if not flows_seen["direction"].null_count() and (ways["direction"] > 1).any():
        return from_two(sender, None, names, sdp, corrected=False)
    seen = with_first_addresses(captured)
    begin_ns = _smallest(seen["packets"]["at_ns"], sender, seen["notes"])
    of_rtp = seen["packets"].filter(pl.col("protocol") == "rtp")
    named_after = seen["packets"] if of_rtp.is_empty() else of_rtp
    by_address = _also_first(_by_address(names, named_after), first_addresses(captured))
    packets = seen["packets"].select(
        (pl.col("at_ns") - begin_ns).alias("sent_ns"),
        _flow("source", "destination", by_address),
        "size_bytes",
        "protocol",
        "ecn",
        *_OF_RTP,
        pl.col("marker").cast(pl.Boolean),
    )
    arrived = packets.with_columns(
        delivered_ns="sent_ns", dropped_ns=pl.lit(None, pl.Int64), marked=_marked("ecn")
    )
    flows = _flows(arrived)
    duration_ns = _duration_ns(flows)
    seconds = flow_seconds_table(arrived, flows, duration_ns, without_fec(arrived))
    seconds = _with_missing(seconds, seen, by_address, begin_ns)
    addressed = captured["packets"].with_columns(pl.col("at_ns") - begin_ns, flow=packets["flow"])
    events = changes(addressed.filter(pl.col("protocol") == "rtp"))
    notes = (*seen["notes"].to_dicts(), *changes_in_words(events))
    about = CaptureInfo(files=(str(sender),), begin_ns=begin_ns, notes=notes)
    tables = {"packets": packets, "flow_seconds": seconds, "events": events}
    return _imported(tables, flows, duration_ns, about)


def from_two(
    sender: Path, receiver: Path | None, names: Names, sdp: str | None, *, corrected: bool
) -> Imported:
    """RTP packets matched between two points; without ``receiver``, between the directions of one capture.

    A packet that was not seen at the second point counts as dropped at the time it was sent. Packets sent
    before the first or after the last packet of their stream that was seen at both points do not count as
    dropped, because the second capture may not have been running.
    """
    compared = monitoring.follow(sender, receiver, sdp=sdp, packets=True)
    (clock,) = compared["clock"].to_dicts()
    sent_at = pl.when(pl.col("direction") == "a->b")
    matched = compared["packets"].join(
        compared["streams"].select(
            "stream",
            "direction",
            sent_at.then("source_a").otherwise("source_b").alias("source"),
            sent_at.then("destination_b").otherwise("destination_a").alias("destination"),
        ),
        on="stream",
    )
    if corrected:
        matched = _on_clock_a(matched, clock)
    captures = [sender] if receiver is None else [sender, receiver]
    times = ("sent_ns", "delivered_ns")
    begin_ns = min(_smallest(matched[name], sender, compared["notes"]) for name in times)
    seen_there = pl.col("sent_ns").filter(pl.col("delivered_ns").is_not_null())
    forwards = matched.filter(pl.col("direction") == "a->b")
    named_after = matched if forwards.is_empty() else forwards
    by_address = _by_address(names, named_after.sort("sent_ns", nulls_last=True))
    both_ran = pl.col("sent_ns").is_between(seen_there.min().over("stream"), seen_there.max().over("stream"))
    packets = (
        matched.drop_nulls("sent_ns")
        .with_columns(dropped_ns=pl.when(pl.col("delivered_ns").is_null() & both_ran).then("sent_ns"))
        .sort("sent_ns", maintain_order=True)
        .select(
            *((pl.col(name) - begin_ns) for name in ("sent_ns", "delivered_ns", "dropped_ns")),
            _flow("source", "destination", by_address),
            "size_bytes",
            pl.lit("rtp").alias("protocol"),
            "ecn",
            *_OF_RTP,
            pl.col("marker").cast(pl.Boolean),
            marked=_marked("delivered_ecn"),
        )
    )
    flows = _flows(packets)
    duration_ns = _duration_ns(flows)
    tables = {
        "packets": packets.drop("marked"),
        "flow_seconds": flow_seconds_table(packets, flows, duration_ns, without_fec(packets)),
        "delay_histogram": delay_histogram_table(packets, flows),
    }
    about = CaptureInfo(
        files=tuple(map(str, captures)),
        begin_ns=begin_ns,
        notes=tuple(compared["notes"].to_dicts()),
        clock=clock,
        corrected=corrected,
    )
    return _imported(tables, flows, duration_ns, about)


def _marked(codepoint: str) -> pl.Expr:
    """Whether a packet that was sent ECN-capable arrived with a mark, by the codepoint of its arrival."""
    return (pl.col(codepoint) == "ce") & (pl.col("ecn") != "not-ect")


def _on_clock_a(packets: pl.DataFrame, clock: Mapping[str, Any]) -> pl.DataFrame:
    """All times on A's clock, by the estimated drift, and the offset where both directions were seen."""

    offset_ns, drift = float(clock["offset_ms"] or 0.0) * 1e6, float(clock["drift_ppm"] or 0.0) * 1e-6

    def shifted(name: str) -> pl.Expr:
        since = pl.col(name) - int(clock["at_ns"] or 0)
        return pl.col(name) - (since * drift + offset_ns).round().cast(pl.Int64)

    forwards = pl.col("direction") == "a->b"
    return packets.with_columns(
        sent_ns=pl.when(forwards).then("sent_ns").otherwise(shifted("sent_ns")),
        delivered_ns=pl.when(forwards).then(shifted("delivered_ns")).otherwise("delivered_ns"),
    )


def _with_missing(seconds: pl.DataFrame, seen: Tables, names: Addressed, begin_ns: int) -> pl.DataFrame:
    """Counts gaps in sequence numbers as packets sent and dropped. Removes the delays, which are all 0."""
    of_stream = seen["streams"].select("stream", _flow("source", "destination", names))
    missing = (
        seen["seconds"]
        .sort("at_ns")
        .with_columns(missing=pl.col("lost").diff().over("stream").fill_null(pl.col("lost")))
        .join(of_stream, on="stream")
        .group_by((pl.col("at_ns") - begin_ns) // NS_PER_S * NS_PER_S, "flow")
        .agg(pl.col("missing").sum())
    )
    nothing = pl.lit(None, pl.Float64)
    return with_gaps(seconds.with_columns(dropped_packets=pl.lit(0, pl.Int64)), missing).with_columns(
        **dict.fromkeys(FIRST_TRANSMISSIONS, pl.lit(None, pl.Int64)),
        **{f"one_way_delay_{which}_ms": nothing for which in ("min", "mean", "max")},
    )


def _by_address(names: Names, packets: pl.DataFrame) -> Addressed:
    """Names by address. Two names are of the sender and the receiver of the first of the packets."""
    if isinstance(names, Mapping):
        return names
    both = two_names(names)
    if packets.is_empty():
        return {}
    first = packets.head(1)
    ends = [first["source"].item(), first["destination"].item()]
    addresses = pl.Series(ends).str.extract(_ADDRESS).to_list()
    # Both ends are on one machine if they have one address.
    return dict(zip(ends if addresses[0] == addresses[1] else addresses, both, strict=True))


def _also_first(names: Addressed, first: Mapping[str, str]) -> Addressed:
    """The names, in which an end that has a name by a later address has it by its first address, too."""
    if not first:
        return names
    ends = pl.DataFrame({"first": list(first.values()), "now": list(first)})
    named = ends.select("first", name=_name("now", names), known=_name("first", names))
    return {
        **dict(named.filter(pl.col("known").is_null()).drop_nulls("name").select("first", "name").rows()),
        **names,
    }


def _flow(source: str, destination: str, names: Addressed) -> pl.Expr:
    return pl.format("{}->{}", _named(source, names), _named(destination, names)).alias("flow")


def _named(column: str, names: Addressed) -> pl.Expr:
    """The name given to the address and port, or to the address; by default the address and port."""
    return pl.coalesce(_name(column, names), column)


def _name(column: str, names: Addressed) -> pl.Expr:
    """The name given to the address and port, or to the address; null if there is none."""
    address = pl.col(column).str.extract(_ADDRESS)
    by_port = pl.col(column).replace_strict(dict(names), default=None, return_dtype=pl.String)
    by_address = address.replace_strict(dict(names), default=None, return_dtype=pl.String)
    return pl.coalesce(by_port, by_address)


def _flows(packets: pl.DataFrame) -> Flows:
    """The flows with RTP and then all others, in order of appearance, each with its begin and end.

    A flow begins with its first packet at either point. It ends one mean packet interval after its last, so
    that n packets at equal intervals last n intervals. A flow of a single packet has no duration.
    """
    moments = pl.concat_list("sent_ns", "delivered_ns")
    sent_ns = pl.col("sent_ns")
    interval_ns = (sent_ns.max() - sent_ns.min()) / (pl.len() - 1)
    spans = (
        packets.group_by("flow", maintain_order=True)
        .agg(
            begin_ns=moments.list.min().min(),
            end_ns=moments.list.max().max() + interval_ns.fill_nan(0).round().cast(pl.Int64),
            media=(pl.col("protocol") == "rtp").any(),
        )
        .sort("media", descending=True, maintain_order=True)
        .drop("media")
    )
    flows = {}
    for flow, begin_ns, end_ns in spans.iter_rows():
        sender, _, receiver = flow.partition("->")
        flows[flow] = FlowInfo(sender=sender, receiver=receiver, begin_ns=begin_ns, end_ns=end_ns)
    return flows


def _smallest(at_ns: pl.Series, capture: Path, notes: pl.DataFrame) -> int:
    """The first time. Without any, the error says what the monitor noted."""
    first = at_ns.min()
    if not isinstance(first, int):
        raise TraceError(
            f"{capture}: no packet to make a trace of; expected RTP over UDP or TCP",
            hint="; ".join(in_words(notes.to_dicts())) or None,
        )
    return first


def _duration_ns(flows: Flows) -> int:
    """The time until the last flow has ended, and at least 1 ns so that a single packet lies within it."""
    end_ns = max(flow.end_ns for flow in flows.values())
    if end_ns > MOST_SECONDS * NS_PER_S:
        raise TraceError(
            f"the first and last packet are {end_ns / NS_PER_S:.0f} s apart; "
            f"expected at most {MOST_SECONDS} s",
            hint="if the clocks of the two captures differ that much, pass corrected=True",
        )
    return max(end_ns, 1)


def _imported(
    tables: dict[str, pl.DataFrame], flows: Flows, duration_ns: int, about: CaptureInfo
) -> Imported:
    people = dict.fromkeys(name for flow in flows.values() for name in (flow.sender, flow.receiver))
    manifest = TraceManifest(
        backend="capture", duration_ns=duration_ns, participants=tuple(people), flows=flows, capture=about
    )
    return Imported(tables, manifest)
