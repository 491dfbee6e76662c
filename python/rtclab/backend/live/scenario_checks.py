"""Checks that browsers, servers and this machine support what a scenario asks of a live call.

All checks raise UnsupportedScenario, whose message names the field.
"""

from __future__ import annotations

from typing import Never

from rtclab.backend.live.browsers.field_trials import RFC_8888_STACK, uses_rfc_8888
from rtclab.backend.live.browsers.media_files import camera_of, check_files
from rtclab.backend.live.browsers.page_settings import (
    BROWSER_MIN_BPS,
    BROWSER_START_BPS,
    SIMULCAST_CODECS,
    layers_of,
)
from rtclab.backend.live.lab.cgroups import usable_hierarchy
from rtclab.backend.live.lab.cross_traffic import check_traffic
from rtclab.errors import UnsupportedScenario
from rtclab.scenario import Scenario, Video, mixing
from rtclab.scenario.participant import CORE, Server

SIMULATE = "run it simulated: --backend sim"
OR_SIMULATE = "leave it out, or run it simulated: --backend sim"

CONTROLS = ("goog-cc", "scream", "remb")
"""Names of the controls in scenarios that a browser has, too."""
CODECS = ("vp8", "vp9", "h264", "av1")
LACKING = {"firefox": ("h264",)}
"""By browser, codecs that it cannot encode. Firefox would have to download its H.264 encoder."""
OPUS_FRAME_MS = 20
"""Browsers always send Opus in frames of 20 ms."""
SIMULATED_ONLY = ("encoder_output", "decoder_capacity", "variation")
"""Fields of a machine that only the simulator knows."""


def refuse(field: str, problem: str, hint: str | None = None) -> Never:
    raise UnsupportedScenario(field, problem, hint=hint)


def table_of(scenario: Scenario, participant: str, table: str) -> str:
    """The name of the table that applies to a participant: its own, or the scenario's."""
    own = getattr(scenario.participants[participant], table)
    return table if own is None else f"participants.{participant}.{table}"


# --- calls and servers ----------------------------------------------------------------------------


def check_calls(scenario: Scenario) -> None:
    """Checks that a program exists for every call and for all cross traffic.

    Raises:
        UnsupportedScenario: no server supports a call, or the kernel lacks a congestion control.
        BackendUnavailable: iperf3 is not installed.
    """
    for index, call in enumerate(scenario.calls):
        if call.kind == "mcu":
            refuse(
                f"calls.{index}.kind",
                "no server of live calls forwards feedback unchanged; got `mcu`, expected another kind",
                'use kind = "sfu" or "mixing-mcu", or run it simulated: --backend sim',
            )
        if call.servers is not None:
            refuse(
                f"calls.{index}.servers",
                f"servers of live calls are not connected with each other; got {', '.join(call.servers)}",
                "use one `server`, or run it simulated: --backend sim",
            )
        _check_encryption(scenario, index)
    for server in mixing.mixers(scenario):
        _check_mixer(scenario, server)
    for server in mixing.forwarders(scenario):
        refuse(
            f"servers.{server}.congestion_control",
            "SFUs of live calls have a congestion control of their own; expected no such table",
            OR_SIMULATE,
        )
    check_traffic(scenario)


def _check_encryption(scenario: Scenario, index: int) -> None:
    """Checks that both ends of every connection of a call encrypt, or neither."""
    call = scenario.calls[index]
    plain = [name for name in call.participants if not scenario.browser_of(name).encryption]
    if not plain:
        return
    field = f"{table_of(scenario, plain[0], 'browser')}.encryption"
    if call.kind in ("sfu", mixing.MIXING):
        refuse(field, "SFUs and MCUs have no unencrypted connections; got `false`, expected `true`")
    if len(plain) < len(call.participants):
        refuse(
            field,
            "browsers with and without encryption cannot connect; expected the same value for all "
            f"participants of `calls.{index}`",
        )


def _check_mixer(scenario: Scenario, server: str) -> None:
    """Checks that the MCU of live calls can compose what a server composes."""
    own, video = scenario.servers.get(server, Server()), mixing.composition(scenario, server)
    if own.host is not None:
        refuse(
            f"servers.{server}.host",
            "the MCU of live calls is as fast as this machine; expected no `host`",
            "leave it out, or simulate the call",
        )
    others = [call.kind for call in scenario.calls if call.kind != mixing.MIXING and server in call.homes]
    if others:
        refuse(
            "calls",
            f"{server} cannot mix and be the server of kind `{others[0]}`, too; expected another server",
        )
    control = mixing.congestion_control_of(scenario, server)
    if control.name != "remb":
        table = f"servers.{server}." if own.congestion_control else ""
        refuse(
            f"{table}congestion_control.name",
            f"the MCU of live calls follows REMB alone; got `{control.name}`, expected `remb`",
            SIMULATE,
        )
    if video is not None and video.codec != "vp8":
        refuse(
            f"servers.{server}.video.codec" if own.video else "video.codec",
            f"the MCU encodes VP8 alone; got `{video.codec}`, expected `vp8`",
        )
    for participant in mixing.senders(scenario, server):
        sent = scenario.video_of(participant)
        if sent is not None and sent.codec != "vp8":
            table = table_of(scenario, participant, "video")
            refuse(f"{table}.codec", f"the MCU decodes VP8 alone; got `{sent.codec}`, expected `vp8`")
    if video is not None:
        _check_size(f"servers.{server}.video", video, "composed picture")


# --- participants ---------------------------------------------------------------------------------


def check_participant(scenario: Scenario, participant: str) -> None:
    """Checks that a browser supports a participant's settings in the scenario.

    Raises:
        UnsupportedScenario: no browser can do it.
        BadInput: a media file cannot be read. The message names the field.
    """
    own = scenario.participants[participant]
    video_table = table_of(scenario, participant, "video")
    if own.page is not None:
        _check_size(video_table, camera_of(scenario, participant), "video clip")
        return
    if own.pause is not None:
        refuse(
            f"participants.{participant}.pause",
            "the pages of live calls do not pause their media; expected none",
            OR_SIMULATE,
        )
    _check_control(scenario, participant)
    audio = scenario.audio_of(participant)
    if audio is not None and audio.frame.ns != OPUS_FRAME_MS * 10**6:
        refuse(
            f"{table_of(scenario, participant, 'audio')}.frame",
            f"browsers send audio in frames of {OPUS_FRAME_MS} ms; got `{audio.frame}`",
        )
    video = scenario.video_of(participant)
    if video is not None and video.repair not in ("auto", "rtx"):
        refuse(
            f"{video_table}.repair",
            f"browsers have their own loss repair, not `{video.repair}`; expected `auto` or `rtx`",
            SIMULATE,
        )
    if video is not None and video.device != "desktop":
        refuse(
            f"{video_table}.device",
            f"browsers have their own encoders; got `{video.device}`, expected `desktop`",
            SIMULATE,
        )
    check_media(scenario, participant)
    _check_size(video_table, video, "video clip")


def _check_control(scenario: Scenario, participant: str) -> None:
    """Checks that a browser, and the servers of its calls, have a congestion control, stack and options."""
    control = scenario.congestion_control_of(participant)
    table = table_of(scenario, participant, "congestion_control")
    if control.name not in CONTROLS:
        refuse(
            f"{table}.name",
            f"browsers have their own congestion control, not `{control.name}`; expected "
            "`goog-cc`, `scream` or `remb`",
            SIMULATE,
        )
    if control.stack not in (None, RFC_8888_STACK) or (control.stack and control.name == "remb"):
        refuse(
            f"{table}.stack",
            f"browsers have their own stack, not `{control.stack}`; expected none or, with `goog-cc` and "
            f"`scream`, `{RFC_8888_STACK}`",
            SIMULATE,
        )
    if control.options:
        refuse(
            f"{table}.options",
            f"the congestion control of browsers takes no options; got `{', '.join(control.options)}`",
        )
    if uses_rfc_8888(control):
        _check_rfc_8888(scenario, participant, f"{table}.{'name' if control.name == 'scream' else 'stack'}")
    kinds = {call.kind for call in scenario.calls if participant in call.participants}
    if control.name == "remb" and "sfu" in kinds:
        refuse(
            f"{table}.name",
            "the SFUs of live calls neither send nor read REMB; got `remb`, expected `goog-cc`",
            'use kind = "p2p", or run it simulated: --backend sim',
        )
    if control.name == "goog-cc" and mixing.MIXING in kinds:
        refuse(
            f"{table}.name",
            "the MCU of live calls knows no transport-wide feedback; got `goog-cc`, expected `remb`",
            SIMULATE,
        )


def _check_rfc_8888(scenario: Scenario, participant: str, field: str) -> None:
    """Checks that both ends of each of a participant's connections can exchange feedback by RFC 8888."""
    browser = scenario.browser_of(participant).name
    control = scenario.congestion_control_of(participant)
    value = control.name if control.name == "scream" else control.stack
    if browser != "chromium":
        refuse(
            field, f"only Chromium has feedback by RFC 8888, not {browser}; got `{value}`, expected `goog-cc`"
        )
    for index, call in enumerate(scenario.calls):
        if participant not in call.participants:
            continue
        if call.kind in ("sfu", mixing.MIXING):
            refuse(
                field,
                "the servers of live calls have no feedback by RFC 8888; "
                f"got `{value}` in `calls.{index}` of kind `{call.kind}`",
                "use a kind without a server such as `p2p`, or run it simulated: --backend sim",
            )
        others = [one for one in call.participants if not uses_rfc_8888(scenario.congestion_control_of(one))]
        if others:
            refuse(
                field,
                f"two browsers give each other the same feedback: {participant} needs RFC 8888, and "
                f"{others[0]} transport-wide feedback or REMB",
                f"for {others[0]}, set `congestion_control.stack` to `{RFC_8888_STACK}`",
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
        refuse(
            f"participants.{participant}.nat",
            f"an invited browser is behind no NAT of the emulated network; got `{own.nat}`, expected `none`",
        )
    if scenario.host_of(participant) is not None:
        refuse(
            table_of(scenario, participant, "host"),
            "an invited browser runs on a machine of its own; expected none",
        )
    for index, call in enumerate(scenario.calls):
        if participant not in call.participants:
            continue
        if call.relay is not None:
            refuse(
                f"calls.{index}.relay",
                f"an invited browser has a relay at its own node; got `{call.relay}`, expected none",
            )
        server = scenario.servers.get(call.server or CORE, Server())
        if call.kind == "sfu" and (server.kind != "str0m" or server.signalling == "whip"):
            refuse(
                f"calls.{index}.server",
                "an invited browser reaches only the SFU `str0m`, and not by WHIP",
                "set `servers.NAME.kind` to `str0m`, and leave `signalling` out",
            )


def _check_video(scenario: Scenario, participant: str) -> None:
    video, browser = scenario.video_of(participant), scenario.browser_of(participant).name
    if video is None:
        return
    table = table_of(scenario, participant, "video")
    known = [codec for codec in CODECS if codec not in LACKING.get(browser, ())]
    if video.codec not in known:
        expected = ", ".join(f"`{codec}`" for codec in known)
        refuse(
            f"{table}.codec",
            f"{browser} has no encoder for `{video.codec}`; expected one of {expected}",
            SIMULATE if video.codec not in CODECS else None,
        )
    if video.simulcast:
        kinds = {call.kind for call in scenario.calls if participant in call.participants}
        if kinds - {"sfu"}:
            refuse(
                f"{table}.simulcast",
                "only an SFU can choose between the sizes; expected calls of kind `sfu`",
            )
        _check_layers(video, table)
    if browser == "firefox":
        for key, usual_bps in (("min_bitrate", BROWSER_MIN_BPS), ("start_bitrate", BROWSER_START_BPS)):
            value = getattr(video, key)
            if value.bps != min(usual_bps, video.max_bitrate.bps):
                refuse(
                    f"{table}.{key}", f"pages cannot set it in Firefox; got `{value}`, expected the default"
                )


def _check_layers(video: Video, table: str) -> None:
    """Checks that the browser sends the camera in several sizes, the full one among them."""
    if video.codec not in SIMULCAST_CODECS:
        expected = " or ".join(f"`{codec}`" for codec in SIMULCAST_CODECS)
        refuse(
            f"{table}.simulcast", f"browsers send `{video.codec}` in one size; expected the codec {expected}"
        )
    if len(layers_of(video)) == 1:
        refuse(
            f"{table}.simulcast",
            f"browsers send a camera of {video.width}x{video.height} in one size; expected as many pixels as "
            "480x270 for two sizes, or 960x540 for three",
            "raise `width` and `height`, or leave `simulcast` out",
        )


def _check_size(table: str, video: Video | None, what: str) -> None:
    """Checks that width and height of a clip or composition are even."""
    if video is not None and (video.width % 2 or video.height % 2):
        refuse(
            f"{table}.{'width' if video.width % 2 else 'height'}",
            f"the {what} needs an even width and height; got `{video.width}x{video.height}`",
        )


def _check_host(scenario: Scenario, participant: str) -> None:
    host = scenario.host_of(participant)
    if host is None:
        return
    for key in SIMULATED_ONLY:
        if getattr(host, key) is not None:
            refuse(
                f"{table_of(scenario, participant, 'host')}.{key}",
                "a browser encodes and decodes at its own pace",
                "leave it out, or simulate the call",
            )
    usable_hierarchy()  # or it raises
