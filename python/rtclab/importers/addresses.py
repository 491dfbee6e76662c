"""Ends of captured calls whose addresses change, or that use several at once."""

from __future__ import annotations

import polars as pl

from rtclab.monitoring import Tables
from rtclab.trace import NS_PER_S

SETTLED_NS = NS_PER_S
"""A stream has changed its addresses if it has others for this long. If not, it uses several at once."""

MOST_NOTES = 10
"""Further changes are in the table of events alone."""

_END = ["source", "destination"]


def first_addresses(seen: Tables) -> dict[str, str]:
    """The first address of an end by each of its other ones, as the streams of ``seen`` tell that continue.

    ``seen`` is the result of :func:`rtclab.monitor` with ``packets``.
    """
    several = seen["streams"].filter(pl.col("paths") > 1)
    ways = seen["packets"].select("stream", *_END).unique(maintain_order=True)
    joined = several.select("stream", *_END).join(ways, on="stream", suffix="_now")
    now = {name: joined[f"{name}_now"] for name in _END}
    return {
        address: first
        for name in _END
        for address, first in zip(now[name], joined[name], strict=True)
        if address != first
    }


def with_first_addresses(seen: Tables) -> Tables:
    """The tables of a capture, in which packets and flows have the first address of each end."""
    first = first_addresses(seen)
    if not first:
        return seen
    renamed = [pl.col(name).replace(first) for name in _END]
    return {**seen, **{name: seen[name].with_columns(renamed) for name in ("packets", "flows")}}


def changes(packets: pl.DataFrame) -> pl.DataFrame:
    """When participants changed their addresses, as rows of the table ``events``.

    Args:
        packets: RTP packets with ``at_ns``, ``flow``, ``stream``, ``source`` and ``destination``. The last
            two are the addresses that each packet had.
    """
    runs = (
        packets.sort("at_ns", maintain_order=True)
        .with_columns(run=pl.struct(_END).rle_id().over("stream"))
        .group_by("stream", "run", maintain_order=True)
        .agg(pl.col("flow", *_END).first(), at_ns=pl.col("at_ns").first(), end_ns=pl.col("at_ns").last())
        .filter(pl.col("end_ns") - pl.col("at_ns") >= SETTLED_NS)
        .with_columns(
            pl.col("flow").str.split_exact("->", 1).struct.rename_fields(["sender", "receiver"]).alias("ends")
        )
        .unnest("ends")
    )
    back = pl.format("{}->{}", "receiver", "sender")
    there_is = back.is_in(packets["flow"].unique().to_list())
    ways = [
        _changed(runs, "sender", "source", pl.when(there_is).then(back)),
        _changed(runs, "receiver", "destination", pl.col("flow")),
    ]
    # Streams change one after the other.
    return (
        pl.concat(ways)
        .sort("at_ns", maintain_order=True)
        .filter(pl.col("now").ne_missing(pl.col("now").shift().over("participant")))
        .select(
            *("at_ns", "participant", "flow"),
            event=pl.lit("route_changed"),
            detail=pl.format("from {} to {}", "before", "now"),
        )
    )


def changes_in_words(events: pl.DataFrame) -> list[dict[str, str | None]]:
    """Notes on the first of these changes, as rows of the monitor's table ``notes``."""
    shown = events.head(MOST_NOTES).select("participant", "at_ns", "detail").rows()
    return [
        {"note": f"{who} changed its address at {at_ns / NS_PER_S:.3f} s, {detail}", "count": None}
        for who, at_ns, detail in shown
    ]


def _changed(runs: pl.DataFrame, end: str, address: str, receives: pl.Expr) -> pl.DataFrame:
    """The times at which an end of a stream had another address than before."""
    before = pl.col(address).shift().over("stream")
    made = runs.select(
        "at_ns", pl.col(end).alias("participant"), receives.alias("flow"), before.alias("before"), now=address
    )
    return made.filter(pl.col("before") != pl.col("now"))
