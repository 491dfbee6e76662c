"""Tables that ``rtclab monitor`` prints: streams, flows, RTCP and notes."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import polars as pl
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

from rtclab.cli.tables import (
    fits,
    new_table,
    part,
    print_table,
    right,
    whole,
)
from rtclab.monitoring import Tables
from rtclab.phrases import count, number
from rtclab.terminal import below
from rtclab.trace import NS_PER_S

INFERRED = "?"
"""Marks a kind of media that is inferred because there is no SDP."""
COUNTS_LOSSES = {"NACK", "TWCC", "CCFB"}
FEEDBACK = {"TWCC": "TWCC (transport-wide)", "CCFB": "CCFB (RFC 8888)"}
"""What kind of feedback on single packets a type of RTCP is."""
CODEPOINTS = {"not_ect": "Not-ECT", "ect0": "ECT(0)", "ect1": "ECT(1)", "ce": "CE"}
"""Headings of the numbers of packets by ECN codepoint."""
LEAST_NEEDED = (
    *("bytes", "encrypted", "sd", "reord", "dup", "in TURN", "other", "DTLS", "outside", "added", "PT"),
    *(
        "REMB kbit/s",
        "STUN",
        "to s",
        "from s",
        *CODEPOINTS.values(),
        "RTCP",
        "jitter A ms",
        "kbit/s A",
        "packets A",
    ),
    *("STUN RTT ms", "matched"),
)
"""Columns that a narrow terminal has no room for; the first ones go first."""
MOST_NEEDED = ("lost", "%")
"""Columns that stay even if all of their values are 0."""
TOO_NARROW = "not shown, because the terminal is narrow; --json has all"
MOST_ROWS = 100
"""Maximum number of rows of a printed table; --json, --csv and --parquet have all rows."""


def show_capture(seen: Tables) -> None:
    """Prints the streams, flows, RTCP packets and receiver reports of a capture, and the monitor's notes."""
    begin_ns = _begin_ns(seen)
    if seen["streams"].is_empty():
        print("no RTP stream\n")
    else:
        _print(streams_table(seen["streams"], begin_ns))
    if not seen["flows"].is_empty():
        _print(flows_table(seen["flows"]))
    if not seen["rtcp"].is_empty():
        _print(rtcp_table(seen))
    if not seen["reports"].is_empty():
        print_table(reports_table(seen["reports"]))
    show_notes(seen)


@contextmanager
def refreshing() -> Iterator[Callable[[Tables], None]]:
    """Shows a table of streams if the output is a terminal; yields the function that updates it."""
    console = Console(file=below(sys.stdout), markup=False, highlight=False)
    if not console.is_terminal:
        yield lambda seen: None
        return
    with Live(console=console, transient=True, auto_refresh=False) as display:

        def refresh(seen: Tables) -> None:
            table = streams_table(seen["streams"], _begin_ns(seen))
            display.update(table if fits(table) else narrow(table), refresh=True)

        yield refresh


def _print(table: Table) -> None:
    if fits(table):
        print_table(table)
        return
    console = Console(file=below(sys.stdout), markup=False, highlight=False)
    console.print(narrow(table), crop=False)
    console.print()


def narrow(table: Table) -> Group:
    """A table for a terminal that it does not fit into, with a line for each of its rows.

    Its first column, which holds addresses, becomes a line above the rows that share it. Columns that are 0
    or unknown in all rows are left out first, and then those of ``LEAST_NEEDED``; the last lines say which.
    """
    cells = [[str(cell) for cell in column.cells] for column in table.columns]
    headings = [str(column.header) for column in table.columns]
    kept = list(range(1, len(headings)))
    left_out: dict[str, list[str]] = {}

    def leave_out(columns: Sequence[int], why: str) -> None:
        gone = [index for index in columns if index in kept and not fits(part(table, kept))]
        left_out.setdefault(why, []).extend(dict.fromkeys(headings[index] for index in gone))
        kept[:] = [index for index in kept if index not in gone]

    for value, why in (("0", "0 in every row"), ("", "not known in any row")):
        for index, of_column in enumerate(cells):
            if set(of_column) == {value} and headings[index] not in MOST_NEEDED:
                leave_out([index], why)
    for name in LEAST_NEEDED:
        leave_out([index for index, heading in enumerate(headings) if heading == name], TOO_NARROW)
    shown = part(table, kept)
    fits(shown)  # gives all columns their widths
    rows = list(zip(*(column.cells for column in shown.columns), strict=True))
    lines: list[RenderableType] = [_some_rows(shown, [], heading=True)]
    for way in dict.fromkeys(cells[0]):
        of_way = [row for row, its in zip(rows, cells[0], strict=True) if its == way]
        lines += [Text(way, no_wrap=True), _some_rows(shown, of_way, heading=False)]
    return Group(*lines, *(Text(f"{why}: {', '.join(names)}") for why, names in left_out.items() if names))


def _some_rows(table: Table, rows: Sequence[Sequence[RenderableType]], *, heading: bool) -> Table:
    """Some rows of a table, in columns as wide as its own."""
    some = part(table, [])
    some.show_header = heading
    for column in table.columns:
        some.add_column(column.header, justify=column.justify, no_wrap=True, min_width=column.min_width)
    for row in rows:
        some.add_row(*row)
    return some


def streams_table(streams: pl.DataFrame, begin_ns: int) -> Table:
    """The streams in the order of their first packets; times are in seconds since ``begin_ns``."""
    counts = ("packets", "bytes", "kbit/s", "sd", "lost", "%", "dup", "reord")
    codepoints = codepoints_of(streams)
    table = new_table(
        *whole("stream", "SSRC", "PT", "kind"),
        *right(*counts, "jitter ms", *codepoints.values(), "from s", "to s"),
        tight=True,
    )
    for row in _largest(streams).sort("first_ns", "stream").iter_rows(named=True):
        table.add_row(
            _way(row),
            f"{row['ssrc']:#010x}",
            str(row["payload_type"]),
            kind(row),
            str(row["packets"]),
            str(row["bytes"]),
            _kbps(row["rate_mean_bps"]),
            _kbps(row["rate_sd_bps"]),
            str(row["lost"]),
            number(100 * row["lost"] / row["expected"]) if row["expected"] else "",
            str(row["duplicates"]),
            str(row["reordered"]),
            number(row["jitter_ms"]),
            *(str(row[name]) for name in codepoints),
            f"{(row['first_ns'] - begin_ns) / NS_PER_S:.3f}",
            f"{(row['last_ns'] - begin_ns) / NS_PER_S:.3f}",
        )
    return table


def flows_table(flows: pl.DataFrame) -> Table:
    """The number of packets of every flow, by protocol."""
    names = ("stun", "dtls", "rtp", "rtcp", "other")
    headings = ("packets", "bytes", "STUN", "DTLS", "RTP", "RTCP", "other", "in TURN")
    codepoints = codepoints_of(flows)
    table = new_table(*whole("flow", ""), *right(*headings, *codepoints.values(), "STUN RTT ms"))
    # Flows of calls have priority, because a capture may contain many other flows.
    of_calls = pl.sum_horizontal("rtp", "rtcp", "stun", "dtls") > 0
    for row in _largest(flows, of_calls).sort("flow").iter_rows(named=True):
        counts = (str(row[name]) for name in ("packets", "bytes", *names, "relayed", *codepoints))
        table.add_row(_way(row), row["transport"], *counts, number(row["stun_rtt_mean_ms"]))
    return table


def codepoints_of(table: pl.DataFrame) -> dict[str, str]:
    """The columns of ECN codepoints to show, with their headings: none if no packet is ECN-capable."""
    capable = table.select(pl.sum_horizontal("ect0", "ect1", "ce").sum()).item()
    return CODEPOINTS if capable else {}


def rtcp_table(seen: Tables) -> Table:
    """The RTCP packets of every flow, by type."""
    ways = {row["flow"]: _way(row) for row in seen["flows"].iter_rows(named=True)}
    headings = right("packets", "encrypted", "bytes", "lost", "REMB kbit/s")
    table = new_table(*whole("RTCP in flow", "sender", "type"), *headings)
    for row in _largest(seen["rtcp"]).iter_rows(named=True):
        counts = (str(row[name]) for name in ("packets", "encrypted", "bytes"))
        lost = str(row["lost"]) if row["items"] and row["type"] in COUNTS_LOSSES else ""
        sender = f"{row['ssrc']:#010x}"
        of_type = FEEDBACK.get(row["type"], row["type"])
        table.add_row(ways.get(row["flow"], ""), sender, of_type, *counts, lost, _kbps(row["remb_bps"]))
    return table


def reports_table(reports: pl.DataFrame) -> Table:
    """The receiver reports about streams, if RTCP is not encrypted."""
    headings = ("reports", "lost", "loss %", "jitter ms", "RTT ms")
    table = new_table(*whole("reported stream", "by"), *right(*headings))
    for row in _largest(reports.with_columns(packets="reports")).iter_rows(named=True):
        table.add_row(
            f"{row['ssrc']:#010x}",
            f"{row['reporter_ssrc']:#010x}",
            str(row["reports"]),
            number(row["packets_lost"]),
            number(100 * row["fraction_lost_mean"]),
            number(row["jitter_ms"]),
            number(row["rtt_mean_ms"]),
        )
    return table


def show_comparison(compared: Tables) -> None:
    """Prints the streams at both points, losses and delays between them, and the clock offset."""
    if compared["streams"].is_empty():
        print("no RTP stream was seen at both points\n")
    else:
        _print(compared_table(compared["streams"]))
        print_table(delays_table(compared["streams"]))
    for row in compared["clock"].iter_rows(named=True):
        print(clock_in_words(row))
    show_notes(compared)


def compared_table(streams: pl.DataFrame) -> Table:
    """The streams with packets and rates at both points, and the losses between them."""
    headings = (
        *("packets A", "packets B", "kbit/s A", "sd", "kbit/s B", "sd", "matched", "lost", "added"),
        *("outside",),
    )
    table = new_table(
        *whole("stream", "", "SSRC", "PT", "kind"),
        *right(*headings, "jitter A ms", "jitter B ms"),
        tight=True,
    )
    for row in _largest(streams.with_columns(packets="matched")).iter_rows(named=True):
        table.add_row(
            f"{row['source_a']} → {row['destination_b']}",
            row["direction"],
            f"{row['ssrc']:#010x}",
            str(row["payload_type"]),
            kind(row),
            str(row["packets_a"]),
            str(row["packets_b"]),
            *(_kbps(row[f"rate_{what}_{point}_bps"]) for point in "ab" for what in ("mean", "sd")),
            *(str(row[name]) for name in ("matched", "lost", "added", "outside")),
            number(row["jitter_a_ms"]),
            number(row["jitter_b_ms"]),
        )
    return table


def delays_table(streams: pl.DataFrame) -> Table:
    """One-way delays as captured, and corrected for the estimated clock offset."""
    names = ("mean", "sd", "min", "p50", "p95", "p99", "max")
    table = new_table(*whole("SSRC", "", "one-way delay, ms"), *right(*names))
    views = {"as captured": "one_way_delay", "clocks corrected": "corrected_one_way_delay"}
    for row in _largest(streams.with_columns(packets="matched")).iter_rows(named=True):
        for view, prefix in views.items():
            values = [row[f"{prefix}_{name}_ms"] for name in names]
            if values[0] is not None:
                table.add_row(f"{row['ssrc']:#010x}", row["direction"], view, *map(number, values))
    return table


def clock_in_words(row: dict[str, Any]) -> str:
    """A sentence about the offset and drift of the two clocks."""
    drift = "" if row["drift_ppm"] is None else f", which gains {row['drift_ppm']:+.3f} ppm"
    match row["method"]:
        case "same clock":
            return "both points use the same clock"
        case "both directions":
            return (
                f"estimate: B's clock is {row['offset_ms']:+.3f} ms ahead of A's, with an error of at most "
                f"{number(row['offset_error_ms'])} ms{drift}; from the smallest delays of both directions"
            )
        case "one direction":
            return f"estimate: one direction alone does not show how far B's clock is ahead of A's{drift}"
    return "the clocks cannot be compared: too few packets were seen at both points"


def _largest(table: pl.DataFrame, first: pl.Expr | None = None) -> pl.DataFrame:
    """The rows of a table with the most packets, at most ``MOST_ROWS``, in the order of the table.

    Rows where ``first`` is true have priority.
    """
    if table.height <= MOST_ROWS:
        return table
    before = pl.lit(True) if first is None else first
    numbered = table.with_row_index("order").with_columns(before.alias("before"))
    most = numbered.sort("before", "packets", "order", descending=[True, True, False]).head(MOST_ROWS)
    return most.sort("order").drop("order", "before")


def show_notes(seen: Tables) -> None:
    """Prints the monitor's notes and how to read the tables."""
    for name, table in seen.items():
        if name in ("streams", "flows", "rtcp", "reports") and table.height > MOST_ROWS:
            print(f"{name}: the {MOST_ROWS} largest of {table.height}; --json gives all")
    for row in seen["notes"].iter_rows(named=True):
        print(f"{row['note']}: {row['count']}" if row["count"] is not None else row["note"])
    if (seen["streams"]["kind_origin"] == "inferred").any():
        print(f"kind{INFERRED}: inferred from the RTP clock and timestamps; --sdp gives the actual kind")
    encrypted = int(seen["rtcp"]["encrypted"].sum()) if "rtcp" in seen else 0
    counted = f"; {count(encrypted, 'SRTCP packet')} counted only" if encrypted else ""
    print(f"only RTP headers are read{counted}")


def kind(row: dict[str, Any]) -> str:
    """The kind of media in a stream, with a question mark if it is inferred."""
    if row["kind"] is None:
        return INFERRED
    return str(row["kind"]) + (INFERRED if row["kind_origin"] == "inferred" else "")


def _way(row: dict[str, Any]) -> str:
    """Source and destination of a stream or flow, with interface and direction if the capture has them."""
    way = f"{row['source']} → {row['destination']}"
    if row.get("peer"):
        way += f" (relayed, peer {row['peer']})"
    if row.get("paths", 1) > 1:
        way += f" (over {row['paths']} flows)"
    if row["direction"]:
        way += f" {row['direction']} at {row['interface']}"
    return way


def _kbps(bps: float | None) -> str:
    return "" if bps is None else number(bps / 1000)


def _begin_ns(seen: Tables) -> int:
    first = seen["flows"]["first_ns"].min()
    return int(first) if isinstance(first, int) else 0
