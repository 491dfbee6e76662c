"""From a call to a scenario: paths whose packets are computed here, and calls of other tests."""

from __future__ import annotations

import json
import re
import tomllib
from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from captures import later, of_interface, speech, write_pcap
from hypothesis import given, settings
from hypothesis import strategies as st

import rtclab
from rtclab import Scenario
from rtclab.cli import main
from rtclab.errors import BadInput
from rtclab.estimate import Estimate, call_of, estimate, read_call
from rtclab.estimate.changes import partition
from rtclab.estimate.findings import Finding
from rtclab.estimate.fit import fit
from rtclab.estimate.losses import random_loss
from rtclab.estimate.packets import Packets, with_gaps
from rtclab.estimate.page import compared
from rtclab.estimate.path import course_points
from rtclab.estimate.queue_model import windows_of
from rtclab.estimate.recorded_call import MOST_CAPTURE_BYTES
from rtclab.estimate.scenario_text import plain, scenario_name
from rtclab.metrics import METRICS
from rtclab.trace import CaptureInfo, Trace

LOGS = Path(__file__).parent / "event_logs"
ALICE, BOB = LOGS / "event-log-alice-bob.log", LOGS / "event-log-bob-alice.log"
SIZE = 1200.0


def bursts(seconds: float, *, every_s: float, packets: int) -> tuple[np.ndarray, np.ndarray]:
    """Times and sizes of bursts of packets that leave 0.1 ms after each other."""
    starts = np.arange(0.0, seconds, every_s)
    sent_s = (starts[:, None] + 1e-4 * np.arange(packets)).ravel()
    return sent_s, np.full(sent_s.size, SIZE)


def passed(
    sent_s: np.ndarray, size: np.ndarray, bps: np.ndarray, delay_s: np.ndarray, limit_s: float = np.inf
) -> Packets:
    """The packets behind a first-in first-out queue that drops those that would wait longer than a limit."""
    arrived_s = np.full(sent_s.size, np.nan)
    free_s = 0.0
    for index, at_s in enumerate(sent_s):
        if free_s - at_s > limit_s:
            continue
        free_s = max(free_s, at_s) + 8 * size[index] / bps[index]
        arrived_s[index] = free_s + delay_s[index]
    return Packets(sent_s, arrived_s, size, np.isnan(arrived_s))


def same(sent_s: np.ndarray, value: float) -> np.ndarray:
    return np.full(sent_s.size, value)


def test_a_series_is_divided_where_its_value_changes() -> None:
    values = np.array([1.0] * 5 + [3.0] * 4 + [1.0] * 6)
    costs = np.abs(values[:, None] - np.array([1.0, 2.0, 3.0]))
    assert partition(costs, 1.0) == [(0, 5), (5, 9), (9, 15)]
    # The middle costs 2 x 4 = 8 in one segment, and two more segments cost 2 x 5.
    assert partition(costs, 5.0) == [(0, 15)]
    assert partition(costs[:0], 1.0) == []


def test_capacity_and_delay_are_found_from_the_packets() -> None:
    sent_s, size = bursts(20, every_s=0.1, packets=8)
    found = fit(passed(sent_s, size, same(sent_s, 1e6), same(sent_s, 0.040)), 1e-6)
    (segment,) = found.capacity
    assert segment.bps == pytest.approx(1e6, rel=0.01)
    assert segment.low_bps < 1e6 < (segment.high_bps or 0) < 1.1e6
    assert found.base_s[0] == pytest.approx(0.040, abs=0.0005)
    assert found.jitter_s < 0.001


@settings(deadline=None, max_examples=12)
@given(
    bps=st.floats(2e5, 8e6),
    delay_s=st.floats(0.001, 0.3),
    clock_s=st.floats(-1e3, 1e3),
    seed=st.integers(0, 1000),
)
def test_any_capacity_is_found_within_three_percent(
    bps: float, delay_s: float, clock_s: float, seed: int
) -> None:
    source = np.random.default_rng(seed)
    sent_s = np.cumsum(source.exponential(8 * SIZE / bps / 0.8, 2500))
    size = source.integers(200, 1201, sent_s.size).astype(float)
    found = fit(passed(sent_s, size, same(sent_s, bps), same(sent_s, delay_s + clock_s)), 1e-6)
    assert found.rate_of_windows().mean() == pytest.approx(bps, rel=0.03)
    assert found.base_s.mean() == pytest.approx(delay_s + clock_s, abs=0.002)


def test_a_step_of_the_capacity_is_found_within_a_window() -> None:
    sent_s, size = bursts(40, every_s=0.1, packets=4)
    bps = np.where(sent_s < 20, 2e6, 5e5)
    found = fit(passed(sent_s, size, bps, same(sent_s, 0.02)), 1e-6)
    rates = found.rate_of_windows()
    assert rates[2:18].mean() == pytest.approx(2e6, rel=0.03)
    assert rates[22:38].mean() == pytest.approx(5e5, rel=0.03)
    assert abs(found.base_s - 0.02).max() < 0.002


def test_a_delay_that_moves_is_no_queue() -> None:
    sent_s, size = bursts(40, every_s=0.1, packets=4)
    delay_s = np.interp(sent_s, [10, 30], [0.020, 0.120])
    found = fit(passed(sent_s, size, same(sent_s, 1e6), delay_s), 1e-6)
    assert found.rate_of_windows().mean() == pytest.approx(1e6, rel=0.03)
    assert abs(found.base_s - delay_s).mean() < 0.003


def test_a_path_that_was_not_loaded_has_no_upper_bound() -> None:
    sent_s = np.arange(0, 20, 0.02)
    packets = passed(sent_s, same(sent_s, 200.0), same(sent_s, 1e12), same(sent_s, 0.03))
    found = fit(packets, 1e-3)
    assert [segment.high_bps for segment in found.capacity] == [None]


def test_a_full_queue_is_told_from_random_loss() -> None:
    sent_s, size = bursts(30, every_s=0.2, packets=25)
    found = fit(passed(sent_s, size, same(sent_s, 1e6), same(sent_s, 0.02), limit_s=0.1), 1e-6)
    lost = found.packets.lost
    assert lost.sum() > 100
    assert (found.limit.dropped & lost).sum() >= 0.98 * lost.sum()
    # A packet waits up to 100 ms, of which up to one transmission (9.6 ms) is that of the packet before it.
    assert 0.080 < found.limit.longest_s < 0.105

    source = np.random.default_rng(1)
    passing = passed(sent_s[::5], size[::5], same(sent_s[::5], 1e6), same(sent_s[::5], 0.02))
    gone = source.random(passing.lost.size) < 0.1
    arrived_s = np.where(gone, np.nan, passing.arrived_s)
    random = fit(replace(passing, arrived_s=arrived_s, lost=gone), 1e-6)
    assert not random.limit.full


def test_bursts_of_losses_are_told_from_single_losses() -> None:
    sent_s = np.arange(0, 100, 0.01)
    windows = windows_of(Packets(sent_s, sent_s, sent_s, sent_s < 0), 1.0)
    in_bursts = np.zeros(sent_s.size, dtype=bool)
    in_bursts.reshape(-1, 100)[:, 10:14] = True
    found = random_loss(in_bursts, sent_s, windows)
    assert (found.ratio, found.burst, found.in_bursts) == (0.04, 4.0, True)
    assert found.low < 0.04 < found.high
    assert len(found.segments) == 1
    alone = np.random.default_rng(1).random(sent_s.size) < 0.04
    assert not random_loss(alone, sent_s, windows).in_bursts
    later = alone & (sent_s > 50)
    first, second = random_loss(later, sent_s, windows).segments
    assert first.ratio == 0.0
    assert second.begin_s == 50.0


def test_a_gap_of_numbers_is_as_many_lost_packets() -> None:
    rows = pl.DataFrame(
        {
            "ssrc": [1, 1, 1],
            "seq": [65_534, 65_535, 3],  # 0, 1 and 2 are missing
            "kind": ["video"] * 3,
            "marker": [False, False, True],
            "sent_ns": [0, 1000, 5000],
            "delivered_ns": [10, 1010, 5010],
            "size_bytes": [100, 200, 300],
        }
    )
    lost = with_gaps(rows).filter(pl.col("delivered_ns").is_null())
    assert lost["sent_ns"].to_list() == [2000, 3000, 4000]
    assert lost["size_bytes"].to_list() == [200] * 3
    rows = rows.with_columns(sent_ns=pl.col("sent_ns") * 1_000_000)
    after = with_gaps(rows).filter(pl.col("delivered_ns").is_null())
    assert (after["sent_ns"] // 1_000_000).to_list() == [1001, 1002, 1003]
    framed = with_gaps(rows.with_columns(marker=pl.lit(True))).filter(pl.col("delivered_ns").is_null())
    assert (framed["sent_ns"] // 1_000_000).to_list() == [4997, 4998, 4999]


def test_a_course_has_the_fewest_points() -> None:
    at_s = np.linspace(0, 40, 4001)
    course = np.interp(at_s, [10, 30], [0.02, 0.12])
    points = course_points(at_s, course, 0.001)
    assert [at for at, _ in points] == pytest.approx([0, 10, 30, 40], abs=0.6)


@pytest.mark.parametrize("files", [[ALICE], [BOB], [ALICE, BOB]])
def test_logs_of_a_real_call_over_1_mbit_and_25_ms(files: list[Path]) -> None:
    made = estimate(read_call(files))
    for name, path in made.paths.items():
        found = {one.name: one for one in path.findings}
        assert found["capacity"].value == pytest.approx(1000, rel=0.03), name
        assert found["delay"].value == pytest.approx(25, abs=1.5), name
        assert found["delay"].grade == "measured"
        assert found["loss"].value == 0
    assert made.scenario.participants.keys() == {"alice", "bob"}
    assert made.loaded


@pytest.fixture(scope="module")
def trace() -> Trace:
    """A call over 1 Mbit/s up and down, 25 ms each."""
    return rtclab.simulate(Scenario.load("first-call", {"duration": "20 s"}))


@pytest.fixture(scope="module")
def made(trace: Trace) -> Estimate:
    return estimate(call_of(trace, origin="a.pcap"))


def numbers(made: Estimate, name: str) -> dict[str, Finding]:
    return {one.name: one for one in made.paths[name].findings}


def test_a_simulated_call_gives_the_scenario_that_it_was(made: Estimate) -> None:
    found = numbers(made, "alice")
    assert found["capacity"].value == pytest.approx(1000, rel=0.05)
    assert found["delay"].value == pytest.approx(50, abs=2)
    assert (found["capacity"].low or 0) < 1000 < (found["capacity"].high or 0) < 1100
    video = made.scenario.video_of("alice")
    assert video is not None
    assert (video.width, video.height, video.frame_rate) == (640, 480, 30)
    assert made.scenario.audio_of("alice") is None


def max_bitrate(made: Estimate) -> Finding:
    return {one.name: one for one in made.media["alice"].findings}["max bitrate"]


def test_the_maximum_of_an_encoder_is_measured_if_it_limits(made: Estimate) -> None:
    assert max_bitrate(made).grade == "assumed"  # the path limits this call
    free = Scenario.load("first-call", {"duration": "30 s", "link.up.capacity": "10 Mbit/s"})
    small = Scenario.load(free, {"link.down.capacity": "10 Mbit/s", "video.max_bitrate": "300 kbit/s"})
    found = max_bitrate(estimate(call_of(rtclab.simulate(small))))
    assert (found.value, found.grade) == (pytest.approx(300, rel=0.01), "measured")


def test_what_the_trace_knows_of_its_paths_is_not_used(trace: Trace, made: Estimate) -> None:
    packets = trace.table("packets").with_columns(
        queued_ns=pl.lit(None, pl.Int64),
        drop_cause=pl.lit(None, pl.String),
        drop_path=pl.lit(None, pl.String),
    )
    blind = Trace.in_memory({"packets": packets}, trace.manifest.model_copy(update={"scenario": {}}))
    assert estimate(call_of(blind)).paths["alice"].values == made.paths["alice"].values


def test_a_call_that_did_not_load_the_path_says_so() -> None:
    free = Scenario.load("first-call", {"duration": "15 s", "link.up.capacity": "80 Mbit/s"})
    free = Scenario.load(free, {"link.down.capacity": "80 Mbit/s", "link.up.jitter": "3 ms"})
    made = estimate(call_of(rtclab.simulate(free)))
    capacity = numbers(made, "alice")["capacity"]
    assert (capacity.grade, capacity.high) == ("at least", None)
    assert capacity.note == "the call did not load the path"
    assert "capacity" not in made.paths["alice"].values
    assert "# capacity: at least " in made.text
    assert made.scenario.link_of("alice").up.capacity is None


def test_counters_give_a_capacity_and_half_of_the_round_trip(trace: Trace) -> None:
    names = ("outbound_rtp", "inbound_rtp", "remote_inbound_rtp", "candidate_pair")
    tables = {name: trace.table(name).filter(participant="alice") for name in names}
    made = estimate(call_of(Trace.in_memory(tables, trace.manifest)))
    found = numbers(made, "alice")
    assert found["capacity"].value == pytest.approx(1000, rel=0.2)
    assert found["delay"].value == pytest.approx(50, abs=6)
    assert found["delay"].grade == "half of the round trip"
    assert found["jitter"].grade == "unknown"


HOSTILE = 'x"\n[evil]\ncommand = "rm"\n#<script>alert(1)</script>\u202e'


def test_nothing_of_a_source_gets_into_the_toml_or_the_page(trace: Trace, tmp_path: Path) -> None:
    flows = {
        f"{HOSTILE}->{HOSTILE}2": trace.manifest.flows["alice->bob"].model_copy(
            update={"sender": HOSTILE, "receiver": f"{HOSTILE}2"}
        )
    }
    about = CaptureInfo(files=(HOSTILE,), begin_ns=0)
    manifest = trace.manifest.model_copy(update={"flows": flows, "backend": "log", "capture": about})
    packets = trace.table("packets").filter(flow="alice->bob").with_columns(flow=pl.lit(next(iter(flows))))
    call = call_of(Trace.in_memory({"packets": packets}, manifest), origin=HOSTILE, notes=[HOSTILE])
    made = estimate(call)
    written = tomllib.loads(made.text)
    assert written.keys() == {"name", "title", "duration", "repeats", "participants"}
    assert written["participants"].keys() == {"caller", "callee"}
    assert made.text.isascii()
    page = made.report(tmp_path / "page.html", 1).read_text()
    assert "<script>alert" not in page
    assert "&lt;script&gt;alert" in page


@given(st.text())
def test_any_name_of_a_file_gives_a_name_and_a_comment_of_one_line(origin: str) -> None:
    name, comment = scenario_name(origin), plain(origin)
    assert set(name) <= set("abcdefghijklmnopqrstuvwxyz0123456789-")
    assert comment.isascii()
    assert comment.isprintable()
    assert len(comment) <= 160


def test_several_pairs_are_listed_and_one_can_be_chosen() -> None:
    three = Scenario.read(
        {
            "name": "three",
            "duration": "8 s",
            "participants": {"alice": {}, "bob": {}, "carol": {}},
            "video": {},
            "calls": [{"participants": ["alice", "bob"]}, {"participants": ["alice", "carol"]}],
        },
        "three",
    )
    trace = rtclab.simulate(three)
    with pytest.raises(BadInput, match=r"2 pairs of ends have flows of media: .*alice->carol"):
        call_of(trace)
    assert set(call_of(trace, "alice->carol").ends) == {"alice", "carol"}
    with pytest.raises(BadInput, match="--flow: no flow `bob->carol`; the flows are "):
        call_of(trace, "bob->carol")


def test_a_capture_at_one_end_knows_what_arrives_there(tmp_path: Path) -> None:
    frames = speech(400)
    alone = write_pcap(tmp_path / "alone.pcap", frames)
    made = estimate(read_call([alone]))
    assert set(made.call.names.values()) == {"10.0.0.1:5004", "10.0.0.2:6006"}
    (sender,) = made.media
    assert {one.grade for one in made.paths[sender].findings} == {"unknown"}
    assert made.scenario.audio_of(sender) is not None

    later_frames = write_pcap(tmp_path / "later.pcap", later(frames, 5000.0))
    both = estimate(read_call([alone, later_frames]))
    delay = numbers(both, sender)["delay"]
    assert (delay.grade, delay.value) == ("unknown", None)
    same = estimate(read_call([alone, later_frames], same_clock=True))
    assert numbers(same, sender)["delay"].value == pytest.approx(5000, abs=1)


MEETING = {
    "name": "meeting",
    "duration": "15 s",
    "participants": {
        "alice": {},
        "carol": {"link": {"up": {"capacity": "600 kbit/s", "delay": "40 ms"}}},
        "bob": {},
    },
    "link": {
        "up": {"capacity": "1.5 Mbit/s", "queue": "300 ms", "delay": "20 ms"},
        "down": {"capacity": "6 Mbit/s", "queue": "300 ms", "delay": "20 ms"},
    },
    "video": {},
    "servers": {"sfu": {}},
    "calls": [{"kind": "sfu", "server": "sfu"}],
}


def test_of_a_captured_meeting_each_uplink_is_the_participants_own(tmp_path: Path) -> None:
    run = rtclab.run(Scenario.read(MEETING, "meeting"), repeats=1, capture=True, out=tmp_path)
    whole = (run.path / "repeat-0" / "capture.pcapng").read_bytes()
    addresses = {"10.0.0.1": "alice", "10.0.0.2": "carol", "10.0.0.3": "bob", "10.0.0.4": "sfu"}
    uplinks = {
        "alice": (1500, 20),
        "bob": (1500, 20),
        "carol": (600, 30),
    }  # kbit/s, and ms of half a round trip
    server = tmp_path / "server.pcapng"
    server.write_bytes(of_interface(whole, "sfu"))
    for name, (kbps, half_ms) in uplinks.items():
        made = estimate(read_call([server], names=addresses, flow=f"{name}->sfu"))
        found = numbers(made, name)
        assert found["capacity"].value == pytest.approx(kbps, rel=0.05), name
        # The SFU makes no checks of its own, so there the answers of the participants come at once.
        assert found["delay"].grade == "unknown", name
        assert numbers(made, "sfu")["capacity"].grade == "unknown", name
        at_home = tmp_path / f"{name}.pcapng"
        at_home.write_bytes(of_interface(whole, name))
        there = {address: who for address, who in addresses.items() if who in (name, "sfu")}
        made = estimate(read_call([at_home], names=there))
        assert numbers(made, name)["delay"].value == pytest.approx(half_ms, abs=3), name
        assert numbers(made, name)["capacity"].grade == "unknown", name
        assert numbers(made, "sfu")["capacity"].grade != "unknown", name


def test_a_call_without_feedback_invents_nothing(trace: Trace) -> None:
    unknown = pl.lit(None, pl.Int64)
    packets = trace.table("packets").with_columns(delivered_ns=unknown, dropped_ns=unknown)
    made = estimate(call_of(Trace.in_memory({"packets": packets}, trace.manifest)))
    assert made.paths["alice"].values == {}
    assert {one.grade for one in made.paths["alice"].findings} == {"unknown"}
    assert not made.loaded
    assert made.scenario.link_of("alice").up.capacity is None


def test_a_trace_over_a_part_of_its_time_gives_the_scenario_of_the_whole_call(trace: Trace) -> None:
    assert call_of(trace.within((2.0, 8.0))).trace.manifest == call_of(trace).trace.manifest


def test_a_call_without_media_is_refused(trace: Trace) -> None:
    packets = trace.table("packets").filter(pl.col("protocol") != "rtp")
    with pytest.raises(BadInput, match="no media in the call"):
        call_of(Trace.in_memory({"packets": packets}, trace.manifest))


def test_a_capture_of_gigabytes_is_refused_before_it_is_read(tmp_path: Path) -> None:
    large = tmp_path / "large.pcap"
    with large.open("wb") as file:
        file.write(bytes.fromhex("d4c3b2a1"))
        file.truncate(MOST_CAPTURE_BYTES + 1)
    with pytest.raises(BadInput, match="larger than 2 GB") as refused:
        read_call([large])
    assert "editcap" in str(refused.value.hint)


def test_one_direction_alone_leaves_the_other_participant_silent(trace: Trace) -> None:
    packets = trace.table("packets").filter(flow="alice->bob")
    made = estimate(call_of(Trace.in_memory({"packets": packets}, trace.manifest)))
    assert made.scenario.video_of("alice") is not None
    assert made.scenario.video_of("bob") is None
    assert numbers(made, "bob")["delay"].grade == "assumed"


def command(*arguments: object) -> int | str | None:
    with pytest.raises(SystemExit) as ended:
        main([str(argument) for argument in arguments])
    return ended.value.code


def test_the_page_says_whether_the_simulations_are_like_the_call_and_leaves_out_what_it_lacks(
    tmp_path: Path,
) -> None:
    run = rtclab.run("first-call", duration="20 s", repeats=1, capture=True, out=tmp_path, progress=False)
    made = rtclab.scenario_from(run.path / "repeat-0/capture.pcapng", names=["bob", "alice"])
    page = made.report(tmp_path / "page.html", 3).read_text()
    assert re.search(r"Its simulations are like the call in (all \d+|\d+ of \d+) metrics", page)
    # A capture of encrypted media has no frames.
    assert re.search(r"the source of the call does not tell it: [^<]*Frame rate", page)
    shown = re.findall(r"<h[23][^>]*>(.*?)</h[23]>", page)
    assert ["Frame rate" in shown, "Receiving rate" in shown] == [False, True]


def test_a_measured_delay_includes_transmission_on_links_beside_the_bottleneck(tmp_path: Path) -> None:
    """Both links have 1 Mbit/s and 25 ms: beside the bottleneck, a packet of 1000 bytes takes 50 + 8 ms."""
    run = rtclab.run("first-call", duration="20 s", repeats=1, capture=True, out=tmp_path, progress=False)
    made = rtclab.scenario_from(run.path / "repeat-0/capture.pcapng", names=["bob", "alice"])
    delays = [one for one in made.findings if one.name == "delay"]
    assert len(delays) == 2
    for one in delays:
        assert one.value is not None
        assert 52 < one.value < 58
        told = re.search(r"transmission on other links: ([\d.]+) ms of a typical packet", one.note)
        assert told is not None
        assert 6 < float(told[1]) < 9


def test_the_command_writes_a_scenario_that_runs_and_a_page(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert command("scenario", "from", ALICE, "--simulations", 2) == 0
    shown = capsys.readouterr().out
    assert "from-event-log-alice-bob.toml: `rtclab run from-event-log-alice-bob.toml` simulates it" in shown
    made = Path("from-event-log-alice-bob.toml")
    assert Scenario.load(made).name == "from-event-log-alice-bob"
    page = made.with_suffix(".html").read_text()
    assert "The call and its simulations" in page
    assert f"<code>rtclab run {made}</code>" in page
    assert f"<code>rtclab remedy {made}</code>" in page

    assert command("scenario", "from", ALICE, "--toml", made) == 2
    assert "exists already" in capsys.readouterr().err
    assert command("scenario", "from", ALICE, "--toml", "b.toml", "--no-report", "--json") == 0
    told = json.loads(capsys.readouterr().out)
    assert (told["file"], told["page"]) == ("b.toml", None)
    capacity = next(one for one in told["findings"] if one["name"] == "capacity")
    assert capacity["unit"] == "kbit/s"
    assert capacity["grade"] == "measured"
    assert command("scenario", "from", "nothing.pcap") == 2
    assert "no such file or run" in capsys.readouterr().err


def test_a_capture_of_both_ends_and_a_run_give_the_same_paths(tmp_path: Path) -> None:
    fast = {"link.down.capacity": "100 Mbit/s", "duration": "20 s"}
    run = rtclab.run("first-call", set=fast, repeats=1, capture=True, out=tmp_path)
    both = run.path / "repeat-0" / "capture.pcapng"
    made = rtclab.scenario_from(both, names={"10.0.0.1": "alice", "10.0.0.2": "bob"})
    for name in ("alice", "bob"):
        assert numbers(made, name)["capacity"].value == pytest.approx(1000, rel=0.03)
        assert numbers(made, name)["delay"].value == pytest.approx(50, abs=1)
    assert rtclab.scenario_from(run).paths["alice"].loaded


def test_feedback_between_media_uses_capacity_and_does_not_hide_losses() -> None:
    sent_s, size = bursts(20, every_s=0.1, packets=8)
    small = np.arange(sent_s.size) % 2 == 1
    size[small] = 80.0
    packets = passed(sent_s, size, same(sent_s, 5e5), same(sent_s, 0.040))
    lost = np.arange(sent_s.size) % 20 == 0
    media = ~small
    known = Packets(
        sent_s[media],
        np.where(lost, np.nan, packets.arrived_s)[media],
        size[media],
        lost[media],
    ).beside(sent_s[small], size[small])
    assert (known.sent_s == sent_s).all()
    found = fit(known, 1e-6)
    assert found.rate_of_windows().mean() == pytest.approx(5e5, rel=0.01)
    assert found.capacity[0].high_bps is not None


def test_nothing_is_overwritten_and_no_work_is_done_before_that_is_known(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("theirs.html").write_text("mine")
    Path("from-event-log-alice-bob.toml").write_text("mine")
    kept = sorted(tmp_path.iterdir())
    unread = Path("unread.log")  # the call is not even opened
    from_call = "scenario", "from"
    for options, error in (
        ((unread, "--toml", "a.toml", "--page", "theirs.html"), "--page theirs.html: exists already"),
        ((unread, "--toml", "theirs.toml"), "--page theirs.html: exists already"),
        ((unread, "--toml", "theirs.html", "--no-report"), "--toml theirs.html: exists already"),
        (("event-log-alice-bob.log",), "--toml from-event-log-alice-bob.toml: exists already"),
        ((unread, "--toml", "a.html"), "a.html: both the scenario and the page would be written there"),
        ((unread, "--toml", "a", "--page", "./a"), "a: both the scenario and the page"),
    ):
        assert command(*from_call, *options) == 2
        shown = capsys.readouterr()
        assert error in shown.err
        assert "hint: " in shown.err
        assert sorted(tmp_path.iterdir()) == kept
    assert Path("theirs.html").read_text() == "mine"
    estimate_of = rtclab.scenario_from(ALICE)
    with pytest.raises(BadInput, match=r"^theirs.html: exists already"):
        estimate_of.report("theirs.html")


def test_without_a_scenario_there_is_no_page(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("file").write_text("")
    arguments = ALICE, "--simulations", 1, "--toml", "file/a.toml", "--page", "a.html"
    assert command("scenario", "from", *arguments) == 2
    assert "file" in capsys.readouterr().err
    assert not Path("a.html").exists()


CHANGED = {
    "name": "changed",
    "duration": "60 s",
    "participants": {"alice": {}, "bob": {}},
    "video": {},
    "link": {
        "up": {"capacity": {"steps": [["0 s", "600 kbit/s"], ["30 s", "1.5 Mbit/s"]]}, "delay": "20 ms"}
    },
}


@pytest.fixture(scope="module")
def changed() -> Trace:
    """A call of a minute whose capacity changes in the middle."""
    return rtclab.simulate(Scenario.read(CHANGED, "changed"))


def test_a_part_of_a_call_is_estimated_and_compared_alone(changed: Trace, tmp_path: Path) -> None:
    for begin, end, kbps in ((0, "25 s", 600), ("35 s", None, 1500)):
        made = rtclab.scenario_from(changed, begin=begin, end=end)
        assert numbers(made, "alice")["capacity"].value == pytest.approx(kbps, rel=0.03)
        assert made.scenario.duration.s == 25
        assert "# Note: The part of the call from" in made.text
    assert made.call.window == (35.0, 60.0)
    sent = made.call.trace.table("packets")
    assert sent["sent_ns"].min() >= 0
    assert sent["sent_ns"].max() < 25_000_000_000
    # Counters go on over the part, so they are compared with those at its begin.
    rates = {}
    for flow, rows in compared(made.call, made.simulated(4)).items():
        rates[flow] = next(row for row in rows if row.metric.name == "receiving_rate")
        frozen = next(row for row in rows if row.metric.name == "freeze_count")
        whole, part = (
            METRICS["freeze_count"].function(changed.within(span), flow) for span in (None, (35, 60))
        )
        assert frozen.call == part <= whole
    # The simulation begins as a new call, and the part does not.
    assert 900 < rates["alice->bob"].call < 1500
    assert 900 < rates["alice->bob"].mean < 1500
    assert "from 35 s to 60 s" in made.report(tmp_path / "part.html", 1).read_text()


def test_a_part_of_counters_and_of_packets_in_one_direction(changed: Trace) -> None:
    names = ("outbound_rtp", "inbound_rtp", "remote_inbound_rtp", "candidate_pair")
    tables = {name: changed.table(name).filter(participant="alice") for name in names}
    counters = Trace.in_memory(tables, changed.manifest)
    early, late = (
        numbers(rtclab.scenario_from(counters, begin=begin, end=end), "alice")["capacity"].value or 0
        for begin, end in ((0, 28), (34, 60))
    )
    assert 480 < early < 720 < 1000 < late < 1800
    ends = changed.table("packets").filter((pl.col("flow") == "alice->bob") | (pl.col("sent_ns") < 10**10))
    made = rtclab.scenario_from(Trace.in_memory({"packets": ends}, changed.manifest), begin=20)
    assert made.scenario.video_of("bob") is None
    quiet = Trace.in_memory({"packets": ends.filter(pl.col("sent_ns") < 5 * 10**9)}, changed.manifest)
    with pytest.raises(BadInput, match=r"no media from 10 s to 20 s of the call"):
        rtclab.scenario_from(quiet, begin=10, end=20)
    with pytest.raises(BadInput, match="expected an end after the begin"):
        rtclab.scenario_from(changed, begin=10, end=5)


@pytest.mark.parametrize("files", [[ALICE], [ALICE, BOB]])
def test_a_part_of_an_event_log_has_its_path(files: list[Path]) -> None:
    whole = read_call(files)
    half_s = whole.trace.manifest.duration_ns / 2e9
    made = estimate(read_call(files, begin=half_s))
    for name, path in made.paths.items():
        found = {one.name: one for one in path.findings}
        assert found["capacity"].value == pytest.approx(1000, rel=0.03), name
        assert found["delay"].value == pytest.approx(25, abs=1.5), name


def test_a_part_of_captures_has_the_other_packets_of_that_time(tmp_path: Path) -> None:
    run = rtclab.run(Scenario.read(CHANGED, "changed"), repeats=1, capture=True, out=tmp_path)
    capture = run.path / "repeat-0" / "capture.pcapng"
    ends = {"10.0.0.1": "alice", "10.0.0.2": "bob"}
    made = estimate(read_call([capture], names=ends, begin="35 s", end="55 s"))
    found = numbers(made, "alice")
    assert found["capacity"].value == pytest.approx(1500, rel=0.03)
    assert found["delay"].value == pytest.approx(20, abs=1)
    (outwards,) = (one for one in made.call.directions if one.flow == "alice->bob")
    assert outwards.packets is not None
    assert np.isnan(outwards.packets.arrived_s[~outwards.packets.lost]).any()  # RTCP
    assert 0 <= outwards.packets.sent_s.min() < outwards.packets.sent_s.max() < 20


def test_a_log_of_days_is_refused_at_once_and_its_parts_are_not(
    changed: Trace, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    day_ns = 86_400 * 10**9
    flows = {
        name: flow.model_copy(update={"end_ns": day_ns}) for name, flow in changed.manifest.flows.items()
    }
    packets = changed.table("packets")
    late = packets.with_columns(pl.col("sent_ns", "delivered_ns", "dropped_ns") + day_ns - 70 * 10**9)
    about = changed.manifest.model_copy(update={"duration_ns": day_ns, "flows": flows})
    Trace.write(tmp_path / "day", {"packets": pl.concat([packets, late])}, about)
    assert command("scenario", "from", tmp_path / "day", "--toml", tmp_path / "a.toml") == 2
    shown = capsys.readouterr().err
    assert "the call lasts 24 h; expected at most 1 h" in shown
    assert "--from 60s --to 10min" in shown
    part = "--from", "86330s", "--to", "86360s", "--simulations", 1
    assert command("scenario", "from", tmp_path / "day", *part, "--toml", tmp_path / "a.toml") == 0
    assert Scenario.load(tmp_path / "a.toml").duration.s == 30
    too_long = "--from", "10min", "--to", "90min", "--toml", tmp_path / "b.toml"
    assert command("scenario", "from", tmp_path / "day", *too_long) == 2
    assert "the part of the call lasts 1.33 h" in capsys.readouterr().err
