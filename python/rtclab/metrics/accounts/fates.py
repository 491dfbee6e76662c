"""The account of fates: what became of each lost packet, and of each byte that was sent to repair losses.

A retransmission has the RTP timestamp of the packet that it repeats, but its payload, with the sequence
number of that packet, is encrypted in live calls. So the retransmissions that arrived for a picture stand for
its lost packets in the order in which these were sent. FEC replaced what was lost of a picture that was
complete without a retransmission.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import nan
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from rtclab.metrics.accounts.losses import IMPORTED, lost_packets, still_on_its_way_ns, tells_losses
from rtclab.metrics.accounts.packets import packets_in_order
from rtclab.metrics.arrivals import VIDEO_CLOCK
from rtclab.metrics.media import FREEZE_MARGIN_S, frozen_spans
from rtclab.metrics.packets import NEVER, PacketColumns, sent_in_order
from rtclab.metrics.registry import UNKNOWN, bounded, metric, sources
from rtclab.metrics.series import IntegerArray, arrays_by_flow, span_ns
from rtclab.trace import NS_PER_S, Trace

FATES: dict[str, str] = {
    "in_time": "replaced before its picture was due",
    "too_late": "replaced after its picture was due, while or after the video was frozen",
    "in_vain": "replaced, and its picture was never shown",
    "never": "never replaced",
    "unknown": "replaced, and nothing tells when its picture was shown",
}
"""What may become of a lost packet, and what each means."""
USES: dict[str, str] = {
    "in_time": "replaced a lost packet before its picture was due",
    "too_late": "replaced a lost packet after its picture was due",
    "in_vain": "served nothing: what it repeats or protects had come, or its picture was never shown",
    "lost": "was lost itself",
    "unknown": "replaced a lost packet, and nothing tells when its picture was shown; or still on its way",
}
"""What a packet of repair may have been good for, and what each means."""
REPAIRS: dict[str, str] = {
    "rtx": "the sender sent it again",
    "server": "a server sent it again",
    "fec": "forward error correction",
    "": "nothing",
}
"""What may replace a lost packet."""

SCHEMA = pl.Schema(
    {
        "flow": pl.String(),
        "sent_ns": pl.Int64(),
        "kind": pl.String(),
        "ssrc": pl.Int64(),
        "seq": pl.Int64(),
        "cause": pl.String(),
        "path": pl.String(),
        "repaired_by": pl.String(),
        "repaired_ns": pl.Int64(),
        "fate": pl.String(),
    }
)
NONE = np.empty(0, np.int64)
SCHEMA_OF_REPAIR = pl.Schema(
    {
        "flow": pl.String(),
        "kind": pl.String(),
        "use": pl.String(),
        "packets": pl.Int64(),
        "size_bytes": pl.Int64(),
    }
)
Texts = NDArray[np.str_]


@dataclass(frozen=True)
class Fates:
    """What became of a flow's lost packets of video and of its packets of repair.

    Packets are given by their numbers among all packets that the flow sent, in the order of sending.

    Attributes:
        sent: the packets that the flow sent, in the order of sending.
        lost: numbers of the lost packets of video; shape (lost packets,), like the next three.
        by: what replaced each, a key of ``REPAIRS``.
        replaced_ns: when each was replaced; ``NEVER`` if it never was.
        fate: a key of ``FATES``.
        repair: numbers of the packets of RTX and FEC; shape (packets of repair,).
        use: a key of ``USES`` for each of them.
    """

    sent: PacketColumns
    lost: IntegerArray
    by: Texts
    replaced_ns: IntegerArray
    fate: Texts
    repair: IntegerArray
    use: Texts


def fates_table(trace: Trace) -> pl.DataFrame:
    """What became of each packet that was lost in the trace's window, with the cause of its loss.

    ``repaired_by`` is a key of ``REPAIRS`` and ``fate`` of ``FATES``; ``repaired_ns`` is null if nothing
    replaced it. Only packets of video are replaced. The loss of sound is concealed, and what was lost of RTCP
    and the like comes again by itself.
    """
    parts = []
    for flow in trace.flows:
        lost = lost_packets(trace, flow)
        if not lost.number.size:
            continue
        found = fates_of(trace, flow)
        rows = packets_in_order(trace.whole, flow)[lost.number].with_columns(
            number=pl.Series(lost.number), cause=pl.Series(lost.cause), path=pl.Series(lost.path)
        )
        of_video = pl.DataFrame(
            {
                "number": found.lost,
                "repaired_by": found.by,
                "repaired_ns": pl.Series(found.replaced_ns).replace(NEVER, None),
                "fate": found.fate,
            }
        )
        joined = rows.join(of_video, on="number", how="left", maintain_order="left").with_columns(
            pl.col("repaired_by").fill_null(""), pl.col("fate").fill_null("never")
        )
        parts.append(joined.select(list(SCHEMA)).cast(dict(SCHEMA)))  # type: ignore[arg-type]
    return pl.concat([SCHEMA.to_frame(), *parts])


def repair_table(trace: Trace) -> pl.DataFrame:
    """What the packets of RTX and FEC sent in the trace's window were good for: IP bytes by flow and use."""
    parts = []
    for flow in trace.flows:
        found = fates_of(trace, flow)
        inside = _inside(trace, flow, found.sent.sent_ns[found.repair])
        repair = found.sent.chosen(found.repair[inside])
        rows = pl.DataFrame(
            {
                "flow": flow,
                "kind": np.where(repair.of_kinds("rtx"), "rtx", "fec"),
                "use": found.use[inside],
                "size_bytes": repair.size_bytes,
            }
        )
        parts.append(
            rows.group_by("flow", "kind", "use")
            .agg(packets=pl.len(), size_bytes=pl.col("size_bytes").sum())
            .sort("kind", "use")
            .cast(dict(SCHEMA_OF_REPAIR))  # type: ignore[arg-type]
        )
    return pl.concat([SCHEMA_OF_REPAIR.to_frame(), *parts])


_KNOWN = sources(
    bounded("retransmissions are told apart by the picture that they belong to"),
    bounded("retransmissions are told apart by the picture that they belong to"),
    UNKNOWN,
    UNKNOWN,
    UNKNOWN,
)


@metric(
    unit="%", better="higher", source="RFC 4588; RFC 5109", bounds=(0, 100), known=_KNOWN, packets="always"
)
def repaired_in_time(trace: Trace, flow: str) -> float:
    """Lost packets of video that retransmissions or FEC replaced before their picture was due, in %.

    A packet came too late if its picture was due in a freeze and it came more than 150 ms after that, the
    margin by which a late picture is a freeze. There is no value if no packet of video was lost, or nobody
    shows the flow's pictures.
    """
    found = fates_of(trace, flow)
    fate = found.fate[_inside(trace, flow, found.sent.sent_ns[found.lost])]
    return nan if not fate.size or (fate == "unknown").any() else float(100 * np.mean(fate == "in_time"))


@metric(
    unit="%", better="lower", source="RFC 4588; RFC 5109", bounds=(0, 100), known=_KNOWN, packets="always"
)
def repair_in_vain(trace: Trace, flow: str) -> float:
    """IP bytes of retransmissions and FEC that served nothing, in % of all such bytes sent.

    They were lost themselves; or the packets that they repeat or protect had come, had been replaced already,
    or belong to pictures that were never shown. FEC that waits for a loss and padding that repeats packets
    are among them. There is no value without repair, nor in imports, which do not know all packets.
    """
    found = fates_of(trace, flow)
    inside = _inside(trace, flow, found.sent.sent_ns[found.repair])
    size_bytes = found.sent.size_bytes[found.repair[inside]]
    in_vain = size_bytes[np.isin(found.use[inside], ("in_vain", "lost"))].sum()
    is_known = size_bytes.size and trace.manifest.backend not in IMPORTED
    return float(100 * in_vain / size_bytes.sum()) if is_known else nan


def fates_of(trace: Trace, flow: str) -> Fates:
    """What became of a flow's lost packets and packets of repair over all of the time."""
    return trace.cached(_fates, flow)


def _fates(trace: Trace, flow: str) -> Fates:
    sent = sent_in_order(trace, flow)
    came = sent.delivered_ns != NEVER
    gone = sent.is_dropped | (~came & (sent.sent_ns < still_on_its_way_ns(trace, flow)))
    is_rtx, is_fec = sent.of_kinds("rtx"), sent.of_kinds("fec")
    lost = np.flatnonzero(gone & sent.of_kinds("video") & tells_losses(trace, flow))
    repair = np.flatnonzero(is_rtx | is_fec)
    use = np.where(came[repair], "in_vain", np.where(gone[repair], "lost", "unknown")).astype("U8")
    if not lost.size:
        none = np.empty(0, use.dtype)
        return Fates(sent, lost, none, lost, none, repair, use)
    by = np.full(lost.size, "", "U6")
    replaced_ns = np.full(lost.size, NEVER)
    replacing = np.full(lost.size, -1)

    again = np.flatnonzero(is_rtx & came)
    again = again[np.argsort(sent.delivered_ns[again], kind="stable")]
    of_lost, of_again = _paired(sent.timestamp[lost], sent.timestamp[again])
    by[of_lost] = "server" if trace.manifest.flows[flow].forwarded else "rtx"
    replacing[of_lost] = again[of_again]
    replaced_ns[of_lost] = sent.delivered_ns[again[of_again]]

    complete = trace.cached(_complete).get(flow)
    complete_ns = _looked_up(sent.timestamp[lost], complete)
    protected = np.flatnonzero(is_fec & came)
    if protected.size:
        by_fec = (complete_ns != NEVER) & ((replaced_ns == NEVER) | (replaced_ns > complete_ns))
        by[by_fec], replaced_ns[by_fec] = "fec", complete_ns[by_fec]
        replacing[by_fec] = _first_after(sent.sent_ns[lost[by_fec]], sent.sent_ns[protected], protected)

    fate = np.select(
        [
            replaced_ns == NEVER,
            np.full(lost.size, complete is None),
            complete_ns == NEVER,
            _late(trace, flow, sent.timestamp[lost], replaced_ns),
        ],
        ["never", "unknown", "in_vain", "too_late"],
        "in_time",
    )
    known = replacing >= 0
    use[np.searchsorted(repair, replacing[known])] = fate[known]
    return Fates(sent, lost, by, replaced_ns, fate, repair, use)


def _complete(trace: Trace) -> dict[str, tuple[NDArray[Any], ...]]:
    """By flow, when the last packet of each picture came, if it is known: RTP timestamps, and times."""
    rows = trace.table("frames").select("flow", "rtp_timestamp", "received_ns").drop_nulls("received_ns")
    return arrays_by_flow(rows)


def _shown(trace: Trace) -> dict[str, tuple[NDArray[Any], ...]]:
    """By flow, when pictures of :func:`_complete` were shown, in order: times, and RTP timestamps."""
    rows = trace.table("frames").drop_nulls(["received_ns", "rendered_ns"])
    in_order = rows.sort("rendered_ns", maintain_order=True)
    return arrays_by_flow(in_order.select("flow", "rendered_ns", "rtp_timestamp"))


def _paired(first: NDArray[Any], second: NDArray[Any]) -> tuple[IntegerArray, IntegerArray]:
    """Indices of pairs: the n-th of a value in the first array and the n-th of it in the second."""
    _, of_first, of_second = np.intersect1d(
        _with_rank(first), _with_rank(second), assume_unique=True, return_indices=True
    )
    return of_first, of_second


def _with_rank(values: NDArray[Any]) -> IntegerArray:
    """Each value and how many equal ones come before it, as one number."""
    order = np.argsort(values, kind="stable")
    in_order = values[order]
    rank = np.empty(values.size, np.int64)
    rank[order] = np.arange(values.size) - np.searchsorted(in_order, in_order)
    return (values.astype(np.int64) << 20) + rank


def _looked_up(timestamps: NDArray[np.uint32], complete: tuple[NDArray[Any], ...] | None) -> IntegerArray:
    """When the picture with each RTP timestamp was complete; ``NEVER`` if it was never shown."""
    if complete is None:
        return np.full(timestamps.size, NEVER)
    of_picture, received_ns = complete
    known, first = np.unique(of_picture, return_index=True)
    index = np.minimum(np.searchsorted(known, timestamps), known.size - 1)
    return np.where(known[index] == timestamps, received_ns[first[index]], NEVER)


def _first_after(moments: IntegerArray, sent_ns: IntegerArray, numbers: IntegerArray) -> IntegerArray:
    """For each moment, the first packet sent since then that no earlier moment took; -1 without one."""
    taken = np.full(moments.size, -1)
    free = 0
    for index, first in enumerate(np.searchsorted(sent_ns, moments).tolist()):
        free = max(free, first)
        if free < numbers.size:
            taken[index] = numbers[free]
            free += 1
    return taken


def _late(
    trace: Trace, flow: str, timestamps: NDArray[np.uint32], replaced_ns: IntegerArray
) -> NDArray[np.bool_]:
    """Whether lost packets were replaced too late for pictures that were due while the video was frozen.

    A picture was due as long after the last one before the freeze as it was recorded after that one.
    """
    frozen = trace.cached(frozen_spans, flow)
    late = np.zeros(timestamps.size, np.bool_)
    if frozen is None or not (frozen.size and timestamps.size):
        return late
    shown_ns, shown = trace.cached(_shown).get(flow, (NONE, NONE))
    for begin_ns, end_ns in frozen.tolist():
        last = np.searchsorted(shown_ns, begin_ns, side="right") - 1
        if last < 0:
            late |= (replaced_ns > begin_ns) & (replaced_ns <= end_ns)
            continue
        later = (timestamps - np.uint32(shown[last])).astype(np.int32).astype(np.int64)
        due_ns = begin_ns + later * NS_PER_S // VIDEO_CLOCK
        in_freeze = (later > 0) & (due_ns < end_ns)
        late |= in_freeze & (replaced_ns > due_ns + int(FREEZE_MARGIN_S * NS_PER_S))
    return late


def _inside(trace: Trace, flow: str, moments: IntegerArray) -> NDArray[np.bool_]:
    begin_ns, end_ns = span_ns(trace, flow)
    inside: NDArray[np.bool_] = (moments >= begin_ns) & (moments < end_ns)
    return inside
