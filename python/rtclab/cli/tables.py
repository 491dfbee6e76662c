"""Tables and JSON that the command line prints on standard output."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from rtclab.words import decimals, path_in_words

if TYPE_CHECKING:
    import polars as pl

    from rtclab.backend.live.doctor import Check
    from rtclab.scenario import Scenario

Heading = tuple[str, Literal["left", "right"]]

_WIDTH_FOR_SOURCES = 140
"""Narrower terminals do not show the sources of scenarios. Names take up to 50 columns and are never cut."""
_WIDTH_WITHOUT_TERMINAL = 10_000
"""Wide enough for each row to be one line in a file or pipe."""

NO_SPREAD = "no spread"
"""Shown instead of an interval if all repeats gave the same value."""

MOST_ROWS = 12
"""Maximum number of rows printed without `--all`."""
FLOWS_SIDE_BY_SIDE = 3
METRICS_SIDE_BY_SIDE = 6

MOST_FLOWS = 100
"""Maximum number of flows in a table. Nobody reads more, and printing them would take longer than the run."""


def show_scenarios(scenarios: pl.DataFrame) -> None:
    """Prints name and title of each scenario, and its source if the terminal is wide.

    A rule separates the folders.
    """
    with_source = _console().width >= _WIDTH_FOR_SOURCES
    table = new_table(*whole("scenario"), *(["title", "source"] if with_source else ["title"]))
    previous = ""
    for name, title, source in scenarios.iter_rows():
        folder = name.rpartition("/")[0]
        if folder != previous:
            table.add_section()
        previous = folder
        table.add_row(name, title, *([source] if with_source else []))
    print_table(table)


def show_scenario(scenario: Scenario) -> None:
    """Prints the participants, paths and flows of a scenario."""
    from rtclab.scenario.network import paths

    print(f"{scenario.name}: {scenario.title}")
    if scenario.source:
        print(f"source: {scenario.source}")
    print(f"{scenario.duration}, {scenario.repeats} repeats, seed {scenario.seed}, records {scenario.record}")
    participants = new_table("participant", "there", "video", "audio", "congestion control")
    for name in scenario.participants:
        join_ns, leave_ns = scenario.presence_ns(name)
        video, audio = scenario.video_of(name), scenario.audio_of(name)
        participants.add_row(
            name,
            f"{join_ns / 1e9:g} s to {leave_ns / 1e9:g} s",
            f"{video.width}x{video.height} {video.frame_rate:g} frame/s, at most {video.max_bitrate}"
            if video
            else "none",
            str(audio.bitrate) if audio else "none",
            scenario.congestion_control_of(name).name,
        )
    print_table(participants)
    network = new_table("path", "what it does")
    for name, spec in paths(scenario).items():
        network.add_row(name, path_in_words(spec.model_dump(mode="json")))
    print_table(network)
    flows = new_table("flow", "crosses")
    for flow in (*scenario.flows(), *scenario.traffic_flows()):
        flows.add_row(flow.name, ", ".join(flow.paths))
    print_table(flows)


def show_measured(measured: pl.DataFrame, run: str, *, all_metrics: bool) -> None:
    """Prints all metrics, or the essential ones and how to see the others."""
    if all_metrics:
        show_metrics(measured)
        return
    from rtclab.lab import essential

    cells = {(row["metric"], row["flow"]): row for row in essential(measured).iter_rows(named=True)}
    flows = list(dict.fromkeys(flow for _, flow in cells if flow))
    print("mean over repeats [95 % interval]" if len(flows) <= FLOWS_SIDE_BY_SIDE else "mean over repeats")
    if len(flows) <= FLOWS_SIDE_BY_SIDE:
        _show_flows_side_by_side(cells, flows)
    else:
        _show_flow_by_flow(cells, flows)
    for metric, flow in cells:
        if not flow and cells[metric, flow]["mean"]:
            print(f"{metric}: {number(cells[metric, flow]['mean'])} {cells[metric, flow]['unit']}")
    print(
        f"all {measured['metric'].n_unique()} metrics: `rtclab measure {run} --all`; "
        "what they mean: `rtclab metrics`"
    )


def _show_flows_side_by_side(cells: Mapping[tuple[str, str], dict[str, Any]], flows: Sequence[str]) -> None:
    """Prints a row per metric, with mean and 95 % confidence interval of every flow."""
    table = new_table("metric", *right(*flows), "unit")
    for metric, unit in {metric: cell["unit"] for (metric, flow), cell in cells.items() if flow}.items():
        known = [cells.get((metric, flow)) for flow in flows]
        figures = [
            _with_interval(cell["mean"], cell["ci95_low"], cell["ci95_high"]) if cell else ""
            for cell in known
        ]
        table.add_row(metric, *figures, unit)
    print_table(table)


def _show_flow_by_flow(cells: Mapping[tuple[str, str], dict[str, Any]], flows: Sequence[str]) -> None:
    """Prints a row for each of the first flows, with the means of the first metrics."""
    units = {metric: cell["unit"] for (metric, flow), cell in cells.items() if flow}
    metrics = list(units)[:METRICS_SIDE_BY_SIDE]
    table = new_table("flow", *right(*(f"{metric} ({units[metric]})" for metric in metrics)))
    for flow in flows[:MOST_ROWS]:
        means = [cells[metric, flow]["mean"] if (metric, flow) in cells else None for metric in metrics]
        table.add_row(flow, *map(number, means))
    print_table(table)
    if len(flows) > MOST_ROWS:
        print(f"{len(flows) - MOST_ROWS} more flows")


def show_metrics(measured: pl.DataFrame) -> None:
    """Prints a row per metric and flow that has a value, for the first ``MOST_FLOWS`` flows."""
    measured, left_out = _first_flows(measured)
    table = new_table("metric", "flow", *right("mean", "sd", "95 % interval"), "unit")
    previous = ""
    for row in measured.iter_rows(named=True):
        if row["mean"] is None:
            continue
        interval = NO_SPREAD if row["sd"] == 0 else ""
        if row["ci95_low"] is not None:
            interval = f"{number(row['ci95_low'])} … {number(row['ci95_high'])}"
        name = "" if row["metric"] == previous else row["metric"]
        previous = row["metric"]
        table.add_row(name, row["flow"], number(row["mean"]), number(row["sd"]), interval, row["unit"])
    print_table(table)
    _tell_left_out(left_out)


def show_points(summary: pl.DataFrame, fields: Sequence[str], most: int) -> None:
    """Prints a row for each point and flow of a sweep, with the means of the first metrics.

    ``most`` is the maximum number of rows.
    """
    of_flows = summary.filter(summary["flow"] != "")
    units = dict(of_flows.select("metric", "unit").unique(maintain_order=True).iter_rows())
    metrics = list(units)[:METRICS_SIDE_BY_SIDE]
    lines: dict[tuple[str, ...], dict[str, float]] = {}
    for row in of_flows.iter_rows(named=True):
        line = lines.setdefault((*(row[field] for field in fields), row["flow"]), {})
        line[row["metric"]] = row["mean"]
    print("means over repeats")
    table = new_table(*right(*fields), "flow", *right(*(f"{metric} ({units[metric]})" for metric in metrics)))
    for key, means in list(lines.items())[:most]:
        table.add_row(*key, *(number(means.get(metric)) for metric in metrics))
    print_table(table)
    if len(lines) > most:
        print(f"{len(lines) - most} more rows are not shown; --json prints all")


def show_comparison(compared: pl.DataFrame, a: str, b: str) -> None:
    """Prints two runs side by side, with a star where the 95 % interval of the difference excludes zero."""
    compared, left_out = _first_flows(compared)
    print(f"[95 % interval]; the difference is {b} minus {a}, * where its interval excludes 0")
    table = new_table("metric", "flow", *right(a, b, "difference", "%"), "", "unit")
    previous = ""
    for row in compared.iter_rows(named=True):
        if row["mean_a"] is None and row["mean_b"] is None:
            continue
        name = "" if row["metric"] == previous else row["metric"]
        previous = row["metric"]
        table.add_row(
            name,
            row["flow"],
            _with_interval(row["mean_a"], row["ci95_low_a"], row["ci95_high_a"]),
            _with_interval(row["mean_b"], row["ci95_low_b"], row["ci95_high_b"]),
            _with_interval(row["difference"], row["difference_ci95_low"], row["difference_ci95_high"]),
            "" if row["difference_percent"] is None else f"{row['difference_percent']:+.1f}",
            "*" if row["significant"] else "",
            row["unit"],
        )
    print_table(table)
    _tell_left_out(left_out)


def _first_flows(rows: pl.DataFrame) -> tuple[pl.DataFrame, int]:
    """The rows of the whole run and of the first flows, and the number of flows left out."""
    flows = rows["flow"].unique(maintain_order=True).to_list()
    shown = [flow for flow in flows if flow][:MOST_FLOWS]
    return rows.filter(rows["flow"].is_in(["", *shown])), sum(map(bool, flows)) - len(shown)


def _tell_left_out(flows: int) -> None:
    if flows:
        print(f"{flows} more flows are not shown; --json prints all")


def show_definitions(metrics: pl.DataFrame) -> None:
    """Prints name, unit, definition and source of every metric."""
    table = new_table(*whole("metric", "unit"), "definition", "source")
    for row in metrics.iter_rows(named=True):
        table.add_row(row["metric"], row["unit"], row["definition"], row["source"])
    print_table(table)


def show_checks(checks: Sequence[Check]) -> None:
    """Prints what this machine has, what is missing, and how to install it."""
    table = new_table("", "part", "found")
    for check in checks:
        mark = "ok" if check.ok else "MISSING" if check.required else "optional"
        table.add_row(mark, check.name, check.detail if check.ok else f"{check.detail}\nhint: {check.hint}")
    print_table(table)


def number(value: float | None) -> str:
    """Formats a number with three or four digits and no exponent; None becomes empty."""
    if value is None:
        return ""
    return f"{value:.{decimals(value)}f}" if value else "0"


def _with_interval(value: float | None, low: float | None, high: float | None) -> str:
    return number(value) if low is None else f"{number(value)} [{number(low)}, {number(high)}]"


def print_json(value: object) -> None:
    """Prints one JSON document."""
    print(json.dumps(value, indent=1, ensure_ascii=False))


def right(*headings: str) -> list[Heading]:
    """Headings of right-aligned columns."""
    return [(heading, "right") for heading in headings]


def whole(*headings: str) -> list[Heading]:
    """Headings of columns whose values are never wrapped or cut."""
    return [(heading, "left") for heading in headings]


def new_table(*columns: str | Heading, tight: bool = False) -> Table:
    """An empty table in the style of all commands; ``tight`` leaves less space between columns."""
    table = Table(box=SIMPLE_HEAD, pad_edge=False, show_edge=False, padding=(0, 0 if tight else 1))
    for column in columns:
        if isinstance(column, str):
            table.add_column(column)
        else:
            table.add_column(column[0], justify=column[1], no_wrap=True)
    return table


def print_table(table: Table) -> None:
    """Prints a table and an empty line. Without a terminal, each row is one line."""
    console = _console()
    console.print(table)
    console.print()


def _console() -> Console:
    # Not cached, because standard output may be redirected between two tables.
    console = Console(markup=False, highlight=False)
    if not console.is_terminal:
        console = Console(markup=False, highlight=False, width=_WIDTH_WITHOUT_TERMINAL)
    return console
