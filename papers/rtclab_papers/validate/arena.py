"""All built-in congestion controls in the suites ``rfc8867`` and ``access``: the rows, and the page."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import isnan, nan, sqrt
from pathlib import Path
from statistics import fmean, median, stdev
from typing import Any

import polars as pl

from rtclab.arenas import (
    CRITERIA,
    KEYS,
    PAIRS,
    ArenaSuite,
    Criterion,
    Ranking,
    Values,
    arena,
    findings,
    load_suite,
    plots,
)
from rtclab.arenas import controls as of_arenas
from rtclab.arenas import suite as suites_of
from rtclab.errors import BadInput
from rtclab.metrics import means_of_known, t_quantile
from rtclab.report import Drawing, number
from rtclab.trace import write_text
from rtclab_papers.csv_files import beside
from rtclab_papers.markdown import names, write_page

SUITES = ("rfc8867", "access")
CONTROLS = (*of_arenas.default_controls(), *of_arenas.HISTORICAL)
"""All built-in controls, those of today first."""
REPEATS = 5
LIVE_CONTROLS = ("goog-cc", "scream")
"""The controls that browsers have."""
LIVE_CASES = (
    "bufferbloat",
    "cable",
    "download",
    "dsl",
    "fq-codel",
    "geostationary",
    "l4s-cubic",
    "l4s",
    "low-orbit",
    "lte",
    "policer",
    "queue-codel",
    "queue-fq-codel",
    "queue-pie",
    "screen-dsl",
    "screen-l4s",
    "screen-upload",
    "screen-wifi",
    "wifi-behind-dsl",
    "wifi",
)
"""The cases of ``access`` that real browsers run, each once with each control."""
COLUMNS = (*CRITERIA, "freezes")
"""The values that are kept."""
SAME = 0.05
"""Controls whose values differ by a smaller share count as equal."""
DIGITS = 4
"""Significant digits of values in the files."""


def run(file: Path, folder: Path, say: Callable[[str], None]) -> None:
    """Runs what has not finished in ``folder``, and writes the rows to ``file`` and the pairs beside it.

    Args:
        file: CSV file with the column ``suite``, the columns of ``KEYS``, and ``COLUMNS``.
        folder: directory of the runs of the arenas.
        say: called with a line before each suite.
    """
    tables = []
    for suite in SUITES:
        say(f"{suite}: {len(CONTROLS)} controls, {REPEATS} repeats")
        found = arena(CONTROLS, suite=suite, repeats=REPEATS, out=folder)
        tables.append(found.values.rows.select(pl.lit(suite).alias("suite"), *KEYS, *COLUMNS))
        pairs = found.pairs
    file.parent.mkdir(parents=True, exist_ok=True)
    write_text(file, _short(pl.concat(tables)).write_csv())
    write_text(beside(file, "pairs"), _short(pairs).write_csv())


def run_live(file: Path, folder: Path, say: Callable[[str], None]) -> None:
    """Runs the live calls that have not finished in ``folder``, and writes their rows beside ``file``."""
    whole = load_suite("access")
    cases = tuple(case for case in whole.cases if case.name in LIVE_CASES)
    say(f"access: {len(cases)} cases with {' and '.join(LIVE_CONTROLS)}, live")
    suite = ArenaSuite("access", whole.title, cases, pairings=False)
    found = arena(LIVE_CONTROLS, suite=suite, backend="live", repeats=1, out=folder)
    rows = found.values.rows.select(pl.lit("access").alias("suite"), *KEYS, *COLUMNS)
    write_text(beside(file, "live"), _short(rows).write_csv())


def _short(table: pl.DataFrame) -> pl.DataFrame:
    return table.with_columns(pl.selectors.float().round_sig_figs(DIGITS))


def read_live(file: Path) -> Values | None:
    """The live values of cases of ``access``, from the file that :func:`run_live` wrote; None without it."""
    if not (live := beside(file, "live")).is_file():
        return None
    rows = _rows(live).drop("suite")
    cases = tuple(case for case in load_suite("access").cases if case.name in set(rows["case"]))
    return Values(cases, tuple(dict.fromkeys(rows["control"].to_list())), rows)


def _rows(file: Path) -> pl.DataFrame:
    schema = {"suite": pl.String(), **KEYS, **dict.fromkeys(COLUMNS, pl.Float64())}
    return pl.read_csv(file, schema=schema).with_columns(pl.col("reason").fill_null(""))


def read(file: Path) -> tuple[dict[str, Values], pl.DataFrame]:
    """The values by suite, and the rates of pairs, from the files that :func:`run` wrote.

    Raises:
        BadInput: a file is missing.
    """
    for one in (file, beside(file, "pairs")):
        if not one.is_file():
            raise BadInput(f"{one}: no such file", hint="`rtclab validate arena` makes it")
    rows = _rows(file)
    pairs = pl.read_csv(beside(file, "pairs"), schema=PAIRS).with_columns(pl.col("reason").fill_null(""))
    found = {}
    for suite in dict.fromkeys(rows["suite"].to_list()):
        own = rows.filter(pl.col("suite") == suite).drop("suite")
        found[suite] = Values(load_suite(suite).cases, tuple(dict.fromkeys(own["control"].to_list())), own)
    return found, pairs


def write_arena(
    page: Path,
    found: Mapping[str, Values],
    pairs: pl.DataFrame,
    live: Values | None = None,
) -> None:
    """Writes the page, and its plots beside it. Text below the line ``NOTES`` of the page is kept."""
    drawn = {suite: plots.pareto(values) for suite, values in found.items()}
    drawings = [
        Drawing(suite, one.title, "", one.x, one.y, one.axes[:1])
        for suite, one in drawn.items()
        if one is not None
    ]
    text = [*lines(page.stem, found, pairs)]
    if live is not None:
        text += _live(page.stem, found["access"], live)
    write_page(page, ["\n".join(text).rstrip("\n")], drawings)


def lines(stem: str, found: Mapping[str, Values], pairs: pl.DataFrame) -> Iterator[str]:
    """The lines of the page."""
    controls = next(iter(found.values())).controls
    yield "# Which congestion control wins where?"
    yield ""
    suites = " and ".join(f"`{suite}`" for suite in found)
    yield f"Made by `rtclab validate arena`: the {len(controls)} controls that come with rtclab, in the"
    yield f"suites {suites}, simulated, each case {REPEATS} times with the same seeds for all controls."
    yield "[How to compare your own](compare-controls.md) says how to make such a page with your"
    yield "control, and how it is computed. Every sentence and figure here comes from the values in"
    yield f"`data/{stem}.csv`."
    yield ""
    yield f"`{findings.YARDSTICK}` sends at its highest rate whatever happens. It shows what that costs, and"
    yield "is not picked."
    yield f"{names(of_arenas.HISTORICAL)} are of 2013 to 2016."
    yield ""
    for suite, values in found.items():
        yield from _suite(stem, load_suite(suite), values)
    yield from _fairness(pairs, controls)


def _suite(stem: str, suite: ArenaSuite, values: Values) -> Iterator[str]:
    yield f"## {suite.title}"
    yield ""
    yield f"`{suite.name}`, {len(suite.cases)} cases."
    yield ""
    yield "| when | pick | what decides | how sure |"
    yield "|---|---|---|---|"
    for pick in findings.recommendations(values):
        yield f"| {_pick(pick, values.controls)} |"
    yield ""
    yield f"![Rate attained against queuing delay]({stem}-{suite.name}.svg)"
    yield ""
    yield "A small mark is a case, a large one the mean over all. Nobody beats what is on the dashed line."
    yield ""
    failures = values.failures()
    for control, case, repeats, reason in failures.iter_rows():
        yield f"- {control} failed in {case}, {repeats} of {REPEATS} repeats: {reason}"
    if failures.height:
        yield ""
    ranked = findings.rankings(values)
    yield "Mean rank over the cases that have the value, with its 95 % interval. 1 is the best. In bold: the"
    yield "best, and whoever is within chance of it (Wilcoxon's signed ranks over cases, Holm over all pairs,"
    yield "5 %)."
    yield ""
    yield from _by_control(values.controls, {value.label: one for value, one in ranked}, _rank)
    for value, one in ranked:
        yield f"- **{value.label}**: {findings.rank_sentence(value, one, values.controls)}"
    yield ""
    yield "Means over the cases:"
    yield ""
    means = {value.heading: means_of_known(values.of(value.name)[0]).mean(axis=1) for value, _ in ranked}
    yield from _by_control(values.controls, means, lambda index, of: number(of[index]))
    yield "The median over all cases and repeats, and the worst repeat with its case:"
    yield ""
    hurts = findings.spreads(values)
    spreads = {value.heading: own for value, own in hurts}
    yield from _by_control(values.controls, spreads, lambda index, of: _spread(of[index]), "---")


def _by_control(
    controls: Sequence[str], columns: Mapping[str, Any], cell: Callable[[int, Any], str], align: str = "---:"
) -> Iterator[str]:
    """A table with a row for each control; ``cell`` makes a cell of its number and the value of a column."""
    yield f"| control | {' | '.join(columns)} |"
    yield f"|---|{f'{align}|' * len(columns)}"
    for index, control in enumerate(controls):
        yield f"| {control} | {' | '.join(cell(index, of) for of in columns.values())} |"
    yield ""


def _rank(index: int, found: Ranking) -> str:
    told = f"{found.mean[index]:.1f} [{found.low[index]:.1f},\u00a0{found.high[index]:.1f}]"
    return told if frozenset((index, found.order[0])) in found.apart else f"**{told}**"


def _spread(one: findings.MedianAndWorst | None) -> str:
    return "–" if one is None else f"{number(one.median)}, worst {number(one.worst)} ({one.case})"


def _ratio(share: findings.RateRatio | None) -> str:
    if share is None or share.ratio is None:
        return "–" if share is None else "failed"
    told = number(share.ratio)
    return f"**{told}**" if share.even else told


def _pick(pick: findings.Recommendation, controls: Sequence[str]) -> str:
    won = f"**{controls[pick.winner.control]}**" if pick.winner is not None and pick.certain else "none"
    return f"{pick.use.when} | {won} | {pick.criterion.label} | {pick.sentence(controls)}"


def _fairness(pairs: pl.DataFrame, controls: Sequence[str]) -> Iterator[str]:
    shares = findings.fairness(pairs, controls)
    yield "## Fairness"
    yield ""
    yield "The rate of the control in the row by the rate of the one in the column, at one bottleneck of"
    yield "2 Mbit/s, over the second half of a minute: the geometric mean over repeats. Beside itself it is"
    yield "the larger rate by the smaller. In bold: between 1/3 and 3, which RFC 8868 accepts."
    yield ""
    columns = {column: column for column in (*controls, *suites_of.TCP)}
    yield from _by_control(controls, columns, lambda index, of: _ratio(shares.get((controls[index], of))))
    for tcp in suites_of.TCP:
        fair = [name for name in controls if (share := shares.get((name, tcp))) and share.even]
        low = [
            name
            for name in controls
            if (share := shares.get((name, tcp)))
            and share.ratio is not None
            and share.ratio < findings.EVEN[0]
        ]
        yield f"- Beside {tcp}: {names(fair)} {'gets' if len(fair) == 1 else 'get'} a fair share, and"
        yield f"  {names(low)} {'gets' if len(low) == 1 else 'get'} less than a third of its rate."
    yield ""


@dataclass(frozen=True)
class Agreement:
    """How a value of live calls compares with simulated repeats of the same cases.

    Attributes:
        value: the value.
        calls: number of live calls that have it.
        difference: median of the differences between a live call and the simulated mean.
        inside: number of live calls in the 95 % prediction interval of one more simulated repeat.
        same: number of cases in which the same control is better by more than the value's grain, or neither.
        cases: number of cases in which both controls have it.
    """

    value: Criterion
    calls: int
    difference: float
    inside: int
    same: int
    cases: int


def agreements(simulated: Values, live: Values) -> list[Agreement]:
    """How the values that the arena shows side by side agree."""
    return [_agreement(CRITERIA[name], simulated, live) for name in findings.LIVE_CRITERIA]


def _agreement(value: Criterion, simulated: Values, live: Values) -> Agreement:
    differences, inside, same, cases = [], 0, 0, 0
    for case in live.cases:
        winners: list[list[float]] = [[], []]
        for control in live.controls:
            many = _known(simulated, case.name, control, value.name)
            one = _known(live, case.name, control, value.name)
            if len(many) < 2 or not one:
                continue
            mean, called = fmean(many), fmean(one)
            differences.append(abs(called - mean))
            wide = t_quantile(len(many) - 1) * stdev(many) * sqrt(1 + 1 / len(many))
            inside += abs(called - mean) <= max(wide, value.grain)
            winners[0].append(mean)
            winners[1].append(called)
        if len(winners[0]) == len(live.controls):
            cases += 1
            same += _order(winners[0], value.grain) == _order(winners[1], value.grain)
    return Agreement(
        value, len(differences), median(differences) if differences else nan, inside, same, cases
    )


def _known(values: Values, case: str, control: str, name: str) -> list[float]:
    rows = values.rows.filter(pl.col("case") == case, pl.col("control") == control)
    return [value for value in rows[name].to_list() if value is not None and not isnan(value)]


def _order(pair: Sequence[float], grain: float) -> int:
    first, second = pair
    return (
        0
        if abs(first - second) <= max(grain, SAME * max(abs(first), abs(second)))
        else 1
        if first > second
        else -1
    )


def _live(stem: str, simulated: Values, live: Values) -> Iterator[str]:
    yield "## Simulated and live"
    yield ""
    yield f"{names(live.controls)} are also in browsers, so {len(live.cases)} cases of `access` ran once"
    yield f"live with each. The values are in `data/{stem}-live.csv`. The prediction interval is where one"
    yield f"more simulated repeat lies in 95 of 100 cases. Controls that differ by less than {100 * SAME:g} %"
    yield "count as equal."
    yield ""
    yield "| value | live calls | median difference to the mean | in the prediction interval | same order |"
    yield "|---|---:|---:|---:|---:|"
    for one in agreements(simulated, live):
        yield (
            f"| {one.value.heading} | {one.calls} | {number(one.difference)} | {one.inside} of {one.calls} "
            f"| {one.same} of {one.cases} cases |"
        )
    yield ""
    failures = live.failures()
    for control, case, repeats, reason in failures.iter_rows():
        yield f"- {control} failed live in {case}, {repeats} of 1 repeats: {reason}"
    if failures.height:
        yield ""
    shown = [CRITERIA[name] for name in findings.LIVE_CRITERIA]
    yield "Simulated mean, and the live call:"
    yield ""
    yield f"| case | control | {' | '.join(value.heading for value in shown)} |"
    yield f"|---|---|{'---:|' * len(shown)}"
    failed = {(case, control) for control, case, *_ in simulated.failures().iter_rows()}
    marked = False
    for case in live.cases:
        for control in live.controls:
            mark = "*" if (case.name, control) in failed else ""
            marked |= bool(mark)
            cells = []
            for value in shown:
                many = _known(simulated, case.name, control, value.name)
                called = _known(live, case.name, control, value.name)
                told = [number(sum(of) / len(of)) if of else "–" for of in (many, called)]
                cells.append(f"{told[0]}{mark} / {told[1]}")
            yield f"| {case.name} | {control} | {' | '.join(cells)} |"
    yield ""
    if marked:
        yield "\\* The mean of the repeats that did not fail, which may be the easy ones."
        yield ""
