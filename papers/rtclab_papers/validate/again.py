"""Conditions that are run several times on both backends: do the distributions agree?"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median

import numpy as np

from rtclab.backend import backend
from rtclab.experiment import Condition as Repeated
from rtclab.experiment import build
from rtclab.metrics import METRICS, holm
from rtclab.report import DASHED, SOLID, Axes, Axis, Drawing, Line, Look
from rtclab.trace import Repeat
from rtclab_papers.campaigns import Campaign, RowFile, Tally
from rtclab_papers.validate.conditions import Condition
from rtclab_papers.validate.outcomes import COMPARED, SIMULATED_REPEATS
from rtclab_papers.validate.twin_plots import steps
from rtclab_papers.validate.two_samples import POWER, ks_p, visible_shift

LIVE, SIM = "live", "sim"
LIVE_REPEATS = 10
FIRST_LIVE = 1
"""Repeat 0 is the call for which a condition may have been chosen. It is not among the ten."""
FIRST_SIMULATED = FIRST_LIVE + LIVE_REPEATS
"""No repeat has the seed of one of the other backend, so the two samples are independent."""

DRAWN = ("receiving_rate", "freeze_count_w3c")
SHOWN = ("receiving_rate", "rtt", "packet_loss", "freeze_count_w3c", "freeze_duration_w3c")
"""The metrics in the table of the page, besides those whose distributions differ."""
LEVEL = 0.05
"""Probability of a false alarm of all tests together, and of each test alone."""


def run_again(
    conditions: Sequence[Condition],
    file: Path,
    folder: Path,
    *,
    run_live: bool,
    say: Callable[[str], None],
) -> list[Tally]:
    """Runs conditions ten times live, one call at a time, and 39 times simulated; writes rows to ``file``.

    Repeats that have rows are not run again, simulated ones only if the code has not changed, so that this
    can be interrupted and continued. A live repeat that the machine disturbed is tried again.

    Args:
        conditions: what to run. Their names are in the rows.
        file: CSV file with the columns of ``RowFile``.
        folder: directory of the experiments.
        run_live: run live calls; otherwise only the simulations.
        say: called with a line after each repeat.

    Raises:
        BackendUnavailable: this machine cannot run live calls.
        BadInput: another process writes the file or the experiments.
    """
    tallies, code = [], build()
    for name, first, count in ((LIVE, FIRST_LIVE, LIVE_REPEATS), (SIM, FIRST_SIMULATED, SIMULATED_REPEATS)):
        if name == LIVE and not run_live:
            continue

        def ended(condition: str, one: Repeat, name: str = name) -> None:
            what = f"disturbed {one.disturbed}" if one.disturbed else f"{one.status} {one.reason}"
            say(f"condition {condition}, repeat {one.repeat}: {name}, {what.strip()}")

        repeats = range(first, first + count)
        campaign = Campaign(
            {one.name: Repeated(one.scenario, repeats, COMPARED) for one in conditions},
            backend(name),
            RowFile(file),
            folder / name,
            versions={one.name: code for one in conditions} if name == SIM else {},
        )
        tallies.append(campaign.run(ended))
    return tallies


@dataclass(frozen=True)
class Comparison:
    """A metric of one flow in one condition, live and simulated, and how likely such a difference is.

    Attributes:
        condition: name of the condition.
        metric: the metric.
        flow: the flow.
        live: the live values that could be measured.
        simulated: the simulated values that could be measured.
        p: the probability of a difference at least as large by chance.
        differs: whether it is more than chance, over all tests together (Holm, 5 %).
    """

    condition: str
    metric: str
    flow: str
    live: tuple[float, ...]
    simulated: tuple[float, ...]
    p: float
    differs: bool


def comparisons(file: Path) -> list[Comparison]:
    """The tests of all conditions in a file, by condition, metric and flow.

    The directions of a call share its network and are not independent, so each has its own test. Holm's
    procedure needs no independence. A metric is tested where each side has at least two values.
    """
    samples = _samples(RowFile(file))
    keys = [key for key, (live, simulated) in samples.items() if min(len(live), len(simulated)) > 1]
    chances = [ks_p(*samples[key]) for key in keys]
    marks = holm(chances)
    return [
        Comparison(*key, tuple(samples[key][0]), tuple(samples[key][1]), p, bool(mark))
        for key, p, mark in zip(keys, chances, marks, strict=True)
    ]


def _samples(rows: RowFile) -> dict[tuple[str, str, str], tuple[list[float], list[float]]]:
    """The live and simulated values by condition, metric and flow. Disturbed and failed repeats have none."""
    found: dict[tuple[str, str, str], tuple[list[float], list[float]]] = {}
    records = sorted(rows.read().values(), key=lambda record: (_order(record.key.condition), record.key))
    for condition in dict.fromkeys(record.key.condition for record in records):
        own = [one for one in records if one.key.condition == condition and one.outcome == "finished"]
        flows = sorted({flow for one in own for flow, _, _ in one.values if flow})
        for metric in COMPARED:
            for flow in flows:
                sides: tuple[list[float], list[float]] = ([], [])
                for one in own:
                    value = one.number(metric, flow)
                    if value == value:
                        sides[one.key.backend == SIM].append(value)
                found[condition, metric, flow] = sides
    return found


def _order(name: str) -> tuple[int, str]:
    """Sorts names that are numbers by number."""
    return len(name), name


def left_out(file: Path) -> list[str]:
    """The repeats that failed or that the machine disturbed, in words; they have no values."""
    records = sorted(RowFile(file).read().values(), key=lambda record: record.key)
    return [
        f"{one.key.condition}, {'simulated' if one.key.backend == SIM else LIVE} repeat {one.key.repeat}: "
        f"{one.outcome} ({one.reason})"
        for one in records
        if one.outcome != "finished"
    ]


def section(conditions: Sequence[Condition], file: Path, stem: str) -> Iterator[str]:
    """The lines of the page on the conditions of a file that were run again; none without such a file.

    Args:
        conditions: the conditions of the page.
        file: the rows.
        stem: begin of the names of the plots.
    """
    tests = comparisons(file)
    if not tests:
        return
    yield "## The same conditions again"
    yield ""
    yield from _agreement(tests)
    yield ""
    yield "| condition | metric | direction | live | simulated | p |"
    yield "|---|---|---|---|---|---:|"
    for one in tests:
        if one.differs or one.metric in SHOWN:
            chance = f"**{one.p:.2g}**" if one.differs else f"{one.p:.2g}"
            yield (
                f"| {one.condition} | {_metric(one.metric)} | {one.flow.replace('->', ' → ')} "
                f"| {_sample(one.live)} | {_sample(one.simulated)} | {chance} |"
            )
    yield ""
    if without := left_out(file):
        yield f"Without values: {'; '.join(without)}."
        yield ""
    known = {one.name: one.words for one in conditions}
    for name in dict.fromkeys(one.condition for one in tests):
        own = [one for one in tests if one.condition == name]
        differ = sum(one.differs for one in own)
        yield f"**{name}**: {known.get(name, 'not on this page')}."
        yield f"{differ} of {len(own)} tests are significant."
        yield ""
        for metric in DRAWN:
            if any((one.condition, one.metric) == (name, metric) for one in tests):
                yield f"![{_title(name, metric)}]({stem}-again-{name}-{metric}.svg)"
                yield ""


def _agreement(tests: Sequence[Comparison]) -> Iterator[str]:
    """What was tested, what differs, and what could have been seen."""
    names = ", ".join(dict.fromkeys(one.condition for one in tests))
    live, sim, count = LIVE_REPEATS, SIMULATED_REPEATS, len(tests)
    low, differ = sum(one.p <= LEVEL for one in tests), sum(one.differs for one in tests)
    yield f"The conditions {names} were run again, {live} times live and {sim} times simulated, each time"
    yield "with another seed. The call for which a condition was chosen is not among these. Values are the"
    yield "median, with the smallest and the largest in brackets."
    yield ""
    yield "For each metric and direction, p is the probability that two samples of one distribution differ"
    yield "at least as much (Kolmogorov and Smirnov, exact). The two directions of a call are not"
    yield f"independent, so they are tested apart. Of {count} tests, {low} have p up to {LEVEL:g}; by chance"
    yield f"alone at most {LEVEL * count:.0f} are expected. Over all tests (Holm, 5 %) {differ} are"
    yield "significant, in bold."
    yield ""
    alone, corrected = (visible_shift(live, sim, level) for level in (LEVEL, LEVEL / count))
    yield f"{live} calls see only large differences. With {100 * POWER:g} % probability, a single test sees a"
    yield f"shift of a normal variable by {alone:g} standard deviations; with Holm, by {corrected:g}."
    yield "A test that finds nothing does not show that the distributions are equal."


def _metric(name: str) -> str:
    """The label of a metric with its unit, in parentheses."""
    metric = METRICS[name]
    return f"{metric.label} ({metric.unit})" if metric.unit else metric.label


def _sample(values: Sequence[float]) -> str:
    middle, low, high = (_digits(value) for value in (median(values), min(values), max(values)))
    return f"{middle} [{low},\u00a0{high}]"


def _digits(value: float) -> str:
    """Three digits, or all before the point: ``0.123``, ``12.3``, ``1450``."""
    return f"{value:.0f}" if abs(value) >= 100 else f"{value:.3g}"


def _title(condition: str, metric: str) -> str:
    label = METRICS[metric].label
    return f"Condition {condition}, {label[0].lower()}{label[1:]}: live and simulated calls"


def drawings(file: Path) -> list[Drawing]:
    """The empirical distributions of rate and freezes, live and simulated: one drawing per condition each."""
    tests = [one for one in comparisons(file) if one.metric in DRAWN]
    names = dict.fromkeys((one.condition, one.metric) for one in tests)
    return [_distributions([one for one in tests if (one.condition, one.metric) == name]) for name in names]


def _distributions(tests: Sequence[Comparison]) -> Drawing:
    """One metric of one condition, with the directions side by side."""
    condition, metric = tests[0].condition, tests[0].metric
    largest = max(value for one in tests for value in (*one.live, *one.simulated))
    axes = []
    for one in tests:
        lines = []
        for index, (words, values) in enumerate((("live", one.live), ("simulated", one.simulated))):
            places, shares = steps(np.sort(np.asarray(values)))
            look = Look(words, Look.numbered(index, words).colour, (SOLID, DASHED)[index])
            lines.append(Line(look, np.append(places, 1.05 * largest), np.append(shares, 100.0), steps=True))
        axes.append(Axes(f"{one.flow.replace('->', ' → ')}, p = {one.p:.2g}", lines))
    title = _title(condition, metric)
    x = Axis.from_zero(_metric(metric), largest)
    return Drawing(f"again-{condition}-{metric}", title, title, x, Axis("share of calls (%)", 0, 100), axes)
