"""What a command printed, and the type of the fixture ``rtclab`` that runs commands."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple


class Result(NamedTuple):
    """Exit status and output of a command."""

    status: object
    out: str
    err: str


Rtclab = Callable[..., Result]
