"""Servers that mix or forward: what they compose, their controls, and what is wrong with their tables."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from rtclab.errors import FieldError
from rtclab.scenario.model import ScenarioTables
from rtclab.scenario.own_control import OwnControl
from rtclab.scenario.participant import Audio, CongestionControl, Server, Video

MIXING = "mixing-mcu"
"""Kind of the calls whose servers mix."""
SFU = "sfu"
"""Kind of the calls whose servers forward, and give feedback of their own."""
OF_MIXERS = ("video", "audio", "host")
"""Fields that only servers that mix have."""


def mixers(scenario: ScenarioTables) -> list[str]:
    """The servers that mix, in the order of the calls."""
    servers = (name for call in scenario.calls if call.kind == MIXING for name in call.homes)
    return list(dict.fromkeys(servers))


def forwarders(scenario: ScenarioTables) -> dict[str, CongestionControl]:
    """The congestion controls of the SFUs that have one."""
    servers = (name for call in scenario.calls if call.kind == SFU for name in call.homes)
    controls = {name: server_of(scenario, name).congestion_control for name in servers}
    return {name: control for name, control in controls.items() if control is not None}


def composition(scenario: ScenarioTables, server: str) -> Video | None:
    """The pictures that a server composes, at regular times; ``None`` if it gets none or sends none."""
    own = server_of(scenario, server).video
    if own is False or not any(scenario.video_of(name) for name in senders(scenario, server)):
        return None
    video = own or scenario.video or Video()  # type: ignore[call-arg]  # the rates have defaults
    return video.model_copy(update={"camera": "steady", "device": "desktop"})


def mixed_audio(scenario: ScenarioTables, server: str) -> Audio | None:
    """The sound that a server mixes; ``None`` if it gets none or sends none."""
    own = server_of(scenario, server).audio
    if own is False or not any(scenario.audio_of(name) for name in senders(scenario, server)):
        return None
    return own or scenario.audio or Audio()


def controls(scenario: ScenarioTables) -> dict[str, CongestionControl]:
    """The controls that somebody sends with, by the table that has them."""
    return {place: control for _, place, control in _senders(scenario)}


def _senders(scenario: ScenarioTables) -> Iterator[tuple[str, str, CongestionControl]]:
    """Each sender, the table that has its control, and the control."""
    table = "congestion_control"
    for name, own in scenario.participants.items():
        place = table if own.congestion_control is None else f"participants.{name}.{table}"
        yield name, place, scenario.congestion_control_of(name)
    for name in mixers(scenario):
        place = table if server_of(scenario, name).congestion_control is None else f"servers.{name}.{table}"
        yield name, place, congestion_control_of(scenario, name)
    for name, control in forwarders(scenario).items():
        yield name, f"servers.{name}.{table}", control


def own_controls(scenario: ScenarioTables) -> list[OwnControl]:
    """The controls of the user's own that somebody sends with, each once."""
    found = (replace(control, owner="") for control in owned_controls(scenario))
    return list({own.key: own for own in found}.values())


def owned_controls(scenario: ScenarioTables) -> list[OwnControl]:
    """The controls of the user's own that somebody sends with, one for each sender."""
    found = ((owner, control.own) for owner, _, control in _senders(scenario))
    return [replace(own, owner=owner) for owner, own in found if own is not None]


def congestion_control_of(scenario: ScenarioTables, server: str) -> CongestionControl:
    """The congestion control that a server uses for sending."""
    return server_of(scenario, server).congestion_control or scenario.congestion_control


def errors(scenario: ScenarioTables) -> list[FieldError]:
    """Tables of servers and calls that make no sense together."""
    found = []
    mixing = mixers(scenario)
    for name, server in scenario.servers.items():
        for key in OF_MIXERS:
            if getattr(server, key) is not None and name not in mixing:
                message = f"{name} mixes nothing; expected a call of kind `{MIXING}` with this server"
                found.append(FieldError(message, key=f"servers.{name}.{key}"))
        if server.congestion_control is not None and name not in (*mixing, *forwarders(scenario)):
            message = f"{name} sends no media; expected a call of kind `{SFU}` or `{MIXING}` with this server"
            found.append(FieldError(message, key=f"servers.{name}.congestion_control"))
    for name in mixing:
        if server_of(scenario, name).video is False and server_of(scenario, name).audio is False:
            message = f"{name} has neither video nor audio; expected one of them, which it mixes"
            found.append(FieldError(message, key=f"servers.{name}.video"))
        sending = senders(scenario, name)
        for key, of in (("video", scenario.video_of), ("audio", scenario.audio_of)):
            if getattr(server_of(scenario, name), key) and not any(map(of, sending)):
                message = f"nobody sends {key} to {name}; expected a participant who does"
                found.append(FieldError(message, key=f"servers.{name}.{key}"))
    for index, call in enumerate(scenario.calls):
        silent = not any(scenario.video_of(name) or scenario.audio_of(name) for name in call.participants)
        if call.kind == MIXING and silent:
            message = "nobody in this call sends video or audio; expected a participant who does"
            found.append(FieldError(message, key=f"calls.{index}.participants"))
    return found


def server_of(scenario: ScenarioTables, name: str) -> Server:
    """The table of a server; one with all defaults if the scenario has none, as for ``core``."""
    return scenario.servers.get(name, Server())


def senders(scenario: ScenarioTables, server: str) -> list[str]:
    """All participants of the calls that a server mixes."""
    calls = (call for call in scenario.calls if call.kind == MIXING and server in call.homes)
    return [name for call in calls for name in call.participants]
