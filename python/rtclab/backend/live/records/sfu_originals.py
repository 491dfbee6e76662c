"""Finds the original of each packet that an SFU forwards, so that delays count from its sender.

An SFU may renumber a receiver's packets, by the same offset for all packets of a stream. Packets that end a
frame reveal the offset: one that leaves the server is nearly always a copy of the last one that arrived.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import polars as pl

from rtclab.backend.live.connections import LiveConnection

SEQ_RANGE = 2**16
COPIED = ("video", "audio")
ORIGINAL = ("original_ssrc", "original_timestamp")
"""Columns with the stream and the RTP timestamp that a packet's original had; null without an original."""
LONGEST_WAY_NS = 1_000_000_000
"""A server holds no packet for longer than this. Sequence numbers repeat after a minute or more."""


def forwarded_by_servers(connections: Iterable[LiveConnection]) -> dict[str, str]:
    """The flows that servers forward, and the flow to the server that each is copied from."""
    joined = {one.number: one for one in connections}
    return {
        one.flows[0]: joined[one.forwards].flows[0]
        for one in joined.values()
        if one.server is not None and one.forwards is not None
    }


def since_originals(packets: pl.DataFrame, pairs: Mapping[str, str]) -> pl.DataFrame:
    """The table ``packets``, where ``sent_ns`` of a copy is when its sender sent the original.

    ``queued_ns`` of a copy contains the queues that the original waited in, ``held_ns`` is how long the
    server had it, and ``logged`` has the original's rows, too. A packet whose original is not found, such as
    a retransmission by the server, keeps its own times. The added column ``is_whole`` says whether the times
    of a packet are of its whole way; it is false for such packets. ``ORIGINAL`` are added too.

    Args:
        packets: the table with ``logged``, the rows of the emulator's log that each packet has.
        pairs: see :func:`forwarded_by_servers`.
    """
    if not pairs:
        unknown = dict.fromkeys(ORIGINAL, pl.lit(None, pl.Int64))
        return packets.with_columns(is_whole=pl.lit(True), **unknown)
    numbered = packets.with_row_index("row")
    media = numbered.filter(pl.col("kind").is_in(COPIED))
    found = [
        _originals(media.filter(flow=copies), media.filter(flow=originals))
        for copies, originals in pairs.items()
    ]
    sent = pl.concat(found).unique("row", keep="first")
    return (
        numbered.join(sent, on="row", how="left", maintain_order="left")
        .with_columns(
            sent_ns=pl.coalesce("original_ns", "sent_ns"),
            queued_ns=pl.col("queued_ns") + pl.col("queued_before_ns").fill_null(0),
            held_ns=pl.col("held_ns") + pl.col("held_by_server_ns").fill_null(0),
            logged=pl.concat_list(pl.col("logged_before").fill_null([]), "logged"),
            is_whole=pl.col("original_ns").is_not_null() | ~pl.col("flow").is_in(list(pairs)),
        )
        .drop("row", "original_ns", "queued_before_ns", "held_by_server_ns", "logged_before")
        .sort("sent_ns", maintain_order=True)
    )


def _originals(copies: pl.DataFrame, originals: pl.DataFrame) -> pl.DataFrame:
    """``row`` of the copies whose original was found, and what is known of the original.

    When it was sent is in ``original_ns``, how long it was queued in ``queued_before_ns``, how long the
    server had it in ``held_by_server_ns``, and its rows of the log in ``logged_before``; see ``ORIGINAL``.
    """
    # A copy may leave before the emulator has noted that the original was written, but not before it was due.
    came = originals.filter(pl.col("delivered_ns").is_not_null()).select(
        *("kind", "seq"),
        came_ns="delivered_ns",
        original_ns="sent_ns",
        queued_before_ns="queued_ns",
        logged_before="logged",
        stream="ssrc",
        original_timestamp="rtp_timestamp",
        ends="marker",
    )
    offsets = _offsets(copies, came)
    return (
        copies.join(offsets, on="ssrc")
        .with_columns(seq=(pl.col("seq") - pl.col("offset")) % SEQ_RANGE)
        .join(came, on=["kind", "stream", "seq"])
        .with_columns(held_ns=pl.col("sent_ns") - pl.col("came_ns"))
        .filter(pl.col("held_ns").is_between(0, LONGEST_WAY_NS))
        .sort("held_ns")
        .unique("row", keep="first")
        .select(
            *("row", "original_ns", "queued_before_ns", "original_timestamp", "logged_before"),
            original_ssrc="stream",
            held_by_server_ns="held_ns",
        )
    )


def _offsets(copies: pl.DataFrame, came: pl.DataFrame) -> pl.DataFrame:
    """For each ``ssrc`` of the copies, the ``stream`` that it copies and the ``offset`` of its numbers."""
    last = pl.col("ends") | (pl.col("kind") == "audio")
    ends = copies.filter(pl.col("marker") | (pl.col("kind") == "audio")).sort("sent_ns")
    before = ends.select("kind", "ssrc", "seq", came_ns="sent_ns").join_asof(
        came.filter(last).sort("came_ns").select("kind", "came_ns", "stream", original="seq"),
        on="came_ns",
        by="kind",
        strategy="backward",
        check_sortedness=False,  # both are sorted; polars cannot check this within groups
    )
    return (
        before.drop_nulls("original")
        .with_columns(offset=(pl.col("seq") - pl.col("original")) % SEQ_RANGE)
        .group_by("ssrc", "stream", "offset")
        .len()
        .sort("len", "offset", descending=True)
        .unique("ssrc", keep="first", maintain_order=True)
        .select("ssrc", "stream", "offset")
    )
