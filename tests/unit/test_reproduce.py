"""Reproduction of papers: tolerances, which repeats run again, and what reports contain."""

from __future__ import annotations

import json
from dataclasses import replace
from math import nan
from pathlib import Path
from typing import Any

import pytest
from synthetic_run import trace as synthetic_trace

from rtclab.errors import BadInput
from rtclab.metrics.series import NS_PER_S
from rtclab.reproduce import NAMES, paper, plan_of
from rtclab.reproduce.cells import UNUSABLE, Cell, Verdict, verdict
from rtclab.reproduce.comparison import Comparison
from rtclab.reproduce.layout import grid
from rtclab.reproduce.measures import MEASURES, MEDIA, Values, measure
from rtclab.reproduce.pages import write_docs, write_pages
from rtclab.reproduce.paper import Paper
from rtclab.reproduce.results import Results
from rtclab.reproduce.runner import BATCH_S, Failure, Plan, run, unfinished
from rtclab.reproduce.store import Store
from rtclab.reproduce.trends import Numbers, Trend
from rtclab.scenario import Scenario, shipped
from rtclab.scenario.units import Duration

CELL = Cell(
    table="I",
    row="50 ms",
    machine="overall",
    column="Rate (kbit/s)",
    scenario="my/call",
    metric="rate_kbps",
    mean=1000,
)


def run_plans(plans: list[Plan], out: Path, **options: Any) -> list[Failure]:
    return run([batch for plan in plans for batch in unfinished(plan, out)], **options)


def todo(plan: Plan, out: Path) -> list[int]:
    return [repeat for batch in unfinished(plan, out) for repeat in batch.repeats]


EVERYTHING = tuple(name for name, one in MEASURES.items() if not one.packets)


def cell(**changed: object) -> Cell:
    return CELL.model_copy(update=changed)


@pytest.mark.parametrize(
    ("published", "ours", "expected"),
    [
        # Without a deviation 20 %: 800 to 1200.
        (CELL, 1200.0, Verdict.WITHIN),
        (CELL, 800.0, Verdict.WITHIN),
        (CELL, 1201.0, Verdict.OUTSIDE),
        (CELL, 799.0, Verdict.OUTSIDE),
        # The larger of deviation and 20 %.
        (cell(sd=300.0), 701.0, Verdict.WITHIN),
        (cell(sd=300.0), 1301.0, Verdict.OUTSIDE),
        (cell(sd=10.0), 1199.0, Verdict.WITHIN),
        (cell(metric="owd_ms", mean=5.0, sd=1.5), 6.5, Verdict.WITHIN),
        (cell(metric="owd_ms", mean=5.0, sd=1.5), 6.6, Verdict.OUTSIDE),
        # Losses: 1 percentage point, or 30 % where that is more; a deviation does not count.
        (cell(metric="packet_loss_pct", mean=0.0), 1.0, Verdict.WITHIN),
        (cell(metric="packet_loss_pct", mean=0.0), 1.01, Verdict.OUTSIDE),
        (cell(metric="packet_loss_pct", mean=20.0, sd=19.0), 26.0, Verdict.WITHIN),
        (cell(metric="packet_loss_pct", mean=20.0, sd=19.0), 13.9, Verdict.OUTSIDE),
        (CELL, nan, Verdict.MISSING),
        (cell(status=UNUSABLE), 1000.0, Verdict.UNUSABLE),
        (cell(status="host"), 1000.0, Verdict.NOT_EXPLAINED),
    ],
)
def test_a_cell_is_within_the_larger_of_two_tolerances(
    published: Cell, ours: float, expected: Verdict
) -> None:
    assert verdict(published, ours) == expected


@pytest.fixture
def call() -> Scenario:
    text = {
        "name": "my-call",
        "duration": "5 s",
        "record": "seconds",
        "participants": {"alice": {}, "bob": {}},
        "video": {},
    }
    return Scenario.read(text, "my-call.toml")


def test_finished_repeats_are_not_run_again_and_more_are_added(tmp_path: Path, call: Scenario) -> None:
    counted: list[int] = []
    for repeats in (2, 2, 5):
        failures = run_plans(
            [Plan("my/call", repeats, given=call)], tmp_path, jobs=0, on_finished=counted.append
        )
        assert not failures
    assert sum(counted) == 5


def test_an_interrupted_reproduction_continues_with_unfinished_repeats(
    tmp_path: Path, call: Scenario
) -> None:
    plan = Plan("my/call", 7, given=call.model_copy(update={"duration": Duration(BATCH_S * NS_PER_S // 3)}))

    def stop(count: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_plans([plan], tmp_path, jobs=0, on_finished=stop)
    assert todo(plan, tmp_path) == [3, 4, 5, 6]
    run_plans([plan], tmp_path, jobs=0)
    assert todo(plan, tmp_path) == []


def test_a_repeat_with_a_truncated_file_runs_again(tmp_path: Path, call: Scenario) -> None:
    plan = Plan("my/call", 3, given=call)
    store = plan.store(tmp_path)
    run_plans([plan], tmp_path, jobs=0)
    file = store.path / "1.json"
    file.write_text(file.read_text()[:-20])
    assert todo(plan, tmp_path) == [1]
    run_plans([plan], tmp_path, jobs=0)
    assert sorted(store.read()) == [0, 1, 2]


def test_repeats_run_again_if_more_is_to_be_measured(tmp_path: Path, call: Scenario) -> None:
    plan = Plan("my/call", 1, given=call)
    run_plans([plan], tmp_path, jobs=0)
    more = replace(plan, measures=(MEDIA, "rate_kbps", "rate_kbps@0"))
    assert todo(more, tmp_path) == [0]
    run_plans([more], tmp_path, jobs=0)
    assert more.store(tmp_path).read()[0].keys() == {MEDIA, "rate_kbps", "rate_kbps@0"}


def test_a_changed_scenario_runs_again_but_not_for_a_new_title(tmp_path: Path, call: Scenario) -> None:
    plan = Plan("my/call", 1, given=call)
    run_plans([plan], tmp_path, jobs=0)
    titled = call.model_copy(update={"title": "Another", "repeats": 9})
    assert todo(replace(plan, given=titled), tmp_path) == []
    changed = replace(plan, given=call.model_copy(update={"seed": 2}), traced=1)
    assert todo(changed, tmp_path) == [0]
    run_plans([changed], tmp_path, jobs=0)
    assert (todo(changed, tmp_path), todo(plan, tmp_path)) == ([], [0])
    run_plans([plan], tmp_path, jobs=0)
    assert not list((tmp_path / "traces").rglob("manifest.json")), "a trace of what is forgotten"


def test_parallel_processes_give_the_same_values_as_a_single_one(tmp_path: Path, call: Scenario) -> None:
    plan = Plan("my/call", 4, measures=EVERYTHING, given=call)
    run_plans([plan], tmp_path / "a", jobs=0)
    run_plans([plan], tmp_path / "b", jobs=2)
    assert plan.store(tmp_path / "a").read() == plan.store(tmp_path / "b").read()


def test_a_repeat_has_the_same_values_whether_measured_alone_or_with_others(
    tmp_path: Path, call: Scenario
) -> None:
    plan = Plan("my/call", 3, measures=EVERYTHING, given=call)
    run_plans([plan], tmp_path / "a", jobs=0)
    run_plans([replace(plan, traced=3)], tmp_path / "b", jobs=0)
    together, alone = (plan.store(tmp_path / out).read() for out in "ab")
    assert together == alone
    assert together[0] != together[1]


@pytest.mark.parametrize("jobs", [0, 1])
def test_a_scenario_that_fails_does_not_stop_the_others(tmp_path: Path, call: Scenario, jobs: int) -> None:
    unknown = call.model_copy(
        update={"congestion_control": call.congestion_control.model_copy(update={"name": "none-such"})}
    )
    plans = [Plan("my/bad", 1, given=unknown), Plan("my/call", 1, given=call)]
    (failure,) = run_plans(plans, tmp_path, jobs=jobs)
    assert failure.scenario == "my/bad"
    assert "no `none-such`" in failure.reason
    assert todo(plans[1], tmp_path) == []


def values(rate_a: float, rate_b: float) -> Values:
    return {
        MEDIA: {"alice->bob": (1.0, None), "bob->alice": (1.0, None), "alice->core": (None, None)},
        "rate_kbps": {"alice->bob": (rate_a, 10.0), "bob->alice": (rate_b, 30.0), "alice->core": (5.0, 5.0)},
    }


@pytest.fixture
def results(tmp_path: Path) -> Results:
    store = Store(tmp_path, "my/call", "f")
    for repeat, rates in enumerate([(900, 1100), (1000, 1200), (9, 9)]):
        store.add(repeat, values(*rates))
    return Results({"my/call": store}, {"my/call": 2})


def test_overall_is_the_mean_of_flows_and_repeats_and_its_sd_the_mean_within_runs(results: Results) -> None:
    ours = results.measured("my/call", "rate_kbps")
    # (900 + 1100) / 2 = 1000 and 1100; the third repeat is beyond those that count, the leg is no media.
    assert (ours.mean, ours.summary.repeats, ours.within_sd) == (1050, 2, 20)
    assert results.mean("my/call", "rate_kbps", "alice->*") == 950


def test_the_share_of_fec_is_that_of_bytes_not_of_packets() -> None:
    # 300 of 1200 bytes of RTP are 25 %; in packets it would be 2 of 5, and RTCP is not part of the rate.
    sent = [("rtp", "video", 500), ("rtp", "rtx", 400), ("rtp", "fec", 100), ("rtp", "fec", 200)]
    rows = [{"protocol": name, "kind": kind, "size_bytes": size} for name, kind, size in sent]
    rows.append({"protocol": "rtcp", "kind": None, "size_bytes": 100})
    assert measure(synthetic_trace(packets=rows), ["fec_share"]) == {
        "fec_share": {"alice->bob": (25.0, None)}
    }


def test_packets_are_recorded_only_if_a_measure_needs_them() -> None:
    assert plan_of("singh2013/loss-5-percent-100ms", 1).scenario.record == "packets"
    assert plan_of("singh2013/unconstrained", 1).scenario.record == "seconds"
    assert plan_of("examples/mobile-3g", 1).scenario.record == "seconds"


def test_only_what_papers_need_from_a_scenario_is_measured() -> None:
    assert plan_of("jansen2017/tcp", 1).measures == (
        MEDIA,
        *sorted(f"stats_rate_kbps@{begin_s}" for begin_s in range(60, 660, 10)),
    )


PAPER = Paper(
    name="my",
    title="A paper",
    source="Somebody, 2013",
    tables={"I": "Latency"},
    cells=(
        CELL,
        cell(row="100 ms", mean=500.0, note="digits transposed", printed="50"),
        cell(row="mesh", mean=300.0, status="host"),
    ),
    trends=(
        Trend(
            statement="Is low",
            source="IV",
            how="below",
            checks=[Numbers(metric="rate_kbps", scenario="my/call", between=(0, 1000))],
            reason="the queue is longer",
        ),
        Trend(
            statement="Is not",
            source="V",
            how="above",
            checks=[Numbers(metric="rate_kbps", scenario="my/call", between=(1000, 2000))],
        ),
    ),
    reasons={"host": "one processor for everything"},
)


def test_unexplained_cells_are_counted_separately(results: Results) -> None:
    (count,) = Comparison(PAPER, results).counts()
    assert (count.kind, count.within, count.compared) == ("rate", 1, 2)
    everything = Comparison(PAPER, results).rates_and_delays(unexplained=True)
    assert (everything.within, everything.compared) == (1, 3)


def test_a_page_has_published_and_our_numbers_verdicts_corrections_and_reasons(
    tmp_path: Path, results: Results
) -> None:
    (page,) = write_pages([Comparison(PAPER, results)], tmp_path)
    text = page.read_text()
    for expected in (
        "1050 ± 20",
        "published 500, printed 50<",
        "✗",
        "digits transposed",
        "one processor for everything",
        "including unexplained cells, it is 1 of 3 (33 %)",
        "The queue is longer",
        "1 of 2 trends hold",
    ):
        assert expected in text, expected
    assert "http" not in text.replace("http://www.w3.org", "")
    answer = json.loads(page.with_suffix(".json").read_text())
    assert [cell["verdict"] for cell in answer["cells"]] == ["within", "outside", "not explained"]


def test_the_documentation_has_every_row_and_reason(tmp_path: Path, results: Results) -> None:
    write_docs([Comparison(PAPER, results)], tmp_path / "reproduction.md")
    text = (tmp_path / "reproduction.md").read_text()
    assert "| 50 ms | 1050 (1000) ✓ |" in text
    assert "| 100 ms | 1050 (500) ✗ |" in text
    assert "one processor for everything (1 cell of table I)" in text
    assert "| my | 1 of 2 (50 %) | 1 of 3 (33 %) |" in text
    assert "\n\n\n" not in text


def test_a_transposed_table_has_machines_in_columns(results: Results) -> None:
    cells = tuple(cell(machine=machine) for machine in "AB")
    comparison = Comparison(PAPER.model_copy(update={"cells": cells}), results)
    made = grid(comparison.of("I"), transposed=True)
    assert made.columns == ["machine A", "machine B"]
    assert [row.name for row in made.rows] == ["Rate (kbit/s)"]


@pytest.mark.filterwarnings("ignore:Mean of empty slice", "ignore:invalid value encountered")
def test_papers_without_measurements_have_reports_that_say_so(tmp_path: Path) -> None:
    comparisons = [Comparison(paper(name), Results({}, {})) for name in NAMES]
    pages = write_pages(comparisons, tmp_path)
    write_docs(comparisons, tmp_path / "reproduction.md")
    for one, page in zip(comparisons, pages, strict=True):
        assert not any(finding.holds for _, finding in one.trends)
        assert "nan" not in page.read_text().lower()
    assert "nan" not in (tmp_path / "reproduction.md").read_text().lower()


@pytest.mark.parametrize("name", NAMES)
def test_every_status_of_a_cell_has_a_reason(name: str) -> None:
    one = paper(name)
    assert {cell.status for cell in one.cells} <= {"", UNUSABLE, *one.reasons}


def test_the_error_for_an_unknown_paper_suggests_the_closest_name() -> None:
    with pytest.raises(BadInput, match="did you mean `singh2013`"):
        paper("singh2014")


def test_every_scenario_of_a_paper_is_shipped() -> None:
    known = shipped()
    assert [scenario for name in NAMES for scenario in paper(name).scenarios if scenario not in known] == []


@pytest.mark.parametrize("name", NAMES)
def test_no_cell_counts_in_a_row_with_an_unexplained_rate(name: str) -> None:
    cells = paper(name).cells
    unexplained = [cell for cell in cells if cell.status not in ("", UNUSABLE)]
    rows = {(cell.table, cell.row) for cell in unexplained if cell.kind == "rate"}
    assert not [cell for cell in cells if (cell.table, cell.row) in rows and not cell.status]
