"""The arena: suites, cases, what is measured, and the page."""

from __future__ import annotations

import csv
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from command_line import Rtclab

import rtclab
from rtclab._native import CONGESTION_CONTROLS
from rtclab.arenas import Arena, Case, arena, load_suite, running, write_page
from rtclab.arenas.controls import HISTORICAL, choices, default_controls, with_control
from rtclab.arenas.findings import (
    FEWEST_CASES,
    USES,
    YARDSTICK,
    alike_but_for_the_queue,
    by_queue,
    fairness,
    heat_tables,
    picks,
    rankings,
    spreads,
)
from rtclab.arenas.measure import measure, recovery_time, seconds_over_budget
from rtclab.arenas.suite import NAMES, PAIR, TCP, pair
from rtclab.arenas.values import Values
from rtclab.arenas.weights import read_weights
from rtclab.backend import sim_batch
from rtclab.backend.sim import SimBackend
from rtclab.errors import BadInput, UnsupportedScenario
from rtclab.metrics import METRICS
from rtclab.replays.settings import Choice
from rtclab.report import number
from rtclab.scenario import Scenario

SHORT = """
title = "Two short cases"
repeats = 2
duration = "20 s"

[cases.narrow]
scenario = "access/dsl"

[cases.l4s]
scenario = "access/l4s"

[cases.upload]
scenario = "access/bufferbloat"
set = { "traffic.upload.start" = "2 s", "traffic.upload.end" = "20 s" }
"""


def written(directory: Path, text: str = SHORT) -> Path:
    file = directory / "short.toml"
    file.write_text(text)
    return file


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> Arena:
    """Two controls in the short suite, one process."""
    place = tmp_path_factory.mktemp("arena")
    return rtclab.arena(
        ["goog-cc", "scream"], suite=written(place), into=place / "one", jobs=1, progress=False
    )


def test_all_shipped_suites_have_cases_with_something_under_test() -> None:
    sizes = {name: len(load_suite(name).cases) for name in NAMES}
    assert sizes["rfc8867"] == 12
    assert sizes["rfc8869"] == 13
    assert sizes["random"] == 20
    assert sizes["access"] == 30
    for name in NAMES:
        for case in load_suite(name).cases:
            assert case.tested, f"{name}: {case.name}"
            assert set(case.uses) <= {use.name for use in USES}
    for case in load_suite("access").cases:
        assert case.scenario.source, case.name
        assert case.scenario.duration.s <= 60
    counted = [use for case in load_suite("access").cases for use in case.uses]
    assert all(counted.count(use.name) >= FEWEST_CASES for use in USES)


def test_what_follows_from_a_scenario() -> None:
    cases = {case.name: case for case in load_suite("access").cases}
    # The uplink of 1 Mbit/s is narrow, the downlink of 6 Mbit/s has room for everything.
    assert (cases["dsl"].tested, cases["dsl"].queue) == (("alice->bob",), "drop tail")
    assert cases["dsl"].uses == ("video",)
    assert (cases["l4s"].queue, cases["l4s"].uses) == ("DualPI2", ("l4s",))
    assert cases["download"].uses == ("voice", "downloads")
    assert cases["download"].tested == ("bob->alice",)
    assert cases["screen-dsl"].uses == ("screen",)
    # Nothing is narrow, so both directions are under test.
    assert sorted(cases["cable"].tested) == ["alice->bob", "bob->alice"]
    alike = {case.name for case in alike_but_for_the_queue(load_suite("access").cases)}
    assert alike == {"l4s", "queue-droptail", "queue-codel", "queue-fq-codel", "queue-pie"}


def test_the_room_is_what_the_path_carries_or_the_sources_send() -> None:
    case = {one.name: one for one in load_suite("rfc8867").cases}["5.1"]
    most = case.most_bps("sender")
    # 1.5 Mbit/s of video with 58 B of headers for 1150 B, and 20 kbit/s of audio with 50 headers a second.
    assert most == pytest.approx(1.5e6 * (1 + 58 / 1150) + 20e3 + 50 * 8 * 58)
    room = case.room_bits({"sender->receiver": (0.0, 100.0)})
    # 1, 2.5, 0.6 and 1 Mbit/s; the second is more than the source sends.
    assert room == {"forward": pytest.approx(40 * 1e6 + 20 * most + 20 * 0.6e6 + 20 * 1e6)}
    assert case.room_bits({"sender->receiver": (90.0, 100.0)}) == {"forward": pytest.approx(10e6)}
    # Of flows that are there one after the other, each counts while it is there.
    three = {one.name: one for one in load_suite("rfc8867").cases}["5.4"]
    spans = dict(zip(three.tested, [(0.0, 10.0), (10.0, 20.0), (15.0, 20.0)], strict=True))
    assert sum(three.room_bits(spans).values()) == pytest.approx(10 * most + 5 * most + 5 * 2 * most)


def test_a_control_replaces_the_scenarios_control_with_its_options() -> None:
    case = load_suite("access").cases[0]
    changed = with_control(case.scenario, Choice.parse("nada,kappa=0.25"))
    assert changed.congestion_control_of("alice").name == "nada"
    assert changed.congestion_control_of("bob").options == {"kappa": 0.25}


def test_the_default_controls_are_all_but_the_historical_ones() -> None:
    assert set(HISTORICAL) < set(CONGESTION_CONTROLS)
    assert sorted([*default_controls(), *HISTORICAL]) == sorted(CONGESTION_CONTROLS)
    assert YARDSTICK in default_controls()
    with pytest.raises(BadInput, match="given twice"):
        choices(["goog-cc", "goog-cc"])
    with pytest.raises(BadInput, match="no congestion control `goog`"):
        choices(["goog"])


def test_an_option_that_a_control_does_not_have_is_refused_before_anything_runs(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match=r"narrow with nada,nonsense=1: .*`nada` has no such option"):
        rtclab.arena(["goog-cc", "nada,nonsense=1"], suite=written(tmp_path), into=tmp_path / "a")
    assert not (tmp_path / "a").exists()


def test_a_participant_with_a_control_of_its_own_is_not_under_test() -> None:
    own = {"participants.alice.congestion_control": {"name": "nada"}}
    case = Case("x", Scenario.load("first-call", own))
    assert case.tested == ("bob->alice",)


def test_values_of_a_repeat_are_right() -> None:
    """A constant rate above the capacity fills the queue; delay and time over budget follow."""
    scenario = Scenario.load("access/dsl", {"congestion_control.name": "fixed", "duration": "20 s"})
    trace = rtclab.simulate(scenario)
    found = {(one.metric, one.flow): one.value for one in measure(trace, ())}
    flow = "alice->bob"
    # The queue of 600 ms is full, but for the time in which it fills.
    assert 500 < found["queue_50", flow] <= 605
    p95 = METRICS["queuing_delay_p95"].function(trace, flow)
    assert found["queue_95", flow] == pytest.approx(p95, abs=0.2)
    assert found["over_budget", flow] > 90
    assert found["in_time_100", flow] < found["in_time_300", flow] + 1e-9 < 20
    assert found["end", flow] == 20
    begin_s, over = seconds_over_budget(trace, flow)
    assert begin_s.size == over.size == 18  # without the first second and the last
    assert found["late_rate", flow] == pytest.approx(1000, rel=0.03)


def test_in_time_does_not_count_seconds_of_heavy_loss() -> None:
    """A policer drops half of what `fixed` sends. What arrives is never late, and of no use."""
    scenario = Scenario.load("access/policer", {"congestion_control.name": "fixed", "duration": "20 s"})
    found = {(one.metric, one.flow): one.value for one in measure(rtclab.simulate(scenario), ())}
    assert found["queuing_delay_p95", "alice->bob"] < 100
    assert found["packet_loss", "alice->bob"] > 40
    assert found["in_time_100", "alice->bob"] < 20


def test_recovery_counts_from_a_fall_of_the_capacity_to_the_last_late_second() -> None:
    scenario = Scenario.load("access/l4s-drop", {"congestion_control.name": "goog-cc"})
    trace = rtclab.simulate(scenario)
    at_s = np.arange(1.0, 59.0)
    over = np.zeros(at_s.size)
    over[(at_s >= 21) & (at_s < 25)] = 1
    over[at_s == 50] = 1  # after the capacity has risen again
    assert recovery_time(trace, "alice->bob", at_s, over) == 5
    assert recovery_time(trace, "alice->bob", at_s, np.zeros(at_s.size)) == 0
    assert np.isnan(recovery_time(trace, "bob->alice", at_s, over))


def test_repeats_that_share_tables_have_the_values_that_each_has_alone() -> None:
    scenario = Scenario.load("access/download", {"record": "seconds", "duration": "50 s"})
    seeds = [scenario.seed_of(repeat) for repeat in range(2)]
    alone = [rtclab.simulate(scenario, repeat) for repeat in range(2)]
    for single, shared in zip(alone, rtclab.simulate_together([(scenario, seeds)]), strict=True):
        expected = {(one.metric, one.flow): one.value for one in measure(single, ())}
        found = {(one.metric, one.flow.partition(":")[2]): one.value for one in measure(shared, ())}
        assert found == pytest.approx(expected, nan_ok=True)
        assert 0 < expected["share_against_tcp_20s", "bob->alice"] < 50


def test_the_page_and_the_tables_have_the_same_bytes_with_two_processes(ran: Arena, tmp_path: Path) -> None:
    again = rtclab.arena(
        ["goog-cc", "scream"], suite=ran.suite, into=tmp_path / "two", jobs=2, progress=False
    )
    for name in ("arena.html", "arena.csv", "arena-pairs.csv"):
        assert (again.path / name).read_bytes() == (ran.path / name).read_bytes(), name


def test_a_further_control_runs_alone_and_a_complete_arena_runs_nothing(ran: Arena, tmp_path: Path) -> None:
    def run(*controls: str) -> tuple[Arena, int]:
        found = rtclab.arena(controls, suite=ran.suite, into=tmp_path / "grown", jobs=1, progress=False)
        return found, found.results["sim"]._store.outcomes().height

    first, count = run("goog-cc")
    # Three cases and the pairings with itself and three of TCP, twice.
    assert count == 2 * (3 + 4)
    page = first.page.read_bytes()
    notes = len(first.results["sim"]._store.events())
    _, count = run("goog-cc")
    assert count == 2 * (3 + 4)
    assert len(first.results["sim"]._store.events()) == notes
    assert first.page.read_bytes() == page
    both, count = run("goog-cc", "scream")
    # The other control's cases, its pairings, and the pair of both.
    assert count == 2 * (2 * (3 + 4) + 1)
    assert both.page.read_bytes() == ran.page.read_bytes()


REASON = "nada stopped: it divided by zero"


@pytest.fixture
def nada_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lets `nada` fail with ``REASON`` wherever somebody sends with it, in this process."""
    simulated = sim_batch._simulated

    def failing(plan: sim_batch._Plan, seed: int) -> sim_batch.Tables | str:
        names = [plan.scenario.congestion_control_of(name).name for name in plan.scenario.participants]
        return REASON if "nada" in names else simulated(plan, seed)

    monkeypatch.setattr(sim_batch, "_simulated", failing)


def test_a_command_with_fewer_repeats_has_the_page_of_these(ran: Arena, tmp_path: Path) -> None:
    options = {"suite": ran.suite, "jobs": 1, "progress": False}
    first = rtclab.arena(["goog-cc"], repeats=1, into=tmp_path / "few", **options)
    page = first.page.read_bytes()
    rtclab.arena(["goog-cc"], repeats=2, into=tmp_path / "few", **options)
    assert first.page.read_bytes() != page
    again = rtclab.arena(["goog-cc"], repeats=1, into=tmp_path / "few", **options)
    assert again.page.read_bytes() == page
    assert again.values.rows["repeat"].to_list() == [0, 0, 0]


@pytest.mark.usefixtures("nada_fails")
def test_a_control_that_fails_is_shown_with_its_reason_and_the_others_stay(tmp_path: Path) -> None:
    found = rtclab.arena(
        ["goog-cc", "nada"], suite=written(tmp_path), into=tmp_path / "a", jobs=1, progress=False
    )
    assert found.failed
    failures = found.values.failures()
    assert failures.select("control", "repeats", "reason").unique().rows() == [("nada", 2, REASON)]
    assert failures.height == 3
    text = found.page.read_text()
    assert "What failed" in text
    assert text.count(REASON) >= 3
    known, cases = found.values.of("rate_attained")
    assert len(cases) == 3
    assert not np.isnan(known[0]).any()
    assert np.isnan(known[1]).all()
    for pick in picks(found.values):
        assert pick.winner is None or pick.winner.second is None


LUCK = """
import random

class Steady:
    \"\"\"Sends 400 kbit/s.\"\"\"
    def on_feedback(self, now, feedback):
        return 4e5

class Honest:
    \"\"\"Sends 600 kbit/s in half of the repeats, and 100 in the others.\"\"\"
    brittle = False
    def __init__(self):
        self.good = random.random() < 0.5
    def on_feedback(self, now, feedback):
        if not self.good and self.brittle and now > 2:
            raise ValueError("a bad day")
        return 6e5 if self.good else 1e5

class Brittle(Honest):
    \"\"\"The same, and fails in the others.\"\"\"
    brittle = True
"""


def test_a_control_does_not_win_by_failing_in_its_bad_repeats(
    rtclab: Rtclab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of ``Brittle`` only the good repeats are left, whose mean is above that of ``Steady``."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "luck.py").write_text(LUCK)
    cases = (
        f'[cases.c{ms}]\nscenario = "access/dsl"\nset = {{ "link.up.delay" = "{ms} ms" }}\n'
        for ms in range(10, 10 + FEWEST_CASES)
    )
    (tmp_path / "suite.toml").write_text(f'duration = "5 s"\npairings = false\n{"".join(cases)}')
    names = [f"luck.py:{name}" for name in ("Steady", "Honest", "Brittle")]
    told = rtclab("arena", *names, "--suite", "suite.toml", "--repeats", "4", "--jobs", "1", "--into", "a")
    assert told.status == 1
    found = arena(names, suite="suite.toml", repeats=4, jobs=1, into="a", progress=False)
    failed = found.values.failures()
    assert set(failed["control"]) == {names[2]}
    assert 0 < failed["repeats"].sum() < 4 * failed.height  # some repeats survive
    survivors = found.values.rows.filter(control=names[2], status="finished")["rate_attained"].mean()
    steady = found.values.rows.filter(control=names[0])["rate_attained"].mean()
    assert isinstance(survivors, float)
    assert isinstance(steady, float)
    assert survivors > steady
    video = picks(found.values)[0]
    assert video.winner is not None
    assert found.values.controls[video.winner.control] == names[0]
    assert f"Not compared: {names[2]} failed in {failed.height} of {FEWEST_CASES} cases." in told.out
    ranked = {value.name: found_rank for value, found_rank in rankings(found.values)}
    bad = [case for case in found.values.cases if case.name in set(failed["case"])]
    known, _ = found.values.of("rate_attained", bad)
    assert np.isnan(known[2]).all()
    assert not np.isnan(known[:2]).any()
    assert ranked["rate_attained"].order[-1] == 2
    assert [one[2] for _, one in spreads(found.values)] == [None] * len(spreads(found.values))
    kinds = by_queue(found.values, found.values.cases)
    assert [cells for _, _, name, cells in kinds if name == names[2]] == [[None] * 6]
    cells = {(case.name, one.control): one for case, row in heat_tables(found.values)[0].rows for one in row}
    for case in bad:
        assert cells[case.name, names[2]].value is None
        assert "a bad day" in cells[case.name, names[2]].reason
    assert found.page.read_text().count("a bad day") > failed.height


def test_means_are_of_the_repeats_in_which_all_others_have_the_value(ran: Arena) -> None:
    """One control lacks a value in the repeat in which the other is worst."""
    rows = ran.values.rows
    lacks = (pl.col("control") == "scream") & (pl.col("repeat") == 1) & (pl.col("case") == "narrow")
    worst = (pl.col("control") == "goog-cc") & (pl.col("repeat") == 1) & (pl.col("case") == "narrow")
    value = pl.when(lacks).then(None).when(worst).then(1e6).otherwise(pl.col("packet_loss"))
    some = Values(ran.values.cases, ran.values.controls, rows.with_columns(packet_loss=value))
    known, cases = some.of("packet_loss")
    index = [case.name for case in cases].index("narrow")
    assert np.isnan(known[:, index, 1]).all()
    assert not np.isnan(known[:, index, 0]).any()
    assert not np.isnan(np.delete(known, index, axis=1)).any()


def test_what_finished_repeats_say_is_on_the_page_and_in_the_terminal(
    rtclab: Rtclab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "low.py").write_text("class Low:\n    def on_feedback(self, now, feedback): return 1.5\n")
    file = written(tmp_path)
    told = rtclab("arena", "low.py:Low", "--suite", str(file), "--jobs", "1", "--repeats", "1", "--into", "a")
    assert told.status == 0
    assert "low.py:Low, 3 cases: on " in told.err
    assert "rates are in bit/s" in told.err
    assert "rates are in bit/s" in (tmp_path / "a" / "arena.html").read_text()


@pytest.mark.usefixtures("nada_fails")
def test_the_command_prints_the_page_and_says_by_its_status_whether_a_control_failed(
    rtclab: Rtclab, tmp_path: Path
) -> None:
    file, into = written(tmp_path), tmp_path / "cli"
    options = ["--suite", str(file), "--into", str(into), "--jobs", "1", "--repeats", "1"]
    done = rtclab("arena", "goog-cc", "--quiet", *options)
    assert (done.status, done.out.strip()) == (0, str(into / "arena.html"))
    failed = rtclab("arena", "goog-cc", "nada", *options)
    assert failed.status == 1
    assert f"failed: nada in l4s: {REASON}" in failed.err
    assert failed.out.strip().endswith(str(into / "arena.html"))
    rows = list(csv.DictReader((into / "arena.csv").open()))
    assert [row["status"] for row in rows if row["control"] == "goog-cc"] == ["finished"] * 3


def test_the_page_has_all_parts_and_nothing_of_this_machine(ran: Arena) -> None:
    text = ran.page.read_text()
    headings = re.findall(r"<h2>(.*?)</h2>", text)
    assert headings == [
        "Which one to pick",
        "Rate attained and queuing delay",
        "Ranks",
        "Cases and controls",
        "Distribution of the queuing delay",
        "Queues and controls",
        "Fairness",
        "The median and the worst repeat",
        "Simulated beside live",
        "How it was made",
    ]
    assert "Only one backend has run" in text
    assert "No case of this suite says something about it." in text  # nobody shares a screen
    assert str(ran.path) not in text
    assert "Weighted score" not in text
    assert "rtclab run access/dsl" not in text  # its duration is another one
    assert f"rtclab arena goog-cc scream --suite {ran.suite.name} --repeats 2" in text


class PretendedLive(SimBackend):
    """The simulator as the live backend of a machine without microphones."""

    name = "live"
    parallel = False
    deterministic = False

    def check(self, scenario: Scenario) -> None:
        if scenario.audio is not None:
            raise UnsupportedScenario("audio", "no microphone")
        super().check(scenario)


def test_simulated_and_live_values_are_side_by_side_and_what_live_cannot_run_is_named(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    text = SHORT.replace('scenario = "access/dsl"', 'scenario = "access/dsl"\nset = { audio = false }')
    file = written(tmp_path, "pairings = false\n" + text)
    options = {"suite": file, "into": tmp_path / "both", "progress": False, "repeats": 1}
    rtclab.arena(["goog-cc"], jobs=1, **options)
    monkeypatch.setattr(running, "backend_of", lambda name: PretendedLive())
    found = rtclab.arena(["goog-cc"], backend="live", **options)
    assert set(found.left_out) == {"l4s with goog-cc", "upload with goog-cc"}
    page = found.page.read_text()
    assert "l4s with goog-cc: audio: no microphone" in page
    # The same seed, so the same value.
    known, cases = found.values.of("rate_attained")
    simulated, _ = found.values_of("sim").of("rate_attained", cases)
    assert [case.name for case in cases] == ["narrow"]
    assert known.tolist() == simulated.tolist()
    told = number(float(known[0, 0, 0]))
    assert (
        f'<td data-column="Simulated"><span>{told}</span></td><td data-column="Live"><span>{told}</span>'
        in page
    )
    assert "Only one backend" not in page
    assert (found.path / "arena.csv").is_file()
    assert (found.path / "arena-live.csv").is_file()


def test_what_else_is_imported_does_not_make_values_old() -> None:
    """Commands and workers import different parts of rtclab, and must agree about what is measured."""
    digest = (
        "from rtclab.arenas.measure import measure; from rtclab.experiment import Definitions;"
        "print(Definitions('rtclab.arenas.measure:measure').digest(['1']))"
    )
    found = [
        subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
        for code in (digest, f"import rtclab.arenas.page, rtclab.cli.running; {digest}")
    ]
    assert found[0] == found[1] != ""


def test_traces_of_first_repeats_are_kept_and_linked(tmp_path: Path) -> None:
    text = "pairings = false\n" + SHORT
    options = {"suite": written(tmp_path, text), "into": tmp_path / "a", "jobs": 1, "progress": False}
    without = rtclab.arena(["goog-cc"], **options)
    found = rtclab.arena(["goog-cc"], traces=True, **options)
    links = re.findall(r'<a href="(sim/[^"]+)/">', found.page.read_text())
    assert links
    assert all((found.path / link / "manifest.json").is_file() for link in links)
    assert len(list(found.path.rglob("manifest.json"))) == 3
    # Recording every packet changes no value.
    assert found.values.rows.equals(without.values.rows)


def test_weights_are_asked_for_and_shown(ran: Arena, tmp_path: Path) -> None:
    weights = tmp_path / "weights.toml"
    weights.write_text("queuing_delay_p95 = 2\nrate_attained = 1\n")
    assert read_weights(weights) == read_weights("rate_attained=1,queuing_delay_p95=2")
    weighted = Arena(
        tmp_path, ran.suite, ran.controls, "sim", 2, ran.results, read_weights("rate_attained=1"), False
    )
    assert "Asked for with these weights: Rate attained 1." in write_page(weighted).read_text()


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ("rate_attained", "weights: cannot read `rate_attained`; expected NAME=NUMBER"),
        ("speed=1", "weights: no value `speed`; expected rate_attained"),
        ("rate_attained=0", "weights: rate_attained: got `0.0`; expected a number above 0"),
        ("rate_attained=nan", "weights: rate_attained: got `nan`"),
        ({}, "weights: no weight"),
        ("missing.toml", "missing.toml: No such file"),
    ],
)
def test_bad_weights_are_refused(given: object, message: str) -> None:
    with pytest.raises(BadInput, match=re.escape(message)):
        read_weights(given)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "short.toml: cases: missing"),
        ("[cases]", "short.toml: cases"),
        ("[cases.a]", "short.toml: cases.a.scenario: missing"),
        ('[cases.a]\nscenario = "acces/dsl"', "cases.a.scenario: no scenario `acces/dsl`: neither a shipped"),
        ('[cases.a]\nscenario = "access/dsl"\nuse = ["x"]', "cases.a.use"),
        ('[cases.a]\nscenario = "access/dsl"\nuses = ["x"]', "cases.a.uses.0"),
        (
            '[cases.a]\nscenario = "access/dsl"\nflows = ["a->b"]',
            "cases.a.flows: no flow of media `a->b`; expected",
        ),
        ('[cases.a]\nscenario = "access/dsl"\nset = { "link.up.los" = 1 }', "cases.a"),
        ('repeats = 0\n[cases.a]\nscenario = "access/dsl"', "short.toml: repeats"),
        ("cases = 3", "short.toml: cases"),
        ('[cases.a]\nscenario = "access/dsl"\nset = { video = false, audio = false }', "cases.a"),
        ("[cases.a", "short.toml"),
    ],
)
def test_a_bad_suite_names_the_file_and_the_field(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(BadInput) as caught:
        load_suite(written(tmp_path, text))
    assert message in str(caught.value)
    assert "short.toml" in str(caught.value)


def test_a_suite_that_is_not_there_is_named() -> None:
    with pytest.raises(BadInput, match="no suite `acces`; expected access, rfc8867, rfc8869"):
        load_suite("acces")
    with pytest.raises(BadInput, match=r"no file `none\.toml`"):
        load_suite("none.toml")


@pytest.fixture
def rates() -> Callable[..., pl.DataFrame]:
    def table(*rows: tuple[str, str, float | None, float | None]) -> pl.DataFrame:
        known = [
            (first, second, "failed" if own is None else "finished", "broken", own, other)
            for first, second, own, other in rows
        ]
        names = ["first", "second", "status", "reason", "rate_first", "rate_second"]
        return pl.DataFrame(known, schema=names, orient="row")

    return table


def test_fairness_is_the_ratio_of_rates_in_both_directions(rates: Callable[..., pl.DataFrame]) -> None:
    found = fairness(
        rates(("a", "b", 400, 100), ("a", "b", 100, 100), ("a", "a", 50, 100), ("a", "cubic", 10, 1000)),
        ["a", "b"],
    )
    # The geometric mean of 4 and 1.
    assert found["a", "b"].ratio == pytest.approx(2)
    assert found["b", "a"].ratio == pytest.approx(0.5)
    assert found["a", "a"].ratio == pytest.approx(2)
    assert found["a", "cubic"].ratio == pytest.approx(0.01)
    assert [found[key].even for key in (("a", "b"), ("a", "cubic"))] == [True, False]
    assert fairness(rates(("a", "b", None, None)), ["a", "b"])["b", "a"].failed == "broken"
    some = fairness(rates(("a", "b", 400, 100), ("a", "b", None, None)), ["a", "b"])
    assert some["a", "b"].ratio is None  # the repeat that is left may be the easy one


def test_pairs_share_one_bottleneck() -> None:
    for second in (Choice.parse("nada"), *TCP):
        scenario = pair(Choice.parse("goog-cc"), second)
        flows = [*scenario.flows(), *scenario.traffic_flows()]
        there = [flow.name for flow in flows if "forward" in flow.paths]
        assert len(there) == 2
    two = pair(Choice.parse("goog-cc"), Choice.parse("nada"))
    assert [two.congestion_control_of(f"sender-{n}").name for n in (1, 2)] == ["goog-cc", "nada"]
    assert PAIR["participants"]["receiver-2"]["video"] is False
