"""The pages: one HTML file each, with everything in it, and the plots beside it as files."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from jinja2 import Environment, FileSystemLoader, StrictUndefined

from rtclab.metrics import METRICS, Metric, compare_runs, flows_of, measure_run
from rtclab.metrics.wire import StreamRates, stream_rates
from rtclab.report import words
from rtclab.report.figure import Drawing, Plot, render
from rtclab.report.lines import flow_in_words
from rtclab.report.plots import comparison_plots, run_plots
from rtclab.trace import Run, write_text

TEMPLATES = Path(__file__).parent / "templates"
WHOLE_RUN = "whole run"


@dataclass(frozen=True)
class Row:
    """One metric: its label and unit, and per column the row of the measured table, if it has one."""

    metric: Metric
    cells: Sequence[dict[str, Any] | None]


def write_report(run: Run, measured: pl.DataFrame | None = None) -> Path:
    """Writes ``report.html`` and ``plots/`` into the run's directory; returns the page's path.

    ``measured`` is the result of ``measure_run``, for who has it already. A run without a finished repeat
    has a page too, which says why.
    """
    measured = measure_run(run) if measured is None else measured
    flows = flows_of(run)
    text = page_template("report.html").render(
        run=run,
        title=run.scenario.get("title") or run.scenario.get("name") or run.name,
        facts=_facts(run),
        network=words.network(run.scenario),
        failures=[repeat for repeat in run.repeats if repeat.status == "failed"],
        notes=[repeat for repeat in run.repeats if repeat.note],
        columns=[flow_in_words(flow) for flow in flows],
        rows=_rows(measured, flows, "mean"),
        whole=_rows(measured, [""], "mean"),
        metrics=METRICS.values(),
        streams=_streams(run),
        drawings=_render(run_plots(run), run.path / "plots"),
    )
    page = run.path / "report.html"
    write_text(page, text)
    return page


def write_comparison(a: Run, b: Run, out: Path) -> Path:
    """Writes the page ``out`` with two runs side by side, and ``<out>-plots/`` beside it; returns ``out``."""
    compared = compare_runs(a, b)
    flows = list(dict.fromkeys([*flows_of(a), *flows_of(b)]))
    text = page_template("comparison.html").render(
        runs=[(a, _facts(a), words.network(a.scenario)), (b, _facts(b), words.network(b.scenario))],
        groups=[
            (flow_in_words(flow) or WHOLE_RUN, _rows(compared, [flow], "mean_a", "mean_b"))
            for flow in [*flows, ""]
        ],
        metrics=METRICS.values(),
        drawings=_render(comparison_plots(a, b), out.with_name(f"{out.stem}-plots")),
    )
    out.parent.mkdir(parents=True, exist_ok=True)
    write_text(out, text)
    return out


def _render(plots: Sequence[Plot], directory: Path) -> list[Drawing]:
    directory.mkdir(parents=True, exist_ok=True)
    return [render(plot, directory) for plot in plots]


def _rows(table: pl.DataFrame, flows: Sequence[str], *values: str) -> list[Row]:
    """A row for each metric that any of the flows has a value of, in the order of the registry."""
    known = {(row["metric"], row["flow"]): row for row in table.iter_rows(named=True)}
    rows = []
    for metric in METRICS.values():
        cells = [known.get((metric.name, flow)) for flow in flows]
        if any(cell is not None and cell[value] is not None for cell in cells for value in values):
            rows.append(Row(metric, cells))
    return rows


def _streams(run: Run) -> list[tuple[str, StreamRates]]:
    """Every stream with both its rates, means over the repeats that have it."""
    found: dict[tuple[str, str], list[StreamRates]] = {}
    for trace in run.traces:
        for rates in stream_rates(trace):
            found.setdefault((rates.flow, rates.kind), []).append(rates)
    return [
        (
            f"{flow_in_words(flow)}, {kind}",
            StreamRates(
                flow,
                kind,
                *(
                    float(np.mean([getattr(rates, name) for rates in repeats]))
                    for name in ("wire", "repair", "stats", "difference_bytes")
                ),
            ),
        )
        for (flow, kind), repeats in found.items()
    ]


def _facts(run: Run) -> list[tuple[str, str]]:
    """What a reader must know of a run before believing it, as pairs of word and value."""
    scenario, repeats = run.scenario, run.repeats
    finished = sum(repeat.status == "finished" for repeat in repeats)
    backends = {"sim": "simulated (virtual time)", "live": "live (real browsers, emulated network)"}
    facts = [
        ("Scenario", str(scenario.get("name", ""))),
        ("Source", str(scenario.get("source") or "")),
        ("Backend", backends.get(run.backend, run.backend)),
        ("Repeats", f"{finished} of {len(repeats)} finished"),
        ("Duration", str(scenario.get("duration", ""))),
        ("Seed", str(scenario.get("seed", ""))),
        ("Congestion control", str(scenario.get("congestion_control", {}).get("name", ""))),
        ("Emulator lateness", words.lateness(run.traces)),
        ("Versions", words.versions(run)),
        ("Machine", words.machine(run.manifest.machine)),
    ]
    return [(name, value) for name, value in facts if value]


def page_template(name: str) -> Any:
    """One of the templates of pages, by its file name without `.j2`."""
    loader = FileSystemLoader(TEMPLATES)
    environment = Environment(
        loader=loader,
        autoescape=name.endswith(".html"),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["number"] = words.number
    return environment.get_template(f"{name}.j2")
