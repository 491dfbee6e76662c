"""The conditions of the paper, each with both decrease factors, and what is measured in each session."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import polars as pl

from rtclab.errors import FieldError
from rtclab.scenario.table import closest
from rtclab.trace import Trace

FLOW = "alice->bob"
OVER_USE = "over_use_percent"


@dataclass(frozen=True)
class Pair:
    """A condition of table 2, which was run with both decrease factors.

    ``name`` is what its two scenarios share, ``sessions`` how many the paper ran.
    """

    label: str
    name: str
    sessions: int = 3

    @property
    def fixed(self) -> str:
        """The scenario with the fixed decrease factor."""
        return f"iqbal/{self.name}-fixed-alpha"

    @property
    def dynamic(self) -> str:
        """The scenario with the dynamic one."""
        return f"iqbal/{self.name}-dynamic-alpha"


UNCONSTRAINED = Pair("nothing limited", "unconstrained", sessions=12)
BANDWIDTHS = [
    Pair("50 kbit/s", "bandwidth-50kbit"),
    Pair("200 kbit/s", "bandwidth-200kbit"),
    Pair("500 kbit/s", "bandwidth-500kbit"),
    Pair("1 Mbit/s", "bandwidth-1mbit"),
]
LOSSES = [Pair(f"{percent} % of loss", f"loss-{percent}-percent") for percent in (2, 5, 10, 12)]
DELAYS = [Pair(f"delay of {ms} ms", f"delay-{ms}ms") for ms in (50, 200, 250, 500, 1000)]
MIXED_500 = Pair("500 kbit/s, 5 %, 50 ms", "mixed-500kbit-5-percent-50ms")
MIXED_1000 = Pair("1 Mbit/s, 10 %, 250 ms", "mixed-1mbit-10-percent-250ms")
PAIRS = [UNCONSTRAINED, *BANDWIDTHS, *LOSSES, *DELAYS, MIXED_500, MIXED_1000]


def labelled(label: object) -> Pair:
    """The condition of this label.

    Raises:
        FieldError: there is none.
    """
    found = {pair.label: pair for pair in PAIRS}
    if label not in found:
        raise FieldError(f"no condition `{label}`; expected one of table 2", hint=closest(label, found))
    return found[str(label)]


def over_use(trace: Trace) -> Mapping[str, Mapping[str, float]]:
    """100 if over-use ever reduced the rate of the call, else 0, so that the mean over sessions is per cent.

    The decrease factor is in the trace from the first decrease on, so a sample per second misses none but one
    in the last second.
    """
    rows = trace.table("controller").filter((pl.col("flow") == FLOW) & (pl.col("name") == "alpha"))
    return {OVER_USE: {FLOW: 0.0 if rows.is_empty() else 100.0}}
