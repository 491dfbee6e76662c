"""The page of an arena."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from math import isnan
from pathlib import Path
from typing import Any

import polars as pl

from rtclab.arenas import findings, plots
from rtclab.arenas.cases import Case
from rtclab.arenas.results import SIM, Arena
from rtclab.arenas.suite import TCP, label_of
from rtclab.arenas.values import CRITERIA, SHOWN, Values
from rtclab.metrics.budget import BUDGET_MS
from rtclab.metrics.statistics import BOOTSTRAP_DRAWS, means_of_known
from rtclab.phrases import count, names_in_words
from rtclab.report import number, render
from rtclab.report.answer import Answer, Figure, NextStep
from rtclab.report.words import grouped, kind_in_words, machine_in_words
from rtclab.trace import window_in_words, write_text

WHOLE_SUITE = "access"
"""The suite with at least ``FEWEST_CASES`` cases for every use."""
LIGHT, DARK = (253, 231, 220), (214, 236, 226)
"""Red, green and blue of the worst and of the best cell of the heat table."""


def write_page(arena: Arena) -> Path:
    """Writes ``arena.html``, ``arena.csv`` and ``arena-pairs.csv``; returns the path of the page.

    A part without data is left out. What the cases do not decide is one sentence below the answer.

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
        about=_about(arena),
        controls=controls,
        colours={control: plots.look(controls, control).colour for control in controls},
        window=window_in_words(arena.window) if arena.window else "",
        short_cases=arena.short_cases,
        found=answer(arena),
        undecided=undecided(arena),
        picks=[(pick, pick.sentence(controls)) for pick in findings.recommendations(values) if pick.winner],
        to_rank=findings.fewest_cases_to_rank(len(controls)),
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
        queues=[
            row
            for row in findings.by_queue(values, alike or values.cases)
            if any(cell is not None for cell in row[3])
        ],
        counted=(count(len(controls), "congestion control"), count(len(values.cases), "case")),
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
        fewest=findings.FEWEST_CASES,
    )
    write_text(arena.page, text)
    return arena.page


def _about(arena: Arena) -> str:
    """What was run of each case: ``simulated, 3 repeats of 60 s``."""
    lasts = sorted({case.scenario.duration.s for case in arena.suite.cases})
    span = " to ".join(f"{one:g}" for one in dict.fromkeys([lasts[0], lasts[-1]])) if lasts else ""
    repeats = count(arena.repeats, "repeat")
    return f"{kind_in_words(arena.backend)}, {repeats}{f' of {span} s' if span else ''}"


MOST_FIGURES = 5
MOST_CASES = 4
"""Of more cases that failed for one reason, the others are counted."""


def answer(arena: Arena) -> Answer:
    """The first screen: which control to pick for which use, and how the controls trade delay for rate."""
    values, controls = arena.values, list(arena.values.controls)
    picks = findings.recommendations(values)
    certain = [pick for pick in picks if pick.certain]
    figures = [_pick_figure(pick, controls) for pick in certain] + _trade_off(values)
    return Answer(
        how=_how(arena, certain),
        why=" ".join(f"{pick.criterion.label}: {pick.sentence(controls)}" for pick in certain),
        steps=_steps(arena, picks),
        figures=figures[:MOST_FIGURES],
    )


def _how(arena: Arena, certain: Sequence[findings.Recommendation]) -> str:
    values, controls = arena.values, list(arena.values.controls)
    cases = count(len(values.cases), "case")
    if not values.of("rate_attained", complete=False)[1] and values.failures().height:
        return f"Nothing can be compared: no control finished all repeats of any case ({cases})."
    if len(controls) == 1:
        return f"One control took part, {controls[0]}, in {cases}, so there is nothing to compare."
    if certain:
        chosen = [f"{controls[pick.winner.control]} if {pick.use.when}" for pick in certain if pick.winner]
        told = f"Pick {'; pick '.join(chosen)}."
    else:
        whom = (
            f"No difference between {names_in_words(controls, 2)}" if len(controls) == 2 else "Nobody's lead"
        )
        told = f"{whom} is more than chance in any use, over {cases}."
    failed = {control: values.failed_in(control) for control in controls}
    of = [f"{control} failed in {number} of {cases}" for control, number in failed.items() if number]
    return f"{told} {names_in_words(of, 3)}." if of else told


def undecided(arena: Arena) -> list[str]:
    """What the cases do not decide, a sentence each, and what would; empty with one control."""
    controls = list(arena.values.controls)
    if len(controls) < 2:
        return []
    picks = findings.recommendations(arena.values)
    silent = [pick.use.when for pick in picks if pick.winner is None]
    told = [_open(pick, controls) for pick in picks if pick.winner is not None and not pick.certain]
    if silent:
        told.append(
            f"No case tells what to pick if {names_in_words(silent, len(silent)).replace(' and ', ' or ')}."
        )
    return told


def _open(pick: findings.Recommendation, controls: Sequence[str]) -> str:
    """Who leads in a use without a certain pick, and how many cases would decide it."""
    won, have = pick.winner, count(len(pick.cases), "case")
    assert won is not None
    if won.second is None:
        return f"If {pick.use.when}: {pick.sentence(controls)}"
    unit = "percentage points" if pick.criterion.unit == "%" else pick.criterion.unit
    lead = f"{controls[won.control]} leads {controls[won.second]} by {number(won.margin)} {unit}"
    lead += f" of “{pick.criterion.label}” over {have}"
    needed = pick.cases_needed
    if needed is None:
        both = f"{controls[won.control]} and {controls[won.second]}"
        return f"If {pick.use.when}: {both} are equal over {have}.{pick.left_out}"
    if needed == findings.FEWEST_CASES:
        return f"If {pick.use.when}: {lead}, and {needed} are the fewest that can decide.{pick.left_out}"
    many = f"about {needed}" if needed <= findings.MOST_CASES else f"more than {findings.MOST_CASES}"
    return f"If {pick.use.when}: {lead}, which may be chance; {many} such cases would show it.{pick.left_out}"


def _steps(arena: Arena, picks: Sequence[findings.Recommendation]) -> list[NextStep]:
    """The command of the first failure, and the suite whose cases tell of every use."""
    by_name, steps = {case.name: case for case in arena.suite.cases}, []
    for control, case, _, _ in arena.values.failures().head(1).iter_rows():
        _, command = _cell(arena, by_name[case], control)
        steps.append(NextStep(f"see why {control} failed in {case}:", command))
    few = any(len(pick.cases) < findings.FEWEST_CASES for pick in picks)
    if few and arena.suite.name != WHOLE_SUITE and len(arena.controls) > 1:
        words = ["rtclab", "arena", *arena.controls, "--suite", WHOLE_SUITE]
        steps.append(NextStep("run the suite with enough cases for every use:", shlex.join(words)))
    if not steps and arena.suite.cases:
        case, control = arena.suite.cases[0], next(iter(arena.controls))
        steps.append(NextStep(f"see {control} in {case.name} from inside:", _cell(arena, case, control)[1]))
    return steps


def _pick_figure(pick: findings.Recommendation, controls: Sequence[str]) -> Figure:
    won = pick.winner
    assert won is not None
    assert won.second is not None
    unit = pick.criterion.unit
    other = f"{number(float(pick.means[won.second]))} {unit} of {controls[won.second]}".strip()
    told = f"{pick.criterion.label}, {controls[won.control]}"
    return Figure(
        told, number(won.value), unit, about=f"against {other}, over {count(len(pick.cases), 'case')}"
    )


def _trade_off(values: Values) -> list[Figure]:
    """By control, the mean rate attained and delay over the cases in which all controls have both."""
    cases = values.of("rate_attained", values.of("queuing_delay_p95")[1])[1]
    if not cases:
        return []
    use, delay = (
        means_of_known(values.of(name, cases)[0]).mean(axis=1)
        for name in ("rate_attained", "queuing_delay_p95")
    )
    return [
        Figure(
            f"Rate attained, {control}",
            number(rate),
            "%",
            about=f"with {number(waits)} ms of queuing delay (95th percentile)",
        )
        for control, rate, waits in zip(values.controls, use.tolist(), delay.tolist(), strict=True)
        if not isnan(rate + waits)
    ]


def _of_window(arena: Arena, rows: pl.DataFrame) -> pl.DataFrame:
    """Rows of a CSV file; of a part of the time they have its begin and end in s, null for an open end."""
    if arena.window is None:
        return rows
    moments = zip(("from_s", "to_s"), arena.window, strict=True)
    return rows.with_columns(pl.lit(moment, pl.Float64).alias(name) for name, moment in moments)


def _failures(arena: Arena) -> list[tuple[str, str, str]]:
    """What failed, where and how often, and the reason: controls, in all cases with one reason, and pairs."""
    alike = grouped(
        ((control, reason), (case, repeats))
        for control, case, repeats, reason in arena.values.failures().iter_rows()
    )
    found = []
    for (control, reason), of in alike.items():
        repeats = count(sum(repeats for _, repeats in of), "repeat")
        found.append(
            (control, f", {names_in_words([case for case, _ in of], MOST_CASES)}, {repeats}", reason)
        )
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
