"""Codecs and devices over the schedule of Jansen et al. 2017, table 4: what changes, and when."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import polars as pl
import pytest

from rtclab.backend.sim import SimBackend
from rtclab.scenario import Scenario, shipped

S = 10**9


@cache
def frames(codec: str, seed: int = 1) -> pl.DataFrame:
    """The pictures of alice that bob shows, with the second in which each was taken."""
    with TemporaryDirectory() as directory:
        file = Path(directory) / "codecs.toml"
        file.write_text(
            f"""
            extends = "jansen2017/table-4"
            name = "codecs"
            [participants.alice.video]
            codec = "{codec}"
            [participants.bob]
            """
        )
        trace = SimBackend().run(Scenario.load(file), seed=seed, repeat=0, out=Path(directory) / "trace")
        table = trace.table("frames").filter(pl.col("flow") == "alice->bob")
        return table.with_columns(second=pl.col("captured_ns") // S)


def shown(codec: str, start: int, end: int) -> tuple[float, float]:
    """Pictures per second, and their mean height, from second ``start`` to before ``end``."""
    table = frames(codec).filter(pl.col("second").is_between(start, end, closed="left"))
    heights: Any = table["height"].mean()
    return table.height / (end - start), heights


@pytest.mark.parametrize("codec", ["vp8", "vp9-2016", "h264-2016"])
def test_without_congestion_every_codec_shows_the_whole_file(codec: str) -> None:
    rate, height = shown(codec, 30, 60)
    assert 48 <= rate <= 52
    assert height == 720


def test_h264_of_2016_shows_few_pictures_at_2_30_each_with_the_bits_it_needs_and_keeps_their_size() -> None:
    for seed in (1, 2, 3):
        assert frames("h264-2016", seed)["height"].unique().to_list() == [720]
        table = frames("h264-2016", seed).filter(pl.col("second").is_between(140, 150, closed="left"))
        # The paper's single run went down to 1 per second.
        rate: Any = table.height / 10
        assert 1 <= rate <= 25
        # media/codec.rs: 6200 bit with none of 50 pictures a second skipped, and n^0.45 times as much after
        # n - 1 skipped ones. Gaps are not equally long, and a picture may overshoot.
        size: Any = table["size_bytes"].mean()
        assert 0.75 <= size / (775 * (50 / rate) ** 0.45) <= 1.15


def height_at(codec: str, kbps: int) -> float:
    """Mean height of 1280x720 at 50 per second with this rate, after 5 s."""
    video = {"codec": codec, "width": 1280, "height": 720, "frame_rate": 50}
    rate = dict.fromkeys(("start_bitrate", "max_bitrate"), f"{kbps} kbit/s")
    overrides = {f"video.{key}": value for key, value in (video | rate).items()}
    # This congestion control asks the encoder for the whole rate from the start; the network has no limits.
    free = {"congestion_control.name": "gcc-2016", "link": {}, "duration": "20 s"}
    trace = SimBackend().simulate(Scenario.load("first-call", free | overrides), seed=1, repeat=0)
    shown = trace.table("frames").filter((pl.col("flow") == "alice->bob") & (pl.col("captured_ns") > 5 * S))
    heights: Any = shown["height"].mean()
    return float(heights)


def test_vp8_and_vp9_reduce_the_size_and_vp9_keeps_more_of_it() -> None:
    # 1280x720 at 50/s needs 1382 kbit/s of VP8 (0.03 bit per pixel) and 857 of VP9; three quarters of the
    # width need 778 and 482.
    for kbps, vp8, vp9 in ((1500, 720, 720), (1100, 540, 720), (700, 360, 540)):
        assert (height_at("vp8", kbps), height_at("vp9-2016", kbps)) == (vp8, vp9)


def test_when_congestion_ends_vp8_returns_to_the_whole_picture_and_vp9_of_2016_does_not() -> None:
    for codec, low, high in (("vp8", 720, 720), ("vp9-2016", 360, 540)):
        last = frames(codec).filter(pl.col("second").is_between(230, 240))
        assert low <= last["height"].max() <= high  # type: ignore[operator]


def test_a_phone_of_2016_sends_360_lines_at_30_per_second_with_1700_kbit_per_second_at_most() -> None:
    assert "jansen2017/table-4" not in shipped()
    loaded = Scenario.load(
        "first-call", {"video.device": "android-2016", "video.width": 1280, "video.height": 720}
    )
    native: Any = loaded.native(seed=1)
    video = native["participants"][0]["video"]
    assert (video["width"], video["height"], video["frame_rate"]) == (640, 360, 30)
    assert video["max_bps"] == 1_700_000
