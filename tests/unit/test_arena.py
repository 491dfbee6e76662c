"""The arena: suites, cases, what is measured, and the page."""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from command_line import Rtclab

import rtclab
from rtclab._native import CONGESTION_CONTROLS
from rtclab.arenas import Arena, Case, arena, load_suite, plots, running
from rtclab.arenas.controls import HISTORICAL, choices, default_controls, with_control
from rtclab.arenas.findings import (
    COMPARISON,
    FEWEST_CASES,
    USE_CASES,
    YARDSTICK,
    Recommendation,
    alike_but_for_the_queue,
    by_queue,
    comparisons,
    fairness,
    fewest_cases_to_rank,
    heat_tables,
    rank_sentence,
    rankings,
    recommendations,
    spreads,
)
from rtclab.arenas.page import answer, undecided
from rtclab.arenas.ranking import Ranking, Winner
from rtclab.arenas.suite import NAMES, PAIR, TCP, pair
from rtclab.arenas.values import CRITERIA, MEASURED, Values
from rtclab.backend import sim_batch
from rtclab.backend.sim import SimBackend, simulate
from rtclab.errors import BadInput, UnsupportedScenario
from rtclab.experiment import Condition, Experiment
from rtclab.metrics import METRICS, wilcoxon
from rtclab.metrics.statistics import t_quantile
from rtclab.replays.settings import ControlChoice
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
        ["goog-cc", "scream"], suite=written(place), out=place / "one", jobs=1, progress=False
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
            assert set(case.uses) <= {use.name for use in USE_CASES}
    for case in load_suite("access").cases:
        assert case.scenario.source, case.name
        assert case.scenario.duration.s <= 60
    counted = [use for case in load_suite("access").cases for use in case.uses]
    assert all(counted.count(use.name) >= FEWEST_CASES for use in USE_CASES)


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
    changed = with_control(case.scenario, ControlChoice.parse("nada,kappa=0.25"))
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
        rtclab.arena(["goog-cc", "nada,nonsense=1"], suite=written(tmp_path), out=tmp_path / "a")
    assert not (tmp_path / "a").exists()


def test_a_participant_with_a_control_of_its_own_is_not_under_test() -> None:
    own = {"participants.alice.congestion_control": {"name": "nada"}}
    case = Case("x", Scenario.load("first-call", own))
    assert case.tested == ("bob->alice",)


def test_the_page_and_the_tables_have_the_same_bytes_with_two_processes(ran: Arena, tmp_path: Path) -> None:
    again = rtclab.arena(["goog-cc", "scream"], suite=ran.suite, out=tmp_path / "two", jobs=2, progress=False)
    for name in ("arena.html", "arena.csv", "arena-pairs.csv"):
        assert (again.path / name).read_bytes() == (ran.path / name).read_bytes(), name


def test_a_further_control_runs_alone_and_a_complete_arena_runs_nothing(ran: Arena, tmp_path: Path) -> None:
    def run(*controls: str) -> tuple[Arena, int]:
        found = rtclab.arena(controls, suite=ran.suite, out=tmp_path / "grown", jobs=1, progress=False)
        return found, found.results._store.outcomes().height

    first, count = run("goog-cc")
    # Three cases and the pairings with itself and three of TCP, twice.
    assert count == 2 * (3 + 4)
    page = first.page.read_bytes()
    notes = len(first.results._store.events())
    _, count = run("goog-cc")
    assert count == 2 * (3 + 4)
    assert len(first.results._store.events()) == notes
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
    first = rtclab.arena(["goog-cc"], repeats=1, out=tmp_path / "few", **options)
    page = first.page.read_bytes()
    rtclab.arena(["goog-cc"], repeats=2, out=tmp_path / "few", **options)
    assert first.page.read_bytes() != page
    again = rtclab.arena(["goog-cc"], repeats=1, out=tmp_path / "few", **options)
    assert again.page.read_bytes() == page
    assert again.values.rows["repeat"].to_list() == [0, 0, 0]


@pytest.mark.usefixtures("nada_fails")
def test_a_control_that_fails_is_shown_with_its_reason_and_the_others_stay(tmp_path: Path) -> None:
    found = rtclab.arena(
        ["goog-cc", "nada"], suite=written(tmp_path), out=tmp_path / "a", jobs=1, progress=False
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
    for pick in recommendations(found.values):
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
    told = rtclab("arena", *names, "--suite", "suite.toml", "--repeats", "4", "--jobs", "1", "--out", "a")
    assert told.status == 1
    found = arena(names, suite="suite.toml", repeats=4, jobs=1, out="a", progress=False)
    failed = found.values.failures()
    assert set(failed["control"]) == {names[2]}
    assert 0 < failed["repeats"].sum() < 4 * failed.height  # some repeats survive
    survivors = found.values.rows.filter(control=names[2], status="finished")["rate_attained"].mean()
    steady = found.values.rows.filter(control=names[0])["rate_attained"].mean()
    assert isinstance(survivors, float)
    assert isinstance(steady, float)
    assert survivors > steady
    video = recommendations(found.values)[0]
    assert video.winner is not None
    assert found.values.controls[video.winner.control] == names[0]
    assert f"Not compared: {names[2]} failed in {failed.height} of {FEWEST_CASES} cases." in " ".join(
        told.out.split()
    )
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
    told = rtclab("arena", "low.py:Low", "--suite", str(file), "--jobs", "1", "--repeats", "1", "--out", "a")
    assert told.status == 0
    assert "low.py:Low, 3 cases: on " in told.err
    assert "rates are in bit/s" in told.err
    assert "rates are in bit/s" in (tmp_path / "a" / "arena-short" / "arena.html").read_text()


@pytest.mark.usefixtures("nada_fails")
def test_the_command_prints_the_page_and_says_by_its_status_whether_a_control_failed(
    rtclab: Rtclab, tmp_path: Path
) -> None:
    file, out = written(tmp_path), tmp_path / "cli"
    options = ["--suite", str(file), "--out", str(out), "--jobs", "1", "--repeats", "1"]
    done = rtclab("arena", "goog-cc", "--quiet", *options)
    assert (done.status, done.out.strip()) == (0, str(out / "arena-short" / "arena.html"))
    failed = rtclab("arena", "goog-cc", "nada", *options)
    assert failed.status == 1
    assert f"failed: nada in l4s: {REASON}" in failed.err
    assert failed.out.strip().endswith(str(out / "arena-short" / "arena.html"))
    rows = list(csv.DictReader((out / "arena-short" / "arena.csv").open()))
    assert [row["status"] for row in rows if row["control"] == "goog-cc"] == ["finished"] * 3


def test_the_page_has_the_parts_that_there_are_data_for_and_nothing_of_this_machine(ran: Arena) -> None:
    text = ran.page.read_text()
    headings = re.findall(r'<h2 id="[^"]*">(.*?)</h2>', text)
    assert headings == [
        "Ranks",
        "How sure each pick is",
        "Cases and controls",
        "Queues and controls",
        "Fairness",
        "The median and the worst repeat",
        "How it was made",
    ]
    for name in ("pareto", "delays"):
        assert f'id="{name}"' in text
    assert "Simulated beside live" not in text
    assert "No case of this suite says something about it." not in text
    assert str(ran.path) not in text
    assert "rtclab run access/dsl" not in text  # its duration is another one
    assert f"rtclab arena goog-cc scream --suite {ran.suite.name} --repeats 2" in text


def test_the_answer_says_once_what_is_not_decided_and_what_would(ran: Arena) -> None:
    found = answer(ran)
    assert (
        found.how == "No difference between goog-cc and scream is more than chance in any use, over 3 cases."
    )
    assert [step.command for step in found.steps] == ["rtclab arena goog-cc scream --suite access"]
    assert [one.label for one in found.figures] == ["Rate attained, goog-cc", "Rate attained, scream"]
    told = undecided(ran)
    assert told[-1] == "No case tells what to pick if you share a screen or downloads run beside the call."
    assert len(told) == len(USE_CASES) - 1
    leads = [pick.winner.margin for pick in recommendations(ran.values) if pick.winner]
    few = f"over 1 case, and {FEWEST_CASES} are the fewest that can decide."
    ends = [few if lead > 0 else "are equal over 1 case." for lead in leads]
    assert [one.endswith(end) for one, end in zip(told[:-1], ends, strict=True)] == [True] * len(ends)
    assert ran.page.read_text().count("<strong>Not decided:</strong>") == 1


def lead(margin: float, low: float, cases: int, use: int = 0) -> Recommendation:
    case = Case("x", Scenario.load("first-call"))
    return Recommendation(
        USE_CASES[use], [case] * cases, Winner(0, 1, 50.0, margin, low, 2.0), np.zeros(2), {}
    )


def test_the_cases_that_would_show_a_lead_are_those_whose_interval_is_above_zero() -> None:
    # Half of the interval is twice the lead over 10 cases: with t of 9 and then of n - 1 degrees of freedom,
    # t(n-1) / sqrt(n) falls below t(9) / sqrt(10) / 2, from 0.357 at 33 to 0.349 below 0.358.
    needed = lead(1.0, -1.0, 10).cases_needed
    assert needed == next(
        n for n in range(11, 99) if t_quantile(n - 1) / n**0.5 < t_quantile(9) / 10**0.5 / 2
    )
    assert 30 < needed < 40
    assert lead(1.0, -1.0, FEWEST_CASES - 1).cases_needed == FEWEST_CASES
    assert lead(1.0, 0.5, 10).cases_needed is None  # decided
    assert lead(0.0, -1.0, 10).cases_needed is None  # no lead
    assert lead(0.01, -10.0, 10).cases_needed == float("inf")


def test_of_one_control_the_page_says_that_nothing_is_compared(tmp_path: Path) -> None:
    text = 'pairings = false\nrepeats = 1\nduration = "10 s"\n[cases.a]\nscenario = "access/dsl"\n'
    found = arena(["goog-cc"], suite=written(tmp_path, text), out=tmp_path, jobs=1, progress=False)
    assert answer(found).how == "One control took part, goog-cc, in 1 case, so there is nothing to compare."
    assert undecided(found) == []
    page = found.page.read_text()
    assert [name in page for name in ('id="ranks"', 'id="picks"', 'id="fairness"')] == [False] * 3


@pytest.mark.usefixtures("nada_fails")
def test_if_all_controls_fail_the_page_says_so_and_how_to_see_why(tmp_path: Path) -> None:
    options = {"out": tmp_path, "jobs": 1, "progress": False}
    found = arena(["nada", "nada,kappa=0.4"], suite=written(tmp_path), **options)
    told = answer(found)
    assert told.how == "Nothing can be compared: no control finished all repeats of any case (3 cases)."
    assert told.steps[0].what == "see why nada failed in narrow:"
    page = found.page.read_text()
    assert "<strong>nada</strong>, narrow, l4s and upload, 6 repeats:" in page
    assert REASON in page
    assert "<figure" not in page
    assert 'id="cases"' not in page


def test_the_plot_of_one_kind_of_queue_has_one_panel_and_an_axis_around_its_points(ran: Arena) -> None:
    values = ran.values
    one = [case for case in values.cases if case.queue == "drop tail"]
    rows = values.rows.filter(pl.col("case").is_in([case.name for case in one]))
    plot = plots.pareto(Values(tuple(one), values.controls, rows))
    assert plot is not None
    assert [axes.title for axes in plot.axes] == ["drop tail, 2 cases"]
    delays = values.of("queuing_delay_p95", one)[0]
    assert plot.x.begin <= np.log10(np.nanmin(delays)) < plot.x.begin + 0.6
    assert plot.x.end - 0.6 < np.log10(np.nanmax(delays)) <= plot.x.end
    both = plots.pareto(values)
    assert both is not None
    assert both.axes[0].title == "all queues, 3 cases"
    assert len(both.axes) == 3


def test_rank_sentences_do_not_contradict_the_order() -> None:
    def found(order: tuple[int, ...], apart: tuple[int, int]) -> Ranking:
        means = np.array([1.2, 2.5, 2.3])
        return Ranking(order, means, means, means, ((0, 1),), {}, frozenset({frozenset(apart)}), 12)

    value, names = CRITERIA["queuing_delay_p95"], ["scream", "goog-cc", "nada"]
    assert rank_sentence(value, found((0, 2, 1), (0, 2)), names) == (
        "scream has the best mean rank, 1.20 over 12 cases: better than nada by more than chance. "
        "Against goog-cc the cases disagree too much to tell, whatever the mean rank."
    )
    assert rank_sentence(value, found((0, 2, 1), (0, 1)), names).endswith(
        "goog-cc by more than chance; nada is within chance."
    )
    drawn = plots.rank_diagram(found((0, 2, 1), (0, 2)), names, "Ranks")
    assert "within chance</text>" in drawn
    assert "Mean rank, 1 is best</text>" in drawn


def test_the_fewest_cases_that_tell_controls_apart_are_those_of_the_signed_ranks() -> None:
    for controls, fewest in ((2, 6), (3, 7), (10, 11)):
        assert fewest_cases_to_rank(controls) == fewest
        pairs = controls * (controls - 1) / 2
        assert wilcoxon([1.0] * fewest) <= 0.05 / pairs < wilcoxon([1.0] * (fewest - 1))


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
    options = {"suite": file, "out": tmp_path / "both", "progress": False, "repeats": 1}
    rtclab.arena(["goog-cc"], jobs=1, **options)
    monkeypatch.setattr(running, "backend_of", lambda name: PretendedLive())
    found = rtclab.arena(["goog-cc"], backend="live", **options)
    assert set(found.left_out) == {"l4s with goog-cc", "upload with goog-cc"}
    page = found.page.read_text()
    assert "l4s with goog-cc: audio: no microphone" in page
    # The same seed, so the same value.
    known, cases = found.values.of("rate_attained")
    assert found.other_values is not None
    simulated, _ = found.other_values.of("rate_attained", cases)
    assert [case.name for case in cases] == ["narrow"]
    assert known.tolist() == simulated.tolist()
    told = number(float(known[0, 0, 0]))
    assert (
        f'<td data-column="Simulated"><span>{told}</span></td><td data-column="Live"><span>{told}</span>'
        in page
    )
    assert '<h2 id="live">Simulated beside live</h2>' in page
    assert (found.path.name, found.other_values.cases) == ("arena-short-live", found.values.cases)
    assert (found.path / "arena.csv").is_file()


def test_traces_of_first_repeats_are_kept_and_linked(tmp_path: Path) -> None:
    text = "pairings = false\n" + SHORT
    options = {"suite": written(tmp_path, text), "out": tmp_path / "a", "jobs": 1, "progress": False}
    without = rtclab.arena(["goog-cc"], **options)
    found = rtclab.arena(["goog-cc"], traces=True, **options)
    links = re.findall(r'<a href="(conditions/[^"]+)/">', found.page.read_text())
    assert links
    assert all((found.path / link / "manifest.json").is_file() for link in links)
    assert len(list(found.path.rglob("manifest.json"))) == 3
    # Recording every packet changes no value.
    assert found.values.rows.equals(without.values.rows)


def test_the_directory_is_an_experiment_with_the_fields_case_and_control(ran: Arena, rtclab: Rtclab) -> None:
    assert ran.results.fields == ["case", "control"]
    assert ran.results.where(case="narrow", control="scream").conditions == ["narrow with scream"]
    assert (
        rtclab("runs", "--out", str(ran.path.parent), "--csv")
        .out.splitlines()[1]
        .startswith("arena-short,sim")
    )
    options = ["arena-short", "--out", str(ran.path.parent), "--by", "control", "--where", "case=narrow"]
    rows = list(
        csv.DictReader(rtclab("measure", *options, "--metric", "in_time_100", "--csv").out.splitlines())
    )
    own = {row["control"]: float(row["mean"]) for row in rows if row["flow"] == "alice->bob"}
    assert own.keys() == {"goog-cc", "scream"}
    # The narrow path is the bottleneck: what is used in time is the rate attained by packets in time.
    means = ran.values.rows.filter(case="narrow").group_by("control").agg(pl.selectors.float().mean())
    for row in means.iter_rows(named=True):
        assert row["in_time_100"] == pytest.approx(row["rate_attained"] * own[row["control"]] / 100, rel=0.01)
    assert set(ran.results.metrics()["metric"].unique()) <= set(MEASURED)


def test_a_part_of_the_time_is_measured_ranked_and_said(rtclab: Rtclab, tmp_path: Path) -> None:
    options = ["--suite", str(written(tmp_path)), "--out", str(tmp_path), "--jobs", "1", "--from", "5s"]
    told = rtclab("arena", "goog-cc", "scream", *options)
    assert told.out.startswith("arena-short-from-5s: measured from 5 s on\n")
    found = arena(
        ["goog-cc", "scream"], suite=tmp_path / "short.toml", begin=5, out=tmp_path, jobs=1, progress=False
    )
    assert found.window == (5.0, None)
    text = found.page.read_text()
    assert "Everything on this page is from 5 s on of each repeat." in text
    assert "--from 5s</dd>" in text
    rows = list(csv.DictReader((found.path / "arena.csv").open()))
    assert {(row["from_s"], row["to_s"]) for row in rows} == {("5.0", "")}
    # The same as of traces over that time.
    narrow = found.results.where(case="narrow", control="goog-cc").metrics(flows="alice->bob")
    scenario = {one.name: one for one in found.suite.cases}["narrow"].scenario
    trace = simulate(with_control(scenario, ControlChoice.parse("goog-cc")), 0).between(5)
    for name in ("queuing_delay_p95", "in_time_100", "over_budget", "receiving_rate", "late_rate"):
        value = narrow.filter(metric=name, repeat=0)["value"].item()
        assert value == METRICS[name].function(trace, "alice->bob"), name
    with pytest.raises(BadInput, match="nothing to measure from 30 s on: the run ends at 20 s"):
        arena(["goog-cc"], suite=tmp_path / "short.toml", begin=30, out=tmp_path)


def test_rows_say_where_one_control_is_better_than_another(ran: Arena, rtclab: Rtclab) -> None:
    rows = comparisons(ran.values)
    assert rows.schema == COMPARISON
    for row in rows.iter_rows(named=True):
        assert row["difference"] == pytest.approx(row["new"] - row["base"])
        assert row["verdict"] == "too few cases to tell"
        known = (
            row["difference_low"] <= row["difference"] <= row["difference_high"] if row["use"] else row["p"]
        )
        assert known, row
    options = ["--suite", ran.suite.name, "--out", str(ran.path.parent), "--jobs", "1"]
    assert rtclab("arena", "goog-cc", "scream", "--csv", *options).out == rows.write_csv()
    told = json.loads(rtclab("arena", "goog-cc", "scream", "--json", *options).out)
    assert told["page"] == str(ran.page)
    assert [one["pick"] for one in told["picks"]] == [None] * len(USE_CASES)
    assert len(told["comparisons"]) == rows.height


def test_conditions_of_an_experiment_have_the_same_fields() -> None:
    call = Scenario.load("first-call")
    for given, message in (
        ({"a": Condition(call, fields={"x": "1"}), "b": call}, "b: got the fields ``; expected those of the"),
        ({"a": Condition(call, fields={"repeat": "1"})}, "a: a field cannot be named `repeat`"),
    ):
        with pytest.raises(BadInput, match=message):
            Experiment(given)


def test_names_of_earlier_versions_are_named() -> None:
    with pytest.raises(BadInput, match="into: an argument of an earlier version") as caught:
        rtclab.arena(["goog-cc"], into="a")
    assert caught.value.hint == "name the directory of all runs: out"
    with pytest.raises(BadInput, match="weights: an argument of an earlier version"):
        rtclab.arena(["goog-cc"], weights="rate_attained=1")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "short.toml: cases: missing"),
        ("[cases]", "short.toml: cases"),
        ("[cases.a]", "short.toml: cases.a.scenario: missing"),
        ('[cases.a]\nscenario = "acces/dsl"', "cases.a: no scenario `acces/dsl`: neither a shipped"),
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
        ('[cases."beside nada"]\nscenario = "access/dsl"', "cases.beside nada: names of pairings begin with"),
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
    for second in (ControlChoice.parse("nada"), *TCP):
        scenario = pair(ControlChoice.parse("goog-cc"), second)
        flows = [*scenario.flows(), *scenario.traffic_flows()]
        there = [flow.name for flow in flows if "forward" in flow.paths]
        assert len(there) == 2
    two = pair(ControlChoice.parse("goog-cc"), ControlChoice.parse("nada"))
    assert [two.congestion_control_of(f"sender-{n}").name for n in (1, 2)] == ["goog-cc", "nada"]
    assert PAIR["participants"]["receiver-2"]["video"] is False
