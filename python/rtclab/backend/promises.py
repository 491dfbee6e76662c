"""When each participant should see and hear each other one, according to the scenario.

Metrics find these times in the manifest. So they know a black screen from a call without video, and a pause
from a freeze, without reading the scenario.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from rtclab.scenario import Scenario, mixing
from rtclab.scenario.topology import Connection, named_connections

Spans = tuple[tuple[int, int], ...]
"""Begin and end of times in ns since the run began, in order and apart."""


def promised_media(scenario: Scenario) -> dict[str, dict[str, Spans]]:
    """By flow of a call, the times in ns in which its receiver should hear and see its sender.

    A server that forwards neither sees nor hears, so nothing is promised to it. A picture that a server
    composes is promised from when somebody else could be in it.
    """
    found: dict[str, dict[str, list[tuple[int, int]]]] = defaultdict(lambda: defaultdict(list))
    for connection, names in named_connections(scenario):
        ways = [(connection.ends[0], connection.b), (connection.b, connection.a)]
        for name, (sender, receiver) in zip(names, ways[: 1 if connection.one_way else 2], strict=False):
            if receiver in scenario.participants or connection.mixing:
                for kind, spans in _media_of(scenario, connection, sender, receiver):
                    found[name][kind] += spans
    return {name: {kind: _joined(spans) for kind, spans in kinds.items()} for name, kinds in found.items()}


def _media_of(
    scenario: Scenario, connection: Connection, sender: str, receiver: str
) -> Iterator[tuple[str, list[tuple[int, int]]]]:
    """The kinds of media from one end of a connection to the other, with their times."""
    whole = connection.start_ns, connection.end_ns
    if sender in scenario.participants:
        pause = scenario.participants[sender].pause
        spans = [whole] if pause is None else _without(whole, (pause.start.ns, pause.end.ns))
        kinds = {"video": scenario.video_of(sender), "audio": scenario.audio_of(sender)}
        yield from ((kind, spans) for kind, media in kinds.items() if media is not None)
    elif connection.mixing and receiver in scenario.participants:
        call = scenario.calls[connection.call]
        composed = {"video": mixing.composition, "audio": mixing.mixed_audio}
        of = {"video": scenario.video_of, "audio": scenario.audio_of}
        for kind, compose in composed.items():
            others = [name for name in call.participants if name != receiver and of[kind](name) is not None]
            met = [scenario.meeting(call, name, receiver) for name in others]
            if compose(scenario, sender) is not None:
                yield kind, [span for span in met if span is not None]


def _without(whole: tuple[int, int], pause: tuple[int, int]) -> list[tuple[int, int]]:
    begin_ns, end_ns = whole
    parts = (begin_ns, min(pause[0], end_ns)), (max(pause[1], begin_ns), end_ns)
    return [(from_ns, to_ns) for from_ns, to_ns in parts if from_ns < to_ns]


def _joined(spans: list[tuple[int, int]]) -> Spans:
    """The spans in order; spans that touch or overlap are one."""
    joined: list[tuple[int, int]] = []
    for begin_ns, end_ns in sorted(spans):
        if joined and begin_ns <= joined[-1][1]:
            joined[-1] = joined[-1][0], max(joined[-1][1], end_ns)
        elif begin_ns < end_ns:
            joined.append((begin_ns, end_ns))
    return tuple(joined)
