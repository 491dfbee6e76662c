"""The page that shows a call beside the simulations of its estimated scenario."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import isnan
from pathlib import Path
from statistics import fmean
from typing import Any

import polars as pl

from rtclab.estimate.findings import Finding
from rtclab.estimate.recorded_call import CallOfTwo
from rtclab.experiment import metrics_of
from rtclab.metrics import METRICS, Metric, prediction_interval
from rtclab.report import flow_in_words
from rtclab.report.page import write_page as write
from rtclab.report.run_plots import comparison_plots
from rtclab.scenario import Scenario
from rtclab.trace import Repeat, Run, Trace

CALL, SIMULATED = "call", "simulated"
SHOWN = (
    "receiving_rate",
    "stats_receiving_rate",
    "rtt",
    "packet_loss",
    "delay_variation_p95",
    "queuing_delay_p95",
    "frame_rate",
    "frame_height",
    "freeze_count",
    "freeze_duration",
)
"""The metrics that are compared, if the call has them."""


@dataclass(frozen=True)
class MetricComparison:
    """A metric of a flow: of the call, and of its simulations with their 95 % prediction interval."""

    metric: Metric
    call: float
    mean: float
    low: float | None
    high: float | None

    @property
    def inside(self) -> bool | None:
        """Whether the call lies in the interval; None if there is none."""
        if self.low is None or self.high is None:
            return None
        return self.low <= self.call <= self.high


def write_page(
    page: Path,
    call: CallOfTwo,
    scenario: Scenario,
    text: str,
    findings: Sequence[Finding],
    simulated: Sequence[Trace],
) -> Path:
    """Writes the page; returns its path. ``text`` is the scenario in TOML.

    Raises:
        DiskFull: the page could not be written.
    """
    about = scenario.model_dump(mode="json")
    runs = {CALL: _run(CALL, call.trace), SIMULATED: _run(SIMULATED, *simulated, scenario=about)}
    names = dict.fromkeys(one.of for one in findings)
    groups = [(flow_in_words(name), [one for one in findings if one.of == name]) for name in names]
    return write(
        page,
        "estimate.html",
        comparison_plots(runs) if simulated else [],
        tied=True,
        title=f"Estimated from {call.origin}",
        lead=_lead(findings),
        groups=groups,
        names=[(our, theirs) for our, theirs in call.names.items() if our != theirs],
        notes=call.notes,
        flows=[(flow_in_words(flow), rows) for flow, rows in compared(call, simulated).items()],
        repeats=len(simulated),
        scenario=text,
    )


def _lead(findings: Sequence[Finding]) -> str:
    """The capacity of both directions in a sentence each."""
    sentences = []
    for capacity in (one for one in findings if one.name == "capacity"):
        text = f"{flow_in_words(capacity.of)}: capacity {capacity.words}"
        if capacity.grade == "at least":
            text += "; the call did not load the path"
        sentences.append(text + ".")
    return " ".join(sentences)


def _run(name: str, *traces: Trace, scenario: dict[str, Any] | None = None) -> Run:
    """Traces in memory as a run."""
    repeats = [Repeat(index, trace.manifest.seed or 0, "finished") for index, trace in enumerate(traces)]
    opened = dict(enumerate(traces))
    backend = traces[0].manifest.backend if traces else "sim"
    return Run(
        path=Path(),
        name=name,
        backend=backend,
        scenario=scenario or {},
        repeats=repeats,
        planned=len(repeats),
        opened=opened,
    )


def compared(call: CallOfTwo, simulated: Sequence[Trace]) -> dict[str, list[MetricComparison]]:
    """The metrics of a call beside the metrics of its simulations, by flow; empty without simulations."""
    if not simulated:
        return {}
    # Counters of a part go on from those before it, so it is measured in the whole call.
    known = metrics_of(replace(_run(CALL, call.whole), window=call.window))
    again = metrics_of(_run(SIMULATED, *simulated))
    measured_s: float = again["measured_s"][0]
    found: dict[str, list[MetricComparison]] = {}
    for flow in call.trace.flows:
        for name in SHOWN:
            mine = pl.col("metric") == name, pl.col("flow") == flow
            own, others = known.filter(*mine)["value"], again.filter(*mine)["value"].to_list()
            if own.is_empty() or not others:
                continue
            bounds = METRICS[name].bounds_in(measured_s)
            ends = prediction_interval(others, bounds)
            low, high = (None if isnan(end) else end for end in ends)
            found.setdefault(flow, []).append(
                MetricComparison(METRICS[name], own[0], fmean(others), low, high)
            )
    return found
