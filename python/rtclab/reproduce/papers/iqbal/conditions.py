"""The conditions of the paper, its table 2 with our figures, and what is measured in each session."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import nan

import polars as pl

from rtclab.reproduce.paper import Cell
from rtclab.trace import Trace

FLOW = "alice->bob"
OVER_USE = "over_use_percent"


@dataclass(frozen=True)
class Condition:
    """A row of table 2: its name in words, that of its scenarios, and how many sessions the paper ran."""

    words: str
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


UNCONSTRAINED = Condition("nothing limited", "unconstrained", sessions=12)
BANDWIDTHS = [
    Condition("50 kbit/s", "bandwidth-50kbit"),
    Condition("200 kbit/s", "bandwidth-200kbit"),
    Condition("500 kbit/s", "bandwidth-500kbit"),
    Condition("1 Mbit/s", "bandwidth-1mbit"),
]
LOSSES = [Condition(f"{percent} % of loss", f"loss-{percent}-percent") for percent in (2, 5, 10, 12)]
DELAYS = [Condition(f"delay of {ms} ms", f"delay-{ms}ms") for ms in (50, 200, 250, 500, 1000)]
MIXED_500 = Condition("500 kbit/s, 5 %, 50 ms", "mixed-500kbit-5-percent-50ms")
MIXED_1000 = Condition("1 Mbit/s, 10 %, 250 ms", "mixed-1mbit-10-percent-250ms")
CONDITIONS = [UNCONSTRAINED, *BANDWIDTHS, *LOSSES, *DELAYS, MIXED_500, MIXED_1000]

TABLE_2 = "Conditions, with our means over all sessions; the paper has figures without numbers"
COLUMNS = {
    "incoming rate (kbit/s)": "rate_kbps",
    "RTT (ms)": "rtt_ms",
    "packet loss (%)": "packet_loss_pct",
    "sessions with over-use (%)": OVER_USE,
}


def table_2() -> list[Cell]:
    """A row per condition and decrease factor."""
    return [
        Cell(
            table="2",
            row=f"{condition.words}, {factor}",
            machine="overall",
            column=column,
            scenario=scenario,
            metric=metric,
            mean=nan,
            sd=None,
            printed="",
            status="",
            note="",
        )
        for condition in CONDITIONS
        for factor, scenario in (("fixed", condition.fixed), ("dynamic", condition.dynamic))
        for column, metric in COLUMNS.items()
    ]


def over_use(trace: Trace) -> Mapping[str, Mapping[str, float]]:
    """Whether over-use ever reduced the rate of the call: 100 or 0, so that a mean over sessions is per cent.

    The decrease factor is in the trace from the first decrease on, so a sample per second misses none but one
    in the last second.
    """
    rows = trace.table("controller").filter((pl.col("flow") == FLOW) & (pl.col("name") == "alpha"))
    return {OVER_USE: {FLOW: 0.0 if rows.is_empty() else 100.0}}
