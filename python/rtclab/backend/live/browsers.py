"""What each participant's browser is started with: its program, its devices and its options."""

from __future__ import annotations

from typing import Any

from rtclab.backend.live.clip import prepare_clip
from rtclab.backend.live.doctor import find_chromium
from rtclab.errors import BackendUnavailable
from rtclab.scenario import Scenario


def browsers(scenario: Scenario) -> dict[str, Any]:
    """The arguments of ``Browser.start`` besides the page's address, by participant.

    Raises:
        BackendUnavailable: a browser is not installed.
        BadInput: a media file cannot be used.
    """
    return {name: _browser(scenario, name) for name in scenario.participants}


def _browser(scenario: Scenario, participant: str) -> dict[str, Any]:
    executable = find_chromium()
    if executable is None:
        raise BackendUnavailable("no Chromium found in PATH", hint="make setup-live")
    video = scenario.video_of(participant)
    camera = None if video is None else str(prepare_clip(video.width, video.height, video.frame_rate))
    return {
        "executable": executable,
        "media": {"camera": camera, "microphone": None},
        "options": scenario.browser_of(participant).model_dump(mode="json"),
    }
