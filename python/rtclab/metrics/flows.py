"""Which flows of a trace carry media, and which feedback alone."""

from __future__ import annotations

import polars as pl

from rtclab.metrics.packets import packets_of
from rtclab.trace import Trace


def media_flows(trace: Trace) -> frozenset[str]:
    """Names of the flows that carry audio or video.

    In a simulated or live call and in a dump of getStats, a flow carries media if its sender or its receiver
    reports an RTP stream, even if no packet arrived. A leg to or from a server carries media, and so does the
    flow between participants that crosses it. In captures and event logs, which have no reports, a flow with
    RTP packets carries media. Cross traffic and flows with only feedback carry none.
    """
    return trace.cached(_media_flows)


def _media_flows(trace: Trace) -> frozenset[str]:
    reports = pl.concat([trace.table(name)["flow"] for name in ("outbound_rtp", "inbound_rtp")])
    if reports.is_empty() and trace.manifest.capture is not None:
        return frozenset(flow for flow in trace.manifest.flows if packets_of(trace, flow).is_rtp.any())
    return frozenset(reports.unique())


def feedback_flows(trace: Trace) -> frozenset[str]:
    """Names of the flows of calls that carry no media: feedback goes back there, and nothing else."""
    carrying = media_flows(trace)
    return frozenset(
        name for name in trace.flows if trace.manifest.flows[name].call is not None and name not in carrying
    )
