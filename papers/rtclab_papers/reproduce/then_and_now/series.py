"""Figures of the papers over time: the call of its time, simulated, beside the live call of 2026.

The curves are kept in ``NAME-series.csv``, a row for each, because live calls cannot be run again at once.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import product
from pathlib import Path

import numpy as np
import polars as pl

from rtclab import simulate
from rtclab.errors import BadInput, TraceError
from rtclab.experiment import Results, digest_of
from rtclab.metrics import Array, Samples
from rtclab.report import Axes, Axis, Drawing, Line, largest
from rtclab.scenario import Scenario
from rtclab.trace import Trace
from rtclab_papers.campaigns import Key, Record
from rtclab_papers.csv_files import read_table, write_table
from rtclab_papers.reproduce import paper
from rtclab_papers.reproduce.figures import Figure, FigureLine
from rtclab_papers.reproduce.measures import MEASURES
from rtclab_papers.reproduce.then_and_now.campaigns import LIVE, THEN
from rtclab_papers.reproduce.then_and_now.conditions import Plan

STEPS = 60
"""Number of equal parts of a call. A curve has the mean of each. Parts are at least a second long."""
WORDS = {THEN: "then, simulated", LIVE: "2026, live"}
SCHEMA = pl.Schema(
    {
        "figure": pl.String(),
        "campaign": pl.String(),
        "scenario": pl.String(),
        "flow": pl.String(),
        "metric": pl.String(),
        "digest": pl.String(),
        "length_s": pl.Float64(),
        "repeats": pl.Int64(),
        "values": pl.String(),
    }
)


CurveKey = tuple[str, str, str, str, str]
"""Figure, campaign, scenario, flow and metric."""


@dataclass(frozen=True)
class Curve:
    """A curve of a figure.

    Attributes:
        figure: paper and number, such as ``singh2013 2``.
        campaign: ``then`` or ``live``.
        scenario: name of the paper's scenario.
        flow: the flow.
        metric: name of the measure.
        digest: identifies the scenario that was run.
        length_s: length of the call.
        repeats: number of calls that were averaged.
        values: the mean in each of equal parts of the call; NaN where there is none.
    """

    figure: str
    campaign: str
    scenario: str
    flow: str
    metric: str
    digest: str
    length_s: float
    repeats: int
    values: Array

    @property
    def key(self) -> CurveKey:
        """What the curve shows."""
        return self.figure, self.campaign, self.scenario, self.flow, self.metric


def file_of(page: Path) -> Path:
    """The file of the curves of a page."""
    return page.parent / "data" / f"{page.stem}-series.csv"


def figures(plan: Plan) -> Iterator[tuple[str, Figure]]:
    """The figures to show, each with its name in the file: paper and number."""
    names = {section.paper.name for section in plan.sections}
    for name, numbers in plan.conditions.series.items():
        for figure in paper(name).figures if name in names else ():
            if figure.number in numbers:
                yield f"{name} {figure.number}", figure


def renew(file: Path, plan: Plan, records: Mapping[Key, Record], traces: Path) -> None:
    """Simulates the curves of the past anew, and takes live ones from the traces that are still there.

    ``traces`` is the directory of the experiment with the live calls.

    Curves of live calls whose traces are gone are kept, unless the scenario has changed.
    """
    known = {curve.key: curve for curve in read(file)}

    @cache
    def calls(campaign: str, scenario: str, repeats: int) -> tuple[str, list[Trace]]:
        """The scenario's digest and its calls, which several figures may need."""
        if campaign == THEN:
            return digest_of(Scenario.load(scenario)), list(_simulated(scenario, repeats))
        digest = digest_of(plan.today[scenario].scenario)
        return digest, list(_live(scenario, digest, records, traces))

    found: list[Curve] = []
    for name, figure in figures(plan):
        for line, campaign in product(figure.lines, WORDS):
            digest, having = calls(campaign, line.condition, figure.repeats)
            curve = _curve(name, campaign, digest, line, having)
            kept = known.get(_key(name, campaign, line))
            if curve is None and kept is not None and kept.digest == digest:
                curve = kept
            found += [curve] if curve is not None else []
    write(file, found)


def read(file: Path) -> list[Curve]:
    """The curves in a file; none if there is no file."""
    rows = read_table(file, SCHEMA).iter_rows(named=True)
    return [Curve(**row | {"values": _numbers(row["values"])}) for row in rows]


def drawing(figure: Figure, name: str, curves: Iterable[Curve], file: str) -> Drawing | None:
    """A figure with a pair of axes for the past and one for 2026; None if one of the two has no curve.

    The horizontal axis is the share of the call, because calls of 2026 are shorter and changes of the network
    come at the same share.
    """
    known = {curve.key: curve for curve in curves}
    axes = []
    for title, lines in figure.groups.items():
        for campaign, words in WORDS.items():
            drawn = [(line, known.get(_key(name, campaign, line))) for line in lines]
            marks = [
                Line(figure.looks[line.name], _middles(curve.values.size), curve.values)
                for line, curve in drawn
                if curve is not None
            ]
            lengths = {curve.length_s for _, curve in drawn if curve is not None}
            if not marks:
                return None
            length = " and ".join(f"{length_s:g} s" for length_s in sorted(lengths))
            axes.append(Axes(f"{title}, {words}, {length}".removeprefix(", "), marks))
    heights = [mark.y for one in axes for mark in one.marks if isinstance(mark, Line)]
    label = figure.axis or MEASURES[figure.lines[0].metric].label
    title = f"Figure {figure.number}. {figure.title}, then and in 2026"
    y = Axis.from_zero(label, largest(heights))
    return Drawing(file, title, title, Axis("Time (% of the call)", 0, 100), y, axes)


def _key(figure: str, campaign: str, line: FigureLine) -> CurveKey:
    return figure, campaign, line.condition, line.flow, line.metric


def _middles(parts: int) -> Array:
    """The middle of each of equal parts of a call, in per cent."""
    return (np.arange(parts) + 0.5) * 100 / parts


def _simulated(name: str, repeats: int) -> Iterator[Trace]:
    scenario = Scenario.load(name, {"record": "seconds"})
    for repeat in range(repeats):
        yield simulate(scenario, repeat)


def _live(name: str, digest: str, records: Mapping[Key, Record], traces: Path) -> Iterator[Trace]:
    """The kept traces of finished live calls of a scenario with this digest."""
    try:
        run = Results(traces)[name].run
    except (TraceError, BadInput):  # no calls, or none of this scenario
        return
    for key, record in sorted(records.items()):
        if (key.condition, key.backend, record.outcome) != (name, LIVE, "finished"):
            continue
        if record.digest.partition("-")[0] != digest:
            continue
        try:
            trace = run.trace(key.repeat)
            trace.table("flow_seconds")
        except TraceError:
            continue
        yield trace


def _curve(name: str, campaign: str, digest: str, line: FigureLine, calls: Sequence[Trace]) -> Curve | None:
    """The mean of calls; None if none of them has the flow."""
    having = [trace for trace in calls if line.flow in trace.flows]
    if not having:
        return None
    length_s = having[0].manifest.duration_ns / 1e9
    values = means([MEASURES[line.metric].series(trace, line.flow) for trace in having], length_s)
    what = (line.condition, line.flow, line.metric)
    return Curve(name, campaign, *what, digest, length_s, len(having), values)


def means(calls: Sequence[Samples], length_s: float) -> Array:
    """The mean over calls in each of equal parts of their length; NaN where there are no samples.

    There are ``STEPS`` parts, or one for each second of a call that is shorter.
    """
    parts = min(STEPS, max(int(length_s), 1))
    at = np.concatenate([samples.at_s for samples in calls])
    values = np.concatenate([samples.values for samples in calls])
    at, values = at[~np.isnan(values)], values[~np.isnan(values)]
    part = np.minimum((at / length_s * parts).astype(int), parts - 1)
    counts = np.bincount(part, minlength=parts)
    sums = np.bincount(part, values, minlength=parts)
    with np.errstate(invalid="ignore"):
        return np.asarray(sums / counts)


def write(file: Path, curves: Iterable[Curve]) -> None:
    """Writes curves instead of what is in a file, with four digits."""
    rows = [
        (*curve.key, curve.digest, curve.length_s, curve.repeats, _text(curve.values)) for curve in curves
    ]
    write_table(file, rows, SCHEMA)


def _text(values: Array) -> str:
    return " ".join("-" if np.isnan(value) else f"{value:.4g}" for value in values)


def _numbers(text: str) -> Array:
    return np.array([np.nan if word == "-" else float(word) for word in text.split()])
