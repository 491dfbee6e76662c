"""What an MCU that mixes makes of several pictures and sounds."""

from __future__ import annotations

import numpy as np
import pytest

from rtclab.backend.live.servers.composition import BLACK_LUMA, GREY_CHROMA, cells, compose, fitted, mix

av = pytest.importorskip("av")


def plain(width: int, height: int, luma: int, chroma: int) -> object:
    planes = np.full((height * 3 // 2, width), luma, np.uint8)
    planes[height:] = chroma
    return av.VideoFrame.from_ndarray(planes, format="yuv420p")


@pytest.mark.parametrize(
    ("count", "expected"),
    [
        (1, [(0, 0, 320, 240)]),
        (2, [(0, 0, 160, 240), (160, 0, 160, 240)]),
        (3, [(0, 0, 160, 120), (160, 0, 160, 120), (0, 120, 160, 120)]),
        (
            5,
            [
                (0, 0, 106, 120),
                (106, 0, 106, 120),
                (212, 0, 106, 120),
                (0, 120, 106, 120),
                (106, 120, 106, 120),
            ],
        ),
    ],
)
def test_a_grid_is_as_wide_as_high_or_one_column_wider(count: int, expected: list[tuple[int, ...]]) -> None:
    assert cells(count, 320, 240) == expected


def test_a_picture_keeps_its_aspect_ratio_in_the_middle_of_its_cell() -> None:
    assert fitted(640, 480, (160, 0, 160, 240)) == (160, 60, 160, 120)
    assert fitted(360, 640, (0, 0, 160, 120)) == (46, 0, 66, 120)
    assert fitted(320, 240, (0, 0, 320, 240)) == (0, 0, 320, 240)


def test_two_pictures_stand_beside_each_other_with_black_above_and_below() -> None:
    whole = compose([plain(320, 240, 100, 90), plain(320, 240, 200, 160)], 320, 240)
    assert (whole.width, whole.height) == (320, 240)
    planes = whole.to_ndarray()
    luma, chroma = planes[:240], planes[240:].reshape(2, 120, 160)
    assert {*luma[:60].flat, *luma[180:].flat} == {BLACK_LUMA}
    assert {*luma[60:180, :160].flat} == {100}
    assert {*luma[60:180, 160:].flat} == {200}
    assert {*chroma[:, :30].flat} == {GREY_CHROMA}
    assert {*chroma[:, 30:90, :80].flat} == {90}
    assert {*chroma[:, 30:90, 80:].flat} == {160}


def test_sounds_are_added_and_limited() -> None:
    loud, quiet = np.array([30_000, -30_000, 5], np.int16), np.array([10_000, -10_000, -3], np.int16)
    assert mix([loud, quiet], 3).tolist() == [32_767, -32_768, 2]
    assert mix([loud], 3).tolist() == loud.tolist()
    assert mix([], 3).tolist() == [0, 0, 0]
