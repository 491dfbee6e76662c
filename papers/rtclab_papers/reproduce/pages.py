"""Writes an HTML page for each paper, and the page for the documentation."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path

from rtclab.backend import machine, versions
from rtclab.report import load_template, machine_in_words, number, render
from rtclab.trace import write_json, write_text
from rtclab_papers.reproduce.cells import OVERALL, Cell, Verdict
from rtclab_papers.reproduce.comparison import Compared, Comparison
from rtclab_papers.reproduce.drawn import plots, write_figures
from rtclab_papers.reproduce.estimate import Outcome
from rtclab_papers.reproduce.judged import judged
from rtclab_papers.reproduce.layout import grid
from rtclab_papers.reproduce.measurements import Measurements
from rtclab_papers.reproduce.measures import EQUATION
from rtclab_papers.reproduce.score import EVERYTHING, Tally, scores
from rtclab_papers.reproduce.trends import Finding, Trend

TEMPLATES = Path(__file__).parent / "templates"

MARKS = {
    Verdict.KEPT: "✓",
    Verdict.CONTRADICTED: "✗",
    Verdict.UNDECIDED: "≈",
    Verdict.UNUSABLE: "–",
    Verdict.MISSING: "?",
    Verdict.UNPUBLISHED: "",
}


def write_pages(comparisons: Sequence[Comparison], out: Path) -> list[Path]:
    """Writes ``<paper>.html`` and ``<paper>.json`` into ``out`` and returns the HTML pages."""
    out.mkdir(parents=True, exist_ok=True)
    pages = []
    for one in comparisons:
        page = out / f"{one.paper.name}.html"
        write_text(page, _html(one))
        write_json(
            page.with_suffix(".json"), one.as_dict() | {"scores": [asdict(of) for of in scores([one])]}
        )
        pages.append(page)
    return pages


def write_docs(comparisons: Sequence[Comparison], file: Path) -> None:
    """Writes Markdown pages: ``file`` about all papers, and ``<stem>-<paper>.md`` beside it about each."""
    file.parent.mkdir(parents=True, exist_ok=True)
    known = {
        "stem": file.stem,
        "scores": scores,
        "score_table": _score_table,
        "tally": _tally,
        "null": _null,
        "grid": grid,
        "cell": _markdown_cell,
        "in_words": in_words,
        "reasons": reasons,
        "judged": judged,
        "mark": mark,
        "outcomes_of": outcomes_of,
        "simulated": simulated,
    }
    write_text(file, load_template("reproduction.md", TEMPLATES).render(comparisons=comparisons, **known))
    page = load_template("reproduction-paper.md", TEMPLATES)
    for one in comparisons:
        text = page.render(one=one, pictures=write_figures(one, file), **known)
        write_text(file.with_name(f"{file.stem}-{one.paper.name}.md"), text)


def simulated(results: Measurements, scenarios: Iterable[str]) -> str:
    """How many calls of how many conditions were simulated, as a sentence; empty if none was."""
    counts = [count for name in dict.fromkeys(scenarios) if (count := results.repeats_of(name))]
    what = f"{sum(counts)} calls of {len(counts)} condition{'s' * (len(counts) != 1)}"
    return f"{what} were simulated." if counts else ""


def _tally(of: Tally) -> str:
    undecided = f", {of.undecided} undecided" if of.undecided else ""
    return f"{of.within} of {of.all} ({of.percent:.0f} %){undecided}" if of.all else ""


def _null(of: Tally) -> str:
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


def published(one: Compared) -> str:
    """The published number as text, and the printed one if it was corrected."""
    value = _with_sd(one.cell.mean, one.cell.sd)
    what = "one-way, " if one.cell.metric == "owd_ms" and "One-way" not in one.cell.column else ""
    if not one.cell.printed:
        return f"published {value}"
    if one.cell.printed == _plain(one.cell):
        return f"published {what}{value}"
    return f"published {what}{value}, printed {one.cell.printed}"


def _plain(cell: Cell) -> str:
    return f"{cell.mean:g}" + ("" if cell.sd is None else f" ± {cell.sd:g}")


def ours(one: Compared) -> str:
    """Our mean with its 95 % interval, and the standard deviation within repeats, which the papers print."""
    deviation = one.ours.within_sd
    return str(one.estimate) if deviation != deviation else f"{one.estimate}, deviation {number(deviation)}"


def _with_sd(mean: float, sd: float | None) -> str:
    return number(mean) if sd is None or sd != sd else f"{number(mean)} ± {number(sd, mean)}"


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


def _markdown_cell(one: Compared | None) -> str:
    if one is None:
        return ""
    if one.verdict == Verdict.UNPUBLISHED:
        return number(one.ours.mean)
    return f"{one.estimate} ({number(one.cell.mean)}) {mark(one)}"


def mark(one: Compared) -> str:
    """The mark of a cell's verdict, and the signs beside it."""
    return f"{MARKS[one.verdict]}{apart(one)}"


def apart(one: Compared) -> str:
    """Signs of a cell: whether it agrees by coincidence, was fitted, or follows from the configuration."""
    if one.verdict not in (Verdict.KEPT, Verdict.CONTRADICTED, Verdict.UNDECIDED):
        return ""
    return ("ᶜ" if one.is_coincidence else "") + ("ᶠ" if one.is_fitted else "⁼" if one.follows else "")


def _html(one: Comparison) -> str:
    return render(
        "reproduction.html",
        plots(one),
        templates=TEMPLATES,
        comparison=one,
        paper=one.paper,
        facts=_facts(one),
        scores=scores([one]),
        tally=_tally,
        null=_null,
        apart=apart,
        in_words=in_words,
        reasons=reasons,
        judged=judged(one),
        mark=mark,
        everything=EVERYTHING,
        grid=grid,
        marks=MARKS,
        overall=OVERALL,
        published=published,
        ours=ours,
        Verdict=Verdict,
        notes=_notes,
    )


def _notes(comparison: Comparison, table: str) -> list[str]:
    """The notes on the cells of a table, each once, preceded by its rows."""
    rows: dict[str, list[str]] = {}
    for one in comparison.of(table):
        if one.cell.note:
            rows.setdefault(one.cell.note, []).append(one.cell.row)
    return [f"{', '.join(dict.fromkeys(of))}: {note}" for note, of in rows.items()]


def _facts(one: Comparison) -> list[tuple[str, str]]:
    results = one.results
    repeats = sorted({results.repeats_of(name) for name in one.paper.scenarios} - {0})
    return [
        ("Conditions", str(sum(results.repeats_of(name) > 0 for name in one.paper.scenarios))),
        ("Repeats of each", " or ".join(map(str, repeats))),
        ("Versions", ", ".join(f"{name} {version}" for name, version in versions().items())),
        ("Machine", machine_in_words(machine())),
    ]
