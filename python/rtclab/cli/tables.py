"""Tables and JSON that the command line prints on standard output."""

from __future__ import annotations

import json
import math
import re
import sys
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from rich.box import SIMPLE_HEAD
from rich.cells import cell_len
from rich.console import Console, RenderableType
from rich.table import Table

from rtclab.phrases import (
    MOST_REPEATS,
    count,
    field_trials,
    name_for_commands,
    names_in_words,
    number,
    path_in_words,
    tests_in_words,
)
from rtclab.terminal import visible

if TYPE_CHECKING:
    import polars as pl

    from rtclab.backend.live.doctor import MachineCheck
    from rtclab.comparing import Comparison
    from rtclab.experiment import Results
    from rtclab.remedy import Remedies
    from rtclab.report.moved import Moved
    from rtclab.report.verdict import Findings
    from rtclab.report.why import Why
    from rtclab.scenario import Scenario, Video
    from rtclab.trace import OpenWindow, Run

Heading = tuple[str, Literal["left", "right"]]

WIDTH_WITHOUT_TERMINAL = 10_000
"""Wide enough for each row to be one line in a file or pipe."""

ALL_EQUAL = "all equal"
"""Shown instead of an interval if all repeats gave the same value."""

MOST_ROWS = 12
"""Maximum number of rows printed without `--all`."""
MOST_PEOPLE = 12
"""Of a meeting of more people, those who suffer most are printed, and not who saw whom."""
MOST_WORST = 5
MARKED = {"bad": "!!", "poor": "!", "good": "", "": ""}
"""How marks are printed behind a number."""
MOST_POINTS = 60
"""Maximum number of rows of a sweep."""
FLOWS_SIDE_BY_SIDE = 3
MUCH = 1.5
"""Flows differ much in a metric if one value is this many times another."""
METRICS_SIDE_BY_SIDE = 6
FIRST_TO_KEEP = (
    *("receiving_rate", "stats_receiving_rate", "stats_sending_rate", "freeze_duration", "packet_loss"),
    *("unseen_loss", "rtt", "queuing_delay_p95", "delay_variation_p95", "utilisation", "frame_rate"),
    *("setup_time", "freeze_count", "frame_height"),
)
"""Where there is no room for all metrics of a table, the last of these are left out first."""
MOST_NAMES = 5
"""Flows that a table leaves out are named if they are at most this many."""
TCP_METRICS = ("tcp_throughput", "tcp_rtt", "tcp_retransmissions")
FAILED_CONTROL = re.compile("congestion control `([^`]+)`")
"""Begin of the reason of a repeat in which a control of the user's own failed."""
WIDTH_OF_TEXT = 100
"""Maximum width of running text."""

MOST_FLOWS = 100
"""Maximum number of flows in a table. Printing more would take longer than the run."""


def show_why(found: Why, *, full: bool) -> None:
    """Prints the sentences of each flow and, if ``full``, the accounts behind them."""
    if not found.accounts:
        print("no repeat finished with media, so there is nothing to explain")
    for account in found.accounts:
        print(textwrap.fill(" ".join(account.sentences), WIDTH_OF_TEXT, subsequent_indent="  "))
        if full:
            table = new_table(*whole("account", "what", "where"), *right("value"), "unit")
            for row in account.rows():
                table.add_row(row["account"], row["what"], row["where"], f"{row['value']:.4g}", row["unit"])
            print_table(table)
    if found.left_out:
        more = count(found.left_out, "more flow")
        print(f"video of {more} froze for a shorter time; name flows to see their reasons")


def show_remedies(found: Remedies) -> None:
    """Prints what each change does, the most helpful first, and whether simulations show the real call."""
    from rtclab.metrics import METRICS
    from rtclab.report import number

    for row in found.trust.iter_rows(named=True):
        within = "lies in" if row["low"] <= row["call"] <= row["high"] else "is close to"
        print(
            f"{row['metric']} of the call, {number(row['call'])}, "
            f"{within if row['shown'] else 'lies outside of'} what one simulated call has: "
            f"{number(row['low'])} to {number(row['high'])}"
        )
    print(textwrap.fill(found.sentence, WIDTH_OF_TEXT, subsequent_indent="  "))
    if found.refusal is not None:
        if found.other_goals:
            print(f"hint: something improves {' and '.join(found.other_goals)}: choose it with --for")
        return
    rows = found.table()
    metrics = list(dict.fromkeys([found.goal, *rows["metric"]]))
    headings = [f"{METRICS[name].label}, {METRICS[name].unit}".strip(", ") for name in metrics]
    table = new_table(*whole("change", "", found.goal), *right(*headings))
    for change, of_change in rows.group_by("change", maintain_order=True):
        by_metric = {row["metric"]: row for row in of_change.iter_rows(named=True)}
        cells = [_change_in_words(by_metric[name]) for name in metrics]
        goal = by_metric[found.goal]
        table.add_row(str(change[0]), goal["kind"], goal["verdict"], *cells)
    unchanged = {row["metric"]: row["base"] for row in rows.iter_rows(named=True)}
    table.add_row("unchanged", "", "", *(number(unchanged[name]) for name in metrics))
    print(f"changes by {found.goal}, mean of {found.repeats} simulated calls [95 % interval]")
    print_table(table)


def _change_in_words(row: Mapping[str, Any]) -> str:
    """The difference that a change makes, with its interval: ``-2.8 [-3.1, -2.5]``."""
    from rtclab.report import number

    if row["difference"] is None:
        return "–"
    if not row["difference"]:
        return "±0"
    low, high = (number(row[name], row["difference"]) for name in ("difference_low", "difference_high"))
    sign = "+" if row["difference"] > 0 else ""
    return f"{sign}{number(row['difference'])} [{low}, {high}]"


def show_scenario(scenario: Scenario) -> None:
    """Prints the participants, paths and flows of a scenario."""
    from rtclab.scenario.network import paths

    print(f"{scenario.name}: {scenario.title}")
    if scenario.source:
        print(f"source: {scenario.source}")
    repeats = count(scenario.repeats, "repeat")
    print(f"{scenario.duration}, {repeats}, seed {scenario.seed}, records {scenario.record}")
    participants = new_table(*whole("participant"), "present", "video", "audio", "simulated control")
    for name in scenario.participants:
        video, audio = scenario.video_of(name), scenario.audio_of(name)
        join_ns, leave_ns = scenario.presence_ns(name)
        pause = scenario.participants[name].pause
        pauses = "" if pause is None else f", pauses {pause.start} to {pause.end}"
        participants.add_row(
            name,
            f"{join_ns / 1e9:g} s to {leave_ns / 1e9:g} s{pauses}",
            _video_in_words(video) if video else "none",
            str(audio.bitrate) if audio else "none",
            scenario.congestion_control_of(name).name,
        )
    print_table(participants)
    for given, names in field_trials(scenario.model_dump(mode="json")).items():
        print(f"field trials of {names_in_words(names, MOST_NAMES)}, in live calls only: {given}\n")
    for line in _own_in_words(scenario):
        print(line)
    network = new_table(*whole("path"), "what it does")
    for name, spec in paths(scenario).items():
        network.add_row(name, path_in_words(spec.model_dump(mode="json")))
    print_table(network)
    flows = new_table(*whole("flow"), "crosses")
    for flow in (*scenario.flows(), *scenario.traffic_flows()):
        flows.add_row(flow.name, ", ".join(flow.paths))
    print_table(flows)


def _own_in_words(scenario: Scenario) -> list[str]:
    """One line for each page, script and server of the user's own."""
    lines = []
    for name in scenario.pages():
        own = scenario.participants[name]
        steps = f", {count(len(own.steps), 'step')}" if own.steps else ""
        script = f", driven by {own.script}" if own.script else ""
        lines.append(f"{name} opens {own.page}{steps}{script}")
    for name, server in scenario.servers.items():
        if server.command is not None:
            port = "" if server.port is None else f", listens at port {server.port}"
            lines.append(f"{name} runs {server.command}{port}")
    return [*lines, ""] if lines else []


def _video_in_words(video: Video) -> str:
    """The pictures that a participant sends. A phone sends its camera's, if they are smaller."""
    from rtclab.scenario import Bitrate
    from rtclab.scenario.device import native_video

    sent: dict[str, Any] = native_video(video)
    device = "" if video.device == "desktop" else f" ({video.device})"
    size = f"{sent['width']}x{sent['height']} {sent['frame_rate']:g} frame/s"
    return f"{size}, at most {Bitrate(bps=sent['max_bps'])}{device}"


def show_measured(measured: pl.DataFrame, run: Run, *, all_metrics: bool, most: int = MOST_ROWS) -> None:
    """Prints all metrics, or the essential ones of at most ``most`` flows and how to see the others."""
    if all_metrics:
        print(subject(run))
        show_metrics(measured)
        return
    from rtclab.experiment import essential

    of_tcp = measured.filter(measured["metric"] == "tcp_throughput", measured["mean"].is_not_null())
    with_tcp = of_tcp["flow"].to_list()
    rows = essential(measured)
    cells = {
        (row["metric"], row["flow"]): row for row in rows.iter_rows(named=True) if row["flow"] not in with_tcp
    }
    flows = _participants_first(run, list(dict.fromkeys(flow for _, flow in cells if flow)))
    side_by_side = len(flows) <= FLOWS_SIDE_BY_SIDE
    intervals = any(
        cell["ci95_low"] is not None and (side_by_side if flow else cell["mean"])
        for (_, flow), cell in cells.items()
    )
    print(subject(run) + (" [95 % confidence interval]" if intervals else ""))
    if side_by_side:
        _show_flows_side_by_side(cells, flows)
    else:
        _show_flow_by_flow(cells, flows, most=most)
    if with_tcp:
        known = {(row["metric"], row["flow"]): row for row in measured.iter_rows(named=True)}
        tcp = {(metric, flow): known[metric, flow] for metric in TCP_METRICS for flow in with_tcp}
        _show_flow_by_flow(tcp, with_tcp, "TCP flow")
    for (metric, flow), cell in cells.items():
        if not flow and cell["mean"]:
            mean = _with_interval(cell["mean"], cell["ci95_low"], cell["ci95_high"])
            print(f"{metric}: {mean} {cell['unit']}")
    name = name_for_commands(run.path)
    print(f"all metrics: `rtclab measure {name} --all`; what they mean: `rtclab metrics`")


def subject(run: Run, repeats: int | None = None) -> str:
    """What a table is about: ``first-call, simulated, 60 s: mean of 5 repeats``.

    ``repeats`` is the number of repeats in the table, by default all that finished.
    """
    from rtclab.report import words
    from rtclab.scenario.units import Duration
    from rtclab.trace import closed

    over = str(run.scenario["duration"])
    if run.window is not None:
        begin_s, end_s = closed(run.window, Duration.parse(over).s)
        over = f"{begin_s:g} s to {end_s:g} s of {over}"

    what = f"{run.scenario['name']}, {words.kind_in_words(run.backend)}, {over}"
    if repeats is not None:
        return f"{what}: mean of {count(repeats, 'repeat')}"
    finished = f"{words.finished(run)} repeat{'' if run.planned == 1 else 's'}"
    return f"{what}: mean of {finished}" if run.finished > 1 else f"{what}, {finished}"


def print_incomplete(results: Results) -> bool:
    """Says on standard error which repeats have not run to their end, and how to run them.

    Returns whether there are such repeats.
    """
    if results.unfinished:
        of = f"{results.unfinished} of {results.planned}"
        print(f"{results.name}: {of} repeats did not run to their end.", file=sys.stderr)
        print(how_to_continue(results), file=sys.stderr)
    return bool(results.unfinished)


def how_to_continue(results: Results) -> str:
    """The hint that names the command to continue a run or a sweep.

    A congestion control of the user's own would fail again, unless its file is mended first.
    """
    again = f"`rtclab {'sweep' if results.fields else 'run'} --resume {results.path}`"
    errors = results.outcomes().filter(status="error")["reason"].to_list()
    if controls_of(errors):
        return f"  hint: mend {' and '.join(controls_of(errors))}, and run what is left with {again}"
    return f"  hint: continue with {again}"


def controls_of(reasons: Iterable[str]) -> list[str]:
    """The congestion controls of the user's own that failed, each once, from the reasons of repeats."""
    found = (FAILED_CONTROL.match(reason) for reason in reasons)
    return list(dict.fromkeys(Path(one[1]).name for one in found if one is not None))


def _participants_first(run: Run, flows: Sequence[str]) -> list[str]:
    """The flows; flows between participants come before flows to and from servers."""
    between = {
        name
        for trace in run.traces
        for name, flow in trace.manifest.flows.items()
        if {flow.sender, flow.receiver} <= run.scenario["participants"].keys()
    }
    return sorted(flows, key=lambda flow: flow not in between)


def _show_flows_side_by_side(cells: Mapping[tuple[str, str], dict[str, Any]], flows: Sequence[str]) -> None:
    """Prints a row per metric, with mean and 95 % confidence interval of every flow.

    If the terminal is too narrow, each flow has a table of its own.
    """
    table = new_table(*whole("metric"), *right(*flows), *whole("unit"))
    for metric, unit in {metric: cell["unit"] for (metric, flow), cell in cells.items() if flow}.items():
        known = [cells.get((metric, flow)) for flow in flows]
        figures = [
            _with_interval(cell["mean"], cell["ci95_low"], cell["ci95_high"]) if cell else ""
            for cell in known
        ]
        table.add_row(metric, *figures, unit)
    if fits(table):
        print_table(table)
        return
    for column in range(1, len(flows) + 1):
        print_table(part(table, [0, column, len(flows) + 1]))


def _show_flow_by_flow(
    cells: Mapping[tuple[str, str], dict[str, Any]],
    flows: Sequence[str],
    heading: str = "flow",
    most: int = MOST_ROWS,
) -> None:
    """Prints a row for each of the worst flows, with the means of the most important metrics."""
    units = {metric: cell["unit"] for (metric, flow), cell in cells.items() if flow}
    metrics = _most_important(list(units))
    table = new_table(*whole(heading), *right(*(f"{metric} ({units[metric]})" for metric in metrics)))
    shown = _with_the_worst(cells, flows, most)
    for flow in shown:
        means = [cells[metric, flow]["mean"] if (metric, flow) in cells else None for metric in metrics]
        table.add_row(flow, *map(number, means))
    _print_columns_that_fit(table, metrics)
    if len(shown) < len(flows):
        more = _more([flow for flow in flows if flow not in shown])
        receivers = [flow.rpartition("->")[2] for flow in shown]
        example = f"*->{max(receivers, key=receivers.count)}"  # those of the receiver that most of them have
        print(f"and {more}; the worst are shown; --flow '{example}' chooses, --all has all")


def _with_the_worst(
    cells: Mapping[tuple[str, str], dict[str, Any]], flows: Sequence[str], most: int
) -> list[str]:
    """The flows with the worst values, at most ``most``, in the order of ``flows``.

    Of a metric whose values differ much, the worst value counts 1 and the best 0. A flow without a value that
    other flows to its receiver have counts 1, too: it never connected. Sums are compared.
    """
    if len(flows) <= most:
        return list(flows)
    scores = dict.fromkeys(flows, 0.0)
    for name in {metric for metric, _ in cells}:
        known = {flow: cells[name, flow] for flow in flows if (name, flow) in cells}
        means = {flow: cell["mean"] for flow, cell in known.items() if cell["better"]}
        low, high = min(means.values(), default=0.0), max(means.values(), default=0.0)
        if high > MUCH * low:
            best = low if known[next(iter(means))]["better"] == "lower" else high
            for flow, mean in means.items():
                scores[flow] += abs(mean - best) / (high - low)
        receivers = {flow.rpartition("->")[2] for flow in means}
        for flow in flows:
            scores[flow] += flow not in known and flow.rpartition("->")[2] in receivers
    chosen = sorted(flows, key=scores.__getitem__, reverse=True)[:most]
    return [flow for flow in flows if flow in chosen]


def show_people(run: Run, found: Findings) -> None:
    """Prints how the people of a meeting saw each other: a matrix, or of many people the worst off."""
    from rtclab.report.people import people_of
    from rtclab.report.quality import judged

    people = people_of(run, found, judged(run, found.means, found.media))
    if people is None:
        return
    if len(people.receivers) > MOST_PEOPLE:
        for card in people.cards[:MOST_WORST]:
            print_text(f"{card.name}: {card.received}", hanging=2)
        more = count(len(people.cards) - MOST_WORST, "other person").replace("persons", "people")
        print(f"{more} saw them better; the page has all")
        return
    table = new_table(*whole(""), *right(*people.senders))
    for name, row in zip(people.receivers, people.rows, strict=True):
        table.add_row(name, *("" if cell is None else f"{cell.text}{MARKED[cell.mark]}" for cell in row))
    print_table(table)
    print("rows watch columns: s frozen per minute, or what is worse; × no picture; ! poor, !! bad")


def show_metrics(measured: pl.DataFrame) -> None:
    """Prints a row per metric and flow that has a value, for the first ``MOST_FLOWS`` flows."""
    measured, left_out = _first_flows(measured)
    table = new_table(*whole("metric", "flow"), *right("mean", "sd", "95 % interval"), *whole("unit"))
    previous = ""
    for row in measured.iter_rows(named=True):
        if row["mean"] is None:
            continue
        interval = ALL_EQUAL if row["sd"] == 0 else ""
        if row["ci95_low"] is not None:
            interval = f"{number(row['ci95_low'])} … {number(row['ci95_high'])}"
        name = "" if row["metric"] == previous else row["metric"]
        previous = row["metric"]
        table.add_row(name, row["flow"], number(row["mean"]), number(row["sd"]), interval, row["unit"])
    print_table(table if fits(table) else part(table, [0, 1, 2, 4, 5]))
    _tell_left_out(left_out)


def show_points(
    summary: pl.DataFrame,
    window: OpenWindow | None,
    fields: Sequence[str],
    *,
    all_metrics: bool,
) -> None:
    """Prints a row for each condition and flow, with the means of the most important or of all metrics.

    Args:
        summary: the means.
        window: the time that they are of; None for all of it.
        fields: the columns that tell conditions apart: varied fields, or the label.
        all_metrics: print as many metrics as there is room for.
    """
    from rtclab.trace import window_in_words

    of_flows = summary.filter(summary["flow"] != "")
    units = dict(of_flows.select("metric", "unit").unique(maintain_order=True).iter_rows())
    metrics = list(units) if all_metrics else _most_important(list(units)) or list(units)
    lines: dict[tuple[str, ...], dict[str, float]] = {}
    counts: dict[tuple[str, ...], int] = {}
    for row in of_flows.iter_rows(named=True):
        key = (*(row[field] for field in fields), row["flow"])
        lines.setdefault(key, {})[row["metric"]] = row["mean"]
        counts[key] = max(counts.get(key, 0), row["repeats"])
    repeats = summary["repeats"].max()
    fewer = len(set(counts.values())) > 1  # means of the repeats that did not fail may look better
    of = f"mean of {repeats} repeats" if isinstance(repeats, int) and repeats > 1 else "1 repeat"
    print(of if window is None else f"{of}, {window_in_words(window)}")
    headings = right(*(f"{metric} ({units[metric]})" if units[metric] else metric for metric in metrics))
    keys = whole(*fields) if fields == ["condition"] else right(*fields)
    table = new_table(*keys, *whole("flow"), *right(*(["repeats"] if fewer else [])), *headings)
    for key, means in list(lines.items())[:MOST_POINTS]:
        cells = [str(counts[key])] if fewer else []
        table.add_row(*key, *cells, *(number(means.get(metric)) for metric in metrics))
    _print_columns_that_fit(table, metrics)
    if len(lines) > MOST_POINTS:
        print(f"{count(len(lines) - MOST_POINTS, 'more row')} not shown; --json prints all")


def show_comparison(
    comparison: Comparison, compared: pl.DataFrame, shown: pl.DataFrame, moved: Mapping[str, Moved]
) -> None:
    """Prints by how much runs differ from the first, and then what differs between them and their metrics.

    ``compared`` is the comparison's table, ``shown`` its rows to print, and ``moved`` which causes moved. If
    the terminal is too narrow, each further run has a table of its own, and intervals are left out.
    """
    from rtclab.experiment import MARGIN_PERCENT

    runs, labels = comparison.runs, comparison.labels
    found_pairs = comparison.differences_by_condition.pairs
    pairs = [paired or 0 for counts in found_pairs.values() for paired in counts]
    several = len(labels) > 2
    for label, sentence in comparison.sentences().items():
        why = f" {moved[label].sentence}" if comparison.is_of_runs else ""
        print_text(f"{f'{label}: ' if several else ''}{sentence}{why}", hanging=2 if several else 0)
    print()
    for label, one in zip(labels, runs, strict=True):
        if len(one.conditions) == 1:
            paired = max(pairs) if label == labels[0] else found_pairs[label][0] or 0
            _show_side(label, one.run, paired)
        else:
            shared, every = len(found_pairs.get(label, one.conditions)), len(one.conditions)
            of = "" if shared == every else f", {shared} of them compared"
            print(f"{label}: {one.name}, {count(every, 'condition')}{of}")
    for label, counts in found_pairs.items():
        if counts and not any(paired != 0 for paired in counts):
            print(f"{label}: no repeat finished in both runs, so nothing is compared")
    print()
    _show_differences(comparison)
    for label, sentence in zip(labels, comparison.verdicts(), strict=False):
        print_text(f"{label}: {sentence}", hanging=2)
    print()
    rows, left_out = _first_flows(shown)
    names = labels
    found = [_comparison(rows, names, intervals=True)]
    if not fits(found[0]) and len(labels) > 2:
        found = [
            _comparison(rows.filter(label=label), [labels[0], label], intervals=True) for label in labels[1:]
        ]
    told = "[95 % confidence interval]"
    if not all(map(fits, found)):
        names = [chr(ord("A") + index) for index in range(len(labels))]
        told = ", ".join(f"{name} is {label}" for name, label in zip(names, labels, strict=True))
        found = [
            _comparison(rows.filter(label=label), [names[0], name], intervals=False)
            for name, label in zip(names[1:], labels[1:], strict=True)
        ]
    minus = f"{names[1]} minus {names[0]}" if len(names) == 2 else f"the run minus {names[0]}"
    asked = comparison.metrics is not None or comparison.flows is not None
    stated = compared.filter("hypothesis")["p"].count()
    tests = tests_in_words(compared["p"].count(), pairs, asked=asked, stated=stated)
    print_line(f"{told}; the difference is {minus}, * where it is more than chance ({tests})")
    for table in found:
        print_table(table)
    marks = {
        CONSTANT: "the difference is the same in every repeat",
        WITHIN: f"the interval excludes a difference of more than {MARGIN_PERCENT} %",
        MORE: "too few repeats; n=37 means that 37 would detect a difference of this size",
    }
    cells = {mark for row in rows.iter_rows(named=True) for mark in marks if _mark(row).startswith(mark)}
    if cells:
        print_text("; ".join(f"{mark}: {text}" for mark, text in marks.items() if mark in cells))
    _tell_left_out(left_out)


def _show_side(label: str, run: Run, paired: int) -> None:
    """Says what one side of a comparison is, and how many of its repeats have no partner."""
    name = "" if label in (run.name, run.name.partition(", ")[2]) else f"{run.name}, "
    print(f"{label}: {name}{subject(run, repeats=paired or None)}")
    alone = sum(entry.status == "finished" for entry in run.repeats) - paired
    if paired and alone:
        print(f"{label}: {count(alone, 'repeat')} without a partner left out")


def _show_differences(comparison: Comparison) -> None:
    """Prints a row for each of the first fields that differ between the scenarios."""
    differing = comparison.differences()
    if differing.is_empty():
        print("what differs: nothing; all ran the same scenario on the same backend\n")
        return
    table = new_table(*whole("what differs", *comparison.labels))
    for row in differing.head(MOST_ROWS).iter_rows():
        table.add_row(*row)
    if not fits(table):
        for column in table.columns[1:]:
            column.no_wrap = False
    print_table(table)
    if differing.height > MOST_ROWS:
        print(f"and {count(differing.height - MOST_ROWS, 'more field')}; a page (--page) has all\n")


def _comparison(compared: pl.DataFrame, names: Sequence[str], *, intervals: bool) -> Table:
    """A row for each metric and flow with a value in any run; ``names`` are headings, one for each run."""
    differences = [
        (name, align) for _ in names[1:] for name, align in (*right("difference", "%"), *whole(""))
    ]
    condition = [] if (compared["condition"] == "").all() else ["condition"]
    stated = ["stated"] if compared["hypothesis"].any() else []
    headings = (*whole("metric", "flow", *condition), *right(*names), *differences, *whole("unit", *stated))
    table = new_table(*headings, tight=not intervals)
    previous = ""
    # All conditions of a metric and flow one after another.
    places = compared.select("metric", "flow").unique(maintain_order=True).with_row_index("place")
    placed = compared.join(places, on=["metric", "flow"], maintain_order="left")
    rows = placed.sort("place", maintain_order=True)
    for (metric, flow, of), of_runs in rows.group_by("metric", "flow", "condition", maintain_order=True):
        cells = of_runs.to_dicts()
        means = [cell["new"] for cell in cells]
        first = next((cell for cell in cells if cell["base"] is not None), cells[0])
        if first["base"] is None and not any(mean is not None for mean in means):
            continue
        texts = [_figure(first, "base", "base_low", "base_high", intervals)]
        texts += [_figure(cell, "new", "new_low", "new_high", intervals) for cell in cells]
        for cell in cells:
            percent = cell["difference_percent"]
            ends = ("difference", "difference_low", "difference_high")
            texts += [
                _figure(cell, *ends, intervals),
                "" if percent is None else f"{percent:+.1f}",
                _mark(cell),
            ]
        keys = [str(flow), *([str(of)] if condition else [])]
        said = ["yes" if first["hypothesis"] else ""] if stated else []
        table.add_row("" if metric == previous else str(metric), *keys, *texts, cells[0]["unit"], *said)
        previous = str(metric)
    return table


def _figure(row: Mapping[str, Any], mean: str, low: str, high: str, intervals: bool) -> str:
    return _with_interval(row[mean], row[low], row[high]) if intervals else number(row[mean])


CONSTANT, WITHIN, MORE = "*=", "~", "n"


def _mark(row: Mapping[str, Any]) -> str:
    """The verdict on a difference in a few characters; empty if both runs are equal or one is unknown."""
    match row["verdict"], row["repeats_needed"]:
        case "differs", _:
            return "*"
        case "constant difference", _:
            return CONSTANT
        case "no difference seen", _ if row["difference"]:
            return WITHIN
        case "too few repeats to tell", int(needed):
            return f"{MORE}={needed}" if needed <= MOST_REPEATS else f"{MORE}>{MOST_REPEATS}"
        case "too few repeats to tell", _:
            return f"{MORE}=?"
    return ""


def _first_flows(rows: pl.DataFrame) -> tuple[pl.DataFrame, list[str]]:
    """The rows of the whole run and of the first flows, and the flows left out."""
    flows = [flow for flow in rows["flow"].unique(maintain_order=True) if flow]
    return rows.filter(rows["flow"].is_in(["", *flows[:MOST_FLOWS]])), flows[MOST_FLOWS:]


def tell_feedback(flows: Sequence[str]) -> None:
    """Says which flows a table leaves out because they carry feedback alone."""
    if flows:
        names = f" ({', '.join(flows)})" if len(flows) <= MOST_NAMES else ""
        print(f"{count(len(flows), 'flow')} of feedback alone not shown{names}; --flow '*' shows all flows")


def _tell_left_out(flows: Sequence[str]) -> None:
    if flows:
        print(f"not shown: {_more(flows)}; --json prints all")


def _more(flows: Sequence[str]) -> str:
    """The number of flows, and their names if they are few: ``1 more flow: sfu->alice``."""
    names = f": {', '.join(flows)}" if len(flows) <= MOST_NAMES else ""
    return count(len(flows), "more flow") + names


def show_definitions(metrics: pl.DataFrame) -> None:
    """Prints name, unit, definition and source of metrics, and which sources of traces know them."""
    from rtclab.metrics import METRICS

    for row in metrics.iter_rows(named=True):
        print(f"{row['metric']} ({row['unit']})" if row["unit"] else row["metric"])
        known = METRICS[row["metric"]].known_in_words
        for text in (row["definition"], f"source: {row['source']}", f"known: {known}" if known else ""):
            if text:
                print_text(text, indent=2)
        print()


def print_text(text: str, *, indent: int = 0, hanging: int = 0) -> None:
    """Prints running text, wrapped at the terminal's width; ``hanging`` indents further lines more."""
    width = min(_console().width, WIDTH_OF_TEXT)
    first, others = " " * indent, " " * (indent + hanging)
    print(textwrap.fill(text, width, initial_indent=first, subsequent_indent=others))


def print_line(text: str) -> None:
    """Prints a line, which a narrow terminal wraps between words."""
    print(textwrap.fill(text, _console().width))


def show_checks(checks: Sequence[MachineCheck]) -> None:
    """Prints the checks of this machine, with hints on how to install missing parts."""
    table = new_table("", "part", "found")
    for check in checks:
        mark = "ok" if check.ok else "MISSING" if check.required else "optional"
        table.add_row(mark, check.name, check.detail if check.ok else f"{check.detail}\nhint: {check.hint}")
    print_table(table)


def _with_interval(value: float | None, low: float | None, high: float | None) -> str:
    return number(value) if low is None else f"{number(value)} [{number(low)}, {number(high)}]"


def print_json(value: object) -> None:
    """Prints one JSON document. NaN and infinite numbers, which JSON does not have, become null."""
    print(json.dumps(_finite(value), indent=1, ensure_ascii=False, allow_nan=False))


def print_rows(rows: pl.DataFrame, *, as_csv: bool = False, as_json: bool = False, **about: object) -> bool:
    """Prints rows as CSV or JSON if one was asked for, and returns whether it was.

    In JSON, rows that something is said ``about`` are in ``metrics``, beside it.
    """
    if as_json:
        print_json({**about, "metrics": rows.to_dicts()} if about else rows.to_dicts())
    elif as_csv:
        sys.stdout.write(rows.write_csv())
    return as_json or as_csv


def _finite(value: object) -> object:
    match value:
        case float():
            return value if math.isfinite(value) else None
        case Mapping():
            return {key: _finite(inner) for key, inner in value.items()}
        case list() | tuple():
            return [_finite(inner) for inner in value]
    return value


def right(*headings: str) -> list[Heading]:
    """Headings of right-aligned columns."""
    return [(heading, "right") for heading in headings]


def whole(*headings: str) -> list[Heading]:
    """Headings of columns whose values are never wrapped or cut."""
    return [(heading, "left") for heading in headings]


class ShownTable(Table):
    """A table that shows control characters in its headings and cells."""

    def add_column(self, header: RenderableType = "", *args: Any, **options: Any) -> None:
        """Adds a column."""
        super().add_column(_visible(header), *args, **options)

    def add_row(self, *cells: RenderableType | None, **options: Any) -> None:
        """Adds a row."""
        super().add_row(*map(_visible, cells), **options)


def _visible(cell: Any) -> Any:
    return visible(cell) if isinstance(cell, str) else cell


def new_table(*columns: str | Heading, tight: bool = False) -> Table:
    """An empty table in the style of all commands; ``tight`` leaves less space between columns."""
    table = ShownTable(box=SIMPLE_HEAD, pad_edge=False, show_edge=False, padding=(0, 0 if tight else 1))
    for column in columns:
        if isinstance(column, str):
            table.add_column(column)
        else:
            table.add_column(column[0], justify=column[1], no_wrap=True)
    return table


def part(table: Table, columns: Sequence[int]) -> Table:
    """A table of some columns of another."""
    chosen = ShownTable(box=table.box, pad_edge=False, show_edge=False, padding=table.padding)
    for column in (table.columns[index] for index in columns):
        chosen.add_column(column.header, justify=column.justify, no_wrap=column.no_wrap)
    for cells in zip(*(table.columns[index].cells for index in columns), strict=True):
        chosen.add_row(*cells)
    return chosen


def fits(table: Table) -> bool:
    """Whether the terminal is wide enough for a table; files and pipes always are."""
    return _needed_width(table) <= _console().width


def columns_that_fit(table: Table, keys: int) -> int:
    """The number of columns from the left that fit: at least the first ``keys`` and one more."""
    for shown in range(len(table.columns), keys + 1, -1):
        if fits(part(table, range(shown))):
            return shown
    return min(keys + 1, len(table.columns))


def _most_important(metrics: list[str]) -> list[str]:
    """At most ``METRICS_SIDE_BY_SIDE`` of some metrics, in their order."""
    metrics = list(metrics)
    while len(metrics) > METRICS_SIDE_BY_SIDE:
        metrics.remove(_least_important(metrics))
    return metrics


def _least_important(metrics: Sequence[str]) -> str:
    """The metric to leave out first. Metrics without a rank go before the others, from the right."""
    rank = {name: index for index, name in enumerate(FIRST_TO_KEEP)}
    return max(metrics, key=lambda name: (rank.get(name, len(rank)), metrics.index(name)))


def _print_columns_that_fit(table: Table, metrics: Sequence[str]) -> None:
    """Prints the table, whose last columns are metrics, without those that do not fit, which are named."""
    keys = len(table.columns) - len(metrics)
    left_out: list[str] = []
    shown = table
    if not fits(table):
        for column in table.columns:
            # Fields have a line for the last key, as in `link.up.capacity`, and for each of several.
            in_lines = re.sub(r"(\.)(?=[^.+]+(?:\+|$))|(\+)", r"\1\2\n", str(column.header))
            column.header = in_lines.replace(" (", "\n(")
        kept = list(metrics)
        while not fits(shown) and len(kept) > 1:
            kept.remove(_least_important(kept))
            shown = part(table, [*range(keys), *(keys + metrics.index(metric) for metric in kept)])
        left_out = [metric for metric in metrics if metric not in kept]
    print_table(shown)
    if left_out:
        print_text(f"the terminal is too narrow for {', '.join(left_out)}; --json has all")
        print()


def print_table(table: Table) -> None:
    """Prints a table and an empty line. Without a terminal, each row is one line.

    Lines become longer than the terminal if names and values would be cut otherwise.
    """
    console = _console()
    # Rich never prints wider than the console, and would leave out the narrowest columns instead.
    console.width = max(console.width, _needed_width(table))
    console.print(table, crop=False)
    console.print()


def _needed_width(table: Table) -> int:
    """The smallest width at which no word, and nothing in a column that is kept whole, is broken."""
    for column in table.columns:
        texts = [str(cell) for cell in (column.header, *column.cells)]
        split = str.splitlines if column.no_wrap else str.split
        column.min_width = max((cell_len(piece) for text in texts for piece in split(text)), default=0)
    console = Console(width=WIDTH_WITHOUT_TERMINAL)
    return console.measure(table).minimum


class _Output(Console):
    """Standard output. When its reader has exited, it raises the error; rich would exit with 1."""

    def on_broken_pipe(self) -> None:
        raise


def _console() -> Console:
    # Not cached, because standard output may be redirected between two tables.
    console = _Output(markup=False, highlight=False)
    if not console.is_terminal:
        console = _Output(markup=False, highlight=False, width=WIDTH_WITHOUT_TERMINAL)
    return console
