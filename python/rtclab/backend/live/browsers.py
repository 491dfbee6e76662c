"""What each participant's browser is started with: its program, its devices and its options."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from rtclab.backend.live.clip import prepare_clip
from rtclab.backend.live.doctor import find_chromium, find_firefox
from rtclab.backend.live.media import prepare_movie, prepare_sound
from rtclab.errors import BackendUnavailable
from rtclab.scenario import Scenario


def browsers(scenario: Scenario) -> dict[str, Any]:
    """How to start the browser of each participant.

    Returns, by participant, the ``start`` arguments of ``Browser.start`` besides the page's address, the
    ``name`` of the browser, and the ``files`` that its page plays, if the browser cannot play them as its
    devices.

    Raises:
        BackendUnavailable: a browser is not installed.
        BadInput: a media file cannot be used.
    """
    return {name: _browser(scenario, name) for name in scenario.participants}


def _browser(scenario: Scenario, participant: str) -> dict[str, Any]:
    options = scenario.browser_of(participant)
    executable = find_chromium() if options.name == "chromium" else find_firefox()
    if executable is None:
        raise BackendUnavailable(f"no {options.name} found in PATH", hint="make setup-live")
    clip, sound = _devices(scenario, participant)
    files = {name: path for name, path in (("clip", clip), ("sound", sound)) if path is not None}
    return {
        "name": options.name,
        "files": files if options.name == "firefox" else {},
        "start": {
            "executable": executable,
            "clip": clip,
            "sound": sound,
            "options": options.model_dump(mode="json"),
        },
    }


def _devices(scenario: Scenario, participant: str) -> tuple[str | None, str | None]:
    """Paths of what the camera and the microphone play; None for the browser's own fake device."""
    video, audio = scenario.video_of(participant), scenario.audio_of(participant)
    camera: Path | None = None
    if video is not None:
        prepare = prepare_movie if scenario.browser_of(participant).name == "firefox" else prepare_clip
        source = None if video.file is None else Path(video.file)
        camera = prepare(video.width, video.height, video.frame_rate, source)
    microphone = None if audio is None or audio.file is None else prepare_sound(Path(audio.file))
    return camera and str(camera), microphone and str(microphone)
