"""Reproduction of papers: tolerances, which repeats run again, and what reports contain."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from math import exp, inf, log, nan
from pathlib import Path
from typing import Any

import pytest
from synthetic_run import event, report, second
from synthetic_run import trace as synthetic_trace

from rtclab.errors import BadInput
from rtclab.experiment import Condition
from rtclab.metrics.statistics import summarise
from rtclab.scenario import Scenario, shipped
from rtclab.trace import Repeat
from rtclab_papers.reproduce import NAMES, condition_of, paper, simulate
from rtclab_papers.reproduce.ambiguities import ambiguity_of
from rtclab_papers.reproduce.comparison import ComparedCell, Comparison, compared_readings
from rtclab_papers.reproduce.configured import Configured, configured
from rtclab_papers.reproduce.estimate import Estimate, exactly, proportion
from rtclab_papers.reproduce.measurements import Measured, Measurements
from rtclab_papers.reproduce.measures import MEASURES, MEDIA, Values, measure
from rtclab_papers.reproduce.null_model import NullConstant, null_of
from rtclab_papers.reproduce.pages import grid, simulated, write_docs, write_pages
from rtclab_papers.reproduce.paper import Hypothesis, Paper
from rtclab_papers.reproduce.published_cells import UNUSABLE, Cell, Verdict, verdict
from rtclab_papers.reproduce.readings import CellReadings
from rtclab_papers.reproduce.score import distinct, scores
from rtclab_papers.reproduce.trends import Numbers, Quantity, Trend
from rtclab_papers.reproduce.variants import split

CELL = Cell(
    table="I",
    row="50 ms",
    machine="overall",
    column="Rate (kbit/s)",
    scenario="first-call",
    metric="rate_kbps",
    mean=1000,
)


Conditions = dict[str, Condition]
EVERYTHING = tuple(name for name, one in MEASURES.items() if not one.packets)


def cell(**changed: object) -> Cell:
    return CELL.model_copy(update=changed)


@pytest.mark.parametrize(
    ("published", "configured", "bounds"),
    [
        # Without a deviation 20 %, else the larger of both.
        (CELL, 0.0, (800, 1200)),
        (cell(sd=300.0), 0.0, (700, 1300)),
        (cell(sd=10.0), 0.0, (800, 1200)),
        # Delays: 2 ms, or 20 % where that is more, of the part that was not set; a deviation does not count.
        (cell(metric="owd_ms", mean=5.0, sd=3.5), 0.0, (3, 7)),
        (cell(metric="owd_ms", mean=50.0), 0.0, (40, 60)),
        (cell(metric="rtt_ms", mean=260.0), 200.0, (248, 272)),
        # Losses: 0.2 percentage points, or 30 % where that is more; a deviation does not count.
        (cell(metric="packet_loss_pct", mean=0.0), 0.0, (-0.2, 0.2)),
        (cell(metric="packet_loss_pct", mean=20.0, sd=19.0), 0.0, (14, 26)),
        (cell(within=1.0, sd=300.0), 0.0, (999, 1001)),
    ],
)
def test_the_tolerance_of_a_cell_is_the_larger_of_two(
    published: Cell, configured: float, bounds: tuple[float, float]
) -> None:
    assert published.bounds(configured) == pytest.approx(bounds)
    assert [published.accepts(bound, configured) for bound in bounds] == [True, True]


@pytest.mark.parametrize(
    ("published", "ours", "expected"),
    [
        (CELL, nan, Verdict.MISSING),
        (cell(status=UNUSABLE), 1000.0, Verdict.UNUSABLE),
        # A reason for the difference does not excuse it.
        (cell(status="host"), 1300.0, Verdict.CONTRADICTED),
    ],
)
def test_only_a_cell_with_both_numbers_is_judged(published: Cell, ours: float, expected: Verdict) -> None:
    assert verdict(published, exactly(ours)) == expected


@pytest.mark.parametrize(
    ("low", "high", "expected"),
    [
        # 800 to 1200 are within the tolerance of 1000.
        (800.0, 1200.0, Verdict.KEPT),
        (799.0, 1100.0, Verdict.UNDECIDED),
        (900.0, 1201.0, Verdict.UNDECIDED),
        (700.0, 799.0, Verdict.CONTRADICTED),
        (1201.0, 1300.0, Verdict.CONTRADICTED),
        (nan, nan, Verdict.UNDECIDED),  # one repeat has no interval
    ],
)
def test_a_cell_is_undecided_if_the_interval_of_our_mean_crosses_its_tolerance(
    low: float, high: float, expected: Verdict
) -> None:
    assert verdict(CELL, Estimate((low + high) / 2 if low == low else 1000.0, low, high, 50)) == expected


def test_the_repeats_that_decide_make_the_interval_end_at_the_bound() -> None:
    # 790 ± 40 in 50 calls is 10 below the bound of 800: an interval of ± 10 needs 16 times as many calls.
    assert Estimate(790.0, 750.0, 830.0, 50).repeats_needed(800, 1200) == 800
    assert Estimate(800.0, 750.0, 850.0, 50).repeats_needed(800, 1200) == inf


def test_a_share_of_no_repeats_is_not_certain() -> None:
    # Wilson: 1.96² / (50 + 1.96²) = 7.13 %.
    never = proportion([0.0] * 50)
    assert (never.value, never.low, never.high) == (0, 0, pytest.approx(7.135, abs=0.001))


def test_settings_are_read_from_the_pipes_and_not_from_the_links_of_the_machines() -> None:
    loss_and_latency = configured("singh2013/loss-5-percent-100ms")
    assert (loss_and_latency.capacity_kbps, loss_and_latency.delay_ms) == (inf, 100)
    # 5 % twice are 1 - 0.95 x 0.95.
    assert loss_and_latency.loss_percent == pytest.approx(9.75)
    assert configured("abello2013/queue-500kbit-1s").capacity_kbps == 500
    assert configured("singh2013/latency-200ms").of("rtt_ms") == 400
    assert configured("singh2013/latency-200ms").of("media_rate_kbps") is None
    assert configured("") == Configured()


NULL = (
    NullConstant(metrics=("media_rate_kbps",), value=1950, share_of_capacity=0.4),
    NullConstant(metrics=("media_rate_kbps",), scenarios=("*/tcp-*",), value=80),
    NullConstant(metrics=("rtt_ms",), value=4, plus="round trip"),
    NullConstant(metrics=("packet_loss_pct",), plus="loss"),
)


@pytest.mark.parametrize(
    ("scenario", "metric", "expected"),
    [
        ("singh2013/unconstrained", "media_rate_kbps", 1950),
        ("singh2013/queue-1mbit-1s", "media_rate_kbps", 400),
        ("singh2013/tcp-10mbit-10mbit-50ms", "media_rate_kbps", 80),
        ("singh2013/latency-200ms", "rtt_ms", 404),
        ("singh2013/loss-10-percent", "packet_loss_pct", 19),
    ],
)
def test_the_null_model_is_the_last_constant_that_applies(
    scenario: str, metric: str, expected: float
) -> None:
    assert null_of(NULL, cell(scenario=scenario, metric=metric)) == pytest.approx(expected)


def test_the_null_model_is_outside_where_it_has_no_number() -> None:
    silent = cell(metric="setup_ms")
    assert not silent.accepts(null_of(NULL, silent))


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


def conditions(scenario: Scenario, repeats: int, measures: Sequence[str] = (), traces: int = 0) -> Conditions:
    return {"first-call": Condition(scenario, repeats, (MEDIA, *measures), traces)}


def test_an_interrupted_reproduction_continues_and_has_the_same_values(
    tmp_path: Path, call: Scenario
) -> None:
    ended: list[int] = []

    def stop(scenario: str, outcome: Repeat) -> None:
        ended.append(outcome.repeat)
        raise KeyboardInterrupt

    wanted = conditions(call, 3, ["rate_kbps"])
    with pytest.raises(KeyboardInterrupt):
        simulate(wanted, tmp_path / "a", jobs=1, ended=stop)
    again: list[int] = []
    continued = simulate(
        wanted, tmp_path / "a", jobs=1, ended=lambda scenario, outcome: again.append(outcome.repeat)
    )
    assert sorted(ended + again) == [0, 1, 2]
    assert continued.values == simulate(wanted, tmp_path / "b", jobs=1).values


def test_only_the_repeats_that_are_asked_for_count(tmp_path: Path, call: Scenario) -> None:
    assert simulate(conditions(call, 3), tmp_path, jobs=1).repeats_of("first-call") == 3
    assert list(simulate(conditions(call, 2), tmp_path, jobs=1).values["first-call"]) == [0, 1]


def test_repeats_run_again_if_more_is_to_be_measured(tmp_path: Path, call: Scenario) -> None:
    before = simulate(conditions(call, 1), tmp_path, jobs=1)
    assert before.values["first-call"][0].keys() == {MEDIA}
    more = simulate(conditions(call, 1, ["rate_kbps", "rate_kbps@0"]), tmp_path, jobs=1)
    assert more.values["first-call"][0].keys() == {MEDIA, "rate_kbps", "rate_kbps@0"}


def test_a_page_says_how_many_calls_were_simulated(tmp_path: Path, call: Scenario) -> None:
    results = simulate(conditions(call, 3, traces=1), tmp_path, jobs=1)
    assert simulated(results, ["first-call"]) == "3 calls of 1 condition were simulated."
    assert simulated(results, []) == ""


def test_parallel_processes_give_the_same_values_as_a_single_one(tmp_path: Path, call: Scenario) -> None:
    wanted = conditions(call, 4, EVERYTHING)
    single, parallel = (simulate(wanted, tmp_path / str(jobs), jobs=jobs) for jobs in (1, 2))
    assert single.values == parallel.values


@pytest.mark.parametrize("loss", ["0 %", "100 %"])
def test_a_repeat_has_the_same_values_whether_measured_alone_or_with_others(
    tmp_path: Path, call: Scenario, loss: str
) -> None:
    lossy = Scenario.load(call, {"link.up.loss": loss})
    together, alone = (
        simulate(conditions(lossy, 3, EVERYTHING, traces), tmp_path / str(traces), jobs=1)
        for traces in (0, 3)
    )
    assert together.values == alone.values
    assert [len(of.traces("first-call", 3)) for of in (together, alone)] == [0, 3]
    # A call that does not connect is measured, too.
    assert together.mean("first-call", "established_pct", "alice->bob") == (100 if loss == "0 %" else 0)


def values(rate_a: float, rate_b: float) -> Values:
    return {
        MEDIA: {"alice->bob": (1.0, None), "bob->alice": (1.0, None), "alice->core": (0.0, None)},
        "rate_kbps": {"alice->bob": (rate_a, 10.0), "bob->alice": (rate_b, 30.0), "alice->core": (5.0, 5.0)},
    }


@pytest.fixture
def results() -> Measurements:
    calls = [values(950, 1150), values(950, 1150)]
    return Measurements({"first-call": dict(enumerate(calls)), "first-call-short": {0: values(1700, 1900)}})


def test_overall_is_the_mean_of_flows_and_repeats_and_its_sd_the_mean_within_runs(
    results: Measurements,
) -> None:
    ours = results.measured("first-call", "rate_kbps")
    # (950 + 1150) / 2 = 1050 twice; the leg is no media.
    assert (ours.mean, ours.summary.repeats, ours.within_sd) == (1050, 2, 20)
    assert results.mean("first-call", "rate_kbps", "alice->*") == 950


@pytest.mark.parametrize(
    ("calls", "verdict"),
    [
        ([62.0, 1960.0] * 10, Verdict.CONTRADICTED),
        ([62.0, 1960.0] * 10 + [1010.0], Verdict.KEPT),
        ([62.0, 1960.0] * 9, Verdict.KEPT),  # too few to tell
    ],
)
def test_a_mean_that_none_of_twenty_calls_is_near_counts_as_contradicted(
    calls: list[float], verdict: Verdict
) -> None:
    # The published 1000 has a tolerance of 200 kbit/s.
    one = ComparedCell(cell(), Measured(summarise([1010.0, 1012.0, 1011.0]), nan), calls=calls)
    assert one.verdict == verdict
    assert one.is_coincidence == (verdict == Verdict.CONTRADICTED)


def test_the_calls_of_a_mean_are_its_flows_in_every_repeat(results: Measurements) -> None:
    assert results.calls("first-call", "rate_kbps") == [950, 1150, 950, 1150]
    assert results.calls("first-call", "rate_kbps", "bob->*") == [1150, 1150]


def test_the_share_of_fec_counts_bytes_not_packets() -> None:
    # 300 of 1200 bytes of RTP are 25 %; in packets it would be 2 of 5, and RTCP is not part of the rate.
    sent = [("rtp", "video", 500), ("rtp", "rtx", 400), ("rtp", "fec", 100), ("rtp", "fec", 200)]
    rows = [{"protocol": name, "kind": kind, "size_bytes": size} for name, kind, size in sent]
    rows.append({"protocol": "rtcp", "kind": None, "size_bytes": 100})
    seconds = [{"fec_sent_packets": 2}]
    made = synthetic_trace(spans_s={"alice->bob": (0, 1)}, packets=rows, flow_seconds=seconds)
    assert measure(made, ["fec_share"]) == {"fec_share": {"alice->bob": (25.0, None)}}


def measured(name: str, **tables: Any) -> float | None:
    """The value of a measure in a trace with one flow."""
    value, _ = measure(synthetic_trace(**tables), [name])[name]["alice->bob"]
    return value


def test_the_share_of_packets_within_25_ms_follows_from_the_histogram() -> None:
    rows = [{"one_way_delay_ms": ms, "packets": count} for ms, count in ((10.0, 3), (24.8, 5), (30.0, 2))]
    assert measured("below_25ms_pct", delay_histogram=rows, flow_seconds=[second(0, packets=10)]) == 80


def test_the_largest_delay_is_the_delay_of_the_worst_second() -> None:
    rows = [second(at_s, packets=1, one_way_delay_max_ms=ms) for at_s, ms in enumerate((10.0, 90.0, 20.0))]
    assert measured("largest_owd_ms", flow_seconds=rows) == 90


def test_retransmissions_are_counted_for_100_packets_that_were_lost() -> None:
    # 100 packets were sent and 20 were dropped; 15 were sent again.
    seconds = [second(0, packets=100, delivered_packets=80, dropped_packets=20), second(1)]
    reports = [
        report(0, packetsSent=0, retransmittedPacketsSent=0),
        report(1, packetsSent=100, retransmittedPacketsSent=15),
    ]
    assert measured("retransmitted_pct", flow_seconds=seconds, outbound_rtp=reports) == pytest.approx(75)


@pytest.mark.parametrize(("shown", "expected"), [(True, 100), (False, 0)])
def test_a_call_is_established_if_a_picture_is_shown(expected: int, *, shown: bool) -> None:
    events = [event(0, "alice", "joined"), event(0, "bob", "joined")]
    events += [event(900, "bob", "first_frame", "alice->bob")] if shown else []
    assert measured("established_pct", events=events, flow_seconds=[second(0, packets=1)]) == expected


def test_a_freeze_lasts_the_frozen_time_divided_by_the_number_of_freezes() -> None:
    reports = [
        report(0, freezeCount=0, totalFreezesDuration=0.0),
        report(1, freezeCount=4, totalFreezesDuration=6.0),
    ]
    assert measured("freeze_s", inbound_rtp=reports, flow_seconds=[second(0), second(1)]) == 1.5


def test_a_deviation_is_over_the_seconds_of_its_window() -> None:
    # 1000 bytes are 8 kbit: 8 and 24 in turn deviate by 8, without change by 0.
    packets = [1, 3] * 5 + [2] * 10
    rows = [second(at_s, packets=count) for at_s, count in enumerate(packets)]
    assert measured("rate_sd_kbps@0", flow_seconds=rows) == pytest.approx(8 * (10 / 9) ** 0.5)
    assert measured("rate_sd_kbps@10", flow_seconds=rows) == 0
    assert measured("rate_sd_kbps", flow_seconds=rows) == pytest.approx(8 * (10 / 19) ** 0.5)


@pytest.mark.parametrize(("seconds", "expected"), [(48, 100), (20, 0), (80, 0)])
def test_a_call_recovers_in_time_if_it_takes_50_s_more_or_less(seconds: int, expected: int) -> None:
    first = [10] * 10 + [0] * seconds + [10] * (110 - seconds)
    flows = {"alice->bob": ["alice.up"], "alice->bob#2": ["alice.up"]}
    rows = [second(at_s, packets=count) for at_s, count in enumerate(first)]
    rows += [second(at_s, packets=10) | {"flow": "alice->bob#2"} for at_s in range(len(first))]
    call = synthetic_trace(flows, flow_seconds=rows)
    call.manifest.flows["alice->bob#2"] = call.manifest.flows["alice->bob"]
    assert measure(call, ["recovered_pct"])["recovered_pct"]["alice->bob"][0] == expected


def test_packets_are_recorded_only_if_a_measure_needs_them() -> None:
    assert condition_of("singh2013/loss-5-percent-100ms", 1).scenario.record == "packets"
    assert condition_of("singh2013/unconstrained", 1).scenario.record == "seconds"
    assert condition_of("examples/mobile-3g", 1).scenario.record == "seconds"


def test_only_measures_that_papers_need_from_a_scenario_are_computed() -> None:
    assert condition_of("jansen2017/tcp", 1).measures == (
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
            checks=[Numbers(metric="rate_kbps", scenario="first-call", between=(0, 1000))],
            reason="the queue is longer",
        ),
        Trend(
            statement="Is not",
            source="V",
            how="above",
            checks=[Numbers(metric="rate_kbps", scenario="first-call", between=(1000, 2000))],
        ),
    ),
    ambiguities=(
        ambiguity_of(
            {
                "ambiguous": "Whether the queue is short",
                "source": "IV",
                "first": "long",
                "other": "short",
                "variant": "-short",
                "changes": ["link.up.queue"],
                "fits": "other",
                "verdict": "A short one agrees",
                "numbers": [
                    {
                        "label": "rate",
                        "unit": "kbit/s",
                        "metric": "rate_kbps",
                        "scenario": "first-call",
                        "published": 2000,
                    }
                ],
            },
            "my.toml",
        ),
    ),
    reasons={"host": "one processor for everything"},
)


def test_a_reason_does_not_leave_a_cell_out(results: Measurements) -> None:
    (count,) = Comparison(PAPER, results).counts()
    assert count == {"kind": "rate", "within": 1, "compared": 3, "percent": pytest.approx(100 / 3)}


def test_the_json_of_a_cell_names_its_numbers_as_comparisons_do(results: Measurements) -> None:
    one = Comparison(PAPER, results).cells[0]
    row = one.as_dict()
    assert (row["base"], row["new"]) == (one.cell.mean, one.ours.mean)
    assert row["difference"] == one.ours.mean - one.cell.mean
    assert (row["new_low"], row["new_high"]) == (one.estimate.low, one.estimate.high)
    assert row["verdict"] == str(one.verdict)


def with_cells(*cells: Cell) -> Paper:
    return PAPER.model_copy(
        update={"cells": cells, "null": (NullConstant(metrics=("rate_kbps",), value=500),)}
    )


def test_a_measurement_that_two_publications_print_counts_once_and_over_all_machines(
    results: Measurements,
) -> None:
    one = with_cells(CELL, cell(machine="A", mean=900.0), cell(metric="sent_kbps", status=UNUSABLE))
    other = with_cells(cell(mean=500.0), cell(metric="sent_kbps"), cell(metric="rtt_ms", machine="A"))
    found = distinct([Comparison(paper, results) for paper in (one, other)])
    assert [(of.cell.metric, of.cell.machine, of.cell.mean) for of in found] == [
        ("rate_kbps", "overall", 1000),
        ("sent_kbps", "overall", 1000),
        ("rtt_ms", "A", 1000),
    ]


def test_fitted_cells_and_those_that_follow_are_counted_apart(results: Measurements) -> None:
    cells = [
        CELL,  # ours is 1050
        cell(scenario="singh2013/latency-50ms", mean=500.0),
        cell(scenario="singh2013/latency-50ms", metric="owd_ms", mean=51.0),
        cell(scenario="singh2013/latency-50ms", metric="rtt_ms", mean=120.0),
        cell(scenario="singh2013/latency-50ms", metric="packet_loss_pct", mean=0.1),
    ]
    paper = with_cells(*cells).model_copy(update={"fitted": {"first-*": ("rate_kbps",)}})
    rates, *_, everything = scores([Comparison(paper, results)])
    assert (rates.kind, rates.all.within, rates.all.null, rates.all.all) == ("rate", 1, 1, 2)
    assert (rates.fitted.within, rates.fitted.null, rates.fitted.all) == (1, 0, 1)
    # 50 ms and no loss were set; 120 ms are 20 more than twice 50.
    assert (everything.kind, everything.all.all, everything.follows.all, everything.tests.all) == (
        "everything",
        5,
        2,
        2,
    )


def test_two_names_of_one_simulation_count_once(results: Measurements) -> None:
    phones = [cell(scenario=f"jansen2017/platform-{name}") for name in ("ios", "android", "chrome")]
    found = distinct([Comparison(with_cells(*phones), results)])
    assert [one.cell.scenario for one in found] == ["jansen2017/platform-ios", "jansen2017/platform-chrome"]


def test_a_statement_that_cannot_be_tested_is_neither_kept_nor_contradicted(results: Measurements) -> None:
    silent = Trend(statement="Is busy", source="VI", untestable="no processor of the time is modelled")
    finding = silent.check(results)
    assert (finding.outcome, finding.figures) == ("untestable here", "no processor of the time is modelled")
    one = Comparison(PAPER.model_copy(update={"trends": (*PAPER.trends, silent)}), results)
    assert one.outcomes() == {"kept": 1, "contradicted": 1, "untestable here": 1}


def test_a_page_has_published_and_our_numbers_verdicts_corrections_and_reasons(
    tmp_path: Path, results: Measurements
) -> None:
    (page,) = write_pages([Comparison(PAPER, results)], tmp_path)
    text = page.read_text()
    for expected in (
        ">1050 (500) ✗<",
        " (printed 50): digits transposed<",
        "one processor for everything",
        "1 of 1 (100 %)",
        "The queue is longer",
        "Of 2 statements: 1 kept, 1 contradicted, 0 undecided, 0 untestable here.",
        "Whether the queue is short",
        "<strong>1800</strong>",
    ):
        assert expected in text, expected
    assert "http" not in text.replace("http://www.w3.org", "")
    answer = json.loads(page.with_suffix(".json").read_text())
    assert [cell["verdict"] for cell in answer["cells"]] == ["kept", "contradicted", "contradicted"]


def test_the_documentation_has_every_row_and_reason(tmp_path: Path, results: Measurements) -> None:
    tried = Hypothesis(says="It is the cable", gave="the same rate", verdict="refuted")
    paper = PAPER.model_copy(update={"done": "One call.", "hypotheses": (tried,), "decides": ("A trace.",)})
    write_docs([Comparison(paper, results)], tmp_path / "reproduction.md")
    text = (tmp_path / "reproduction-my.md").read_text()
    for expected in (
        "| 50 ms | 1050 (1000) ✓ |",
        "| 100 ms | 1050 (500) ✗ |",
        "one processor for everything (1 cell of table I)",
        "| Is low (IV) | **contradicted** | 1050 | below. The queue is longer |",
        "| It is the cable | **refuted** | the same rate |",
        "One call.",
        "- A trace.",
        "First: long. Other: short | rate, kbit/s | 2000 | 1050 | **1800** | A short one agrees |",
    ):
        assert expected in text, expected
    overview = (tmp_path / "reproduction.md").read_text()
    assert "| [my](reproduction-my.md) | 1 of 1 (100 %) |" in overview
    assert "\n\n\n" not in text + overview


def test_readings_are_compared_cell_by_cell_and_the_nearer_one_is_named(results: Measurements) -> None:
    fast = dict.fromkeys(range(2), values(1900, 2100))
    more = Measurements({**results.values, "first-call+fast": fast})
    reading = CellReadings(title="Speed", source="II", first="slow", others={"fast": "+fast"}, tables=("I",))
    paper = PAPER.model_copy(
        update={"readings_of_cells": (reading,), "cells": (CELL, cell(row="mesh", mean=2000.0))}
    )
    (found,) = compared_readings(Comparison(paper, more))
    # 1050 and 2000 against 1000, and against 2000: the medians of ln 1.05 and ln 1.905, and of ln 2 and 0.
    assert [[one.verdict for one in row] for row in found.rows] == [
        [Verdict.KEPT, Verdict.CONTRADICTED],
        [Verdict.CONTRADICTED, Verdict.KEPT],
    ]
    assert (found.kept("slow"), found.kept("fast")) == ("rate 1 of 2", "rate 1 of 2")
    slow, fast = exp((log(1.05) + log(2000 / 1050)) / 2), exp(log(2) / 2)
    assert slow == pytest.approx(fast)
    assert found.verdict == "Rates agree equally well (median factor 1.41)."
    assert not compared_readings(Comparison(paper, results)), "a reading that was not simulated is not shown"


def test_texts_quote_our_numbers_by_name(results: Measurements) -> None:
    number = Quantity(metric="rate_kbps", scenario="first-call")
    one = Comparison(PAPER.model_copy(update={"numbers": {"ours_kbps": number}}), results)
    assert one.words("It has {ours_kbps} kbit/s.") == "It has 1050 kbit/s."


def test_a_transposed_table_has_machines_in_columns(results: Measurements) -> None:
    cells = tuple(cell(machine=machine) for machine in "AB")
    comparison = Comparison(PAPER.model_copy(update={"cells": cells}), results)
    made = grid(comparison.of("I"), transposed=True)
    assert made.columns == ["machine A", "machine B"]
    assert [row.name for row in made.rows] == ["Rate (kbit/s)"]


@pytest.mark.filterwarnings("ignore:Mean of empty slice", "ignore:invalid value encountered")
def test_papers_without_measurements_have_reports_that_say_so(tmp_path: Path) -> None:
    comparisons = [Comparison(paper(name), Measurements({})) for name in NAMES]
    pages = write_pages(comparisons, tmp_path)
    write_docs(comparisons, tmp_path / "reproduction.md")
    for one, page in zip(comparisons, pages, strict=True):
        assert not any(finding.holds for _, finding in one.trends)
        assert not re.search(r"\bnan\b", page.read_text().lower())
    for page in tmp_path.glob("*.md"):
        assert not re.search(r"\bnan\b", page.read_text().lower())


@pytest.mark.parametrize("name", NAMES)
def test_every_status_of_a_cell_has_a_reason(name: str) -> None:
    one = paper(name)
    assert {cell.status for cell in one.cells} <= {"", UNUSABLE, *one.reasons}


def test_the_error_for_an_unknown_paper_suggests_the_closest_name() -> None:
    with pytest.raises(BadInput, match="did you mean `singh2013`"):
        paper("singh2014")


def test_every_scenario_of_a_paper_is_shipped() -> None:
    known = shipped()
    named = {split(scenario)[0] for name in NAMES for scenario in paper(name).scenarios}
    assert named - known.keys() == set()


@pytest.mark.parametrize("name", NAMES)
def test_no_cell_counts_in_a_row_with_an_unexplained_rate(name: str) -> None:
    cells = paper(name).cells
    unexplained = [cell for cell in cells if cell.status not in ("", UNUSABLE)]
    rows = {(cell.table, cell.row) for cell in unexplained if cell.kind == "rate"}
    assert not [cell for cell in cells if (cell.table, cell.row) in rows and not cell.status]
