"""The configuration of each participant's page: what to send, and over which connections."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rtclab.backend.live.browsers.media_files import page_media
from rtclab.backend.live.connections import MIXER, LiveConnection, live_connections
from rtclab.scenario import Scenario, Video, mixing
from rtclab.scenario.device import browser_max_bps

BROWSER_MIN_BPS = 30_000
BROWSER_START_BPS = 300_000

SIMULCAST_CODECS = ("vp8", "h264")
"""Of several encodings of VP9 or AV1 Chromium sends one, unless the page sets their scalability modes."""
THREE_SIZES_PIXELS, TWO_SIZES_PIXELS = 960 * 540, 480 * 270
"""Pixels from which a camera is sent in three and in two sizes. Of more encodings Chromium drops the largest.

Source: libwebrtc, video/config/simulcast.cc (``LimitSimulcastLayerCount``), which is lenient by 10 %.
"""
LAYERS = {"q": 4, "h": 2, "f": 1}
"""The factor by which each layer is smaller than the camera, by RID, from the smallest one on."""


def pages(scenario: Scenario) -> dict[str, Any]:
    """The configuration of every page, by participant. The session adds addresses of servers."""
    joined = live_connections(scenario)
    return {
        name: _page(scenario, name) | {"connections": _connections_of(scenario, name, joined)}
        for name in scenario.participants
    }


def layers_of(video: Video) -> tuple[str, ...]:
    """RIDs of the layers that Chromium sends of a camera of this size; the last one has full size."""
    pixels = video.width * video.height
    sizes = 3 if pixels >= THREE_SIZES_PIXELS else 2 if pixels >= TWO_SIZES_PIXELS else 1
    return tuple(LAYERS)[-sizes:]


def _page(scenario: Scenario, participant: str) -> dict[str, Any]:
    video, audio = scenario.video_of(participant), scenario.audio_of(participant)
    formats: dict[str, str] = {}
    if video is not None and (parameters := _video_format(video)):
        formats[video.codec] = parameters
    if audio is not None:
        formats["opus"] = f"maxaveragebitrate={audio.bitrate.bps};cbr=1"
    return {
        "participant": participant,
        "codec": _codec(scenario, participant),
        "fec": video is None or video.repair == "auto",
        "transportFeedback": scenario.congestion_control_of(participant).name != "remb",
        "video": None
        if video is None
        else {
            "width": video.width,
            "height": video.height,
            "frameRate": video.frame_rate,
            "maxBitrate": None
            if video.max_bitrate.bps == browser_max_bps(video.width, video.height)
            else video.max_bitrate.bps,
            "layers": [
                {"rid": rid, "scaleResolutionDownBy": LAYERS[rid]}
                for rid in (layers_of(video) if video.simulcast else ())
            ],
            "adapt": video.adapt,
        },
        "formats": formats,
        **page_media(scenario, participant),
    }


def _connections_of(
    scenario: Scenario, participant: str, joined: Sequence[LiveConnection]
) -> list[dict[str, Any]]:
    """The connections of a page, in the order in which it makes them."""
    return [
        {
            "number": one.number,
            "call": one.call,
            "peer": one.peer_of(participant),
            "feed": one.feed,
            "server": one.server,
            "codec": _codec(scenario, _encoder(one, participant)),
            "forwards": one.forwards,
            "passesOn": one.forwards is not None and participant == one.a,
            "sends": _sent(scenario, one, participant),
            "receives": _sent(scenario, one, one.peer_of(participant)),
            "waitsMs": _wait_ms(scenario, one, participant),
        }
        for one in joined
        if participant in one.ends and one.start_ns < one.end_ns
    ]


def _sent(scenario: Scenario, connection: LiveConnection, node: str) -> dict[str, bool]:
    """The kinds of media that a node sends over a connection."""
    if node != connection.a and connection.one_way:
        return {"video": False, "audio": False}
    if node == connection.b and connection.server == MIXER:
        return {
            "video": mixing.composition(scenario, node) is not None,
            "audio": mixing.mixed_audio(scenario, node) is not None,
        }
    source = connection.feed if node == connection.a else node
    return {
        "video": scenario.video_of(source) is not None,
        "audio": scenario.audio_of(source) is not None,
    }


def _wait_ms(scenario: Scenario, connection: LiveConnection, participant: str) -> float:
    """How long after a participant has joined the call the sender of the media joins it, in ms."""
    joined_ns = max(scenario.presence_ns(participant)[0], scenario.calls[connection.call].start.ns)
    return (connection.start_ns - joined_ns) / 1e6


def _encoder(connection: LiveConnection, receiver: str) -> str:
    """The node that encoded the media for an end: the other end or, behind an SFU, the original sender."""
    if receiver == connection.b and connection.server is not None:
        return connection.feed
    return connection.peer_of(receiver)


def _codec(scenario: Scenario, node: str) -> str:
    """The codec in which a node encodes. A participant without a camera may forward the video of others."""
    own = scenario.video_of(node) if node in scenario.participants else None
    video = own or scenario.video
    return "vp8" if video is None else video.codec


def _video_format(video: Video) -> str:
    """Chromium's format parameters, in kbit/s, for bitrates that differ from its defaults."""
    parameters = []
    if video.min_bitrate.bps != BROWSER_MIN_BPS:
        parameters.append(f"x-google-min-bitrate={video.min_bitrate.bps // 1000}")
    if video.start_bitrate.bps != BROWSER_START_BPS:
        parameters.append(f"x-google-start-bitrate={video.start_bitrate.bps // 1000}")
    return ";".join(parameters)
