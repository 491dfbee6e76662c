"""The report of several conditions: an answer, a heat map or lines of the metrics that decide, and tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import inf, prod
from pathlib import Path
from typing import Any, Protocol

import polars as pl

from rtclab.errors import BadInput, RtclabError
from rtclab.experiment.fields import Field
from rtclab.experiment.flows import Flows
from rtclab.experiment.summary import marginal_of, measured_s
from rtclab.metrics import METRICS, Metric, essentials
from rtclab.phrases import count, name_for_commands
from rtclab.report.answer import Answer
from rtclab.report.drawing import INK, Axes, Cells, Dots, Line, Mark, Style
from rtclab.report.field_names import field_in_words, heading, in_order, short_values
from rtclab.report.page import write_page
from rtclab.report.plot import Plot
from rtclab.report.plots_of_sweeps import (
    GROUP_WIDTH,
    MAX_FLOWS,
    MAX_LINES,
    MAX_PRINTED_CELLS,
    cut,
    sweep_plot,
)
from rtclab.report.sweep_answer import Facts, answer, verdict
from rtclab.report.sweep_examples import FILE, can_be_set, example_command, needs_file
from rtclab.report.sweep_maps import Map, heat_map
from rtclab.report.sweep_values import (
    Interval,
    by_point,
    deciding,
    flows_are_alike,
    three_digits,
    worst,
    worst_by_point,
)
from rtclab.report.words import flow_in_words, kind_in_words, versions
from rtclab.scenario import Scenario
from rtclab.trace import OpenWindow, Run, window_in_words

MAX_ROWS = 200
"""Maximum number of rows in the table of points. The store has all rows."""
MAX_FAILURES = 20
LONGEST_NAME = 20
"""Maximum number of letters of a name below an axis; the tables have the whole names."""
MAX_OPEN_ROWS = 16
"""The table of conditions is folded if it has more rows."""
MAX_COMMANDS = 1000
"""Maximum number of conditions whose command is on the page."""
PICTURES = {"frame_height": "height", "frame_width": "width"}
"""Metrics that the camera limits, with the field of the video that has the limit."""


class Swept(Protocol):
    """What the report needs of :class:`rtclab.Results`."""

    @property
    def path(self) -> Path: ...
    @property
    def name(self) -> str: ...
    @property
    def fields(self) -> list[str]: ...
    @property
    def varied(self) -> tuple[Field, ...]: ...
    @property
    def conditions(self) -> list[str]: ...
    @property
    def part(self) -> str: ...
    @property
    def window(self) -> OpenWindow | None: ...
    @property
    def page_suffix(self) -> str: ...
    @property
    def runs(self) -> list[Run]: ...
    @property
    def finished(self) -> int: ...
    @property
    def planned(self) -> int: ...
    def outcomes(self) -> pl.DataFrame: ...
    def failures(self) -> pl.DataFrame: ...
    def metrics(self, *, metrics: Sequence[str] | None = None) -> pl.DataFrame: ...
    def rows_of_flows(self, rows: pl.DataFrame, flows: Flows) -> pl.DataFrame: ...
    def without_feedback(self, rows: pl.DataFrame) -> pl.DataFrame: ...


@dataclass(frozen=True)
class SweepView:
    """What the report of a sweep shows: metrics, the fields of axis and lines, flows, averaged fields."""

    metrics: Sequence[str] = ()
    x: str | None = None
    by: str | None = None
    flow: Flows = None
    average: tuple[str, ...] = ()


@dataclass(frozen=True)
class PointLine:
    """A row of the table: one flow of one point.

    ``values`` are the values of the varied fields. ``cells`` has a row of the summary for each metric, or
    None. ``repeats`` says how many repeats its means are of, if they are fewer than in other rows. ``at`` is
    the number of the command that simulates an example; None if the page has none.
    """

    values: Sequence[str]
    flow: str
    cells: Sequence[dict[str, Any] | None]
    repeats: str = ""
    at: int | None = None


@dataclass(frozen=True)
class View:
    """A heat map and what chooses it: the numbers of its metric and of its flows."""

    metric: int
    flow: int
    map: Map


class SweepPage:
    """What the page of a sweep says, from its values."""

    def __init__(self, results: Swept, summary: pl.DataFrame, chosen: SweepView) -> None:
        self.results, self.chosen = results, chosen
        self.varied = results.varied
        self.fields = [field for field in self.varied if field.count > 1] or list(self.varied[:1])
        self._names = [field.name for field in self.varied]
        self.highest = largest_pictures(results.runs)
        self.summary = cut(_of_flows(results, summary, chosen), self.highest)

    @cached_property
    def metrics(self) -> list[Metric]:
        """The metrics that the user chose, or the ones that decide."""
        rows = self.summary.filter(pl.col("flow") != "").drop_nulls("mean")
        known = rows["metric"].unique().to_list()
        names = self.chosen.metrics or deciding(known)
        return [METRICS[name] for name in names if name in known]

    @cached_property
    def further(self) -> list[Metric]:
        """The other metrics of the table: the essential ones that do not decide."""
        rows = self.summary.filter(pl.col("flow") != "").drop_nulls("mean")
        names = () if self.chosen.metrics else essentials(rows["metric"].unique())
        return [METRICS[name] for name in names if METRICS[name] not in self.metrics]

    @cached_property
    def rows(self) -> pl.DataFrame:
        """The value of each metric of the page in every repeat."""
        names = [metric.name for metric in self.metrics]
        if not names:
            return pl.DataFrame()
        rows = _of_flows(self.results, self.results.metrics(metrics=names), self.chosen)
        return rows.filter(pl.col("flow") != "")

    @cached_property
    def answer(self) -> Answer:
        """The first screen."""
        return answer(self._facts)

    @property
    def verdict(self) -> str:
        """The sentences of the first screen alone."""
        return verdict(self._facts)

    @cached_property
    def commands(self) -> dict[tuple[str, ...], str]:
        """By the values of each condition, the command that simulates an example of it; empty without one."""
        if not self.results.fields or len(self.results.runs) > MAX_COMMANDS:
            return {}
        return {
            key: example_command(run, self.varied, dict(zip(self._names, key, strict=True)))
            for key, run in zip(self._keys, self.results.runs, strict=True)
            if key and can_be_set(run, self.varied)
        }

    @cached_property
    def _keys(self) -> list[tuple[str, ...]]:
        """The values of each condition, in the order of the conditions."""
        if not self.results.fields:
            return [(label,) for label in self.results.conditions]
        outcomes = self.results.outcomes().select("condition", *self._names).unique(maintain_order=True)
        found = {str(row[0]): tuple(map(str, row[1:])) for row in outcomes.iter_rows()}
        return [found.get(label, ()) for label in self.results.conditions]

    @cached_property
    def _facts(self) -> Facts:
        results, fields = self.results, self.varied
        lasts = {measured_s(run) for run in results.runs}
        along: dict[str, dict[str, Mapping[str, Interval]]] = {field.name: {} for field in fields}
        points: dict[str, Mapping[tuple[str, ...], Interval]] = {}
        for metric in self.metrics:
            of_summary = self.summary.filter((pl.col("metric") == metric.name) & (pl.col("flow") != ""))
            points[metric.name] = worst_by_point(of_summary, self._names)
            for field in fields:
                means = self._averaged(metric, [field])
                along[field.name][metric.name] = {
                    text: one for (text,), one in worst_by_point(means, [field.name]).items()
                }
        known = {key for of_metric in points.values() for key in of_metric}
        empty = [label for label, key in zip(results.conditions, self._keys, strict=True) if key not in known]
        return Facts(
            fields,
            along,
            points,
            seconds=lasts.pop() if len(lasts) == 1 else None,
            failed=results.failures().height,
            planned=results.planned,
            empty=empty,
            flows=self.rows["flow"].n_unique() if self.metrics else 0,
            example=self.commands,
            path=name_for_commands(results.path) if results.fields else "",
        )

    def _averaged(self, metric: Metric, fields: Sequence[Field]) -> pl.DataFrame:
        """The summary of a metric at the values of some fields, averaged over the others."""
        names = [field.name for field in fields]
        rows = self.rows.filter(pl.col("metric") == metric.name)
        others = [name for name in self._names if name not in names]
        return cut(marginal_of(rows, names, others)[0], self.highest)

    @cached_property
    def mapped(self) -> tuple[Field, Field] | None:
        """The two fields of the heat maps; None if the page has none.

        Of more than two fields they are the two along which the metrics change most.
        """
        view = self.chosen
        if len(self.fields) < 2 or (view.x, view.by, view.average) != (None, None, ()) or not self.metrics:
            return None
        ranked = sorted(self.fields, key=self._facts.effect, reverse=True)[:2]
        first, second = (field for field in self.fields if field in ranked)
        return first, second

    @cached_property
    def choices(self) -> list[str]:
        """The choices of flows of the heat maps: the worst of all, and each flow if flows differ."""
        if self.mapped is None:
            return []
        names = [field.name for field in self.mapped]
        flows = self.rows["flow"].unique(maintain_order=True).to_list()
        cells = self.mapped[0].count * self.mapped[1].count
        alike = all(flows_are_alike(self._averaged(one, self.mapped), names) for one in self.metrics)
        few = 1 < len(flows) <= MAX_FLOWS and cells <= MAX_PRINTED_CELLS
        return ["", *flows] if few and not alike else [""]

    @cached_property
    def views(self) -> list[View]:
        """The heat maps: one for each metric and choice of flows."""
        if self.mapped is None:
            return []
        names = [field.name for field in self.mapped]
        commands = self._commands_of(names)
        found = []
        for index, metric in enumerate(self.metrics):
            means = self._averaged(metric, self.mapped)
            points = {(key[0], key[1]): of for key, of in by_point(means, names).items()}
            if not points:
                continue
            of_choices = [
                {
                    key: of[flow] if flow else worst(metric, of.values())
                    for key, of in points.items()
                    if not flow or flow in of
                }
                for flow in self.choices
            ]
            means_shown = [one.mean for shown in of_choices for one in shown.values()]
            between = min(means_shown), max(means_shown)
            for place, (flow, shown) in enumerate(zip(self.choices, of_choices, strict=True)):
                if shown:
                    one = heat_map(metric, self.mapped, shown, self.whose(flow), between, commands)
                    found.append(View(index, place, one))
        return found

    def whose(self, flow: str) -> str:
        """Whose values a heat map shows, in words."""
        flows = self.rows["flow"].n_unique()
        if flow or flows == 1:
            return flow_in_words(flow)
        return "the worse direction" if flows == 2 else f"the worst of {flows} flows"

    def _commands_of(self, names: Sequence[str]) -> dict[tuple[str, str], int]:
        """The number of the command of the first condition with each pair of values."""
        found: dict[tuple[str, str], int] = {}
        places = [self._names.index(name) for name in names]
        for number_of, key in enumerate(self.commands):
            found.setdefault((key[places[0]], key[places[1]]), number_of)
        return found

    @property
    def examples(self) -> list[tuple[str, str]]:
        """The label and the command of each condition, by number."""
        labels = dict(zip(self._keys, self.results.conditions, strict=True))
        return [(labels[key], command) for key, command in self.commands.items()]

    def plots(self, *, merged: bool) -> list[Plot]:
        """The plots of the metrics of the page; if ``merged``, flows that are alike are drawn as one."""
        found = []
        for metric in self.metrics:
            rows = self.rows.filter(pl.col("metric") == metric.name)
            if merged and self.chosen.flow is None:
                rows = self._merged(metric, rows)
            plots = self._plots(metric.name, rows)
            if merged:
                plots = [with_short_names(plot) for plot in plots]
            found += [in_one(plot) for plot in plots] if merged and len(self.fields) == 1 else plots
        return found

    def _merged(self, metric: Metric, rows: pl.DataFrame) -> pl.DataFrame:
        """The rows with one flow in place of all, if flows are alike or too many to be drawn.

        Alike are flows whose intervals overlap at every point; their mean is drawn. Of too many flows, the
        worst one of each condition is.
        """
        flows = rows["flow"].n_unique()
        means = marginal_of(rows, self._names, [])[0]
        if flows > 1 and flows_are_alike(means, self._names):
            name = "mean of both directions" if flows == 2 else f"mean of {flows} flows"
            keys = [name for name in rows.columns if name not in ("flow", "value", "deviation")]
            rows = rows.group_by(keys, maintain_order=True).agg(pl.col("value", "deviation").mean())
            return rows.with_columns(flow=pl.lit(name)).select(self.rows.columns)
        if flows > MAX_FLOWS:
            of_points = [(*key, one.flow) for key, one in worst_by_point(means, self._names).items()]
            keys = [*self._names, "flow"]
            chosen = pl.DataFrame(of_points, schema=dict.fromkeys(keys, pl.String), orient="row")
            chosen = chosen.cast({name: rows.schema[name] for name in keys})
            rows = rows.join(chosen, on=keys, how="semi", maintain_order="left")
            return rows.with_columns(flow=pl.lit(self.whose("")))
        return rows

    def _plots(self, metric: str, rows: pl.DataFrame) -> list[Plot]:
        """The plots of a metric. With more fields than a plot can show, values are averaged over some."""
        fields, chosen = self.fields, self.chosen
        highest = self.highest.get(metric, inf)
        if rows.is_empty():
            return []
        options = (chosen.x, chosen.by, chosen.flow, chosen.average)
        if options != (None, None, None, ()):
            return [sweep_plot(rows, fields, metric, *options, highest=highest)]
        few, *_, many = sorted([*fields, fields[0]], key=lambda field: (bool(field.numbers), field.count))
        try:
            if few == many or few.count > MAX_LINES:
                return [sweep_plot(rows, fields, metric, highest=highest)]
            return [sweep_plot(rows, fields, metric, many.name, few.name, highest=highest)]
        except BadInput:  # too many combinations of further fields
            of_flow = str(rows["flow"][0])
            others = {one.name: [other.name for other in fields if other != one] for one in fields}
            return [
                sweep_plot(rows, fields, metric, x, None, of_flow, average, highest=highest)
                for x, average in others.items()
            ]

    def lines(self, metrics: Sequence[Metric]) -> list[PointLine]:
        """The rows of a table of metrics: conditions in the order of their values, and flows."""
        names = [metric.name for metric in metrics]
        rows = self.summary.filter(pl.col("metric").is_in(names) & (pl.col("flow") != ""))
        cells: dict[tuple[str, ...], dict[str, dict[str, Any]]] = {}
        for row in rows.iter_rows(named=True):
            key = (*(str(row[name]) for name in self._names), row["flow"])
            cells.setdefault(key, {})[row["metric"]] = row
        counts = {key: max(row["repeats"] for row in known.values()) for key, known in cells.items()}
        most = max(counts.values(), default=0)
        order = [{text: place for place, text in enumerate(in_order(one))} for one in self.varied]
        numbers = {key: index for index, key in enumerate(self.commands)}
        ranked = sorted(cells, key=lambda key: [of[text] for of, text in zip(order, key[:-1], strict=True)])
        shown = [short_values(one) for one in self.varied]
        return [
            PointLine(
                [of[text] for of, text in zip(shown, key[:-1], strict=True)],
                flow_in_words(key[-1]),
                [cells[key].get(name) for name in names],
                f"{counts[key]} of {most} repeats" if counts[key] < most else "",
                numbers.get(key[:-1]),
            )
            for key in ranked
        ]


def write_sweep_report(results: Swept, summary: pl.DataFrame, chosen: SweepView | None = None) -> Path:
    """Writes ``report.html`` into the directory of the results of several conditions; returns its path.

    The page of some of the conditions says which, and has a name of its own.

    Raises:
        DiskFull: no disk space is left.
    """
    page = SweepPage(results, summary, chosen or SweepView())
    lines, further = page.lines(page.metrics), page.lines(page.further)
    failures = results.failures()
    failed = failures.head(MAX_FAILURES).iter_rows(named=True)
    plots = page.plots(merged=True)
    if page.mapped is not None:
        plots = [plot for plot in plots if not any(isinstance(mark, Cells) for mark in plot.marks)]
    return write_page(
        results.path / f"report{results.page_suffix}.html",
        "sweep.html",
        plots,
        name=results.name,
        title=str(results.runs[0].scenario.get("title") or results.name),
        part=results.part,
        window=results.window and window_in_words(results.window),
        found=page.answer,
        size=_size(results),
        single=results.runs[0].planned < 2,
        facts=_facts(results),
        fields=[(heading(field.name), field.name, ", ".join(field.texts)) for field in results.varied],
        views=page.views,
        choices=[page.whose(flow) for flow in page.choices],
        averaged=[field_in_words(one.name) for one in page.fields if one not in (page.mapped or page.fields)],
        metrics=page.metrics,
        digits=three_digits,
        further=page.further,
        lines=lines[:MAX_ROWS],
        further_lines=further[:MAX_ROWS],
        open=len(lines) <= MAX_OPEN_ROWS,
        left_out=max(len(lines) - MAX_ROWS, 0),
        examples=page.examples,
        file=FILE if any(needs_file(command) for _, command in page.examples) else "",
        failures=[(f"{row['condition']}, repeat {row['repeat']}", "", row["reason"]) for row in failed],
        more_failures=max(failures.height - MAX_FAILURES, 0),
    )


def sweep_plots(results: Swept, summary: pl.DataFrame, chosen: SweepView) -> list[Plot]:
    """The plots of the chosen metrics or of the metrics that decide, in the order of the report."""
    return SweepPage(results, summary, chosen).plots(merged=False)


def with_short_names(plot: Plot) -> Plot:
    """The plot with the middle of long names below the horizontal axis left out."""
    begin, end = LONGEST_NAME // 2, LONGEST_NAME // 2 - 1
    names = [name if len(name) <= LONGEST_NAME else f"{name[:begin]}…{name[-end:]}" for name in plot.x.names]
    return replace(plot, x=replace(plot.x, names=names))


def in_one(plot: Plot) -> Plot:
    """The plot with the line of every flow in one pair of axes, if each axes have one line or row of dots."""
    own = [[mark for mark in axes.marks if mark.look.colour != INK] for axes in plot.axes]
    if len(own) < 2 or any(len(marks) != 1 for marks in own):
        return plot
    marks: list[Mark] = []
    for index, (axes, (mark,)) in enumerate(zip(plot.axes, own, strict=True)):
        look = Style.numbered(index, axes.title)
        if isinstance(mark, Dots):
            shift = (index - (len(own) - 1) / 2) * GROUP_WIDTH / len(own)
            marks.append(replace(mark, look=look, x=mark.x + shift))
        elif isinstance(mark, Line):
            marks.append(replace(mark, look=look))
    limits = {mark.look.label: mark for axes in plot.axes for mark in axes.marks if mark.look.colour == INK}
    notes = dict.fromkeys(axes.note for axes in plot.axes if axes.note)
    return replace(plot, axes=[Axes("", [*marks, *limits.values()], "; ".join(notes))])


def sweep_verdict(results: Swept, summary: pl.DataFrame, flows: Flows = None) -> str:
    """The sentences at the top of the report: what differs along each field by more than the intervals."""
    return SweepPage(results, summary, SweepView(flow=flows)).verdict


def largest_pictures(runs: Sequence[Run]) -> dict[str, float]:
    """The height and width in pixels of the largest camera, by metric; empty if they are not known.

    A server that composes pictures makes them of any size.
    """
    found: dict[str, float] = {}
    known: set[str] = set()
    for run in runs:
        about = str([run.scenario.get(name) for name in ("video", "participants", "servers", "calls")])
        if about in known:
            continue
        known.add(about)
        try:
            scenario = Scenario.read(dict(run.scenario), run.name)
        except RtclabError:  # of an import, or kept by an rtclab with other scenarios
            return {}
        if any(call.kind == "mixing-mcu" for call in scenario.calls) or scenario.pages():
            return {}
        videos = [video for name in scenario.participants if (video := scenario.video_of(name)) is not None]
        for metric, size in PICTURES.items():
            found[metric] = max([found.get(metric, 0.0), *(float(getattr(one, size)) for one in videos)])
    return found


def _of_flows(results: Swept, rows: pl.DataFrame, chosen: SweepView) -> pl.DataFrame:
    """The rows of the chosen flows, or of all flows that do not carry feedback alone."""
    return results.without_feedback(rows) if chosen.flow is None else results.rows_of_flows(rows, chosen.flow)


def _size(results: Swept) -> str:
    """What was run, in words: ``5 × 4 conditions, simulated, 60 s, 3 repeats of each, all 60 finished``."""
    counts = [field.count for field in results.varied]
    conditions = count(len(results.conditions), "condition")
    if len(counts) > 1 and prod(counts) == len(results.conditions):
        conditions = f"{' × '.join(map(str, counts))} = {conditions}"
    done = "all" if results.finished == results.planned else f"{results.finished} of"
    first = results.runs[0]
    lasts = {str(run.scenario["duration"]) for run in results.runs}
    how = ", ".join([kind_in_words(first.backend), *(lasts if len(lasts) == 1 else ())])
    repeats = count(first.planned, "repeat")
    return f"{conditions}, {how}, {repeats} of each, {done} {results.planned} finished"


def _facts(results: Swept) -> list[tuple[str, str]]:
    """How it was made, as pairs of label and value."""
    run = results.runs[0]
    repeats = f"{run.planned} of each" + (", with the same seeds" if results.fields else "")
    facts = [
        ("Scenario", str(run.scenario["name"])),
        ("Backend", "simulated (virtual time)" if run.backend == "sim" else run.backend),
        ("Conditions", str(len(results.conditions))),
        ("Repeats", repeats),
        ("Finished", f"{results.finished} of {results.planned}"),
        ("Versions", versions(run)),
    ]
    older = int(results.outcomes()["older"].sum())
    if older:
        facts.append(("Older", f"{older} repeats were run by another build of rtclab"))
    return facts
