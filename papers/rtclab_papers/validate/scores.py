"""How well conditions are predicted: the tables of errors and coverage, with goals and errors by chance."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import isnan, nan
from statistics import fmean, median
from types import MappingProxyType

from rtclab.metrics import METRICS
from rtclab_papers.markdown import bullets, folded, in_sentence, table
from rtclab_papers.validate.outcomes import (
    COMPARED,
    FIRST,
    ConditionOutcome,
    ErrorByChance,
    ErrorsByChance,
    ValuePair,
    not_compared,
)

NO_CHANCES: ErrorsByChance = MappingProxyType({})
NEW = "†"
"""Marks the metrics that were not compared from the beginning."""
CLOSE = 0.1
"""Error, as a share, up to which a value is close."""

NAMES = {"receiving_rate": "the simulated rate", "rtt": "the round trip"}
"""The metrics that a result names first, in words."""

GOALS = {
    "receiving_rate": 0.02,
    "rtt": 0.02,
    "queuing_delay_p95": 0.06,
    "nacks": 0.1,
    "retransmission_share": 0.15,
    "freeze_count_w3c": 0.3,
    "freeze_duration_w3c": 0.3,
    "jitter_buffer_delay": 0.1,
    "audio_concealed": 0.15,
    "setup_time": 0.08,
}
"""The largest median error that is aimed at on the twin's page, as a share of live."""
COVERAGE_GOAL = 0.85
"""The smallest coverage that is aimed at, for every metric."""

Aims = Mapping[str, float]
"""By metric the largest median error that is aimed at, as a share of live."""


@dataclass(frozen=True)
class MetricScore:
    """How well a metric is predicted in some conditions.

    Attributes:
        metric: the metric.
        conditions: number of conditions in which both sides know it.
        values: number of live values there: one per flow and live call.
        errors: number of these values that are large enough for a relative error.
        error: median of the errors, without sign, as a share of live.
        close: share of the errors that are at most ``CLOSE``.
        coverage: share of the live values that lie in the interval of the simulated repeats.
        level: the mean probability of these intervals, which the coverage would have without any error.
    """

    metric: str
    conditions: int
    values: int
    errors: int
    error: float
    close: float
    coverage: float
    level: float

    def reaches_error(self, aims: Aims) -> bool | None:
        """Whether the median error is at most its goal; None without a goal or without errors."""
        goal = aims.get(self.metric)
        return None if goal is None or isnan(self.error) else self.error <= goal

    @property
    def reaches_coverage(self) -> bool | None:
        """Whether the coverage is at least its goal; None without values."""
        return None if isnan(self.coverage) else self.coverage >= COVERAGE_GOAL


def score(metric: str, outcomes: Sequence[ConditionOutcome]) -> MetricScore:
    """How well a metric is predicted in these conditions."""
    pairs = pairs_of(outcomes, metric)
    errors = errors_of(pairs)
    return MetricScore(
        metric,
        len({pair.condition for pair in pairs}),
        len(pairs),
        len(errors),
        median_of(errors),
        share([error <= CLOSE for error in errors]),
        share([pair.covered for pair in pairs]),
        fmean(pair.expected.level for pair in pairs) if pairs else nan,
    )


def score_table(
    outcomes: Sequence[ConditionOutcome],
    aims: Aims | None = None,
    chances: Mapping[str, ErrorByChance] | None = None,
) -> str:
    """A table with a row for each metric that a condition knows.

    Args:
        outcomes: the conditions.
        aims: the goals for median errors, by metric; None to compare with no goals.
        chances: the errors by chance, by metric. Without any, their column is left out.
    """
    chance = ["by chance (%)"] * bool(chances)
    heads = ["metric", "live values", "median error (%)", *chance, CLOSE_HEAD, "coverage (%)"]
    rows = []
    for one in scores_of(outcomes):
        values, error, close, coverage = _cells(one, aims)
        lucky = [_chance(chances.get(one.metric))] if chances else []
        rows.append([_marked(one.metric), values, error, *lucky, close, coverage])
    return table(heads, rows, "lr")


def score_tables(
    outcomes: Sequence[ConditionOutcome],
    groups: Mapping[str, str],
    *,
    goals: str = "",
    chances: ErrorsByChance = NO_CHANCES,
) -> Iterator[str]:
    """A folded table of all metrics for each group that has conditions.

    Args:
        outcomes: the conditions.
        groups: what names each group in a sentence.
        goals: name of the group that is compared with ``GOALS``.
        chances: the errors by chance, by group and metric.
    """
    for name, own in by_group(outcomes, groups).items():
        lucky = of_group(chances, name)
        aims = GOALS if name == goals else None
        summary = f"Errors and coverage of {len(scores_of(own))} metrics: {groups[name]}"
        yield folded(summary, score_table(own, aims, lucky))


def of_group(chances: ErrorsByChance, group: str) -> dict[str, ErrorByChance]:
    """The errors by chance of a group, by metric."""
    return {metric: one for (name, metric), one in chances.items() if name == group}


def scores_of(outcomes: Sequence[ConditionOutcome]) -> list[MetricScore]:
    """The score of each metric that a condition knows on both sides."""
    return [one for metric in COMPARED if (one := score(metric, outcomes)).values]


def result_words(scores: Sequence[MetricScore], where: str) -> Iterator[str]:
    """The result in sentences: errors of ``NAMES``, then the best and the worst metric by error and coverage.

    Args:
        scores: the metrics.
        where: what names the conditions.
    """
    known = sorted((one for one in scores if not isnan(one.error)), key=lambda one: one.error)
    if not known:
        return
    errors = {one.metric: percent(one.error) for one in known}
    told = [f"{words} is {errors[name]} off" for name, words in NAMES.items() if name in errors]
    if told:
        yield f"In {where},\n{' and '.join(told)} in the median."
    close = sum(one.error <= CLOSE for one in known)
    ends = [
        f"{errors[one.metric]} ({in_sentence(METRICS[one.metric].label)})" for one in (known[0], known[-1])
    ]
    yield (
        f"Of {len(known)} metrics, {close} have a median error of at most {100 * CLOSE:g} %:\n"
        f"the smallest is {ends[0]}, the largest {ends[1]}."
    )
    covered = sorted(scores, key=lambda one: one.coverage)
    full = sum(one.reaches_coverage is True for one in covered)
    ends = [
        f"{percent(one.coverage)} ({in_sentence(METRICS[one.metric].label)})"
        for one in (covered[-1], covered[0])
    ]
    yield (
        f"Of {len(covered)} metrics, {full} have at least {100 * COVERAGE_GOAL:g} % of live values among\n"
        f"the simulated ones: the largest share is {ends[0]}, the smallest {ends[1]}."
    )


def luck_words(scores: Sequence[MetricScore], chances: Mapping[str, ErrorByChance]) -> str:
    """How many median errors are within what chance makes of a perfect model."""
    compared = [one for one in scores if one.metric in chances and not isnan(one.error)]
    lucky = sum(one.error <= chances[one.metric].high for one in compared)
    return (
        f"Two calls in one condition differ, too: {lucky} of the {len(compared)} errors are no larger\n"
        "than this alone can make them."
    )


def condition_table(outcomes: Sequence[ConditionOutcome], metrics: Sequence[str]) -> str:
    """A Markdown table with the median error of each known metric, and a row for each condition."""
    known = {pair.metric for pair in pairs_of(outcomes)}
    metrics = [name for name in metrics if name in known]
    rows = [
        [one.condition.name, _calls(one), *(percent(score(name, [one]).error) for name in metrics)]
        for one in outcomes
    ]
    return table(["condition", "live calls", *(METRICS[name].label for name in metrics)], rows, "llr")


def _calls(one: ConditionOutcome) -> str:
    """The number of live calls, and how many of them did not connect or whether the machine disturbed one."""
    lost = one.live.calls - one.live.connected
    notes = [f"{lost} not connected"] * (lost > 0) + ["disturbed"] * bool(one.live.disturbed)
    return f"{one.live.calls} ({', '.join(notes)})" if notes else str(one.live.calls)


def _marked(metric: str) -> str:
    """The label of a metric, with a mark if it is new."""
    label = METRICS[metric].label
    return label if metric in FIRST else f"{label}\u00a0{NEW}"


CLOSE_HEAD = f"errors up to {100 * CLOSE:g} % (%)"
COLUMNS = f"""\
- **live values**: their number, one per direction (of fairness and rate balance one per call), and
  the number of conditions in parentheses. Of “37/64” values, 37 are large enough for a relative
  error: above zero, or above 1 % for the share of retransmissions. Sound is compared where there is
  any.
- **median error**: the median of simulated minus live, as a share of live, without sign. The
  simulated value is the median of the repeats.
- **by chance**: what the error would be if live calls were simulated ones: each repeat in turn is
  the live call, with the others as its simulation. The median of these errors, and the smallest
  and the largest in brackets.
- **{CLOSE_HEAD.removesuffix(" (%)")}**: the share of the errors up to {100 * CLOSE:g} %.
- **coverage**: the share of all live values, zeros included, between the smallest and the largest
  simulated one.
- **{NEW}**: a metric that is new here: it was not compared when models were improved or frozen,
  and older calls may lack it."""
"""What the columns of the tables mean."""


def metric_words(outcomes: Sequence[ConditionOutcome], groups: Mapping[str, str]) -> Iterator[str]:
    """Which metrics are compared, in which conditions they are known, and which are left out and why.

    Args:
        outcomes: the conditions.
        groups: what names each group in a sentence. Groups without conditions are not mentioned.
    """
    shown = {
        name: {pair.metric for pair in pairs_of(own)} for name, own in by_group(outcomes, groups).items()
    }
    by_groups: dict[tuple[str, ...], list[str]] = {}
    for metric in COMPARED:
        by_groups.setdefault(tuple(name for name in shown if metric in shown[name]), []).append(metric)
    nowhere = by_groups.pop((), [])
    yield (
        f"Every metric that both simulated and live calls know is compared, {len(COMPARED)} of\n"
        f"{len(METRICS)} in rtclab:"
    )
    told = [
        f"Compared only in {' and '.join(groups[name] for name in names)}, where alone both sides have "
        f"values: {_labels(metrics)}."
        for names, metrics in by_groups.items()
        if len(names) < len(shown)
    ]
    if nowhere:
        told.append(f"No condition here has values of both sides: {_labels(nowhere)}.")
    reasons = not_compared()
    for reason in dict.fromkeys(reasons.values()):
        left_out = [metric for metric, why in reasons.items() if why == reason]
        told.append(f"Not compared, since {reason}: {_labels(left_out)}.")
    yield from bullets(told)


def _labels(metrics: Sequence[str]) -> str:
    return ", ".join(_marked(metric) if metric in COMPARED else METRICS[metric].label for metric in metrics)


def by_group(
    outcomes: Sequence[ConditionOutcome], groups: Iterable[str]
) -> dict[str, list[ConditionOutcome]]:
    """The conditions of each group that has some."""
    found = {name: [one for one in outcomes if one.condition.group == name] for name in groups}
    return {name: own for name, own in found.items() if own}


def goal_words(
    outcomes: Sequence[ConditionOutcome],
    words: str,
    chances: Mapping[str, ErrorByChance] | None = None,
    aims: Aims = GOALS,
) -> str:
    """How many goals are reached in these conditions, and which errors are larger than chance makes them.

    Args:
        outcomes: the conditions.
        words: what names them in a sentence.
        chances: the errors by chance of these conditions, by metric.
        aims: the goals for median errors.
    """
    scores = [score(metric, outcomes) for metric in COMPARED]
    errors = [reached for one in scores if (reached := one.reaches_error(aims)) is not None]
    coverages = [one.reaches_coverage for one in scores if one.reaches_coverage is not None]
    lines = [
        f"Goals for {words} stand beside their figures, in bold if they are missed. Reached:",
        f"{sum(errors)} of {len(errors)} median errors, {sum(coverages)} of {len(coverages)} coverages.",
    ]
    if chances:
        compared = [one for one in scores if one.metric in chances and not isnan(one.error)]
        worse = [METRICS[one.metric].label for one in compared if one.error > chances[one.metric].high]
        luckier = sum(chances[metric].error > aim for metric, aim in aims.items() if metric in chances)
        larger = f" ({', '.join(worse)})" if worse else ""
        lines += [
            f"Of {len(compared)} median errors, {len(worse)} are larger than any of chance{larger}.",
            f"By chance alone, {luckier} of the {len(errors)} median errors miss their goal.",
        ]
    levels = [one.level for one in scores if one.values]
    lowest, highest = (percent(end(levels, default=nan)) for end in (min, max))
    if lowest != highest:
        lines += [
            "Some repeats do not know every metric, so the mean probability of the intervals of a metric is",
            f"between {lowest} and {highest}.",
        ]
    return "\n".join(lines)


def _chance(one: ErrorByChance | None) -> str:
    """The cell of an error by chance. Spaces in it do not break."""
    if one is None:
        return "–"
    error, low, high = map(_percent, (one.error, one.low, one.high))
    return f"{error}\u00a0[{low},\u00a0{high}]"


def _cells(one: MetricScore, aims: Aims | None) -> tuple[str, str, str, str]:
    """The four cells of a metric in a group, with its goals if there are any. Spaces in them do not break."""
    if not one.values:
        return "–", "–", "–", "–"
    values = f"{one.values}" if one.errors == one.values else f"{one.errors}/{one.values}"
    error, coverage = _percent(one.error), _percent(one.coverage)
    if aims is not None and (reached := one.reaches_error(aims)) is not None:
        goal = f"{100 * aims[one.metric]:g}"
        error = f"{error}\u00a0≤\u00a0{goal}" if reached else f"**{error}\u00a0>\u00a0{goal}**"
    if aims is not None and one.reaches_coverage is not None:
        goal = f"{100 * COVERAGE_GOAL:g}"
        reached = one.reaches_coverage
        coverage = f"{coverage}\u00a0≥\u00a0{goal}" if reached else f"**{coverage}\u00a0<\u00a0{goal}**"
    return f"{values}\u00a0({one.conditions})", error, _percent(one.close), coverage


def pairs_of(outcomes: Iterable[ConditionOutcome], *metrics: str) -> list[ValuePair]:
    """Everything that is compared in some conditions, or what is compared of some metrics."""
    return [pair for one in outcomes for pair in one.pairs if not metrics or pair.metric in metrics]


def errors_of(pairs: Sequence[ValuePair]) -> list[float]:
    """The relative errors without sign, of the pairs that have one."""
    return [abs(pair.error) for pair in pairs if not isnan(pair.error)]


def median_of(values: Sequence[float]) -> float:
    """The median; NaN without values."""
    return median(values) if values else nan


def share(good: Sequence[bool]) -> float:
    """The share that is true; NaN without values."""
    return sum(good) / len(good) if good else nan


def percent(ratio: float) -> str:
    """A ratio in per cent: ``2.9 %``, ``124 %``; a dash for NaN."""
    return "–" if isnan(ratio) else f"{_percent(ratio)} %"


def _percent(ratio: float) -> str:
    """A ratio in per cent without its sign."""
    if isnan(ratio):
        return "–"
    return f"{100 * ratio:.0f}" if ratio >= 1 else f"{100 * ratio:.1f}"
