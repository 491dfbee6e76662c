"""The paths of a scenario, and the flows that cross them."""

from __future__ import annotations

from bisect import bisect_right
from itertools import pairwise

from rtclab.scenario import mixing
from rtclab.scenario.model import ScenarioTables
from rtclab.scenario.path import (
    BYTES_PER_OPPORTUNITY,
    CapacitySteps,
    CapacityTrace,
    DelayCourse,
    DelayRamp,
    DelaySteps,
    PathSpec,
)
from rtclab.scenario.topology import Flow, named_connections
from rtclab.scenario.units import Bitrate, Duration

SECOND_NS = 10**9


def paths(scenario: ScenarioTables) -> dict[str, PathSpec]:
    """The paths by name: ``alice.up`` and ``alice.down``, or ``alice.both``, and then the bottlenecks."""
    named: dict[str, PathSpec] = {}
    for node in (*scenario.participants, *scenario.servers):
        link = scenario.link_of(node)
        if link.both is not None:
            named[f"{node}.both"] = link.both
        else:
            named[f"{node}.up"] = link.up
            named[f"{node}.down"] = link.down
    return named | scenario.bottlenecks


class Routes:
    """The paths from any node to any other."""

    def __init__(self, scenario: ScenarioTables) -> None:
        nodes = (*scenario.participants, *scenario.servers)
        shared = {f"{node}.both" for node in nodes if scenario.link_of(node).both is not None}
        self.nodes = [*nodes, *scenario.shared_nodes]
        self._access = {
            (node, way): f"{node}.both" if f"{node}.both" in shared else f"{node}.{way}"
            for node in self.nodes
            for way in ("up", "down")
        }
        self._bottlenecks = {
            name: [route.partition("->")[::2] for route in bottleneck.routes]
            for name, bottleneck in scenario.bottlenecks.items()
        }

    def between(self, sender: str, receiver: str) -> tuple[str, ...]:
        """The sender's uplink, the bottlenecks in the order of the file, and the receiver's downlink."""
        crossed = [
            name
            for name, routes in self._bottlenecks.items()
            if any(a in ("*", sender) and b in ("*", receiver) for a, b in routes)
        ]
        return (self._access[sender, "up"], *crossed, self._access[receiver, "down"])


def route(scenario: ScenarioTables, sender: str, receiver: str) -> tuple[str, ...]:
    """The paths from one node to another. For many pairs, create :class:`Routes` once."""
    return Routes(scenario).between(sender, receiver)


def flows(scenario: ScenarioTables) -> list[Flow]:
    """Both directions of every connection. Directions with the same name are one flow."""
    found: dict[str, Flow] = {}
    routes = Routes(scenario)
    for connection, (there, back) in named_connections(scenario):
        hops = connection.hops
        returning = hops[::-1] if connection.relay else (connection.b, connection.a)
        for name, ends, nodes in (
            (there, connection.ends, hops),
            (back, (connection.b, connection.a), returning),
        ):
            crossed = tuple(path for leg in pairwise(nodes) for path in routes.between(*leg))
            found.setdefault(name, Flow(name, *ends, crossed, connection.call))
    return list(found.values())


def feedback_flows(scenario: ScenarioTables) -> list[str]:
    """The flows of calls over which nobody sends media, so that they carry feedback alone."""
    carrying, names = set(), dict[str, None]()
    for connection, (there, back) in named_connections(scenario):
        names |= {there: None, back: None}
        if _sends_media(scenario, connection.ends[0]):
            carrying.add(there)
        if not connection.one_way and _sends_media(scenario, connection.b):
            carrying.add(back)
    return [name for name in names if name not in carrying]


def _sends_media(scenario: ScenarioTables, node: str) -> bool:
    if node in scenario.participants:
        return bool(scenario.video_of(node) or scenario.audio_of(node))
    return bool(mixing.composition(scenario, node) or mixing.mixed_audio(scenario, node))


def traffic_flows(scenario: ScenarioTables) -> list[Flow]:
    """The flows of TCP data, without the flows of acknowledgements (``<flow> acks``)."""
    return [
        Flow(flow, traffic.sender, traffic.receiver, crossed, None)
        for name, traffic in scenario.traffic.items()
        for crossed in [route(scenario, traffic.sender, traffic.receiver)]
        for flow in traffic.flow_names(name)
    ]


def path_changes(scenario: ScenarioTables) -> list[tuple[int, str, int | None, float]]:
    """Time in ns, path, capacity in bit/s (None: unlimited) and delay in ms, in order of time.

    There is an entry for each change of a path, and for each second while a ramp or trace changes it.
    """
    changes = [
        (at_ns, name, _capacity_bps(spec, at_ns, scenario.duration.ns), _delay_ns(spec, at_ns) / 1e6)
        for name, spec in paths(scenario).items()
        for at_ns in _changes_ns(spec, scenario.duration.ns)
    ]
    return sorted(changes, key=lambda change: change[0])


def _changes_ns(spec: PathSpec, duration_ns: int) -> list[int]:
    moments = {0}
    if isinstance(spec.capacity, CapacitySteps):
        moments |= {at.ns for at, _ in spec.capacity.steps}
    if isinstance(spec.capacity, CapacityTrace):
        moments |= set(range(0, duration_ns, SECOND_NS))
    if isinstance(spec.delay, DelaySteps):
        moments |= {at.ns for at, _ in spec.delay.steps}
    if isinstance(spec.delay, DelayCourse):
        moments |= {at_ns for at_ns, _ in spec.delay.steps_ns}
    if isinstance(spec.delay, DelayRamp):
        start_ns, end_ns = spec.delay.start.ns, spec.delay.end.ns
        moments |= {*range(start_ns, end_ns, SECOND_NS), end_ns}
    return sorted(at for at in moments if at < duration_ns)


def _capacity_bps(spec: PathSpec, at_ns: int, duration_ns: int) -> int | None:
    match spec.capacity:
        case None:
            return None
        case Bitrate(bps=bps):
            return bps
        case CapacitySteps(steps=steps):
            begun = [rate for at, rate in steps if at.ns <= at_ns]
            return (begun[-1] if begun else steps[0][1]).bps
        case CapacityTrace(opportunities_ms=times_ms):
            # Mean over the rest of this second.
            end_ns = min(at_ns - at_ns % SECOND_NS + SECOND_NS, duration_ns)
            count = _opportunities_until(times_ms, end_ns) - _opportunities_until(times_ms, at_ns)
            return count * BYTES_PER_OPPORTUNITY * 8 * SECOND_NS // (end_ns - at_ns)


def _opportunities_until(times_ms: list[int], at_ns: int) -> int:
    periods, rest_ns = divmod(at_ns, times_ms[-1] * 10**6)
    return periods * len(times_ms) + bisect_right(times_ms, rest_ns // 10**6)


def _delay_ns(spec: PathSpec, at_ns: int) -> float:
    match spec.delay:
        case Duration(ns=ns):
            return ns
        case DelaySteps(steps=steps):
            begun = [delay for at, delay in steps if at.ns <= at_ns]
            return (begun[-1] if begun else steps[0][1]).ns
        case DelayCourse():
            steps_ns = spec.delay.steps_ns
            return steps_ns[max(bisect_right(steps_ns, at_ns, key=lambda step: step[0]) - 1, 0)][1]
        case DelayRamp(from_delay=start, to_delay=end):
            length_ns = spec.delay.end.ns - spec.delay.start.ns
            progress = min(max((at_ns - spec.delay.start.ns) / length_ns, 0.0), 1.0)
            if spec.delay.ramp == "linear":
                return start.ns + (end.ns - start.ns) * progress
            return float(start.ns * (end.ns / start.ns) ** progress)
