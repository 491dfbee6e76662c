"""Cameras of devices, and the highest bitrate that a browser sends."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rtclab.scenario.participant import Video

# libwebrtc, GetMaxDefaultVideoBitrateKbps: (pixels up to, bit/s), the same since 2015.
BROWSER_MAX_BPS = ((320 * 240, 600_000), (640 * 480, 1_700_000), (960 * 540, 2_000_000))
BROWSER_MAX_LARGE_BPS = 2_500_000


@dataclass(frozen=True)
class Camera:
    """The largest picture and the highest frame rate that a device offers to applications."""

    max_width: int
    max_height: int
    max_frame_rate: float


# Jansen et al. 2017, section 5.2: 640x480 at 30/s on both, although their cameras could do more. The lower
# rate that it reports (1750 instead of 2500 kbit/s) follows: libwebrtc sends 640x480 at 1700 kbit/s at most.
CAMERAS = {
    "android-2016": Camera(640, 480, 30),
    "ios-2016": Camera(640, 480, 30),
}


def browser_max_bps(width: int, height: int) -> int:
    """The highest bitrate, in bit/s, that a browser sends by default."""
    return next((bps for limit, bps in BROWSER_MAX_BPS if width * height <= limit), BROWSER_MAX_LARGE_BPS)


def native_video(video: Video) -> dict[str, Any]:
    """The serde form of ``VideoConfig``. A smaller camera scales the picture and keeps its aspect ratio."""
    width, height, frame_rate = video.width, video.height, video.frame_rate
    max_bps = video.max_bitrate.bps
    camera = CAMERAS.get(video.device)
    if camera is not None:
        scale = min(1.0, camera.max_width / width, camera.max_height / height)
        # Encoders need even numbers.
        width, height = round(width * scale / 2) * 2, round(height * scale / 2) * 2
        frame_rate = min(frame_rate, camera.max_frame_rate)
        max_bps = min(max_bps, browser_max_bps(width, height))
    return {
        "width": width,
        "height": height,
        "frame_rate": frame_rate,
        "codec": video.codec,
        "min_bps": min(video.min_bitrate.bps, max_bps),
        "max_bps": max_bps,
        "start_bps": min(video.start_bitrate.bps, max_bps),
        "steady": video.camera == "steady",
    }
