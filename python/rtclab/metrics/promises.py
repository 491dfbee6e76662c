"""When a receiver should see and hear a sender: they are connected, and the sender sends and does not pause.

Traces of rtclab's own calls say so, and when connections were ready. In other traces, such as dumps, media is
promised while the counters of its packets grow; without counters, video is from its first picture on.
"""

from __future__ import annotations

from typing import Literal

import numpy as np
import polars as pl

from rtclab.metrics.series import IntegerArray, counters_of_kind
from rtclab.trace import NS_PER_S, WHOLE_SECOND, Trace

NO_SPANS: IntegerArray = np.empty((0, 2), np.int64)
CONNECTED = "dtls_connected"
Kind = Literal["audio", "video"]


def promised(trace: Trace, flow: str, kind: Kind) -> IntegerArray | None:
    """Begin and end in ns of the times in which a kind of media is promised, of shape (times, 2).

    None if it never is: the flow carries none of this kind, its ends never connected, or it is not known.
    """
    about = trace.manifest.flows.get(flow)
    if about is None:
        return None
    if about.promised is None:
        seen = trace.cached(_shown_spans).get(flow, NO_SPANS) if kind == "video" else NO_SPANS
        spans = trace.cached(_sent_spans, kind).get(flow, seen)
    else:
        ready_ns = connected_ns(trace, flow)
        planned = about.promised.get(kind, ()) if ready_ns is not None else ()
        spans = np.array(planned, np.int64).reshape(-1, 2).clip(min=ready_ns or 0)
    spans = spans.clip(about.begin_ns, about.end_ns)
    spans = spans[spans[:, 0] < spans[:, 1]]
    return spans if spans.size else None


def connected_ns(trace: Trace, flow: str) -> int | None:
    """When the receiver was connected, and the sender too, who may have another connection, to a server.

    None if one of them never was. A server that composes pictures is ready when its receiver is.
    """
    about = trace.manifest.flows[flow]
    receiver_ns = first_ns(trace, flow, CONNECTED, about.receiver)
    if first_ns(trace, flow, "joined", about.sender) is None:
        return receiver_ns
    sender_ns = trace.cached(_firsts_of_calls).get((about.call, about.sender))
    return None if sender_ns is None or receiver_ns is None else max(sender_ns, receiver_ns)


def never_connected(trace: Trace, flow: str) -> bool:
    """Whether a flow should have carried media and its ends never connected, although both were there."""
    about = trace.manifest.flows.get(flow)
    if about is None or not about.promised:
        return False
    there = all(first_ns(trace, flow, "joined", end) is not None for end in (about.sender, about.receiver))
    return there and connected_ns(trace, flow) is None


def first_ns(trace: Trace, flow: str, event: str, participant: str) -> int | None:
    """When an event first happened to a participant, for this flow or without a flow."""
    firsts = trace.cached(_firsts)
    found = [firsts.get((event, participant, of)) for of in (flow, None)]
    return min((at_ns for at_ns in found if at_ns is not None), default=None)


def _firsts(trace: Trace) -> dict[tuple[str, str, str | None], int]:
    """When events happened first, by event, participant and flow, unless the time is known to 1 s only."""
    key = ["event", "participant", "flow"]
    exact = trace.table("events").filter(pl.col("detail") != WHOLE_SECOND)
    firsts = exact.group_by(key).agg(pl.col("at_ns").min())
    return {(event, participant, flow): at_ns for event, participant, flow, at_ns in firsts.iter_rows()}


def _firsts_of_calls(trace: Trace) -> dict[tuple[int | None, str], int]:
    """By call and node, when its first connection was ready."""
    found: dict[tuple[int | None, str], int] = {}
    for (event, node, flow), at_ns in trace.cached(_firsts).items():
        if event == CONNECTED and flow in trace.manifest.flows:
            key = trace.manifest.flows[flow].call, node
            found[key] = min(found.get(key, at_ns), at_ns)
    return found


def _sent_spans(trace: Trace, kind: str) -> dict[str, IntegerArray]:
    """By flow, the times between reports in which packets were sent or, if nobody says so, received.

    Without reports of the receiver there are none: a dump of the sender does not know what the receiver saw.
    """
    received = _growing(trace, "inbound_rtp", "packetsReceived", kind)
    sent = _growing(trace, "outbound_rtp", "packetsSent", kind)
    return {flow: sent.get(flow, spans) for flow, spans in received.items()}


def _shown_spans(trace: Trace) -> dict[str, IntegerArray]:
    """By flow, the time from its first picture to its end, for traces without reports."""
    shown = trace.table("frames").group_by("flow").agg(pl.col("rendered_ns").min()).drop_nulls()
    ends = {flow: about.end_ns for flow, about in trace.manifest.flows.items()}
    return {flow: np.array([[first_ns, ends[flow]]]) for flow, first_ns in shown.iter_rows() if flow in ends}


def _growing(trace: Trace, table: str, column: str, kind: str) -> dict[str, IntegerArray]:
    found = {}
    for flow, counted in counters_of_kind(trace, table, kind, column).items():
        at_ns = np.rint(counted.at_s * NS_PER_S).astype(np.int64)
        grows = np.diff(counted.values) > 0
        found[flow] = union(np.column_stack([at_ns[:-1], at_ns[1:]])[grows])
    return found


def union(spans: IntegerArray, *, touching: bool = True) -> IntegerArray:
    """The times that are in any of the spans, in order; those that overlap (or are ``touching``) are one."""
    if len(spans) < 2:
        return spans
    spans = spans[np.lexsort((spans[:, 1], spans[:, 0]))]
    latest = np.maximum.accumulate(spans[:, 1])
    begins = np.append(True, spans[1:, 0] >= latest[:-1] + touching)
    return np.column_stack([spans[begins, 0], latest[np.append(np.flatnonzero(begins)[1:] - 1, -1)]])


def inside_ns(spans: IntegerArray, span: tuple[int, int]) -> IntegerArray:
    """For each of the spans, its time within another span, in ns."""
    begin_ns, end_ns = span
    inside: IntegerArray = np.minimum(spans[:, 1], end_ns) - np.maximum(spans[:, 0], begin_ns)
    return np.maximum(inside, 0, out=inside)
