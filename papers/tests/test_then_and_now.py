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
from rtclab.errors import BadInput
from rtclab.experiment import digest_of
from rtclab.scenario import Scenario, shipped
from rtclab_papers.campaigns import Key, Record, RowFile
from rtclab_papers.campaigns.rows import Value
from rtclab_papers.commands import reproducing
from rtclab_papers.reproduce import NAMES, paper
from rtclab_papers.reproduce.then_and_now import agreement, costs
from rtclab_papers.reproduce.then_and_now.campaigns import LIVE, SIM, THEN, campaigns, current
from rtclab_papers.reproduce.then_and_now.conditions import Plan, is_published, read_plan
from rtclab_papers.reproduce.then_and_now.costs import spread, topology
from rtclab_papers.reproduce.then_and_now.numbers import CampaignNumbers, RepeatsMean
from rtclab_papers.reproduce.then_and_now.page import (
    NO_MODEL,
    NOT_RUN,
    blocks,
    facts,
    filled,
    number_of,
    write_page,
)
from rtclab_papers.reproduce.then_and_now.row_values import COMPARED, Need, measured
from rtclab_papers.reproduce.then_and_now.translate import (
    ENCODED_PIXELS_PER_S,
    as_today,
    codecs_of_today,
    encoded_pixels_per_s,
)

DATA = Path(__file__).parents[2] / "docs" / "data"
EVERY = [
    name for name in dict.fromkeys(s for one in NAMES for s in paper(one).scenarios) if name in shipped()
]


@cache
def plan() -> Plan:
    return read_plan(NAMES)


def flat(value: Any, prefix: str = "") -> dict[str, Any]:
    """The fields of a scenario's JSON by their dotted names."""
    if isinstance(value, dict):
        items: Any = value.items()
    elif isinstance(value, list):
        items = enumerate(value)
    else:
        return {prefix: value}
    return {
        name: leaf
        for key, inner in items
        for name, leaf in flat(inner, f"{prefix}.{key}" if prefix else str(key)).items()
    }


def changed(before: Scenario, after: Scenario) -> dict[str, tuple[Any, Any]]:
    """The fields of the scenario itself that differ, without what participants inherit from them."""
    was, now = (flat(one.model_dump(mode="json", by_alias=True)) for one in (before, after))
    names = sorted(was.keys() | now.keys())
    differ = {name: (was.get(name), now.get(name)) for name in names if was.get(name) != now.get(name)}
    return {name: values for name, values in differ.items() if not name.startswith("participants.")}


# --- translation -----------------------------------------------------------------------------------


def test_exactly_the_fields_of_the_past_change() -> None:
    before = Scenario.load("singh2013/mcu-3")
    assert changed(before, as_today(before).scenario) == {
        "calls.0.kind": ("mcu", "sfu"),
        "congestion_control.name": ("rrtcc-2013", "goog-cc"),
        "host.decoder_capacity": ("30.72 Mpixel/s", None),
        "host.encoder_capacity": ("61.44 Mpixel/s", None),
        "host.variation.correlation": ("400 ms", None),
        "host.variation.deviation": ("8 %", None),
        "record": ("seconds", "packets"),
        "video.codec": ("vp8-2013", "vp8"),
    }


def test_every_change_except_the_recording_is_listed() -> None:
    today = as_today(Scenario.load("jansen2017/codec-h264"), "105 s")
    fields = changed(Scenario.load("jansen2017/codec-h264"), today.scenario)
    codec = "h264" if "h264" in codecs_of_today() else "vp8"
    assert fields["video.codec"] == ("h264-2016", codec)
    assert today.changes == (
        "congestion control gcc-2016 becomes the browser's goog-cc",
        f"codec h264-2016 becomes the browser's {codec}",
        "420 s become 105 s; all times in between scale alike",
        "video of 1280x720 at 50/s becomes 1280x720 at 30/s, which two cores can encode",
    )


def test_firefox_keeps_the_rates_that_pages_cannot_set() -> None:
    today = as_today(Scenario.load("abello2013/chrome-firefox"), "45 s")
    chrome, firefox = (today.scenario.video_of(name) for name in ("alice", "bob"))
    assert chrome is not None
    assert firefox is not None
    assert (chrome.min_bitrate.bps, firefox.min_bitrate.bps) == (50_000, 30_000)
    assert (chrome.max_bitrate, chrome.codec) == (firefox.max_bitrate, firefox.codec)
    assert today.scenario.congestion_control_of("bob").name == "goog-cc"
    assert "the lowest rate and the rate at the start are Firefox's own for its video" in today.changes


def test_a_scenario_of_2026_is_unchanged() -> None:
    before = Scenario.load("first-call", {"video.camera": "steady"})
    today = as_today(before)
    assert today.changes == ()
    assert not changed(before, today.scenario).keys() - {"record"}


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


def test_three_calls_at_once_send_smaller_pictures_at_the_same_rate() -> None:
    video = as_today(Scenario.load("singh2013/calls-3")).scenario.video
    assert video is not None
    assert (video.width, video.height, video.max_bitrate.bps) == (480, 360, 2_000_000)


def test_effects_of_the_testbed_stay() -> None:
    before = Scenario.load("singh2013/loss-5-percent")
    assert as_today(before, "45 s").scenario.bottlenecks == before.bottlenecks


def test_a_phone_becomes_a_desktop_with_the_pictures_of_its_camera() -> None:
    today = as_today(Scenario.load("jansen2017/platform-android"))
    video = today.scenario.video
    assert video is not None
    assert (video.device, video.width, video.height, video.frame_rate) == ("desktop", 640, 360, 30)
    assert video.max_bitrate.bps == 1_700_000
    assert "device android-2016 becomes a desktop with the pictures of that camera" in today.changes


def test_all_times_scale_alike() -> None:
    today = as_today(Scenario.load("jansen2017/three-calls"), "150 s").scenario
    assert [call.start.ns / 1e9 for call in today.calls] == [0, 30, 60]
    assert today.calls[2].end is not None
    assert today.calls[2].end.ns / 1e9 == 120
    before, after = (
        [at_ns for at_ns, path, *_ in one.path_changes() if path == "there"]
        for one in (
            Scenario.load("jansen2017/capacity-schedule"),
            as_today(Scenario.load("jansen2017/capacity-schedule"), "100 s").scenario,
        )
    )
    assert after == pytest.approx([at_ns / 3 for at_ns in before])
    assert len(after) == 5


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


def test_encoders_are_counted_per_connection_and_one_per_server() -> None:
    pixels = 640 * 480 * 30
    assert encoded_pixels_per_s(Scenario.load("singh2013/unconstrained")) == 2 * pixels
    assert encoded_pixels_per_s(Scenario.load("singh2013/mesh-3")) == 6 * pixels
    assert encoded_pixels_per_s(Scenario.load("singh2013/mcu-3")) == 3 * pixels
    assert encoded_pixels_per_s(Scenario.load("singh2013/calls-3")) == 6 * pixels


# --- conditions ------------------------------------------------------------------------------------


def test_there_are_at_least_48_conditions_of_all_papers() -> None:
    assert len(plan().scenarios) >= 48
    assert {section.paper.name for section in plan().sections} == set(NAMES)
    assert plan().conditions.repeats == 2


def test_every_family_of_published_tables_is_there() -> None:
    titles = {(one.paper.name, one.title.partition(":")[0].partition(" (")[0]) for one in plan().sections}
    for number in ("I", "II", "III", "IV", "V", "VI", "VII"):
        assert ("singh2013", f"Table {number}") in titles
    for number in ("5", "6", "7"):
        assert ("jansen2017", f"Table {number}") in titles


def test_scenarios_of_two_papers_are_measured_for_both_whichever_is_run() -> None:
    shared = "singh2013/mesh-3"
    alone = read_plan(["abello2013"])
    assert shared in alone.scenarios
    assert "singh2013/latency-50ms" not in alone.scenarios
    for today in (False, True):
        assert set(alone.need(shared, today=today).measures) == set(plan().need(shared, today=today).measures)


def test_windows_shrink_with_the_run() -> None:
    lines = {line.key: line for section in plan().sections for line in section.lines}
    line = lines["call|Data rate (kbit/s)"]
    assert line.quantity.window_s == (60, 660)
    assert plan().quantity_of_today(line).window_s == (10, 110)


def test_a_window_that_cannot_shrink_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "conditions.toml"
    file.write_text(
        'duration = "45 s"\nrepeats = 2\nsimulated_repeats = 2\nthen_repeats = 2\nmetrics = []\n'
        '[[tables.jansen2017]]\ntitle = "Figure 13"\nvalues = [{ row = "call", column = "Rate", '
        'scenario = "jansen2017/tcp", metric = "stats_rate_kbps", window_s = [60, 660] }]\n'
    )
    with pytest.raises(BadInput, match=r"becomes 3\.75 to 41\.25 s; expected whole tens"):
        read_plan(["jansen2017"], file).need("jansen2017/tcp", today=True)


def test_a_row_that_a_table_does_not_have_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "conditions.toml"
    file.write_text(
        'duration = "45 s"\nrepeats = 2\nsimulated_repeats = 2\nthen_repeats = 2\n'
        'metrics = ["media_rate_kbps"]\n'
        '[[tables.singh2013]]\ntable = "I"\nrows = ["70 ms"]\n'
    )
    with pytest.raises(BadInput, match="singh2013, table I: no row `70 ms`"):
        read_plan(["singh2013"], file)


# --- numbers and page ------------------------------------------------------------------------------


def record(
    condition: str, campaign: str, repeat: int, values: dict[tuple[str, str], float | str], **more: Any
) -> Record:
    rows: tuple[Value, ...] = tuple(
        (flow, metric, value if isinstance(value, str) else float(value))
        for (flow, metric), value in values.items()
    )
    return Record(Key(condition, campaign, repeat), 1, more.pop("outcome", "finished"), values=rows, **more)


def rates(alice: float, bob: float, measure: str = "media_rate_kbps") -> dict[tuple[str, str], float | str]:
    return {("alice->bob", measure): alice, ("bob->alice", measure): bob}


def numbers_of(*records: Record) -> CampaignNumbers:
    return CampaignNumbers(plan(), {one.key: one for one in records})


LATENCY = "singh2013/latency-50ms"


def line_of(section: str, row: str, column: str) -> Any:
    lines = [line for one in plan().sections if one.title.startswith(section) for line in one.lines]
    return next(line for line in lines if (line.row, line.column) == (row, column))


def test_a_number_is_the_mean_over_flows_and_repeats_with_its_interval() -> None:
    numbers = numbers_of(
        record(LATENCY, LIVE, 0, rates(1000, 1200)),
        record(LATENCY, LIVE, 1, rates(1300, 1300)),
        *(
            record(LATENCY, SIM, repeat, rates(value, value))
            for repeat, value in enumerate((900, 1000, 1100))
        ),
    )
    line = line_of("Table I:", "50 ms", "Rate (kbit/s)")
    assert numbers.of_line(line, LIVE).values == (1100, 1300)
    assert number_of(line, numbers, LIVE) == "1200 (1100 to 1300)"
    # Student: 4.303 * 100 / sqrt(3).
    assert number_of(line, numbers, SIM) == "1000 ± 248"
    assert number_of(line, numbers, THEN) == NOT_RUN


def test_flows_without_media_count_only_if_they_are_named() -> None:
    scenario, name = "jansen2017/tcp", "stats_rate_kbps@10"
    values: dict[tuple[str, str], float | str] = {
        ("alice->bob", name): 300.0,
        ("download", name): 100.0,
        ("download", "not_media"): 1.0,
    }
    numbers = numbers_of(record(scenario, LIVE, 0, values))
    title = "Figure 13: a call beside TCP over 2 Mbit/s"
    assert numbers.of_line(line_of(title, "call", "Data rate (kbit/s)"), LIVE).mean == 300
    assert numbers.of_line(line_of(title, "TCP", "Data rate (kbit/s)"), LIVE).mean == 100
    # (300 + 100)² / (2 (300² + 100²)).
    assert numbers.of_line(line_of(title, "both", "Jain's index"), LIVE).mean == pytest.approx(0.8)


def test_a_page_without_rows_has_every_condition_and_published_number() -> None:
    text = "\n\n".join(blocks("page", numbers_of()))
    for section in plan().sections:
        assert f"### {section.title}\n" in text
        for line in section.lines:
            if section.matrix:
                assert f"| {line.row} | " in text
                assert f"| {line.column}, then | live |" in text
            else:
                assert f"| {line.row} | {line.column} |" in text or f"|  | {line.column} |" in text
    published = sum(is_published(line) for section in plan().sections for line in section.lines)
    assert published > 100
    cells = sum((2 if section.matrix else 3) * len(section.lines) for section in plan().sections)
    assert text.count(NOT_RUN) + text.count(f"| {NO_MODEL} |") >= cells
    assert "1914 ± 255" in text
    assert ".svg" not in text


def test_disturbed_and_failed_repeats_are_marked_and_named() -> None:
    late, died = "emulator 20.0 ms late (p99)", "the browser of bob died"
    numbers = numbers_of(
        record(LATENCY, LIVE, 0, rates(1000, 1000), outcome="disturbed", reason=late),
        record(LATENCY, LIVE, 1, {}, outcome="failed", reason=died),
        record("singh2013/latency-100ms", LIVE, 0, {}, outcome="failed", reason=died),
    )
    line = line_of("Table I:", "50 ms", "Rate (kbit/s)")
    assert number_of(line, numbers, LIVE) == "1000 †‡"
    assert number_of(line_of("Table I:", "100 ms", "Rate (kbit/s)"), numbers, LIVE) == "failed 1 of 1"
    text = "\n\n".join(blocks("page", numbers))
    assert "0 undisturbed, 1 disturbed by the machine in each of 3 tries, 2 failed" in text
    assert f"`{LATENCY}`, repeat 0: disturbed in 1 tries: {late}" in text
    assert f"`{LATENCY}`, repeat 1: failed: {died}" in text


def test_sentences_follow_from_the_numbers() -> None:
    section = next(one for one in plan().sections if one.title.startswith("Table I:"))
    line = line_of("Table I:", "50 ms", "Rate (kbit/s)")
    twice = numbers_of(record(LATENCY, LIVE, 0, rates(2 * line.published, 2 * line.published)))
    assert list(facts(section, twice)) == ["Live, the rate is 2.0 times the published one."]
    assert list(facts(section, numbers_of())) == []


def test_sentences_about_rates_leave_out_cross_traffic() -> None:
    section = next(one for one in plan().sections if one.title.startswith("Figure 13"))
    values: dict[tuple[str, str], float | str] = {
        ("alice->bob", "stats_rate_kbps@10"): 704.0,
        ("download", "stats_rate_kbps@10"): 902.0,
        ("download", "not_media"): 1.0,
    }
    numbers = numbers_of(record("jansen2017/tcp", LIVE, 0, values))
    assert list(facts(section, numbers)) == ["Live, the rate is 0.50 times the published one."]


def test_a_written_sentence_appears_only_with_all_its_numbers() -> None:
    section = next(one for one in plan().sections if one.title.startswith("Table I:"))
    today = "From {published:50 ms|Rate (kbit/s)} to {now:50 ms|Rate (kbit/s)} kbit/s."
    written = replace(section, today=today)
    assert list(filled(written, numbers_of())) == []
    numbers = numbers_of(record(LATENCY, LIVE, 0, rates(2000, 2100)))
    assert list(filled(written, numbers)) == ["From 1914 to 2050 kbit/s."]
    with pytest.raises(KeyError):
        list(filled(replace(section, today="{now:70 ms|Rate (kbit/s)}"), numbers))


def test_written_sentences_name_rows_that_exist() -> None:
    for section in plan().sections:
        list(filled(section, numbers_of()))


def test_plotted_columns_exist() -> None:
    plotted = [section for section in plan().sections if section.plot]
    assert len(plotted) >= 12
    for section in plotted:
        assert section.plot in {line.column for line in section.lines}


def test_the_backends_are_compared_over_all_conditions() -> None:
    records = []
    for name, live, simulated in (("latency-50ms", 1000, 1100), ("latency-100ms", 1000, 500)):
        for campaign, value in ((LIVE, live), (SIM, simulated)):
            values = rates(value, value, "rate_kbps") | rates(100, 100, "rtt_ms")
            records.append(record(f"singh2013/{name}", campaign, 0, values))
    text = "\n".join(agreement.section(numbers_of(*records))).splitlines()
    assert "| mean rate | 2 | 30.0 % | −20.0 % | 1 |" in text
    assert "| round trip | 2 | 0.0 % | 0.0 % | 0 |" in text
    far = "| `singh2013/latency-100ms` | mean rate | 500 kbit/s | 1000 kbit/s | −50.0 % | – and – ms |"
    assert f"{far} not known |" in text


def test_causes_belong_to_conditions_and_compared_measures() -> None:
    causes = plan().conditions.causes
    assert causes.keys() <= {*COMPARED}
    assert {name for of_measure in causes.values() for name in of_measure} <= {*plan().scenarios}


def test_differences_of_fairness_are_judged() -> None:
    records = [
        record(f"singh2013/calls-{calls}", campaign, 0, rates(1, 1, "rate_kbps") | {("", "fairness"): value})
        for calls, campaign, value in ((2, LIVE, 0.98), (2, SIM, 0.94), (3, LIVE, 0.98), (3, SIM, 0.9))
    ]
    text = "\n".join(agreement.section(numbers_of(*records))).splitlines()
    assert "Differences within 0.05: 1 of 2." in text
    assert not any(line.startswith("| TCP's share") for line in text)


def test_costs_are_grouped_by_topology() -> None:
    values: dict[tuple[str, str], float | str] = {
        ("alice->bob", "setup_time"): 500.0,
        ("bob->alice", "setup_time"): 700.0,
        ("alice", "cpu"): 40.0,
        ("bob", "cpu"): 60.0,
        ("alice", "memory"): 300.0,
        ("alice", "encoder"): "libvpx",
        ("", "connections"): 1.0,
        ("", "not_connected"): 0.0,
    }
    numbers = numbers_of(
        record(LATENCY, LIVE, 0, values),
        record(LATENCY, LIVE, 1, {}, outcome="failed", reason="died"),
        record("singh2013/mesh-3", LIVE, 0, values | {("", "not_connected"): 1.0, ("", "connections"): 3.0}),
    )
    text = "\n".join(costs.section(numbers, "setup")).splitlines()
    assert "| two over a relay | 2 | – | – | – | – | 600 (690) |" in text
    assert "| two over a relay | 2 | 1 | 1 | 0 |" in text
    assert "| mesh of three | 1 | 0 | 3 | 1 |" in text
    assert "| two over a relay | 50 (59) | 300 (300) | – | libvpx | – |" in text


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("singh2013/unconstrained", "two over a relay"),
        ("singh2013/tcp-10mbit-10mbit-50ms", "two over a relay beside TCP"),
        ("singh2013/calls-3", "three calls of two over a relay"),
        ("singh2013/mesh-3", "mesh of three"),
        ("singh2013/mcu-3", "three, SFU"),
        ("jansen2017/sfu-4", "four, SFU"),
        ("jansen2017/unconstrained", "two"),
    ],
)
def test_topologies_have_names(name: str, expected: str) -> None:
    assert topology(as_today(Scenario.load(name)).scenario) == expected


def test_an_estimate_without_spread_is_a_value_alone_and_no_interval_is_negative() -> None:
    assert RepeatsMean(()).words == spread([]) == "–"
    assert isnan(RepeatsMean(()).mean)
    assert RepeatsMean((1702.0,)).words == "1702"
    assert RepeatsMean((0.0, 0.0, 0.0)).words == "0"
    low, high = RepeatsMean((1.0, 2.0, 30.0)).ends
    assert (low, high > 30) == (0.0, True)  # no rate is negative


def test_the_page_is_made_of_the_rows_that_simulations_left(tmp_path: Path) -> None:
    file = tmp_path / "conditions.toml"
    file.write_text(
        'duration = "4 s"\nrepeats = 1\nsimulated_repeats = 3\nthen_repeats = 1\n'
        'metrics = ["media_rate_kbps"]\n'
        '[[tables.singh2013]]\ntable = "I"\nrows = ["50 ms"]\nplot = "Rate (kbit/s)"\n'
    )
    short = read_plan(["singh2013"], file)
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
    now = record(LATENCY, LIVE, 0, rates(1000, 1000), digest=digest)
    simulated = record(LATENCY, SIM, 0, rates(1000, 1000), digest=f"{digest}-0123abcd")
    before = record("singh2013/latency-100ms", LIVE, 0, rates(1000, 1000), digest="0123456789ab")
    known = {one.key: one for one in (now, simulated, before)}
    assert set(current(plan(), known)) == {now.key, simulated.key}


def test_the_page_alone_runs_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reproducing, "campaigns", None)
    page = tmp_path / "page.md"

    def made() -> int:
        return reproducing.run_today(
            ["iqbal"],
            tmp_path,
            page,
            repeats=None,
            jobs=None,
            run_live=False,
            simulate=False,
            retry_failed=False,
            as_json=False,
        )

    assert made() == 0
    assert "Razib Iqbal" in page.read_text()
    assert "Varun Singh" not in page.read_text()
    one = Record(Key(LATENCY, LIVE, 0), 1, "finished", digest=digest_of(plan().today[LATENCY].scenario))
    RowFile(tmp_path / "data" / "page.csv").write([one])
    made()
    assert "Varun Singh" in page.read_text()


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
