"""The page of a gate: the answer, what fails and by how much, and what holds."""

from __future__ import annotations

import shlex
from pathlib import Path

from markupsafe import Markup

from rtclab.gates.checks import Check, quantity
from rtclab.gates.outcome import CheckRow, GateOutcome
from rtclab.metrics import METRICS
from rtclab.phrases import count, names_in_words
from rtclab.report.answer import Answer, Figure, NextStep
from rtclab.report.page import write_page as write
from rtclab.report.words import flow_in_words, kind_in_words, number

MOST_FIGURES = 4
SINCE = {"new": "new since the baseline", "old": "failed in the baseline too"}
"""Words for :attr:`Check.since`."""


def write_page(path: Path, result: GateOutcome) -> Path:
    """Writes the page; returns its path.

    Raises:
        DiskFull: no space is left.
    """
    metrics = dict.fromkeys(check.metric for check in result.checks)
    failing, others = result.by_importance
    return write(
        path,
        "gate.html",
        [],
        result=result,
        about=_about(result),
        found=answer(result),
        failing=[(line, over_in_words(line.worst), shown_share(line.worst)) for line in failing],
        since=SINCE,
        allowed=allowed,
        commands=[(name, result.command(name)) for name in result.failing_scenarios if result.command(name)],
        others=others,
        metrics=[METRICS[name] for name in metrics],
        flow_in_words=flow_in_words,
    )


def _about(result: GateOutcome) -> str:
    """What was run: ``3 scenarios, simulated, 5 repeats of each``."""
    runs = [side.run for side in result.measured.values()]
    if not runs:
        return ""
    kinds = dict.fromkeys(kind_in_words(run.backend) for run in runs)
    repeats = sorted({run.planned for run in runs})
    many = count(repeats[0], "repeat") if len(repeats) == 1 else f"{repeats[0]} to {repeats[-1]} repeats"
    return f"{count(len(runs), 'scenario')}, {names_in_words(list(kinds), 2)}, {many} of each"


def answer(result: GateOutcome) -> Answer:
    """The answer of a gate: whether it passed, what fails most and why, and the command that opens it."""
    failing, others = result.by_importance
    shown = failing or sorted(others, key=_room)
    return Answer(
        how=_how(result, failing, others),
        why=next((check.cause for line in failing for check in line.failing if check.cause), ""),
        steps=_steps(result, failing),
        figures=[_figure(line) for line in shown[:MOST_FIGURES]],
    )


def _room(line: CheckRow) -> float:
    """How far the worst flow of a check that holds is from failing, relative to its bound or its margin."""
    return 1 - line.worst.excess if line.worst.compares else -line.worst.excess


def _how(result: GateOutcome, failing: list[CheckRow], others: list[CheckRow]) -> str:
    verdict, _, rest = result.verdict().partition(":")
    word = Markup('<span class="mark {}">{}</span>').format(
        "good" if result.passed else "bad", verdict.capitalize()
    )
    sentences = [f":{rest}."]
    if failing:
        worst, told = failing[0].worst, over_in_words(failing[0].worst)
        beyond = f"{told} beyond what is allowed" if told else worst.verdict
        sentences.append(f"Worst is {_subject(worst)}: {beyond}.")
    sentences += _news(failing)
    undecided = [line for line in others if line.worst.verdict == "undecided"]
    if undecided:
        needed = [line.worst.repeats_needed for line in undecided if line.worst.repeats_needed]
        tells = f"; {max(needed)} repeats would tell" if needed else ""
        sentences.append(f"{count(len(undecided), 'comparison')} may be worse, or it is chance{tells}.")
    return word + " ".join(sentences)


def _news(failing: list[CheckRow]) -> list[str]:
    """How many of the failures are new, if the baseline tells of any."""
    known = [line.worst.since for line in failing if line.worst.since]
    if not known:
        return []
    new, unknown = known.count("new"), len(failing) - len(known)
    told = f"New since the baseline: {new} of {len(known)}"
    return [f"{told}; it does not tell of {unknown} more." if unknown else f"{told}."]


def _steps(result: GateOutcome, failing: list[CheckRow]) -> list[NextStep]:
    steps = []
    first = next(iter(result.failing_scenarios), "")
    if command := result.command(first):
        steps.append(NextStep(f"run {first} alone, with the same seeds, traces and a report:", command))
    if result.file and failing and all(line.worst.compares for line in failing):
        options = ["--update-baseline", "--reason", "WHY"]
        steps.append(
            NextStep(
                "if the change is wanted, keep it:", shlex.join(["rtclab", "gate", result.file, *options])
            )
        )
    return steps


def _figure(line: CheckRow) -> Figure:
    worst = line.worst
    told = [flow_in_words(worst.flow)] if worst.flow else []
    if over := over_in_words(worst):
        told.append(f"{over} beyond the allowed {allowed(worst)}")
    elif worst.compares and worst.base is not None:
        told.append(f"before {quantity(worst.base, worst)}")
    told += [SINCE[worst.since]] if worst.since else []
    value = number(worst.new)
    return Figure(_subject(worst), value, worst.unit if worst.new is not None else "", about="; ".join(told))


def _subject(check: Check) -> str:
    return f"{check.check} of {check.scenario}" if check.compares else f"{check.check} in {check.scenario}"


def over_in_words(check: Check) -> str:
    """How far the value of a failing check is beyond what is allowed; empty if that is not known."""
    if check.over_percent is not None:
        return f"{check.over_percent:.{0 if check.over_percent >= 10 else 1}f} %"
    if check.fails and check.difference:
        return quantity(abs(check.difference), check)
    return ""


def allowed(check: Check) -> str:
    """The worst value that passes: the bound of a limit, or the baseline with its margin."""
    worst = check.worst_that_passes
    return "–" if worst is None else quantity(worst, check)


def shown_share(check: Check) -> float:
    """The length of the bar of a failing check in % of the longest, which stands for 100 % and more."""
    return min(check.over_percent or (100.0 if check.fails and check.difference else 0.0), 100.0)
