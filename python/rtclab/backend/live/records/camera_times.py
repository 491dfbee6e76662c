"""When the camera took each picture of a live call, from the sender's own reports.

A receiving browser estimates this time as if a packet took half of a round trip. That is wrong by half of the
difference between the two ways. The sender knows it: in Chromium, the RTP timestamp of a picture is its
capture time at 90 kHz and a constant, and every sender report tells an RTP timestamp and the time on the
sender's clock. All browsers of a live call run on one machine, whose monotonic clock event logs have.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import polars as pl

from rtclab.backend.live.records.sfu_originals import ORIGINAL
from rtclab.errors import BadInput
from rtclab.importers.logs.event_log import read_event_log
from rtclab.importers.logs.live import log_name
from rtclab.trace import NS_PER_MS, NS_PER_S, FlowInfo

VIDEO_CLOCK = 90_000
"""Ticks a second of the RTP clock of video (RFC 3551, 5)."""
NTP_SECOND = 2**32
"""Units of a second in NTP timestamps (RFC 3550, 4)."""
WRAP = 2**32
"""RTP timestamps wrap around."""
KEY = ["flow", "ssrc", "rtp_timestamp"]

REPORTS = pl.Schema({"ssrc": pl.Int64(), "at_ns": pl.Int64(), "reported": pl.Int64()})


def reported_stamps(directory: Path, flows: Mapping[str, FlowInfo], began_monotonic_ns: int) -> pl.DataFrame:
    """A row for each stream of video: an RTP timestamp, ``reported``, and when it was, ``at_ns``.

    They come from the sender reports in the event logs in the directory of a trace. Times are on the clock
    of the run. Logs without a beginning or without reports are left out.
    """
    frames = [REPORTS.to_frame()]
    for flow in flows:
        path = directory / log_name(flow)
        if path.is_file():
            try:
                reports = read_event_log(path).tables["sender_reports"].filter(pl.col("sent") == 1)
            except BadInput:
                continue
            frames.append(_stamps(reports, began_monotonic_ns))
    return pl.concat(frames).unique("ssrc", keep="first", maintain_order=True)


def _stamps(reports: pl.DataFrame, began_monotonic_ns: int) -> pl.DataFrame:
    """The first report of each stream, with the median of what all its reports say of the time.

    The browser's clock in reports differs from the monotonic clock by a constant. It is the median difference
    between when reports were logged, which is rounded down to a millisecond, and the times in them.
    """
    said_ns = pl.col("ntp") // NTP_SECOND * NS_PER_S + pl.col("ntp") % NTP_SECOND * NS_PER_S // NTP_SECOND
    logged_ns = pl.col("at_ms") * NS_PER_MS + NS_PER_MS // 2
    on_clock = said_ns + (logged_ns - said_ns).median().cast(pl.Int64) - began_monotonic_ns
    first = pl.col("rtp_timestamp").first()
    at_first = pl.col("at_ns") - _ticks(pl.col("rtp_timestamp"), first) * NS_PER_S // VIDEO_CLOCK
    return (
        reports.with_columns(at_ns=on_clock)
        .group_by("ssrc", maintain_order=True)
        .agg(at_ns=at_first.median().cast(pl.Int64), reported=first)
        .cast(dict(REPORTS))  # type: ignore[arg-type]
    )


def _ticks(stamp: pl.Expr, reference: pl.Expr) -> pl.Expr:
    """How far an RTP timestamp is behind another one, if they are less than 6 h apart."""
    return (stamp - reference + WRAP // 2) % WRAP - WRAP // 2


def since_capture(frames: pl.DataFrame, packets: pl.DataFrame, reports: pl.DataFrame) -> pl.DataFrame:
    """The table ``frames``, in which ``captured_ns`` is known from sender reports where there are some.

    Args:
        frames: the table, with the times that the receivers estimate.
        packets: the packets, with ``ORIGINAL``; a server may renumber the pictures that it forwards.
        reports: see :func:`reported_stamps`.
    """
    if frames.is_empty() or reports.is_empty():
        return frames
    copies = packets.drop_nulls(ORIGINAL[0]).filter(pl.col("kind") == "video")
    originals = copies.select(*KEY, *ORIGINAL).unique(KEY, keep="first")
    numbered = frames.join(originals, on=KEY, how="left", maintain_order="left").with_row_index("row")
    stream, stamp = (pl.coalesce(of, own) for of, own in zip(ORIGINAL, KEY[1:], strict=True))
    taken_ns = pl.col("at_ns") + _ticks(pl.col("stamp"), pl.col("reported")) * NS_PER_S // VIDEO_CLOCK
    known = (
        numbered.select("row", ssrc=stream, stamp=stamp)
        .join(reports, on="ssrc", maintain_order="left")
        .select("row", taken_ns=taken_ns)
    )
    return (
        numbered.join(known, on="row", how="left", maintain_order="left")
        .with_columns(captured_ns=pl.coalesce("taken_ns", "captured_ns"))
        .select(frames.columns)
    )
