"""Traces and runs made by hand, with numbers that tests can derive, and a realistic two-way call."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from rtclab.experiment import About, Listed, Result, Store
from rtclab.metrics import METRICS
from rtclab.trace import (
    NULLABLE,
    SCHEMAS,
    FlowInfo,
    Machine,
    Repeat,
    Run,
    Trace,
    TraceManifest,
    new_directory,
)

NS_PER_S = 1_000_000_000
PACKET_BYTES = 1000
ALICE_TO_BOB = {"alice->bob": ["alice.up", "bob.down"]}
TWO_WAY = ALICE_TO_BOB | {"bob->alice": ["bob.up", "alice.down"]}
_EMPTY_VALUES = {pl.String(): "", pl.Int64(): 0, pl.Float64(): 0.0}


def trace(
    flows: dict[str, list[str]] = ALICE_TO_BOB,
    spans_s: dict[str, tuple[float, float]] | None = None,
    **tables: list[dict[str, Any]],
) -> Trace:
    """A trace from rows, of the flow ``alice->bob`` unless they say otherwise.

    ``spans_s`` says when flows were there; the others were from their first packet to the last row of all.
    """
    frames = {name: frame(name, rows) for name, rows in tables.items()}
    manifest = about(flows, frames)
    for name, (begin_s, end_s) in (spans_s or {}).items():
        span = {"begin_ns": round(begin_s * NS_PER_S), "end_ns": round(end_s * NS_PER_S)}
        manifest.flows[name] = manifest.flows[name].model_copy(update=span)
    return Trace.in_memory(frames, manifest)


def about(flows: dict[str, list[str]], tables: dict[str, pl.DataFrame], **known: Any) -> TraceManifest:
    """The manifest of flows with these routes. Each lasts from its first packet to the last row of all."""
    end_ns = max((_end_ns(name, table) for name, table in tables.items()), default=0)
    return TraceManifest(
        backend="sim",
        duration_ns=end_ns,
        participants=tuple(dict.fromkeys(end for flow in flows for end in flow.split("->"))),
        flows={
            flow: FlowInfo(
                sender=flow.partition("->")[0],
                receiver=flow.partition("->")[2],
                route=tuple(route),
                begin_ns=min(_begin_ns(flow, tables.get("flow_seconds")), end_ns),
                end_ns=end_ns,
            )
            for flow, route in flows.items()
        },
        **known,
    )


def _end_ns(name: str, table: pl.DataFrame) -> int:
    last = table["at_ns"].max() if "at_ns" in table.columns else None
    return (int(str(last)) if last is not None else 0) + (NS_PER_S if name == "flow_seconds" else 0)


def _begin_ns(flow: str, seconds: pl.DataFrame | None) -> int:
    if seconds is None:
        return 0
    first = seconds.filter(pl.col("sent_packets") > 0, flow=flow)["at_ns"].min()
    return int(str(first)) if first is not None else 0


def frame(name: str, rows: list[dict[str, Any]]) -> pl.DataFrame:
    """A table from rows. Missing columns are null if they may be, otherwise 0 or empty."""
    empty = {
        column: None if column in NULLABLE[name] else _EMPTY_VALUES[dtype]
        for column, dtype in SCHEMAS[name].items()
    }
    if "flow" in empty and name != "events":
        empty["flow"] = "alice->bob"
    return pl.DataFrame([empty | row for row in rows], schema=SCHEMAS[name], orient="row")


def second(at_s: float, packets: int = 0, size_bytes: int = PACKET_BYTES, **columns: Any) -> dict[str, Any]:
    """A row of ``flow_seconds`` in which every packet arrived, unless ``columns`` says otherwise."""
    return {
        "at_ns": int(at_s * NS_PER_S),
        "sent_packets": packets,
        "sent_bytes": packets * size_bytes,
        "delivered_packets": packets,
        "delivered_bytes": packets * size_bytes,
    } | columns


def report(at_s: float, ssrc: int = 1, kind: str = "video", **columns: Any) -> dict[str, Any]:
    """A row of one of the RTP tables."""
    return {"at_ns": int(at_s * NS_PER_S), "ssrc": ssrc, "kind": kind} | columns


def event(at_ms: int, participant: str, name: str, flow: str | None = None) -> dict[str, Any]:
    """A row of ``events``."""
    return {"at_ns": at_ms * 1_000_000, "participant": participant, "event": name, "flow": flow}


def write_run(
    out: Path,
    tables_of_repeats: list[dict[str, pl.DataFrame]],
    *,
    flows: dict[str, list[str]] = TWO_WAY,
    failed: dict[int, str] | None = None,
    **manifest: Any,
) -> Run:
    """A run on disk with one repeat per dict of tables. ``failed`` gives the reasons of failed repeats."""
    link = {"capacity": "1 Mbit/s", "delay": "25 ms", "queue": "300 ms", "jitter": None, "loss": None}
    scenario = {
        "name": "first-call",
        "title": "Two participants, two-way video over 1 Mbit/s and 25 ms access links",
        "duration": "60 s",
        "seed": 1,
        "participants": {"alice": {"link": None}, "bob": {"link": None}},
        "congestion_control": {"name": "goog-cc"},
        "link": {"up": link, "down": link, "both": None},
    }
    about_all = About(
        name="first-call-sim",
        backend="sim",
        repeats=len(tables_of_repeats),
        metrics=tuple(METRICS),
        versions={"rtclab": "0.1.0", "python": "3.11.2"},
        machine=Machine(system="Linux", kernel="6.1", processor="Testium 3", cores=2),
    )
    store = Store.create(new_directory(out, "first-call-sim-"), about_all, Listed({"first-call": scenario}))
    for repeat, tables in enumerate(tables_of_repeats):
        outcome = Repeat(repeat, seed=repeat, status="finished")
        if repeat in (failed or {}):
            outcome = Repeat(repeat, seed=repeat, status="failed", reason=(failed or {})[repeat])
        else:
            Trace.write(store.repeat_path(0, repeat), tables, about(flows, tables, **manifest))
        # Without values: they are measured from the traces.
        store.add([Result(0, outcome)], code="")
    return store.run()


def call_tables(seed: int, duration_s: int = 60, capacity_kbps: int = 1000) -> dict[str, pl.DataFrame]:
    """A two-way video call that fills its link in a few seconds, halves its rate once, and has one freeze."""
    random = np.random.default_rng(seed)
    rows: dict[str, list[dict[str, Any]]] = {name: [] for name in SCHEMAS}
    for flow in TWO_WAY:
        sender, _, receiver = flow.partition("->")
        at_s = np.arange(duration_s)
        rate_kbps = np.minimum(300 + 90.0 * at_s, 0.92 * capacity_kbps) + random.normal(0, 25, duration_s)
        rate_kbps[(at_s > 35) & (at_s < 42)] *= 0.55
        queue_ms = np.clip(random.gamma(2, 8, duration_s) + 60 * (np.abs(at_s - 34) < 2), 0.5, 290)
        _add_network(rows, flow, rate_kbps, queue_ms, random)
        _add_media(rows, flow, rate_kbps, random)
        steps = {"joined": 100, "signalling_done": 180, "ice_connected": 320, "dtls_connected": 470}
        for name, at_ms in (steps | {"first_frame": 700 + seed * 10}).items():
            rows["events"].append(event(at_ms, receiver, name))
        rows["host"] += [
            {
                "at_ns": at * NS_PER_S,
                "participant": sender,
                "cpu_percent": 40.0 + seed,
                "memory_bytes": 2 * 10**8,
            }
            for at in range(duration_s)
        ]
    rows["paths"] = [
        {"at_ns": at_ns, "path": path, "capacity_bps": bps, "one_way_delay_ms": 25.0}
        for path in ("alice.up", "alice.down", "bob.up", "bob.down")
        for at_ns, bps in ((0, capacity_kbps * 1000), (duration_s // 2 * NS_PER_S, capacity_kbps * 900))
    ]
    return {name: frame(name, given) for name, given in rows.items() if name != "packets"}


def _add_network(
    rows: dict[str, list[dict[str, Any]]],
    flow: str,
    rate_kbps: np.ndarray,
    queue_ms: np.ndarray,
    random: np.random.Generator,
) -> None:
    for at, (rate, queue) in enumerate(zip(rate_kbps, queue_ms, strict=True)):
        packets = int(rate * 125 / PACKET_BYTES)
        delays = {"min": 50 + 0.2 * queue, "mean": 50 + queue, "max": 50 + 1.8 * queue}
        delays_ms = {f"one_way_delay_{name}_ms": value for name, value in delays.items()}
        lost = int(random.random() < 0.1)
        row = second(at, packets, flow=flow, dropped_packets=lost, **delays_ms)
        rows["flow_seconds"].append(row | {"sent_packets": packets + lost})
    bins, counts = np.unique((50 + random.gamma(2, 10, 4000)).round(1), return_counts=True)
    rows["delay_histogram"] += [
        {"flow": flow, "one_way_delay_ms": float(low), "packets": int(count)}
        for low, count in zip(bins, counts, strict=True)
    ]


def _add_media(
    rows: dict[str, list[dict[str, Any]]], flow: str, rate_kbps: np.ndarray, random: np.random.Generator
) -> None:
    at_s = np.arange(rate_kbps.size)
    frames = np.cumsum(np.where(np.abs(at_s - 38) < 2, 17, 30) + random.integers(-1, 2, at_s.size))
    received = np.cumsum(rate_kbps * 125)
    for at, rate in enumerate(rate_kbps):
        rows["outbound_rtp"].append(report(at + 1, flow=flow, targetBitrate=950.0 * rate))
        rows["remote_inbound_rtp"].append(report(at + 1, flow=flow, roundTripTime=0.12))
        inbound = report(
            at + 1,
            flow=flow,
            packetsReceived=int(received[at] / PACKET_BYTES),
            packetsLost=at // 10,
            retransmittedPacketsReceived=at // 12,
            bytesReceived=int(received[at] * 0.95),
            framesDecoded=int(frames[at]),
            frameWidth=640,
            frameHeight=480,
            freezeCount=int(at > 38),
            totalFreezesDuration=0.8 * (at > 38),
        )
        rows["inbound_rtp"].append(inbound)
