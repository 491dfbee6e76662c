"""Converts a scenario to the JSON that the native side reads. Times are in ns, rates in bit/s."""

from __future__ import annotations

from dataclasses import replace
from itertools import permutations

from rtclab.scenario import mixing
from rtclab.scenario.device import native_video
from rtclab.scenario.model import ScenarioTables
from rtclab.scenario.network import Routes, paths
from rtclab.scenario.participant import Audio, CongestionControl, Host, Video
from rtclab.scenario.path import PathSpec
from rtclab.scenario.topology import Connection, named_connections


def native_network(scenario: ScenarioTables) -> dict[str, object]:
    """The serde form of ``NetworkConfig``. The access of shared nodes has no limit, delay or loss."""
    routes = Routes(scenario)
    ideal = {f"{node}.{way}": PathSpec() for node in scenario.shared_nodes for way in ("up", "down")}
    return {
        "nodes": routes.nodes,
        "paths": [spec.native(name) for name, spec in (paths(scenario) | ideal).items()],
        "routes": [
            {"from": sender, "to": receiver, "paths": list(routes.between(sender, receiver))}
            for sender, receiver in permutations(routes.nodes, 2)
        ],
    }


def native_scenario(scenario: ScenarioTables, *, seed: int) -> dict[str, object]:
    """The configuration of ``rtclab._native.simulate``."""
    return {
        "duration_ns": scenario.duration.ns,
        "seed": seed,
        "record": scenario.record,
        "network": native_network(scenario),
        "participants": [_native_participant(scenario, name) for name in scenario.participants],
        "mixers": [_native_mixer(scenario, name) for name in mixing.mixers(scenario)],
        "forwarders": [
            {"name": name, "join_ns": 0, "leave_ns": scenario.duration.ns}
            | _native_sender(name, None, None, control, None)
            for name, control in mixing.forwarders(scenario).items()
        ],
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
                "conference": connection.call if connection.mixing else None,
                "server": _native_server(scenario, connection),
            }
            for connection, names in named_connections(scenario)
        ],
        "traffic": [table.native(name, scenario.duration) for name, table in scenario.traffic.items()],
    }


def _native_server(scenario: ScenarioTables, connection: Connection) -> str | None:
    """How the SFU of a connection sets it up; None if there is none. WHIP servers are taken for ``str0m``."""
    if scenario.calls[connection.call].kind != mixing.SFU:
        return None
    server = connection.b if connection.forwards is None else connection.a
    return "janus" if mixing.server_of(scenario, server).kind == "janus" else "str0m"


def _native_host(host: Host) -> dict[str, object]:
    variation = host.variation
    return {
        "encoder_capacity_pixels_per_second": host.encoder_capacity.pixels_per_second,
        "encoder_output_bps": host.encoder_output and host.encoder_output.bps,
        "decoder_capacity_pixels_per_second": host.decoder_capacity
        and host.decoder_capacity.pixels_per_second,
        "variation": variation
        and {"deviation": variation.deviation.value, "correlation_ns": variation.correlation.ns},
    }


def _native_participant(scenario: ScenarioTables, name: str) -> dict[str, object]:
    own = scenario.participants[name]
    nat, pause = own.nat, own.pause
    join_ns, leave_ns = scenario.presence_ns(name)
    presence = {"join_ns": join_ns, "leave_ns": leave_ns, "nat": None if nat == "none" else nat}
    return (
        {"name": name, "pause": pause and {"start_ns": pause.start.ns, "end_ns": pause.end.ns}}
        | presence
        | _native_sender(
            name,
            scenario.video_of(name),
            scenario.audio_of(name),
            scenario.congestion_control_of(name),
            scenario.host_of(name),
        )
    )


def _native_mixer(scenario: ScenarioTables, name: str) -> dict[str, object]:
    return {"name": name, "join_ns": 0, "leave_ns": scenario.duration.ns} | _native_sender(
        name,
        mixing.composition(scenario, name),
        mixing.mixed_audio(scenario, name),
        mixing.congestion_control_of(scenario, name),
        mixing.server_of(scenario, name).host,
    )


def _native_control(name: str, control: CongestionControl) -> dict[str, object]:
    own = control.own
    return (
        {"name": control.name, "options": control.options}
        if own is None
        else {"name": replace(own, owner=name).key, "options": {}}
    )


def _native_sender(
    name: str, video: Video | None, audio: Audio | None, control: CongestionControl, host: Host | None
) -> dict[str, object]:
    return {
        "video": video and native_video(video),
        "audio": audio and {"bitrate_bps": audio.bitrate.bps, "frame_ns": audio.frame.ns},
        "host": host and _native_host(host),
        "congestion_control": _native_control(name, control),
        "stack": control.stack,
        "repair": video.repair if video else "auto",
    }
