"""Published measurements and real browsers beside the simulator: the papers as a user of rtclab."""

from __future__ import annotations

__version__ = "0.1.0"
