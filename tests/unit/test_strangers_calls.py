"""Calls that others reported, simulated: what they saw must be seen here, and its reason said."""

from __future__ import annotations

from pathlib import Path

import polars as pl

import rtclab

FAST = '{ capacity = "50 Mbit/s", delay = "10 ms", queue = "100 ms" }'
SIXTY = f"""
name = "sixty-pictures"
duration = "30 s"
repeats = 2
participants.sender.congestion_control.name = "fixed"
participants.viewer.video = false
link = {{ up = {FAST}, down = {FAST} }}
video = {{ width = 1920, height = 1080, frame_rate = 60, camera = "steady", max_bitrate = "6 Mbit/s", \
start_bitrate = "6 Mbit/s" }}
"""
LOSSY_SFU = f"""
name = "lossy-way-to-an-sfu"
duration = "40 s"
repeats = 2
participants = {{ a = {{ link.up.loss = "5 %" }}, b = {{ video = false }} }}
link = {{ up = {FAST}, down = {FAST} }}
video = {{}}
servers.sfu.kind = "janus"
calls = [{{ kind = "sfu", server = "sfu" }}]
"""
NARROW_DOWNLINK = f"""
name = "narrow-downlink"
duration = "40 s"
repeats = 2
participants = {{ shaped = {{ link.down = {{ capacity = "1500 kbit/s", queue = "200 ms" }} }}, other = {{}} }}
link = {{ up = {FAST}, down = {FAST} }}
audio = {{}}
video = {{ width = 1280, height = 720, max_bitrate = "2000 kbit/s" }}
servers.janus = {{}}
calls = [{{ kind = "sfu", server = "janus" }}]
"""
SOUND_ALONE = f"""
name = "sound-alone"
duration = "32 s"
repeats = 2
participants = {{ a = {{}}, b = {{}} }}
link = {{ up = {FAST}, down = {FAST} }}
audio.bitrate = "32 kbit/s"
"""


def _run(tmp_path: Path, text: str, *changes: str) -> rtclab.Results:
    file = tmp_path / "scenario.toml"
    file.write_text(text)
    return rtclab.run(file, set=changes, seed=3, out=tmp_path / "runs", progress=False)


def _means(results: rtclab.Results, metric: str, flow: str) -> list[float]:
    return results.metrics(metrics=metric, flows=flow)["value"].to_list()


def _sentence(results: rtclab.Results) -> str:
    return rtclab.compare(results, results).verdicts()[0]


def test_a_machine_without_limits_sends_sixty_large_pictures_a_second(tmp_path: Path) -> None:
    results = _run(tmp_path, SIXTY)
    assert all(58.5 < value < 60.5 for value in _means(results, "frame_rate", "sender->viewer"))
    assert _means(results, "frame_height", "sender->viewer") == [1080, 1080]
    assert _means(results, "cpu_limited", "sender->viewer") == [0, 0]
    assert "processor" not in _sentence(results)


def test_a_slow_machine_sends_smaller_pictures_and_the_sentence_says_so(tmp_path: Path) -> None:
    host = 'participants.sender.host={encoder_capacity="60 Mpixel/s"}'
    results = _run(tmp_path, SIXTY, host)
    # 34.6 ms for a picture of 1080 lines are 29 a second; after 20 s 720 lines take 15.4 ms.
    heights = _means(results, "frame_height", "sender->viewer")
    assert all(900 < value < 1040 for value in heights)
    assert all(25 < value < 36 for value in _means(results, "cpu_limited", "sender->viewer"))
    assert "the processor limits the video of sender" in _sentence(results)


def test_sfus_take_no_forward_error_correction(tmp_path: Path) -> None:
    results = _run(tmp_path, LOSSY_SFU)
    for flow in ("a->sfu", "a->b"):
        assert _means(results, "fec_share", flow) == [0, 0]
    # 1.7 Mbit/s of video, 5 to 6 % of them once more, and headers.
    assert all(1500 < value < 1950 for value in _means(results, "sending_rate", "a->sfu"))


def test_retransmissions_of_a_server_are_measured_bounded_and_named(tmp_path: Path) -> None:
    results = _run(tmp_path, NARROW_DOWNLINK)
    shares = _means(results, "retransmission_share", "other->shaped")
    # A packet is kept for a second and sent again at most every 0.2 s.
    assert all(20 < value < 75 for value in shares)
    assert all(value < 1 for value in _means(results, "retransmission_share", "shaped->other"))
    assert "of the bytes sent to shaped were retransmissions" in _sentence(results)


def test_sound_alone_is_padded_by_probes_every_five_seconds(tmp_path: Path) -> None:
    """As in live calls of Chromium 156: three packets of 112 B with the timestamp of the sound before."""
    results = _run(tmp_path, SOUND_ALONE)
    for trace in results.traces:
        packets = trace.table("packets").filter(flow="a->b", protocol="rtp").sort("sent_ns")
        assert packets["ssrc"].n_unique() == 1
        assert packets["seq"].diff().drop_nulls().unique().to_list() == [1]
        padded = packets.filter(pl.col("rtp_timestamp").diff() == 0)
        assert padded["kind"].unique().to_list() == ["padding"]
        later = padded.filter(pl.col("sent_ns") > 2e9)
        assert later["size_bytes"].to_list() == [112] * len(later)
        seconds = (later["sent_ns"] / 5e9).round().cast(pl.Int64).value_counts(sort=True)
        assert sorted(seconds.rows()) == [(at, 3) for at in range(1, 7)]


def test_the_first_picture_leaves_within_one_interval_of_the_camera(tmp_path: Path) -> None:
    """With 5 pictures a second: 4 to 20 ms of work, at most 200 ms for the camera, and some ms to encode."""
    text = SIXTY.replace("repeats = 2", "repeats = 8").replace("frame_rate = 60", "frame_rate = 5")
    results = _run(tmp_path, text, "duration=3 s")
    waits_ms = []
    for trace in results.traces:
        packets = trace.table("packets").filter(flow="sender->viewer", kind="video")
        connected = trace.table("events").filter(participant="sender", event="dtls_connected")["at_ns"].item()
        waits_ms.append((packets["sent_ns"].min() - connected) / 1e6)
    assert all(4 < wait < 250 for wait in waits_ms), waits_ms
    assert max(waits_ms) - min(waits_ms) > 50, waits_ms
