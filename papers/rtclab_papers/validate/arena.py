"""All built-in congestion controls in the suites ``rfc8867`` and ``access``: the rows, and the page."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from itertools import product
from math import ceil, nan
from pathlib import Path
from statistics import fmean, median
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
from rtclab.metrics import means_of_known, prediction_interval
from rtclab.report import Drawing, number
from rtclab_papers.csv_files import beside, read_table, write_table
from rtclab_papers.markdown import bullets, folded, in_sentence, listed, names, table, write_page

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
SCHEMA = pl.Schema({"suite": pl.String(), **KEYS, **dict.fromkeys(COLUMNS, pl.Float64())})
DOTS = """\
A small mark is a case, a large one the mean over all. Nobody beats what is on the dashed line."""
SAME = 0.05
"""Controls whose values differ by a smaller share count as equal."""
LEAD = "access"
"""The suite whose results begin the page. It has the most cases."""
IN_ONE_TABLE = 5
"""Columns of a table with a row for each control; more would be cut on a screen."""
RANKS_WIDTH, RANKS_GAP = 620, 30
"""Width of the diagram of one ranking, and the room for its title, in pixels."""
DIGITS = 4
"""Significant digits of values in the files."""


def run(file: Path, folder: Path, say: Callable[[str], None]) -> None:
    """Runs what has not finished in ``folder``, and writes the rows to ``file`` and the pairs beside it.

    Args:
        file: CSV file with the columns of ``SCHEMA``.
        folder: directory of the runs of the arenas.
        say: called with a line before each suite.
    """
    tables = []
    for suite in SUITES:
        say(f"{suite}: {len(CONTROLS)} controls, {REPEATS} repeats")
        found = arena(CONTROLS, suite=suite, repeats=REPEATS, out=folder)
        tables.append(found.values.rows.with_columns(suite=pl.lit(suite)))
        pairs = found.pairs
    write_table(file, pl.concat(tables), SCHEMA, DIGITS)
    write_table(beside(file, "pairs"), pairs, PAIRS, DIGITS)


def run_live(file: Path, folder: Path, say: Callable[[str], None]) -> None:
    """Runs the live calls that have not finished in ``folder``, and writes their rows beside ``file``."""
    whole = load_suite("access")
    cases = tuple(case for case in whole.cases if case.name in LIVE_CASES)
    say(f"access: {len(cases)} cases with {' and '.join(LIVE_CONTROLS)}, live")
    suite = ArenaSuite("access", whole.title, cases, pairings=False)
    found = arena(LIVE_CONTROLS, suite=suite, backend="live", repeats=1, out=folder)
    write_table(beside(file, "live"), found.values.rows.with_columns(suite=pl.lit("access")), SCHEMA, DIGITS)


def read_live(file: Path) -> Values | None:
    """The live values of cases of ``access``, from the file that :func:`run_live` wrote; None without it."""
    return _read(beside(file, "live")).get("access")


def _read(file: Path) -> dict[str, Values]:
    found = {}
    for (suite,), rows in read_table(file, SCHEMA).group_by("suite", maintain_order=True):
        cases = tuple(case for case in load_suite(str(suite)).cases if case.name in set(rows["case"]))
        controls = tuple(rows["control"].unique(maintain_order=True))
        found[str(suite)] = Values(cases, controls, rows.drop("suite"))
    return found


def read(file: Path) -> tuple[dict[str, Values], pl.DataFrame]:
    """The values by suite, and the rates of pairs, from the files that :func:`run` wrote.

    Raises:
        BadInput: a file is missing.
    """
    for one in (file, beside(file, "pairs")):
        if not one.is_file():
            raise BadInput(f"{one}: no such file", hint="`rtclab validate arena` makes it")
    return _read(file), read_table(beside(file, "pairs"), PAIRS)


def write_arena(
    page: Path, found: Mapping[str, Values], pairs: pl.DataFrame, live: Values | None = None
) -> None:
    """Writes the page, and its plots beside it. Text below the line ``NOTES`` of the page is kept."""
    drawings = [
        Drawing(suite, one.title, "", one.x, one.y, one.axes[:1])
        for suite, values in found.items()
        if (one := plots.pareto(values)) is not None
    ]
    pictures = {
        f"{suite}-ranks": _ranks_picture(findings.rankings(values), values.controls)
        for suite, values in found.items()
    }
    write_page(page, _page(page.stem, found, pairs, live), drawings, pictures)


def _ranks_picture(ranked: Sequence[tuple[Criterion, Ranking]], controls: Sequence[str]) -> str:
    """An SVG file with the diagrams of all rankings in two columns."""
    height = plots.TOP + plots.ROW * len(controls) + 12
    rows = -(-len(ranked) // 2)
    size = (2 * RANKS_WIDTH, rows * (height + RANKS_GAP))
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {size[0]} {size[1]}" '
        'font-family="\'DejaVu Sans\', Verdana, sans-serif" font-size="14">',
        '<path d="M0 0H{}V{}H0z" fill="#fff"/>'.format(*size),
    ]
    for index, (value, one) in enumerate(ranked):
        x, y = index % 2 * RANKS_WIDTH, index // 2 * (height + RANKS_GAP)
        title = f"{value.label}, mean rank over {one.cases} cases"
        place = f'<svg x="{x}" y="{y + RANKS_GAP}" width="{RANKS_WIDTH}" height="{height}" '
        parts.append(f'<text x="{x + 8}" y="{y + RANKS_GAP - 8}" font-weight="bold">{escape(title)}</text>')
        parts.append(plots.rank_diagram(one, controls, title).replace("<svg ", place, 1))
    return "\n".join([*parts, "</svg>\n"])


def _page(stem: str, found: Mapping[str, Values], pairs: pl.DataFrame, live: Values | None) -> Iterator[str]:
    controls = next(iter(found.values())).controls
    suites = " and ".join(f"`{suite}`" for suite in found)
    yield "# Which congestion control wins where?"
    told = [*_picked(found), *_best(found[LEAD]), *_fair_beside_all(pairs, controls)]
    if live is not None:
        told.append(_live_in_words(found[LEAD], live))
    yield "\n".join(told)
    yield f"![{_front_in_words(found[LEAD])}]({stem}-{LEAD}.svg)"
    yield DOTS
    yield "## How it was measured"
    yield f"""\
Made by `rtclab validate arena`: the {len(controls)} controls that come with rtclab, in the
suites {suites}, simulated, each case {REPEATS} times with the same seeds for all controls.
[How to compare your own](compare-controls.md) says how to make such a page with your
control, and how it is computed. Every sentence and figure here comes from the values in
`data/{stem}.csv`."""
    yield f"""\
`{findings.YARDSTICK}` sends at its highest rate whatever happens. It shows what that costs, and
is not picked.
{names(of_arenas.HISTORICAL)} are of 2013 to 2016."""
    for suite, values in found.items():
        yield from _suite(stem, load_suite(suite), values)
    yield from _fairness(pairs, controls)
    if live is not None:
        yield from _live(stem, found[LEAD], live)


def _picked(found: Mapping[str, Values]) -> Iterator[str]:
    """In which use cases a control wins by more than chance, and how many cases would decide one more."""
    every = [(suite, pick) for suite, values in found.items() for pick in findings.recommendations(values)]
    known = [(suite, pick, pick.winner) for suite, pick in every if pick.winner is not None]
    won = [
        f"`{found[suite].controls[winner.control]}` where {pick.use.when} (`{suite}`)"
        for suite, pick, winner in known
        if pick.certain
    ]
    which = f": {'; '.join(won)}" if won else ""
    yield f"A control wins by more than chance in {len(won)} of {len(known)} use cases{which}."
    undecided = [
        (_cases_needed(winner.margin, winner.low, len(pick.cases)), suite, pick)
        for suite, pick, winner in known
        if not pick.certain and winner.margin > 0 and len(pick.cases) >= findings.FEWEST_CASES
    ]
    if undecided:
        needed, suite, pick = min(undecided, key=lambda one: one[0])
        yield (
            f"The next to be decided is the one where {pick.use.when} (`{suite}`):\n"
            f"the same lead would need about {needed} cases instead of {len(pick.cases)}, and more repeats\n"
            "of the same cases would not help."
        )


def _cases_needed(lead: float, low: float, cases: int) -> int:
    """With how many cases the same lead would be more than chance; ``low`` is the lower end of its interval.

    The interval of a mean narrows with the square root of the number of cases.
    """
    return ceil(cases * ((lead - low) / lead) ** 2)


def _best(values: Values) -> Iterator[str]:
    """Who has the best mean rank at what, without ``YARDSTICK``, and where nobody is within chance of it."""
    yardstick = values.controls.index(findings.YARDSTICK)
    of_control: dict[str, list[str]] = {}
    alone = []
    for value, one in findings.rankings(values):
        best, *others = (index for index in one.order if index != yardstick)
        of_control.setdefault(values.controls[best], []).append(in_sentence(value.label))
        if all(frozenset((best, other)) in one.apart for other in others):
            alone.append(in_sentence(value.label))
    told = [f"`{control}` ({', '.join(of)})" for control, of in of_control.items()]
    but = f", but not at {listed(alone)}" if alone else ""
    yield (
        f"By mean rank over the {len(values.cases)} cases of `{LEAD}`, the best apart from\n"
        f"`{findings.YARDSTICK}` are {listed(told)};\n"
        f"others are within chance of them{but}."
    )


def _fair_beside_all(pairs: pl.DataFrame, controls: Sequence[str]) -> Iterator[str]:
    """Who gets a fair share beside every TCP."""
    shares = findings.fairness(pairs, controls)
    fair = [
        name
        for name in controls
        if all((one := shares.get((name, tcp))) and one.even for tcp in suites_of.TCP)
    ]
    yield (
        f"Beside each TCP ({', '.join(suites_of.TCP)}), {names(fair)} {'gets' if len(fair) < 2 else 'get'}\n"
        "between a third and three times its rate; the others do not."
    )


def _live_in_words(simulated: Values, live: Values) -> str:
    """How many live values lie where simulated ones would."""
    found = agreements(simulated, live)
    inside, calls = sum(one.inside for one in found), sum(one.calls for one in found)
    return (
        f"Live, {inside} of {calls} values of {names(live.controls)} lie in the 95 % prediction interval of\n"
        "the simulated ones."
    )


def _front_in_words(values: Values) -> str:
    """The figure of rate against delay in words: who has the highest rate, and who the shortest delay."""
    ends = [
        values.controls[next(one for one in found.order if values.controls[one] != findings.YARDSTICK)]
        for value, found in findings.rankings(values)
        if value.name in ("rate_attained", "queuing_delay_p95")
    ]
    first, last = ends
    return f"Apart from {findings.YARDSTICK}, {first} has the highest rate and {last} the shortest queues"


def _suite(stem: str, suite: ArenaSuite, values: Values) -> Iterator[str]:
    yield f"## {suite.title}"
    yield f"`{suite.name}`, {len(suite.cases)} cases."
    if suite.name != LEAD:
        yield f"![{_front_in_words(values)}]({stem}-{suite.name}.svg)"
        yield DOTS
    yield from _failures(values, "failed", REPEATS)
    ranked = findings.rankings(values)
    yield """\
Mean rank over the cases that have the value, with its 95 % interval. 1 is the best. A vertical bar
joins controls that are within chance of each other (Wilcoxon's signed ranks over cases, Holm over
all pairs, 5 %)."""
    firsts = ", ".join(f"{in_sentence(value.label)} {values.controls[one.order[0]]}" for value, one in ranked)
    yield f"![The best mean ranks: {firsts}]({stem}-{suite.name}-ranks.svg)"
    picks = [_pick(pick, values.controls) for pick in findings.recommendations(values)]
    yield folded("Which control to pick when", table(["when", "pick", "what decides", "how sure"], picks))
    ranks = {value.label: one for value, one in ranked}
    yield folded(
        "Mean ranks",
        "In bold: the best, and whoever is within chance of it.",
        *_by_control(values.controls, ranks, _rank),
        *bullets(
            f"**{value.label}**: {findings.rank_sentence(value, one, values.controls)}"
            for value, one in ranked
        ),
    )
    means = {value.heading: means_of_known(values.of(value.name)[0]).mean(axis=1) for value, _ in ranked}
    own = _by_control(values.controls, means, lambda index, of: number(of[index]))
    yield folded("Means over the cases", *own)
    spreads = {value.heading: own for value, own in findings.spreads(values)}
    yield folded(
        "The median over all cases and repeats, and the worst repeat with its case",
        *_by_control(values.controls, spreads, lambda index, of: _spread(of[index]), "l"),
    )


def _failures(values: Values, words: str, repeats: int) -> list[str]:
    return bullets(
        f"{control} {words} in {case}, {some} of {repeats} repeats: {reason}"
        for control, case, some, reason in values.failures().iter_rows()
    )


def _by_control(
    controls: Sequence[str], columns: Mapping[str, Any], cell: Callable[[int, Any], str], align: str = "lr"
) -> Iterator[str]:
    """Tables with a row for each control; ``cell`` makes a cell of its number and the value of a column."""
    heads = list(columns)
    for first in range(0, len(heads), IN_ONE_TABLE):
        shown = heads[first : first + IN_ONE_TABLE]
        rows = [
            [control, *(cell(index, columns[head]) for head in shown)]
            for index, control in enumerate(controls)
        ]
        yield table(["control", *shown], rows, align)


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


def _pick(pick: findings.Recommendation, controls: Sequence[str]) -> list[str]:
    won = f"**{controls[pick.winner.control]}**" if pick.winner is not None and pick.certain else "none"
    return [pick.use.when, won, pick.criterion.label, pick.sentence(controls)]


def _fairness(pairs: pl.DataFrame, controls: Sequence[str]) -> Iterator[str]:
    shares = findings.fairness(pairs, controls)
    yield "## Fairness"
    yield """\
The rate of the control in the row by the rate of the one in the column, at one bottleneck of
2 Mbit/s, over the second half of a minute: the geometric mean over repeats. Beside itself it is
the larger rate by the smaller. In bold: between 1/3 and 3, which RFC 8868 accepts."""
    told = []
    for tcp in suites_of.TCP:
        known = {name: share for name in controls if (share := shares.get((name, tcp)))}
        fair = [name for name, share in known.items() if share.even]
        low = [
            name
            for name, share in known.items()
            if share.ratio is not None and share.ratio < findings.EVEN[0]
        ]
        gets = ["gets" if len(some) == 1 else "get" for some in (fair, low)]
        told.append(
            f"Beside {tcp}: {names(fair)} {gets[0]} a fair share, and\n"
            f"  {names(low)} {gets[1]} less than a third of its rate."
        )
    yield from bullets(told)
    columns = {column: column for column in (*controls, *suites_of.TCP)}
    ratios = _by_control(controls, columns, lambda index, of: _ratio(shares.get((controls[index], of))))
    yield folded("The ratio of each pair", *ratios)


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
        means: list[tuple[float, float]] = []
        for control in live.controls:
            many, one = (_known(side, case.name, control, value.name) for side in (simulated, live))
            if len(many) < 2 or not one:
                continue
            mean, called = fmean(many), fmean(one)
            low, high = prediction_interval(many)
            differences.append(abs(called - mean))
            inside += abs(called - mean) <= max((high - low) / 2, value.grain)
            means.append((mean, called))
        if len(means) == len(live.controls):
            cases += 1
            same += len({_order(pair, value.grain) for pair in zip(*means, strict=True)}) == 1
    return Agreement(
        value, len(differences), median(differences) if differences else nan, inside, same, cases
    )


def _known(values: Values, case: str, control: str, name: str) -> list[float]:
    return values.rows.filter(case=case, control=control)[name].drop_nulls().drop_nans().to_list()


def _order(pair: Sequence[float], grain: float) -> int:
    first, second = pair
    apart = abs(first - second) > max(grain, SAME * max(abs(first), abs(second)))
    return apart * (1 if first > second else -1)


def _live(stem: str, simulated: Values, live: Values) -> Iterator[str]:
    yield "## Simulated and live"
    yield f"""\
{names(live.controls)} are also in browsers, so {len(live.cases)} cases of `access` ran once
live with each. The values are in `data/{stem}-live.csv`. The prediction interval is where one
more simulated repeat lies in 95 of 100 cases. Controls that differ by less than {100 * SAME:g} %
count as equal."""
    agree = table(
        ["value", "live calls", "median difference to the mean", "in the prediction interval", "same order"],
        [
            [
                one.value.heading,
                str(one.calls),
                number(one.difference),
                f"{one.inside} of {one.calls}",
                f"{one.same} of {one.cases} cases",
            ]
            for one in agreements(simulated, live)
        ],
        "lr",
    )
    yield folded("How each value agrees", agree)
    yield from _failures(live, "failed live", 1)
    shown = [CRITERIA[name] for name in findings.LIVE_CRITERIA]
    failed = {(case, control) for control, case, *_ in simulated.failures().iter_rows()}
    rows, marked = [], False
    for case, control in product(live.cases, live.controls):
        mark = "*" if (case.name, control) in failed else ""
        marked |= bool(mark)
        cells = []
        for value in shown:
            known = (_known(side, case.name, control, value.name) for side in (simulated, live))
            many, called = (number(sum(of) / len(of)) if of else "–" for of in known)
            cells.append(f"{many}{mark} / {called}")
        rows.append([case.name, control, *cells])
    note = ["\\* The mean of the repeats that did not fail, which may be the easy ones."] if marked else []
    heads = ["case", "control", *(value.heading for value in shown)]
    yield folded("Each case: the simulated mean, and the live call", table(heads, rows, "llr"), *note)
