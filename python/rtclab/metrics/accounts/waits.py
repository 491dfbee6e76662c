"""The account of waits: where each picture was between the camera and the screen.

The stages of a picture add up to its delay. The packet that completed the picture tells the way: its time in
the pacer, in queues and on wires. If it was sent again, the stage ``repair`` begins when the lost one would
have come.
"""

from __future__ import annotations

import polars as pl

from rtclab.metrics.accounts.packets import packets_in_order
from rtclab.metrics.packets import were_recorded
from rtclab.metrics.series import before_end
from rtclab.trace import NS_PER_MS, Trace

STAGES: dict[str, str] = {
    "encoder": "from the camera until the first packet left: the encoder, and the wait for the pacer",
    "pacer": "until the packet left that completed the picture",
    "queues": "in the queues of the route",
    "wires": "on the wires of the route: serialisation, propagation and jitter",
    "repair": "from when a lost packet would have come until it was replaced",
    "receiver": "in the jitter buffer, the decoder and the display",
}
"""The stages of a picture in order, and what each is."""

SCHEMA = pl.Schema(
    {"flow": pl.String(), "captured_ns": pl.Int64(), "rendered_ns": pl.Int64()}
    | {f"{stage}_ns": pl.Int64() for stage in STAGES}
)
_PICTURE = ("flow", "ssrc", "rtp_timestamp")


def waits_table(trace: Trace) -> pl.DataFrame:
    """A row for each picture that was shown in the trace's window, with the ns that it spent in each stage.

    The stages add up to the time from ``captured_ns`` to ``rendered_ns``. Pictures whose packets or capture
    time are not known are left out.
    """
    return pl.concat([SCHEMA.to_frame(), *(waits_of(trace, flow) for flow in trace.flows)])


def waits_of(trace: Trace, flow: str) -> pl.DataFrame:
    """The rows of :func:`waits_table` of one flow."""
    return trace.cached_in_window(_waits, flow)


def _waits(trace: Trace, flow: str) -> pl.DataFrame:
    frames = trace.rows_of_flow("frames", flow).filter(before_end(trace, "rendered_ns"))
    frames = frames.drop_nulls(["captured_ns", "received_ns", "rendered_ns"])
    if frames.is_empty() or not were_recorded(trace):
        return SCHEMA.to_frame()
    media = packets_in_order(trace.whole, flow).filter(pl.col("kind") == "video")
    came = pl.col("delivered_ns").is_not_null()
    last = pl.col("delivered_ns") == pl.col("delivered_ns").max()
    pictures = media.group_by(_PICTURE).agg(
        first_sent_ns=pl.col("sent_ns").min(),
        last_delivered_ns=pl.col("delivered_ns").max(),
        last_sent_ns=pl.col("sent_ns").filter(last).max(),
        queued_ns=pl.col("queued_ns").filter(last).max(),
        lost_sent_ns=pl.col("sent_ns").filter(~came).max(),
    )
    way = media.group_by("flow").agg(way_ns=(pl.col("delivered_ns") - pl.col("sent_ns")).min())
    known = frames.join(pictures, on=_PICTURE).join(way, on="flow")
    repaired = pl.col("lost_sent_ns").is_not_null() & (
        pl.col("received_ns") > pl.col("last_delivered_ns")
    ).fill_null(True)
    sent_ns = pl.when(repaired).then("lost_sent_ns").otherwise("last_sent_ns")
    due_ns = pl.when(repaired).then(pl.col("lost_sent_ns") + pl.col("way_ns")).otherwise("last_delivered_ns")
    queues_ns = pl.when(repaired).then(0).otherwise(pl.col("queued_ns").fill_null(0))
    stages = known.select(
        "flow",
        "captured_ns",
        "rendered_ns",
        encoder_ns=pl.col("first_sent_ns") - pl.col("captured_ns"),
        pacer_ns=sent_ns - pl.col("first_sent_ns"),
        queues_ns=queues_ns,
        wires_ns=due_ns - sent_ns - queues_ns,
        repair_ns=pl.col("received_ns") - due_ns,
        receiver_ns=pl.col("rendered_ns") - pl.col("received_ns"),
    )
    return stages.drop_nulls().sort("flow", "rendered_ns").cast(dict(SCHEMA))  # type: ignore[arg-type]


def mean_waits_ms(trace: Trace, flow: str) -> dict[str, float]:
    """The mean time in ms of a flow's pictures in each stage; empty if none is known."""
    rows = waits_of(trace, flow)
    if rows.is_empty():
        return {}
    return {stage: float(rows[f"{stage}_ns"].to_numpy().mean()) / NS_PER_MS for stage in STAGES}
