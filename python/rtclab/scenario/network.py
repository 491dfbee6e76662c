"""From a scenario to nodes, paths and routes, and to the JSON that the native side reads."""

from __future__ import annotations

from bisect import bisect_right
from itertools import pairwise, permutations
from typing import TYPE_CHECKING

from rtclab.scenario.device import native_video
from rtclab.scenario.path import (
    BYTES_PER_OPPORTUNITY,
    CapacitySteps,
    CapacityTrace,
    DelayCourse,
    DelayRamp,
    DelaySteps,
    PathSpec,
)
from rtclab.scenario.topology import Flow, connections, flow_names
from rtclab.scenario.units import Bitrate, Duration

if TYPE_CHECKING:
    from rtclab.scenario.model import Scenario

CORE = "core"
SECOND_NS = 10**9


def paths(scenario: Scenario) -> dict[str, PathSpec]:
    """The paths by name: ``alice.up`` and ``alice.down``, or ``alice.both``; then the bottlenecks."""
    named: dict[str, PathSpec] = {}
    for node in (*scenario.participants, *scenario.servers):
        link = scenario.link_of(node)
        if link.both is not None:
            named[f"{node}.both"] = link.both
        else:
            named[f"{node}.up"] = link.up
            named[f"{node}.down"] = link.down
    return named | scenario.bottlenecks


def route(scenario: Scenario, sender: str, receiver: str) -> tuple[str, ...]:
    """The paths from one node to another: up, the bottlenecks in the order of the file, down."""
    shared = [
        name
        for name, bottleneck in scenario.bottlenecks.items()
        if any(_selects(pattern, sender, receiver) for pattern in bottleneck.routes)
    ]
    return (_access(scenario, sender, "up"), *shared, _access(scenario, receiver, "down"))


def flows(scenario: Scenario) -> list[Flow]:
    """Both directions of every connection; those that share a name are one flow."""
    found: dict[str, Flow] = {}
    joined = connections(scenario)
    for connection, (there, back) in zip(joined, flow_names(joined), strict=True):
        hops = connection.hops
        returning = hops[::-1] if connection.relay else (connection.b, connection.a)
        for name, ends, nodes in (
            (there, connection.ends, hops),
            (back, (connection.b, connection.a), returning),
        ):
            crossed = tuple(path for leg in pairwise(nodes) for path in route(scenario, *leg))
            found.setdefault(name, Flow(name, *ends, crossed, connection.call))
    return list(found.values())


def native_network(scenario: Scenario) -> dict[str, object]:
    """The serde form of ``NetworkConfig``; ``core`` is joined by paths that cost nothing."""
    nodes = [*scenario.participants, *scenario.servers, CORE]
    ideal = {f"{CORE}.up": PathSpec(), f"{CORE}.down": PathSpec()}
    return {
        "nodes": nodes,
        "paths": [spec.native(name) for name, spec in (paths(scenario) | ideal).items()],
        "routes": [
            {"from": sender, "to": receiver, "paths": list(route(scenario, sender, receiver))}
            for sender, receiver in permutations(nodes, 2)
        ],
    }


def native_scenario(scenario: Scenario, *, seed: int) -> dict[str, object]:
    """What ``rtclab._native.simulate`` reads."""
    joined = connections(scenario)
    return {
        "duration_ns": scenario.duration.ns,
        "seed": seed,
        "record": scenario.record,
        "network": native_network(scenario),
        "participants": [_native_participant(scenario, name) for name in scenario.participants],
        "connections": [
            {
                "a": connection.a,
                "b": connection.b,
                "start_ns": connection.start_ns,
                "end_ns": connection.end_ns,
                "flows": list(names),
                "relay": connection.relay,
                "one_way": connection.one_way,
                "forwards": connection.forwards,
                "switching": connection.switching,
            }
            for connection, names in zip(joined, flow_names(joined), strict=True)
        ],
        "traffic": [table.native(name, scenario.duration) for name, table in scenario.traffic.items()],
    }


def path_changes(scenario: Scenario) -> list[tuple[int, str, int | None, float]]:
    """Time in ns, path, capacity in bit/s (None: unlimited) and delay in ms, in order of time.

    One for every path at each change of it, and at each second while a ramp or trace changes it.
    """
    changes = [
        (at_ns, name, _capacity_bps(spec, at_ns, scenario.duration.ns), _delay_ns(spec, at_ns) / 1e6)
        for name, spec in paths(scenario).items()
        for at_ns in _changes_ns(spec, scenario.duration.ns)
    ]
    return sorted(changes, key=lambda change: change[0])


def _access(scenario: Scenario, node: str, direction: str) -> str:
    shared = node != CORE and scenario.link_of(node).both is not None
    return f"{node}.both" if shared else f"{node}.{direction}"


def _selects(pattern: str, sender: str, receiver: str) -> bool:
    senders, _, receivers = pattern.partition("->")
    return senders in ("*", sender) and receivers in ("*", receiver)


def _native_participant(scenario: Scenario, name: str) -> dict[str, object]:
    video, audio = scenario.video_of(name), scenario.audio_of(name)
    control = scenario.congestion_control_of(name)
    host = scenario.host_of(name)
    join_ns, leave_ns = scenario.presence_ns(name)
    return {
        "name": name,
        "join_ns": join_ns,
        "leave_ns": leave_ns,
        "video": video and native_video(video),
        "audio": audio and {"bitrate_bps": audio.bitrate.bps, "frame_ns": audio.frame.ns},
        "host": host and {"encoder_capacity_pixels_per_second": host.encoder_capacity.pixels_per_second},
        "congestion_control": {"name": control.name, "options": control.options},
        "repair": video.repair if video else "auto",
    }


def _changes_ns(spec: PathSpec, duration_ns: int) -> list[int]:
    moments = {0}
    if isinstance(spec.capacity, CapacitySteps):
        moments |= {at.ns for at, _ in spec.capacity.steps}
    if isinstance(spec.capacity, CapacityTrace):
        moments |= set(range(0, duration_ns, SECOND_NS))
    if isinstance(spec.delay, DelaySteps):
        moments |= {at.ns for at, _ in spec.delay.steps}
    if isinstance(spec.delay, DelayCourse):
        moments |= {at_ns for at_ns, _ in spec.delay.steps_ns()}
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
            # Mean over what remains of this second.
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
            steps_ns = spec.delay.steps_ns()
            return steps_ns[max(bisect_right(steps_ns, at_ns, key=lambda step: step[0]) - 1, 0)][1]
        case DelayRamp(from_delay=start, to_delay=end):
            length_ns = spec.delay.end.ns - spec.delay.start.ns
            progress = min(max((at_ns - spec.delay.start.ns) / length_ns, 0.0), 1.0)
            if spec.delay.ramp == "linear":
                return start.ns + (end.ns - start.ns) * progress
            return float(start.ns * (end.ns / start.ns) ** progress)
