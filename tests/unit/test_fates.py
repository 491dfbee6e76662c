"""Fates of lost packets and gaps of sound: they add up to what was lost, sent again and made up."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import rtclab
from rtclab import Trace
from rtclab.metrics import METRICS
from rtclab.metrics.accounts.fates import FATES, REPAIRS, USES, fates_table, repair_table
from rtclab.metrics.accounts.losses import losses_table
from rtclab.metrics.accounts.stalls import REPAIRS as REPAIRS_OF_FREEZES
from rtclab.metrics.accounts.stalls import stalls_of, stalls_table
from rtclab.metrics.series import span_ns
from rtclab.report.why import stall_in_words

FLOW = "alice->bob"
UP, BACK = "participants.alice.link.up.", "participants.bob.link.up.loss"
WIDE = {"link.up.capacity": "20 Mbit/s", "link.down.capacity": "20 Mbit/s"}
SAMPLES_PER_S = 48_000  # of Opus


def call(tmp_path: Path, changes: dict[str, Any], duration: str = "40 s") -> Trace:
    """A call with sound."""
    file = tmp_path / "call.toml"
    file.write_text('extends = "first-call"\n[audio]\n')
    made = rtclab.run(file, set=changes, duration=duration, repeats=1, out=tmp_path, trust=True)
    return made.traces[0]


def value(trace: Trace, metric: str, flow: str = FLOW) -> float:
    return METRICS[metric].function(trace, flow)


def lost_for(begin: str, end: str) -> dict[str, Any]:
    """All packets of alice are lost for a time."""
    return WIDE | {f"{UP}loss": {"steps": [["0 s", "0 %"], [begin, "100 %"], [end, "0 %"]]}}


@pytest.mark.parametrize("repair", ["auto", "rtx", "nack-2013", "hybrid-2013-fec-always", "none"])
@pytest.mark.parametrize("loss", ["6 %", {"mean": "8 %", "burst": 10}], ids=["random", "burst"])
def test_fates_are_those_of_the_lost_packets_and_bytes_of_repair_add_up(
    tmp_path: Path, repair: str, loss: Any
) -> None:
    trace = call(tmp_path, {f"{UP}loss": loss, "video.repair": repair}, "20 s")
    key = ["flow", "cause", "path"]
    fates = fates_table(trace)
    assert fates.group_by(key).len().sort(key).rows() == [
        row[:4] for row in losses_table(trace).select(*key, "packets").sort(key).iter_rows()
    ]
    assert set(fates["fate"]) <= set(FATES)
    assert set(fates["repaired_by"]) <= set(REPAIRS)
    assert ((fates["repaired_by"] == "") == (fates["fate"] == "never")).all()
    assert (fates["repaired_ns"] > fates["sent_ns"]).drop_nulls().all()
    repaired = repair_table(trace)
    assert set(repaired["use"]) <= set(USES)
    for flow in trace.flows:
        of_flow = (pl.col("flow") == flow) & pl.col("kind").is_in(["rtx", "fec"])
        sent = trace.table("packets").filter(of_flow, pl.col("sent_ns") < span_ns(trace, flow)[1])
        own = repaired.filter(flow=flow)
        assert own["size_bytes"].sum() == sent["size_bytes"].sum()
        dropped = sent.drop_nulls("dropped_ns")["size_bytes"].sum()
        assert own.filter(use="lost")["size_bytes"].sum() == pytest.approx(dropped, abs=3000)
    halves = trace.between("0 s", "9 s"), trace.between("9 s", "20 s")
    assert sum(fates_table(half).height for half in halves) == fates.height


def test_each_retransmission_of_an_own_number_is_found(tmp_path: Path) -> None:
    """Without a stream of their own, retransmissions have the sequence numbers of what they repeat."""
    trace = call(tmp_path, {f"{UP}loss": "8 %", "video.repair": "nack-2013"})
    key = ["rtp_timestamp", "seq"]
    packets = trace.table("packets").filter(flow=FLOW)
    again = packets.filter(pl.col("kind") == "rtx").drop_nulls("delivered_ns")
    lost = packets.filter(pl.col("kind") == "video").drop_nulls("dropped_ns")
    replaced = lost.join(again.unique(key), on=key, how="semi").height
    found = fates_table(trace).filter(flow=FLOW, kind="video", repaired_by="rtx").height
    assert found == pytest.approx(replaced, rel=0.02)
    useful = again.sort("delivered_ns").unique(key, keep="first").join(lost, on=key, how="semi")
    sent = packets.filter(pl.col("kind") == "rtx")["size_bytes"].sum()
    assert value(trace, "repair_in_vain") == pytest.approx(
        100 - 100 * useful["size_bytes"].sum() / sent, abs=2
    )


def test_a_short_loss_is_repaired_in_time_and_a_long_one_is_not(tmp_path: Path) -> None:
    quick = call(tmp_path, lost_for("10 s", "10.05 s") | {"video.repair": "rtx"}, "20 s")
    assert value(quick, "repaired_in_time") == 100
    assert value(quick, "freeze_count") == 0
    slow = call(tmp_path, lost_for("10 s", "11 s") | {"video.repair": "rtx"}, "20 s")
    assert value(slow, "repaired_in_time") == 0
    no_loss = slow.between("12 s")
    assert value(no_loss, "repaired_in_time") != value(no_loss, "repaired_in_time")  # NaN


def test_without_losses_nothing_is_repaired(tmp_path: Path) -> None:
    trace = call(tmp_path, WIDE, "10 s")
    assert fates_table(trace).is_empty()
    assert value(trace, "repaired_in_time") != value(trace, "repaired_in_time")  # NaN


SERVED = """
duration = "30 s"
[participants.shaped]
[participants.other]
[audio]
[video]
max_bitrate = "2000 kbit/s"
[link]
up = { capacity = "50 Mbit/s", delay = "10 ms", queue = "100 ms" }
down = { capacity = "50 Mbit/s", delay = "10 ms", queue = "100 ms" }
[participants.shaped.link]
down = { capacity = "1500 kbit/s", queue = "200 ms" }
[participants.other.link]
up = { loss = "2 %" }
[servers.janus]
[[calls]]
kind = "sfu"
server = "janus"
"""


def test_retransmissions_of_a_server_count_on_the_flow_that_it_forwards(tmp_path: Path) -> None:
    file = tmp_path / "served.toml"
    file.write_text(SERVED)
    trace = rtclab.run(file, repeats=1, out=tmp_path).traces[0]
    packets = trace.table("packets").filter(flow="other->shaped", protocol="rtp")
    again = packets.filter(kind="rtx")["size_bytes"].sum()
    share = value(trace, "retransmission_share", "other->shaped")
    assert share == pytest.approx(100 * again / packets["size_bytes"].sum(), rel=0.01)
    assert share > 20
    by = fates_table(trace).filter(kind="video").group_by("flow").agg(pl.col("repaired_by").unique().sort())
    assert dict(by.iter_rows()) == {"other->shaped": ["", "server"], "other->janus": ["rtx"]}


@pytest.mark.parametrize(
    ("repair", "words", "changes"),
    [
        ("slow", r"which were replaced after \d+ ms", lost_for("10 s", "10.3 s")),
        ("lost", "whose retransmissions were lost too", {f"{UP}loss": "12 %", "video.repair": "rtx"}),
        (
            "request",
            "as requests for them were lost",
            WIDE
            | {BACK: {"steps": [["0 s", "0 %"], ["5 s", "70 %"]]}, f"{UP}loss": "2 %", "video.repair": "rtx"},
        ),
        (
            "key_frame",
            r"until a key frame came \d+\.\d s later",
            {f"{UP}loss": "2 %", "video.repair": "none"},
        ),
    ],
)
def test_freezes_say_how_their_losses_were_repaired(
    tmp_path: Path, repair: str, words: str, changes: dict[str, Any]
) -> None:
    stalls = stalls_of(call(tmp_path, changes), FLOW)
    assert {one.repair for one in stalls} <= set(REPAIRS_OF_FREEZES)
    spent = {name: sum(one.length_s for one in stalls if one.repair == name) for name in REPAIRS_OF_FREEZES}
    assert max(spent, key=lambda name: spent[name]) == repair, spent
    longest = max((one for one in stalls if one.repair == repair), key=lambda one: one.length_s)
    assert re.search(words, stall_in_words(longest))
    if repair != "key_frame":
        assert 0 < longest.repair_ms / 1000 < longest.length_s + 1


STEPS = {
    "outage": [["0 s", "3 Mbit/s"], ["10 s", "0 bit/s"], ["13 s", "3 Mbit/s"]],
    "queue": [["0 s", "2 Mbit/s"], ["10 s", "80 kbit/s"]],
}
SOUND: list[tuple[str, str, dict[str, Any]]] = [
    ("loss", "random alice.up", {f"{UP}loss": "8 %"}),
    ("loss", "burst alice.up", {f"{UP}loss": {"mean": "8 %", "burst": 10}}),
    ("loss", "queue alice.up", {f"{UP}queue": "6 packets"}),
    ("outage", "alice.up", WIDE | {f"{UP}capacity": {"steps": STEPS["outage"]}}),
    ("queue", "alice.up", {f"{UP}capacity": {"steps": STEPS["queue"]}, f"{UP}queue": "9 s"}),
]


@pytest.mark.parametrize(("cause", "where", "changes"), SOUND, ids=[f"{one} {at}" for one, at, _ in SOUND])
def test_gaps_of_sound_add_up_to_what_was_made_up_and_have_their_cause(
    tmp_path: Path, cause: str, where: str, changes: dict[str, Any]
) -> None:
    trace = call(tmp_path, changes)
    rows = stalls_table(trace).filter(flow=FLOW, media="audio")
    lasts_s = (rows["end_ns"] - rows["begin_ns"]) / 1e9
    reports = trace.table("inbound_rtp").filter(flow=FLOW, kind="audio")
    assert lasts_s.sum() == pytest.approx(reports["concealedSamples"].max() / SAMPLES_PER_S, abs=1e-6)
    by_cause = rows.with_columns(s=lasts_s).group_by("cause", "where").agg(pl.col("s").sum()).sort("s")
    assert by_cause.select("cause", "where").row(-1) == (cause, where), by_cause
    assert by_cause["s"][-1] > 0.8 * lasts_s.sum()
    part = trace.between("8 s", "28 s")
    in_part = stalls_table(part).filter(flow=FLOW, media="audio")
    part_s = ((in_part["end_ns"] - in_part["begin_ns"]) / 1e9).sum()
    assert 100 * part_s / 20 == pytest.approx(value(part, "audio_concealed"), rel=0.01)


def test_losses_one_by_one_are_as_many_gaps_as_the_receiver_counted(tmp_path: Path) -> None:
    trace = call(tmp_path, {f"{UP}loss": "3 %"})
    gaps = stalls_table(trace).filter(flow=FLOW, media="audio").height
    counted = trace.table("inbound_rtp").filter(flow=FLOW, kind="audio")["concealmentEvents"].max()
    assert gaps == pytest.approx(counted, rel=0.1)


def test_a_pause_is_no_gap_of_sound_and_sound_that_never_came_is_one(tmp_path: Path) -> None:
    paused = call(tmp_path, WIDE | {"participants.alice.pause": {"start": "10 s", "end": "20 s"}})
    gaps = stalls_table(paused).filter(flow=FLOW, media="audio")
    assert ((gaps["end_ns"] - gaps["begin_ns"]) / 1e9).sum() < 0.5
    silenced = {f"{UP}loss": {"steps": [["0 s", "0 %"], ["1 s", "100 %"]]}}
    never = call(tmp_path, silenced | {"participants.alice.join": "500 ms"}, "20 s")
    (gap,) = stalls_table(never).filter(flow=FLOW, media="audio").iter_rows(named=True)
    assert (gap["cause"], gap["where"]) == ("outage", "alice.up")
    assert gap["end_ns"] == span_ns(never, FLOW)[1]
    assert value(never, "audio_concealed") == 100


def test_reasons_say_what_sound_missed_if_that_is_heard(tmp_path: Path) -> None:
    file = tmp_path / "call.toml"
    file.write_text('extends = "first-call"\n[audio]\n')
    for loss, is_said in (("8 %", True), ("0.2 %", False)):
        made = rtclab.run(file, set={f"{UP}loss": loss}, duration="30 s", repeats=1, out=tmp_path, trust=True)
        said = " ".join(made.why(FLOW).sentences[FLOW])
        assert ("Of the sound, " in said) == is_said
        assert ("came from packets lost at random on alice.up" in said) == is_said


def test_the_page_about_reasons_has_every_fate_and_use() -> None:
    page = (Path(__file__).parents[2] / "docs" / "why.md").read_text()
    for names in (FATES, USES, REPAIRS_OF_FREEZES):
        for name, meaning in names.items():
            if name:
                assert f"| `{name}` | {meaning} |" in page
