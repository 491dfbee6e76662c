"""Traces out of captures of a call that nobody started here."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import polars as pl

from rtclab import monitor
from rtclab.errors import TraceError
from rtclab.monitor import Tables
from rtclab.trace import (
    CaptureInfo,
    FlowInfo,
    Trace,
    TraceManifest,
    delay_histogram_table,
    flow_seconds_table,
)
from rtclab.trace.sums import FIRST_TRANSMISSIONS, NS_PER_S

__all__ = ["Trace", "from_pcap"]

Names = Mapping[str, str]
Flows = dict[str, FlowInfo]
MOST_SECONDS = 7 * 24 * 3600
"""A longer trace is one of two clocks that have nothing to do with each other."""

_OF_RTP = ["kind", "ssrc", "payload_type", "seq", "rtp_timestamp"]


@dataclass(frozen=True)
class Captured:
    """What a trace from captures holds."""

    tables: Tables
    manifest: TraceManifest


def from_pcap(
    sender: Path | str,
    receiver: Path | str | None = None,
    *,
    out: Path | None = None,
    names: Mapping[str, str] | None = None,
    sdp: str | None = None,
    corrected: bool = False,
) -> Trace:
    """Makes a trace of captures (pcap, pcapng), on which all metrics of rate, delay and loss work.

    ``packets``, ``flow_seconds`` and ``delay_histogram`` are filled, the other tables empty. With both
    captures there are RTP packets only. One capture has rates and losses, but no delays, unless it saw
    packets come in and go out again, as the emulator's does. A flow lasts from its first packet to one mean
    interval between packets after its last.

    Args:
        sender: capture nearer to the sender, or the only one.
        receiver: capture nearer to the receiver.
        out: directory of the trace; a temporary one, gone with the trace, if not given.
        names: participants by address (``10.0.0.1``) or address and port (``10.0.0.1:5004``); flows are
            named after them, else after addresses and ports.
        sdp: session descriptions that tell codecs.
        corrected: take the estimated difference of the two clocks off; else delays are as they are.

    Raises:
        BadInput: a capture cannot be read.
        TraceError: nothing was captured.
    """
    if receiver is None:
        captured = from_one(Path(sender), names or {}, sdp)
    else:
        captured = from_two(Path(sender), Path(receiver), names or {}, sdp, corrected=corrected)
    if out is not None:
        return Trace.write(out, captured.tables, captured.manifest)
    temporary = TemporaryDirectory(prefix="rtclab-trace-")
    made = Trace.write(Path(temporary.name), captured.tables, captured.manifest)
    made.temporary = temporary
    return made


Trace.from_pcap = staticmethod(from_pcap)


def from_one(capture: Path, names: Names, sdp: str | None) -> Captured:
    """What passed one point, all protocols.

    A packet's ``sent_ns`` is when it was seen. In ``flow_seconds``, what was seen is delivered, and what is
    missing by sequence numbers is dropped, in the second in which that showed; there are no delays.
    """
    seen = monitor.watch(capture, sdp=sdp, packets=True, seconds=True)
    if _passes_twice(seen["flows"]):
        return from_two(capture, None, names, sdp, corrected=False)
    begin_ns = _smallest(seen["packets"]["at_ns"], capture)
    packets = seen["packets"].select(
        (pl.col("at_ns") - begin_ns).alias("sent_ns"),
        _flow("source", "destination", names),
        "size_bytes",
        "protocol",
        *_OF_RTP,
        pl.col("marker").cast(pl.Boolean),
    )
    arrived = packets.with_columns(delivered_ns="sent_ns", dropped_ns=pl.lit(None, pl.Int64))
    flows = _flows(arrived)
    duration_ns = _duration_ns(flows)
    seconds = _with_missing(flow_seconds_table(arrived, flows, duration_ns), seen, names, begin_ns)
    about = CaptureInfo(files=(str(capture),), begin_ns=begin_ns, notes=tuple(seen["notes"].to_dicts()))
    return Captured({"packets": packets, "flow_seconds": seconds}, _manifest(flows, duration_ns, about))


def from_two(
    sender: Path, receiver: Path | None, names: Names, sdp: str | None, *, corrected: bool
) -> Captured:
    """RTP packets at two points, matched; without ``receiver`` the two directions of one capture.

    A packet that was not seen at the second point counts as dropped when it was sent, except before the first
    and after the last one that was seen there.
    """
    compared = monitor.compare(sender, receiver, sdp=sdp, packets=True)
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
    begin_ns = min(_smallest(matched[name], sender) for name in ("sent_ns", "delivered_ns"))
    seen_there = pl.col("sent_ns").filter(pl.col("delivered_ns").is_not_null())
    both_ran = pl.col("sent_ns").is_between(seen_there.min().over("stream"), seen_there.max().over("stream"))
    packets = (
        matched.drop_nulls("sent_ns")
        .with_columns(dropped_ns=pl.when(pl.col("delivered_ns").is_null() & both_ran).then("sent_ns"))
        .sort("sent_ns", maintain_order=True)
        .select(
            *((pl.col(name) - begin_ns) for name in ("sent_ns", "delivered_ns", "dropped_ns")),
            _flow("source", "destination", names),
            "size_bytes",
            pl.lit("rtp").alias("protocol"),
            *_OF_RTP,
            pl.col("marker").cast(pl.Boolean),
        )
    )
    flows = _flows(packets)
    duration_ns = _duration_ns(flows)
    tables = {
        "packets": packets,
        "flow_seconds": flow_seconds_table(packets, flows, duration_ns),
        "delay_histogram": delay_histogram_table(packets, flows),
    }
    about = CaptureInfo(
        files=tuple(map(str, captures)),
        begin_ns=begin_ns,
        notes=tuple(compared["notes"].to_dicts()),
        clock=clock,
        corrected=corrected,
    )
    return Captured(tables, _manifest(flows, duration_ns, about))


def _passes_twice(flows: pl.DataFrame) -> bool:
    """Whether the capture saw packets come in and go out again, as the emulator's does."""
    ways = flows.group_by("source", "destination", "transport").agg(pl.col("direction").n_unique())
    return not flows["direction"].null_count() and bool((ways["direction"] > 1).any())


def _on_clock_a(packets: pl.DataFrame, clock: Mapping[str, Any]) -> pl.DataFrame:
    """All times on A's clock, by the estimate of offset (from both directions only) and drift."""

    offset_ns, drift = float(clock["offset_ms"] or 0.0) * 1e6, float(clock["drift_ppm"] or 0.0) * 1e-6

    def shifted(name: str) -> pl.Expr:
        since = pl.col(name) - int(clock["at_ns"] or 0)
        return pl.col(name) - (since * drift + offset_ns).round().cast(pl.Int64)

    forwards = pl.col("direction") == "a->b"
    return packets.with_columns(
        sent_ns=pl.when(forwards).then("sent_ns").otherwise(shifted("sent_ns")),
        delivered_ns=pl.when(forwards).then(shifted("delivered_ns")).otherwise("delivered_ns"),
    )


def _with_missing(seconds: pl.DataFrame, seen: Tables, names: Names, begin_ns: int) -> pl.DataFrame:
    """Counts what is missing in sequence numbers as sent and dropped, and takes delays of zero out."""
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
    return (
        seconds.join(missing, on=["at_ns", "flow"], how="left", maintain_order="left")
        .with_columns(pl.col("missing").fill_null(0))
        .with_columns(
            pl.col("sent_packets") + pl.col("missing"),
            dropped_packets="missing",
            **dict.fromkeys(FIRST_TRANSMISSIONS, pl.lit(None, pl.Int64)),
            **{f"one_way_delay_{which}_ms": nothing for which in ("min", "mean", "max")},
        )
        .drop("missing")
    )


def _flow(source: str, destination: str, names: Names) -> pl.Expr:
    return pl.format("{}->{}", _named(source, names), _named(destination, names)).alias("flow")


def _named(column: str, names: Names) -> pl.Expr:
    """The name given to address and port, else that given to the address, else both as they are."""
    address = pl.col(column).str.extract(r"^\[?(.*?)\]?:\d+$")
    by_port = pl.col(column).replace_strict(dict(names), default=None, return_dtype=pl.String)
    by_address = address.replace_strict(dict(names), default=None, return_dtype=pl.String)
    return pl.coalesce(by_port, by_address, column)


def _flows(packets: pl.DataFrame) -> Flows:
    """The flows in order of appearance, each with the time from its first packet, seen anywhere, to its end.

    It ends one mean interval between packets after its last: n packets at equal intervals take n intervals.
    A single packet has no interval, and a flow of it no length.
    """
    moments = pl.concat_list("sent_ns", "delivered_ns")
    sent_ns = pl.col("sent_ns")
    interval_ns = (sent_ns.max() - sent_ns.min()) / (pl.len() - 1)
    spans = packets.group_by("flow", maintain_order=True).agg(
        begin_ns=moments.list.min().min(),
        end_ns=moments.list.max().max() + interval_ns.fill_nan(0).round().cast(pl.Int64),
    )
    flows = {}
    for flow, begin_ns, end_ns in spans.iter_rows():
        sender, _, receiver = flow.partition("->")
        flows[flow] = FlowInfo(sender=sender, receiver=receiver, begin_ns=begin_ns, end_ns=end_ns)
    return flows


def _smallest(at_ns: pl.Series, capture: Path) -> int:
    first = at_ns.min()
    if not isinstance(first, int):
        raise TraceError(f"{capture}: no packet to make a trace of; expected RTP over UDP or TCP")
    return first


def _duration_ns(flows: Flows) -> int:
    """Until the last flow has ended; of a single packet the smallest duration that contains it."""
    end_ns = max(flow.end_ns for flow in flows.values())
    if end_ns > MOST_SECONDS * NS_PER_S:
        raise TraceError(
            f"first and last packet lie {end_ns / NS_PER_S:.0f} s apart; expected at most {MOST_SECONDS} s",
            hint="if the clocks of two captures differ so much, give corrected=True",
        )
    return max(end_ns, 1)


def _manifest(flows: Flows, duration_ns: int, about: CaptureInfo) -> TraceManifest:
    people = dict.fromkeys(name for flow in flows.values() for name in (flow.sender, flow.receiver))
    return TraceManifest(
        backend="capture", duration_ns=duration_ns, participants=tuple(people), flows=flows, capture=about
    )
