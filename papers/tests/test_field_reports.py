"""The page of field reports says what its rows give, and its scenarios and texts belong together."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import polars as pl
import pytest

import rtclab
from rtclab.errors import BadInput
from rtclab.metrics import METRICS
from rtclab_papers.csv_files import read_table
from rtclab_papers.validate import field_reports
from rtclab_papers.validate.field_reports import (
    AGREES,
    DIFFERS,
    FOLDER,
    HELPS,
    NO_REMEDY,
    ROWS,
    UNDECIDED,
    Report,
)

DOCS = Path(__file__).parents[2] / "docs"
REPORTS = field_reports.reports()
SIMULATED = [report for report in REPORTS if report.name]


def test_the_page_is_made_of_the_rows(tmp_path: Path) -> None:
    shutil.copytree(DOCS / "data", tmp_path / "data")
    page = tmp_path / "field-reports.md"
    shutil.copy(DOCS / page.name, page)
    field_reports.write_field_reports(page, tmp_path / "data" / "field-reports.csv")
    assert page.read_text(encoding="utf-8") == (DOCS / page.name).read_text(encoding="utf-8")


def test_every_report_is_simulated_or_says_why_not() -> None:
    assert len(REPORTS) == 21
    assert all(report.name or report.missing for report in REPORTS)
    listed = {one.stem for one in Path(field_reports.SCENARIOS).glob("*.toml")}
    assert {report.name for report in SIMULATED} == listed
    kept = {*read_table(DOCS / "data" / "field-reports.csv", ROWS)["report"]}
    assert kept == listed


@pytest.mark.parametrize("report", SIMULATED, ids=lambda report: report.name)
def test_a_report_names_a_flow_a_metric_and_changes_that_its_scenario_has(report: Report) -> None:
    scenario = rtclab.Scenario.load(FOLDER + report.name)
    assert report.flow in {flow.name for flow in scenario.flows()}
    assert METRICS[report.goal].better
    for changes in report.tried.values():
        assert rtclab.Scenario.load(scenario, changes) != scenario
    rows = read_table(DOCS / "data" / "field-reports.csv", ROWS).filter(report=report.name)
    assert {*report.helped, *report.tried} <= {*rows["change"]}


def rows_of(*changes: tuple[str, str, str, float, float]) -> pl.DataFrame:
    names = ["change", "kind", "verdict", "difference_low", "difference_high"]
    return pl.DataFrame(changes, schema=names, orient="row")


def test_simulation_and_thread_agree_if_its_remedy_is_among_the_two_best_that_can_be_applied() -> None:
    report = Report("", [], "", "", goal="freeze_duration", helped=["x"])
    shorter, unclear = (-3.0, -1.0), (-3.0, 1.0)
    others = [
        (name, kind, "helps", *shorter) for name, kind in (("a", "cause"), ("b", "remedy"), ("c", "remedy"))
    ]
    helping = ("x", "own", "helps", *shorter)
    assert field_reports.agreement(report, rows_of(*others[:2], helping)) == AGREES
    assert field_reports.agreement(report, rows_of(*others, helping)) == HELPS
    undecided = ("x", "own", "no difference", *shorter)
    assert field_reports.agreement(report, rows_of(*others, undecided)) == UNDECIDED
    higher = replace(report, goal="goodput")
    assert field_reports.agreement(higher, rows_of(*others, undecided)) == DIFFERS
    assert (
        field_reports.agreement(report, rows_of(*others, ("x", "own", "no difference", *unclear))) == DIFFERS
    )
    assert field_reports.agreement(Report("", [], "", ""), rows_of(*others)) == NO_REMEDY


def test_a_report_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="no report `robots`; expected slow-start, few-pictures, robot"):
        field_reports.run(tmp_path / "rows.csv", ["robots"], print)
