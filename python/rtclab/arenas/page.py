"""The page of an arena."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any

import polars as pl

from rtclab.arenas import findings, plots
from rtclab.arenas.cases import Case
from rtclab.arenas.results import SIM, Arena
from rtclab.arenas.suite import TCP, label_of
from rtclab.arenas.values import CRITERIA, SHOWN, Values
from rtclab.metrics.budget import BUDGET_MS
from rtclab.metrics.statistics import BOOTSTRAP_DRAWS
from rtclab.phrases import count
from rtclab.report import render
from rtclab.report.words import machine as machine_in_words
from rtclab.trace import window_in_words, write_text

LIGHT, DARK = (253, 231, 220), (214, 236, 226)
"""Red, green and blue of the worst and of the best cell of the heat table."""


def write_page(arena: Arena) -> Path:
    """Writes ``arena.html``, ``arena.csv`` and ``arena-pairs.csv``; returns the path of the page.

    The page has ten parts. What a suite has no data for is a sentence there.

    Raises:
        DiskFull: no disk space is left.
    """
    write_text(arena.path / "arena.csv", _of_window(arena, arena.values.rows).write_csv())
    if arena.pairs.height:
        write_text(arena.path / "arena-pairs.csv", _of_window(arena, arena.pairs).write_csv())
    values = arena.values
    drawn = [plot for plot in (plots.pareto(values), plots.delays(values)) if plot is not None]
    controls, alike = list(values.controls), findings.alike_but_for_the_queue(values.cases)
    text = render(
        "arena.html",
        drawn,
        title=arena.suite.title,
        suite=arena.suite.name,
        controls=controls,
        colours={control: plots.look(controls, control).colour for control in controls},
        window=window_in_words(arena.window) if arena.window else "",
        short_cases=arena.short_cases,
        picks=[(pick, pick.sentence(controls)) for pick in findings.recommendations(values)],
        failures=_failures(arena),
        notes=[(name, f", {count(cases, 'case')}", note) for name, cases, note in arena.notes],
        ranks=[
            (
                value,
                plots.rank_diagram(found, controls, f"Mean rank: {value.label}"),
                findings.rank_sentence(value, found, controls),
            )
            for value, found in findings.rankings(values)
        ],
        heat=findings.heat_tables(values),
        shade=_shade,
        cell=lambda case, control: _cell(arena, case, control),
        queues=findings.by_queue(values, alike or values.cases),
        alike=[case.name for case in alike],
        queue_values=[(CRITERIA | SHOWN)[name] for name in findings.QUEUE_VALUES],
        fairness=findings.fairness(arena.pairs, controls),
        columns=[*controls, *TCP],
        spreads=findings.spreads(values),
        both=_both(arena),
        left_out=arena.left_out,
        facts=_facts(arena),
        cases=arena.suite.cases,
        measures=[*CRITERIA.values(), *SHOWN.values()],
        seeds=_seeds(values),
        traces=arena.traces,
        budget=BUDGET_MS,
        draws=BOOTSTRAP_DRAWS,
        yardstick=findings.YARDSTICK,
    )
    write_text(arena.page, text)
    return arena.page


def _of_window(arena: Arena, rows: pl.DataFrame) -> pl.DataFrame:
    """Rows of a CSV file; of a part of the time they have its begin and end in s, null for an open end."""
    if arena.window is None:
        return rows
    moments = zip(("from_s", "to_s"), arena.window, strict=True)
    return rows.with_columns(pl.lit(moment, pl.Float64).alias(name) for name, moment in moments)


def _failures(arena: Arena) -> list[tuple[str, str, str]]:
    """What failed, how often or when, and the reason: of cases with a control, and of pairs."""
    found = [
        (f"{control}, {case}", f", {count(repeats, 'repeat')}", reason)
        for control, case, repeats, reason in arena.values.failures().iter_rows()
    ]
    pairs = arena.pairs.filter(arena.pairs["status"] != "finished")
    for row in pairs.iter_rows(named=True):
        found.append((f"{row['first']} beside {row['second']}", f", repeat {row['repeat']}", row["reason"]))
    return found


def _both(arena: Arena) -> list[tuple[Any, ...]]:
    if arena.other_values is None:
        return []
    both = (arena.values, arena.other_values)
    return findings.simulated_and_live(*(both if arena.backend == SIM else both[::-1]))


def _shade(score: float | None) -> str:
    """The colour of a cell with a score between 0 and 1."""
    if score is None:
        return "#fff"
    height = min(max(score, 0.0), 1.0)
    mixed = (round(a + height * (b - a)) for a, b in zip(LIGHT, DARK, strict=True))
    return "#{:02x}{:02x}{:02x}".format(*mixed)


def _cell(arena: Arena, case: Case, control: str) -> tuple[str, str]:
    """Where the trace of a case with a control lies, if there is one, and the command that makes it.

    The command runs the case, or all cases if the case has no file.
    """
    place = ""
    if arena.traces:
        label = label_of(case.name, control)
        if label in arena.results.conditions:
            path = arena.results[label].repeat_path(0)
            place = path.relative_to(arena.path).as_posix() if path.is_dir() else ""
    alone = shlex.join(["rtclab", "run", case.origin, "--control", control])
    return place, alone if case.origin else f"{arena.command} --traces"


def _facts(arena: Arena) -> list[tuple[str, str]]:
    about = arena.results.runs[0]
    seconds = sum(case.scenario.duration.s for case in arena.suite.cases)
    facts = [
        ("Suite", arena.suite.name),
        ("Cases", f"{len(arena.suite.cases)}, {seconds:g} s together"),
        ("Controls", str(len(arena.controls))),
        ("Repeats", f"{arena.repeats} of each, with the same seeds for all controls"),
        ("Time", f"{window_in_words(arena.window)} of each repeat" if arena.window else ""),
        ("Backend", "simulated (virtual time)" if arena.backend == SIM else "live"),
        ("Versions", ", ".join(f"{name} {version}" for name, version in about.versions.items())),
        ("Machine", "" if arena.backend == SIM else machine_in_words(about.machine)),
        ("Command", arena.command),
    ]
    return [(name, value) for name, value in facts if value]


def _seeds(values: Values) -> str:
    """The seeds of the repeats, if all cases have the same ones."""
    rows = values.rows.select("repeat", "seed").unique().sort("repeat", "seed")
    if rows.height > rows["repeat"].n_unique():
        return "Each case has seeds of its own; arena.csv has them."
    return ", ".join(map(str, rows["seed"].to_list()))
