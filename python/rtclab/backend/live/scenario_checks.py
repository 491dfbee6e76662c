"""Checks that browsers support a participant's camera, microphone and machine."""

from __future__ import annotations

from rtclab.backend.live.browsers.media_files import check_files
from rtclab.backend.live.browsers.page_settings import (
    BROWSER_MIN_BPS,
    BROWSER_START_BPS,
    SIMULCAST_CODECS,
    layers_of,
)
from rtclab.backend.live.lab.cgroups import check_limits
from rtclab.errors import UnsupportedScenario
from rtclab.scenario import Scenario, Video, mixing
from rtclab.scenario.participant import CORE, Server

CODECS = ("vp8", "vp9", "h264", "av1")
LACKING = {"firefox": ("h264",)}
"""By browser, codecs that it cannot encode. Firefox would have to download its H.264 encoder."""

SIMULATED_ONLY = ("encoder_output", "decoder_capacity", "variation")
"""Fields of a machine that only the simulator knows."""


def check_mixer(scenario: Scenario, server: str) -> None:
    """Checks that the MCU of live calls can compose what a server composes.

    Raises:
        UnsupportedScenario: it cannot. The message names the field.
    """
    own, video = scenario.servers.get(server, Server()), mixing.composition(scenario, server)
    if own.host is not None:
        raise UnsupportedScenario(
            f"servers.{server}.host",
            "the MCU of live calls is as fast as this machine; expected no `host`",
            hint="leave it out, or simulate the call",
        )
    others = [call.kind for call in scenario.calls if call.kind != mixing.MIXING and server in call.homes]
    if others:
        raise UnsupportedScenario(
            "calls",
            f"{server} cannot mix and be the server of kind `{others[0]}`, too; expected another server",
        )
    control = mixing.congestion_control_of(scenario, server)
    if control.name != "remb":
        raise UnsupportedScenario(
            f"servers.{server}.congestion_control.name"
            if own.congestion_control
            else "congestion_control.name",
            f"the MCU of live calls follows REMB alone; got `{control.name}`, expected `remb`",
            hint="run it simulated: --backend sim",
        )
    if video is not None and video.codec != "vp8":
        raise UnsupportedScenario(
            f"servers.{server}.video.codec" if own.video else "video.codec",
            f"the MCU encodes VP8 alone; got `{video.codec}`, expected `vp8`",
        )
    for participant in mixing.senders(scenario, server):
        sent = scenario.video_of(participant)
        if sent is not None and sent.codec != "vp8":
            table = (
                f"participants.{participant}.video" if scenario.participants[participant].video else "video"
            )
            raise UnsupportedScenario(
                f"{table}.codec", f"the MCU decodes VP8 alone; got `{sent.codec}`, expected `vp8`"
            )
    if video is not None and (video.width % 2 or video.height % 2):
        raise UnsupportedScenario(
            f"servers.{server}.video.{'width' if video.width % 2 else 'height'}",
            f"the composed picture needs an even width and height; got `{video.width}x{video.height}`",
        )


def check_media(scenario: Scenario, participant: str) -> None:
    """Checks codec, simulcast, bitrates, media files and encoder capacity of a participant.

    Raises:
        UnsupportedScenario: the participant's browser, or this machine, cannot do it.
        BadInput: a media file cannot be read. The message names the field.
    """
    if scenario.browser_of(participant).name == "invited":
        _check_invited(scenario, participant)
    _check_video(scenario, participant)
    check_files(scenario, participant)
    _check_host(scenario, participant)


def _check_invited(scenario: Scenario, participant: str) -> None:
    """Checks that the scenario asks nothing of an invited browser that only one in its node can have."""
    own = scenario.participants[participant]
    if own.nat != "none":
        raise UnsupportedScenario(
            f"participants.{participant}.nat",
            f"an invited browser is behind no NAT of the emulated network; got `{own.nat}`, expected `none`",
        )
    if scenario.host_of(participant) is not None:
        raise UnsupportedScenario(
            "host" if own.host is None else f"participants.{participant}.host",
            "an invited browser runs on a machine of its own; expected none",
        )
    for index, call in enumerate(scenario.calls):
        if participant not in call.participants:
            continue
        if call.relay is not None:
            raise UnsupportedScenario(
                f"calls.{index}.relay",
                f"an invited browser has a relay at its own node; got `{call.relay}`, expected none",
            )
        server = scenario.servers.get(call.server or CORE, Server())
        if call.kind == "sfu" and (server.kind != "str0m" or server.signalling == "whip"):
            raise UnsupportedScenario(
                f"calls.{index}.server",
                "an invited browser reaches only the SFU `str0m`, and not by WHIP",
                hint="set `servers.NAME.kind` to `str0m`, and leave `signalling` out",
            )


def _check_layers(video: Video, table: str) -> None:
    """Checks that the browser sends the camera in several sizes, the full one among them."""
    if video.codec not in SIMULCAST_CODECS:
        expected = " or ".join(f"`{codec}`" for codec in SIMULCAST_CODECS)
        raise UnsupportedScenario(
            f"{table}.simulcast", f"browsers send `{video.codec}` in one size; expected the codec {expected}"
        )
    if len(layers_of(video)) == 1:
        raise UnsupportedScenario(
            f"{table}.simulcast",
            f"browsers send a camera of {video.width}x{video.height} in one size; expected as many pixels as "
            "480x270 for two sizes, or 960x540 for three",
            hint="raise `width` and `height`, or leave `simulcast` out",
        )


def _check_host(scenario: Scenario, participant: str) -> None:
    host = scenario.host_of(participant)
    if host is None:
        return
    table = "host" if scenario.participants[participant].host is None else f"participants.{participant}.host"
    for key in SIMULATED_ONLY:
        if getattr(host, key) is not None:
            raise UnsupportedScenario(
                f"{table}.{key}",
                "a browser encodes and decodes at its own pace",
                hint="leave it out, or simulate the call",
            )
    check_limits()


def _check_video(scenario: Scenario, participant: str) -> None:
    video, browser = scenario.video_of(participant), scenario.browser_of(participant).name
    if video is None:
        return
    own = scenario.participants[participant].video
    table = "video" if own is None else f"participants.{participant}.video"
    known = [codec for codec in CODECS if codec not in LACKING.get(browser, ())]
    if video.codec not in known:
        expected = ", ".join(f"`{codec}`" for codec in known)
        raise UnsupportedScenario(
            f"{table}.codec",
            f"{browser} has no encoder for `{video.codec}`; expected one of {expected}",
            hint="run it simulated: --backend sim" if video.codec not in CODECS else None,
        )
    if video.simulcast and any(
        call.kind != "sfu" for call in scenario.calls if participant in call.participants
    ):
        raise UnsupportedScenario(
            f"{table}.simulcast", "only an SFU can choose between the sizes; expected calls of kind `sfu`"
        )
    if video.simulcast:
        _check_layers(video, table)
    if browser == "firefox":
        for key, usual_bps in (("min_bitrate", BROWSER_MIN_BPS), ("start_bitrate", BROWSER_START_BPS)):
            value = getattr(video, key)
            if value.bps != min(usual_bps, video.max_bitrate.bps):
                raise UnsupportedScenario(
                    f"{table}.{key}", f"pages cannot set it in Firefox; got `{value}`, expected the default"
                )
