"""Pages of captures: streams with their rates, losses and jitter, and delays between two points."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from rtclab.metrics.delay import HISTOGRAM_BIN_MS, cdf_of_bins
from rtclab.metrics.series import NO_SAMPLES, SECOND_NS, Array, Samples
from rtclab.monitoring import STANDARD_INPUT, Tables
from rtclab.phrases import count, names_in_words
from rtclab.report import plot_kinds
from rtclab.report.answer import Answer, Figure, NextStep
from rtclab.report.bands import band, points_per_line, thinned
from rtclab.report.drawing import Style
from rtclab.report.page import write_page
from rtclab.report.plot import Plot
from rtclab.report.plot_kinds import Curve, Distribution, Panel
from rtclab.report.words import number
from rtclab.trace import KBIT_PER_BYTE, NS_PER_S

MOST_PANELS = 6
MOST_CURVES = 6
"""Maximum number of streams in a panel, so that each has a colour of its own."""


def write_capture_plots(out: Path, source: str, seen: Tables) -> None:
    """Plots the streams in one capture into ``out``: a page, or an image of their rates.

    ``source`` is the file or the interface, and ``seen`` the result of :func:`rtclab.monitor` with
    ``seconds``.
    """
    plots = of_streams(seen) if not seen["streams"].is_empty() else []
    _write(
        out,
        plots,
        tied=True,
        title=title(seen),
        found=answer(seen, source),
        headings=HEADINGS,
        rows=stream_rows(seen),
        notes=[_note(row) for row in seen["notes"].iter_rows(named=True)],
    )


def write_comparison_plots(out: Path, source: str, compared: Tables) -> None:
    """Plots the rates and delays of the streams in two captures into ``out``.

    ``compared`` is the result of :func:`rtclab.monitoring.follow` with ``packets``. An image holds one plot:
    the distribution of the one-way delay, corrected for the clock offset if that could be estimated.
    """
    streams = compared["streams"]
    plots = [*delays(compared), rates_at_both(compared)] if not streams.is_empty() else []
    _write(
        out,
        plots,
        title=f"{count(streams.height, 'stream')} at two points",
        found=comparison_answer(compared, source),
        rows=[],
    )


def comparison_answer(compared: Tables, source: str) -> Answer:
    """How many packets of two captures are lost between the points, and how late the others are."""
    streams = compared["streams"].sort("matched", descending=True)
    if streams.is_empty():
        return Answer(f"No RTP stream was seen at both points of {source}.")
    lost, matched = int(streams["lost"].sum()), int(streams["matched"].sum())
    share = f" ({number(100 * lost / (lost + matched))} %)" if lost else ""
    how = f"{lost} of {lost + matched} packets were lost between the points{share}."
    (clock,) = compared["clock"].to_dicts()
    known = clock["offset_ms"] is not None
    if clock["method"] == "one direction":
        how += " One direction alone does not show how far the clocks differ, so delays may be wrong by that."
    prefix = "corrected_one_way_delay" if known else "one_way_delay"
    figures = []
    for row in streams.head(MOST_FIGURES).iter_rows(named=True):
        p50, p95 = row[f"{prefix}_p50_ms"], row[f"{prefix}_p95_ms"]
        told = f"half are within {number(p50)} ms; {row['lost']} of {row['lost'] + row['matched']} lost"
        figures.append(
            Figure(
                f"Delay (95th percentile), {_name(row)}, {row['direction']}", number(p95), "ms", about=told
            )
        )
    return Answer(how, figures=figures)


HEADINGS = ("Stream", "From", "To", "Where", "Codec", "Packets", "Lost", "Lost %", "Jitter ms", "kbit/s", "s")
"""The columns of :func:`stream_rows`."""
MOST_FIGURES = 4


def title(seen: Tables) -> str:
    """What a capture holds: ``4 streams between 10.0.0.1 and 10.0.0.2, 60 s``."""
    streams = seen["streams"]
    if streams.is_empty():
        return "No RTP stream"
    hosts = dict.fromkeys(
        _host(end) for pair in streams.select("source", "destination").rows() for end in pair
    )
    span_s = (_largest_of(streams, "last_ns") - _smallest_of(streams, "first_ns")) / NS_PER_S
    own = streams.filter(pl.col("leg_of").is_null()).height
    between = f"between {names_in_words(list(hosts), 4)}" if len(hosts) > 1 else f"at {next(iter(hosts))}"
    points = streams["interface"].drop_nulls().unique(maintain_order=True).to_list()
    seen_at = f", seen at {names_in_words(points, 4)}" if len(points) > 1 else ""
    return f"{count(own, 'stream')} {between}{seen_at}, {span_s:.{0 if span_s >= 10 else 1}f} s"


UNTOLD = "headers alone do not tell; an import infers what limited the rates, and what was possible."
"""Why streams are as they are, as far as their headers say."""


def answer(seen: Tables, source: str) -> Answer:
    """What a capture says of its streams: how many packets are lost, and where most are late."""
    streams = seen["streams"]
    if streams.is_empty():
        told = "; ".join(_note(row) for row in seen["notes"].iter_rows(named=True))
        return Answer(
            f"No RTP stream was found in {source}." + (f" The monitor says: {told}." if told else "")
        )
    once = _once(streams)
    expected, lost = int(once["expected"].sum()), int(once["lost"].sum())
    if not lost:
        how = f"No packet is missing: the sequence numbers of all {expected} are there."
    else:
        most = once.sort("lost", descending=True).row(0, named=True)
        share = number(100 * lost / expected)
        how = f"{lost} of {expected} packets are missing by their sequence numbers ({share} %)"
        how += f", most of them of {_name(most)} ({_where(most)}): {most['lost']} of {most['expected']}."
        if once.height < streams.height:
            how += " A stream that was seen at several points counts where it lacks most."
    media = once.filter(~pl.col("kind").is_in(["rtx", "fec"]).fill_null(value=False)).drop_nulls("jitter_ms")
    for late in media.sort("jitter_ms", descending=True).head(1).iter_rows(named=True):
        how += f" Jitter is at most {number(late['jitter_ms'])} ms, of {_name(late)}."
    unknown = (streams["kind_origin"] == "inferred").any()
    steps = []
    if source != STANDARD_INPUT and Path(source).is_file():
        steps.append(
            NextStep("measure it as a run, with a report:", shlex.join(["rtclab", "import", source]))
        )
        if unknown:
            command = ["rtclab", "monitor", source, "--sdp", "call.sdp", "--plot", "streams.html"]
            steps.append(
                NextStep("kinds of media are inferred; with a session description:", shlex.join(command))
            )
    return Answer(how, why=UNTOLD, steps=steps, figures=_figures(once))


def _once(streams: pl.DataFrame) -> pl.DataFrame:
    """Each stream once: of its legs the one that lacks most packets, and then has most jitter."""
    by_lack = streams.sort(pl.col("lost"), pl.col("jitter_ms").fill_null(-1.0), descending=True)
    return by_lack.unique(pl.coalesce("leg_of", "stream"), keep="first", maintain_order=True)


def _figures(streams: pl.DataFrame) -> list[Figure]:
    """The largest streams: rate, loss and jitter."""
    largest = streams.drop_nulls("rate_mean_bps").sort("rate_mean_bps", descending=True).head(MOST_FIGURES)
    return [
        Figure(
            _name(row),
            number(row["rate_mean_bps"] / 1000),
            "kbit/s",
            about=f"{_where(row)}; {row['lost']} of {row['expected']} packets lost; jitter "
            + (f"{number(row['jitter_ms'])} ms" if row["jitter_ms"] is not None else "not known"),
        )
        for row in largest.iter_rows(named=True)
    ]


def stream_rows(seen: Tables) -> list[list[str]]:
    """The cells of each stream, the largest first; unknown ones are a dash."""
    rows = []
    for row in seen["streams"].sort("packets", "stream", descending=[True, False]).iter_rows(named=True):
        rate, jitter = row["rate_mean_bps"], row["jitter_ms"]
        rows.append(
            [
                _name(row),
                row["source"],
                row["destination"],
                f"{row['direction']} at {row['interface']}" if row["direction"] else row["interface"] or "–",
                row["codec"] or f"type {row['payload_type']}",
                str(row["packets"]),
                str(row["lost"]),
                number(100 * row["lost"] / row["expected"] if row["expected"] else None),
                number(jitter),
                number(None if rate is None else rate / 1000),
                f"{(row['last_ns'] - row['first_ns']) / NS_PER_S:.1f}",
            ]
        )
    return rows


def _where(stream: dict[str, Any]) -> str:
    way = f"{_host(stream['source'])} → {_host(stream['destination'])}"
    return f"{way}, {stream['direction']} at {stream['interface']}" if stream["direction"] else way


def _ways(streams: pl.DataFrame) -> list[str]:
    """Where each stream goes, in words; with ports if streams between the same hosts have several."""
    rows = streams.to_dicts()
    ends: dict[str, set[tuple[str, str]]] = {}
    for row in rows:
        ends.setdefault(_where(row), set()).add((row["source"], row["destination"]))
    if all(len(of) == 1 for of in ends.values()):
        return [_where(row) for row in rows]
    at = [f", {row['direction']} at {row['interface']}" if row["direction"] else "" for row in rows]
    return [f"{row['source']} → {row['destination']}{where}" for row, where in zip(rows, at, strict=True)]


def _host(end: str) -> str:
    """The address in an address with a port."""
    return end.rpartition(":")[0].strip("[]") or end


def _note(row: dict[str, Any]) -> str:
    return row["note"] if row["count"] is None else f"{row['note']}: {row['count']}"


def _smallest_of(table: pl.DataFrame, column: str) -> int:
    return int(table[column].min() or 0)  # type: ignore[arg-type]


def _largest_of(table: pl.DataFrame, column: str) -> int:
    return int(table[column].max() or 0)  # type: ignore[arg-type]


def of_streams(seen: Tables) -> list[Plot]:
    """Rate, packet rate, lost packets and jitter over time; no lost packets if there are none."""
    panels = f" Each panel shows up to {MOST_CURVES} streams, those with the most packets."
    found = [
        rates(seen),
        _over_time(
            seen,
            "packet-rate",
            "Packets of each stream",
            "RTP packets in each second of the capture." + panels,
            "Packets per second",
            lambda rows, at_ns, end_ns: _per_second(at_ns, rows["packets"].to_numpy(), end_ns),
        ),
    ]
    if seen["streams"]["lost"].sum():
        found.append(
            _over_time(
                seen,
                "lost",
                "Lost packets of each stream",
                "Sequence numbers in each second without a packet. One that arrives in a later second counts "
                "as lost in the second of its gap." + panels,
                "Lost packets per second",
                _lost,
            )
        )
    if seen["seconds"]["jitter_ms"].is_not_null().any():
        caption = (
            "Variation of the time between packets, smoothed (RFC 3550, 6.4.1), at the end of each second."
        )
        found.append(
            _over_time(seen, "jitter", "Jitter of each stream", caption + panels, "Jitter (ms)", _jitter)
        )
    return found


def _lost(rows: pl.DataFrame, at_ns: Array, end_ns: int) -> Samples:
    total = rows["lost"].to_numpy().astype(np.float64)
    return _per_second(at_ns, np.maximum(np.diff(total, prepend=0.0), 0.0), end_ns)


def _jitter(rows: pl.DataFrame, at_ns: Array, end_ns: int) -> Samples:
    known = rows["jitter_ms"].is_not_null().to_numpy()
    jitter_ms = rows["jitter_ms"].fill_null(0.0).to_numpy()
    return Samples(at_ns[known] // SECOND_NS + 0.5, jitter_ms[known])


def rates(seen: Tables) -> Plot:
    """Rate of the streams over time, with a panel for each pair of source and destination."""
    return _over_time(
        seen,
        "rates",
        "Rate of each stream",
        f"IP bytes in each second of the capture. Each panel shows up to {MOST_CURVES} streams, those with "
        "the most packets.",
        "Rate (kbit/s)",
        lambda rows, at_ns, end_ns: _rate(at_ns, rows["bytes"].to_numpy(), end_ns),
    )


def _over_time(
    seen: Tables,
    name: str,
    title: str,
    caption: str,
    unit: str,
    values: Callable[[pl.DataFrame, Array, int], Samples],
) -> Plot:
    """A value of the streams over time, with a panel for each pair of source and destination.

    ``values`` makes the samples of a stream from its seconds, their times and the end of the capture, both in
    ns from its begin. Streams of a single second have no curve: they are left out if others have one.
    """
    begin_ns = _smallest_of(seen["seconds"], "at_ns")
    # The last second is left out, because the capture may have stopped in the middle of it.
    end_ns = _largest_of(seen["seconds"], "at_ns")
    lengths = dict(seen["seconds"].group_by("stream").len().iter_rows())
    drawn = [key for key, seconds in lengths.items() if seconds > 1] or [*lengths]
    ways = seen["streams"].with_columns(way=pl.Series(_ways(seen["streams"]), dtype=pl.String))
    looks: dict[str, Style] = {}  # a stream has the same look in all panels
    panels = []
    for way, streams in _largest(ways.filter(pl.col("stream").is_in(drawn))):
        curves = []
        for row in streams:
            look = looks.setdefault(_name(row), Style.numbered(len(looks), _name(row)))
            rows = seen["seconds"].filter(pl.col("stream") == row["stream"]).sort("at_ns")
            at_ns = rows["at_ns"].to_numpy() - begin_ns
            curves.append(_curve(look, values(rows, at_ns, end_ns - begin_ns), len(streams)))
        panels.append(Panel(way, curves))
    return plot_kinds.over_time(name, title, caption, panels, unit)


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
    return f"{stream['kind'] or 'unknown kind'} {stream['ssrc']:#010x}"


def _curve(look: Style, rate: Samples, lines: int) -> Curve:
    return Curve(look, band([rate], points_per_line(lines)), filled=False)


def _packet_rate(packets: pl.DataFrame, column: str, end_ns: int) -> Samples:
    seen = packets.drop_nulls(column)
    if seen.is_empty():
        return NO_SAMPLES
    at_ns = seen[column].to_numpy()
    return _rate(at_ns - at_ns.min(), seen["size_bytes"].to_numpy(), end_ns - int(at_ns.min()))


def _rate(at_ns: Array, size_bytes: Array, end_ns: int) -> Samples:
    """Rate in kbit/s in each second, as of :func:`_per_second`."""
    each = _per_second(at_ns, size_bytes, end_ns)
    return Samples(each.at_s, each.values * KBIT_PER_BYTE)


def _per_second(at_ns: Array, amounts: Array, end_ns: int) -> Samples:
    """The sum of the amounts in each second from the first one to ``end_ns``; 0 in seconds without any.

    An incomplete last second is left out, because it would look like a drop, unless it is the only one.
    """
    if not at_ns.size:
        return NO_SAMPLES
    second = at_ns // SECOND_NS
    first = int(second.min())
    total = np.bincount((second - first).astype(np.int64), weights=amounts).astype(np.float64)
    whole = min(total.size, max(1, end_ns // SECOND_NS - first))
    at_s = first + np.arange(whole, dtype=np.float64) + 0.5
    return Samples(at_s, total[:whole])


def _write(out: Path, plots: Sequence[Plot], **page: Any) -> None:
    """Writes a page with the plots, or saves the first one as an image, if there is one."""
    if out.suffix == ".html":
        write_page(out, "plots.html", plots, **page)
    elif plots:
        plots[0].save(out)
