"""How evenly the flows of a run share what there is."""

from __future__ import annotations

import numpy as np

from rtclab.metrics.rate import receiving_rate
from rtclab.metrics.registry import metric
from rtclab.metrics.series import Window
from rtclab.trace import Trace


@metric(unit="", better="higher", scope="trace", source="Jain, Chiu, Hawe 1984, DEC-TR-301", bounds=(0, 1))
def fairness(trace: Trace, window: Window | None = None) -> float:
    """Jain's index of the flows' receiving rates: 1 when all are equal, 1/n when one of n has all.

    Of the flows that carry media, whether or not they share a path. Each counts with its rate over the time
    that it was there, so who left early is not taken for one who got little. NaN for fewer than two.
    """
    carrying_media = trace.cached(_carrying_media)
    flows = [flow for flow in trace.flows if flow in carrying_media]
    rates = np.array([receiving_rate(trace, flow, window) for flow in flows])
    rates = rates[~np.isnan(rates)]
    if rates.size < 2 or not rates.any():
        return float("nan")
    return float(rates.sum() ** 2 / (rates.size * (rates**2).sum()))


def _carrying_media(trace: Trace) -> frozenset[str]:
    """The flows of which a sender reported a stream."""
    return frozenset(trace.table("outbound_rtp")["flow"].unique())
