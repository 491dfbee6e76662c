"""What an arena found, as data for its pages: winners, ranks, tables, and sentences made from them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import ceil, comb, inf, log2, sqrt
from typing import Any

import numpy as np
import polars as pl

from rtclab.arenas.cases import Case
from rtclab.arenas.ranking import Ranking, Winner, ranking, scores, winner
from rtclab.arenas.suite import TCP
from rtclab.arenas.values import ALL, CRITERIA, RANKED, Criterion, Values
from rtclab.experiment.comparison import ROWS
from rtclab.metrics.series import Array
from rtclab.metrics.statistics import CONFIDENCE, means_of_known, t_quantile
from rtclab.phrases import count, names_in_words
from rtclab.report import number
from rtclab.report.words import grouped

FEWEST_CASES = 5
"""With fewer cases nobody is picked: intervals would be too narrow, as values without any difference show."""
MOST_CASES = 1000
"""Larger numbers of cases that would decide are not given: the difference is tiny."""
EVEN = (1 / 3, 3.0)
"""Ratios of the rates of two flows that RFC 8868, section 3, accepts."""


YARDSTICK = "fixed"
"""Sends at its highest rate whatever happens, so it shows what that costs, and is not picked."""


@dataclass(frozen=True)
class UseCase:
    """A use case: when it applies, the criterion that decides, and why, in words for readers."""

    name: str
    when: str
    value: str
    why: str


USE_CASES = (
    UseCase(
        "video", "the call has the network to itself", "in_time_100", "what arrives within 100 ms of queues"
    ),
    UseCase(
        "voice",
        "voice shares the network with other traffic",
        "over_budget",
        "the time over a budget of 100 ms",
    ),
    UseCase("screen", "you share a screen", "in_time_300", "what arrives within 300 ms of queues"),
    UseCase("l4s", "the queue marks for L4S", "in_time_20", "what arrives within 20 ms of queues"),
    UseCase(
        "downloads", "downloads run beside the call", "tcp_balance", "how alike the rates of call and TCP are"
    ),
)


@dataclass(frozen=True)
class Recommendation:
    """Which control to pick for a use case; ``winner`` is None if no case says something.

    ``failed`` has, by control, the number of these cases in which it failed. It is not compared then.
    """

    use: UseCase
    cases: Sequence[Case]
    winner: Winner | None
    means: Array
    failed: Mapping[str, int]

    @property
    def criterion(self) -> Criterion:
        """The criterion that decides."""
        return CRITERIA[self.use.value]

    @property
    def cases_needed(self) -> float | None:
        """How many cases of this kind would show a lead of the size seen; None if that is not known.

        The interval of the lead is as wide as Student's t over the square root of the number of cases. With
        this many, its lower end is above 0. ``FEWEST_CASES`` if there are fewer, because their interval tells
        nothing, and infinite above ``MOST_CASES``.
        """
        found, cases = self.winner, len(self.cases)
        if found is None or found.second is None or not found.margin > 0 or self.certain:
            return None
        if cases < FEWEST_CASES:
            return FEWEST_CASES
        below = found.margin - found.low  # from the lead to the lower end of its interval
        wanted = t_quantile(cases - 1) / sqrt(cases) * found.margin / below
        numbers = range(cases + 1, MOST_CASES + 1)
        return next((number for number in numbers if t_quantile(number - 1) / sqrt(number) < wanted), inf)

    @property
    def certain(self) -> bool:
        """Whether there are enough cases and the winner is better by more than chance."""
        return self.winner is not None and len(self.cases) >= FEWEST_CASES and self.winner.certain

    def sentence(self, controls: Sequence[str]) -> str:
        """The answer in a sentence or two."""
        return self._answer(controls) + self.left_out

    @property
    def left_out(self) -> str:
        """Which controls are not compared, as a further sentence; empty if all are."""
        cases = len(self.cases)
        failed = [f"{name} failed in {number} of {cases} cases" for name, number in self.failed.items()]
        return f" Not compared: {', '.join(failed)}." if failed else ""

    def _answer(self, controls: Sequence[str]) -> str:
        found, value = self.winner, self.criterion
        if found is None:
            return "No case of this suite says something about it."
        cases = f"{count(len(self.cases), 'case')}"
        first = controls[found.control]
        if found.second is None:
            return f"Only {first} takes part: {_figure(found.value, value)} over {cases}."
        unit = "percentage points" if value.unit == "%" else value.unit
        ends = f"95 % interval {number(found.low, found.margin)} to {number(found.high, found.margin)}"
        told = (
            f"{first} with {_figure(found.value, value)} is {number(found.margin)} {unit} better than "
            f"{controls[found.second]} ({ends}), over {cases}"
        )
        if self.certain:
            return f"{told}."
        reason = "too few cases" if len(self.cases) < FEWEST_CASES else "within chance"
        return f"None: {reason}. {told}."


def fewest_cases_to_rank(controls: int) -> int:
    """The fewest cases in which signed ranks can tell any two of some controls apart.

    If one is better in all of n cases, the p-value is 2 / 2^n, and Holm compares the smallest with 5 % over
    the number of pairs.
    """
    pairs = comb(controls, 2)
    return ceil(log2(2 * max(pairs, 1) / (1 - CONFIDENCE)))


def recommendations(values: Values) -> list[Recommendation]:
    """The recommendations for all use cases, without ``YARDSTICK``."""
    found = []
    for use in USE_CASES:
        own = [case for case in values.cases if use.name in case.uses]
        known, cases = values.of(use.value, own)
        known[[index for index, name in enumerate(values.controls) if name == YARDSTICK]] = np.nan
        won = winner(known, CRITERIA[use.value].better) if cases else None
        means = means_of_known(known).mean(axis=1) if cases else np.empty(0)
        failed = {name: count for name in values.controls if (count := values.failed_in(name, cases))}
        found.append(Recommendation(use, cases, won, means, failed))
    return found


def rankings(values: Values) -> list[tuple[Criterion, Ranking]]:
    """The ranking of every value that is ranked and known in at least one case."""
    found = []
    for name in RANKED:
        known, cases = values.of(name)
        if cases and len(values.controls) > 1:
            found.append((CRITERIA[name], ranking(known, CRITERIA[name].better)))
    return found


COMPARISON = {"use": pl.String(), "against": pl.String(), **ROWS, "cases": pl.Int64()}
"""The columns of :func:`comparisons`."""


def comparisons(values: Values) -> pl.DataFrame:
    """Where the arena says that one control is better than another: a row for each, as of compared runs.

    ``label`` is the better control and ``against`` the other one; ``base`` and ``new`` are their means over
    the cases. A row with a ``use`` compares the best control of a use case with the runner-up, and has the
    95 % bootstrap interval over cases. The other rows compare the best control of a ranking with each other
    one by their signed ranks, and have ``p``. ``verdict`` is ``differs`` or ``too few cases to tell``:
    further cases help, and further repeats of the same cases do not, so ``repeats_needed`` is null.
    """
    rows = []
    for one in recommendations(values):
        if (won := one.winner) is not None and won.second is not None:
            ends = [won.low, won.high] if one.criterion.better == "higher" else [-won.high, -won.low]
            known = {"use": one.use.name, "difference_low": ends[0], "difference_high": ends[1]}
            pair = (won.second, won.control)
            rows.append(known | _row(values, one.criterion, one.means, pair, len(one.cases), one.certain))
    for criterion, found in rankings(values):
        means = means_of_known(values.of(criterion.name)[0]).mean(axis=1)
        best, *others = found.order
        for other in others:
            pair, both = (other, best), frozenset((other, best))
            certain = both in found.apart
            rows.append({"p": found.p[both]} | _row(values, criterion, means, pair, found.cases, certain))
    return pl.DataFrame(rows, schema=COMPARISON, orient="row")


def _row(
    values: Values, criterion: Criterion, means: Array, pair: tuple[int, int], cases: int, certain: bool
) -> dict[str, object]:
    base, new = (_known(means[index]) for index in pair)
    return {
        "against": values.controls[pair[0]],
        "metric": criterion.name,
        "unit": criterion.unit,
        "better": criterion.better,
        "label": values.controls[pair[1]],
        "base": base,
        "new": new,
        "difference": None if base is None or new is None else new - base,
        "significant": certain,
        "verdict": "differs" if certain else "too few cases to tell",
        "cases": cases,
    }


def rank_sentence(value: Criterion, found: Ranking, controls: Sequence[str]) -> str:
    """Who is first, and from whom that is more than chance apart."""
    best = found.order[0]
    worse = [controls[index] for index in found.order[1:] if frozenset((best, index)) in found.apart]
    alike = [controls[index] for index in found.order[1:] if frozenset((best, index)) not in found.apart]
    first = (
        f"{controls[best]} has the best mean rank, {number(float(found.mean[best]))} over "
        f"{count(found.cases, 'case')}"
    )
    if not worse:
        return f"{first}; nobody is more than chance behind."
    told = f"{first}: better than {names_in_words(worse, len(worse))} by more than chance"
    if not alike:
        return f"{told}."
    others = names_in_words(alike, len(alike))
    places = [controls[index] for index in found.order]
    if places.index(alike[-1]) < places.index(worse[0]):
        return f"{told}; {others} {'is' if len(alike) == 1 else 'are'} within chance."
    # A mean rank alone does not decide: signed ranks count how often, and by how much, one is better.
    return f"{told}. Against {others} the cases disagree too much to tell, whatever the mean rank."


def _figure(value: float, about: Criterion) -> str:
    return f"{number(value)} {about.unit}".strip()


@dataclass(frozen=True)
class HeatCell:
    """A cell of the heat table: the mean over repeats, and how near it is to the best of the case, 0 to 1.

    ``score`` is None if the best of the case is 0.
    """

    control: str
    value: float | None
    score: float | None
    reason: str = ""


@dataclass(frozen=True)
class HeatTable:
    """A table of cases x controls for one value."""

    value: Criterion
    rows: Sequence[tuple[Case, Sequence[HeatCell]]]


HEAT = ("rate_attained", "queuing_delay_p95", "in_time_100", "over_budget", "frozen", "packet_loss")


def heat_tables(values: Values) -> list[HeatTable]:
    """The heat tables of the most important values."""
    failed = {(case, control): reason for control, case, _, reason in values.failures().iter_rows()}
    found = []
    for name in HEAT:
        value = CRITERIA[name]
        known, cases = values.of(name)
        if not cases:
            continue
        means = means_of_known(known)
        both = np.full((2, len(values.controls), len(values.cases)), np.nan)
        both[:, :, list(map(values.cases.index, cases))] = means, scores(means, value.better, value.grain)
        rows = []
        for index, case in enumerate(values.cases):
            of_controls = zip(values.controls, *both[:, :, index], strict=True)
            cells = [
                HeatCell(control, _known(mean), _known(near), failed.get((case.name, control), ""))
                for control, mean, near in of_controls
            ]
            rows.append((case, cells))
        found.append(HeatTable(value, rows))
    return found


def _known(value: float) -> float | None:
    return None if np.isnan(value) else float(value)


@dataclass(frozen=True)
class MedianAndWorst:
    """The median over all cases and repeats, and the worst repeat with its case."""

    median: float
    worst: float
    case: str


SPREADS = ("convergence_time", "recovery_time", "over_budget", "frozen", "freezes")


def spreads(values: Values) -> list[tuple[Criterion, Sequence[MedianAndWorst | None]]]:
    """Median and worst repeat of what hurts, by control; None for one that failed in a case."""
    found: list[tuple[Criterion, Sequence[MedianAndWorst | None]]] = []
    for name in SPREADS:
        known, cases = values.of(name)
        if cases:
            whole = [not values.failed_in(control) for control in values.controls]
            of = [_spread(own, cases) if all_of else None for own, all_of in zip(known, whole, strict=True)]
            found.append((ALL[name], of))
    return found


def _spread(own: Array, cases: Sequence[Case]) -> MedianAndWorst | None:
    if np.isnan(own).all():
        return None
    worst = np.unravel_index(int(np.nanargmax(own)), own.shape)
    return MedianAndWorst(float(np.nanmedian(own)), float(own[worst]), cases[int(worst[0])].name)


def alike_but_for_the_queue(cases: Sequence[Case]) -> list[Case]:
    """The most cases that differ in nothing but their queues; empty without two kinds of queues."""
    dumps = ((case.scenario.model_dump(mode="json"), case) for case in cases)
    groups = grouped((json.dumps(_without_queues(dump)), case) for dump, case in dumps)
    largest = max(groups.values(), key=lambda own: len({one.queue for one in own}), default=[])
    return largest if len({one.queue for one in largest}) > 1 else []


def _without_queues(value: Any) -> Any:
    """JSON values of a scenario without its queues, and without what describes it."""
    if isinstance(value, list):
        return [_without_queues(one) for one in value]
    if isinstance(value, dict):
        left_out = ("queue", "name", "title", "source")
        return {key: _without_queues(one) for key, one in value.items() if key not in left_out}
    return value


def by_queue(values: Values, among: Sequence[Case]) -> list[tuple[str, int, str, Sequence[float | None]]]:
    """What each kind of queue does to each control in some cases: kind, number of cases, control, means.

    A control that failed in one of the cases has no means, because its other cases are not all of them.
    """
    rows: list[tuple[str, int, str, Sequence[float | None]]] = []
    for kind in sorted({case.queue for case in among}):
        own = [case for case in among if case.queue == kind]
        columns = []
        for name in QUEUE_VALUES:
            known, cases = values.of(name, own, complete=False)
            columns.append(
                means_of_known(means_of_known(known)) if cases else np.full(len(values.controls), np.nan)
            )
        for index, control in enumerate(values.controls):
            failed = values.failed_in(control, own) > 0
            cells = [None if failed else _known(of[index]) for of in columns]
            rows.append((kind, len(own), control, cells))
    return rows


QUEUE_VALUES = (
    "rate_attained",
    "queuing_delay_p50",
    "queuing_delay_p95",
    "packet_loss",
    "ce_share",
    "aqm_drop_share",
)


@dataclass(frozen=True)
class RateRatio:
    """The rate of a flow divided by the rate of the flow beside it: geometric mean over repeats."""

    ratio: float | None
    failed: str = ""

    @property
    def even(self) -> bool:
        """Whether RFC 8868 accepts it."""
        return self.ratio is not None and EVEN[0] <= self.ratio <= EVEN[1]


def fairness(pairs: pl.DataFrame, controls: Sequence[str]) -> dict[tuple[str, str], RateRatio]:
    """By control and the control or TCP beside it, the ratio of their rates; none if a repeat failed.

    Both flows of a pair of the same control are alike, so there it is the larger rate by the smaller.
    """
    found: dict[tuple[str, str], RateRatio] = {}
    for (first, second), rows in pairs.group_by("first", "second", maintain_order=True):
        failures = rows.filter(pl.col("status") != "finished")["reason"].to_list()
        rates = rows.drop_nulls(["rate_first", "rate_second"]).select("rate_first", "rate_second").to_numpy()
        rates = np.maximum(rates, 1.0)
        logs = np.log(rates[:, 0] / rates[:, 1]) if len(rates) else np.empty(0)
        reason = failures[0] if failures else ""
        if first == second:
            logs = np.abs(logs)
        ratio = float(np.exp(logs.mean())) if logs.size and not failures else None
        found[str(first), str(second)] = RateRatio(ratio, reason)
        if second not in TCP and first != second:
            found[str(second), str(first)] = RateRatio(None if ratio is None else 1 / ratio, reason)
    return found


LIVE_CRITERIA = ("rate_attained", "queuing_delay_p95", "packet_loss", "frozen")


def simulated_and_live(simulated: Values, live: Values) -> list[tuple[str, str, Criterion, float, float]]:
    """Case, control and value where both backends know it: the simulated and the live mean."""
    rows = []
    for name in LIVE_CRITERIA:
        cases = live.of(name, simulated.of(name)[1])[1]
        means = [means_of_known(values.of(name, cases)[0]).tolist() for values in (simulated, live)]
        for control, *of_control in zip(simulated.controls, *means, strict=True):
            for case, one, other in zip(cases, *of_control, strict=True):
                if not np.isnan([one, other]).any():
                    rows.append((case.name, control, CRITERIA[name], one, other))
    return rows
