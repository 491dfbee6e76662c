"""Measures the bytes per frame of the clip of live calls as VP8, by size, quantiser and position.

The simulated camera shows the same clip. ``python -m tools.clip_sizes >
crates/rtclab-core/src/media/encoder/clip.rs`` measures it again (about five minutes).
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from fractions import Fraction
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from rtclab.backend.live.browsers.libvpx import EncodedFrame, Vp8Encoder
from rtclab.backend.live.browsers.video_clip import scaled_frames, source_path, there_and_back

SIZES = {
    (640, 480): ((640, 480), (480, 360), (320, 240)),
    (1280, 720): ((1280, 720), (960, 540), (640, 360), (480, 270), (320, 180)),
}
"""Sizes of the camera, and the sizes to which libwebrtc's adaptation scales them."""
QUANTIZERS = (2, 6, 12, 20, 28, 36, 44, 50, 56)
"""On libvpx's scale of 0 to 63; libwebrtc allows 2 to 56."""
ANCHORS = (1, 4, 6, 7, 8)
"""Indices of the quantisers at which every frame's deviation from the mean is kept."""
KEY_EVERY = 20
_UNLIMITED_KBPS = 100_000
_HEADER = """\
//! What the clip of live calls costs as VP8.
//!
//! Made by `python -m tools.clip_sizes`; do not edit.

/// Quantiser indices of the columns of [`ClipSize::key`] and [`ClipSize::inter`].
pub(super) const QINDEX: [u8; {columns}] = {qindex};
/// Columns of `QINDEX` that [`ClipSize::frames`] has.
pub(super) const ANCHORS: [usize; {anchors_count}] = {anchors};

/// Cost of the clip in one resolution.
pub(super) struct ClipSize {{
    pub(super) width: u16,
    pub(super) height: u16,
    /// Mean bytes of a key frame, and of another frame (geometric mean), at each of [`QINDEX`].
    pub(super) key: [u32; QINDEX.len()],
    pub(super) inter: [u32; QINDEX.len()],
    /// Each picture's deviation from the mean at each of [`ANCHORS`], in hundredths of its logarithm.
    pub(super) frames: &'static [[i16; ANCHORS.len()]],
}}

/// All sizes that were measured.
#[rustfmt::skip]
pub(super) static SIZES: [ClipSize; {sizes}] = [
"""


def resized(frames: list[bytes], source: tuple[int, int], size: tuple[int, int]) -> list[bytes]:
    """I420 frames averaged down to a smaller size, as libwebrtc does before it encodes."""
    import av

    if source == size:
        return frames
    (width, height), (to_width, to_height) = source, size
    graph = av.filter.Graph()
    nodes = [
        graph.add_buffer(
            width=width, height=height, format=av.VideoFormat("yuv420p"), time_base=Fraction(1, 30)
        ),
        graph.add("scale", f"{to_width}:{to_height}:flags=area"),
        graph.add("buffersink"),
    ]
    graph.link_nodes(*nodes).configure()
    small = []
    for frame in frames:
        planes = np.frombuffer(frame, np.uint8).reshape(height * 3 // 2, width)
        graph.push(av.VideoFrame.from_ndarray(planes, format="yuv420p"))
        small.append(graph.pull().to_ndarray().tobytes())
    return small


def at_quantizer(frames: list[bytes], size: tuple[int, int], quantizer: int) -> Iterator[EncodedFrame]:
    """The clip's second round at a fixed quantiser: the first round starts with a key frame."""
    with Vp8Encoder(*size, _UNLIMITED_KBPS, (quantizer, quantizer), drops=False) as encoder:
        for position, frame in enumerate(frames + frames):
            encoded = encoder.encode(frame)
            if position >= len(frames) and encoded is not None:
                yield encoded


def key_frames(frames: list[bytes], size: tuple[int, int], quantizer: int) -> Iterator[EncodedFrame]:
    """Frames of the clip as key frames."""
    for frame in frames[::KEY_EVERY]:
        with Vp8Encoder(*size, _UNLIMITED_KBPS, (quantizer, quantizer), drops=False) as encoder:
            encoded = encoder.encode(frame)
            if encoded is not None:
                yield encoded


class ClipSizes(NamedTuple):
    """Quantiser indices, mean bytes of key and other frames at each, and each frame's deviations."""

    qindex: list[int]
    key: list[int]
    inter: list[int]
    deviations: npt.NDArray[np.int64]


def measured(frames: list[bytes], size: tuple[int, int]) -> ClipSizes:
    """Measures the clip in one size."""
    qindex, key, inter, logs = [], [], [], []
    for quantizer in QUANTIZERS:
        encoded = list(at_quantizer(frames, size, quantizer))
        log_sizes = np.log([frame.size for frame in encoded])
        qindex.append(encoded[0].qindex)
        inter.append(round(float(np.exp(log_sizes.mean()))))
        key.append(round(float(np.mean([frame.size for frame in key_frames(frames, size, quantizer)]))))
        logs.append(log_sizes - log_sizes.mean())
    deviations = np.rint(100 * np.array([logs[anchor] for anchor in ANCHORS]).T).astype(np.int64)
    return ClipSizes(qindex, key, inter, deviations)


def main() -> None:
    """Prints the Rust module."""
    rows = []
    for source, sizes in SIZES.items():
        frames = there_and_back(list(scaled_frames(source_path(), *source, 30)))
        for size in sizes:
            print(f"{size[0]}x{size[1]}", file=sys.stderr)
            clip = measured(resized(frames, source, size), size)
            lines = [f"    ClipSize {{ width: {size[0]}, height: {size[1]},"]
            lines += [f"        key: {clip.key}, inter: {clip.inter}, frames: &["]
            cells = [str(list(map(int, row))).replace(" ", "") for row in clip.deviations]
            lines += ["        " + ",".join(cells[at : at + 4]) + "," for at in range(0, len(cells), 4)]
            rows += [*lines, "    ] },"]
    print(
        _HEADER.format(
            columns=len(QUANTIZERS),
            qindex=clip.qindex,
            anchors=list(ANCHORS),
            anchors_count=len(ANCHORS),
            sizes=sum(map(len, SIZES.values())),
        )
        + "\n".join(rows)
        + "\n];"
    )


if __name__ == "__main__":
    main()
