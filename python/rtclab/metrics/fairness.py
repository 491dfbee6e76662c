"""How evenly the flows of a run share the network."""

from __future__ import annotations

import numpy as np

from rtclab.metrics.rate import receiving_rate
from rtclab.metrics.registry import OF_MODEL, metric
from rtclab.trace import Trace


@metric(
    unit="",
    better="higher",
    scope="trace",
    source="Jain, Chiu, Hawe 1984, DEC-TR-301",
    bounds=(0, 1),
    known=OF_MODEL,
)
def fairness(trace: Trace) -> float:
    """Jain's index of the receiving rates of media flows: 1 if all are equal, 1/n if one of n has all.

    Each rate is over the time in which its flow was active, so a flow that ended early does not count as
    slow. The flows need not share a path; with fewer than two there is no value.
    """
    sent = trace.cached(_sent)
    flows = [flow for flow in trace.flows if flow in sent]
    rates = np.array([receiving_rate(trace, flow) for flow in flows])
    rates = rates[~np.isnan(rates)]
    if rates.size < 2 or not rates.any():
        return float("nan")
    return float(rates.sum() ** 2 / (rates.size * (rates**2).sum()))


def _sent(trace: Trace) -> frozenset[str]:
    """The flows of media whose sender reports a stream.

    A server that only forwards sends no reports, so what it forwards does not count beside its legs.
    """
    return frozenset(trace.table("outbound_rtp")["flow"].unique())
