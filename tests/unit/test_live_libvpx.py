"""The binding to libvpx: settings reach the encoder, and sizes and quantisers come back."""

from __future__ import annotations

import numpy as np
import pytest

from rtclab.backend.live.browsers.libvpx import EncodedFrame, Vp8Encoder

pytest.importorskip("av")

WIDTH, HEIGHT = 320, 240


def pictures(count: int) -> list[bytes]:
    """A texture that moves by a pixel per picture, with new noise in each."""
    rng = np.random.default_rng(1)
    texture = rng.integers(0, 255, (HEIGHT, WIDTH), np.uint8)
    chroma = bytes([128]) * (WIDTH * HEIGHT // 2)
    return [
        (np.roll(texture, shift, axis=1) // 2 + rng.integers(0, 60, (HEIGHT, WIDTH), np.uint8)).tobytes()
        + chroma
        for shift in range(count)
    ]


def encoded(kbps: int, count: int, quantizers: tuple[int, int] = (2, 56)) -> list[EncodedFrame | None]:
    with Vp8Encoder(WIDTH, HEIGHT, kbps, quantizers) as encoder:
        return [encoder.encode(picture) for picture in pictures(count)]


def test_the_first_frame_is_the_only_key_frame_and_quantisers_stay_in_range() -> None:
    frames = [frame for frame in encoded(2000, 30) if frame is not None]
    assert [frame.key for frame in frames] == [True] + [False] * (len(frames) - 1)
    # Quantisers 2 and 56 of 63 are indices 2 and 106 of 127.
    assert all(2 <= frame.qindex <= 106 for frame in frames)


def test_a_fixed_quantiser_is_used_for_every_frame_and_a_larger_one_makes_smaller_frames() -> None:
    sizes = []
    for quantizer, qindex in ((20, 25), (56, 106)):
        frames = [frame for frame in encoded(100_000, 10, (quantizer, quantizer)) if frame is not None]
        assert {frame.qindex for frame in frames} == {qindex}
        assert len(frames) == 10
        sizes.append(sum(frame.size for frame in frames))
    assert sizes[1] < sizes[0] / 3


def test_far_too_low_a_rate_drops_frames_at_the_largest_quantiser() -> None:
    frames = encoded(30, 60)
    kept = [frame for frame in frames if frame is not None]
    assert 1 <= len(kept) < 30
    assert all(frame.qindex == 106 for frame in kept)
