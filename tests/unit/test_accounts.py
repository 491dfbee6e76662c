"""Accounts of calls: limits, losses, freezes and waits add up, and name what was done to a call."""

from __future__ import annotations

import html
import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

import rtclab
from rtclab import Results, Trace
from rtclab._native import CONGESTION_CONTROLS
from rtclab.cli import main
from rtclab.errors import BadInput, TraceError
from rtclab.experiment.results import check_names
from rtclab.metrics import METRICS
from rtclab.metrics.accounts import ACCOUNTS
from rtclab.metrics.accounts.limits import LIMITS, course_of, limits_table
from rtclab.metrics.accounts.losses import CAUSES as LOSS_CAUSES
from rtclab.metrics.accounts.losses import losses_table
from rtclab.metrics.accounts.stalls import CAUSES as STALL_CAUSES
from rtclab.metrics.accounts.stalls import REPAIRS, stalls_table
from rtclab.metrics.accounts.waits import (
    SOUND_STAGES,
    STAGES,
    mean_sound_waits_ms,
    mean_waits_ms,
    waits_table,
)
from rtclab.metrics.series import span_ns
from rtclab.report import why

FLOW = "alice->bob"
WIDE = {"link.up.capacity": "20 Mbit/s", "link.down.capacity": "20 Mbit/s"}
UP = "participants.alice.link.up."


def run(tmp_path: Path, changes: dict[str, Any], scenario: str = "first-call", **options: Any) -> Results:
    given = {"duration": "40 s", "repeats": 1} | options
    return rtclab.run(scenario, set=changes, out=tmp_path, **given)


def shares(trace: Trace, flow: str = FLOW) -> dict[str, float]:
    course = course_of(trace, flow)
    assert course is not None
    return course.shares(span_ns(trace, flow))


@pytest.mark.parametrize("control", CONGESTION_CONTROLS)
def test_limits_cover_the_time_of_a_flow_once(tmp_path: Path, control: str) -> None:
    trace = run(tmp_path, {"control": control, f"{UP}loss": "2 %"}, duration="15 s").traces[0]
    rows = limits_table(trace).filter(pl.col("flow") == FLOW)
    begin_ns, end_ns = span_ns(trace, FLOW)
    assert (rows["begin_ns"][0], rows["end_ns"][-1]) == (begin_ns, end_ns)
    assert (rows["begin_ns"][1:] == rows["end_ns"][:-1]).all()
    assert set(rows["limit"]) <= set(LIMITS)
    assert sum(shares(trace).values()) == pytest.approx(1)
    part = trace.between("3 s", "7 s")
    assert limits_table(part)["begin_ns"].min() == 3e9
    assert sum(shares(part).values()) == pytest.approx(1)


def test_shares_of_limits_are_metrics_which_need_packets(tmp_path: Path) -> None:
    ran = run(tmp_path, {f"{UP}loss": "5 %"}, duration="15 s")
    of_limits = pl.col("metric").str.starts_with("limited_by_")
    rows = ran.metrics(flows=FLOW).filter(of_limits)
    assert dict(rows.select("metric", "value").iter_rows()) == pytest.approx(
        {f"limited_by_{limit}": 100 * share for limit, share in shares(ran.traces[0]).items()}
    )
    lasted = ran.table("limits").filter(pl.col("flow") == FLOW, pl.col("limit") == "loss")
    begin_ns, end_ns = span_ns(ran.traces[0], FLOW)
    share = (lasted["end_ns"] - lasted["begin_ns"]).sum() / (end_ns - begin_ns)
    assert rows.filter(metric="limited_by_loss")["value"].item() == pytest.approx(100 * share)
    without = run(tmp_path, {"record": "seconds"}, duration="5 s")
    assert without.metrics().filter(of_limits).is_empty()


def test_accounts_are_tables_of_a_trace_and_of_results(tmp_path: Path) -> None:
    ran = run(tmp_path, {f"{UP}loss": "5 %"}, duration="10 s", repeats=2)
    for name, account in ACCOUNTS.items():
        rows = ran.table(name)
        assert rows.columns == ["repeat", *account.schema]
        assert rows.filter(repeat=1).drop("repeat").equals(ran.traces[1].table(name))
    assert ran.table("limits")["repeat"].n_unique() == 2
    with pytest.raises(TraceError, match=r"no table `reasons`; expected .*limits"):
        ran.table("reasons")
    with pytest.raises(TraceError, match=r"no table `reasons`; expected .*limits"):
        ran.traces[0].table("reasons")


@pytest.mark.parametrize(
    ("limit", "changes"),
    [
        ("maximum", WIDE),
        ("maximum", WIDE | {"control": "gcc-2016"}),
        ("maximum", WIDE | {"control": "fixed"}),
        ("start", WIDE | {"control": "rrtcc-2013"}),  # which needs more than 40 s for 1.7 Mbit/s
        ("delay", {}),
        ("delay", {"control": "gcc-2016"}),
        ("delay", {"control": "nada"}),
        ("loss", {"link.up.loss": "10 %"}),
        ("loss", {"link.up.loss": "10 %", "control": "gcc-2016"}),
        ("loss", {"link.up.loss": "10 %", "control": "nada"}),
        ("loss", {"link.up.loss": "10 %", "control": "scream"}),
        ("processor", WIDE | {"host.encoder_capacity": "2.5 Mpixel/s"}),
        ("feedback", WIDE | {"participants.bob.link.up.loss": "55 %"}),
    ],
)
def test_what_held_the_rate_is_the_limit_of_most_of_the_time(
    tmp_path: Path, limit: str, changes: dict[str, Any]
) -> None:
    found = shares(run(tmp_path, changes).traces[0])
    assert max(found, key=lambda name: found[name]) == limit, found


def test_a_pause_of_the_sender_is_its_limit(tmp_path: Path) -> None:
    pause = {"participants.alice.pause": {"start": "10 s", "end": "20 s"}}
    assert shares(run(tmp_path, WIDE | pause).traces[0])["pause"] == pytest.approx(10 / 40, abs=0.02)


def test_a_control_of_ones_own_may_say_what_limits_it(tmp_path: Path) -> None:
    own = tmp_path / "own.py"
    own.write_text(
        "class Steady:\n"
        "    def __init__(self, bounds):\n        pass\n"
        "    def on_feedback(self, now, feedback):\n        return 600_000\n"
        "    def observe(self):\n        return {'limited_by_delay': 1, 'limited_by_loss': 0}\n"
    )
    trace = run(tmp_path, {"control": f"{own}:Steady"}, duration="30 s").traces[0]
    course = course_of(trace, FLOW)
    assert course is not None
    assert course.grade == "known"
    assert shares(trace)["delay"] > 0.8


@pytest.mark.parametrize(
    ("cause", "changes"),
    [
        ("random", {f"{UP}loss": "4 %"}),
        ("burst", {f"{UP}loss": {"mean": "4 %", "burst": 6}}),
        ("queue", {f"{UP}queue": "6 packets"}),
        ("aqm", {f"{UP}queue": {"aqm": "codel"}, f"{UP}capacity": "500 kbit/s"}),
    ],
)
def test_losses_add_up_and_have_the_cause_that_the_scenario_gave_them(
    tmp_path: Path, cause: str, changes: dict[str, Any]
) -> None:
    trace = run(tmp_path, changes).traces[0]
    rows = losses_table(trace).filter(pl.col("flow") == FLOW)
    packets = trace.table("packets").filter(pl.col("flow") == FLOW)
    assert rows["packets"].sum() == packets["dropped_ns"].drop_nulls().len()
    assert rows["share_percent"].sum() == pytest.approx(100)
    assert (rows["cause"][0], rows["path"][0]) == (cause, "alice.up")
    assert rows["share_percent"][0] > 80


def outage(begin: int, end: int) -> dict[str, Any]:
    steps = [["0 s", "3 Mbit/s"], [f"{begin} s", "0 bit/s"], [f"{end} s", "3 Mbit/s"]]
    return WIDE | {f"{UP}capacity": {"steps": steps}}


FREEZES = [
    ("loss", {f"{UP}loss": {"mean": "8 %", "burst": 10}}),
    ("outage", outage(10, 13)),
    (
        "queue",
        {f"{UP}capacity": {"steps": [["0 s", "2 Mbit/s"], ["10 s", "80 kbit/s"]]}, f"{UP}queue": "9 s"},
    ),
]


@pytest.mark.parametrize(("cause", "changes"), FREEZES, ids=[cause for cause, _ in FREEZES])
def test_freezes_add_up_to_the_metric_and_have_their_cause(
    tmp_path: Path, cause: str, changes: dict[str, Any]
) -> None:
    trace = run(tmp_path, changes).traces[0]
    rows = stalls_table(trace).filter(pl.col("flow") == FLOW)
    lengths_s = (rows["end_ns"] - rows["begin_ns"]) / 1e9
    assert rows.height == METRICS["freeze_count"].function(trace, FLOW)
    assert lengths_s.sum() == pytest.approx(METRICS["freeze_duration"].function(trace, FLOW))
    by_cause = rows.with_columns(s=lengths_s).group_by("cause").agg(pl.col("s").sum()).sort("s")
    assert by_cause["cause"][-1] == cause, by_cause


def test_a_viewer_who_never_saw_a_picture_has_one_freeze(tmp_path: Path) -> None:
    changes = {
        f"{UP}loss": {"steps": [["0 s", "0 %"], ["1 s", "100 %"]]},
        "participants.alice.join": "500 ms",
    }
    trace = run(tmp_path, changes, duration="20 s").traces[0]
    (stall,) = stalls_table(trace).filter(pl.col("flow") == FLOW).iter_rows(named=True)
    assert stall["end_ns"] == span_ns(trace, FLOW)[1]
    assert (stall["cause"], stall["where"]) == ("outage", "alice.up")


@pytest.mark.parametrize(
    "changes", [{}, {f"{UP}loss": "10 %"}, {f"{UP}queue": "2 s", "control": "fixed"}], ids=str
)
def test_waits_of_a_picture_add_up_to_its_delay(tmp_path: Path, changes: dict[str, Any]) -> None:
    trace = run(tmp_path, changes).traces[0]
    rows = waits_table(trace)
    whole = sum(
        (rows[f"{stage}_ns"] for stage in STAGES), start=pl.zeros(rows.height, eager=True, dtype=pl.Int64)
    )
    assert (whole == rows["rendered_ns"] - rows["captured_ns"]).all()
    assert all((rows[f"{stage}_ns"] >= 0).all() for stage in STAGES)
    shown = trace.table("frames").filter(pl.col("flow") == FLOW).height
    assert rows.filter(pl.col("flow") == FLOW).height == shown
    total_ms = sum(mean_waits_ms(trace, FLOW).values())
    assert total_ms == pytest.approx(METRICS["picture_delay"].function(trace, FLOW), abs=1e-6)
    part = trace.between("10 s", "20 s")
    assert np.isclose(
        sum(mean_waits_ms(part, FLOW).values()), METRICS["picture_delay"].function(part, FLOW), atol=1e-6
    )


CALLS_WITH_SOUND = [
    ("first-call", FLOW, {"audio": {}, f"{UP}loss": "5 %"}),
    ("first-call", FLOW, {"audio": {}, "link.down.delay": "80 ms"}),
    ("examples/sfu", "alice->bob", {"audio": {}}),
    ("examples/mixing-mcu", "mcu->bob", {}),
]


@pytest.mark.parametrize(("scenario", "flow", "changes"), CALLS_WITH_SOUND, ids=str)
def test_waits_of_sound_add_up_to_its_delay(
    tmp_path: Path, scenario: str, flow: str, changes: dict[str, Any]
) -> None:
    trace = run(tmp_path, changes, scenario, duration="20 s").traces[0]
    for part in (trace, trace.between("5 s", "15 s")):
        waits_ms = mean_sound_waits_ms(part, flow)
        assert sum(waits_ms.values()) == pytest.approx(METRICS["sound_delay"].function(part, flow), abs=1e-6)
        assert min(waits_ms.values()) >= 0
        # W3C counts time in the buffer in steps of 10 ms, and then a packet waits for up to 10 ms.
        buffer_ms = METRICS["audio_buffer_delay"].function(part, flow)
        assert waits_ms["jitter_buffer"] == pytest.approx(buffer_ms, abs=10)
        assert waits_ms["microphone"] == 20


def test_a_longer_way_delays_sound_by_as_much_as_it_is_longer(tmp_path: Path) -> None:
    """Nothing queues or is lost, so that everything else of both calls is the same."""
    calm = WIDE | {"audio": {}, "control": "fixed"}
    near = run(tmp_path, calm | {f"{UP}delay": "20 ms"}, duration="20 s").traces[0]
    far = run(tmp_path, calm | {f"{UP}delay": "60 ms"}, duration="20 s").traces[0]
    sound_ms = [METRICS["sound_delay"].function(trace, FLOW) for trace in (near, far)]
    # Playout may begin at any time within the 10 ms between two calls of the sound card.
    assert sound_ms[1] - sound_ms[0] == pytest.approx(40, abs=10)
    for mean in (mean_waits_ms, mean_sound_waits_ms):
        assert mean(far, FLOW)["wires"] - mean(near, FLOW)["wires"] == pytest.approx(40, abs=0.5)


@pytest.mark.parametrize("changes", [{}, {"servers.sfu.congestion_control.name": "goog-cc"}], ids=str)
def test_what_a_server_holds_is_a_stage_of_what_it_forwards(tmp_path: Path, changes: dict[str, Any]) -> None:
    trace = run(tmp_path, changes, "examples/sfu", duration="20 s").traces[0]
    waits_ms = mean_waits_ms(trace, "alice->bob")
    assert sum(waits_ms.values()) == pytest.approx(METRICS["picture_delay"].function(trace, "alice->bob"))
    assert (waits_ms["server"] > 0.1) == bool(changes), waits_ms


def test_a_slow_processor_is_seen_in_the_encoder(tmp_path: Path) -> None:
    """A picture of 640x360 has 0.23 Mpixel, which take 77 ms at 3 Mpixel/s."""
    slow = {"participants.alice.host.encoder_capacity": "3 Mpixel/s"}
    usual_ms, slow_ms = (mean_waits_ms(run(tmp_path, WIDE | one).traces[0], FLOW) for one in ({}, slow))
    assert slow_ms["encoder"] > 5 * usual_ms["encoder"]
    assert slow_ms["pacer"] < 2 * usual_ms["pacer"] + 5


def test_the_earlier_name_of_the_delay_in_the_buffer_of_sound_says_the_present_one() -> None:
    with pytest.raises(BadInput, match="no metric `audio_delay`") as refused:
        check_names(["audio_delay"])
    assert "audio_buffer_delay" in str(refused.value.hint)


def call(tmp_path: Path, changes: dict[str, Any], tcp: bool = False) -> Results:
    """A call over 3 Mbit/s, with changes that make alice's way to bob bad; with ``tcp``, beside an upload."""
    usual = {f"{UP}capacity": "3 Mbit/s", f"{UP}queue": "200 ms", "link.down.capacity": "20 Mbit/s"}
    file = tmp_path / "call.toml"
    upload = '[traffic.upload]\nsender = "alice"\nreceiver = "core"' if tcp else ""
    file.write_text(f'extends = "first-call"\n{upload}')
    return run(tmp_path, usual | changes, str(file), trust=True)


WIFI = {
    "good": {"rate": "24 Mbit/s", "error": "5 %"},
    "fade": {"rate": "6 Mbit/s", "error": "92 %"},
    "mean_good": "4 s",
    "mean_fade": "800 ms",
}
WAYS: list[tuple[str, str, dict[str, Any]]] = [
    ("random loss", r"losses \(.*, at random on alice\.up\)", {f"{UP}loss": "8 %"}),
    ("bursts", r"losses \(.*, in bursts on alice\.up\)", {f"{UP}loss": {"mean": "7 %", "burst": 12}}),
    (
        "short queue",
        r"in a full, short queue on alice\.up",
        {f"{UP}capacity": "1 Mbit/s", f"{UP}queue": "4 packets"},
    ),
    (
        "long queue",
        r"the long queue of alice\.up \(in which packets waited up to \d{4} ms\)",
        {f"{UP}capacity": {"steps": [["0 s", "2 Mbit/s"], ["10 s", "300 kbit/s"]]}, f"{UP}queue": "3 s"},
    ),
    ("TCP", r"the queue of alice\.up \(which upload fills: \d\d % of its bytes", {}),
    ("slow processor", r"the sender's processor", {"participants.alice.host.encoder_capacity": "3 Mpixel/s"}),
    ("low maximum", r"its own maximum bitrate", {"participants.alice.video.max_bitrate": "150 kbit/s"}),
    ("lost feedback", r"missing feedback", {"participants.bob.link.up.loss": "55 %"}),
    (
        "Wi-Fi",
        r"the Wi-Fi hop alice\.both, which fades",
        {"participants.alice.link": {"both": {"wifi": {"fading": WIFI}}}},
    ),
    (
        "outage",
        r"came from an outage of alice\.up",
        {f"{UP}capacity": {"steps": [["0 s", "3 Mbit/s"], ["12 s", "0 bit/s"], ["15 s", "3 Mbit/s"]]}},
    ),
]
ALSO_TRUE = {"low maximum", "short queue", "long queue", "lost feedback"}
"""What may be true of a part of any of these calls, beside what was done to it."""


@pytest.mark.parametrize(("way", "words", "changes"), WAYS, ids=[way for way, _, _ in WAYS])
def test_the_first_sentence_names_what_was_done_to_a_call(
    tmp_path: Path, way: str, words: str, changes: dict[str, Any]
) -> None:
    first = call(tmp_path, changes, tcp=way == "TCP").why(FLOW).sentences[FLOW][0]
    assert re.search(words, first), first
    told = {name for name, other, _ in WAYS if re.search(other, first)} - {way, *ALSO_TRUE}
    assert not told, first


def test_a_queue_that_grows_lowers_the_rate_and_then_the_pictures(tmp_path: Path) -> None:
    """Congestion control lowers the rate at the over-use, and the encoder the number of lines after that."""
    less = {"steps": [["0 s", "3 Mbit/s"], ["12 s", "300 kbit/s"]]}
    made = run(tmp_path, {f"{UP}capacity": less, f"{UP}queue": "300 ms"})
    first = made.why(FLOW).sentences[FLOW][0]
    said = re.search(r"the queue of alice\.up .*; its pictures had fewer than 480 lines for (\d+) %", first)
    assert said, first
    assert 40 < int(said[1]) < 70  # the last 28 of 40 s have a tenth of the capacity
    after = pl.col("begin_ns") > 12e9
    grew = made.table("limits").filter(after, flow=FLOW, limit="delay", where="alice.up")
    smaller = made.traces[0].table("inbound_rtp").filter(pl.col("frameHeight") < 480, flow=FLOW, kind="video")
    assert grew["begin_ns"].min() < smaller.filter(pl.col("at_ns") > 12e9)["at_ns"].min()


@pytest.mark.parametrize(
    ("changes", "where"),
    [
        ({"capacity": {"steps": [["0 s", "20 Mbit/s"], ["15 s", "300 kbit/s"]]}, "queue": "3 s"}, "bob.up"),
        ({"delay": {"steps": [["0 s", "20 ms"], ["15 s", "1.5 s"], ["20 s", "20 ms"]]}}, ""),
    ],
    ids=["queue", "delay"],
)
def test_late_feedback_holds_data_back(tmp_path: Path, changes: dict[str, Any], where: str) -> None:
    """Feedback that comes more than 350 ms late fills libwebrtc's congestion window."""
    late = {f"participants.bob.link.up.{name}": value for name, value in changes.items()}
    limits = run(tmp_path, WIDE | late, duration="25 s").table("limits").filter(flow=FLOW)
    held = limits.filter(pl.col("begin_ns") > 15e9, limit="window")
    assert held.height
    assert set(held["where"]) == {where}
    assert all(float(text.removeprefix("pushback_ratio=")) < 1 for text in held["evidence"])
    assert "feedback" in limits["limit"].to_list()


def test_a_freeze_after_a_step_of_the_delay_names_the_path_that_became_longer(tmp_path: Path) -> None:
    longer = {f"{UP}delay": {"steps": [["0 s", "20 ms"], ["15 s", "500 ms"]]}}
    made = run(tmp_path, WIDE | longer | {"audio": {}}, duration="25 s")
    stalls = made.table("stalls").filter(flow=FLOW)
    (freeze,) = stalls.filter(media="video").to_dicts()
    assert (freeze["cause"], freeze["where"]) == ("delay", "alice.up")
    assert 14.9e9 < freeze["begin_ns"] < 15.1e9
    assert freeze["end_ns"] - freeze["begin_ns"] == pytest.approx(480e6 + 1e9 / 30, abs=1e8)
    assert "packets that took longer on their way over alice.up" in made.why(FLOW).sentences[FLOW][0]
    (gap,) = stalls.filter(media="audio", where="alice.up").to_dicts()
    assert gap["cause"] == "delay"
    assert 15e9 < gap["begin_ns"] < gap["end_ns"] < 15.7e9
    assert 0.2e9 < gap["end_ns"] - gap["begin_ns"] < 0.48e9  # the jitter buffer covers a part


def test_sound_that_waits_in_a_growing_queue_is_made_up_because_of_the_queue(tmp_path: Path) -> None:
    """What comes at the rate of the path takes longer and longer: playout stretches sound by as much."""
    full = {"audio": {}, "control": "fixed", f"{UP}capacity": "600 kbit/s", f"{UP}queue": "60 s"}
    made = run(tmp_path, full, duration="20 s")
    gaps = made.table("stalls").filter(flow=FLOW, media="audio")
    assert set(gaps.select("cause", "where").unique().rows()) == {("queue", "alice.up")}
    made_up_s = (gaps["end_ns"] - gaps["begin_ns"]).sum() / 1e9
    sent_kbps = METRICS["sending_rate"].function(made.traces[0], FLOW)
    assert made_up_s == pytest.approx(20 * (1 - 600 / sent_kbps), rel=0.1)


def test_a_freeze_says_what_happened_to_its_connection(tmp_path: Path) -> None:
    out = {f"{UP}capacity": {"steps": [["0 s", "3 Mbit/s"], ["12 s", "0 bit/s"], ["15 s", "3 Mbit/s"]]}}
    trace = run(tmp_path, out, duration="25 s").traces[0]
    row = {"participant": "alice", "flow": None, "event": "route_changed", "detail": ""}
    happened = pl.DataFrame([row | {"at_ns": at_ns} for at_ns in (5 * 10**9, 12_400_000_000)])
    tables = {name: trace.table(name) for name in trace.tables}
    events = pl.concat([tables["events"], happened.select(tables["events"].columns)], how="vertical_relaxed")
    changed = Trace.in_memory(tables | {"events": events}, trace.manifest)
    (before, *_), (after, *_) = (stalls_table(one)["detail"].to_list() for one in (trace, changed))
    assert "carried nothing for 3.0 s" in before
    assert after == f"{before}; the route changed at 12.4 s"


def test_reasons_of_a_window_are_of_that_time(tmp_path: Path) -> None:
    results = run(tmp_path, outage(10, 13))
    assert "outage" in str(results.why(FLOW))
    assert "outage" not in str(results.between("25 s").why(FLOW))
    trace = results.traces[0].between("12 s", "14 s")
    frozen_s = METRICS["freeze_duration"].function(trace, FLOW)
    assert 0 < frozen_s < 2
    stalls = results.between("12 s", "14 s").why(FLOW).table().filter(account="stall")
    assert stalls["value"].sum() == pytest.approx(frozen_s)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"set": {"record": "seconds"}}, "limited by the queue of alice.up"),
        ({"set": {"control": "fixed", **WIDE}}, "as its packets suggest"),
    ],
    ids=["without packets", "without values of the control"],
)
def test_what_a_source_cannot_know_is_said(tmp_path: Path, options: dict[str, Any], words: str) -> None:
    results = rtclab.run("first-call", duration="20 s", repeats=1, out=tmp_path, **options)
    assert words in str(results.why(FLOW))


def test_a_capture_does_not_tell_what_limited_the_rate(tmp_path: Path) -> None:
    made = rtclab.run("first-call", duration="10 s", repeats=1, capture=True, out=tmp_path)
    imported = rtclab.import_files(made.path / "repeat-0" / "capture.pcapng", out=tmp_path)
    assert all("is not known" in first for first, *_ in imported.why().sentences.values())


def test_runs_without_traces_and_failed_calls_are_not_explained(tmp_path: Path) -> None:
    swept = rtclab.sweep("first-call", {"link.up.loss": ["0 %"]}, duration="5 s", repeats=1, out=tmp_path)
    with pytest.raises(BadInput, match="has no traces, which reasons are found in"):
        swept.why()
    failed = rtclab.run("first-call", set={"link.up.loss": "100 %"}, duration="5 s", repeats=1, out=tmp_path)
    assert not failed.why().accounts


def test_the_command_prints_sentences_accounts_and_json(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    made = run(tmp_path, {f"{UP}loss": "8 %"}, duration="15 s")

    def printed_by(*options: str) -> str:
        with pytest.raises(SystemExit) as ended:
            main(["why", str(made.path), *options])
        assert ended.value.code == 0
        return capsys.readouterr().out

    printed = printed_by(FLOW, "--all")
    assert printed.startswith("alice → bob: ")
    assert re.search(r"^loss +random +alice\.up +\d+ +packets", printed, re.MULTILINE)
    answer = json.loads(printed_by(FLOW, "--json", "--from", "5s"))
    assert answer["window"] == [5.0, None]
    shares = [row["value"] for row in answer["accounts"] if row["account"] == "limit"]
    assert sum(shares) == pytest.approx(100)
    assert printed_by("--csv").startswith("flow,account,what,where,value,unit\n")


def test_the_page_of_a_run_says_why(tmp_path: Path) -> None:
    made = run(tmp_path, {f"{UP}loss": "8 %"}, duration="15 s")
    page = html.unescape(made.report().read_text())
    (said,) = re.findall(r"<li>(alice → bob: .*)</li>", page)
    assert re.sub(r"</?a.*?>", "", said) == str(made.why(FLOW))
    linked = re.findall(r'<a href="#([\w-]+)">(.*?)</a>', said)
    assert [plot for plot, _ in linked][:2] == ["resolution", "rate"]
    assert all(f'<figure class="plot" id="{plot}">' in page for plot, _ in linked)
    # Everything but the flow, and what is between parts, is a link.
    assert re.sub(r"<a .*?</a>", "", said).strip("; .") == "alice → bob:"


def test_every_limit_cause_repair_and_stage_has_words() -> None:
    assert why.WORDS.keys() == LIMITS.keys()
    assert why.LOSSES_IN_WORDS.keys() == LOSS_CAUSES.keys()
    assert why.SOUND_IN_WORDS.keys() | {"loss"} == STALL_CAUSES.keys()
    assert why.REPAIRS_IN_WORDS.keys() | {""} == REPAIRS.keys()
    assert why.STAGES_IN_WORDS.keys() == STAGES.keys()
    assert why.STAGES_OF_SOUND.keys() == SOUND_STAGES.keys() - STAGES.keys()


def test_the_page_about_reasons_has_every_limit_cause_and_stage() -> None:
    page = (Path(__file__).parents[2] / "docs" / "why.md").read_text()
    for names in (LIMITS, LOSS_CAUSES, STALL_CAUSES, STAGES, SOUND_STAGES):
        for name, meaning in names.items():
            assert f"| `{name}` | {meaning} |" in page
