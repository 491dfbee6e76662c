"""The account of limits: what held the rate of each flow, at every moment of the flow.

A sender is limited by itself while it sends clearly less than its congestion control allows, and by the
congestion control otherwise. The control's own values say which signal holds it: the delay that its detector
saw, or the losses that its estimator counted. A control without such values is judged by its packets.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
import polars as pl
from numpy.typing import NDArray

from rtclab.metrics.accounts.evidence import evidence_of, flows_back, where_limited
from rtclab.metrics.accounts.losses import lost_packets
from rtclab.metrics.flows import media_flows
from rtclab.metrics.packets import NEVER, packets_of, were_recorded
from rtclab.metrics.promises import inside_ns, promised
from rtclab.metrics.series import Array, IntegerArray, counter, gauge_of_streams, slopes, span_ns
from rtclab.trace import NS_PER_S, Trace

LIMITS: dict[str, str] = {
    "pause": "the sender pauses",
    "start": "the rate still grows from its start, and no limit has been met",
    "maximum": "the encoder is at its maximum bitrate",
    "source": "the camera or encoder gives less than it may",
    "processor": "the sender's processor is too slow",
    "delay": "the delay-based estimate: a queue grew",
    "loss": "the loss-based estimate: packets were lost",
    "window": "more data is on its way than the control allows",
    "feedback": "no feedback came, or it came too late",
    "server": "the server forwards less than it gets",
    "unknown": "nothing tells",
}
"""The limits of a rate, in the order in which pages show them, and what each means."""
NAMES = list(LIMITS)
CODES = {name: code for code, name in enumerate(NAMES)}

STEP_NS = NS_PER_S // 10
"""Moments are a tenth of a second apart."""
STEADY_STEPS = 20
"""A rate that stays the same for two seconds is steady: a control that grows changes it more often."""
FIRST_NS = 5 * NS_PER_S
"""An encoder takes up to this time until it uses the rate that it may have."""
BUSY = 0.85
"""A sender that sends a smaller part of what it may is limited by itself; an encoder errs by 10 %."""
AT_MAXIMUM = 0.95
"""Part of the encoder's highest target from which on it is at its maximum."""
PLATEAU = 0.3
"""Share of reports in which the encoder must be at its highest target for this to be its maximum."""
SILENT_NS = NS_PER_S
"""Without feedback for this time, feedback is the limit; libwebrtc sends it every 50 to 250 ms."""
ENCODING = 0.8
"""Part of the time from which on an encoder that encodes is the limit; Chromium adapts at 0.85."""
AT_CPU_LIMIT, LOADS = 0.9, 5
"""Part of the CPU that a machine may use from which on it is the limit, on average over this many seconds."""
MUCH_RTCP, FEW_REPORTS = 0.2, 5
"""Feedback limits if more than this part of it is lost, of at least this many packets in two seconds."""
LOSSES = 0.02
"""Losses below which libwebrtc's first loss-based controls did not react (draft-ietf-rmcat-gcc-02, 6)."""
QUEUED_MS = 30.0
"""Queuing delay above which a control without values of its own counts as limited by delay."""
OWN = "limited_by_"
"""Prefix of values by which a control of the user's own says what limits it: `limited_by_delay`, 0 or 1."""

SCHEMA = pl.Schema(
    {
        "flow": pl.String(),
        "begin_ns": pl.Int64(),
        "end_ns": pl.Int64(),
        "limit": pl.String(),
        "where": pl.String(),
        "evidence": pl.String(),
        "grade": pl.String(),
    }
)


OVER_USE = 1
"""The state of a receiver's detector in which a queue grows; 0 is normal, and 2 is under-use."""


@dataclass(frozen=True)
class Course:
    """What limited a flow over time.

    Attributes:
        edges_ns: begin of each step, and the end of the last one, of shape (steps + 1,).
        codes: index in ``NAMES`` of the limit in each step, of shape (steps,).
        grade: ``known`` if the control's values tell, ``inferred`` if packets do, else ``unknown``.
    """

    edges_ns: IntegerArray
    codes: NDArray[np.int8]
    grade: str

    def at(self, at_ns: IntegerArray) -> NDArray[np.int8]:
        """The limit at each time; before the flow its first one, and after it its last one."""
        index = np.searchsorted(self.edges_ns, at_ns) - 1
        codes: NDArray[np.int8] = self.codes[index.clip(0, self.codes.size - 1)]
        return codes

    @property
    def stretches(self) -> tuple[IntegerArray, IntegerArray, NDArray[np.int8]]:
        """Begin, end and limit of each stretch in which one limit held, each of shape (stretches,)."""
        changes = np.flatnonzero(np.diff(self.codes)) + 1
        firsts, ends = np.append(0, changes), np.append(changes, self.codes.size)
        return self.edges_ns[firsts], self.edges_ns[ends], self.codes[firsts]

    def shares(self, span: tuple[int, int]) -> dict[str, float]:
        """The part of a time span, 0 to 1, in which each limit held. They add up to 1."""
        steps = np.column_stack([self.edges_ns[:-1], self.edges_ns[1:]])
        weights = inside_ns(steps, span).astype(np.float64)
        sums = np.bincount(self.codes, weights, minlength=len(NAMES))
        whole = sums.sum()
        return {name: float(part / whole) for name, part in zip(NAMES, sums, strict=True)} if whole else {}


def limits_table(trace: Trace) -> pl.DataFrame:
    """What limited the rate of each flow that carries media; rows are times in which one limit held.

    ``where`` is the path whose queue grew, the cause and path of the losses (``burst alice.up``), or the
    server; empty if the limit has no such place or it is not known. ``evidence`` are the observed values that
    tell the limit (see :func:`.evidence_of`). Times outside the trace's window are left out.
    """
    parts = []
    for flow in trace.flows:
        course = course_of(trace, flow)
        if course is None:
            continue
        begins, ends, codes = course.stretches
        begin_ns, end_ns = span_ns(trace, flow)
        rows = pl.DataFrame(
            {
                "flow": [flow] * codes.size,
                "begin_ns": begins.clip(begin_ns, end_ns),
                "end_ns": ends.clip(begin_ns, end_ns),
                "limit": [NAMES[code] for code in codes],
            }
        )
        parts.append(_explained(trace, course, rows.filter(pl.col("begin_ns") < pl.col("end_ns"))))
    return pl.concat([SCHEMA.to_frame(), *parts])


def _explained(trace: Trace, course: Course, rows: pl.DataFrame) -> pl.DataFrame:
    """Rows of a flow's limits with where each was, and what tells it."""
    found = []
    for flow, begin_ns, end_ns, limit in rows.iter_rows():
        leg = sending_leg(trace, flow)
        where = where_limited(trace, leg, limit, begin_ns, end_ns)
        if limit == "server":
            where = trace.manifest.flows[leg].receiver
        values = trace.cached(_values).get(leg)
        evidence = evidence_of(values.rows if values else {}, limit, course.grade, begin_ns, end_ns)
        found.append((flow, begin_ns, end_ns, limit, where, evidence, course.grade))
    return pl.DataFrame(found, schema=SCHEMA, orient="row")


def course_of(trace: Trace, flow: str) -> Course | None:
    """What limited a flow, over all of its time; None if it carries no media."""
    return trace.cached(_course, flow)


def _course(trace: Trace, flow: str) -> Course | None:
    if flow not in media_flows(trace):
        return None
    about = trace.manifest.flows[flow]
    begin_ns, end_ns = span_ns(trace, flow)
    if end_ns <= begin_ns:
        return None
    edges_ns = np.append(np.arange(begin_ns, end_ns, STEP_NS), end_ns)
    at_ns = edges_ns[1:]
    if about.forwarded:
        codes, grade = _forwarded(trace, flow, at_ns)
    else:
        codes, grade = _of_sender(trace, flow, at_ns)
    _mark_pauses(trace, flow, edges_ns, codes)
    return Course(edges_ns, codes, grade)


def _mark_pauses(trace: Trace, flow: str, edges_ns: IntegerArray, codes: NDArray[np.int8]) -> None:
    """Sets the steps in which nothing is promised, between times in which something is."""
    about = trace.manifest.flows[flow]
    if not about.promised:
        return
    spans = [trace.cached(promised, flow, kind) for kind in about.promised]
    known = [one for one in spans if one is not None]
    if not known:
        return
    every = np.concatenate(known)
    middle = (edges_ns[:-1] + edges_ns[1:]) // 2
    inside = (middle[:, None] >= every[:, 0]) & (middle[:, None] < every[:, 1])
    between = (middle >= every[:, 0].min()) & (middle < every[:, 1].max())
    codes[between & ~inside.any(axis=1)] = CODES["pause"]


@dataclass(frozen=True)
class _Values:
    """The values that a control observed, by name, and each at any time."""

    rows: Mapping[str, tuple[IntegerArray, Array]]

    def __contains__(self, name: str) -> bool:
        return name in self.rows

    def at(self, name: str, at_ns: IntegerArray) -> Array:
        """The last value at each time; NaN before the first, and for a name that was not observed."""
        if name not in self.rows:
            return np.full(at_ns.size, np.nan)
        times, values = self.rows[name]
        index = np.searchsorted(times, at_ns, side="right") - 1
        return np.where(index >= 0, values[index.clip(min=0)], np.nan)


def _values(trace: Trace) -> dict[str, _Values]:
    """By flow, what its sender's and its receiver's control observed."""
    found: dict[str, dict[str, tuple[IntegerArray, Array]]] = {}
    rows = trace.table("controller").select("flow", "name", "at_ns", "value")
    if not rows["at_ns"].is_sorted():
        rows = rows.sort("at_ns", maintain_order=True)
    for (flow, name), part in rows.partition_by("flow", "name", as_dict=True, include_key=False).items():
        found.setdefault(str(flow), {})[str(name)] = part["at_ns"].to_numpy(), part["value"].to_numpy()
    return {flow: _Values(values) for flow, values in found.items()}


def _of_sender(trace: Trace, flow: str, at_ns: IntegerArray) -> tuple[NDArray[np.int8], str]:
    """The limits of a flow of its sender's own media, and how they are known."""
    values = trace.cached(_values).get(flow)
    sent_bps = _sent_bps(trace, flow, at_ns)
    if values is None or "target_bps" not in values:
        return _without_control(trace, flow, at_ns)
    target_bps = values.at("target_bps", at_ns)
    own = {name: f"{OWN}{name}" for name in NAMES if f"{OWN}{name}" in values}
    signals, grade = _signals_of_own(values, own, at_ns) if own else _signals(trace, flow, values, at_ns)
    # A control that sees no signal and does not grow either has reached the highest rate that it may give.
    recent = np.any([_lately(seen) for seen in signals.values()], axis=0)
    codes = _last_signal({"maximum": _is_flat(target_bps) & ~recent} | signals)
    begun = codes != CODES["start"]
    _mark_source(
        trace, flow, at_ns, codes, _over_two_seconds(sent_bps) < BUSY * _over_two_seconds(target_bps)
    )
    early = at_ns < trace.manifest.flows[flow].begin_ns + FIRST_NS
    codes[~begun & early & (codes == CODES["source"])] = CODES["start"]
    pushed_back = values.at("pushback_ratio", at_ns) < 1
    codes[pushed_back] = CODES["window"]
    silent, losing = _feedback(trace, flow, at_ns)
    codes[silent | (losing & (codes != CODES["maximum"]))] = CODES["feedback"]
    codes[np.isnan(target_bps)] = CODES["start"]
    return codes, grade


Signals = dict[str, NDArray[np.bool_]]
"""By limit, the moments at which its signal is seen."""


def _last_signal(signals: Signals) -> NDArray[np.int8]:
    """The limit whose signal was seen last; before any signal, the rate still grows from its start."""
    count = next(iter(signals.values())).size
    codes = np.full(count, -1, np.int8)
    for name, seen in signals.items():
        codes[seen] = CODES[name]
    last = np.maximum.accumulate(np.where(codes >= 0, np.arange(count), -1))
    return np.where(last >= 0, codes[last.clip(min=0)], CODES["start"]).astype(np.int8)


def _lately(seen: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Whether a signal was seen in the last two seconds."""
    last = np.maximum.accumulate(np.where(seen, np.arange(seen.size), -STEADY_STEPS - 1))
    return np.arange(seen.size) - last <= STEADY_STEPS


def _is_flat(target_bps: Array) -> NDArray[np.bool_]:
    """Whether a target is the highest of all and has stayed the same for two seconds."""
    if target_bps.size <= STEADY_STEPS or np.isnan(target_bps).all():
        return np.zeros(target_bps.size, np.bool_)
    before = np.concatenate([np.full(STEADY_STEPS, np.nan), target_bps[:-STEADY_STEPS]])
    is_flat: NDArray[np.bool_] = np.abs(target_bps - before) < 0.01 * before
    return is_flat & (target_bps > 0.98 * np.nanmax(target_bps))


def _over_two_seconds(values: Array) -> Array:
    """The mean over the last two seconds, without unknown values; NaN if all are unknown."""
    known = ~np.isnan(values)
    sums = [np.append(0.0, np.cumsum(one)) for one in (np.where(known, values, 0.0), known)]
    ends = np.arange(1, values.size + 1)
    begins = (ends - STEADY_STEPS).clip(min=0)
    total, count = (one[ends] - one[begins] for one in sums)
    means: Array = np.divide(total, count, out=np.full(values.size, np.nan), where=count > 0)
    return means


def _falls(values: Array) -> NDArray[np.bool_]:
    """The moments at which an estimate is clearly below the one before."""
    return np.append(False, values[1:] < 0.98 * values[:-1])


def _signals_of_own(values: _Values, own: Mapping[str, str], at_ns: IntegerArray) -> tuple[Signals, str]:
    return {limit: values.at(name, at_ns) > 0 for limit, name in own.items()}, "known"


def _goog_cc(values: _Values, at_ns: IntegerArray) -> Signals:
    delay_bps, loss_bps = values.at("delay_based_bps", at_ns), values.at("loss_based_bps", at_ns)
    losing = values.at("loss_based_state", at_ns) > 0
    if "loss_based_state" not in values:
        losing = np.fmin(values.at("target_bps", at_ns), loss_bps) < 0.98 * delay_bps
    return {"delay": (values.at("detector_state", at_ns) > 0) | _falls(delay_bps), "loss": losing}


def _receive_side(values: _Values, at_ns: IntegerArray) -> Signals:
    remb_bps, target_bps = values.at("remb_bps", at_ns), values.at("target_bps", at_ns)
    return {
        "delay": (values.at("detector_state", at_ns) == OVER_USE) | _falls(remb_bps),
        "loss": (target_bps < 0.98 * remb_bps) & (values.at("loss_ratio", at_ns) > 0),
    }


def _nada(values: _Values, at_ns: IntegerArray) -> Signals:
    # RFC 8698, 4.2: what loss and marks add to the congestion level, in ms.
    queue_ms = values.at("queue_delay_ms", at_ns)
    loss_ms = 10 * (values.at("loss_ratio", at_ns) / 0.01) ** 2
    marks_ms = 2 * (values.at("marked_ratio", at_ns) / 0.01) ** 2
    # Below XREF, 10 ms, the reference rate is the maximum (4.3).
    congested = values.at("congestion_level_ms", at_ns) > 10
    by_loss = np.nan_to_num(loss_ms) > np.nan_to_num(queue_ms) + np.nan_to_num(marks_ms)
    return {"delay": congested & ~by_loss, "loss": congested & by_loss}


def _scream(values: _Values, at_ns: IntegerArray) -> Signals:
    losing = np.nan_to_num(values.at("loss_level", at_ns)) > LOSSES
    losing |= np.nan_to_num(values.at("loss_event_ratio", at_ns)) > 0
    marked = np.nan_to_num(values.at("l4s_marked_ratio", at_ns)) > 0
    target_ms = np.where(
        np.isnan(values.at("queue_target_ms", at_ns)), 60.0, values.at("queue_target_ms", at_ns)
    )
    queued = values.at("queue_delay_ms", at_ns) > target_ms / 4
    return {"loss": losing, "delay": queued | marked}


_RULES: tuple[tuple[str, Callable[[_Values, IntegerArray], Signals]], ...] = (
    ("delay_based_bps", _goog_cc),
    ("remb_bps", _receive_side),
    ("congestion_level_ms", _nada),
    ("queue_delay_ms", _scream),
)
"""The rule of each family of controls, and a value that only this family observes."""


def _signals(trace: Trace, flow: str, values: _Values, at_ns: IntegerArray) -> tuple[Signals, str]:
    for name, rule in _RULES:
        if name in values:
            return rule(values, at_ns), "known"
    return _signals_of_packets(trace, flow, at_ns), "inferred"


def _signals_of_packets(trace: Trace, flow: str, at_ns: IntegerArray) -> Signals:
    """What a control without values of its own can have seen in the second before each moment."""
    never = np.zeros(at_ns.size, np.bool_)
    if not were_recorded(trace):
        return {"delay": never, "loss": never}
    packets, lost_ns = packets_of(trace, flow), lost_packets(trace.whole, flow).sent_ns
    sent, lost = _counts(packets.sent_ns, at_ns), _counts(lost_ns, at_ns)
    came = packets.delivered_ns != NEVER
    queued_ms = np.where(packets.queued_ns == NEVER, 0, packets.queued_ns) / 1e6
    arrived = _counts(packets.delivered_ns[came], at_ns)
    total_ms = _counts(packets.delivered_ns[came], at_ns, queued_ms[came])
    mean_ms = np.divide(total_ms, arrived, out=np.zeros(at_ns.size), where=arrived > 0)
    return {"loss": lost > LOSSES * sent, "delay": mean_ms > QUEUED_MS}


def _counts(times_ns: IntegerArray, at_ns: IntegerArray, weights: Array | None = None) -> Array:
    """The number, or the sum of weights, of the events in the second before each moment."""
    return _Sums.of(times_ns, np.ones(times_ns.size) if weights is None else weights).in_second(at_ns)


@dataclass(frozen=True)
class _Sums:
    """Sums of weights of events: the times of the events in order, and the sum before each and after all."""

    times_ns: IntegerArray
    sums: Array

    @classmethod
    def of(cls, times_ns: IntegerArray, weights: Array) -> _Sums:
        order = np.argsort(times_ns, kind="stable")
        return cls(times_ns[order], np.append(0.0, np.cumsum(weights[order])))

    def in_second(self, at_ns: IntegerArray) -> Array:
        """The sum over the events in the second before each moment."""
        ends, begins = (np.searchsorted(self.times_ns, at_ns - ago) for ago in (0, NS_PER_S))
        sums: Array = self.sums[ends] - self.sums[begins]
        return sums


def _sent_bytes(trace: Trace, flow: str) -> _Sums:
    packets = packets_of(trace, flow).rtp
    return _Sums.of(packets.sent_ns, packets.size_bytes.astype(np.float64))


def _sent_bps(trace: Trace, flow: str, at_ns: IntegerArray) -> Array:
    """The rate of RTP that was sent in the second before each moment, in bit/s."""
    if were_recorded(trace):
        begin_ns = span_ns(trace.whole, flow)[0]
        past_s = np.minimum(at_ns - begin_ns, NS_PER_S).clip(min=1) / NS_PER_S
        # Each receiver of a sender asks for the sums of that sender.
        is_forwarded = trace.manifest.flows[flow].forwarded
        sent = _sent_bytes(trace, flow) if is_forwarded else trace.cached(_sent_bytes, flow)
        return 8 * sent.in_second(at_ns) / past_s
    rows = trace.rows_of_flow("flow_seconds", flow).sort("at_ns")
    if rows.is_empty():
        return np.full(at_ns.size, np.nan)
    index = np.searchsorted(rows["at_ns"].to_numpy(), at_ns, side="right") - 1
    return np.where(index >= 0, 8.0 * rows["sent_bytes"].to_numpy()[index.clip(min=0)], np.nan)


def _mark_source(
    trace: Trace, flow: str, at_ns: IntegerArray, codes: NDArray[np.int8], free: NDArray[np.bool_]
) -> None:
    """Sets the moments at which the sender limits itself: its maximum, its processor, or its source."""
    wanted = gauge_of_streams(trace.whole, "outbound_rtp", flow, "targetBitrate")
    highest = wanted.values.max(initial=0.0)
    codes[free] = CODES["source"]
    if highest > 0 and np.mean(wanted.values >= AT_MAXIMUM * highest) >= PLATEAU:
        index = np.searchsorted(wanted.at_s * NS_PER_S, at_ns).clip(max=wanted.values.size - 1)
        codes[free & (wanted.values[index] >= AT_MAXIMUM * highest)] = CODES["maximum"]
    codes[free & _is_slow(trace, flow, at_ns)] = CODES["processor"]


def _is_slow(trace: Trace, flow: str, at_ns: IntegerArray) -> NDArray[np.bool_]:
    """Whether the sender names its processor as a limit, encodes nearly all the time, or uses all the CPU
    that it may.
    """
    slow = np.zeros(at_ns.size, np.bool_)
    reasons = trace.rows_of_flow("outbound_rtp", flow).drop_nulls("qualityLimitationReason").sort("at_ns")
    if reasons.height:
        index = np.searchsorted(reasons["at_ns"].to_numpy(), at_ns).clip(max=reasons.height - 1)
        slow |= (reasons["qualityLimitationReason"] == "cpu").to_numpy()[index]
    busy = slopes(counter(trace.whole, "outbound_rtp", flow, "totalEncodeTime"))
    if busy.values.size:
        index = np.searchsorted(busy.at_s * NS_PER_S, at_ns - NS_PER_S // 2).clip(max=busy.values.size - 1)
        slow |= busy.values[index] > ENCODING
    load = trace.whole.table("host").filter(participant=trace.manifest.flows[flow].sender).sort("at_ns")
    load = load.drop_nulls("cpu_limit_percent")
    if load.height:
        index = np.searchsorted(load["at_ns"].to_numpy(), at_ns).clip(max=load.height - 1)
        used = load["cpu_percent"] / load["cpu_limit_percent"]
        slow |= used.rolling_mean(LOADS, min_samples=1, center=True).to_numpy()[index] > AT_CPU_LIMIT
    return slow


def _without_control(trace: Trace, flow: str, at_ns: IntegerArray) -> tuple[NDArray[np.int8], str]:
    """The limits of a flow whose control says nothing: a fixed rate's maximum, else what packets show."""
    wanted = gauge_of_streams(trace.whole, "outbound_rtp", flow, "targetBitrate")
    if not wanted.values.size:
        seen = _signals_of_packets(trace, flow, at_ns)
        codes = _last_signal(seen)
        codes[codes == CODES["start"]] = CODES["unknown"]
        return codes, "inferred" if any(one.any() for one in seen.values()) else "unknown"
    codes = np.full(at_ns.size, CODES["unknown"], np.int8)
    if np.mean(wanted.values >= AT_MAXIMUM / 2 * wanted.values.max()) >= 1 - PLATEAU:
        codes[:] = CODES["maximum"]
    return codes, "inferred"


def _feedback(trace: Trace, flow: str, at_ns: IntegerArray) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Whether no RTCP has reached the sender for a second, and whether much of it was lost in two seconds."""
    never = np.zeros(at_ns.size, np.bool_)
    about = trace.manifest.flows[flow]
    if not were_recorded(trace):
        return never, never
    back = [trace.cached(_rtcp, name) for name in flows_back(trace, flow)]
    if not any(sent_ns.size for sent_ns, _ in back):
        return never, never
    sent_ns, came_ns = (np.sort(np.concatenate(times)) for times in zip(*back, strict=True))
    index = np.searchsorted(came_ns, at_ns, side="right") - 1
    last = np.where(index >= 0, came_ns[index.clip(min=0)] if came_ns.size else 0, about.begin_ns)
    begun = at_ns > sent_ns[0] + SILENT_NS
    sent, came = (_counts(times, at_ns) + _counts(times, at_ns - NS_PER_S) for times in (sent_ns, came_ns))
    return begun & (at_ns - last > SILENT_NS), (sent >= FEW_REPORTS) & (came < (1 - MUCH_RTCP) * sent)


def _rtcp(trace: Trace, flow: str) -> tuple[IntegerArray, IntegerArray]:
    """When a flow's packets of RTCP were sent, and when they arrived."""
    packets = packets_of(trace, flow)
    packets = packets.chosen(packets.is_rtcp)
    return packets.sent_ns, packets.delivered_ns[packets.delivered_ns != NEVER]


def _forwarded(trace: Trace, flow: str, at_ns: IntegerArray) -> tuple[NDArray[np.int8], str]:
    """The limits of media that a server forwards: the sender's, or the server if it forwards much less."""
    leg = sending_leg(trace, flow)
    own = None if leg == flow else course_of(trace, leg)
    if own is None:
        return np.full(at_ns.size, CODES["unknown"], np.int8), "unknown"
    codes = own.at(at_ns)
    codes[_sent_bps(trace, flow, at_ns) < BUSY * _sent_bps(trace, leg, at_ns)] = CODES["server"]
    return codes, own.grade


def sending_leg(trace: Trace, flow: str) -> str:
    """The flow in which the sender of forwarded media sends it to the server; else the flow itself.

    Its congestion control sees no other part of the way.
    """
    about = trace.manifest.flows[flow]
    legs = trace.cached(_legs).get((about.call, about.sender), []) if about.forwarded else []
    return next((name for name, route in legs if about.route[: len(route)] == route), flow)


def _legs(trace: Trace) -> dict[tuple[int | None, str], list[tuple[str, tuple[str, ...]]]]:
    """By call and sender, the flows of its own media that cross paths, and their routes."""
    found: dict[tuple[int | None, str], list[tuple[str, tuple[str, ...]]]] = {}
    for name, about in trace.manifest.flows.items():
        if not about.forwarded and about.route:
            found.setdefault((about.call, about.sender), []).append((name, about.route))
    return found
