"""A case of an arena: a scenario without its control, and what follows from it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import inf

import numpy as np

from rtclab.metrics.series import Array
from rtclab.scenario import Scenario
from rtclab.scenario.network import paths
from rtclab.scenario.topology import Flow
from rtclab.scenario.units import QueueLimit
from rtclab.trace import NS_PER_S

KINDS = {
    "droptail": "drop tail",
    "codel": "CoDel",
    "fq_codel": "FQ-CoDel",
    "pie": "PIE",
    "step": "step marking",
    "dualpi2": "DualPI2",
}
"""Names for readers of the queue disciplines."""
FOR_L4S = ("dualpi2", "step")
"""Disciplines that mark for L4S."""
HEADERS_BYTES = 58
"""What IPv4, UDP, RTP with an extension, and SRTP add to a packet."""
PAYLOAD_BYTES = 1150
"""Media in a full packet of video."""
WIFI_BPS = 20e6
"""The capacity of a Wi-Fi hop of RFC 8869, section 3.2."""
SCREEN_RATE = 10
"""A camera with at most this frame rate is a shared screen."""
USES = ("video", "voice", "screen", "l4s", "downloads")


@dataclass(frozen=True)
class Case:
    """A scenario that is run with each control.

    Attributes:
        name: short name, unique in its suite.
        scenario: the scenario. Its control is replaced, except the one of participants with a control of
            their own.
        origin: the name of a shipped scenario or a file, with which it can be run again; empty without one.
        given_uses: uses for which the case counts, instead of those that follow from the scenario.
        given_flows: flows under test, instead of those that follow from the scenario.
    """

    name: str
    scenario: Scenario
    origin: str = ""
    given_uses: tuple[str, ...] | None = None
    given_flows: tuple[str, ...] | None = None

    @cached_property
    def tested(self) -> tuple[str, ...]:
        """The flows under test.

        Those of media whose sender has the control of the scenario, and that compete for their narrowest
        path: with its capacity, or with other traffic. If none competes, all of them.
        """
        if self.given_flows is not None:
            return self.given_flows
        contested = [flow.name for flow in self._media if self._competes(flow)]
        return tuple(contested or [flow.name for flow in self._media])

    @cached_property
    def _media(self) -> list[Flow]:
        """The flows of media whose sender has no control of its own, or that were given."""
        people = self.scenario.participants
        return [
            flow
            for flow in self.scenario.flows()
            if flow.sender in people
            and self.most_bps(flow.sender)
            and (people[flow.sender].congestion_control is None or flow.name in (self.given_flows or ()))
        ]

    @cached_property
    def _flows(self) -> list[Flow]:
        """The flows under test."""
        return [flow for flow in self._media if flow.name in self.tested]

    def _competes(self, flow: Flow) -> bool:
        """Whether the narrowest path of a flow is ever too narrow for its media, or carries other traffic."""
        path = self.narrowest[flow.name]
        if path not in self._capacities:
            return bool(path)
        most = sum(self.most_bps(one.sender) for one in self._media if self.narrowest[one.name] == path)
        beside = any(path in one.paths for one in self.scenario.traffic_flows())
        return beside or float(self._capacities[path][1].min()) < most

    def most_bps(self, sender: str) -> float:
        """The highest rate in bit/s of IP packets that a participant's sources send; 0 without media."""
        video, audio = self.scenario.video_of(sender), self.scenario.audio_of(sender)
        rate = video.max_bitrate.bps * (1 + HEADERS_BYTES / PAYLOAD_BYTES) if video else 0.0
        return rate + (audio.bitrate.bps + 8 * HEADERS_BYTES / audio.frame.s if audio else 0.0)

    @cached_property
    def narrowest(self) -> Mapping[str, str]:
        """By flow of media, the path of its route with the smallest mean capacity; empty if none is limited.

        A Wi-Fi hop counts with what RFC 8869 expects of it, ``WIFI_BPS``, because its capacity is not known.
        """
        specs, found = paths(self.scenario), {}
        for flow in self._media:
            known = {path: self._mean_bps(path) for path in flow.paths if path in self._capacities}
            known |= {path: WIFI_BPS for path in flow.paths if specs[path].wifi is not None}
            found[flow.name] = min(known, key=lambda path: known[path]) if known else ""
        return found

    @property
    def _under_test(self) -> list[str]:
        """The narrowest paths of the flows under test, each once."""
        return list(dict.fromkeys(self.narrowest[flow.name] for flow in self._flows))

    @cached_property
    def _capacities(self) -> dict[str, tuple[Array, Array]]:
        """By limited path, the times of changes in s and the capacity in bit/s from then on."""
        rows: dict[str, list[tuple[float, float]]] = {}
        for at_ns, path, bps, _ in self.scenario.path_changes():
            if bps is not None:
                rows.setdefault(path, []).append((at_ns / NS_PER_S, bps))
        return {
            path: (np.array([a for a, _ in of]), np.array([b for _, b in of])) for path, of in rows.items()
        }

    def _mean_bps(self, path: str) -> float:
        at_s, bps = self._capacities[path]
        lasts = np.diff(np.append(at_s, self.scenario.duration.s))
        return float((lasts * bps).sum() / lasts.sum())

    @cached_property
    def queue(self) -> str:
        """The kind of queue at the narrowest paths, such as ``drop tail``; ``mixed`` if they differ."""
        specs = paths(self.scenario)
        kinds = {_kind(specs[path].queue) for path in self._under_test if path}
        return kinds.pop() if len(kinds) == 1 else "mixed" if kinds else "no queue"

    @cached_property
    def uses(self) -> tuple[str, ...]:
        """The uses for which the case counts, among ``USES``."""
        if self.given_uses is not None:
            return self.given_uses
        senders = {flow.sender for flow in self._flows}
        videos = [video for name in senders if (video := self.scenario.video_of(name)) is not None]
        cross, alone = bool(self.scenario.traffic), len(self.scenario.calls) == 1
        specs = paths(self.scenario)
        queues = [specs[path].queue for path in self._under_test if path]
        screen = any(video.frame_rate <= SCREEN_RATE for video in videos)
        l4s = any(getattr(queue, "aqm", "") in FOR_L4S for queue in queues)
        tcp = any(one.protocol == "tcp" and one.objects is None for one in self.scenario.traffic.values())
        audible = any(self.scenario.audio_of(name) for name in senders)
        holds = {
            "video": bool(videos) and alone and not cross and not screen and not l4s,
            "voice": audible and cross,
            "screen": screen,
            "l4s": l4s,
            "downloads": tcp,
        }
        return tuple(use for use in USES if holds[use])

    def room_bits(self, spans: Mapping[str, tuple[float, float]]) -> dict[str, float]:
        """By narrowest path, the bits that its flows under test could carry, by capacity or by their sources.

        At any time it is the smaller of both. Where the capacity is not known, it is what the sources send at
        their highest rate. ``spans`` has begin and end of each flow in s.
        """
        found = {}
        for path in self._under_test:
            own = [flow for flow in self._flows if self.narrowest[flow.name] == path and flow.name in spans]
            if own:
                found[path] = self._room(
                    path, [(*spans[flow.name], self.most_bps(flow.sender)) for flow in own]
                )
        return found

    def _room(self, path: str, flows: Sequence[tuple[float, float, float]]) -> float:
        at_s, bps = self._capacities.get(path, (np.zeros(1), np.full(1, inf)))
        moments = np.unique([*at_s.tolist(), *(end for flow in flows for end in flow[:2])])
        bits = 0.0
        for begin, end in zip(moments[:-1].tolist(), moments[1:].tolist(), strict=True):
            most = sum(rate for first, last, rate in flows if first <= begin and end <= last)
            index = max(int(np.searchsorted(at_s, begin, side="right")) - 1, 0)
            bits += (end - begin) * min(float(bps[index]), most)
        return bits


def _kind(queue: object) -> str:
    if queue is None or isinstance(queue, QueueLimit):
        return KINDS["droptail"]
    return KINDS[getattr(queue, "aqm", "droptail")]
