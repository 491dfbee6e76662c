"""Papers' conditions with Chromium of 2026: the translation, the numbers from rows, and the page."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from math import isnan
from pathlib import Path
from typing import Any

import pytest

from rtclab.backend.live import check_participant
from rtclab.backend.sim import SimBackend
from rtclab.cli import main
from rtclab.errors import BadInput
from rtclab.experiment import digest_of
from rtclab.scenario import Scenario, shipped
from rtclab_papers.campaigns import Key, Record, RowFile
from rtclab_papers.commands import reproducing
from rtclab_papers.reproduce import NAMES, paper
from rtclab_papers.reproduce.then_and_now import agreement
from rtclab_papers.reproduce.then_and_now.campaigns import LIVE, SIM, THEN, campaigns, current
from rtclab_papers.reproduce.then_and_now.conditions import Plan, read_plan
from rtclab_papers.reproduce.then_and_now.costs import spread
from rtclab_papers.reproduce.then_and_now.numbers import CampaignNumbers, RepeatsMean
from rtclab_papers.reproduce.then_and_now.page import NOT_RUN, blocks, filled, number_of, write_page
from rtclab_papers.reproduce.then_and_now.row_values import COMPARED, Need, measured
from rtclab_papers.reproduce.then_and_now.translate import (
    ENCODED_PIXELS_PER_S,
    as_today,
    encoded_pixels_per_s,
)

DATA = Path(__file__).parents[2] / "docs" / "data"
EVERY = [
    name for name in dict.fromkeys(s for one in NAMES for s in paper(one).scenarios) if name in shipped()
]


@cache
def plan() -> Plan:
    return read_plan(NAMES)


# --- translation -----------------------------------------------------------------------------------


def test_a_scenario_of_2026_is_unchanged() -> None:
    before = Scenario.load("first-call", {"video.camera": "steady"})
    today = as_today(before)
    assert today.changes == ()
    assert today.scenario.differences(before) == []


def test_the_host_the_repair_and_the_audio_of_the_past_are_replaced() -> None:
    before = Scenario.load("singh2013/unconstrained").model_dump(mode="json", exclude_none=True)
    before |= {"host": {"encoder_capacity": "10 Mpixel/s"}, "audio": {"frame": "60 ms"}}
    before["video"]["repair"] = "hybrid-2013"
    before["participants"] = {"alice": {}, "bob": {"host": {"encoder_capacity": "5 Mpixel/s"}}}
    today = as_today(Scenario.read(before, "test")).scenario
    assert today.host is None
    for name in today.participants:
        assert today.host_of(name) is None
        assert today.video_of(name).repair == "auto"  # type: ignore[union-attr]
        assert today.audio_of(name).frame.ns == 20_000_000  # type: ignore[union-attr]


NOT_SIMULATED = {"jansen2017/codec-vp9", "jansen2017/codec-h264"}
"""Conditions whose codec the simulator has no model of, as it is today."""


@pytest.mark.parametrize("name", EVERY)
def test_every_translated_condition_runs_on_both_backends(name: str) -> None:
    today = as_today(Scenario.load(name), "45 s").scenario
    if name not in NOT_SIMULATED:
        SimBackend().check(today)
    for participant in today.participants:
        check_participant(today, participant)
    assert today.duration.ns == 45 * 10**9
    assert today.record == "packets"
    assert all(call.kind != "mcu" for call in today.calls)
    assert encoded_pixels_per_s(today) <= ENCODED_PIXELS_PER_S


# --- conditions ------------------------------------------------------------------------------------


def test_scenarios_of_two_papers_are_measured_for_both_whichever_is_run() -> None:
    shared = "singh2013/mesh-3"
    alone = read_plan(["abello2013"])
    assert shared in alone.scenarios
    assert "singh2013/latency-50ms" not in alone.scenarios
    for today in (False, True):
        assert set(alone.need(shared, today=today).measures) == set(plan().need(shared, today=today).measures)


def short_plan(folder: Path, paper: str, table: str, duration: str = "45 s") -> Plan:
    """The plan of one table of a paper."""
    file = folder / "conditions.toml"
    file.write_text(
        f'duration = "{duration}"\nrepeats = 1\nsimulated_repeats = 3\nthen_repeats = 1\n'
        f'metrics = ["media_rate_kbps"]\n[[tables.{paper}]]\n{table}\n'
    )
    return read_plan([paper], file)


def test_a_window_that_cannot_shrink_is_refused(tmp_path: Path) -> None:
    table = (
        'title = "Figure 13"\nvalues = [{ row = "call", column = "Rate", '
        'scenario = "jansen2017/tcp", metric = "stats_rate_kbps", window_s = [60, 660] }]'
    )
    with pytest.raises(BadInput, match=r"becomes 3\.75 to 41\.25 s; expected whole tens"):
        short_plan(tmp_path, "jansen2017", table).need("jansen2017/tcp", today=True)


def test_a_row_that_a_table_does_not_have_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="singh2013, table I: no row `70 ms`"):
        short_plan(tmp_path, "singh2013", 'table = "I"\nrows = ["70 ms"]')


# --- numbers and page ------------------------------------------------------------------------------


def record(scenario: str, campaign: str, repeat: int, *rates: float, **more: Any) -> Record:
    """A repeat in which alice and bob have these rates."""
    values = [
        (flow, "media_rate_kbps", float(rate))
        for flow, rate in zip(("alice->bob", "bob->alice"), rates, strict=False)
    ]
    return Record(Key(scenario, campaign, repeat), 1, more.pop("outcome", "finished"), values=values, **more)


def numbers_of(*records: Record) -> CampaignNumbers:
    return CampaignNumbers(plan(), {one.key: one for one in records})


LATENCY = "singh2013/latency-50ms"
TABLE_I = next(one for one in plan().sections if one.title.startswith("Table I:"))


def test_disturbed_and_failed_repeats_are_marked_and_named() -> None:
    late, died = "emulator 20.0 ms late (p99)", "the browser of bob died"
    disturbed = record(LATENCY, LIVE, 0, 1000, 1000, outcome="disturbed", reason=late)
    lost = [("", "connections", 2.0), ("", "not_connected", 1.0)]
    numbers = numbers_of(
        replace(disturbed, values=[*disturbed.values, *lost]),
        record(LATENCY, LIVE, 1, outcome="failed", reason=died),
        record("singh2013/latency-100ms", LIVE, 0, outcome="failed", reason=died),
    )
    lines = {line.key: line for line in TABLE_I.lines}
    assert number_of(lines["50 ms|Rate (kbit/s)"], numbers, LIVE) == "1000\u00a0†‡"
    assert number_of(lines["100 ms|Rate (kbit/s)"], numbers, LIVE) == "failed 1 of 1"
    text = "\n\n".join(blocks("page", numbers))
    assert "0 undisturbed, 1 disturbed by the machine in each of 3 tries, 2 failed" in text
    assert f"`{LATENCY}`, repeat 0: disturbed in 1 tries: {late}" in text
    assert f"`{LATENCY}`, repeat 1: failed: {died}" in text
    assert "| two over a relay | 3 | 2 | 2 | 1 |" in text


def test_without_a_large_error_the_page_says_so() -> None:
    values = [(flow, "rtt_ms", 100.0) for flow in ("alice->bob", "bob->alice")]
    both = [replace(record(LATENCY, campaign, 0), values=values) for campaign in (LIVE, SIM)]
    assert "No error is above 30 %." in "\n".join(agreement.section(numbers_of(*both)))


def test_a_written_sentence_appears_only_with_all_its_numbers() -> None:
    today = "From {published:50 ms|Rate (kbit/s)} to {now:50 ms|Rate (kbit/s)} kbit/s."
    written = replace(TABLE_I, today=today)
    assert list(filled(written, numbers_of())) == []
    numbers = numbers_of(record(LATENCY, LIVE, 0, 2000, 2100))
    assert list(filled(written, numbers)) == ["From 1914 to 2050 kbit/s."]
    with pytest.raises(KeyError):
        list(filled(replace(TABLE_I, today="{now:70 ms|Rate (kbit/s)}"), numbers))


def test_causes_belong_to_conditions_and_compared_measures() -> None:
    causes = plan().conditions.causes
    assert causes.keys() <= {*COMPARED}
    assert {name for of_measure in causes.values() for name in of_measure} <= {*plan().scenarios}


def test_an_estimate_without_spread_is_a_value_alone_and_no_interval_is_negative() -> None:
    assert RepeatsMean(()).words == spread([]) == "–"
    assert isnan(RepeatsMean(()).mean)
    assert RepeatsMean((1702.0,)).words == "1702"
    assert RepeatsMean((0.0, 0.0, 0.0)).words == "0"
    low, high = RepeatsMean((1.0, 2.0, 30.0)).ends
    assert (low, high > 30) == (0.0, True)  # no rate is negative


def test_the_page_is_made_of_the_rows_that_simulations_left(tmp_path: Path) -> None:
    table = 'table = "I"\nrows = ["50 ms"]\nplot = "Rate (kbit/s)"'
    short = short_plan(tmp_path, "singh2013", table, "4 s")
    rows = RowFile(tmp_path / "data" / "rows.csv")
    then, sim = campaigns(short, rows, tmp_path / "runs")
    assert [then.name, sim.name] == [THEN, SIM]
    assert replace(sim, jobs=1).run().outcomes == {"finished": 3}
    numbers = CampaignNumbers(short, rows.read())
    page = tmp_path / "page.md"
    write_page(page, numbers)
    line = short.sections[0].lines[0]
    estimate = numbers.of_line(line, SIM)
    assert len(estimate.values) == 3
    assert 100 < estimate.mean < 2500
    assert f"| {estimate.words} | {NOT_RUN} |" in page.read_text()
    assert (tmp_path / "page-singh2013-table-i.svg").is_file()
    first = page.read_bytes()
    write_page(page, CampaignNumbers(short, RowFile(rows.path).read()))
    assert page.read_bytes() == first


def test_rows_of_a_scenario_that_has_changed_do_not_count() -> None:
    digest = digest_of(plan().today[LATENCY].scenario)
    now = record(LATENCY, LIVE, 0, digest=digest)
    simulated = record(LATENCY, SIM, 0, digest=f"{digest}-0123abcd")
    before = record("singh2013/latency-100ms", LIVE, 0, digest="0123456789ab")
    known = {one.key: one for one in (now, simulated, before)}
    assert set(current(plan(), known)) == {now.key, simulated.key}


def test_the_page_alone_runs_nothing_and_has_papers_without_rows_only_if_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reproducing, "campaigns", None)
    page = tmp_path / "page.md"
    with pytest.raises(SystemExit, match="0"):
        main(["reproduce", "iqbal", "--backend", "live", "--page-only", "--page", str(page)])
    assert "Razib Iqbal" in page.read_text()
    assert "Varun Singh" not in page.read_text()


def test_a_live_repeat_keeps_everything() -> None:
    scenario = as_today(Scenario.load("singh2013/tcp-10mbit-10mbit-50ms"), "4 s").scenario
    trace = SimBackend().simulate(scenario, seed=scenario.seed_of(0), repeat=0)
    need = Need(("media_rate_kbps",), ("*->*",))
    values = {(one.flow, one.metric): one.value for one in measured(trace, need.names("live"))}
    assert values["alice->bob", "setup_time"] > 0
    assert 0 < values["", "tcp_share"] < 100
    assert values["alice-upload.1", "tcp_throughput"] > 0
    assert ("alice-upload.1", "media_rate_kbps") not in values
    few = {one.metric for one in measured(trace, need.names("none"))}
    assert few == {"media_rate_kbps"}


@pytest.mark.parametrize("campaign", [THEN, SIM])
@pytest.mark.parametrize("name", ["abello2013/topology-mixing-mcu-3", "singh2013/tcp-10mbit-10mbit-50ms"])
def test_the_same_flows_are_measured_as_in_the_published_rows(
    name: str, campaign: str, tmp_path: Path
) -> None:
    """Legs to a server and cross traffic are no media."""
    made = campaigns(plan(), RowFile(tmp_path / "rows.csv"), tmp_path)
    [one] = [found for found in made if found.name == campaign]
    condition = one.conditions[name]
    trace = SimBackend().simulate(condition.scenario, seed=condition.scenario.seed_of(0), repeat=0)
    found = measured(trace, condition.settings.measures or ())
    published = RowFile(DATA / "then-and-now.csv").read()[Key(name, campaign, 0)]
    assert {(number.flow, number.metric) for number in found if not isnan(number.value)} == {
        (flow, metric) for flow, metric, _ in published.values
    }
