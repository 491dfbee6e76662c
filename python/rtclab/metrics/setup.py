"""Set-up time of calls, the parts of it, and the share of connections that fail.

The times come from the receiver's events. Set-up ends when the receiver shows the first frame. A window
contains the steps that end in it. On a busy machine a browser may tell its page of two steps in the wrong
order, some milliseconds apart. How long the later step took is then unknown.
"""

from __future__ import annotations

from rtclab.metrics.promises import first_ns
from rtclab.metrics.registry import OF_FLOWS, OF_MODEL, exact, metric
from rtclab.metrics.series import span_ns, window_ns
from rtclab.trace import NS_PER_MS, NS_PER_S, Run, Trace

AT_PAGE = exact("of the flow that the end with the log receives")


@metric(unit="ms", better="lower", source="events `joined` and `first_frame`", known=OF_MODEL)
def setup_time(trace: Trace, flow: str) -> float:
    """Time (ms) from when both participants have joined the call to the first frame at the receiver."""
    return _between(trace, flow, "joined", "first_frame")


@metric(unit="ms", better="lower", source="part of setup_time", known=OF_MODEL)
def setup_signalling(trace: Trace, flow: str) -> float:
    """Part of the set-up time (ms): from joining until offer and answer have been exchanged."""
    return _between(trace, flow, "joined", "signalling_done")


@metric(unit="ms", better="lower", source="part of setup_time; RFC 8445", known=OF_MODEL | {"dump": AT_PAGE})
def setup_ice(trace: Trace, flow: str) -> float:
    """Part of the set-up time (ms): from the exchange of offer and answer to a working ICE candidate pair."""
    return _between(trace, flow, "signalling_done", "ice_connected")


@metric(
    unit="ms",
    better="lower",
    source="part of setup_time; RFC 5764",
    known=OF_MODEL | {"event log": AT_PAGE, "dump": AT_PAGE},
)
def setup_dtls(trace: Trace, flow: str) -> float:
    """Part of the set-up time (ms): from the working ICE candidate pair to the end of the DTLS handshake."""
    return _between(trace, flow, "ice_connected", "dtls_connected")


@metric(unit="ms", better="lower", source="part of setup_time", known=OF_MODEL)
def setup_first_frame(trace: Trace, flow: str) -> float:
    """Part of the set-up time (ms): from the end of the DTLS handshake to the first video frame."""
    return _between(trace, flow, "dtls_connected", "first_frame")


@metric(unit="s", source="the flow's begin and end", of_time=True, known=OF_FLOWS)
def active_time(trace: Trace, flow: str) -> float:
    """Time (s) for which the flow was active: from its first packet to the end of its connection.

    Comparisons divide totals, such as the number of freezes, by it.
    """
    begin_ns, end_ns = span_ns(trace, flow)
    return (end_ns - begin_ns) / NS_PER_S if end_ns > begin_ns else float("nan")


@metric(
    unit="%",
    better="lower",
    scope="run",
    source="status of each repeat; events `dtls_connected`",
    known=OF_MODEL,
    bounds=(0, 100),
    share=True,
)
def call_failures(run: Run) -> float:
    """Connections that failed, in % of all planned connections.

    In a failed repeat (nobody connected, or the call broke), all connections count as failed. In a finished
    one, the pairs that never connected do. Repeats that were interrupted, or in which the laboratory failed,
    do not count. The interval is Wilson's over repeats, because connections of one call fail together.
    """
    if any(trace.manifest.capture is not None for trace in run.traces):
        return float("nan")  # captures and logs are of calls that somebody else planned
    calls = sum(repeat.about_the_call for repeat in run.repeats)
    failed = float(sum(repeat.status == "failed" for repeat in run.repeats))
    for trace in run.traces:
        failed += len(trace.manifest.not_connected) / max(trace.manifest.connections, 1)
    return 100 * failed / calls if calls else float("nan")


def _between(trace: Trace, flow: str, begin: str, end: str) -> float:
    """Time in ms from one event of the receiver to another.

    NaN unless both happened, in this order, the second of them in the window.
    """
    begin_ns, end_ns = _event_ns(trace, flow, begin), _event_ns(trace, flow, end)
    if begin_ns is None or end_ns is None or end_ns < begin_ns:
        return float("nan")
    from_ns, to_ns = window_ns(trace)
    if not from_ns <= end_ns < to_ns:
        return float("nan")
    return (end_ns - begin_ns) / NS_PER_MS


def _event_ns(trace: Trace, flow: str, event: str) -> int | None:
    """When the event first happened at the flow's receiver, or, for ``joined``, when both ends had joined."""
    about = trace.manifest.flows.get(flow)
    if about is None:
        return None
    if event != "joined":
        return first_ns(trace, flow, event, about.receiver)
    joined_ns = [first_ns(trace, flow, event, end) for end in (about.sender, about.receiver)]
    known_ns = [at_ns for at_ns in joined_ns if at_ns is not None]
    if len(known_ns) < len(joined_ns):
        return None
    # A participant in several calls joins only once; the later calls begin at their own start.
    start_ns = 0 if about.call is None else trace.manifest.calls[about.call].start_ns
    return max(*known_ns, start_ns)
