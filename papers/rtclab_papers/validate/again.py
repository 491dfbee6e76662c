"""Conditions that are run several times on both backends: do the distributions agree?"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median

import numpy as np

from rtclab.experiment import Condition
from rtclab.metrics import METRICS, POWER, holm, kolmogorov_smirnov, visible_shift
from rtclab.report import DASHED, SOLID, Axes, Axis, Drawing, Line, Style
from rtclab_papers.campaigns import LIVE, SIM, RowFile, Tally, run_both, samples
from rtclab_papers.markdown import folded, table, with_ends, with_unit
from rtclab_papers.validate.conditions import CallCondition
from rtclab_papers.validate.outcomes import COMPARED, SIMULATED_REPEATS
from rtclab_papers.validate.twin_plots import steps

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
    conditions: Sequence[CallCondition],
    file: Path,
    folder: Path,
    *,
    run_live: bool,
    say: Callable[[str], None],
) -> list[Tally]:
    """Runs conditions ten times live and 39 times simulated; see :func:`run_both`.

    A live repeat that the machine disturbed is tried again. The names of the conditions are in the rows.
    """
    repeats = {
        LIVE: range(FIRST_LIVE, FIRST_LIVE + LIVE_REPEATS),
        SIM: range(FIRST_SIMULATED, FIRST_SIMULATED + SIMULATED_REPEATS),
    }
    sides = {
        side: {one.name: Condition(one.scenario, numbers, COMPARED) for one in conditions}
        for side, numbers in repeats.items()
    }
    return run_both(sides, RowFile(file), folder, run_live=run_live, say=say)


@dataclass(frozen=True)
class DistributionTest:
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


def distribution_tests(file: Path) -> list[DistributionTest]:
    """The tests of all conditions in a file, by condition, metric and flow.

    The directions of a call share its network and are not independent, so each has its own test. Holm's
    procedure needs no independence. A metric is tested where each side has at least two values. Disturbed and
    failed repeats have none.
    """
    known = samples(RowFile(file).read().values())
    tested = {
        (condition, metric, flow): (tuple(live), tuple(simulated))
        for (condition, side, metric, flow), live in known.items()
        if side == LIVE and flow and metric in COMPARED
        if min(len(live), len(simulated := known.get((condition, SIM, metric, flow), []))) > 1
    }
    # Names that are numbers are in the order of the numbers.
    keys = sorted(tested, key=lambda key: (len(key[0]), key[0], COMPARED.index(key[1]), key[2]))
    chances = [kolmogorov_smirnov(*tested[key]) for key in keys]
    return [
        DistributionTest(*key, *tested[key], p, bool(mark))
        for key, p, mark in zip(keys, chances, holm(chances), strict=True)
    ]


def left_out(file: Path) -> list[str]:
    """The repeats that failed or that the machine disturbed, in words; they have no values."""
    return [
        f"{one.key.condition}, {'simulated' if one.key.backend == SIM else LIVE} repeat {one.key.repeat}: "
        f"{one.outcome} ({one.reason})"
        for one in RowFile(file).read().values()
        if one.outcome != "finished"
    ]


def section(conditions: Sequence[CallCondition], file: Path, stem: str) -> Iterator[str]:
    """The section of the page on the conditions of a file that were run again; nothing without such a file.

    Args:
        conditions: the conditions of the page.
        file: the rows.
        stem: begin of the names of the plots.
    """
    tests = distribution_tests(file)
    if not tests:
        return
    yield "## The same conditions again"
    yield from _agreement(tests)
    rows = [
        [
            one.condition,
            with_unit(one.metric),
            one.flow.replace("->", " → "),
            _sample(one.live),
            _sample(one.simulated),
            f"**{one.p:.2g}**" if one.differs else f"{one.p:.2g}",
        ]
        for one in tests
        if one.differs or one.metric in SHOWN
    ]
    heads = ["condition", "metric", "direction", "live", "simulated", "p"]
    without = left_out(file)
    told = [f"Without values: {'; '.join(without)}."] if without else []
    yield folded(f"{len(rows)} of the tests", table(heads, rows, "lllllr"), *told)
    known = {one.name: one.words for one in conditions}
    for name in dict.fromkeys(one.condition for one in tests):
        own = [one for one in tests if one.condition == name]
        about = (
            f"**{name}**: {known.get(name, 'not on this page')}.\n"
            f"{sum(one.differs for one in own)} of {len(own)} tests are significant."
        )
        yield about
        yield folded(f"Figures of condition {name}", *_figures(name, own, stem))


def _figures(condition: str, tests: Sequence[DistributionTest], stem: str) -> Iterator[str]:
    """The figures of a condition. Their texts say whether its distributions differ."""
    for metric in DRAWN:
        if own := [one for one in tests if one.metric == metric]:
            differs = "differ" if any(one.differs for one in own) else "do not differ by more than chance"
            chances = " and ".join(f"{one.p:.2g}" for one in own)
            words = f"{_title(condition, metric)} {differs}, p is {chances}"
            yield f"![{words}]({stem}-again-{condition}-{metric}.svg)"


def _agreement(tests: Sequence[DistributionTest]) -> Iterator[str]:
    """What was tested, what differs, and what could have been seen."""
    names = ", ".join(dict.fromkeys(one.condition for one in tests))
    live, sim, count = LIVE_REPEATS, SIMULATED_REPEATS, len(tests)
    low, differ = sum(one.p <= LEVEL for one in tests), sum(one.differs for one in tests)
    yield f"""\
The conditions {names} were run again, {live} times live and {sim} times simulated, each time
with another seed. The call for which a condition was chosen is not among these. Values are the
median, with the smallest and the largest in brackets."""
    yield f"""\
For each metric and direction, p is the probability that two samples of one distribution differ
at least as much (Kolmogorov and Smirnov, exact). The two directions of a call are not
independent, so they are tested apart. Of {count} tests, {low} have p up to {LEVEL:g}; by chance
alone at most {LEVEL * count:.0f} are expected. Over all tests (Holm, 5 %) {differ} are
significant, in bold."""
    alone, corrected = (visible_shift(live, sim, level) for level in (LEVEL, LEVEL / count))
    yield f"""\
{live} calls see only large differences. With {100 * POWER:g} % probability, a single test sees a
shift of a normal variable by {alone:g} standard deviations; with Holm, by {corrected:g}.
A test that finds nothing does not show that the distributions are equal."""


def _sample(values: Sequence[float]) -> str:
    return with_ends(median(values), min(values), max(values))


def _title(condition: str, metric: str) -> str:
    label = METRICS[metric].label
    return f"Condition {condition}, {label[0].lower()}{label[1:]}: live and simulated calls"


def drawings(file: Path) -> list[Drawing]:
    """The empirical distributions of rate and freezes, live and simulated: one drawing per condition each."""
    tests = [one for one in distribution_tests(file) if one.metric in DRAWN]
    names = dict.fromkeys((one.condition, one.metric) for one in tests)
    return [_distributions([one for one in tests if (one.condition, one.metric) == name]) for name in names]


def _distributions(tests: Sequence[DistributionTest]) -> Drawing:
    """One metric of one condition, with the directions side by side."""
    condition, metric = tests[0].condition, tests[0].metric
    largest = max(value for one in tests for value in (*one.live, *one.simulated))
    axes = []
    for one in tests:
        lines = []
        for index, (words, values) in enumerate((("live", one.live), ("simulated", one.simulated))):
            places, shares = steps(np.sort(np.asarray(values)))
            look = Style(words, Style.numbered(index, words).colour, (SOLID, DASHED)[index])
            lines.append(Line(look, np.append(places, 1.05 * largest), np.append(shares, 100.0), steps=True))
        axes.append(Axes(f"{one.flow.replace('->', ' → ')}, p = {one.p:.2g}", lines))
    title = _title(condition, metric)
    x = Axis.from_zero(with_unit(metric), largest)
    return Drawing(f"again-{condition}-{metric}", title, title, x, Axis("share of calls (%)", 0, 100), axes)
