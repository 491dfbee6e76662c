"""An MCU that mixes: the program ``mcu_program.py``, on the Python library aiortc."""

from __future__ import annotations

import importlib.util
import json
import os
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from rtclab.backend.live.lab.process import Spawn
from rtclab.backend.live.messages import Message
from rtclab.backend.live.servers.json_server import JsonServer
from rtclab.errors import SEE_DOCTOR, BackendUnavailable
from rtclab.scenario import Scenario, mixing

LIBRARY = "aiortc"
MODULE = "rtclab.backend.live.servers.mcu_program"
NICENESS = 5
"""Lower priority than the emulator's, but higher than the browsers', because it measures arrivals."""


def has_library() -> bool:
    """Whether the library is installed."""
    return importlib.util.find_spec(LIBRARY) is not None


def mixer_settings(scenario: Scenario, server: str) -> dict[str, Any]:
    """What a server that mixes composes; see ``mcu_program.py``. Address and connections are missing."""
    video, audio = mixing.composition(scenario, server), mixing.mixed_audio(scenario, server)
    return {
        "video": None
        if video is None
        else {
            "width": video.width,
            "height": video.height,
            "frame_rate": video.frame_rate,
            "min_bps": video.min_bitrate.bps,
            "start_bps": video.start_bitrate.bps,
            "max_bps": video.max_bitrate.bps,
        },
        "audio": None if audio is None else audio.bitrate.bps,
    }


def mixing_server(
    spawn: Spawn,
    settings: Mapping[str, Any],
    home: Path,
    on_message: Callable[[Message], None],
    on_exit: Callable[[str], None],
) -> JsonServer:
    """One MCU that mixes. ``mcu_program.py`` describes ``settings``."""

    def command() -> list[str]:
        if not has_library():
            raise BackendUnavailable(f"`{LIBRARY}` is not installed", hint=SEE_DOCTOR)
        return ["nice", "-n", str(NICENESS), sys.executable, "-m", MODULE, json.dumps(settings)]

    # Python's modules may not be in the usual places.
    modules = {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    name = f"the MCU (aiortc) at {settings['address']}"
    return JsonServer(name, spawn, home, on_message, on_exit, command=command, environment=modules)
