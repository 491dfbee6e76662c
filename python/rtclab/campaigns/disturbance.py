"""How the machine, rather than the network, disturbed a live call."""

from __future__ import annotations

import polars as pl

from rtclab.trace import Trace

MAX_TRIES = 3
"""A repeat that the machine disturbed this often is reported as disturbed."""

SLOWEST_ENCODER_MS = 25.0
"""A call is disturbed if encoding took longer in the mean; at 30 frames/s there are 33 ms for a frame."""


def disturbances(trace: Trace) -> list[str]:
    """What the machine disturbed in a live repeat, in words; empty if nothing.

    A late emulator, an encoder that the browser limited because of the processor (W3C webrtc-stats,
    ``qualityLimitationReason``), and an encoder that needs nearly the time between two frames.
    """
    reasons = []
    lateness = trace.manifest.lateness
    if lateness is not None and lateness.late:
        reasons.append(f"emulator {lateness.p99_ns / 1e6:.1f} ms late (p99)")
    video = trace.table("outbound_rtp").filter(pl.col("kind") == "video")
    limited = video.filter(pl.col("qualityLimitationReason") == "cpu")["participant"].unique().sort()
    reasons += [f"the processor limited the video of {name}" for name in limited]
    last = video.group_by("participant", maintain_order=True).last()
    for name, seconds, frames in last.select("participant", "totalEncodeTime", "framesEncoded").iter_rows():
        mean_ms = 1e3 * (seconds or 0.0) / max(frames or 0, 1)
        if mean_ms > SLOWEST_ENCODER_MS:
            reasons.append(f"{name} took {mean_ms:.0f} ms to encode a frame")
    return reasons
