"""How the machine, rather than the network, disturbed a live call."""

from __future__ import annotations

import polars as pl

from rtclab.trace import Trace

MAX_TRIES = 3
"""A repeat that the machine disturbed this often is reported as disturbed."""

SLOWEST_ENCODER_MS = 25.0
"""A call is disturbed if encoding took longer on average; at 30 frames/s there are 33 ms for a frame."""


def disturbances(trace: Trace) -> list[str]:
    """How the machine disturbed a live repeat, in words; empty if it did not.

    It did if the emulator was late, if the machine's clock was set while the pages loaded, if the CPU limited
    the video (W3C webrtc-stats, ``qualityLimitationReason``), or if encoding took nearly the time between two
    frames. A participant whose CPU the scenario limits is meant to be slow.
    """
    reasons = [*trace.manifest.notes]
    lateness = trace.manifest.lateness
    if lateness is not None and lateness.late:
        reasons.append(f"emulator {lateness.p99_ns / 1e6:.1f} ms late (p99)")
    video = trace.table("outbound_rtp").filter(pl.col("kind") == "video")
    limited = video.filter(pl.col("qualityLimitationReason") == "cpu")["participant"].unique().sort()
    meant = set(trace.table("host").drop_nulls("cpu_limit_percent")["participant"])
    reasons += [f"the processor limited the video of {name}" for name in limited if name not in meant]
    reasons += [
        f"{name} took {mean_ms:.0f} ms to encode a frame"
        for name, mean_ms in encode_ms(trace).items()
        if mean_ms > SLOWEST_ENCODER_MS and name not in meant
    ]
    return reasons


def encode_ms(trace: Trace) -> dict[str, float]:
    """Mean time to encode a frame in ms, by participant, over all streams.

    From ``totalEncodeTime`` and ``framesEncoded`` (W3C webrtc-stats). Participants who encoded nothing are
    left out.
    """
    streams = (
        trace.table("outbound_rtp")
        .filter(pl.col("kind") == "video", pl.col("framesEncoded") > 0)
        .group_by("participant", "flow", "ssrc", maintain_order=True)
        .last()
    )
    total = streams.group_by("participant", maintain_order=True).agg(
        1e3 * pl.col("totalEncodeTime").sum() / pl.col("framesEncoded").sum()
    )
    return {name: mean_ms for name, mean_ms in total.iter_rows() if mean_ms is not None}
