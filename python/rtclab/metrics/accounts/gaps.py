"""Gaps of sound: the times in which the listener's browser made sound up, and why it had to.

Browsers count made-up samples and report the counter once a second. Packets that were lost, late or never
sent at their time of playout share what was counted in a second, so the gaps add up to the counter. The time
of a gap is when its packets should have been played, within the second of the report.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from rtclab.metrics.accounts.limits import sending_leg
from rtclab.metrics.accounts.losses import lost_packets, outages
from rtclab.metrics.accounts.queues import bottleneck_of, rises_of_delay
from rtclab.metrics.audio import audio_buffer_delay, increases_while_promised, silence_ns
from rtclab.metrics.packets import NEVER, PacketColumns, sent_in_order, were_recorded
from rtclab.metrics.promises import NO_SPANS
from rtclab.metrics.series import Array, IntegerArray
from rtclab.trace import NS_PER_MS, NS_PER_S, Trace

SAMPLE_RATES = (8_000, 16_000, 32_000, 48_000)
"""The rates in Hz at which codecs of WebRTC count samples; Opus has the last one."""
NEXT_REPORT_NS = 300 * NS_PER_MS
"""How far the playout of a packet may be from the report that counted it."""
LONGEST_STEP_S = 60
"""Timestamps of one stream of sound do not step further."""
NOT_SENT = 3
"""Sound was not sent if what follows was recorded more than this many usual intervals later."""


MISSED_IN_WORDS = {
    "loss": "lost",
    "outage": "lost or held in an outage",
    "queue": "late",
    "delay": "late",
    "sender": "sent late or not at all",
}
Texts = NDArray[np.str_]


@dataclass(frozen=True)
class Gap:
    """A time in which sound was made up.

    ``cause``, ``where`` and ``detail`` are those of a :class:`~rtclab.metrics.accounts.stalls.Stall`.
    """

    begin_ns: int
    end_ns: int
    cause: str
    where: str
    detail: str


@dataclass(frozen=True)
class _Missed:
    """Packets of sound that were not there when they should have been played, in order; shape (packets,).

    ``lasts_ns`` is how much of the packet was missing, and ``usual_ns`` the interval between packets.
    """

    played_ns: IntegerArray
    lasts_ns: IntegerArray
    usual_ns: int
    cause: Texts
    where: Texts


@dataclass(frozen=True)
class _Arrivals:
    """The packets of a flow's sound in the order in which they came; times in ns, shape (packets,).

    ``took_ns`` is the time from the recording of a packet's sound to its arrival, but for a constant. Of it,
    the packet was held by its sender for ``held_ns``, and waited in queues for ``queued_ns``.
    """

    at_ns: IntegerArray
    took_ns: IntegerArray
    held_ns: IntegerArray
    queued_ns: IntegerArray


def gaps_in_sound(trace: Trace, flow: str) -> list[Gap]:
    """The gaps of a flow's sound in the trace's window, in order; they add up to what was counted."""
    silent, _ = silence_ns(trace, flow)
    gaps = [Gap(begin_ns, end_ns, *_before_sound(trace, flow)) for begin_ns, end_ns in silent.tolist()]
    since_s, at_s, concealed = increases_while_promised(trace, flow, "concealedSamples")
    if not concealed.any():
        return gaps
    rate = _sample_rate(trace, flow)
    edges_ns = np.rint(np.column_stack([since_s, at_s]) * NS_PER_S).astype(np.int64)
    made_up_ns = np.rint(concealed / rate * NS_PER_S).astype(np.int64).clip(min=0)
    missed = trace.cached(_missed, flow)
    index = _counted_in(missed.played_ns, edges_ns, made_up_ns)
    known = index >= 0
    needed_ns = np.bincount(index[known], missed.lasts_ns[known], made_up_ns.size)
    # What is made up is merged with what follows, so it lasts longer or shorter than what was missing.
    explained_ns = np.where(2 * needed_ns >= made_up_ns, made_up_ns, needed_ns)
    share = np.divide(explained_ns, needed_ns, out=np.zeros(made_up_ns.size), where=needed_ns > 0)
    lasts_ns = np.where(known, share[index] * missed.lasts_ns, 0.0)
    gaps += _of_packets(missed, lasts_ns)
    rest_ns = np.rint(made_up_ns - explained_ns).astype(np.int64)
    gaps += [
        Gap(begin_ns, begin_ns + lasts, *_without_missed(trace, flow, begin_ns, end_ns, lasts))
        for (begin_ns, end_ns), lasts in zip(edges_ns.tolist(), rest_ns.tolist(), strict=True)
        if lasts > 0
    ]
    return sorted(gaps, key=lambda gap: gap.begin_ns)


def _without_missed(
    trace: Trace, flow: str, begin_ns: int, end_ns: int, lasts_ns: int
) -> tuple[str, str, str]:
    """Why sound was made up for ``lasts_ns`` though no packet was missing: cause, place and detail.

    Where packets come later and later, playout has to wait for each a little longer, as long as their delay
    grows.
    """
    if not were_recorded(trace):
        return "unknown", "", ""
    arrivals = trace.cached(_arrivals, flow)
    first, last = np.searchsorted(arrivals.at_ns, [begin_ns - NEXT_REPORT_NS, end_ns])
    took_ns = arrivals.took_ns[first:last]
    grown_ns = took_ns - np.minimum.accumulate(took_ns)
    if 2 * grown_ns.max(initial=0) < lasts_ns:
        return "receiver", "", "no packet was missing"
    highest = int(grown_ns.argmax())
    lowest = int(took_ns[:highest].argmin())
    most_ns = int(grown_ns[highest])
    detail = f"packets came {most_ns / NS_PER_MS:.0f} ms later than before"
    queued_ns, held_ns = (
        int(of[first + highest] - of[first + lowest]) for of in (arrivals.queued_ns, arrivals.held_ns)
    )
    if 2 * held_ns > most_ns:
        return "sender", "", detail
    if 2 * queued_ns > most_ns:
        return "queue", _path(trace, flow), detail
    rose = [path for at_ns, path in rises_of_delay(trace, flow) if begin_ns - NS_PER_S <= at_ns <= end_ns]
    return "delay", rose[-1] if rose else "", detail


def _sample_rate(trace: Trace, flow: str) -> int:
    """The samples a second of a flow's sound."""
    since_s, at_s, played = increases_while_promised(trace, flow, "totalSamplesReceived")
    return _nearest_rate(float(np.median(played / np.maximum(at_s - since_s, 1e-3))))


def _nearest_rate(rate: float) -> int:
    return min(SAMPLE_RATES, key=lambda one: abs(one - rate))


def _before_sound(trace: Trace, flow: str) -> tuple[str, str, str]:
    """Why no sound came at first: cause, place and detail."""
    missed = trace.cached(_missed, flow)
    if not were_recorded(trace) or not missed.cause.size:
        return "unknown", "", "no sound came"
    return str(missed.cause[0]), str(missed.where[0]), "no sound came"


def _missed(trace: Trace, flow: str) -> _Missed:
    """The packets of a flow's sound that were lost, late or not sent when they should have been played."""
    sound, cause, where = _with_lost_before_server(trace, flow)
    if sound.sent_ns.size < 2:
        none = NO_SPANS[:, 0]
        return _Missed(none, none, 0, cause[:0].astype(np.str_), where[:0].astype(np.str_))
    came = sound.delivered_ns != NEVER
    recorded_ns = _recorded_ns(sound)
    usual_ns = int(np.median(np.diff(recorded_ns)))
    first_ns = int((sound.delivered_ns - recorded_ns)[came].min()) if came.any() else 0
    waits_ms = audio_buffer_delay(trace, flow)
    played_ns = recorded_ns + first_ns + int(NS_PER_MS * (waits_ms if waits_ms == waits_ms else 0.0))
    late_ns = np.where(came, sound.delivered_ns - played_ns, 0).clip(0, usual_ns)
    held_ns = sound.sent_ns - recorded_ns
    too_late_ns = sound.delivered_ns - recorded_ns - first_ns
    by_sender = (late_ns > 0) & (2 * (held_ns - held_ns.min()) > too_late_ns)
    cause[late_ns > 0] = "delay"
    for at_ns, path in rises_of_delay(trace, flow):
        where[(late_ns > 0) & (sound.sent_ns < at_ns + NS_PER_S) & (sound.delivered_ns > at_ns)] = path
    queued = (late_ns > 0) & (2 * sound.queued_ns.clip(0) > too_late_ns)
    cause[queued], where[queued] = "queue", _path(trace, flow)
    cause[by_sender], where[by_sender] = "sender", ""
    for path in trace.manifest.flows[flow].route:
        for begin_ns, end_ns in trace.cached(outages).get(path, NO_SPANS).tolist():
            out = (late_ns > 0) & (sound.sent_ns < end_ns) & (sound.delivered_ns > begin_ns)
            cause[out], where[out] = "outage", path
    missed = cause != ""
    lasts_ns = np.where(came, late_ns, usual_ns)
    silent_ns = _not_sent(played_ns, usual_ns)
    parts = (
        np.concatenate([played_ns[missed], silent_ns]),
        np.concatenate([lasts_ns[missed], np.full(silent_ns.size, usual_ns)]),
        np.concatenate([cause[missed], np.full(silent_ns.size, "sender")]),
        np.concatenate([where[missed], np.full(silent_ns.size, "")]),
    )
    order = np.argsort(parts[0], kind="stable")
    played_ns, lasts_ns, causes, places = (part[order] for part in parts)
    return _Missed(played_ns, lasts_ns, usual_ns, causes.astype(np.str_), places.astype(np.str_))


def _sound(trace: Trace, flow: str) -> tuple[PacketColumns, NDArray[np.object_], NDArray[np.object_]]:
    """The packets of a flow's sound in the order of sending, and cause and place of those that were lost."""
    sent = sent_in_order(trace, flow)
    numbers = np.flatnonzero(sent.of_kinds("audio"))
    lost = lost_packets(trace.whole, flow)
    _, own, index = np.intersect1d(numbers, lost.number, assume_unique=True, return_indices=True)
    cause, where = np.full((2, numbers.size), "", object)
    is_out = lost.cause[index] == "outage"
    cause[own] = np.where(is_out, "outage", "loss")
    kinds = zip(lost.cause[index].tolist(), lost.path[index].tolist(), strict=True)
    both = np.array([f"{kind} {path}".strip() for kind, path in kinds], object)
    where[own] = np.where(is_out, lost.path[index], both)
    return sent.chosen(numbers), cause, where


def _with_lost_before_server(
    trace: Trace, flow: str
) -> tuple[PacketColumns, NDArray[np.object_], NDArray[np.object_]]:
    """The packets of a flow's sound, and those that were lost before a server could forward them.

    They are known if the server keeps RTP timestamps.
    """
    sound, cause, where = _sound(trace, flow)
    leg = sending_leg(trace.whole, flow)
    if leg == flow:
        return sound, cause, where
    before, its_cause, its_where = _sound(trace, leg)
    gone = its_cause != ""
    if not gone.any() or not np.isin(before.timestamp, sound.timestamp).any():
        return sound, cause, where
    both = sound.followed_by(before.chosen(gone))
    order = np.argsort(both.sent_ns, kind="stable")
    causes, places = np.append(cause, its_cause[gone]), np.append(where, its_where[gone])
    return both.chosen(order), causes[order], places[order]


def _recorded_ns(sound: PacketColumns) -> IntegerArray:
    """When the sound in each packet was recorded, by RTP timestamps, but for a constant."""
    steps = np.diff(sound.timestamp).astype(np.int32)
    elapsed_s = (sound.sent_ns[-1] - sound.sent_ns[0]) / NS_PER_S
    rate = _nearest_rate(steps.sum(dtype=np.float64) / max(elapsed_s, 1e-3))
    if np.abs(steps).max() > LONGEST_STEP_S * rate:  # several streams, whose timestamps are apart
        return sound.sent_ns
    return np.rint(np.append(0, np.cumsum(steps, dtype=np.int64)) / rate * NS_PER_S).astype(np.int64)


def _path(trace: Trace, flow: str) -> str:
    """The path in whose queue late packets most likely waited; empty if it is not known."""
    used = bottleneck_of(trace, flow)
    return used.path if used else ""


def _arrivals(trace: Trace, flow: str) -> _Arrivals:
    sent = sent_in_order(trace, flow)
    sound = sent.chosen(np.flatnonzero(sent.of_kinds("audio")))
    recorded_ns = _recorded_ns(sound) if sound.sent_ns.size > 1 else sound.sent_ns
    came = np.flatnonzero(sound.delivered_ns != NEVER)
    order = came[np.argsort(sound.delivered_ns[came], kind="stable")]
    return _Arrivals(
        sound.delivered_ns[order],
        (sound.delivered_ns - recorded_ns)[order],
        (sound.sent_ns - recorded_ns)[order],
        sound.queued_ns[order].clip(0),
    )


def _not_sent(played_ns: IntegerArray, usual_ns: int) -> IntegerArray:
    """When packets should have been played that the sender did not send."""
    after = np.flatnonzero(np.diff(played_ns) > NOT_SENT * usual_ns)
    pieces = [np.arange(played_ns[one] + usual_ns, played_ns[one + 1], usual_ns) for one in after.tolist()]
    return np.concatenate([NO_SPANS[:, 0], *pieces])


def _counted_in(played_ns: IntegerArray, edges_ns: IntegerArray, made_up_ns: IntegerArray) -> IntegerArray:
    """Index of the nearest report that counted made-up sound, for each packet; -1 if none is near."""
    some = np.flatnonzero(made_up_ns > 0)
    begin_ns, end_ns = edges_ns[some].T
    after = np.searchsorted(begin_ns, played_ns, side="right")
    nearest, far_ns = np.full(played_ns.size, -1), np.full(played_ns.size, NEXT_REPORT_NS)
    for index in (after - 1, after):
        inside = index.clip(0, some.size - 1)
        away_ns = np.maximum(begin_ns[inside] - played_ns, played_ns - end_ns[inside]).clip(min=0)
        closer = away_ns < far_ns
        nearest[closer], far_ns[closer] = some[inside[closer]], away_ns[closer]
    return nearest


def _of_packets(missed: _Missed, lasts_ns: Array) -> list[Gap]:
    """The gaps of packets that follow each other and were missing for the same reason."""
    some = np.flatnonzero(lasts_ns > 0)
    if not some.size:
        return []
    far = np.diff(missed.played_ns[some]) > 1.5 * missed.usual_ns
    other = (missed.cause[some][1:] != missed.cause[some][:-1]) | (
        missed.where[some][1:] != missed.where[some][:-1]
    )
    gaps = []
    for run in np.split(some, np.flatnonzero(far | other) + 1):
        begin_ns, cause = int(missed.played_ns[run[0]]), str(missed.cause[run[0]])
        end_ns = begin_ns + round(float(lasts_ns[run].sum()))
        detail = f"{run.size} packet{'s' * (run.size != 1)} {MISSED_IN_WORDS[cause]}"
        gaps.append(Gap(begin_ns, end_ns, cause, str(missed.where[run[0]]), detail))
    return gaps
