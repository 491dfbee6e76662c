"""Options of the pages of a live call: codecs, own media, adaptation, feedback of the past."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import av
import numpy as np
import polars as pl
import pytest
from live_tests import undisturbed, was_late
from parts import CALL

from rtclab import monitoring
from rtclab.backend.live import LiveBackend
from rtclab.scenario import Scenario
from rtclab.trace import Trace

pytestmark = [pytest.mark.live, pytest.mark.needs(*CALL)]


def call(out: Path, *changes: str, seconds: float = 5.5) -> Trace:
    scenario = Scenario.load("first-call", [f"duration={seconds} s", *changes])
    backend = LiveBackend()
    backend.check(scenario)
    out.mkdir()
    return backend.run(scenario, seed=1, repeat=0, out=out)


CODECS = [("vp9", "h264"), ("av1", "vp8")]


@pytest.fixture(scope="module", params=CODECS, ids="-".join)
def codecs(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[Any, Trace]:
    """A call in which alice and bob send different codecs."""
    of_alice, of_bob = request.param
    changes = [f"video.codec={of_alice}", f"participants.bob.video.codec={of_bob}"]
    size = ["video.width=320", "video.height=240"]
    return request.param, call(tmp_path_factory.mktemp("codecs") / "call", *changes, *size)


def test_the_browsers_send_the_codecs_of_the_scenario(codecs: tuple[Any, Trace]) -> None:
    (of_alice, of_bob), trace = codecs
    last = trace.table("outbound_rtp").filter(kind="video").group_by("participant").last()
    sent = last.select("participant", pl.col("mimeType").str.to_lowercase())
    assert dict(sent.iter_rows()) == {"alice": f"video/{of_alice}", "bob": f"video/{of_bob}"}


def test_each_browser_names_its_encoder_and_what_limited_it(codecs: tuple[Any, Trace]) -> None:
    _, trace = codecs
    sent = trace.table("outbound_rtp").filter(pl.col("kind") == "video", pl.col("framesEncoded") > 0)
    assert set(sent["participant"]) == {"alice", "bob"}
    assert sent["encoderImplementation"].null_count() == 0
    assert sent["qualityLimitationDurationBandwidth"].null_count() == 0


@pytest.mark.measures
def test_without_transport_wide_feedback_the_receivers_estimate_and_send_remb(tmp_path: Path) -> None:
    def run() -> Trace:
        number = len(list(tmp_path.iterdir()))
        return call(tmp_path / str(number), "congestion_control.name=remb", seconds=15)

    trace = undisturbed(run, was_late)
    seen = monitoring.monitor(trace.path / "capture.pcapng", packets=True)["packets"]
    media = seen.filter(pl.col("protocol") == "rtp", pl.col("kind") == "video")
    assert media.height > 500
    # The header extension that carries transport-wide numbers was not negotiated.
    assert media["transport_seq"].null_count() == media.height
    estimates = (
        trace.table("controller").filter(name="available_outgoing_bitrate_bps").group_by("flow").last()
    )
    # The path has 1 Mbit/s; without an estimate the target would stay at the start of 300 kbit/s. On a busy
    # machine it rises slowly.
    assert estimates["value"].is_between(310e3, 1.2e6).all()


def test_a_page_that_adapts_lowers_its_camera_when_much_is_lost(tmp_path: Path) -> None:
    trace = call(tmp_path / "call", "video.adapt=loss", "link.up.loss=25 %", seconds=12)
    steps = trace.table("events").filter(event="adapted")
    first = steps.filter(participant="alice")["detail"].to_list()[0]
    assert first == "480x360@30"  # three quarters of 640x480


def test_a_users_own_film_is_the_camera(tmp_path: Path) -> None:
    film = tmp_path / "film.mkv"
    with av.open(str(film), "w") as out:
        stream = out.add_stream("libvpx", rate=30, width=64, height=48)
        stream.pix_fmt = "yuv420p"
        grey = np.full((48, 64, 3), 128, np.uint8)
        for _ in range(60):
            out.mux(stream.encode(av.VideoFrame.from_ndarray(grey, format="rgb24")))
        out.mux(stream.encode(None))
    trace = call(tmp_path / "call", f"participants.alice.video.file={film}")
    packets = (
        trace.table("packets")
        .filter(pl.col("kind") == "video")
        .group_by("flow")
        .agg(pl.col("size_bytes").sum())
    )
    bytes_of = dict(packets.iter_rows())
    # A grey picture that never changes takes next to nothing; bob sends the usual clip.
    assert bytes_of["alice->bob"] < 0.3 * bytes_of["bob->alice"]


SIMULCAST = """
name = "simulcast"
duration = "20 s"
[link]
up = { capacity = "5 Mbit/s", queue = "300 ms", delay = "10 ms" }
down = { capacity = "5 Mbit/s", queue = "300 ms", delay = "10 ms" }
[video]
simulcast = true
[participants.alice]
[participants.bob]
link.down.capacity = "300 kbit/s"
[servers.sfu]
kind = "str0m"
[[calls]]
kind = "sfu"
server = "sfu"
"""


def simulcast_call(directory: Path, *changes: str) -> Trace:
    """Runs the simulcast scenario until the machine does not disturb it."""
    (directory / "simulcast.toml").write_text(SIMULCAST)
    scenario = Scenario.load(directory / "simulcast.toml", changes, trust=True)
    backend = LiveBackend()
    backend.check(scenario)

    def run() -> Trace:
        out = directory / str(len(list(directory.iterdir())))
        out.mkdir()
        return backend.run(scenario, seed=1, repeat=0, out=out)

    return undisturbed(run, was_late)


@pytest.mark.measures
@pytest.mark.needs("rtclab-sfu")
def test_an_sfu_that_estimates_gives_a_slow_receiver_a_smaller_picture(tmp_path: Path) -> None:
    trace = simulcast_call(tmp_path)
    sent = trace.table("outbound_rtp").filter(pl.col("kind") == "video", pl.col("framesEncoded") > 0)
    # Half and full size of the default camera, 640x480; bob's downlink is too slow for full size.
    of_alice = sent.filter(participant="alice").group_by("ssrc").agg(pl.col("frameHeight").max())
    assert sorted(of_alice["frameHeight"]) == [240, 480]
    received = trace.table("inbound_rtp").filter(pl.col("kind") == "video", pl.col("framesDecoded") > 0)
    widths = dict(received.sort("at_ns").group_by("flow").agg(pl.col("frameWidth").last()).iter_rows())
    assert widths["alice->bob"] <= 320
    estimate = trace.table("controller").filter(name="available_outgoing_bitrate_bps", flow="alice->bob")
    assert 50e3 < estimate["value"][-1] < 600e3


@pytest.mark.measures
@pytest.mark.needs("rtclab-sfu")
def test_a_call_through_an_sfu_recovers_when_its_downlink_does(tmp_path: Path) -> None:
    steps = '{ steps = [["0 s", "300 kbit/s"], ["3 s", "80 kbit/s"], ["5 s", "300 kbit/s"]] }'
    trace = simulcast_call(tmp_path, f"participants.bob.link.down.capacity={steps}")
    received = trace.table("inbound_rtp").filter(kind="video", flow="alice->bob").sort("at_ns")
    decoded = received.filter(pl.col("at_ns") > 15.5e9)["framesDecoded"]
    frames_per_s = (decoded[-1] - decoded[0]) / (len(decoded) - 1)
    # The camera gives 30 frames a second. A queue that stays full of copies let 4 through.
    assert 15 < frames_per_s < 33
