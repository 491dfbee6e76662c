"""Writes an HTML page for each paper, and the page for the documentation."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from markdown_it import MarkdownIt
from markupsafe import Markup

from rtclab.report import NARROW, Plot, as_svg, load_template, number, render
from rtclab.trace import write_json, write_text
from rtclab_papers.reproduce.comparison import ComparedCell, Comparison, compared_readings
from rtclab_papers.reproduce.estimate import Outcome
from rtclab_papers.reproduce.figure_marks import with_published
from rtclab_papers.reproduce.figures import Figure
from rtclab_papers.reproduce.headline import AGREEMENT, drawing, result_words
from rtclab_papers.reproduce.measurements import Measurements
from rtclab_papers.reproduce.measures import EQUATION
from rtclab_papers.reproduce.published_cells import OVERALL, Verdict
from rtclab_papers.reproduce.score import EVERYTHING, KeptCount, scores
from rtclab_papers.reproduce.trends import Finding, Trend

TEMPLATES = Path(__file__).parent / "templates"

READINGS_IN_TABLE = 3
"""Readings side by side in a table; more would be cut on a screen."""

MARKS = {
    Verdict.KEPT: "✓",
    Verdict.CONTRADICTED: "✗",
    Verdict.UNDECIDED: "≈",
    Verdict.UNUSABLE: "–",
    Verdict.MISSING: "?",
    Verdict.UNPUBLISHED: "",
}


def write_pages(comparisons: Sequence[Comparison], out: Path) -> list[Path]:
    """Writes ``<paper>.html`` and ``<paper>.json`` into ``out`` and returns the HTML pages.

    They say what the Markdown pages say, and have each machine's numbers and interactive charts, too.
    """
    out.mkdir(parents=True, exist_ok=True)
    pages = []
    markdown = load_template("reproduction-paper.md", TEMPLATES)
    for one in comparisons:
        text = markdown.render(one=one, pictures=[], stem=None, **KNOWN)
        body = Markup(MarkdownIt().enable("table").render(text))
        drawn = [plot for _, plot in _drawn(one)]
        page = out / f"{one.paper.name}.html"
        write_text(page, render("reproduction.html", drawn, templates=TEMPLATES, paper=one.paper, body=body))
        write_json(
            page.with_suffix(".json"), one.as_dict() | {"scores": [asdict(of) for of in scores([one])]}
        )
        pages.append(page)
    return pages


def write_docs(comparisons: Sequence[Comparison], file: Path) -> None:
    """Writes Markdown pages: ``file`` about all papers, and ``<stem>-<paper>.md`` beside it about each."""
    file.parent.mkdir(parents=True, exist_ok=True)
    known = KNOWN | {"stem": file.stem}
    write_text(file, load_template("reproduction.md", TEMPLATES).render(comparisons=comparisons, **known))
    _write_agreement(comparisons, file)
    page = load_template("reproduction-paper.md", TEMPLATES)
    for one in comparisons:
        text = page.render(one=one, pictures=write_figures(one, file), **known)
        own = file.with_name(f"{file.stem}-{one.paper.name}.md")
        write_text(own, text)
        _write_agreement([one], own)


def _write_agreement(comparisons: Sequence[Comparison], page: Path) -> None:
    """Writes the drawing of what agrees beside a page, if something was simulated."""
    if (drawn := drawing(scores(comparisons), "agreement")) is not None:
        write_text(page.with_name(f"{page.stem}-{drawn.name}.svg"), as_svg(drawn))


def _outcomes_of_all(comparisons: Sequence[Comparison]) -> Mapping[str, int]:
    """The number of statements with each outcome in all publications."""
    return sum((Counter(one.outcomes()) for one in comparisons), Counter())


def simulated(results: Measurements, scenarios: Iterable[str]) -> str:
    """How many calls of how many conditions were simulated, as a sentence; empty if none was."""
    counts = [count for name in dict.fromkeys(scenarios) if (count := results.repeats_of(name))]
    what = f"{sum(counts)} calls of {len(counts)} condition{'s' * (len(counts) != 1)}"
    return f"{what} were simulated." if counts else ""


def _tally(of: KeptCount) -> str:
    undecided = f", {of.undecided} undecided" if of.undecided else ""
    return f"{of.within} of {of.all} ({of.percent:.0f} %){undecided}" if of.all else ""


def _null(of: KeptCount) -> str:
    return f"{of.null} ({of.null_percent:.0f} %)" if of.all else ""


def _score_table(comparisons: Sequence[Comparison]) -> str:
    """The headline as a Markdown table."""
    columns = ("", "all: ours", "null model", "fitted", "follow", "test the model: ours", "null model")
    rows = [columns, ("---",) * len(columns)]
    for one in scores(comparisons):
        apart = (f"{of.within} of {of.all}" if of.all else "" for of in (one.fitted, one.follows))
        kind = {EVERYTHING: f"**{EVERYTHING}**", EQUATION: "equations, not simulated"}.get(one.kind, one.kind)
        rows.append((kind, _tally(one.all), _null(one.all), *apart, _tally(one.tests), _null(one.tests)))
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def in_words(outcomes: Mapping[str, int]) -> str:
    """The number of statements with each outcome, as text."""
    shown = [one for one in Outcome if one != Outcome.MISSING or outcomes.get(one)]
    return ", ".join(f"{outcomes.get(one, 0)} {one}" for one in shown)


def outcomes_of(rows: Sequence[tuple[Trend, Mapping[str, tuple[Outcome, str]]]], label: str) -> str:
    """How many statements a reading keeps, leaves undecided and contradicts, as text."""
    outcomes = [found[label][0] for _, found in rows if label in found]
    counts = (outcomes.count(one) for one in (Outcome.KEPT, Outcome.UNDECIDED, Outcome.CONTRADICTED))
    return ", ".join(map(str, counts))


def reasons(trend: Trend, finding: Finding) -> list[str]:
    """Sentences beside a statement: how it was used, why it is not kept, and what would decide it."""
    not_kept = trend.reason if finding.testable and not finding.holds else ""
    given = (trend.fitted, not_kept, finding.would_decide)
    return [f"{text[0].upper()}{text[1:]}" for text in given if text]


def _markdown_cell(one: ComparedCell | None) -> str:
    if one is None:
        return ""
    if one.verdict == Verdict.UNPUBLISHED:
        return number(one.ours.mean)
    return f"{one.estimate} ({number(one.cell.mean)}) {mark(one)}"


def mark(one: ComparedCell) -> str:
    """The mark of a cell's verdict, and the signs beside it."""
    return f"{MARKS[one.verdict]}{apart(one)}"


def apart(one: ComparedCell) -> str:
    """Signs of a cell: whether it agrees by coincidence, was fitted, or follows from the configuration."""
    if one.verdict not in (Verdict.KEPT, Verdict.CONTRADICTED, Verdict.UNDECIDED):
        return ""
    return ("ᶜ" if one.is_coincidence else "") + ("ᶠ" if one.is_fitted else "⁼" if one.follows else "")


def _notes(comparison: Comparison, table: str) -> list[str]:
    """The notes on the cells of a table, each once, preceded by its rows and the numbers printed there."""
    rows: dict[str, list[str]] = {}
    for one in comparison.of(table):
        if one.cell.note:
            printed = f" (printed {one.cell.printed})" if one.cell.printed else ""
            rows.setdefault(one.cell.note, []).append(one.cell.row + printed)
    return [f"{', '.join(dict.fromkeys(of))}: {note}" for note, of in rows.items()]


@dataclass(frozen=True)
class Picture:
    """A written picture: name of its file, title and caption."""

    file: str
    title: str
    caption: str


def _drawn(one: Comparison) -> Iterator[tuple[Figure, Plot]]:
    printed = [(cell, one.paper.flows(cell)) for cell in one.paper.cells]
    for figure in one.paper.figures:
        if figure.is_known(one.results):
            yield figure, with_published(figure.draw(one.results), figure, printed)


def file_name(stem: str, paper: str, number: str) -> str:
    """The name of the file of a figure: ``reproduction-abello2013-figure-17-and-19.svg``."""
    return f"{stem}-{paper}-figure-{re.sub('[^a-z0-9]+', '-', number.lower())}.svg"


def write_figures(one: Comparison, page: Path) -> list[Picture]:
    """Writes the figures of a paper as SVG beside ``page`` and deletes its other figures there.

    The names of the files begin with the stem of ``page``.
    """
    pictures = []
    for figure, plot in _drawn(one):
        file = page.with_name(file_name(page.stem, one.paper.name, figure.number))
        write_text(file, as_svg(plot, NARROW))
        pictures.append(Picture(file.name, plot.title, plot.caption))
    written = {picture.file for picture in pictures}
    for file in page.parent.glob(file_name(page.stem, one.paper.name, "").removesuffix(".svg") + "*.svg"):
        if file.name not in written:
            file.unlink()
    return pictures


@dataclass(frozen=True)
class GridRow:
    """A row of a table: its group and heading, and a cell or None for each column."""

    name: str
    cells: Sequence[ComparedCell | None]


@dataclass(frozen=True)
class Grid:
    """A table: its rows, and the headings of its columns."""

    columns: Sequence[str]
    rows: Sequence[GridRow]


def grid(cells: Sequence[ComparedCell], *, transposed: bool = False, overall_only: bool = False) -> Grid:
    """Arranges a table as it was published.

    Conditions are rows and metrics are columns. In a ``transposed`` table, metrics are rows and machines are
    columns. With ``overall_only``, a table with rows over all machines has only these rows and is not
    transposed.
    """
    if overall_only and any(one.cell.machine == OVERALL for one in cells):
        cells = [one for one in cells if one.cell.machine == OVERALL]
        transposed = False
    conditions = {one.cell.row for one in cells}
    several_conditions = len(conditions) > 1
    several_machines = len({(one.cell.row, one.cell.machine) for one in cells}) > len(conditions)

    def place(one: ComparedCell) -> tuple[str, str]:
        """Row and column."""
        cell, group = one.cell, f"{one.cell.row}, " if several_conditions else ""
        machine = OVERALL if cell.machine == OVERALL else f"machine {cell.machine}"
        if transposed:
            return group + cell.column, machine
        return group + machine if several_machines else cell.row, cell.column

    placed = {place(one): one for one in cells}
    columns = list(dict.fromkeys(column for _, column in placed))
    rows = dict.fromkeys(row for row, _ in placed)
    return Grid(columns, [GridRow(row, [placed.get((row, column)) for column in columns]) for row in rows])


KNOWN = {
    "scores": scores,
    "score_table": _score_table,
    "tally": _tally,
    "null": _null,
    "grid": grid,
    "cell": _markdown_cell,
    "in_words": in_words,
    "reasons": reasons,
    "notes": _notes,
    "compared_readings": compared_readings,
    "mark": mark,
    "outcomes_of": outcomes_of,
    "outcomes_of_all": _outcomes_of_all,
    "result_words": result_words,
    "AGREEMENT": AGREEMENT,
    "READINGS_IN_TABLE": READINGS_IN_TABLE,
    "simulated": simulated,
}
"""What the templates of the Markdown pages know."""
