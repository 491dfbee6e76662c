"""What dumps say when something in them changes, appears late, is written otherwise, or is missing."""

from __future__ import annotations

import json
from math import isnan
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from stats_dumps import (
    BEGIN_MS,
    SECONDS,
    dump,
    growing,
    opened,
    pair,
    received,
    reports,
    seconds_of,
    series,
    trace_of,
    video_sent,
)

from rtclab.errors import BadInput
from rtclab.estimate import Estimate, call_of, estimate
from rtclab.importers.logs.local_times import DumpedCall, LocalClock, local_clock
from rtclab.metrics import media, rate, setup, wire
from rtclab.trace import WHOLE_SECOND

OUT, BACK = "page->remote", "remote->page"


def estimated(folder: Path, *stats: dict[str, Any], updates: tuple[dict[str, Any], ...] = ()) -> Estimate:
    return estimate(call_of(trace_of(opened(folder, dump(*stats, updates=updates)))))


def found(made: Estimate, end: str) -> dict[str, Any]:
    return {one.name: one for one in made.paths[end].findings}


def values_at(table: pl.DataFrame, column: str) -> dict[float, Any]:
    known = table.drop_nulls(column)
    return dict(zip(seconds_of(known), known[column].to_list(), strict=True))


# Series are where their own times say.


@pytest.mark.parametrize(
    ("count", "begin", "end", "at", "note"),
    [
        (20, 0, 19, range(20), ""),
        (20, 60, 79, range(60, 80), ""),
        (20, 30, 49, range(30, 50), ""),
        (80, 0, 79, range(80), ""),
        (1, 40, 40, [40], ""),
        (2, 0.2, 1.3, [0, 1], ""),
        (11, 10, 30, range(10, 31, 2), "availableOutgoingBitrate had no value at some times"),
        (40, -30, 9, range(10), "availableOutgoingBitrate had no value at some times"),
    ],
)
def test_a_series_is_where_its_own_times_say(
    count: int, begin: float, end: float, at: list[int], note: str, tmp_path: Path
) -> None:
    of_pair = pair("P1", 0.02)
    bps = [100_000 * (index + 1) for index in range(count)]
    of_pair["P1-availableOutgoingBitrate"] = series("candidate-pair", bps, begin, end)
    made = opened(tmp_path, dump(video_sent(), of_pair))
    placed = values_at(made.tables["candidate_pair"], "availableOutgoingBitrate")
    assert placed == dict(zip(map(float, at), bps[-len(at) :], strict=True))
    assert values_at(made.tables["controller"], "value") == placed
    assert any(note in one for one in made.notes)


def test_a_series_without_times_is_read_if_each_sample_has_a_value_and_otherwise_noted(
    tmp_path: Path,
) -> None:
    of_pair = pair("P1", 0.02)
    for name, count in (("bytesSent", SECONDS), ("availableOutgoingBitrate", SECONDS - 1)):
        of_pair[f"P1-{name}"] = {"statsType": "candidate-pair", "values": json.dumps([7] * count)}
    made = opened(tmp_path, dump(video_sent(), of_pair))
    table = made.tables["candidate_pair"]
    assert table["bytesSent"].to_list() == [7] * SECONDS
    assert table["availableOutgoingBitrate"].null_count() == SECONDS
    assert any("left out availableOutgoingBitrate: fewer values than samples" in one for one in made.notes)


def test_reports_of_rtcp_that_repeat_their_time_keep_their_values(tmp_path: Path) -> None:
    # RTCP comes every 5 s, so five samples have the same report. The round trip is known from 40 s on.
    stamps = [BEGIN_MS + 5000.0 * (second // 5) for second in range(SECONDS)]
    values = {"ssrc": [1001] * SECONDS, "kind": ["video"] * SECONDS, "timestamp": stamps}
    of_rtcp = {f"RI-{name}": series("remote-inbound-rtp", one, 0, 75) for name, one in values.items()}
    of_rtcp["RI-roundTripTime"] = series("remote-inbound-rtp", [0.05 + 0.001 * n for n in range(40)], 40, 75)
    table = opened(tmp_path, dump(video_sent(), of_rtcp)).tables["remote_inbound_rtp"]
    # The last of five samples is the one that counts.
    assert values_at(table, "roundTripTime") == {
        float(at): pytest.approx(0.05 + 0.001 * (at - 40 + 4)) for at in range(40, 80, 5)
    }


def test_without_a_series_of_times_each_series_is_spread_between_its_own(tmp_path: Path) -> None:
    sent = {name: one for name, one in video_sent().items() if not name.endswith("timestamp")}
    sent["OV-targetBitrate"] = series("outbound-rtp", [1, 2, 3], 10)
    table = opened(tmp_path, dump(sent)).tables["outbound_rtp"]
    assert values_at(table, "targetBitrate") == {10.0: 1, 11.0: 2, 12.0: 3}


# A network that changes is no queue.

SWITCH = 40
LATER = SECONDS - SWITCH


def told_switch(before_s: float, after_s: float) -> dict[str, Any]:
    """Two candidate pairs, of which the transport uses one after the other."""
    transport = reports("T01", "transport", selectedCandidatePairId=["P1"] * SWITCH + ["P2"] * LATER)
    return pair("P1", before_s, 0, SWITCH) | pair("P2", after_s, SWITCH, LATER) | transport


def shown_switch(before_s: float, after_s: float) -> dict[str, Any]:
    """One candidate pair whose round trip changes, and nothing that says why."""
    return pair("P1", [before_s] * SWITCH + [after_s] * LATER)


@pytest.mark.parametrize(
    ("switch", "before_ms", "after_ms"),
    [
        (told_switch, 5, 30),
        (told_switch, 30, 5),
        (told_switch, 5, 8),
        (told_switch, 100, 400),
        (shown_switch, 5, 30),
        (shown_switch, 30, 5),
        (shown_switch, 100, 400),
    ],
)
def test_a_change_of_the_network_has_the_delay_of_each_part_and_no_queue(
    switch: Any, before_ms: int, after_ms: int, tmp_path: Path
) -> None:
    lost = [0] * (SWITCH + 1) + [100] * (LATER - 1)
    network = switch(before_ms / 500, after_ms / 500)
    made = estimated(tmp_path, video_sent(), received("IA", "audio", 2001, packetsLost=lost), network)
    for end in ("page", "remote"):
        numbers = found(made, end)
        assert made.paths[end].values["delay"] == {
            "steps": [["0.0 s", f"{before_ms} ms"], ["40.0 s", f"{after_ms} ms"]]
        }
        assert numbers["capacity"].grade == "at least"
        assert "capacity" not in made.paths[end].values
        assert numbers["queue"].value == pytest.approx(0, abs=1e-6)
    outage = found(made, "remote")["outage"]
    assert (outage.value, outage.unit) == (100, "packets")
    assert outage.note == "lost from 40 s to 41 s, 67 % of all then"
    assert found(made, "remote")["loss"].value == 0
    assert made.paths["remote"].values["loss"]["steps"] == [
        ["0.0 s", "0 %"],
        ["40.0 s", "66.67 %"],
        ["41.0 s", "0 %"],
    ]
    # Nobody said what became of what the page sent.
    assert found(made, "page")["loss"].grade == "unknown"
    delays = made.scenario.link_of("page").up.delay
    assert [delay.ms for _, delay in delays.steps] == [before_ms, after_ms]


def test_a_change_of_the_network_is_an_event(tmp_path: Path) -> None:
    events = opened(tmp_path, dump(video_sent(), told_switch(0.01, 0.06))).tables["events"]
    changed = events.filter(event="route_changed")
    assert (seconds_of(changed), changed["detail"].to_list()) == ([SWITCH], ["P1 to P2"])
    assert (
        "route_changed"
        not in opened(tmp_path, dump(video_sent(), shown_switch(0.01, 0.06))).tables["events"]["event"]
    )


def test_several_changes_have_several_delays_and_each_part_a_capacity(tmp_path: Path) -> None:
    # A fast network, then a slow one that the call loads, then the fast one again.
    trips_s = [0.02] * 25 + [0.06 + 0.02 * (second % 5) for second in range(30)] + [0.02] * 25
    chosen = ["P1"] * 25 + ["P2"] * 30 + ["P3"] * 25
    transport = reports("T01", "transport", selectedCandidatePairId=chosen)
    sent = [0]
    for second in range(1, SECONDS):
        sent.append(sent[-1] + (60_000 if 25 <= second < 55 else 150_000))
    pairs = {}
    for name, begin, end in (("P1", 0, 25), ("P2", 25, 55), ("P3", 55, 80)):
        pairs |= pair(name, trips_s[begin:end], begin, end - begin)
    made = estimated(tmp_path, video_sent(bytesSent=sent), pairs, transport)
    path = made.paths["page"]
    assert path.values["delay"]["steps"] == [["0.0 s", "10 ms"], ["25.0 s", "30 ms"], ["55.0 s", "10 ms"]]
    # 60,000 B of payload, 2,000 of RTP headers, and 38 around each of 100 packets.
    steps = path.values["capacity"]["steps"]
    assert [at for at, _ in steps] == ["0.0 s", "25.0 s", "55.0 s"]
    assert steps[1][1] == "526 kbit/s"


def test_a_queue_that_the_call_makes_is_still_a_queue(tmp_path: Path) -> None:
    trips_s = [0.02 if second % 8 == 0 else 0.04 + 0.02 * (second % 8) for second in range(SECONDS)]
    made = estimated(tmp_path, video_sent(kbps=500), pair("P1", trips_s))
    assert made.paths["page"].values["delay"] == "10 ms"
    assert found(made, "page")["capacity"].grade == "measured"
    assert found(made, "page")["queue"].value == pytest.approx(160)


def test_a_queue_that_others_fill_for_good_is_no_other_network(tmp_path: Path) -> None:
    # A TCP transfer fills the queue from 20 s on, and halves its window when it is full.
    trips_s = [0.02] * 20 + [0.15 + 0.012 * (second % 12) for second in range(60)]
    made = estimated(tmp_path, video_sent(kbps=400), pair("P1", trips_s))
    assert made.paths["page"].values["delay"] == "10 ms"


def test_changes_of_another_connection_do_not_count(tmp_path: Path) -> None:
    made = dump(video_sent(), pair("P1", 0.02))
    made["PeerConnections"]["11-1"] = dump(video_sent(ssrc=7), told_switch(0.01, 0.06))["PeerConnections"][
        "10-1"
    ]
    trace = trace_of(opened(tmp_path, made))
    delays = [
        estimate(call_of(trace, flow)).paths["page"].values["delay"] for flow in (OUT, "page->remote-2")
    ]
    assert delays == ["10 ms", {"steps": [["0.0 s", "5 ms"], ["40.0 s", "30 ms"]]}]


def test_a_full_queue_that_drops_packets_is_no_other_network(tmp_path: Path) -> None:
    trips_s = [0.02] * 20 + [0.3] * 60
    lost = [0] * 20 + [10 * second for second in range(60)]
    video = received("IV", "video", 2002, packetsLost=lost)
    made = estimated(tmp_path, video, pair("P1", trips_s))
    numbers = found(made, "remote")
    assert made.paths["remote"].values["delay"] == "10 ms"
    assert numbers["queue"].value == pytest.approx(280)
    assert numbers["capacity"].grade == "measured"


def test_round_trips_that_vary_on_a_new_network_are_no_queue_while_the_rate_is_the_same(
    tmp_path: Path,
) -> None:
    trips_s = [0.02] * SWITCH + [0.06 + 0.015 * (second * 7 % 5) for second in range(LATER)]
    network = told_switch(0.02, 0.06) | pair("P2", trips_s[SWITCH:], SWITCH, LATER)
    made = estimated(tmp_path, video_sent(), received("IA", "audio", 2001), network)
    for end in ("page", "remote"):
        numbers = found(made, end)
        assert numbers["capacity"].grade == "at least"
        assert numbers["queue"].value is None
        assert made.paths[end].values["delay"]["steps"] == [["0.0 s", "10 ms"], ["40.0 s", "30 ms"]]


def test_a_route_that_changes_all_the_time_or_at_the_ends_gives_a_scenario(tmp_path: Path) -> None:
    for chosen in (["P1", "P2"] * 40, ["P1"] + ["P2"] * 79, ["P1"] * 79 + ["P2"]):
        transport = reports("T01", "transport", selectedCandidatePairId=chosen)
        made = estimated(tmp_path, video_sent(), pair("P1", 0.01), pair("P2", 0.06), transport)
        assert found(made, "page")["capacity"].grade == "at least"
        assert made.scenario.duration.s == SECONDS - 1


@pytest.mark.parametrize(
    ("silent_s", "lost", "begin"),
    [(0, 100, 40), (4, 250, 36), (4, 5, None)],
)
def test_an_outage_begins_when_packets_stop_to_arrive(
    silent_s: int, lost: int, begin: int | None, tmp_path: Path
) -> None:
    until = [50 * min(second, 40 - silent_s) for second in range(41)]
    packets = until + [until[-1] + 50 * second for second in range(1, 40)]
    losses = [0] * 41 + [lost] * 39
    audio = received("IA", "audio", 2001, packetsReceived=packets, packetsLost=losses)
    numbers = found(estimated(tmp_path, audio, pair("P1", 0.02)), "remote")
    if begin is None:
        assert "outage" not in numbers
        assert numbers["loss"].value > 0
    else:
        assert (numbers["outage"].value, numbers["loss"].value) == (lost, 0)
        assert f"lost from {begin} s to 41 s" in numbers["outage"].note


# Totals are of all streams or not known.


def test_goodput_is_unknown_once_a_stream_does_not_tell_its_fec(tmp_path: Path) -> None:
    late = received("IV", "video", 2002, 60, 20, bytesReceived=growing(125_000, 20))
    made = trace_of(opened(tmp_path, dump(received("IA", "audio", 2001), late)))
    assert isnan(rate.goodput(made, BACK))
    assert isnan(rate.goodput(made.within((50.0, 70.0)), BACK))
    assert rate.goodput(made.within((0.0, 50.0)), BACK) == pytest.approx(32)
    # 79 x 5,000 B, and 19 x 126,000 B, in 79 s.
    assert wire.stats_receiving_rate(made, BACK) == pytest.approx(8e-3 * (5000 + 19 * 126_000 / 79))


def test_the_rate_of_getstats_is_unknown_if_a_stream_does_not_tell_its_headers(tmp_path: Path) -> None:
    video = received("IV", "video", 2002)
    without = {name: one for name, one in video.items() if "headerBytes" not in name}
    for stream, kbps in ((video, 80.0), (without, None)):
        made = trace_of(opened(tmp_path, dump(received("IA", "audio", 2001), stream)))
        of_both = wire.stats_receiving_rate(made, BACK)
        assert isnan(of_both) if kbps is None else of_both == pytest.approx(kbps)
        assert wire.stats_received_kbps(made, BACK, kind="audio").mean() == pytest.approx(40)


@pytest.mark.parametrize(
    ("counts", "fps"),
    [
        ([[30] * 79] * 3, 30),
        ([[30] * 79, [15] * 79], 22.5),
        ([[30] * 79, [30] * 39 + [0] * 40], (30 * 39 + 15 * 40) / 79),  # packets come, pictures do not
        ([[30] * 39 + [0] * 40], 30 * 39 / 79),
    ],
)
def test_the_frame_rate_of_several_videos_is_their_mean(
    counts: list[list[int]], fps: float, tmp_path: Path
) -> None:
    videos = []
    for index, each in enumerate(counts):
        frames = [sum(each[:second]) for second in range(SECONDS)]
        videos.append(received(f"IV{index}", "video", 3001 + index, framesDecoded=frames))
    made = trace_of(opened(tmp_path, dump(*videos)))
    assert media.frame_rate(made, BACK) == pytest.approx(fps)


def test_a_video_that_ended_does_not_lower_the_frame_rate_of_the_others(tmp_path: Path) -> None:
    stays = received("IV0", "video", 3001, framesDecoded=growing(30))
    leaves = received("IV1", "video", 3002, 0, 40, framesDecoded=growing(30, 40))
    made = trace_of(opened(tmp_path, dump(stays, leaves)))
    assert media.frame_rate(made, BACK) == pytest.approx(30)
    assert media.frame_rate(made.within((45.0, 75.0)), BACK) == pytest.approx(30)


@pytest.mark.parametrize("table", ["inbound_rtp", "outbound_rtp"])
def test_a_stream_that_counts_from_0_again_keeps_what_it_had_counted(table: str, tmp_path: Path) -> None:
    again = [50 * (second if second < 40 else second - 40) for second in range(SECONDS)]
    frames = [30 * (second if second < 40 else second - 40) for second in range(SECONDS)]
    stats = (
        received("IV", "video", 1, packetsReceived=again, framesDecoded=frames, packetsLost=3)
        if table == "inbound_rtp"
        else video_sent(packetsSent=again, framesEncoded=frames)
    )
    made = opened(tmp_path, dump(stats))
    rows = made.tables[table]
    for column in ("packetsReceived", "framesDecoded", "packetsSent", "framesEncoded"):
        if column in rows.columns:
            assert rows[column].diff().drop_nulls().min() == 0
            assert rows[column][-1] == 78 * (50 if "packets" in column else 30)
    assert "remote: counters of streams fell 1 times; they are taken to have begun anew" in made.notes


# What old browsers wrote elsewhere.

OF_TRACK = {
    "frameWidth": 320,
    "frameHeight": 180,
    "framesDecoded": growing(25),
    "freezeCount": [second // 8 for second in range(SECONDS)],
    "totalFreezesDuration": [0.25 * (second // 8) for second in range(SECONDS)],
}


def with_track(style: str) -> dict[str, Any] | str:
    """A received video whose pictures are in the report of its track."""
    names = {"2020": ("RTCInboundRTPVideoStream_5", "RTCMediaStreamTrack_receiver_2")}
    stream, track = names.get(style, ("IV", "TR"))
    video = received(stream, "video", 5, trackId=track)
    of_track = reports(track, "track", **OF_TRACK)
    if style == "rtcstats":
        lines = [["create", "PC_0", {}, BEGIN_MS]]
        for second in range(SECONDS):
            made: dict[str, Any] = {"IV": {"type": "inbound-rtp"}, "TR": {"type": "track"}}
            for name, one in (video | of_track).items():
                report, _, column = name.partition("-")
                made[report][column] = json.loads(one["values"])[second]
            lines.append(["getstats", "PC_0", made, BEGIN_MS + 1000 * second])
        return "\n".join(map(json.dumps, lines))
    stats = video | of_track
    if style == "2020":
        stats = {name: one | {"statsType": None} for name, one in stats.items() if "timestamp" not in name}
    return dump(stats)


@pytest.mark.parametrize("style", ["safari", "2020", "rtcstats"])
def test_the_report_of_a_track_belongs_to_its_stream(style: str, tmp_path: Path) -> None:
    made = trace_of(opened(tmp_path, with_track(style)))
    assert media.frame_height(made, BACK) == 180
    assert media.frame_rate(made, BACK) == pytest.approx(25)
    assert (media.freeze_count_w3c(made, BACK), media.freeze_duration_w3c(made, BACK)) == (9, 2.25)
    video = estimate(call_of(made)).media["remote"]
    picture = video.values["video"]
    assert (picture["width"], picture["height"]) == (320, 180)
    assert {one.grade for one in video.findings if one.name in ("video width", "video height")} == {
        "measured"
    }


def test_the_stream_knows_better_than_its_track_and_a_track_of_several_streams_is_of_none(
    tmp_path: Path,
) -> None:
    track = reports("TS", "track", frameHeight=720, framesSent=growing(90))
    low = video_sent("O1", ssrc=1, trackId="TS", frameHeight=180)
    high = video_sent("O2", ssrc=2, trackId="TS")
    alone = opened(tmp_path, dump(low, track)).tables["outbound_rtp"]
    assert alone["frameHeight"].unique().to_list() == [180]
    assert alone["framesSent"].to_list() == growing(90)
    both = opened(tmp_path, dump(low, high, track))
    assert both.tables["outbound_rtp"]["framesSent"].null_count() == 2 * SECONDS
    assert "remote: left out the reports on 1 tracks that several streams send" in both.notes


# Codecs.


def codecs(**mime_types: str) -> dict[str, Any]:
    made: dict[str, Any] = {}
    for name, mime_type in mime_types.items():
        made |= reports(name, "codec", mimeType=f"video/{mime_type}", payloadType=98)
    return made


@pytest.mark.parametrize(
    ("of_stream", "told"),
    [
        (["C98"] * 40 + ["C45"] * 40, "vp9, from 40 s on av1"),
        (["C98"] * 20 + ["C45"] * 20 + ["C98"] * 40, "vp9, from 20 s on av1, from 40 s on vp9"),
        (["C45"] * 80, "av1"),
        (["C35"] * 80, "h265"),
    ],
)
def test_codecs_are_followed_to_their_reports(of_stream: list[str], told: str, tmp_path: Path) -> None:
    known = {"C98": "VP9", "C45": "AV1", "C35": "H265"}
    imported = opened(tmp_path, dump(video_sent(codecId=of_stream), codecs(**known)))
    named = imported.tables["outbound_rtp"]["mimeType"].to_list()
    assert named == [f"video/{known[one]}" for one in of_stream]
    changed = [at for at in range(1, SECONDS) if of_stream[at] != of_stream[at - 1]]
    events = imported.tables["events"].filter(event="codec_changed")
    assert seconds_of(events) == changed
    if changed:
        assert events["detail"][0] == "SSRC 1001: video/VP9 to video/AV1"
    notes = [one.note for one in estimate(call_of(trace_of(imported))).findings if one.name == "codec"]
    assert [note.partition(";")[0] for note in notes] == [f"the call used {told}"]


def test_codecs_and_routes_are_followed_in_rtcstats_too(tmp_path: Path) -> None:
    lines: list[Any] = []
    for second in range(10):
        stats: dict[str, Any] = {
            "0": {"type": 2, "10": 7, "11": "video", "79": 50 * second, "80": 9000 * second, "12": "3"},
            "3": {"type": 14, "6": "video/VP8"},
            "4": {"type": 14, "6": "video/H264"},
            "9": {"type": 5, "125": "5" if second < 6 else "6"},
        }
        if second >= 4:
            stats["0"]["12"] = "4"
        lines.append(["g", "PC_0", stats, "interval", 1000 if second else BEGIN_MS])
    text = "\n".join(["RTCStatsDump", json.dumps({"fileFormat": 3}), *map(json.dumps, lines)])
    tables = opened(tmp_path, text).tables
    assert tables["outbound_rtp"]["mimeType"].to_list() == ["video/VP8"] * 4 + ["video/H264"] * 6
    events = tables["events"]
    assert list(zip(events["event"], seconds_of(events), strict=True)) == [
        ("codec_changed", 4),
        ("route_changed", 6),
    ]


def test_a_codec_without_a_report_is_not_known(tmp_path: Path) -> None:
    table = opened(tmp_path, dump(video_sent(codecId="C98"))).tables["outbound_rtp"]
    assert table["mimeType"].null_count() == SECONDS


# Events.

STATES = (
    ("iceconnectionstatechange", "connected", 0),
    ("iceconnectionstatechange", "completed", 0),
    ("connectionstatechange", "connected", 0),
    ("connectionstatechange", "disconnected", 39),
    ("connectionstatechange", "connected", 41),
    ("iceconnectionstatechange", "disconnected", 60),
    ("connectionstatechange", "failed", 79),
)
EXPECTED = [
    ("joined", 0),
    ("ice_connected", 0),
    ("dtls_connected", 0),
    ("disconnected", 39),
    ("dtls_connected", 41),
    ("ice_disconnected", 60),
    ("failed", 79),
]
LOCAL = {
    "M/D": "4/14/2025, 1:{m}:{s} PM",
    "M/D, with a narrow space": "4/14/2025, 1:{m}:{s}\u202fPM",
    "D.M.": "14.4.2025, 22:{m}:{s}",
    "D/M": "14/04/2025, 21:{m}:{s}",
    "ISO": "2025-04-14T20:{m}:{s}.000Z",
    "ISO without a zone": "2025-04-14 20:{m}:{s}",
    "Finnish": "14.4.2025 klo 23.{m}.{s}",
    "Chinese": "2025/4/15 上午4:{m}:{s}",
    "Korean": "2025. 4. 15. 오전 5:{m}:{s}",
    "time first": "22:{m}:{s} 14/4/2025",
    "UTC-07, midday": "4/14/2025, 13:{m}:{s}",
}


def updates_in(text: str) -> list[dict[str, Any]]:
    told = []
    for name, state, second in STATES:
        minute, rest = divmod(20 * 60 + 34 + second, 60)
        told.append({"time": text.format(m=f"{minute:02d}", s=f"{rest:02d}"), "type": name, "value": state})
    return told


@pytest.mark.parametrize("style", LOCAL)
def test_all_events_are_read_whatever_the_language_of_their_times(style: str, tmp_path: Path) -> None:
    made = opened(tmp_path, dump(video_sent(), updates=updates_in(LOCAL[style])))
    events = made.tables["events"]
    told = list(zip(events["event"].to_list(), seconds_of(events), strict=True))
    assert told == EXPECTED
    assert set(events["detail"]) == ({""} if style == "ISO" else {WHOLE_SECOND})


def test_zones_of_half_and_quarter_hours_and_days_that_fit_both_orders(tmp_path: Path) -> None:
    begin_ms = 1_744_662_034_000
    span = (begin_ms, begin_ms + 600_000)
    for text, words in (
        ("4/15/2025, 1:50:33 AM", "month, day, year; UTC+05:30"),
        ("15/4/2025, 2:05:33 am", "day, month, year; UTC+05:45"),
        ("4/14/2025, 10:50:33 AM", "month, day, year; UTC-09:30"),
    ):
        clock = local_clock([DumpedCall([text], span, True)])
        assert isinstance(clock, LocalClock)
        assert clock.words == words
        assert clock.at_ms(text) == begin_ms - 1000
    # 4 May or 5 April: the statistics tell.
    may_ms = 1_746_390_000_000  # 2025-05-04T20:20Z
    text = "4/5/2025, 22:20:00"
    clock = local_clock([DumpedCall([text], (may_ms, may_ms + 60_000), True)])
    assert isinstance(clock, LocalClock)
    assert clock.words == "day, month, year; UTC+02:00"


@pytest.mark.parametrize(
    ("texts", "span_s", "whole", "reason"),
    [
        (["4/14/2024, 1:20:33 PM"], (0, 60), True, "no order of numbers and no zone fits"),
        (["yesterday"], (0, 60), True, "not six numbers"),
        (["4/14/2025, 1:20:33 XM"], (0, 60), True, "not six numbers"),
        (["4/14/2025, 13:20:33 PM"], (0, 60), True, "not six numbers"),
        (["4/14/2025, 1:20:33 PM"], None, True, "no order of numbers and no zone fits"),
        # Only the last 1000 s of a call of unknown length are there.
        (["4/14/2025, 1:20:33 PM"], (0, 1000), False, "several orders of numbers or time zones fit"),
    ],
)
def test_times_that_cannot_be_known_say_why(
    texts: list[str], span_s: tuple[int, int] | None, whole: bool, reason: str
) -> None:
    span_ms = span_s and (BEGIN_MS + 1000.0 * span_s[0], BEGIN_MS + 1000.0 * span_s[1])
    why = local_clock([DumpedCall(texts, span_ms, whole)])
    assert isinstance(why, str)
    assert why.startswith(reason)


def test_events_whose_time_is_impossible_are_noted_and_the_others_read(tmp_path: Path) -> None:
    updates = updates_in(LOCAL["M/D"])
    updates[3]["time"] = "14/44/2025, 1:21:13 PM"
    updates[4]["time"] = None
    made = opened(tmp_path, dump(video_sent(), updates=updates))
    assert made.tables["events"].height == len(EXPECTED) - 2
    assert any(
        "left out 2 events whose time cannot be known, such as `14/44/2025" in one for one in made.notes
    )
    assert any("read as month, day, year; UTC-07:00, and are known to 1 s" in one for one in made.notes)


def test_times_to_a_second_give_no_times_of_the_set_up(tmp_path: Path) -> None:
    rough = trace_of(opened(tmp_path, dump(received("IA", "audio", 1), updates=updates_in(LOCAL["M/D"]))))
    exact = trace_of(opened(tmp_path, dump(received("IA", "audio", 1), updates=updates_in(LOCAL["ISO"]))))
    assert isnan(setup.setup_dtls(rough, BACK))
    assert setup.setup_dtls(exact, BACK) == 0


def test_a_dump_in_the_format_before_2020_is_refused_and_beside_others_noted(tmp_path: Path) -> None:
    old = {"ssrc_1_send-googRtt": series("ssrc", [20] * 10, 0)}
    with pytest.raises(BadInput, match="format of Chrome before 2020"):
        opened(tmp_path, dump(old))
    notes = opened(tmp_path, dump(old, video_sent())).notes
    assert "connection 10-1: left out 1 series in the pre-2020 format (`googRtt` and the like)" in notes


def test_the_handover_of_a_dump_with_local_times(tmp_path: Path) -> None:
    updates = tuple(updates_in(LOCAL["M/D"])[:5])
    lost = [0] * 41 + [100] * 39
    audio = received("IA", "audio", 2001, packetsLost=lost)
    imported = opened(tmp_path, dump(video_sent(), audio, told_switch(0.01, 0.06), updates=updates))
    assert "remote: disconnected at 39.0 s, route_changed at 40.0 s" in imported.notes
    made = trace_of(imported)
    events = made.table("events").filter(pl.col("at_ns") > 0)
    assert list(zip(events["event"], seconds_of(events), strict=True)) == [
        ("disconnected", 39),
        ("route_changed", 40),
        ("dtls_connected", 41),
    ]
    text = estimate(call_of(made)).text
    assert 'delay = { steps = [["0.0 s", "5 ms"], ["40.0 s", "30 ms"]] }' in text
    assert "# outage: 100 packets, measured; lost from 40 s to 41 s, 67 % of all then" in text


@pytest.mark.parametrize(
    ("known", "size", "grades"),
    [
        ({}, (640, 480), ["assumed", "assumed"]),
        ({"frameHeight": 180}, (240, 180), ["assumed", "measured"]),
        ({"frameWidth": 1280}, (1280, 960), ["measured", "assumed"]),
        ({"frameWidth": 1280, "frameHeight": 720}, (1280, 720), ["measured", "measured"]),
    ],
)
def test_what_is_known_of_the_size_of_pictures_is_used(
    known: dict[str, int], size: tuple[int, int], grades: list[str], tmp_path: Path
) -> None:
    made = estimated(tmp_path, video_sent(**known)).media["page"]
    picture = made.values["video"]
    assert (picture["width"], picture["height"]) == size
    of_size = {one.name: one.grade for one in made.findings}
    assert [of_size["video width"], of_size["video height"]] == grades
