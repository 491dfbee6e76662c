"""Writes the trace of a repeat from the records of the emulator and the pages."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from typing import Any

import polars as pl

from rtclab.backend.live.connections import Address, PortFlows
from rtclab.backend.live.records.camera_times import reported_stamps, since_capture
from rtclab.backend.live.records.capture_and_log import join_descriptions, packets_entering, read_capture
from rtclab.backend.live.records.controls_in_use import controls_in_use, feedback_of
from rtclab.backend.live.records.packet_flows import FlowKeys, assign_flows, join_relay_legs
from rtclab.backend.live.records.recorder import Recorder
from rtclab.backend.live.records.sfu_originals import ORIGINAL, forwarded_by_servers, since_originals
from rtclab.backend.live.records.user_flows import UserFlows
from rtclab.importers.logs.live import controller_rows
from rtclab.trace import (
    SCHEMAS,
    FlowInfo,
    Lateness,
    NotConnected,
    Trace,
    TraceManifest,
    delay_histogram_table,
    flow_seconds_table,
    queuing_histogram_table,
    with_fec,
)

LOGGED = [name for name in SCHEMAS["packets"] if name not in ("packet", "queued_path")]
"""The columns of the table ``packets`` that come from the emulator's log."""

CAPTURE = "capture.pcapng"
"""The emulator's capture, in the directory of the trace."""


def write_trace(
    out: Path,
    planned: TraceManifest,
    recorder: Recorder,
    summary: Mapping[str, Any],
    nodes: Mapping[str, str],
    *,
    paths: Mapping[str, Any],
    keep_packets: bool,
    capture: Path,
    port_flows: Mapping[Address, PortFlows],
    over_tcp: Collection[str] = (),
    failure: str | None,
    not_connected: Iterable[NotConnected] = (),
    notes: Iterable[str] = (),
    user_flows: UserFlows | None = None,
    ended_ns: int,
) -> Trace:
    """Writes the trace of a repeat that has ended.

    Args:
        out: directory of the trace.
        planned: the manifest as planned.
        recorder: the reports of the pages.
        summary: the result of the emulator's ``stop``.
        nodes: name of the node by IP address.
        paths: columns of the table ``paths``.
        keep_packets: whether the trace has the table ``packets``.
        capture: the emulator's capture.
        port_flows: the flows at the ports of programs that are not part of a call.
        over_tcp: the participants who reach a relay over TCP.
        failure: why the call failed, None if it did not.
        not_connected: the pairs that should have connected and did not.
        notes: what a reader must know of the figures.
        user_flows: the flows of pages of the user's own, None without such pages.
        ended_ns: when the session ended, which is earlier than planned if the call failed.
    """
    wire = read_capture(capture)
    log = join_descriptions(packet_log(summary), packets_entering(wire, nodes, summary["epoch_ns"]))
    known = FlowKeys(recorder.connections, recorder.ends, nodes, recorder.ssrcs, port_flows, over_tcp)
    mine = assign_flows(log, known)
    packets = join_relay_legs(mine)
    if user_flows is not None:
        notes = [*notes, *user_flows.notes, *unassigned(log, mine)]
        packets = user_flows.forwarded(packets)
        planned = planned.model_copy(
            update={
                "flows": {**planned.flows, **user_flows.flows},
                "calls": (*planned.calls, user_flows.call()),
            }
        )
    seen = packets
    carried = packets_table(packets, planned.flows, recorder.payload_kinds, planned.duration_ns)
    copies = forwarded_by_servers(recorder.connections.values())
    packets = since_originals(with_fec(carried, recorder.red), copies)
    flows = as_seen(planned.flows, packets, recorder.left_ns(), ended_ns, copies)
    tables = {name: recorder.table(name) for name in recorder.rows}
    reports = reported_stamps(out, flows, recorder.run_began_monotonic_ns)
    tables["frames"] = since_capture(tables["frames"], packets, reports)
    logged = controller_rows(out, flows, recorder.run_began_monotonic_ns, planned.duration_ns)
    tables["controller"] = pl.concat([tables["controller"], logged]).sort("at_ns", maintain_order=True)
    hidden = hides_fec(packets, recorder.payload_kinds)
    tables["flow_seconds"] = flow_seconds_table(packets, flows, planned.duration_ns, hidden)
    tables["delay_histogram"] = delay_histogram_table(packets, flows)
    tables["queuing_histogram"] = queuing_histogram_table(packets, flows)
    tables["paths"] = pl.DataFrame(paths, schema=SCHEMAS["paths"])
    if keep_packets:
        tables["packets"], tables["hops"] = with_queues(packets.drop("is_whole", *ORIGINAL), summary)
    outcome = {
        "flows": flows,
        "used": controls_in_use(flows, seen, feedback_of(wire, nodes, flows), tables["controller"]),
        "failure": failure,
        "not_connected": tuple(not_connected),
        "notes": tuple(notes),
        "lateness": lateness_of(summary),
        "emulator": dict(summary["counters"]),
    }
    return Trace.write(out, tables, planned.model_copy(update=outcome))


def unassigned(log: pl.DataFrame, known: pl.DataFrame) -> list[str]:
    """A note for every two nodes between which there was media of no known flow.

    Args:
        log: all packets that the emulator carried.
        known: the packets that belong to a flow.
    """
    media = pl.col("protocol").is_in(["rtp", "rtcp"])
    ways = ["from", "to"]
    all_of = log.filter(media).group_by(ways).agg(pl.len().alias("all"), pl.col("size_bytes").sum())
    counts = known.filter(media).group_by(ways).len("known")
    missing = (
        all_of.join(counts, on=ways, how="left")
        .with_columns(missing=pl.col("all") - pl.col("known").fill_null(0))
        .filter(pl.col("missing") > 0)
        .sort(ways)
    )
    return [
        f"{row['missing']} of {row['all']} packets of media from {row['from']} to {row['to']} "
        "belong to no known connection"
        for row in missing.iter_rows(named=True)
    ]


def hides_fec(packets: pl.DataFrame, payload_kinds: Mapping[tuple[str, int], str]) -> set[str]:
    """The flows in which FEC may be hidden, because the codec of their video is not known.

    Args:
        packets: the table ``packets``.
        payload_kinds: see :class:`Recorder`.
    """
    video = packets.filter(kind="video").select("flow", "payload_type").unique()
    return {of[0] for of in video.iter_rows() if of not in payload_kinds}


def as_seen(
    planned: Mapping[str, FlowInfo],
    packets: pl.DataFrame,
    left_ns: Mapping[str, int],
    ended_ns: int,
    copies: Collection[str] = (),
) -> dict[str, FlowInfo]:
    """The flows with the time in which each was active, and whether it is of copies that a server sends.

    A page that passes media on encodes it again, so its flows begin at the page.

    A flow lasts from its first packet to the planned end of its connection, or to when one of its ends left
    or the session ended, if that was earlier.
    """
    firsts = dict(packets.group_by("flow").agg(pl.col("sent_ns").min()).iter_rows())
    flows = {}
    for name, flow in planned.items():
        left = [left_ns[end] for end in (flow.sender, flow.receiver) if end in left_ns]
        end_ns = min(flow.end_ns, ended_ns, *left)
        begin_ns = min(firsts.get(name, flow.begin_ns), end_ns)
        seen = {"begin_ns": begin_ns, "end_ns": end_ns, "forwarded": name in copies}
        flows[name] = flow.model_copy(update=seen)
    return flows


def lateness_of(summary: Mapping[str, Any]) -> Lateness:
    """How late the emulator was."""
    lateness = summary["lateness"]
    return Lateness(
        **{f"{name}_ns": lateness[f"{name}_ns"] for name in ("p50", "p99", "max", "bound")},
        over_bound_ratio=lateness["over_bound"] / max(1, lateness["count"]),
    )


def packet_log(summary: Mapping[str, Any]) -> pl.DataFrame:
    """The emulator's packet log, with names for codes, nulls for -1, and columns of nulls.

    These are ``kind`` and ``content_bytes``. No server has held a packet yet. ``logged`` is a list of the
    rows of the log that are the packet, which is its own row at first.
    """
    names = {
        "from": summary["names"]["nodes"],
        "to": summary["names"]["nodes"],
        "protocol": summary["names"]["protocols"],
        "drop_path": summary["names"]["paths"],
        "drop_cause": summary["names"]["drop_causes"],
        "ecn": summary["names"]["ecn"],
        "mark_path": summary["names"]["paths"],
        "mark_cause": summary["names"]["mark_causes"],
    }
    codes = pl.DataFrame(summary["packets"]).with_columns(pl.all().cast(pl.Int64).replace(-1, None))
    return codes.with_columns(
        pl.Series(values, dtype=pl.String).gather(codes[column]).alias(column)
        for column, values in names.items()
    ).with_columns(
        pl.col("marker").cast(pl.Boolean),
        held_ns=pl.when(pl.col("delivered_ns").is_not_null()).then(0),
        kind=pl.lit(None, pl.String),
        content_bytes=pl.lit(None, pl.Int64),
        logged=pl.concat_list(pl.int_range(pl.len())),
    )


def with_queues(packets: pl.DataFrame, summary: Mapping[str, Any]) -> tuple[pl.DataFrame, pl.DataFrame]:
    """The tables ``packets`` and ``hops``, which say in which queues each packet waited.

    Args:
        packets: the table ``packets`` with ``logged``, without its numbers; see :func:`packet_log`.
        summary: the result of the emulator's ``stop``.
    """
    hops = summary["hops"]
    paths = pl.Series(summary["names"]["paths"], dtype=pl.String)
    waits = pl.DataFrame(
        {
            "logged": pl.Series(hops["packet"], dtype=pl.Int64),
            "path": paths.gather(hops["path"]),
            "queued_ns": hops["queued_ns"],
        }
    )
    numbered = packets.with_row_index("packet")
    came = numbered.filter(pl.col("queued_ns").is_not_null())
    of_packets = (
        came.select("flow", "packet", "logged")
        .explode("logged")
        .join(waits, on="logged")
        .sort("packet", "queued_ns", descending=[False, True], maintain_order=True)
        .with_columns(rank=pl.int_range(pl.len()).over("packet"))
    )
    longest = of_packets.filter(rank=0).select("packet", queued_path="path")
    known = numbered.drop("logged").join(longest, on="packet", how="left", maintain_order="left")
    return known, of_packets.filter(pl.col("rank") > 0).select(list(SCHEMAS["hops"]))


def packets_table(
    log: pl.DataFrame, flows: Iterable[str], payload_kinds: Mapping[tuple[str, int], str], duration_ns: int
) -> pl.DataFrame:
    """The packets that participants sent during the run, in order of sending, with their rows ``logged``.

    They are the table ``packets`` without numbers, which packets get when all that is known is joined.

    Args:
        log: packets with their ``flow``; see :func:`.packet_flows.assign_flows`.
        flows: names of the flows. Other packets are left out.
        payload_kinds: see :class:`Recorder`. These kinds take precedence over those inferred by the monitor.
        duration_ns: packets sent later are left out.
    """
    kinds = pl.DataFrame(
        [(flow, payload_type, kind) for (flow, payload_type), kind in payload_kinds.items()],
        schema={"flow": pl.String, "payload_type": SCHEMAS["packets"]["payload_type"], "said": pl.String},
        orient="row",
    )
    return (
        log.filter(
            pl.col("flow").is_in(list(flows)) & pl.col("sent_ns").is_between(0, duration_ns, closed="left")
        )
        .cast({"payload_type": SCHEMAS["packets"]["payload_type"]})
        .join(kinds, on=["flow", "payload_type"], how="left", maintain_order="left")
        .with_columns(pl.coalesce("said", "kind").alias("kind"))
        .sort("sent_ns", maintain_order=True)
        .select(*(pl.col(name).cast(SCHEMAS["packets"][name]) for name in LOGGED), "logged")
    )
