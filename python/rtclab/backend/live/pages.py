"""The configuration of each participant's page: what to send and whom to call."""

from __future__ import annotations

from typing import Any

from rtclab.scenario import Scenario, Video
from rtclab.scenario.device import browser_max_bps

BROWSER_MIN_BPS = 30_000
BROWSER_START_BPS = 300_000


def pages(scenario: Scenario) -> dict[str, Any]:
    """The configuration of every page, by participant. The session adds the signalling server's address."""
    peers: dict[str, dict[str, Any]] = {name: {} for name in scenario.participants}
    for flow in scenario.flows():
        sends = {
            "video": scenario.video_of(flow.sender) is not None,
            "audio": scenario.audio_of(flow.sender) is not None,
        }
        peers[flow.receiver][flow.sender] = sends
    return {name: _page(scenario, name) | {"peers": peers[name]} for name in scenario.participants}


def _page(scenario: Scenario, participant: str) -> dict[str, Any]:
    video, audio = scenario.video_of(participant), scenario.audio_of(participant)
    formats: dict[str, str] = {}
    if video is not None and (parameters := _video_format(video)):
        formats[video.codec] = parameters
    if audio is not None:
        formats["opus"] = f"maxaveragebitrate={audio.bitrate.bps};cbr=1"
    return {
        "participant": participant,
        "codec": video.codec if video is not None else "vp8",
        "fec": video is None or video.repair == "auto",
        "video": None
        if video is None
        else {
            "width": video.width,
            "height": video.height,
            "frameRate": video.frame_rate,
            "maxBitrate": None
            if video.max_bitrate.bps == browser_max_bps(video.width, video.height)
            else video.max_bitrate.bps,
        },
        "audio": None if audio is None else {},
        "formats": formats,
    }


def _video_format(video: Video) -> str:
    """Chromium's format parameters, in kbit/s, for bitrates that differ from its defaults."""
    parameters = []
    if video.min_bitrate.bps != BROWSER_MIN_BPS:
        parameters.append(f"x-google-min-bitrate={video.min_bitrate.bps // 1000}")
    if video.start_bitrate.bps != BROWSER_START_BPS:
        parameters.append(f"x-google-start-bitrate={video.start_bitrate.bps // 1000}")
    return ";".join(parameters)
