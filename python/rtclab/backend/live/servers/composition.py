"""What an MCU that mixes makes of the pictures and the sound of several participants."""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil, isqrt
from typing import Any

import numpy as np
from numpy.typing import NDArray

BLACK_LUMA, GREY_CHROMA = 16, 128
"""Black in YUV of limited range (ITU-R BT.601)."""

Sound = NDArray[np.int16]
Cell = tuple[int, int, int, int]
"""Left, top, width and height in pixels, all even."""


def cells(count: int, width: int, height: int) -> list[Cell]:
    """The places of ``count`` pictures in a grid that is as wide as high, or one column wider."""
    columns = isqrt(count - 1) + 1
    rows = ceil(count / columns)
    wide, high = _even(width / columns), _even(height / rows)
    return [(index % columns * wide, index // columns * high, wide, high) for index in range(count)]


def fitted(width: int, height: int, cell: Cell) -> Cell:
    """The place in the middle of a cell in which a picture keeps its aspect ratio."""
    left, top, wide, high = cell
    scale = min(wide / width, high / height)
    w, h = max(2, _even(width * scale)), max(2, _even(height * scale))
    return left + _even((wide - w) / 2), top + _even((high - h) / 2), w, h


def _even(pixels: float) -> int:
    """The even number of pixels at or below: chroma has one value for two pixels in each direction."""
    return int(pixels) // 2 * 2


def compose(pictures: Sequence[Any], width: int, height: int) -> Any:
    """One picture with all ``pictures`` (``av.VideoFrame``) beside each other; black where there are none."""
    from av import VideoFrame

    luma = np.full((height, width), BLACK_LUMA, np.uint8)
    chroma = np.full((2, height // 2, width // 2), GREY_CHROMA, np.uint8)
    for picture, cell in zip(pictures, cells(max(1, len(pictures)), width, height), strict=False):
        left, top, w, h = fitted(picture.width, picture.height, cell)
        planes = picture.reformat(width=w, height=h, format="yuv420p").to_ndarray()
        luma[top : top + h, left : left + w] = planes[:h]
        small = planes[h:].reshape(2, h // 2, w // 2)
        chroma[:, top // 2 : (top + h) // 2, left // 2 : (left + w) // 2] = small
    whole = np.concatenate([luma, chroma.reshape(height // 2, width)])
    return VideoFrame.from_ndarray(whole, format="yuv420p")


def mix(sounds: Sequence[Sound], samples: int) -> Sound:
    """The sum of sounds, limited to 16 bits and ``samples`` long: longer ones are cut."""
    total = np.zeros(samples, np.int32)
    for sound in sounds:
        total[: sound.size] += sound[:samples]
    return np.clip(total, np.iinfo(np.int16).min, np.iinfo(np.int16).max).astype(np.int16)
