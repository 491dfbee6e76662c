"""The account of stalls: what each freeze of a flow's video was.

A freeze ends with a picture. What was sent between the last picture before it and that picture tells why it
took so long: nothing was sent, or packets were lost and had to be repaired, or they waited in a queue.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace

import numpy as np
import polars as pl
from numpy.typing import NDArray

from rtclab.metrics.accounts.limits import course_of
from rtclab.metrics.accounts.losses import lost_packets, outages
from rtclab.metrics.accounts.packets import packets_in_order
from rtclab.metrics.media import frozen_spans
from rtclab.metrics.packets import NEVER, were_recorded
from rtclab.metrics.promises import inside_ns
from rtclab.metrics.series import IntegerArray, counter, span_ns
from rtclab.trace import NS_PER_MS, NS_PER_S, Trace

CAUSES: dict[str, str] = {
    "outage": "a path carried nothing",
    "sender": "the sender sent no picture",
    "loss": "a lost packet had to be repaired",
    "queue": "packets waited in queues",
    "receiver": "everything had come, and no picture was shown",
    "unknown": "nothing tells",
}
"""The causes of freezes, and what each means."""
WRAP, HALF = 2**32, 2**31
"""RTP timestamps wrap around; what is less than half of that ahead is later."""
MOST = 0.5
"""What fills more than this part of a freeze is its cause."""

SCHEMA = pl.Schema(
    {
        "flow": pl.String(),
        "begin_ns": pl.Int64(),
        "end_ns": pl.Int64(),
        "cause": pl.String(),
        "where": pl.String(),
        "detail": pl.String(),
    }
)


@dataclass(frozen=True)
class Stall:
    """A freeze, or the time until a viewer who saw nothing left.

    Attributes:
        begin_ns: when the last picture before it was shown, or the call was set up.
        end_ns: when the next picture was shown, or the flow ended.
        cause: a key of ``CAUSES``.
        where: the path, or why the sender sent nothing; may be empty.
        detail: what happened, as text.
    """

    begin_ns: int
    end_ns: int
    cause: str
    where: str = ""
    detail: str = ""

    @property
    def length_s(self) -> float:
        """How long it lasted, in s."""
        return (self.end_ns - self.begin_ns) / NS_PER_S


def stalls_table(trace: Trace) -> pl.DataFrame:
    """Each freeze of each flow in the trace's window: begin, end, cause, place, and what happened."""
    rows = [
        (flow, one.begin_ns, one.end_ns, one.cause, one.where, one.detail)
        for flow in trace.flows
        for one in stalls_of(trace, flow)
    ]
    return pl.DataFrame(rows, schema=SCHEMA, orient="row")


def stalls_of(trace: Trace, flow: str) -> list[Stall]:
    """The freezes of a flow in order, or the parts of them that lie in the trace's window."""
    first_ns, last_ns = span_ns(trace, flow)
    parts = (
        replace(one, begin_ns=max(one.begin_ns, first_ns), end_ns=min(one.end_ns, last_ns))
        for one in trace.cached(_stalls, flow)
    )
    return [part for part in parts if part.begin_ns < part.end_ns]


def _stalls(trace: Trace, flow: str) -> list[Stall]:
    spans = trace.cached(frozen_spans, flow)
    if spans is None or not len(spans):
        return []
    if not were_recorded(trace):
        return [
            Stall(begin, end, "unknown", detail="packets were not recorded") for begin, end in spans.tolist()
        ]
    return [_stall(trace, flow, begin, end) for begin, end in spans.tolist()]


def _stall(trace: Trace, flow: str, begin_ns: int, end_ns: int) -> Stall:
    length_ns = end_ns - begin_ns
    for path in trace.manifest.flows[flow].route:
        out = trace.cached(outages).get(path)
        if (
            out is not None
            and (out_ns := inside_ns(out, (begin_ns - NS_PER_S, end_ns)).sum()) > MOST * length_ns / 2
        ):
            return Stall(
                begin_ns, end_ns, "outage", path, f"it carried nothing for {out_ns / NS_PER_S:.1f} s"
            )
    media = trace.cached(_media, flow)
    way_ns = media.way_ns
    between = media.is_video & (media.sent_ns > begin_ns - way_ns) & (media.sent_ns < end_ns - way_ns)
    if silent := _silent(media.sent_ns[between], begin_ns - way_ns, end_ns - way_ns):
        return Stall(begin_ns, end_ns, "sender", *_of_sender(trace, flow, silent))
    wanted = _wanted(trace, flow, media, begin_ns, end_ns)
    missing = wanted & media.is_video & (media.delivered_ns == NEVER)
    if missing.any():
        cause, path = _cause_of_losses(trace, flow, media, missing)
        detail = _repair(trace, flow, media, wanted, missing, (begin_ns, end_ns))
        if cause == "outage":
            return Stall(begin_ns, end_ns, "outage", path, detail)
        return Stall(begin_ns, end_ns, "loss", f"{cause} {path}".strip(), detail)
    came = wanted & (media.delivered_ns != NEVER)
    if not came.any():
        return Stall(begin_ns, end_ns, "unknown", detail="no packet of its pictures is in the trace")
    late_ns = int((media.delivered_ns - media.sent_ns)[came].max()) - way_ns
    if late_ns > MOST * length_ns:
        return Stall(begin_ns, end_ns, "queue", "", f"its packets came {late_ns / NS_PER_MS:.0f} ms late")
    return Stall(
        begin_ns, end_ns, "receiver", trace.manifest.flows[flow].receiver, "all its packets had come"
    )


@dataclass(frozen=True)
class _Media:
    """The packets of a flow's video and its repair, in the order in which they were sent.

    ``way_ns`` is the time that the fastest of them took.
    """

    sent_ns: IntegerArray
    delivered_ns: IntegerArray
    timestamp: IntegerArray
    is_video: NDArray[np.bool_]
    is_rtx: NDArray[np.bool_]
    way_ns: int


def _media(trace: Trace, flow: str) -> _Media:
    rows = packets_in_order(trace, flow).filter(pl.col("kind").is_in(["video", "rtx", "fec"]))
    sent_ns = rows["sent_ns"].to_numpy()
    delivered_ns = rows["delivered_ns"].fill_null(NEVER).to_numpy()
    is_video = (rows["kind"] == "video").to_numpy()
    came = is_video & (delivered_ns != NEVER)
    return _Media(
        sent_ns,
        delivered_ns,
        rows["rtp_timestamp"].fill_null(-1).to_numpy(),
        is_video,
        (rows["kind"] == "rtx").to_numpy(),
        int((delivered_ns - sent_ns)[came].min()) if came.any() else 0,
    )


def _pictures(trace: Trace, flow: str) -> tuple[IntegerArray, IntegerArray]:
    """When each picture of a flow was shown, in order, and its RTP timestamp."""
    rows = trace.rows_of_flow("frames", flow).drop_nulls("rendered_ns").sort("rendered_ns")
    return rows["rendered_ns"].to_numpy(), rows["rtp_timestamp"].to_numpy()


def _wanted(trace: Trace, flow: str, media: _Media, begin_ns: int, end_ns: int) -> NDArray[np.bool_]:
    """Whether each packet is of a picture after the last one before a freeze, up to the one that ends it."""
    shown_ns, timestamps = trace.cached(_pictures, flow)
    before = np.searchsorted(shown_ns, begin_ns, side="right") - 1
    after = np.searchsorted(shown_ns, end_ns, side="left")
    first = timestamps[before] if before >= 0 else (media.timestamp[media.is_video][:1] - 1).sum()
    last = timestamps[after] if after < timestamps.size else first + HALF
    since = (media.timestamp - first) % WRAP
    is_wanted: NDArray[np.bool_] = (since > 0) & (since <= (last - first) % WRAP) & (media.timestamp >= 0)
    return is_wanted


def _silent(sent_ns: IntegerArray, begin_ns: int, end_ns: int) -> tuple[int, int] | None:
    """The longest time between two packets of video, if it fills most of a freeze."""
    moments = np.concatenate([[begin_ns], np.sort(sent_ns), [end_ns]])
    gaps = np.diff(moments)
    longest = int(gaps.argmax())
    if gaps[longest] <= MOST * (end_ns - begin_ns):
        return None
    return int(moments[longest]), int(moments[longest + 1])


def _of_sender(trace: Trace, flow: str, silent: tuple[int, int]) -> tuple[str, str]:
    """What limited a sender while it sent nothing, and for how long it did."""
    course = course_of(trace.whole, flow)
    shares = {} if course is None else course.shares(silent)
    limit = max(shares, key=lambda name: shares[name], default="")
    return limit, f"no video was sent for {(silent[1] - silent[0]) / NS_PER_S:.1f} s"


def _cause_of_losses(trace: Trace, flow: str, media: _Media, missing: NDArray[np.bool_]) -> tuple[str, str]:
    """The most frequent cause of the losses of some packets, and its path."""
    lost = lost_packets(trace.whole, flow)
    index = np.searchsorted(lost.sent_ns, media.sent_ns[missing]).clip(max=max(lost.sent_ns.size - 1, 0))
    causes = Counter(zip(lost.cause[index].tolist(), lost.path[index].tolist(), strict=True))
    return causes.most_common(1)[0][0]


def _repair(
    trace: Trace,
    flow: str,
    media: _Media,
    wanted: NDArray[np.bool_],
    missing: NDArray[np.bool_],
    span: tuple[int, int],
) -> str:
    """How the lost packets of some pictures were repaired."""
    total = int(missing.sum())
    parts = [f"{total} packet{'s' * (total != 1)} lost"]
    again = wanted & media.is_rtx
    failed = int((again & (media.delivered_ns == NEVER)).sum())
    repaired_ns = media.delivered_ns[again & (media.delivered_ns != NEVER) & (media.delivered_ns <= span[1])]
    if failed:
        parts.append(f"{failed} retransmission{'s' * (failed != 1)} lost too")
    if repaired_ns.size:
        due_ns = media.sent_ns[missing].min() + media.way_ns
        parts.append(f"the last retransmission came {(repaired_ns.max() - due_ns) / NS_PER_MS:.0f} ms later")
    if _asked_for_key(trace, flow, *span):
        parts.append("a key frame was asked for")
    return "; ".join(parts)


def _asked_for_key(trace: Trace, flow: str, begin_ns: int, end_ns: int) -> bool:
    """Whether the receiver asked for a key frame in a freeze, or in the second before or after it."""
    asked = counter(trace.whole, "inbound_rtp", flow, "pliCount")
    if not asked.at_s.size:
        return False
    moments = (begin_ns / NS_PER_S - 1, end_ns / NS_PER_S + 1)
    before, after = np.interp(moments, asked.at_s, asked.values)
    return bool(after - before >= 1)
