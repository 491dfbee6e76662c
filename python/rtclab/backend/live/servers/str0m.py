"""An SFU that estimates the bandwidth towards its subscribers: rtclab's own, on the Rust library str0m.

The program is ``crates/rtclab-sfu``, whose ``message.rs`` describes the JSON lines that it reads and writes.
"""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable
from pathlib import Path

from rtclab.backend.live.lab.process import Spawn
from rtclab.backend.live.messages import Message
from rtclab.backend.live.servers.json_server import JsonServer
from rtclab.errors import SEE_DOCTOR, BackendUnavailable

PROGRAM = "rtclab-sfu"
BUILT = Path(__file__).parents[5] / "target" / "release" / PROGRAM


def find_server() -> str | None:
    """Path of the server, or None: beside the interpreter (of a wheel), in ``PATH``, or as built by cargo."""
    found = shutil.which(Path(sys.executable).with_name(PROGRAM)) or shutil.which(PROGRAM)
    return found or shutil.which(BUILT)


def forwarding_server(
    spawn: Spawn,
    address: str,
    home: Path,
    on_message: Callable[[Message], None],
    on_exit: Callable[[str], None],
) -> JsonServer:
    """One forwarding server. It has one UDP port at ``address``, which it chooses."""

    def command() -> list[str]:
        program = find_server()
        if program is None:
            raise BackendUnavailable(f"`{PROGRAM}` is not installed", hint=SEE_DOCTOR)
        return [program, "--listen", address]

    name = f"the SFU (str0m) at {address}"
    return JsonServer(name, spawn, home, on_message, on_exit, command=command)
