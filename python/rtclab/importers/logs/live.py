"""Puts the event logs that the browsers of a live call left into its trace."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import polars as pl

from rtclab.errors import BadInput
from rtclab.importers.logs.control import control_values
from rtclab.importers.logs.event_log import EventLog, read_event_log
from rtclab.trace import NS_PER_MS, SCHEMAS, FlowInfo

EVER_NS = 2**62


def log_name(flow: str) -> str:
    """Name of the file, in the directory of a trace, with the event log of a flow's sender."""
    return f"event-log-{flow.replace('->', '-').replace('#', '-')}.log"


def rows_of(
    log: EventLog, participant: str, flow: str, began_monotonic_ns: int, duration_ns: int = EVER_NS
) -> pl.DataFrame:
    """The rows of a log in the table ``controller``, on the clock of the run.

    Args:
        log: the log of the flow's sender.
        participant: the flow's sender.
        flow: the flow.
        began_monotonic_ns: when the run began, on the monotonic clock of the machine.
        duration_ns: length of the run. Rows before or after the run are left out.
    """
    at_ns = pl.col("at_ms") * NS_PER_MS - began_monotonic_ns
    return (
        control_values(log)
        .select(
            at_ns.alias("at_ns"),
            pl.lit(participant).alias("participant"),
            pl.lit(flow).alias("flow"),
            "name",
            "value",
        )
        .filter(pl.col("at_ns").is_between(0, duration_ns, closed="left"))
        .cast(SCHEMAS["controller"])
    )


def controller_rows(
    directory: Path, flows: Mapping[str, FlowInfo], began_monotonic_ns: int, duration_ns: int
) -> pl.DataFrame:
    """The rows of all logs in the directory of a trace; logs that are missing or cannot be read are left out.

    Args:
        directory: the directory of the trace.
        flows: the flows of the run.
        began_monotonic_ns: see :func:`rows_of`.
        duration_ns: see :func:`rows_of`.
    """
    frames = [SCHEMAS["controller"].to_frame()]
    for flow, about in flows.items():
        path = directory / log_name(flow)
        if path.is_file():
            try:
                log = read_event_log(path)
            except BadInput:
                continue
            frames.append(rows_of(log, about.sender, flow, began_monotonic_ns, duration_ns))
    return pl.concat(frames)
