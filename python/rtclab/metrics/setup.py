"""How long a call takes to come up, in parts, and how often it does not.

All from the receiver's events: the call is up for someone when the first frame is seen. ``window`` is
ignored, since a call is set up once.
"""

from __future__ import annotations

import polars as pl

from rtclab.metrics.registry import metric
from rtclab.metrics.series import Window
from rtclab.trace import Run, Trace

NS_PER_MS = 1_000_000


@metric(unit="ms", better="lower", source="events `joined` and `first_frame`")
def setup_time(trace: Trace, flow: str, window: Window | None = None) -> float:
    """From the moment both participants have joined their call to the first frame at the receiver."""
    return _between(trace, flow, "joined", "first_frame")


@metric(unit="ms", better="lower", source="part of setup_time")
def setup_signalling(trace: Trace, flow: str, window: Window | None = None) -> float:
    """Part of the set-up time: from joining until offer and answer are exchanged."""
    return _between(trace, flow, "joined", "signalling_done")


@metric(unit="ms", better="lower", source="part of setup_time; RFC 8445")
def setup_ice(trace: Trace, flow: str, window: Window | None = None) -> float:
    """Part of the set-up time: from the exchanged descriptions to a working candidate pair."""
    return _between(trace, flow, "signalling_done", "ice_connected")


@metric(unit="ms", better="lower", source="part of setup_time; RFC 5764")
def setup_dtls(trace: Trace, flow: str, window: Window | None = None) -> float:
    """Part of the set-up time: from the working candidate pair to the end of the DTLS handshake."""
    return _between(trace, flow, "ice_connected", "dtls_connected")


@metric(unit="ms", better="lower", source="part of setup_time")
def setup_first_frame(trace: Trace, flow: str, window: Window | None = None) -> float:
    """Part of the set-up time: from the end of the DTLS handshake to the first frame."""
    return _between(trace, flow, "dtls_connected", "first_frame")


@metric(
    unit="%",
    better="lower",
    scope="run",
    source="status of each repeat; events `dtls_connected`",
    bounds=(0, 100),
)
def call_failures(run: Run) -> float:
    """Connections that failed as a share of those that should have been, over repeats not interrupted.

    A repeat that failed (no call, or one that broke) counts as all of its connections, another by the pairs
    that never connected.
    """
    ended = [repeat for repeat in run.repeats if not repeat.interrupted]
    failed = float(sum(repeat.status == "failed" for repeat in ended))
    for trace in run.traces:
        failed += len(trace.manifest.not_connected) / max(trace.manifest.connections, 1)
    return 100 * failed / len(ended) if ended else float("nan")


def _between(trace: Trace, flow: str, begin: str, end: str) -> float:
    """Time in ms from one of the receiver's events to another; NaN unless both happened in this order."""
    begin_ns, end_ns = _event_ns(trace, flow, begin), _event_ns(trace, flow, end)
    if begin_ns is None or end_ns is None or end_ns < begin_ns:
        return float("nan")
    return (end_ns - begin_ns) / NS_PER_MS


def _event_ns(trace: Trace, flow: str, event: str) -> int | None:
    """When the event first happened at the flow's receiver; ``joined``: when both ends were in the call."""
    about = trace.manifest.flows.get(flow)
    if about is None:
        return None
    if event != "joined":
        return _first_ns(trace, flow, event, about.receiver)
    joined_ns = [_first_ns(trace, flow, event, end) for end in (about.sender, about.receiver)]
    known_ns = [at_ns for at_ns in joined_ns if at_ns is not None]
    if len(known_ns) < len(joined_ns):
        return None
    # Who takes part in several calls joins only the first of them by joining.
    start_ns = 0 if about.call is None else trace.manifest.calls[about.call].start_ns
    return max(*known_ns, start_ns)


def _first_ns(trace: Trace, flow: str, event: str, participant: str) -> int | None:
    """When it first happened to a participant, on this flow or on none in particular."""
    firsts = trace.cached(_firsts)
    found = [firsts.get((event, participant, of)) for of in (flow, None)]
    return min((at_ns for at_ns in found if at_ns is not None), default=None)


def _firsts(trace: Trace) -> dict[tuple[str, str, str | None], int]:
    key = ["event", "participant", "flow"]
    firsts = trace.table("events").group_by(key).agg(pl.col("at_ns").min())
    return {(event, participant, flow): at_ns for event, participant, flow, at_ns in firsts.iter_rows()}
