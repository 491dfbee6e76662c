"""Checks what this machine can do. Works even if optional packages or the native module are missing."""

from __future__ import annotations

import platform
import sys

from rtclab.backend.backends import REBUILD
from rtclab.backend.live import doctor as live
from rtclab.backend.live.doctor import MachineCheck


def doctor() -> list[MachineCheck]:
    """Checks the simulator and everything that live calls need.

    Example:
        >>> rtclab.doctor()[0].ok
        True
    """
    try:
        from rtclab import _native  # noqa: F401

        simulator = MachineCheck("simulator", True, "built")
    except ImportError as error:
        simulator = MachineCheck("simulator", False, str(error), REBUILD)
    if sys.platform != "linux":
        detail = f"they need Linux; this system is {platform.system()}"
        return [simulator, MachineCheck("live calls", False, detail, "run them on Linux", required=False)]
    return [simulator, *live.doctor()]
