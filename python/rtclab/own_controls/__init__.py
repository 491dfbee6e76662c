"""Runs congestion controls of the user's own, in processes that can be ended."""

from rtclab.own_controls.loading import factories, without_owners
from rtclab.own_controls.reading import digest_of, files_read
from rtclab.own_controls.sandbox import ControlFailed, call

__all__ = [
    "ControlFailed",
    "call",
    "digest_of",
    "factories",
    "files_read",
    "without_owners",
]
