"""Whatever a log or capture has, its estimate is a scenario that can be read, or a clear error."""

from __future__ import annotations

import math
import re
import tomllib
from collections.abc import Iterator
from typing import Any

import polars as pl
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

import rtclab
from rtclab import Scenario
from rtclab.errors import RtclabError
from rtclab.estimate import call_of, estimate
from rtclab.trace import NS_PER_S, CaptureInfo, Trace

NOTHING = pl.lit(None, pl.Int64)
LATE = pl.col("sent_ns") > pl.col("sent_ns").median()
ARRIVED = pl.col("delivered_ns")
COUNTERS = ("outbound_rtp", "inbound_rtp", "remote_inbound_rtp", "candidate_pair")


@pytest.fixture(scope="module")
def trace() -> Trace:
    return rtclab.simulate(Scenario.load("first-call", {"duration": "6 s"}))


def moved(columns: tuple[str, ...], seconds: float) -> list[pl.Expr]:
    """Times of the second half, later or earlier."""
    by_ns = round(seconds * NS_PER_S)
    return [pl.when(LATE).then(pl.col(one) + by_ns).otherwise(pl.col(one)).alias(one) for one in columns]


TIMES = ("sent_ns", "delivered_ns", "dropped_ns")
FAULTS = {
    "few": lambda rows, amount: rows.head(int(400 * amount)),
    "no duration": lambda rows, _: rows.with_columns(sent_ns=pl.lit(NS_PER_S), delivered_ns=NS_PER_S + 10),
    "one time of sending": lambda rows, _: rows.with_columns(sent_ns=pl.lit(NS_PER_S)),
    "one direction": lambda rows, _: rows.filter(flow="alice->bob"),
    "all lost": lambda rows, _: rows.with_columns(delivered_ns=NOTHING, dropped_ns=pl.col("sent_ns")),
    "many lost": lambda rows, amount: rows.with_columns(
        delivered_ns=pl.when(pl.col("seq") % 100 >= 100 * amount).then(ARRIVED),
        dropped_ns=pl.when(pl.col("seq") % 100 < 100 * amount).then("sent_ns"),
    ),
    "no arrivals": lambda rows, _: rows.with_columns(delivered_ns=NOTHING),
    "duplicates": lambda rows, amount: pl.concat([rows, rows.head(int(len(rows) * amount))]),
    "the sender's clock goes back": lambda rows, amount: rows.with_columns(moved(("sent_ns",), -5 * amount)),
    "the receiver's clock goes back": lambda rows, amount: rows.with_columns(
        moved(("delivered_ns",), -5 * amount)
    ),
    "a gap of hours": lambda rows, amount: rows.with_columns(moved(TIMES, 1e5 * amount)),
    "arrivals long before": lambda rows, amount: rows.with_columns(ARRIVED - round(1e12 * amount)),
    "arrivals long after": lambda rows, amount: rows.with_columns(ARRIVED + round(1e12 * amount)),
    "times before zero": lambda rows, amount: rows.with_columns(pl.col(TIMES) - round(1e12 * amount)),
    "no bytes": lambda rows, _: rows.with_columns(size_bytes=pl.lit(0, pl.Int64)),
    "audio with any timestamps": lambda rows, amount: rows.with_columns(
        kind=pl.lit("audio"), rtp_timestamp=pl.int_range(pl.len()) * int(amount * 2**31) % 2**32
    ),
    "one sequence number": lambda rows, _: rows.with_columns(seq=pl.lit(7)),
}
AMOUNTS = st.floats(0, 1)
NUMBERS = st.sampled_from([0.0, -1.0, 1e-9, 1e6, 1e15, 1e300, math.nan, math.inf, -math.inf])


def check(made_of: Trace) -> None:
    """An error of rtclab is clear; anything else fails."""
    try:
        made = estimate(call_of(made_of))
    except RtclabError as refused:
        if not re.search(r"expected|no media|too large|should be|lasts", str(refused)):
            raise
        return
    assert made.scenario.duration.s >= 5
    for number in numbers_in(tomllib.loads(made.text)):
        assert math.isfinite(number)
        assert number >= 0, made.text
    for one in made.findings:
        for number in (one.value, one.low, one.high):
            assert number is None or (math.isfinite(number) and number >= 0), one
        if one.value is not None:
            assert one.low is None or one.low <= one.value * (1 + 1e-9), one
            assert one.high is None or one.value <= one.high * (1 + 1e-9), one


def numbers_in(value: Any) -> Iterator[float]:
    """All numbers in parsed TOML, also those with a unit."""
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, list):
        for one in value:
            yield from numbers_in(one)
    elif isinstance(value, (int, float)):
        yield value
    elif isinstance(value, str) and (found := re.fullmatch(r"(\S+) (ms|s|%|\w*bit/s)", value)):
        yield float(found[1])


@settings(deadline=None, max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(faults=st.lists(st.tuples(st.sampled_from(sorted(FAULTS)), AMOUNTS), max_size=3), log=st.booleans())
def test_packets_with_any_faults_give_a_scenario_or_a_clear_error(
    trace: Trace, faults: list[tuple[str, float]], log: bool
) -> None:
    rows = trace.table("packets")
    for name, amount in faults:
        rows = FAULTS[name](rows, amount)
    check(of_packets(trace, rows, log=log))


@pytest.mark.parametrize("name", sorted(FAULTS))
def test_packets_with_one_fault_give_a_scenario_or_a_clear_error(trace: Trace, name: str) -> None:
    check(of_packets(trace, FAULTS[name](trace.table("packets"), 0.7)))


def of_packets(trace: Trace, rows: pl.DataFrame, *, log: bool = False) -> Trace:
    """The trace of a run, or of an event log, in which missing packets are gaps of sequence numbers.

    As importers do, its length is the time of its last packet.
    """
    last_ns = max((one for one in (rows["sent_ns"].max(), rows["delivered_ns"].max()) if one), default=0)
    about = CaptureInfo(files=("log",), begin_ns=0) if log else None
    changed = {"backend": "log" if log else "sim", "capture": about, "duration_ns": max(last_ns, 0)}
    return Trace.in_memory({"packets": rows}, trace.manifest.model_copy(update=changed))


REPORTS = {
    "one report": lambda rows, _: rows.filter(pl.col("at_ns") == rows["at_ns"].min()),
    "one time": lambda rows, _: rows.with_columns(at_ns=pl.lit(NS_PER_S)),
    "times go back": lambda rows, _: rows.with_columns(at_ns=6 * NS_PER_S - pl.col("at_ns")),
    "gaps of hours": lambda rows, _: rows.with_columns(pl.col("at_ns") * 5000),
    "counters go back": lambda rows, _: rows.reverse().with_columns(at_ns=rows["at_ns"]),
    "one direction": lambda rows, _: rows.filter(flow="alice->bob"),
    "nothing": lambda rows, _: rows.head(0),
}


@settings(deadline=None, max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    fault=st.sampled_from(["", *sorted(REPORTS)]),
    tables=st.sets(st.sampled_from(COUNTERS)),
    column=st.sampled_from(
        [
            "framesPerSecond",
            "roundTripTime",
            "currentRoundTripTime",
            "frameWidth",
            "frameHeight",
            "bytesSent",
            "packetsSent",
            "packetsLost",
            "headerBytesSent",
            "bytesReceived",
        ]
    ),
    number=NUMBERS,
)
@example(fault="", tables=set(), column="framesPerSecond", number=math.inf)
@example(fault="", tables=set(), column="framesPerSecond", number=1e15)
@example(fault="", tables=set(), column="frameWidth", number=1e15)
@example(fault="", tables=set(), column="roundTripTime", number=math.inf)
@example(fault="", tables=set(), column="currentRoundTripTime", number=1e300)
@example(fault="", tables=set(), column="bytesSent", number=1e15)
@example(fault="one report", tables={"remote_inbound_rtp"}, column="roundTripTime", number=math.inf)
def test_reports_with_any_faults_give_a_scenario_or_a_clear_error(
    trace: Trace, fault: str, tables: set[str], column: str, number: float
) -> None:
    found = {}
    for name in COUNTERS:
        rows = trace.table(name)
        if column in rows.columns:
            whole = rows.schema[column].is_integer()
            value = int(number) if whole and math.isfinite(number) and abs(number) < 1e18 else number
            steps = pl.int_range(pl.len()) if whole else pl.lit(1.0)
            rows = (
                rows
                if isinstance(value, float) and whole
                else rows.with_columns((steps * value).alias(column))
            )
        found[name] = REPORTS[fault](rows, 1.0) if fault and name in tables else rows
    check(Trace.in_memory(found, trace.manifest))
