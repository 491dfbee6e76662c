"""Packets beside the media, such as feedback. They use the path, too, but imports leave them out."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path

import polars as pl

from rtclab.importers.logs.event_log import read_event_log
from rtclab.metrics.series import Array
from rtclab.monitoring import Tables
from rtclab.trace import NS_PER_S

FEEDBACK_BYTES, BYTES_PER_REPORT = 62, 1.2
"""Size of an IP packet with transport-wide feedback, and what each reported packet adds to it."""
OTHER_RTCP_BYTES = 90


@dataclass(frozen=True)
class OtherPackets:
    """Packets other than RTP of a flow at one point, and when its first RTP packet was there; times in s."""

    at_s: Array
    size_bytes: Array
    first_s: float


def of_capture(seen: Tables, ssrcs: Collection[int], begin_ns: int) -> OtherPackets:
    """The packets other than RTP of the flow that has the RTP of ``ssrcs``.

    If the flow passes the capture twice, its first passage counts. Time zero is ``begin_ns``.
    """
    way = ["interface", "direction", "source", "destination"]
    media = seen["packets"].filter(pl.col("protocol") == "rtp", pl.col("ssrc").is_in(list(ssrcs)))
    first = media.group_by(way).agg(pl.col("at_ns").min()).sort("at_ns").head(1)
    rows = (
        seen["packets"]
        .filter(pl.col("protocol") != "rtp")
        .join(first.select(way), on=way, how="semi", nulls_equal=True)
    )
    first_s = float("inf") if first.is_empty() else (first["at_ns"][0] - begin_ns) / NS_PER_S
    at_s = (rows["at_ns"] - begin_ns).to_numpy() / NS_PER_S
    return OtherPackets(at_s, rows["size_bytes"].cast(pl.Float64).to_numpy(), first_s)


def of_log(files: Sequence[Path], begin_ns: int) -> list[tuple[bool, Array, Array]]:
    """RTCP packets of event logs: whether the first end sent them, times in s, and estimated sizes.

    Logs have no sizes of RTCP packets. The size of feedback follows from the number of reported packets.

    Args:
        files: the log of one end, or of both.
        begin_ns: time zero of the trace, in ns since 1970 on the clock of the first log.
    """
    found = []
    for index, file in enumerate(files):
        log = read_event_log(file)
        reported = log.tables["transport_feedback"].group_by("at_ms", "sent").agg(reports=pl.len())
        rows = (
            log.tables["rtcp"]
            .unique(["at_ms", "sent"])
            .join(reported, on=["at_ms", "sent"], how="left")
            .sort("at_ms")
            .with_columns(
                size=pl.when(pl.col("reports").is_null())
                .then(OTHER_RTCP_BYTES)
                .otherwise(FEEDBACK_BYTES + BYTES_PER_REPORT * pl.col("reports"))
            )
        )
        for sent in (1, 0) if len(files) == 1 else (1,):
            of_way = rows.filter(pl.col("sent") == sent)
            at_s = (of_way["at_ms"].to_numpy() + log.utc_offset_ms) / 1000 - begin_ns / NS_PER_S
            outwards = (sent == 1) == (index == 0)
            found.append((outwards, at_s, of_way["size"].cast(pl.Float64).to_numpy()))
    return found
