"""The live backend: real browsers in network namespaces, connected by the emulator, without root.

Live calls have the connections and flows of simulated ones, from ``scenario/topology.py``, and a page has one
peer connection for each. So one page serves every topology, and every metric finds the same flows.

Names are imported on first use, because the process that emulates a network needs none of them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rtclab.backend.live.live_backend import (
        LiveBackend,
        check_participant,
        kernel_congestion_controls,
        kernel_tcp,
    )

__all__ = [
    "LiveBackend",
    "check_participant",
    "kernel_congestion_controls",
    "kernel_tcp",
]


def __getattr__(name: str) -> object:
    if name in __all__:
        from rtclab.backend.live import live_backend

        return getattr(live_backend, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
