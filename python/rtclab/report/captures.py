"""Plots of captures: rates of streams, and delays between two points."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from rtclab.metrics.delay import HISTOGRAM_BIN_MS, cdf_of_bins
from rtclab.metrics.series import NO_SAMPLES, SECOND_NS, Array, Samples
from rtclab.monitoring import Tables
from rtclab.report import plot_kinds
from rtclab.report.bands import band, points_per_line, thinned
from rtclab.report.drawing import Style
from rtclab.report.page import write_plot_page
from rtclab.report.plot import Plot
from rtclab.report.plot_kinds import Curve, Distribution, Panel
from rtclab.trace import KBIT_PER_BYTE

MOST_PANELS = 6
MOST_CURVES = 6
"""Maximum number of streams in a panel, so that each has a colour of its own."""


def write_capture_plots(out: Path, title: str, seen: Tables) -> None:
    """Plots the rates of the streams in one capture into ``out``.

    ``seen`` is the result of :func:`rtclab.monitor` with ``seconds``.
    """
    _write(out, title, [rates(seen)] if not seen["streams"].is_empty() else [])


def write_comparison_plots(out: Path, title: str, compared: Tables) -> None:
    """Plots the rates and delays of the streams in two captures into ``out``.

    ``compared`` is the result of :func:`rtclab.monitoring.follow` with ``packets``. An image holds one plot:
    the distribution of the one-way delay, corrected for the clock offset if that could be estimated.
    """
    plots = [*delays(compared), rates_at_both(compared)] if not compared["streams"].is_empty() else []
    _write(out, title, plots)


def rates(seen: Tables) -> Plot:
    """Rate of the streams over time, with a panel for each pair of source and destination."""
    begin_ns = int(seen["seconds"]["at_ns"].min() or 0)  # type: ignore[arg-type]
    # The last second is left out, because the capture may have stopped in the middle of it.
    end_ns = int(seen["seconds"]["at_ns"].max() or 0)  # type: ignore[arg-type]
    ways = seen["streams"].with_columns(
        way=pl.format("{} → {}", "source", "destination")
        + pl.when(pl.col("direction").is_null())
        .then(pl.lit(""))
        .otherwise(pl.format(", {} at {}", "direction", "interface"))
    )
    looks: dict[str, Style] = {}  # a stream has the same look in all panels
    panels = []
    for way, streams in _largest(ways):
        curves = []
        for row in streams:
            look = looks.setdefault(_name(row), Style.numbered(len(looks), _name(row)))
            rows = seen["seconds"].filter(pl.col("stream") == row["stream"]).sort("at_ns")
            at_ns = rows["at_ns"].to_numpy() - begin_ns
            rate = _rate(at_ns, rows["bytes"].to_numpy(), end_ns - begin_ns)
            curves.append(_curve(look, rate, len(streams)))
        panels.append(Panel(way, curves))
    return plot_kinds.over_time(
        "rates",
        "Rate of each stream",
        f"IP bytes in each second of the capture. Each panel shows up to {MOST_CURVES} streams, those with "
        "the most packets.",
        panels,
        "Rate (kbit/s)",
    )


def rates_at_both(compared: Tables) -> Plot:
    """Rate of each stream at the capture points near its sender and its receiver, with a panel per stream."""
    panels = []
    ends_ns = {name: int(compared["packets"][name].max() or 0) for name in ("sent_ns", "delivered_ns")}  # type: ignore[arg-type]
    for row in compared["streams"].sort("packets_a", descending=True).head(MOST_PANELS).iter_rows(named=True):
        packets = compared["packets"].filter(pl.col("stream") == row["stream"])
        points = zip(("near the sender", "near the receiver"), ("sent_ns", "delivered_ns"), strict=True)
        curves = [
            _curve(Style.numbered(index, point), _packet_rate(packets, column, ends_ns[column]), 2)
            for index, (point, column) in enumerate(points)
        ]
        panels.append(Panel(_name(row), curves))
    return plot_kinds.over_time(
        "rates",
        "Rate of each stream at both points",
        "IP bytes in each second. Time starts at the stream's first packet at each point.",
        panels,
        "Rate (kbit/s)",
    )


def delays(compared: Tables) -> list[Plot]:
    """Distribution of each stream's one-way delay as captured.

    If the clocks differ, there is also the distribution corrected for the estimated clock offset.
    """
    streams = compared["streams"].sort("matched", descending=True).head(MOST_CURVES)
    (clock,) = compared["clock"].to_dicts()
    seen, corrected = [], []
    for index, row in enumerate(streams.iter_rows(named=True)):
        look = Style.numbered(index, _name(row))
        bins = compared["delay_histogram"].filter(pl.col("stream") == row["stream"]).sort("one_way_delay_ms")
        if not bins.is_empty():
            seen.append(_distribution(look, bins))
            if clock["offset_ms"]:
                packets = compared["packets"].filter(pl.col("stream") == row["stream"])
                corrected.append(_distribution(look, _corrected_bins(packets, row["direction"], clock)))
    caption = "Cumulative share of the packets seen at both points. "
    as_seen = plot_kinds.distributions(
        "delays",
        "Distribution of the one-way delay",
        caption + "Delays are as captured; they can be negative if the two clocks differ.",
        [("", seen)],
        "One-way delay (ms)",
    )
    without = plot_kinds.distributions(
        "corrected-delays",
        "Distribution of the one-way delay, clocks corrected",
        caption + "Delays are corrected for the clock offset, which is estimated from both directions.",
        [("", corrected)],
        "One-way delay, clocks corrected (ms)",
    )
    return [without, as_seen] if corrected else [as_seen]


def _corrected_bins(packets: pl.DataFrame, direction: str, clock: Mapping[str, Any]) -> pl.DataFrame:
    """Histogram of one stream's delays, corrected for the clock offset; columns as in ``delay_histogram``."""
    forwards = direction == "a->b"
    # The offset and its drift are estimated for times on A's clock.
    at_a = pl.col("sent_ns" if forwards else "delivered_ns")
    difference_ms = clock["offset_ms"] + (at_a - clock["at_ns"]) * ((clock["drift_ppm"] or 0.0) * 1e-12)
    delay_ms = pl.col("one_way_delay_ms") - (difference_ms if forwards else -difference_ms)
    return (
        packets.drop_nulls("one_way_delay_ms")
        .group_by(((delay_ms / HISTOGRAM_BIN_MS).floor() * HISTOGRAM_BIN_MS).alias("one_way_delay_ms"))
        .agg(packets=pl.len())
        .sort("one_way_delay_ms")
    )


def _distribution(look: Style, bins: pl.DataFrame) -> Distribution:
    lower_ms, packets = bins["one_way_delay_ms"].to_numpy(), bins["packets"].cast(pl.Float64).to_numpy()
    delay_ms, share = cdf_of_bins(lower_ms, packets)
    points = points_per_line(MOST_CURVES)
    return Distribution(look, thinned(delay_ms, points), thinned(share, points))


def _largest(streams: pl.DataFrame) -> list[tuple[str, list[dict[str, object]]]]:
    """The ways with the most packets, in the order of their first stream, each with its largest streams."""
    of_way = streams.group_by("way", maintain_order=True).agg(pl.col("packets").sum())
    kept = set(of_way.sort("packets", descending=True).head(MOST_PANELS)["way"])
    return [
        (way, streams.filter(way=way).sort("packets", descending=True).head(MOST_CURVES).to_dicts())
        for way in of_way["way"]
        if way in kept
    ]


def _name(stream: dict[str, object]) -> str:
    return f"{stream['kind'] or 'unknown'} {stream['ssrc']:#010x}"


def _curve(look: Style, rate: Samples, lines: int) -> Curve:
    return Curve(look, band([rate], points_per_line(lines)), filled=False)


def _packet_rate(packets: pl.DataFrame, column: str, end_ns: int) -> Samples:
    seen = packets.drop_nulls(column)
    if seen.is_empty():
        return NO_SAMPLES
    at_ns = seen[column].to_numpy()
    return _rate(at_ns - at_ns.min(), seen["size_bytes"].to_numpy(), end_ns - int(at_ns.min()))


def _rate(at_ns: Array, size_bytes: Array, end_ns: int) -> Samples:
    """Rate in kbit/s in each second from the first packet to ``end_ns``; 0 in seconds without a packet.

    An incomplete last second is left out, because it would look like a drop, unless it is the only one.
    """
    if not at_ns.size:
        return NO_SAMPLES
    second = at_ns // SECOND_NS
    first = int(second.min())
    total_bytes = np.bincount((second - first).astype(np.int64), weights=size_bytes).astype(np.float64)
    whole = min(total_bytes.size, max(1, end_ns // SECOND_NS - first))
    at_s = first + np.arange(whole, dtype=np.float64) + 0.5
    return Samples(at_s, total_bytes[:whole] * KBIT_PER_BYTE)


def _write(out: Path, title: str, plots: Sequence[Plot]) -> None:
    if out.suffix == ".html":
        write_plot_page(out, title, plots)
    elif plots:
        plots[0].save(out)
