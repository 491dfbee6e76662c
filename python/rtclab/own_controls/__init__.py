"""Runs congestion controls of the user's own, in processes that can be ended.

A run with such a control holds the lock of Python from begin to end, so each thread that simulates has a
process of its own. A control that hangs, takes all memory or dies ends one repeat and nothing else.
"""

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
