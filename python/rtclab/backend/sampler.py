"""What is new in a repeat, for people who watch it: points of curves, and events.

It is made of the rows of tables, which a live session collects and a simulation leaves.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from math import isfinite
from operator import itemgetter
from typing import Any, Self

import polars as pl

from rtclab.trace import KBIT_PER_BYTE, NS_PER_S, Trace

Row = Mapping[str, Any]
Counts = dict[str, float | None]
Points = dict[str, list[list[float]]]
"""By the name of a curve, its points: time in s since the run began, and value."""

_AT = itemgetter("at_ns", "flow")


USED = {
    "outbound_rtp": ("at_ns", "flow", "participant", "targetBitrate", "bytesSent", "headerBytesSent"),
    "inbound_rtp": (
        *("at_ns", "flow", "participant", "kind", "bytesReceived", "headerBytesReceived"),
        *("packetsReceived", "packetsLost", "framesDecoded", "freezeCount", "totalFreezesDuration"),
        *("frameHeight", "jitterBufferDelay", "jitterBufferEmittedCount"),
        *("concealedSamples", "totalSamplesReceived"),
    ),
    "remote_inbound_rtp": ("at_ns", "flow", "roundTripTime"),
    "flow_seconds": ("at_ns", "flow", "one_way_delay_mean_ms"),
    "host": ("at_ns", "participant", "cpu_percent"),
    "events": ("at_ns", "participant", "flow", "event", "detail"),
}
"""By table, the columns that points and events are made from. A meeting of many people has many rows."""


class Sampler:
    """Makes points of curves from the rows of tables, each time from those that are new.

    The curves of a flow are:

    - ``sent_kbps``, ``received_kbps``: RTP headers and payload between two reports of ``getStats``, in the
      middle between the two.
    - ``target_kbps``: the encoders' target.
    - ``rtt_ms``: the round-trip time from RTCP, the mean over the flow's streams.
    - ``loss_percent``: packets lost between two reports of the receiver, of those expected.
    - ``frame_rate``: frames decoded per second; ``frame_height``: their lines, of the largest stream.
    - ``freezes``, ``frozen_s``: freezes so far, and their duration in s; one counts when it has ended.
    - ``buffer_ms``: how long frames waited in the jitter buffer, mean between two reports.
    - ``concealed_percent``: sound that the receiver made up between two reports, of what it played.
    - ``delay_ms``: the mean one-way delay in each second, of simulated calls.

    The curve of a participant is ``cpu_percent``; 100 is one core.

    Args:
        rows: the rows by table. They may grow between two calls of :meth:`new`.
    """

    def __init__(self, rows: Mapping[str, Sequence[Row]]) -> None:
        self._rows = rows
        self._seen: Counter[str] = Counter()
        self._before: dict[tuple[str, str], tuple[int, Counts]] = {}
        self._named: set[tuple[str, str]] = set()

    @classmethod
    def of_trace(cls, trace: Trace) -> Self:
        """A sampler whose first :meth:`new` returns the points of a whole trace."""
        return cls(
            {
                name: trace.select(name, **{column: pl.col(column) for column in columns})
                .sort("at_ns")
                .rows(named=True)
                for name, columns in USED.items()
            }
        )

    def new(self, now_ns: int | None = None) -> dict[str, Any]:
        """What is new since the last call: ``flows`` and ``people`` by name, and ``events``.

        ``at_s`` is the time in s of ``now_ns``, null if it is not given. ``ends`` has the sender or receiver
        of each flow that somebody reports for the first time.
        """
        flows: dict[str, Points] = defaultdict(lambda: defaultdict(list))
        people: dict[str, Points] = defaultdict(lambda: defaultdict(list))
        ends: dict[str, dict[str, str]] = defaultdict(dict)
        for at_ns, flow, streams in self._reports("outbound_rtp"):
            self._name_end(ends, flow, "sender", streams[0])
            self._add(
                flows[flow], "target_kbps", _seconds(at_ns), _scaled(_sum(streams, "targetBitrate"), 1e-3)
            )
            sent = {"bytes": _sum(streams, "bytesSent", "headerBytesSent")}
            if (step := self._step("sent", flow, at_ns, sent)) is not None:
                self._add(flows[flow], "sent_kbps", step.middle_s, step.rate("bytes", KBIT_PER_BYTE))
        for at_ns, flow, streams in self._reports("inbound_rtp"):
            self._name_end(ends, flow, "receiver", streams[0])
            self._add_received(flows[flow], flow, at_ns, streams)
        for at_ns, flow, streams in self._reports("remote_inbound_rtp"):
            known = [one["roundTripTime"] for one in streams if _is_number(one["roundTripTime"])]
            mean_s = sum(known) / len(known) if known else None
            self._add(flows[flow], "rtt_ms", _seconds(at_ns), _scaled(mean_s, 1e3))
        for row in self._new_rows("flow_seconds"):
            middle_s = _seconds(row["at_ns"] + NS_PER_S // 2)
            self._add(flows[row["flow"]], "delay_ms", middle_s, row["one_way_delay_mean_ms"])
        for row in self._new_rows("host"):
            self._add(people[row["participant"]], "cpu_percent", _seconds(row["at_ns"]), row["cpu_percent"])
        return {
            "at_s": None if now_ns is None else _seconds(now_ns),
            "flows": {name: points for name, points in flows.items() if points},
            "people": people,
            "ends": ends,
            "events": [
                [_seconds(row["at_ns"]), row["participant"], row["flow"], row["event"], row["detail"]]
                for row in self._new_rows("events")
            ],
        }

    def _name_end(self, ends: dict[str, dict[str, str]], flow: str, end: str, report: Row) -> None:
        if (flow, end) not in self._named:
            self._named.add((flow, end))
            ends[flow][end] = report["participant"]

    def _add_received(self, curves: Points, flow: str, at_ns: int, streams: Sequence[Row]) -> None:
        videos, audios = ([one for one in streams if one["kind"] == kind] for kind in ("video", "audio"))
        counts = {
            "bytes": _sum(streams, "bytesReceived", "headerBytesReceived"),
            "received": _sum(streams, "packetsReceived"),
            "lost": _sum(streams, "packetsLost"),
            "frames": _sum(videos, "framesDecoded"),
            "waited_s": _sum(videos, "jitterBufferDelay"),
            "emitted": _sum(videos, "jitterBufferEmittedCount"),
            "concealed": _sum(audios, "concealedSamples"),
            "played": _sum(audios, "totalSamplesReceived"),
        }
        at_s = _seconds(at_ns)
        self._add(curves, "freezes", at_s, _sum(videos, "freezeCount"))
        self._add(curves, "frozen_s", at_s, _sum(videos, "totalFreezesDuration"))
        lines = [one["frameHeight"] for one in videos if _is_number(one["frameHeight"])]
        self._add(curves, "frame_height", at_s, max(lines, default=None))
        step = self._step("received", flow, at_ns, counts)
        if step is None:
            return
        middle_s = step.middle_s
        self._add(curves, "received_kbps", middle_s, step.rate("bytes", KBIT_PER_BYTE))
        self._add(curves, "frame_rate", middle_s, step.rate("frames"))
        self._add(curves, "buffer_ms", at_s, step.share("waited_s", "emitted", 1e3))
        self._add(curves, "concealed_percent", middle_s, step.share("concealed", "played", 100))
        lost, received = step.increase("lost"), step.increase("received")
        if lost is not None and received is not None and lost + received > 0:
            # It falls when a packet that was counted as lost arrives late.
            lost = max(lost, 0.0)
            self._add(curves, "loss_percent", middle_s, 100 * lost / (lost + received))

    def _reports(self, table: str) -> Iterator[tuple[int, str, list[Row]]]:
        """Time and flow of each new report, and its streams."""
        for (at_ns, flow), streams in groupby(sorted(self._new_rows(table), key=_AT), _AT):
            yield at_ns, flow, list(streams)

    def _new_rows(self, table: str) -> Sequence[Row]:
        rows = self._rows[table]
        new = rows[self._seen[table] :]
        self._seen[table] = len(rows)
        return new

    def _step(self, side: str, flow: str, at_ns: int, counts: Counts) -> _Step | None:
        """The step from the report before to this one; None for the first one."""
        before = self._before.get((side, flow))
        if before is not None and before[0] >= at_ns:
            return None
        self._before[side, flow] = at_ns, counts
        return None if before is None else _Step(before[0], before[1], at_ns, counts)

    @staticmethod
    def _add(curves: Points, name: str, at_s: float, value: float | None) -> None:
        if value is not None:
            curves[name].append([at_s, round(value, 3)])


@dataclass(frozen=True)
class _Step:
    """From one report to the next: their times, and the cumulative counts in them."""

    before_ns: int
    before: Counts
    at_ns: int
    counts: Counts

    @property
    def middle_s(self) -> float:
        """The time in s halfway between the two reports."""
        return _seconds((self.before_ns + self.at_ns) / 2)

    def increase(self, name: str) -> float | None:
        """By how much a count grew; None if it is not known."""
        before, now = self.before.get(name), self.counts[name]
        return None if before is None or now is None else now - before

    def share(self, part: str, whole: str, scale: float) -> float | None:
        """The growth of a count for the growth of another, times ``scale``; None if that did not grow."""
        of, by = self.increase(part), self.increase(whole)
        return None if of is None or not by or by < 0 else max(of, 0.0) * scale / by

    def rate(self, name: str, scale: float = 1.0) -> float | None:
        """The growth of a count per second times ``scale``.

        It is None if it is not known, or if the count fell because a stream ended.
        """
        increase = self.increase(name)
        if increase is None or increase < 0:
            return None
        return increase * scale * NS_PER_S / (self.at_ns - self.before_ns)


def _sum(streams: Sequence[Row], *columns: str) -> float | None:
    """The sum of columns over streams; None if there are no streams, or a value is missing."""
    try:
        total = sum([one[column] for one in streams for column in columns])
    except TypeError:  # a page may report anything
        return None
    return total if streams and isfinite(total) else None


def _is_number(value: object) -> bool:
    """Whether a value is a finite number. A page may report anything."""
    return isinstance(value, (int, float)) and isfinite(value)


def _scaled(value: float | None, scale: float) -> float | None:
    return None if value is None else value * scale


def _seconds(at_ns: float) -> float:
    return round(at_ns / NS_PER_S, 3)
