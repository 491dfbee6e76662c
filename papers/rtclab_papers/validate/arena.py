"""All built-in congestion controls in the suites ``rfc8867`` and ``access``: the rows, and the page."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

import polars as pl

from rtclab.arenas import PAIRS, ArenaSuite, arena, findings, load_suite, plots, standing
from rtclab.arenas import controls as of_arenas
from rtclab.arenas import suite as suites_of
from rtclab.arenas import values as compared
from rtclab.errors import BadInput
from rtclab.report import Drawing, as_svg, number
from rtclab.trace import write_text
from rtclab_papers.validate import notes_of

SUITES = ("rfc8867", "access")
CONTROLS = (*of_arenas.default_controls(), *of_arenas.HISTORICAL)
"""All built-in controls, those of today first."""
REPEATS = 5
COLUMNS = (*compared.COMPARED, "freezes")
"""The values that are kept."""
DIGITS = 4
"""Significant digits of values in the files."""


def run(file: Path, folder: Path, say: Callable[[str], None]) -> None:
    """Runs what has not finished in ``folder``, and writes the rows to ``file`` and the pairs beside it.

    Args:
        file: CSV file with the column ``suite``, the columns of ``KEYS``, and ``COLUMNS``.
        folder: directory of the arenas.
        say: called with a line before each suite.
    """
    tables = []
    for suite in SUITES:
        say(f"{suite}: {len(CONTROLS)} controls, {REPEATS} repeats")
        found = arena(CONTROLS, suite=suite, repeats=REPEATS, into=folder / suite)
        tables.append(found.values.rows.select(pl.lit(suite).alias("suite"), *compared.KEYS, *COLUMNS))
        pairs = found.pairs
    file.parent.mkdir(parents=True, exist_ok=True)
    write_text(file, _short(pl.concat(tables)).write_csv())
    write_text(_pairs_file(file), _short(pairs).write_csv())


def _short(table: pl.DataFrame) -> pl.DataFrame:
    return table.with_columns(pl.selectors.float().round_sig_figs(DIGITS))


def _pairs_file(file: Path) -> Path:
    return file.with_name(f"{file.stem}-pairs{file.suffix}")


def read(file: Path) -> tuple[dict[str, compared.Values], pl.DataFrame]:
    """The values by suite, and the rates of pairs, from the files that :func:`run` wrote.

    Raises:
        BadInput: a file is missing.
    """
    for one in (file, _pairs_file(file)):
        if not one.is_file():
            raise BadInput(f"{one}: no such file", hint="`rtclab validate --arena` makes it")
    schema = {"suite": pl.String(), **compared.KEYS, **dict.fromkeys(COLUMNS, pl.Float64())}
    rows = pl.read_csv(file, schema=schema).with_columns(pl.col("reason").fill_null(""))
    pairs = pl.read_csv(_pairs_file(file), schema=PAIRS).with_columns(pl.col("reason").fill_null(""))
    found = {}
    for suite in dict.fromkeys(rows["suite"].to_list()):
        own = rows.filter(pl.col("suite") == suite).drop("suite")
        found[suite] = compared.Values(
            load_suite(suite).cases, tuple(dict.fromkeys(own["control"].to_list())), own
        )
    return found, pairs


def write_arena(page: Path, found: Mapping[str, compared.Values], pairs: pl.DataFrame) -> None:
    """Writes the page, and its plots beside it. Text below the line ``NOTES`` of the page is kept."""
    page.parent.mkdir(parents=True, exist_ok=True)
    for suite, values in found.items():
        drawing = plots.pareto(values)
        if drawing is not None:
            first = Drawing(drawing.name, drawing.title, "", drawing.x, drawing.y, drawing.axes[:1])
            write_text(page.with_name(f"{page.stem}-{suite}.svg"), as_svg(first))
    write_text(page, "\n".join(lines(page.stem, found, pairs)) + "\n" + notes_of(page))


def lines(stem: str, found: Mapping[str, compared.Values], pairs: pl.DataFrame) -> Iterator[str]:
    """The lines of the page."""
    controls = next(iter(found.values())).controls
    yield "# Which congestion control wins where?"
    yield ""
    suites = " and ".join(f"`{suite}`" for suite in found)
    yield f"Made by `rtclab validate --arena`: the {len(controls)} controls that come with rtclab, in the"
    yield f"suites {suites}, simulated, each case {REPEATS} times with the same seeds for all controls."
    yield "[How to compare your own](compare-controls.md) says how to make such a page with your"
    yield "control, and how it is computed. Every sentence and figure here comes from the values in"
    yield f"`data/{stem}.csv`."
    yield ""
    yield f"`{findings.YARDSTICK}` sends at its highest rate whatever happens. It shows what that costs, and"
    yield "is not picked."
    yield f"{_names(of_arenas.HISTORICAL)} are of 2013 to 2016."
    yield ""
    for suite, values in found.items():
        yield from _suite(stem, load_suite(suite), values)
    yield from _fairness(pairs, controls)


def _suite(stem: str, suite: ArenaSuite, values: compared.Values) -> Iterator[str]:
    yield f"## {suite.title}"
    yield ""
    yield f"`{suite.name}`, {len(suite.cases)} cases."
    yield ""
    yield "| when | pick | what decides | how sure |"
    yield "|---|---|---|---|"
    for pick in findings.picks(values):
        yield f"| {_pick(pick, values.controls)} |"
    yield ""
    yield f"![Utilisation against queuing delay]({stem}-{suite.name}.svg)"
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
    yield f"| control | {' | '.join(value.label for value, _ in ranked)} |"
    yield f"|---|{'---:|' * len(ranked)}"
    for index, control in enumerate(values.controls):
        cells = []
        for _, one in ranked:
            told = f"{one.mean[index]:.1f} [{one.low[index]:.1f},\u00a0{one.high[index]:.1f}]"
            good = frozenset((index, one.order[0])) not in one.apart
            cells.append(f"**{told}**" if good else told)
        yield f"| {control} | {' | '.join(cells)} |"
    yield ""
    for value, one in ranked:
        yield f"- **{value.label}**: {findings.rank_sentence(value, one, values.controls)}"
    yield ""
    yield "Means over the cases:"
    yield ""
    means = {value.heading: standing.per_case(values.of(value.name)[0]).mean(axis=1) for value, _ in ranked}
    yield f"| control | {' | '.join(means)} |"
    yield f"|---|{'---:|' * len(means)}"
    for index, control in enumerate(values.controls):
        yield f"| {control} | {' | '.join(number(of[index]) for of in means.values())} |"
    yield ""
    yield "The median over all cases and repeats, and the worst repeat with its case:"
    yield ""
    hurts = findings.spreads(values)
    yield f"| control | {' | '.join(value.heading for value, _ in hurts)} |"
    yield f"|---|{'---|' * len(hurts)}"
    for index, control in enumerate(values.controls):
        each = [own[index] for _, own in hurts]
        cells = [
            "–" if one is None else f"{number(one.median)}, worst {number(one.worst)} ({one.case})"
            for one in each
        ]
        yield f"| {control} | {' | '.join(cells)} |"
    yield ""


def _pick(pick: findings.Pick, controls: Sequence[str]) -> str:
    won = f"**{controls[pick.winner.control]}**" if pick.winner is not None and pick.certain else "none"
    return f"{pick.use.when} | {won} | {compared.ALL[pick.use.value].label} | {pick.sentence(controls)}"


def _fairness(pairs: pl.DataFrame, controls: Sequence[str]) -> Iterator[str]:
    shares = findings.fairness(pairs, controls)
    yield "## Fairness"
    yield ""
    yield "The rate of the control in the row by the rate of the one in the column, at one bottleneck of"
    yield "2 Mbit/s, over the second half of a minute: the geometric mean over repeats. Beside itself it is"
    yield "the larger rate by the smaller. In bold: between 1/3 and 3, which RFC 8868 accepts."
    yield ""
    columns = [*controls, *suites_of.TCP]
    yield f"| control | {' | '.join(columns)} |"
    yield f"|---|{'---:|' * len(columns)}"
    for control in controls:
        cells = []
        for column in columns:
            share = shares.get((control, column))
            if share is None or share.ratio is None:
                cells.append("–" if share is None else "failed")
            else:
                told = number(share.ratio)
                cells.append(f"**{told}**" if share.even else told)
        yield f"| {control} | {' | '.join(cells)} |"
    yield ""
    for tcp in suites_of.TCP:
        fair = [name for name in controls if (share := shares.get((name, tcp))) and share.even]
        low = [
            name
            for name in controls
            if (share := shares.get((name, tcp)))
            and share.ratio is not None
            and share.ratio < findings.EVEN[0]
        ]
        yield f"- Beside {tcp}: {_names(fair)} {'gets' if len(fair) == 1 else 'get'} a fair share, and"
        yield f"  {_names(low)} {'gets' if len(low) == 1 else 'get'} less than a third of its rate."
    yield ""


def _names(names: Sequence[str]) -> str:
    quoted = [f"`{name}`" for name in names] or ["nobody"]
    return quoted[0] if len(quoted) == 1 else f"{', '.join(quoted[:-1])} and {quoted[-1]}"
