"""Field reports: calls of public threads as scenarios, with their reasons and what would help.

``rtclab validate field-reports`` simulates them. The texts about the threads are in ``field-reports.toml``.
"""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import polars as pl

import rtclab
from rtclab.errors import BadInput
from rtclab.metrics import METRICS
from rtclab_papers import scenarios
from rtclab_papers.csv_files import beside, read_table, schema_of, write_table
from rtclab_papers.markdown import digits, table, with_ends, with_unit, write_page

REPEATS = 10
LEAST_PART = 0.1
"""The best change that can be applied does this part of what the best one does, or it is not told."""
TOLD = 3
"""Number of changes that the page tells of each report."""
TEXTS = Path(__file__).with_name("field-reports.toml")
FOLDER = "field-reports/"
"""The begin of the names of the scenarios."""
SCENARIOS = Path(scenarios.__path__[0]) / FOLDER
"""The files of the scenarios."""
ROWS = schema_of(
    "report text, change text, kind text, goal text, base real, new real, difference real, "
    "difference_low real, difference_high real, verdict text"
)
SENTENCES = schema_of("report text, what text, sentence text")
WHY, ANSWER = "why", "answer"


@dataclass(frozen=True)
class Report:
    """A report in public threads.

    Attributes:
        title: what it is about.
        threads: the threads, as ``owner/repository#number``.
        symptom: what people saw, in our words.
        found: what the threads found to help.
        name: the scenario in ``field-reports/``; empty if the model cannot express the report.
        flow: the flow that it is about.
        goal: metric by which changes are ranked.
        tried: further changes, which the threads speak of: fields and values by name.
        helped: the changes that stand for what the threads found to help.
        told: further changes that the page tells.
        reason: why simulation and thread disagree, or what the model lacks.
        missing: why the report is not simulated.
    """

    title: str
    threads: Sequence[str]
    symptom: str
    found: str
    name: str = ""
    flow: str = ""
    goal: str = ""
    tried: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    helped: Sequence[str] = ()
    told: Sequence[str] = ()
    reason: str = ""
    missing: str = ""


def reports() -> list[Report]:
    """All reports, in the order of the page."""
    return [Report(**one) for one in tomllib.loads(TEXTS.read_text(encoding="utf-8"))["report"]]


def run(file: Path, names: Sequence[str], say: Callable[[str], None]) -> None:
    """Simulates reports; their rows go into a file, and their sentences into one beside it.

    Args:
        file: the file of rows. Those of other reports stay.
        names: names of scenarios; none for all reports.
        say: is told the name of each report before it is simulated.

    Raises:
        BadInput: there is no such report.
    """
    known = {report.name: report for report in reports() if report.name}
    for name in names:
        if name not in known:
            raise BadInput(f"no report `{name}`; expected {', '.join(known)}")
    rows, sentences = read_table(file, ROWS), read_table(beside(file, "sentences"), SENTENCES)
    found = [(rows.filter(report=name), sentences.filter(report=name)) for name in known]
    for place, (name, report) in enumerate(known.items()):
        if name in names or not names:
            say(name)
            found[place] = _simulated(report)
    write_table(file, pl.concat(rows for rows, _ in found), ROWS, digits=4)
    write_table(beside(file, "sentences"), pl.concat(told for _, told in found), SENTENCES)


def _simulated(report: Report) -> tuple[pl.DataFrame, pl.DataFrame]:
    """The rows and sentences of a report."""
    scenario = rtclab.Scenario.load(FOLDER + report.name)
    with TemporaryDirectory() as directory:
        call = rtclab.run(scenario, repeats=REPEATS, out=directory, progress=False)
        why = " ".join(call.why(report.flow).sentences[report.flow])
    found = rtclab.remedies(scenario, goal=report.goal, flows=report.flow, own=report.tried, repeats=REPEATS)
    of_goal = found.table().filter(metric=report.goal).rename({"metric": "goal"})
    told = [(report.name, WHY, why), (report.name, ANSWER, found.sentence)]
    return (
        of_goal.with_columns(report=pl.lit(report.name)).select(*ROWS),
        pl.DataFrame(told, SENTENCES, orient="row"),
    )


def write_field_reports(page: Path, file: Path) -> None:
    """Writes the page from the rows and sentences of all reports. Text below the line ``NOTES`` is kept."""
    rows, sentences = read_table(file, ROWS), read_table(beside(file, "sentences"), SENTENCES)
    write_page(page, _page(rows, sentences))


def _page(rows: pl.DataFrame, sentences: pl.DataFrame) -> Iterator[str]:
    known = reports()
    simulated = [report for report in known if report.name]
    agreements = [agreement(report, rows.filter(report=report.name)) for report in simulated]
    yield "# Field reports"
    yield f"""\
Made by `rtclab validate field-reports`. People report in public threads how their calls went wrong.
{len(known)} of these reports are told here in our words, each with the sentence of [`rtclab why`](why.md)
about a simulated call like it, and with what [`rtclab remedy`](why.md#what-would-help) ranks first, beside
what the thread found to help. {len(simulated)} are simulated, {REPEATS} times each with the same seeds;
`rtclab run {FOLDER}robot` runs one of them. Differences have their 95 % interval."""
    named = [one for report, one in zip(simulated, agreements, strict=True) if report.helped]
    yield f"""\
{len(named)} threads name a remedy that a scenario can express. In {named.count(AGREES)} of them, it is among
the two best changes that somebody can apply; in {named.count(HELPS)} it helps, and others help more; in
{named.count(UNDECIDED)} it may help, and {REPEATS} calls are too few to tell. In {named.count(DIFFERS)}
simulation and thread disagree, and the report says why."""
    numbers = {report.name: number for number, report in enumerate(known, 1)}
    yield table(
        ["", "report", "ranked by", "most helps", "of what can be applied", "simulation and thread"],
        (
            [str(numbers[report.name]), report.title, f"`{report.goal}`", *_best(report, rows), agrees]
            for report, agrees in zip(simulated, agreements, strict=True)
        ),
    )
    for number, report in enumerate(known, 1):
        yield f"## {number}. {report.title}"
        yield from _section(report, rows.filter(report=report.name), sentences.filter(report=report.name))


def _section(report: Report, rows: pl.DataFrame, sentences: pl.DataFrame) -> Iterator[str]:
    yield f"{', '.join(map(_link, report.threads))}. {report.symptom}"
    if report.missing:
        yield report.missing
    else:
        told = dict(sentences.select("what", "sentence").iter_rows())
        yield f"**Why** (`{FOLDER}{report.name}`): {told[WHY]}"
        yield f"**What would help**: {told[ANSWER]}"
        yield _changes(report, rows)
    yield f"**The thread**: {report.found}"
    if report.reason:
        yield report.reason


def _link(thread: str) -> str:
    repository, _, number = thread.partition("#")
    return f"[{repository} {number}](https://github.com/{repository}/issues/{number})"


def _changes(report: Report, rows: pl.DataFrame) -> str:
    """The first changes, and those of the thread, by their rank."""
    wanted = {*rows["change"][:TOLD], *report.helped, *report.tried, *report.told}
    cells = (
        [
            row["change"],
            "the thread's" if row["kind"] == "own" else row["kind"],
            f"{_digits(row['base'])} → {_digits(row['new'])}",
            _difference(row),
            row["verdict"],
        ]
        for row in rows.iter_rows(named=True)
        if row["change"] in wanted
    )
    return table(["change", "", with_unit(report.goal), "difference", ""], cells, "llrrl")


def _digits(value: float | None) -> str:
    return "–" if value is None else digits(value)


def _difference(row: Mapping[str, Any]) -> str:
    if row["difference"] is None:
        return "–"
    return with_ends(*(row[name] for name in ("difference", "difference_low", "difference_high")))


AGREES, HELPS, DIFFERS = "agree", "the thread's helps, others help more", "disagree"
UNDECIDED = "the thread's may help: too few calls to tell"
NO_REMEDY = "the thread has none to try"


def agreement(report: Report, rows: pl.DataFrame) -> str:
    """Whether what a thread found to help does so in simulation: one of the words above.

    Args:
        report: the report.
        rows: its changes in the order of their ranks.
    """
    if not report.helped:
        return NO_REMEDY
    of_thread = pl.col("change").is_in(list(report.helped))
    applicable = rows.filter(of_thread | (pl.col("kind") != "cause"), verdict="helps")
    if {*applicable["change"][:2]} & {*report.helped}:
        return AGREES
    if not applicable.filter(of_thread).is_empty():
        return HELPS
    # Its own interval is on the good side of 0, and the correction for many changes decides otherwise.
    low, high = pl.col("difference_low"), pl.col("difference_high")
    better = low > 0 if METRICS[report.goal].better == "higher" else high < 0
    return DIFFERS if rows.filter(of_thread, better).is_empty() else UNDECIDED


def _best(report: Report, rows: pl.DataFrame) -> Iterable[str]:
    """The change that helps most, and the one of those that can be applied; a dash if there is none."""
    helping = rows.filter(report=report.name, verdict="helps")
    much = pl.col("difference").abs() >= LEAST_PART * pl.col("difference").abs().max()
    applicable = helping.filter(much).filter(pl.col("kind") != "cause")
    return ("–" if found.is_empty() else found["change"][0] for found in (helping, applicable))
