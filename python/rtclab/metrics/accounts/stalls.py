"""The account of stalls: what each freeze of a flow's video was, and what each gap of its sound.

A freeze ends with a picture. What was sent between the last picture before it and that picture tells why it
took so long: nothing was sent, or packets were lost and had to be repaired, or they waited in a queue.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from math import nan
from typing import Literal

import numpy as np
import polars as pl
from numpy.typing import NDArray

from rtclab.metrics.accounts.evidence import where_limited
from rtclab.metrics.accounts.fates import Fates, fates_of
from rtclab.metrics.accounts.gaps import gaps_in_sound
from rtclab.metrics.accounts.limits import course_of, sending_leg
from rtclab.metrics.accounts.losses import lost_packets, outages
from rtclab.metrics.accounts.queues import rises_of_delay
from rtclab.metrics.media import frozen_spans
from rtclab.metrics.packets import NEVER, packets_of, were_recorded
from rtclab.metrics.promises import inside_ns
from rtclab.metrics.series import IntegerArray, counter, span_ns
from rtclab.trace import NS_PER_MS, NS_PER_S, Trace

CAUSES: dict[str, str] = {
    "outage": "a path carried nothing",
    "sender": "the sender sent nothing",
    "loss": "packets were lost",
    "queue": "packets waited in queues",
    "delay": "packets took longer, and it is not known that they waited in queues",
    "receiver": "everything had come, and nothing was shown or played",
    "unknown": "nothing tells",
}
"""The causes of freezes and gaps of sound, and what each means."""
REPAIRS: dict[str, str] = {
    "slow": "lost packets were replaced, which took long",
    "lost": "what was sent again was lost too",
    "request": "requests for lost packets were lost",
    "key_frame": "nothing replaced the lost packets, and a key frame ended the freeze",
    "none": "nothing replaced the lost packets",
    "": "no packet of its pictures was lost",
}
"""How the losses behind a freeze were repaired, and what each means."""
HAPPENED = {
    "route_changed": "the route changed",
    "disconnected": "the connection was lost",
    "ice_disconnected": "the connection was lost",
    "codec_changed": "the codec changed",
}
"""Events of a connection that a freeze may come from, and their words."""
WRAP, HALF = 2**32, 2**31
"""RTP timestamps wrap around; what is less than half of that ahead is later."""
MOST = 0.5
"""What fills more than this part of a freeze is its cause."""

SCHEMA = pl.Schema(
    {
        "flow": pl.String(),
        "media": pl.String(),
        "begin_ns": pl.Int64(),
        "end_ns": pl.Int64(),
        "cause": pl.String(),
        "where": pl.String(),
        "repair": pl.String(),
        "repair_ms": pl.Float64(),
        "detail": pl.String(),
    }
)


@dataclass(frozen=True)
class Stall:
    """A freeze, the time until a viewer who saw nothing left, or a gap of sound.

    Attributes:
        begin_ns: when the last picture before it was shown, the call was set up, or the gap began.
        end_ns: when the next picture was shown, the flow ended, or the gap ended.
        cause: a key of ``CAUSES``.
        where: the path, how and on which path packets were lost, or what limited the sender; may be empty.
        detail: the further links of the chain, as text.
        media: ``video`` or ``audio``.
        repair: a key of ``REPAIRS``.
        repair_ms: from when a lost packet was due until it was replaced or a key frame came, in ms; NaN
            without.
    """

    begin_ns: int
    end_ns: int
    cause: str
    where: str = ""
    detail: str = ""
    media: Literal["video", "audio"] = "video"
    repair: str = ""
    repair_ms: float = nan

    @property
    def length_s(self) -> float:
        """How long it lasted, in s."""
        return (self.end_ns - self.begin_ns) / NS_PER_S


def stalls_table(trace: Trace) -> pl.DataFrame:
    """Each freeze and each gap of sound of each flow in the trace's window, with its chain of causes.

    Freezes add up to the metric ``freeze_duration``, and gaps to what ``audio_concealed`` counts.
    ``repair_ms`` is null where nothing was repaired.
    """
    columns = [name for name in SCHEMA if name != "flow"]
    rows = [
        (flow, *(getattr(one, name) for name in columns))
        for flow in trace.flows
        for one in (*stalls_of(trace, flow), *gaps_of(trace, flow))
    ]
    return pl.DataFrame(rows, schema=SCHEMA, orient="row").with_columns(pl.col("repair_ms").fill_nan(None))


def gaps_of(trace: Trace, flow: str) -> list[Stall]:
    """The times in the trace's window in which sound was made up because packets were missing, in order."""
    return [
        Stall(gap.begin_ns, gap.end_ns, gap.cause, gap.where, gap.detail, "audio")
        for gap in trace.cached_in_window(gaps_in_sound, flow)
    ]


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
    if were_recorded(trace):
        freezes = [_stall(trace, flow, begin, end) for begin, end in spans.tolist()]
    else:
        freezes = [
            Stall(begin, end, "unknown", detail="packets were not recorded") for begin, end in spans.tolist()
        ]
    return [_with_events(trace, flow, one) for one in freezes]


def _with_events(trace: Trace, flow: str, stall: Stall) -> Stall:
    """A freeze whose detail ends with what happened in it, or in the second before it, to the connection."""
    about, at_ns = trace.manifest.flows[flow], pl.col("at_ns")
    events = trace.whole.table("events").filter(
        pl.col("event").is_in(list(HAPPENED)),
        pl.col("participant").is_in([about.sender, about.receiver]),
        at_ns.is_between(stall.begin_ns - NS_PER_S, stall.end_ns),
    )
    known = events.sort("at_ns").unique("event", keep="first", maintain_order=True)
    told = [
        f"{HAPPENED[event]} at {first_ns / NS_PER_S:.1f} s"
        for event, first_ns in known.select("event", "at_ns").iter_rows()
    ]
    return replace(stall, detail="; ".join(filter(None, [stall.detail, *told])))


def _stall(trace: Trace, flow: str, begin_ns: int, end_ns: int) -> Stall:
    length_ns = end_ns - begin_ns
    media = trace.cached(_media, flow)
    sent_ns, way_ns = media.fates.sent.sent_ns, media.way_ns
    wanted = _wanted(trace, flow, media, begin_ns, end_ns)
    missing = wanted[media.is_video[wanted] & ~media.came[wanted]]
    repair, repair_ms, detail = _repair(trace, flow, media, wanted, missing, (begin_ns, end_ns))
    if out := _outage(trace, flow, begin_ns, end_ns):
        path, out_ns = out
        carried = f"it carried nothing for {out_ns / NS_PER_S:.1f} s"
        detail = f"{carried}; {detail}" if detail else carried
        return Stall(begin_ns, end_ns, "outage", path, detail, repair=repair, repair_ms=repair_ms)
    if not missing.size and (lost := _lost_before_server(trace, flow, begin_ns - way_ns, end_ns - way_ns)):
        return Stall(begin_ns, end_ns, "loss", *lost)
    between = media.is_video & (sent_ns > begin_ns - way_ns) & (sent_ns < end_ns - way_ns)
    if silent := _silent(sent_ns[between], begin_ns - way_ns, end_ns - way_ns):
        return Stall(begin_ns, end_ns, "sender", *_of_sender(trace, flow, silent))
    if missing.size:
        cause, path = _cause_of_losses(trace, flow, missing)
        where = path if cause == "outage" else f"{cause} {path}".strip()
        cause = "outage" if cause == "outage" else "loss"
        return Stall(begin_ns, end_ns, cause, where, detail, repair=repair, repair_ms=repair_ms)
    came = wanted[media.came[wanted]]
    if not came.size:
        return Stall(begin_ns, end_ns, "unknown", detail="no packet of its pictures is in the trace")
    took_ns = (media.fates.sent.delivered_ns - sent_ns)[came]
    late_ns = int(took_ns.max()) - way_ns
    if late_ns > MOST * length_ns:
        detail = f"its packets came {late_ns / NS_PER_MS:.0f} ms late"
        time_ns = (begin_ns - way_ns - late_ns, end_ns)
        if media.fates.sent.queued_ns[came[took_ns.argmax()]] > MOST * late_ns:
            return Stall(begin_ns, end_ns, "queue", where_limited(trace, flow, "delay", *time_ns), detail)
        rose = [path for at_ns, path in rises_of_delay(trace, flow) if time_ns[0] <= at_ns <= time_ns[1]]
        return Stall(begin_ns, end_ns, "delay", rose[-1] if rose else "", detail)
    return Stall(
        begin_ns, end_ns, "receiver", trace.manifest.flows[flow].receiver, "all its packets had come"
    )


def _lost_before_server(trace: Trace, flow: str, begin_ns: int, end_ns: int) -> tuple[str, str] | None:
    """Where and how many packets of forwarded video were lost on their way to the server in a time."""
    leg = sending_leg(trace.whole, flow)
    if leg == flow:
        return None
    fates = fates_of(trace, leg)
    sent_ns = fates.sent.sent_ns[fates.lost]
    lost = fates.lost[(sent_ns > begin_ns) & (sent_ns < end_ns)]
    if not lost.size:
        return None
    cause, path = _cause_of_losses(trace, leg, lost)
    return f"{cause} {path}".strip(), f"{_counted(lost.size, 'packet', 'lost')} on the way to the server"


def _outage(trace: Trace, flow: str, begin_ns: int, end_ns: int) -> tuple[str, int] | None:
    """The path of a flow's route that carried nothing for much of a freeze, and for how long in ns."""
    for path in trace.manifest.flows[flow].route:
        if (spans := trace.cached(outages).get(path)) is not None:
            out_ns = int(inside_ns(spans, (begin_ns - NS_PER_S, end_ns)).sum())
            if out_ns > MOST * (end_ns - begin_ns) / 2:
                return path, out_ns
    return None


@dataclass(frozen=True)
class _Media:
    """The packets of a flow in the order in which they were sent; masks have the shape (packets,).

    ``way_ns`` is the time that the fastest packet of video took.
    """

    fates: Fates
    is_video: NDArray[np.bool_]
    is_rtx: NDArray[np.bool_]
    came: NDArray[np.bool_]
    way_ns: int


def _media(trace: Trace, flow: str) -> _Media:
    fates = fates_of(trace, flow)
    sent = fates.sent
    is_video, came = sent.of_kinds("video"), sent.delivered_ns != NEVER
    ways_ns = (sent.delivered_ns - sent.sent_ns)[is_video & came]
    return _Media(fates, is_video, sent.of_kinds("rtx"), came, int(ways_ns.min()) if ways_ns.size else 0)


def _pictures(trace: Trace, flow: str) -> tuple[IntegerArray, IntegerArray]:
    """When each picture of a flow was shown, in order, and its RTP timestamp."""
    rows = trace.rows_of_flow("frames", flow).drop_nulls("rendered_ns").sort("rendered_ns")
    return rows["rendered_ns"].to_numpy(), rows["rtp_timestamp"].to_numpy()


def _wanted(trace: Trace, flow: str, media: _Media, begin_ns: int, end_ns: int) -> IntegerArray:
    """Numbers of the packets of pictures after the last one before a freeze, up to the one that ends it."""
    shown_ns, timestamps = trace.cached(_pictures, flow)
    own = np.flatnonzero(media.is_video | media.is_rtx)
    timestamp = media.fates.sent.timestamp[own].astype(np.int64)
    before = np.searchsorted(shown_ns, begin_ns, side="right") - 1
    after = np.searchsorted(shown_ns, end_ns, side="left")
    first = timestamps[before] if before >= 0 else (timestamp[media.is_video[own]][:1] - 1).sum()
    last = timestamps[after] if after < timestamps.size else first + HALF
    since = (timestamp - first) % WRAP
    numbers: IntegerArray = own[(since > 0) & (since <= (last - first) % WRAP)]
    return numbers


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


def _cause_of_losses(trace: Trace, flow: str, missing: IntegerArray) -> tuple[str, str]:
    """The most frequent cause of the losses of some packets, and its path."""
    lost = lost_packets(trace.whole, flow)
    chosen = np.isin(lost.number, missing)
    causes = Counter(zip(lost.cause[chosen].tolist(), lost.path[chosen].tolist(), strict=True))
    return causes.most_common(1)[0][0] if causes else ("unknown", "")


def _repair(
    trace: Trace,
    flow: str,
    media: _Media,
    wanted: IntegerArray,
    missing: IntegerArray,
    span: tuple[int, int],
) -> tuple[str, float, str]:
    """How lost packets were repaired: a key of ``REPAIRS``, how long it took in ms, and the chain as text."""
    if not missing.size:
        return "", nan, ""
    fates, sent = media.fates, media.fates.sent
    due_ns = sent.sent_ns[missing] + media.way_ns
    own = np.isin(fates.lost, missing)
    replaced_ns, fate = fates.replaced_ns[own], fates.fate[own]
    in_freeze = (replaced_ns != NEVER) & (replaced_ns <= span[1])
    again = wanted[media.is_rtx[wanted] & (sent.sent_ns[wanted] < span[1])]
    again = again[np.isin(sent.timestamp[again], sent.timestamp[missing])]
    failed = int((~media.came[again]).sum())
    since_ns, until_ns = int(due_ns.min()), int(sent.sent_ns[again].min(initial=span[1]))
    # A request that is lost is repeated after a round trip, so what is sent sooner was asked for in time.
    late = until_ns > since_ns + 3 * media.way_ns
    unheard = _requests_lost(trace, flow, since_ns, until_ns) if late else 0
    keys = _key_frames_asked_for(trace, flow, *span)
    served = in_freeze & np.isin(fate, ("in_time", "too_late", "unknown"))
    # A picture that is never complete is only overcome by a key frame.
    by_key = not served.all() and keys and span[1] < trace.manifest.flows[flow].end_ns
    took_ms = nan
    if by_key:
        came_ns = sent.delivered_ns[wanted[media.came[wanted]]]
        took_ms = float(came_ns[came_ns <= span[1]].max(initial=span[0]) - due_ns.min()) / NS_PER_MS
    elif served.any():
        after_ns = (replaced_ns - sent.sent_ns[fates.lost[own]])[served].max() - media.way_ns
        took_ms = float(after_ns) / NS_PER_MS
    failure = "lost" if failed else "request" if unheard else "slow" if served.any() else "none"
    how = "key_frame" if by_key else failure
    parts = [_counted(missing.size, "packet", "lost")]
    parts += [_counted(failed, "retransmission", "lost too")] if failed else []
    parts += [_counted(unheard, "packet of feedback", "lost on the way back")] if unheard else []
    parts += ["nothing was sent again"] if not again.size and not served.any() else []
    parts += [f"a key frame was asked for {keys} time{'s' * (keys != 1)}"] if keys else []
    return how, took_ms, "; ".join(parts)


def _counted(count: int, name: str, what: str) -> str:
    first, _, rest = name.partition(" ")
    return f"{count} {first}{'s' * (count != 1)}{' ' * bool(rest)}{rest} {what}"


def _requests_lost(trace: Trace, flow: str, begin_ns: int, end_ns: int) -> int:
    """Number of packets of RTCP from a flow's receiver, who asks for packets, that were lost in a time."""
    about = trace.manifest.flows[flow]
    asked = counter(trace.whole, "inbound_rtp", flow, "nackCount")
    if not asked.values.any():
        return 0
    back = [
        name
        for name, other in trace.manifest.flows.items()
        if other.sender == about.receiver and other.call == about.call and not other.forwarded
        if about.forwarded or other.receiver == about.sender
    ]
    lost = 0
    for packets in (packets_of(trace, name) for name in back):
        inside = (packets.sent_ns >= begin_ns) & (packets.sent_ns <= end_ns)
        lost += int(np.count_nonzero(packets.is_rtcp & (packets.delivered_ns == NEVER) & inside))
    return lost


def _key_frames_asked_for(trace: Trace, flow: str, begin_ns: int, end_ns: int) -> int:
    """How often the receiver asked for a key frame in a freeze, or in the second before or after it."""
    asked = counter(trace.whole, "inbound_rtp", flow, "pliCount")
    if not asked.at_s.size:
        return 0
    moments = (begin_ns / NS_PER_S - 1, end_ns / NS_PER_S + 1)
    before, after = np.interp(moments, asked.at_s, asked.values)
    return int(after - before)
