"""The page that compares published numbers with the past and the present, made from rows alone."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from math import isnan
from pathlib import Path
from statistics import median

from rtclab.backend import backend
from rtclab.errors import UnsupportedScenario
from rtclab.experiment import MAX_TRIES
from rtclab.report import Drawing, as_svg, janus_caution, number
from rtclab.trace import write_text
from rtclab_papers.campaigns import Record
from rtclab_papers.markdown import bullets, folded, table
from rtclab_papers.reproduce.measures import DELAY, MEASURES, RATE
from rtclab_papers.reproduce.published_cells import UNUSABLE
from rtclab_papers.reproduce.then_and_now import agreement, costs, series
from rtclab_papers.reproduce.then_and_now.campaigns import LIVE, SIM, THEN
from rtclab_papers.reproduce.then_and_now.conditions import PublishedNumber, Section, is_published
from rtclab_papers.reproduce.then_and_now.numbers import CampaignNumbers
from rtclab_papers.reproduce.then_and_now.plots import drawing, rates
from rtclab_papers.reproduce.then_and_now.row_values import BROWSER

FEW_LEFT_OUT = 3
"""A list that lacks at most this many names is written as ``all but`` these."""
NOT_RUN = "not run yet"
NO_MODEL = "no model"
FAILED = "failed"
IN_ONE_MATRIX = 3
"""Quantities in a table with a row for each condition; more would be cut on a screen."""
DISTURBED_MARK, FAILED_MARK, UNCOMPARABLE_MARK = "†", "‡", "○"
INTRODUCTION = """\
Made by `rtclab reproduce --backend live`. {conditions} conditions of the papers, with four numbers each:

- **published**: in the paper, ± its standard deviation if it has one. Words in parentheses are from the
  paper.
- **then**: simulated, with the paper's own scenario and the congestion control of its time,
  {chosen.then_repeats} repeats; [the pages of the papers](reproduction.md) have more.
- **2026, simulated**: the same network with the congestion control, repair and encoder of Chromium of
  2026, {chosen.simulated_repeats} repeats of {chosen.duration}, longer if the network changes meanwhile.
- **2026, live**: the same scenario with real browsers ({browsers}), {live_repeats}.

The number after ± is half of Student's 95 % interval over the repeats. With fewer than three repeats
their range is given in parentheses. [What was changed](#what-was-changed) lists the changes of the scenarios.
{disturbed}: the machine disturbed a repeat. {failed}: a repeat failed and does not count.
{uncomparable}: the published number cannot be compared, for the reason given below the table.
"no model": the simulator lacks something of the call of 2026, such as its codec."""
CHANGED = """\
The network is the paper's, with the effects of its testbed. The behaviour of Chromium of 2026 replaces
the browser and the machine of the past:"""
OVER_TIME = """\
Figures of the paper, from the first simulated calls and from live calls whose traces were kept. Live
calls are shorter, so the axis is the share of the call; changes of the network come at the same share.
How fast a call begins can therefore not be compared."""
_PLACEHOLDER = re.compile(r"\{(published|then|sim|now):([^}|]+\|[^}]+)\}")
_CAMPAIGNS = {"then": THEN, "sim": SIM, "now": LIVE}


def write_page(page: Path, numbers: CampaignNumbers) -> None:
    """Writes the Markdown page, and its plots beside it as ``NAME-TABLE.svg``, if they have numbers."""
    page.parent.mkdir(parents=True, exist_ok=True)
    drawn = [drawing(section, section.plot, numbers, name) for section, name in _plotted(page.stem, numbers)]
    over_time = _over_time(page, numbers)
    lead = rates(numbers, _rates(numbers), f"{page.stem}-rates")
    for one in (lead, *drawn, *over_time, costs.drawing(numbers, f"{page.stem}-setup")):
        if one is not None:
            write_text(page.with_name(f"{one.name}.svg"), as_svg(one))
    write_text(page, "\n\n".join(blocks(page.stem, numbers, over_time)) + "\n")


def _over_time(page: Path, numbers: CampaignNumbers) -> list[Drawing]:
    """The figures over time whose curves are known of both times."""
    curves = series.read(series.file_of(page))
    drawn = (
        series.drawing(
            figure, name, curves, _file(page.stem, f"{name.partition(' ')[0]}-over-time-{figure.number}")
        )
        for name, figure in series.figures(numbers.plan)
    )
    return [one for one in drawn if one is not None]


def _file(stem: str, words: str) -> str:
    """The name of a picture, without its suffix."""
    return f"{stem}-{re.sub('[^a-z0-9]+', '-', words.lower())}"


def blocks(stem: str, numbers: CampaignNumbers, over_time: Sequence[Drawing] = ()) -> Iterator[str]:
    """The blocks of the page; ``stem`` begins the names of its plots."""
    yield "# Then and now: the papers' conditions with Chromium of 2026"
    yield from _lead(stem, numbers)
    yield "## How it was measured"
    yield _introduction(numbers)
    plots = {id(section): name for section, name in _plotted(stem, numbers)}
    for title, sections in groupby(numbers.plan.sections, key=lambda section: section.paper):
        yield f"## {title.source}"
        for section in sections:
            yield from _section(section, numbers, plots.get(id(section)))
        yield from _figures(one for one in over_time if one.name.startswith(f"{stem}-{title.name}-"))
    yield from agreement.section(numbers)
    yield from costs.section(numbers, f"{stem}-setup")
    yield from _runs(numbers)
    yield from _changes(numbers)


def _lead(stem: str, numbers: CampaignNumbers) -> Iterator[str]:
    """The result in sentences, and the figure that shows it."""
    lines = _rates(numbers)
    ratios = [numbers.of_line(line, LIVE).mean / line.published for _, line in lines]
    overall = _multiple([ratio for ratio in ratios if not isnan(ratio)], "rate")
    told = [f"Live in 2026, {overall}{agreement.in_words(numbers)}."] if overall else []
    told += [text for section in numbers.plan.sections if section.leads for text in filled(section, numbers)]
    if told:
        yield "\n".join(told)
    if overall:
        yield f"![Live in 2026, {overall}]({stem}-rates.svg)"
        yield """\
A dot is a published rate, and the live rate of 2026 in the same condition. On the line they are
equal."""


def _rates(numbers: CampaignNumbers) -> list[tuple[str, PublishedNumber]]:
    """The published rates that can be compared, each with the name of its paper."""
    return [
        (section.paper.name, line)
        for section in numbers.plan.sections
        for line in section.lines
        if is_published(line) and line.published and not line.status and kind_of(line) == RATE
    ]


def _plotted(stem: str, numbers: CampaignNumbers) -> Iterator[tuple[Section, str]]:
    for section in numbers.plan.sections:
        if section.plot and drawing(section, section.plot, numbers, "") is not None:
            yield section, _file(stem, f"{section.paper.name}-{section.title.partition(':')[0]}")


def _figures(drawn: Iterable[Drawing]) -> Iterator[str]:
    if figures := [f"![{one.title}]({one.name}.svg)" for one in drawn]:
        yield from ("### Over time", OVER_TIME, folded(f"{len(figures)} figures over time", *figures))


def _introduction(numbers: CampaignNumbers) -> str:
    browsers = dict.fromkeys(
        browser
        for scenario in numbers.plan.scenarios
        for record in numbers.tries(LIVE, scenario)
        for of_call in record.texts(BROWSER).values()
        for browser in of_call.split(", ")
    )
    return INTRODUCTION.format(
        conditions=len(numbers.plan.scenarios),
        chosen=numbers.plan.conditions,
        browsers=", ".join(browsers) or "no live call was run yet",
        live_repeats=_repeats([len(numbers.tries(LIVE, name)) for name in numbers.plan.scenarios]),
        disturbed=DISTURBED_MARK,
        failed=FAILED_MARK,
        uncomparable=UNCOMPARABLE_MARK,
    )


def _repeats(counts: Sequence[int]) -> str:
    """How often conditions were run, as text, without those that were not run yet."""
    known = sorted(set(counts) - {0}) or [0]
    low, high = known[0], known[-1]
    return f"{high} repeat{'s' * (high != 1)}" if low == high else f"{low} to {high} repeats"


def _section(section: Section, numbers: CampaignNumbers, plot: str | None) -> Iterator[str]:
    yield f"### {section.title}"
    told = [*facts(section, numbers), *filled(section, numbers)]
    if sentences := [*told, *_cautions(section, numbers)]:
        yield " ".join(sentences)
    if plot is not None:
        yield f"![{section.plot}: {told[-1] if told else section.title}]({plot}.svg)"
    tables = _matrices(section, numbers) if section.matrix else [_list(section, numbers)]
    yield folded(f"The numbers: {section.title}", *tables, *_reasons(section))


def _list(section: Section, numbers: CampaignNumbers) -> str:
    """A row for each quantity of each condition."""
    rows = []
    before = ""
    for line in section.lines:
        cells = [number_of(line, numbers, campaign) for campaign in (THEN, SIM, LIVE)]
        rows.append([line.row if line.row != before else "", line.column, published_words(line), *cells])
        before = line.row
    heads = ["condition", "quantity", "published", "then", "2026, simulated", "2026, live"]
    return table(heads, rows, "lllr")


def _matrices(section: Section, numbers: CampaignNumbers) -> Iterator[str]:
    """Tables of a few quantities each: a row for each condition, and two columns for each quantity."""
    columns = list(dict.fromkeys(line.column for line in section.lines))
    for first in range(0, len(columns), IN_ONE_MATRIX):
        yield _matrix(section, numbers, columns[first : first + IN_ONE_MATRIX])


def _matrix(section: Section, numbers: CampaignNumbers, columns: Sequence[str]) -> str:
    """A row for each condition, and for each quantity a column of the past and one of live calls."""
    heads = [words for column in columns for words in (f"{column}, then", "live")]
    rows = []
    for row, lines in groupby(section.lines, key=lambda line: line.row):
        known = {line.column: line for line in lines}
        cells = [
            number_of(known[column], numbers, campaign) if column in known else ""
            for column in columns
            for campaign in (THEN, LIVE)
        ]
        rows.append([row, *cells])
    return table(["", *heads], rows, "lr")


def _cautions(section: Section, numbers: CampaignNumbers) -> list[str]:
    """Cautions about the SFU of live calls, if one of the table's scenarios has one."""
    scenarios = [numbers.plan.today[name].scenario for name in section.scenarios]
    cautions = (janus_caution(one.model_dump(mode="json")) for one in scenarios)
    return [f"Live: {caution}" for caution in dict.fromkeys(filter(None, cautions))]


def _reasons(section: Section) -> Iterator[str]:
    """Why published numbers cannot be compared, each reason once."""
    for status in dict.fromkeys(line.status for line in section.lines):
        if status in section.paper.reasons:
            yield f"{UNCOMPARABLE_MARK}: {section.paper.reasons[status]}"


def published_words(line: PublishedNumber) -> str:
    """The published number as text: ``1950 ± 234 (note)``."""
    words = number(line.published) if is_published(line) else ""
    if words and not isnan(line.sd):
        words += f"\u00a0±\u00a0{number(line.sd, line.published)}"
    if line.status in ("", UNUSABLE):
        return f"{words} ({line.note})".strip() if line.note else words or number(None)
    return f"{words}\u00a0{UNCOMPARABLE_MARK}"


def number_of(line: PublishedNumber, numbers: CampaignNumbers, campaign: str) -> str:
    """The value of a line in a campaign, as text; marked if repeats were disturbed or failed."""
    names = dict.fromkeys(name for name, _ in line.quantity.needs)
    tries = [record for name in names for record in numbers.tries(campaign, name)]
    outcomes = Counter(record.outcome for record in tries)
    if not tries:
        return NO_MODEL if campaign == SIM and not _is_simulated(names, numbers) else NOT_RUN
    if outcomes["failed"] == len(tries):
        return f"{FAILED} {len(tries)} of {len(tries)}"
    marks = (DISTURBED_MARK if outcomes["disturbed"] else "") + (FAILED_MARK if outcomes["failed"] else "")
    return numbers.of_line(line, campaign).words + (f"\u00a0{marks}" if marks else "")


def _is_simulated(names: Iterable[str], numbers: CampaignNumbers) -> bool:
    """Whether the simulator has models of everything in the scenarios of 2026."""
    try:
        for name in names:
            backend("sim").check(numbers.plan.today[name].scenario)
    except UnsupportedScenario:
        return False
    return True


def facts(section: Section, numbers: CampaignNumbers) -> Iterator[str]:
    """Sentences that follow from the numbers: rates and delays of 2026 as multiples of the published ones."""
    for campaign, begin in ((LIVE, "Live"), (SIM, "Simulated with Chromium of 2026")):
        found = [
            words
            for kind, what in ((RATE, "rate"), (DELAY, "delay"))
            if (words := _multiple(_ratios(section, numbers, campaign, kind), what))
        ]
        if found:
            yield f"{begin}, {' and '.join(found)}."
            return


def _ratios(section: Section, numbers: CampaignNumbers, campaign: str, kind: str) -> list[float]:
    found = [
        numbers.of_line(line, campaign).mean / line.published
        for line in section.lines
        if is_published(line) and line.published and not line.status and kind_of(line) == kind
    ]
    return [ratio for ratio in found if not isnan(ratio)]


def kind_of(line: PublishedNumber) -> str:
    """The kind of a line's quantity; Jain's indices, shares, and numbers of cross traffic have none."""
    quantity = line.quantity
    related = quantity.percent_of or quantity.ratio_to or quantity.combine == "jain"
    of_media = all("->" in flow for flow in quantity.flows)
    return MEASURES[quantity.metric or ""].kind if of_media and not related else ""


def _multiple(ratios: Sequence[float], what: str) -> str:
    if not ratios:
        return ""
    low, high, middle = min(ratios), max(ratios), median(ratios)
    if len(ratios) == 1 or f"{low:.2g}" == f"{high:.2g}":
        return f"the {what} is {_times(middle)} times the published one"
    between = f"{_times(low)} to {_times(high)} times the published one"
    return f"the {what} is {between} (median {_times(middle)})"


def _times(ratio: float) -> str:
    return f"{ratio:.2f}" if ratio < 2 else f"{ratio:.1f}" if ratio < 100 else f"{ratio:.0f}"


def filled(section: Section, numbers: CampaignNumbers) -> Iterator[str]:
    """The sentence that was written for a table, if all its numbers were measured.

    Raises:
        KeyError: a placeholder names a row and column that the table does not have.
    """
    lines = {line.key: line for line in section.lines}
    missing = False

    def value(found: re.Match[str]) -> str:
        nonlocal missing
        source, key = found.groups()
        line = lines[key]
        mean = line.published if source == "published" else numbers.of_line(line, _CAMPAIGNS[source]).mean
        missing = missing or isnan(mean)
        return number(mean)

    text = _PLACEHOLDER.sub(value, section.today)
    if text and not missing:
        yield text


def _runs(numbers: CampaignNumbers) -> Iterator[str]:
    yield "## Outcome of the live runs"
    tries = {name: numbers.tries(LIVE, name) for name in numbers.plan.scenarios}
    count = Counter(record.outcome for records in tries.values() for record in records)
    missing = [name for name, records in tries.items() if not records]
    yield (
        f"{count.total()} repeats of {len(tries) - len(missing)} conditions were run: "
        f"{count['finished']} undisturbed, {count['disturbed']} disturbed by the machine in each of "
        f"{MAX_TRIES} tries, {count['failed']} failed."
    )
    told = [
        _named(record)
        for outcome in ("disturbed", "failed")
        for records in tries.values()
        for record in records
        if record.outcome == outcome
    ]
    if missing:
        told.append(f"{NOT_RUN}: {'; '.join(_which(missing, numbers.plan.scenarios))}")
    yield from bullets(told)


def _named(record: Record) -> str:
    what = "failed" if record.outcome == "failed" else f"disturbed in {record.attempt} tries"
    return f"`{record.key.condition}`, repeat {record.key.repeat}: {what}: {record.reason}"


def _changes(numbers: CampaignNumbers) -> Iterator[str]:
    yield "## What was changed"
    yield CHANGED
    by_change: dict[str, list[str]] = {}
    for name, today in numbers.plan.today.items():
        for change in today.changes:
            by_change.setdefault(change, []).append(name)
    rows = [[change, "; ".join(_which(names, numbers.plan.scenarios))] for change, names in by_change.items()]
    yield folded(f"{len(rows)} changes", table(["change", "conditions"], rows))


def _which(names: Sequence[str], of: Sequence[str]) -> Iterator[str]:
    """Names of scenarios by paper: ``singh2013: all but mcu-3; iqbal: loss-5-percent``."""
    for folder, group in groupby(of, key=lambda name: name.partition("/")[0]):
        every = list(group)
        chosen, others = (
            [name for name in every if name in names],
            [name for name in every if name not in names],
        )
        if not others:
            yield f"{folder}: all"
        elif len(others) <= FEW_LEFT_OUT < len(chosen):
            yield f"{folder}: all but {_short(others)}"
        elif chosen:
            yield f"{folder}: {_short(chosen)}"


def _short(names: Sequence[str]) -> str:
    return ", ".join(f"`{name.partition('/')[2]}`" for name in names)
