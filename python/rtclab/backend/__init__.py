"""How to run a scenario: the protocol of all backends, and the backends by name.

Names are imported on first use, because the process that emulates a network needs none of them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rtclab.backend.backends import NAMES, Backend, Watch, backend, machine, turn, unwatched, versions

__all__ = ["NAMES", "Backend", "Watch", "backend", "machine", "turn", "unwatched", "versions"]


def __getattr__(name: str) -> object:
    if name in __all__:
        from rtclab.backend import backends

        return getattr(backends, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
