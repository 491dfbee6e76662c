"""How well ``rtclab scenario from`` finds the path of a call: random paths, simulated, from several sources.

A path is the uplink of alice in a random condition of :mod:`rtclab_papers.validate.conditions`, if her call
loaded it. The call is simulated. Then its path is estimated from what each kind of source would have of it,
and compared with the path. From some sources the estimated scenario is simulated, too, and its rate and
freezes are compared with the interval of the original.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Executor
from dataclasses import replace
from itertools import count, islice, product
from math import isnan
from pathlib import Path
from statistics import fmean, median
from tempfile import TemporaryDirectory
from typing import Any, cast

import numpy as np
import polars as pl

from rtclab import Scenario, Trace, run, simulate
from rtclab.estimate import CallOfTwo, Estimate, call_of, estimate, read_call
from rtclab.metrics import METRICS, prediction_interval
from rtclab.scenario import GilbertElliott, Ratio
from rtclab.trace import NS_PER_MS, NS_PER_S, CaptureInfo, write_text
from rtclab_papers.csv_files import read_table, schema_of
from rtclab_papers.markdown import table
from rtclab_papers.validate.conditions import draw

FLOW, BACK = "alice->bob", "bob->alice"
FIRST_SEED, PATHS, TUNED_ON = 3001, 40, 20
"""The first seed that is tried, the number of paths, and how many of them the estimates were tuned on."""
TUNED, HELD_OUT = "tuned on", "held out"
GROUPS = (TUNED, HELD_OUT)
LOADED_MS, LOADED_SHARE = 10.0, 0.05
"""A call loads its path if this share of its packets waits this long in the queue."""
REPEATS = 8
"""Other calls of the original, and calls of the estimated scenario."""
CLOCK_NS = 1_234_567_890
"""Difference of the clocks of two captures."""
TICK_NS = 250_000
RTCP_BYTES = 90
SOURCES = (
    CAPTURES := "capture of both ends",
    TWO_CLOCKS := "two captures with two clocks",
    RECEIVER_CAPTURE := "capture at the receiver",
    SENDER_CAPTURE := "capture at the sender",
    SENDER_LOG := "event log of the sender",
    RECEIVER_LOG := "event log of the receiver",
    SENDER_STATS := "getStats of the sender",
    RECEIVER_STATS := "getStats of the receiver",
)
SIMULATED_FROM = (CAPTURES, SENDER_LOG, SENDER_STATS)
"""The sources whose estimated scenarios are simulated."""
COMPARED = {"rate": "receiving_rate", "freezes": "freeze_count_w3c"}
BOUNDS = {"capacity_error_percent": 10.0, "delay_error_ms": 5.0, "loss_error_points": 1.0}
"""By error, the bound within which the page counts it as small."""
SCHEMA = schema_of(
    "seed int, group text, source text, path text, capacity_grade text, capacity_error_percent real, "
    "capacity_in_interval flag, delay_grade text, delay_error_ms real, loss_error_points real, "
    "loss_setting_error_points real, rate_inside flag, rate_share real, freezes_inside flag, "
    "freezes_share real"
)
Row = dict[str, Any]


def loaded_seeds() -> Iterator[int]:
    """The seeds of calls that loaded their path, from ``FIRST_SEED`` on."""
    for seed in count(FIRST_SEED):
        trace = simulate(draw(seed).scenario)
        waited = trace.table("packets").filter(flow=FLOW)["queued_ns"].drop_nulls()
        if len(waited) and (waited > LOADED_MS * NS_PER_MS).sum() >= LOADED_SHARE * len(waited):
            yield seed


def evaluate(
    out: Path, groups: Sequence[str], executor: Executor | None, say: Callable[[str], None]
) -> pl.DataFrame:
    """Evaluates the paths of some groups, and writes their rows to ``out``, beside rows of other groups.

    Args:
        out: the CSV file.
        groups: ``tuned on``, ``held out`` or both.
        executor: evaluates paths in parallel.
        say: called with a line on each path.
    """
    seeds = [*islice(loaded_seeds(), PATHS)]
    of_group = {TUNED: seeds[:TUNED_ON], HELD_OUT: seeds[TUNED_ON:]}
    wanted = [(seed, group) for group in groups for seed in of_group[group]]
    results = (executor.map if executor else map)(rows_of, *zip(*wanted, strict=True))
    rows: list[Row] = []
    for (seed, _), of_seed in zip(wanted, results, strict=True):
        rows += of_seed
        say(f"{seed}: {of_seed[0]['path']}")
    kept = read_rows(out).filter(~pl.col("group").is_in(list(groups)))
    table = pl.concat([kept, pl.DataFrame(rows, schema=SCHEMA)]).sort("seed", maintain_order=True)
    write_rows(out, table)
    return table


def read_rows(file: Path) -> pl.DataFrame:
    """The rows of a file; none if there is no such file."""
    return read_table(file, SCHEMA)


def write_rows(file: Path, rows: pl.DataFrame) -> None:
    """Writes rows instead of what is in a file, with three decimals."""
    write_text(file, rows.write_csv(float_precision=3))


def rows_of(seed: int, group: str) -> list[Row]:
    """The rows of one path: a row for each source."""
    condition = draw(seed)
    with TemporaryDirectory(prefix="rtclab-from-") as folder:
        made = run(condition.scenario, repeats=1, capture=True, out=folder)
        trace = made.traces[0]
        original = _values(simulate(condition.scenario, repeat) for repeat in range(1, REPEATS + 1))
        rows = []
        for source, call in _calls(trace, Path(made.path) / "repeat-0" / "capture.pcapng", Path(folder)):
            made_of = estimate(call)
            found = _compared(condition.scenario, trace, made_of)
            row = {"seed": seed, "group": group, "source": source, "path": condition.words, **found}
            if source in SIMULATED_FROM:
                row |= _simulated(made_of, original)
            rows.append(row)
    return rows


def _calls(trace: Trace, capture: Path, folder: Path) -> Iterator[tuple[str, CallOfTwo]]:
    """The call as each source has it."""
    ends = {"10.0.0.1": "alice", "10.0.0.2": "bob"}
    yield CAPTURES, read_call([capture], names=ends)
    alice, bob = folder / "alice.pcapng", folder / "bob.pcapng"
    alice.write_bytes(at_one_end(capture.read_bytes(), "alice"))
    bob.write_bytes(at_one_end(capture.read_bytes(), "bob", CLOCK_NS))
    yield TWO_CLOCKS, read_call([alice, bob], names=ends)
    yield RECEIVER_CAPTURE, read_call([bob], names=ends)
    yield SENDER_CAPTURE, read_call([alice], names=ends)
    yield SENDER_LOG, event_log_of(trace, FLOW)
    yield RECEIVER_LOG, event_log_of(trace, BACK)
    yield SENDER_STATS, stats_of(trace, "alice")
    yield RECEIVER_STATS, stats_of(trace, "bob")


def at_one_end(pcapng: bytes, name: str, later_ns: int = 0) -> bytes:
    """The packets of one interface of a capture, with times that are later by a difference of clocks."""
    parts, at, interface, wanted = [], 0, -1, -1
    while at < len(pcapng):
        kind, length = struct.unpack_from("<II", pcapng, at)
        block = pcapng[at : at + length]
        at += length
        if kind == 1:
            interface += 1
            if name.encode() not in block:
                continue
            wanted = interface
        elif kind == 6:
            number, high, low = struct.unpack_from("<III", block, 8)
            if number != wanted:
                continue
            time_ns = (high << 32 | low) + later_ns
            block = block[:8] + struct.pack("<III", 0, time_ns >> 32, time_ns & 0xFFFFFFFF) + block[20:]
        parts.append(block)
    return b"".join(parts)


def event_log_of(trace: Trace, outgoing: str) -> CallOfTwo:
    """The call as the event log of one end has it, whose clock is not the other end's.

    The log has the RTP packets that it sent, with arrivals from feedback in steps of 250 us, and those that
    it received, whose losses are gaps. The smallest delay of both is half of the smallest time from sending
    to feedback, as when a log is imported.

    Args:
        trace: the call.
        outgoing: the flow that the end sends.
    """
    packets = trace.table("packets")
    incoming = BACK if outgoing == FLOW else FLOW
    ticks = pl.col("delivered_ns") // TICK_NS * TICK_NS
    sent = packets.filter(protocol="rtp", flow=outgoing).with_columns(
        delivered_ns=ticks, dropped_ns=pl.when(pl.col("delivered_ns").is_null()).then("sent_ns")
    )
    received = packets.filter(pl.col("delivered_ns").is_not_null(), protocol="rtp", flow=incoming)
    received = received.with_columns(delivered_ns=ticks, dropped_ns=pl.lit(None, pl.Int64))
    feedback = packets.filter(pl.col("delivered_ns").is_not_null(), protocol="rtcp", flow=incoming)
    reported = (
        sent.drop_nulls("delivered_ns")
        .sort("delivered_ns")
        .join_asof(
            feedback.select(delivered_ns="sent_ns", reported_ns="delivered_ns").sort("delivered_ns"),
            on="delivered_ns",
            strategy="forward",
        )
    )
    half_ns = cast(int, (reported["reported_ns"] - reported["sent_ns"]).min()) // 2
    off = (pl.col("delivered_ns") - pl.col("sent_ns")).min() - half_ns
    sent = sent.with_columns(delivered_ns=pl.col("delivered_ns") - off)
    received = received.with_columns(sent_ns=pl.col("sent_ns") + off)
    unknown = ["queued_ns", "written_ns", "drop_cause", "drop_path"]
    table = pl.concat([sent, received]).with_columns(
        pl.lit(None, packets.schema[name]).alias(name) for name in unknown
    )
    notes = ({"note": "the clocks of the two ends differ"},)
    call = _call(trace, {"packets": table}, CaptureInfo(files=("event-log",), begin_ns=0, notes=notes))
    directions = []
    for one in call.directions:
        rtcp = feedback if one.flow == incoming else packets.filter(protocol="rtcp", flow=one.flow)
        at_s = rtcp["sent_ns"].to_numpy() / NS_PER_S
        assert one.packets is not None
        beside = one.packets.beside(at_s, np.full(len(at_s), float(RTCP_BYTES)))
        directions.append(replace(one, packets=beside))
    return replace(call, directions=tuple(directions))


def stats_of(trace: Trace, participant: str) -> CallOfTwo:
    """The call as a log of getStats of one participant has it."""
    names = ("outbound_rtp", "inbound_rtp", "remote_inbound_rtp", "candidate_pair")
    tables = {name: trace.table(name).filter(participant=participant) for name in names}
    return _call(trace, tables, CaptureInfo(files=("getstats",), begin_ns=0))


def _call(trace: Trace, tables: dict[str, pl.DataFrame], about: CaptureInfo) -> CallOfTwo:
    """The call of which a log has these tables."""
    manifest = trace.manifest.model_copy(update={"backend": "log", "capture": about})
    return call_of(Trace.in_memory(tables, manifest))


def _compared(scenario: Scenario, trace: Trace, made: Estimate) -> Row:
    """The errors of the estimate of the flow."""
    found = {one.name: one for one in made.paths["alice"].findings}
    seconds = np.arange(0.5, trace.manifest.duration_ns / NS_PER_S)
    waited = trace.table("packets").filter(pl.col("queued_ns") > LOADED_MS * NS_PER_MS / 2, flow=FLOW)
    loaded = np.isin(seconds - 0.5, (waited["sent_ns"] // NS_PER_S).unique().to_numpy())
    row: Row = {f"{name}_grade": found[name].grade for name in ("capacity", "delay")}
    true_bps, true_ms = _course(scenario, "alice", seconds)
    own_bps, own_ms = _course(made.scenario, "alice", seconds)
    if found["capacity"].grade == "measured" and loaded.any():
        off = np.abs(np.log(own_bps[loaded] / true_bps[loaded]))
        row["capacity_error_percent"] = 100 * float(off.mean())
        if np.ptp(true_bps) == 0:
            low, high = found["capacity"].low or 0.0, found["capacity"].high or float("inf")
            row["capacity_in_interval"] = bool(low <= true_bps[0] / 1000 <= high)
    if found["delay"].value is not None:
        if found["delay"].grade != "measured":
            true_ms = (true_ms + _course(scenario, "bob", seconds)[1]) / 2
        row["delay_error_ms"] = float(np.abs(own_ms - true_ms).mean())
    if found["loss"].value is not None:
        packets = trace.table("packets").filter(flow=FLOW, protocol="rtp")
        passed = packets.filter(pl.col("drop_cause").ne_missing("queue"))
        realised = 100 * passed.filter(drop_cause="loss").height / max(passed.height, 1)
        row["loss_error_points"] = abs(found["loss"].value - realised)
        row["loss_setting_error_points"] = abs(found["loss"].value - _setting(scenario))
    return row


def _setting(scenario: Scenario) -> float:
    """Mean loss of alice's uplink in per cent."""
    loss = scenario.link_of("alice").up.loss
    if loss is None:
        return 0.0
    if isinstance(loss, GilbertElliott):
        return 100 * loss.p.value / (loss.p.value + loss.r.value)
    return 100 * cast(Ratio, loss).value


def _course(scenario: Scenario, name: str, seconds: Any) -> tuple[Any, Any]:
    """Capacity in bit/s (infinite without limit) and delay in ms of an uplink at some times."""
    changes = [change for change in scenario.path_changes() if change[1] == f"{name}.up"]
    at_s = np.array([change[0] / NS_PER_S for change in changes])
    index = np.maximum(np.searchsorted(at_s, seconds, side="right") - 1, 0)
    bps = np.array([float("inf") if change[2] is None else change[2] for change in changes])
    return bps[index], np.array([change[3] for change in changes])[index]


def _values(traces: Iterable[Trace]) -> dict[str, list[float]]:
    """The compared values of each call."""
    found: dict[str, list[float]] = {name: [] for name in COMPARED}
    for trace in traces:
        for name, metric in COMPARED.items():
            value = METRICS[metric].function(trace, FLOW)
            found[name] += [] if isnan(value) else [value]
    return found


def _simulated(made: Estimate, original: dict[str, list[float]]) -> Row:
    """Whether calls of the estimated scenario lie in the 95 % prediction interval of the original."""
    own = _values(made.simulated(REPEATS))
    row: Row = {}
    for name, values in original.items():
        if len(values) > 1 and own[name]:
            low, high = prediction_interval(values)
            row[f"{name}_inside"] = low <= fmean(own[name]) <= high
            row[f"{name}_share"] = fmean(low <= value <= high for value in own[name])
    return row


def tables(rows: pl.DataFrame) -> list[str]:
    """The tables of the page: errors by source, and calls of estimated scenarios."""

    def cells(source: str, group: str, of: Callable[[pl.DataFrame], Iterable[str]]) -> list[str]:
        own = rows.filter(source=source, group=group)
        return [f"{source}, {group}", str(own.height), *of(own)]

    def errors(own: pl.DataFrame) -> Iterator[str]:
        for column, bound in BOUNDS.items():
            known = own[column].drop_nulls().to_list()
            yield _share(own[column] <= bound) if known else "–"
            yield f"{median(known):.2f}, {max(known):.2f}" if known else "–"

    def inside(own: pl.DataFrame) -> Iterator[str]:
        return (_share(own[f"{name}_inside"]) for name in COMPARED)

    heads = ["capacity within 10 %", "median, largest (%)", "delay within 5 ms", "median, largest (ms)"]
    heads += ["loss within 1 point", "median, largest (points)"]
    return [
        table(["source", "paths", *heads], [cells(*one, errors) for one in product(SOURCES, GROUPS)]),
        table(
            ["simulated from", "paths", "rate inside", "freezes inside"],
            [cells(*one, inside) for one in product(SIMULATED_FROM, GROUPS)],
        ),
    ]


def _share(holds: pl.Series) -> str:
    """In how many of the known cases something holds, such as ``19 of 20``."""
    known = holds.drop_nulls()
    return f"{int(known.sum())} of {known.len()}"


def sentence(rows: pl.DataFrame, group: str) -> str:
    """What the page says of captures of both ends, in one sentence."""
    own = rows.filter(source=CAPTURES, group=group)
    capacity, delay, loss = (_share(own[name] <= bound) for name, bound in BOUNDS.items())
    rate, freezes = (_share(own[f"{name}_inside"]) for name in COMPARED)
    return (
        f"capacity within 10 % in {capacity}, delay within 5 ms in {delay}, loss within 1 percentage point "
        f"in {loss}; simulated, the rate is inside in {rate} and freezes are in {freezes}"
    )
