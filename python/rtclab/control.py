"""What a congestion control written in Python is given, and what it returns.

A control is a class. It is called as ``CLASS(bounds, **options)`` for each sender, and has these methods, all
but the first only if it wants them. Times are seconds since the run began, rates are bit/s, sizes bytes.

- ``on_feedback(now, feedback)``: feedback on packets arrived (:class:`Feedback`).
- ``on_report(now, report)``: a receiver report or a REMB arrived (:class:`Report`).
- ``on_sent(now, packet)``: a packet left (:class:`SentPacket`).
- ``on_timeout(now, sender)``: media starts or, with an attribute ``interval``, that time has passed since the
  last call (:class:`Sender`).
- ``observe()``: returns values for the trace as a dict from name to number, or to None if a value is not
  known. The suffix of a name is its unit.

``on_feedback`` returns a rate or a :class:`Decision`. So do the next three, or None to keep the last one.
A class without ``__init__`` has its attributes as options. The attribute ``reads`` lists files, relative to
the control's own, that a compiled library opens for it; files that Python opens are known without it. Results
of a control belong to what was in the files that it read.
The class attribute ``stack`` is the stack profile, by default ``chrome-156``. ``chrome-156-ccfb`` has the
feedback of RFC 8888, which tells marks.

A class with ``on_packet(packet)`` estimates at the receiver instead (:class:`ReceivedPacket`). It has an
``interval``, and its ``on_timeout(now)`` returns the estimate in bit/s. The estimate reaches the sender as
REMB (draft-alvestrand-rmcat-remb-03), and the sender follows it. Its stack is ``chrome-156-remb`` unless it
names another one.
"""

from __future__ import annotations

import inspect
import linecache
import traceback
from pathlib import Path
from types import TracebackType
from typing import Any

from rtclab._native import (
    Bounds,
    Decision,
    Feedback,
    Probe,
    ReceivedPacket,
    Report,
    ReportedPacket,
    Sender,
    SentPacket,
)

__all__ = [
    "Bounds",
    "Decision",
    "Feedback",
    "Probe",
    "ReceivedPacket",
    "Report",
    "ReportedPacket",
    "Sender",
    "SentPacket",
]

OUTER_FRAMES, INNER_FRAMES = 3, 5
"""Number of a traceback's outermost and innermost frames that an error shows."""
OURS = (str(Path(__file__).parent / "own_controls"), "<frozen importlib")
"""Files whose frames do not belong to the user's code."""


def explain(error: BaseException, stack: TracebackType | None = None) -> str:
    """The text of an error, followed by its traceback from the control's file on."""
    linecache.checkcache()
    frames = traceback.extract_tb(stack or error.__traceback__)
    own = [frame for frame in frames if not frame.filename.startswith(OURS)]
    what = "".join(traceback.format_exception_only(error)).strip()
    if len(own) > OUTER_FRAMES + INNER_FRAMES:
        own = own[:OUTER_FRAMES] + own[-INNER_FRAMES:]
    return "\n".join([what, *"".join(traceback.format_list(own)).splitlines()])


def misused(method: Any, error: BaseException) -> str:
    """The text of an error about what a method returned, with the place of the method."""
    return f"{error}\n{place_of(method)}"


def place_of(what: Any) -> str:
    """File, line and name of a function or method."""
    what = inspect.unwrap(what)
    code = getattr(getattr(what, "__func__", what), "__code__", None)
    name = getattr(what, "__qualname__", repr(what))
    if code is None:
        return f"  in {name}"
    return f'  File "{code.co_filename}", line {code.co_firstlineno}, in {name}'
