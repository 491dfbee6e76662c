"""The page that shows a call beside the simulations of its estimated scenario."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import isnan
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np
import polars as pl

from rtclab.estimate.findings import Finding, in_digits
from rtclab.estimate.recorded_call import CallOfTwo
from rtclab.experiment import metrics_of
from rtclab.metrics import METRICS, Metric, prediction_interval
from rtclab.phrases import count, names_in_words
from rtclab.report import flow_in_words, number
from rtclab.report.answer import Answer, Figure, NextStep
from rtclab.report.drawing import Cells
from rtclab.report.page import write_page as write
from rtclab.report.plot import Plot
from rtclab.report.plots_of_runs import comparison_plots
from rtclab.scenario import Scenario
from rtclab.trace import NS_PER_S, Repeat, Run, Trace

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
    file: str = "",
) -> Path:
    """Writes the page; returns its path. ``text`` is the scenario in TOML, and ``file`` where it will be.

    Raises:
        DiskFull: the page could not be written.
    """
    about = scenario.model_dump(mode="json")
    runs = {CALL: _run(CALL, call.trace), SIMULATED: _run(SIMULATED, *simulated, scenario=about)}
    names = dict.fromkeys(one.of for one in findings)
    groups = [(flow_in_words(name), [one for one in findings if one.of == name]) for name in names]
    plots = comparison_plots(runs) if simulated else []
    both = [plot for plot in plots if _told_by_call(plot)]
    rows = compared(call, simulated)
    return write(
        page,
        "estimate.html",
        both,
        tied=True,
        title=f"Estimated from {call.origin}",
        about=f"a call of {number(call.trace.manifest.duration_ns / NS_PER_S)} s, "
        f"with {count(len(simulated), 'simulation')}",
        found=answer(findings, rows, file),
        untold=[plot.title for plot in plots if plot not in both],
        groups=groups,
        names=[(our, theirs) for our, theirs in call.names.items() if our != theirs],
        notes=call.notes,
        flows=[(flow_in_words(flow), of_flow) for flow, of_flow in rows.items()],
        repeats=len(simulated),
        scenario=text,
    )


DECIDE = ("capacity", "delay")
"""The numbers of each direction that a page begins with."""


def answer(findings: Sequence[Finding], rows: Mapping[str, Sequence[MetricComparison]], file: str) -> Answer:
    """What was estimated, whether simulations of it are like the call, and what to do next."""
    steps = [
        NextStep("run the scenario:", shlex.join(["rtclab", "run", file])),
        NextStep("find what would help:", shlex.join(["rtclab", "remedy", file])),
    ]
    figures = [
        Figure(
            f"{one.name.capitalize()}, {flow_in_words(one.of)}",
            *_value_and_unit(one),
            interval=_interval(one),
            about="; ".join(filter(None, [_grade(one), _received(rows, one)])),
        )
        for name in DECIDE
        for one in findings
        if one.name == name
    ]
    return Answer(
        f"{_lead(findings)} {_likeness(rows)}".strip(), steps=steps if file else (), figures=figures
    )


def _grade(one: Finding) -> str:
    """How a number is known and, of a delay, what it includes."""
    if one.name == "delay" and one.grade == "measured":
        return "measured; with transmission on all links but the bottleneck"
    return one.grade


def _received(rows: Mapping[str, Sequence[MetricComparison]], one: Finding) -> str:
    """The rate of the call in the direction of an estimated capacity, in words; empty if it is not known."""
    if one.name != "capacity":
        return ""
    rates = [
        of for of in rows.get(one.of, ()) if of.metric.name in ("receiving_rate", "stats_receiving_rate")
    ]
    return f"the call came to {number(rates[0].call)} kbit/s" if rates else ""


def _value_and_unit(one: Finding) -> tuple[str, str]:
    if one.value is None:
        return "unknown", ""
    return f"{'≥ ' if one.grade == 'at least' else ''}{in_digits(one.value)}", one.unit


def _interval(one: Finding) -> str:
    if one.low is None or one.high is None or one.grade == "at least":
        return ""
    return f"{in_digits(one.low)} to {in_digits(one.high)} (95 %)"


def _lead(findings: Sequence[Finding]) -> str:
    """The capacity and the delay of both directions in a sentence each."""
    sentences = []
    delays = {one.of: one for one in findings if one.name == "delay"}
    for capacity in (one for one in findings if one.name == "capacity"):
        text = f"{flow_in_words(capacity.of)}: capacity {capacity.words}"
        if capacity.grade == "at least":
            text += ", because the call did not load the path"
        if capacity.of in delays:
            text += f"; delay {delays[capacity.of].words}"
        sentences.append(text + ".")
    return " ".join(sentences)


def _likeness(rows: Mapping[str, Sequence[MetricComparison]]) -> str:
    """In how many metrics the call lies where its simulations do; empty if that is not known."""
    judged = [(flow, one) for flow, of in rows.items() for one in of if one.inside is not None]
    if not judged:
        return ""
    outside = [
        f"{one.metric.label} of {flow_in_words(flow)} ({_beside(one)})"
        for flow, one in judged
        if not one.inside
    ]
    if not outside:
        return f"Its simulations are like the call in all {len(judged)} metrics."
    like = len(judged) - len(outside)
    others = names_in_words(outside, 3)
    return f"Its simulations are like the call in {like} of {len(judged)} metrics, not in {others}."


def _beside(one: MetricComparison) -> str:
    """The value of the call beside the interval of its simulations."""
    call, low, high = (number(value, one.call) for value in (one.call, one.low, one.high))
    return f"{call} {one.metric.unit}".strip() + f", simulated {low} to {high}"


def _told_by_call(plot: Plot) -> bool:
    """Whether a plot has a known value of the call."""
    marks = [mark for mark in plot.marks if mark.look.label == CALL]
    return any(np.isfinite(mark.y).any() for mark in marks if not isinstance(mark, Cells))


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
