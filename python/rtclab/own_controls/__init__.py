"""Runs congestion controls of the user's own, in processes that can be ended."""

from rtclab.own_controls.loading import factories
from rtclab.own_controls.sandbox import ControlFailed, call

__all__ = [
    "ControlFailed",
    "call",
    "factories",
]
