"""How each participant's browser is started: program, devices and options."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache

from rtclab.backend.live.browsers.field_trials import trials_of
from rtclab.backend.live.browsers.firefox import FIREFOX_NAMES
from rtclab.backend.live.browsers.media_files import prepare
from rtclab.errors import SEE_DOCTOR, BackendUnavailable
from rtclab.scenario import Browser, Scenario

CHROMIUM_NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")


def find_chromium() -> str | None:
    """Path of the first Chromium in ``PATH``, None if there is none."""
    return next(filter(None, map(shutil.which, CHROMIUM_NAMES)), None)


def find_firefox() -> str | None:
    """Path of the first Firefox in ``PATH``, None if there is none."""
    return next(filter(None, map(shutil.which, FIREFOX_NAMES)), None)


@dataclass(frozen=True)
class BrowserLaunch:
    """How a participant's browser is started."""

    executable: str
    """Path of the program."""
    clip: str | None
    """File that is the camera, None for a fake one."""
    sound: str | None
    """File that is the microphone, None for a fake one."""
    page_files: dict[str, str]
    """Files that the page plays, by name, where the browser cannot play them as its devices."""
    options: Browser
    """The scenario's table ``[browser]``, with the field trials that the congestion control needs."""


def browsers(scenario: Scenario) -> dict[str, BrowserLaunch]:
    """How to start the browser of each participant who is not invited.

    Raises:
        BackendUnavailable: a browser is not installed.
        BadInput: a media file cannot be used.
    """
    return {
        name: _launch(scenario, name)
        for name in scenario.participants
        if scenario.browser_of(name).name != "invited"
    }


def _launch(scenario: Scenario, participant: str) -> BrowserLaunch:
    options = scenario.browser_of(participant)
    executable = find_chromium() if options.name == "chromium" else find_firefox()
    if executable is None:
        raise BackendUnavailable(f"no {options.name} found in PATH", hint=SEE_DOCTOR)
    devices = prepare(scenario, participant)
    clip, sound = devices["camera"], devices["microphone"]
    files = {name: path for name, path in (("clip", clip), ("sound", sound)) if path is not None}
    return BrowserLaunch(
        executable,
        clip,
        sound,
        page_files=files if options.name == "firefox" else {},
        options=options.model_copy(update={"field_trials": trials_of(scenario, participant)}),
    )


def versions_of(launches: Iterable[BrowserLaunch]) -> str:
    """The versions of the browsers in use, e.g. ``Chromium 156.0.8078.79 built on Debian GNU/Linux 12``."""
    return ", ".join(map(version_of, dict.fromkeys(launch.executable for launch in launches)))


@cache
def version_of(executable: str) -> str:
    """A browser's version."""
    return subprocess.run(
        [executable, "--version"], capture_output=True, text=True, check=False
    ).stdout.strip()
