"""How each participant's browser is started: program, devices and options."""

from __future__ import annotations

import shutil
from typing import Any

from rtclab.backend.live.browsers.field_trials import trials_of
from rtclab.backend.live.browsers.firefox import FIREFOX_NAMES
from rtclab.backend.live.browsers.media_files import prepare
from rtclab.errors import SEE_DOCTOR, BackendUnavailable
from rtclab.scenario import Scenario

CHROMIUM_NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")


def find_chromium() -> str | None:
    """Path of the first Chromium in ``PATH``, None if there is none."""
    return next(filter(None, map(shutil.which, CHROMIUM_NAMES)), None)


def find_firefox() -> str | None:
    """Path of the first Firefox in ``PATH``, None if there is none."""
    return next(filter(None, map(shutil.which, FIREFOX_NAMES)), None)


def browsers(scenario: Scenario) -> dict[str, Any]:
    """How to start the browser of each participant who is not invited.

    Returns, by participant, the arguments of ``BrowserProcess.start`` besides the page's address as
    ``start``, the ``name`` of the browser, and the ``files`` that its page plays, if the browser cannot play
    them as its devices.

    Raises:
        BackendUnavailable: a browser is not installed.
        BadInput: a media file cannot be used.
    """
    return {
        name: _browser(scenario, name)
        for name in scenario.participants
        if scenario.browser_of(name).name != "invited"
    }


def _browser(scenario: Scenario, participant: str) -> dict[str, Any]:
    options = scenario.browser_of(participant)
    executable = find_chromium() if options.name == "chromium" else find_firefox()
    if executable is None:
        raise BackendUnavailable(f"no {options.name} found in PATH", hint=SEE_DOCTOR)
    devices = prepare(scenario, participant)
    clip, sound = devices["camera"], devices["microphone"]
    files = {name: path for name, path in (("clip", clip), ("sound", sound)) if path is not None}
    return {
        "name": options.name,
        "files": files if options.name == "firefox" else {},
        "start": {
            "executable": executable,
            "clip": clip,
            "sound": sound,
            "options": options.model_dump(mode="json") | {"field_trials": trials_of(scenario, participant)},
        },
    }
