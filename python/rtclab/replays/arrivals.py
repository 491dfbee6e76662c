"""Replay of the packets in a capture into the receive-side half of a congestion control."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from rtclab import monitoring
from rtclab.errors import BadInput
from rtclab.native_tables import table_in_seconds
from rtclab.replays.settings import ControlChoice, RateBounds
from rtclab.report.drawing import Axes, Axis, Line, Style, largest
from rtclab.report.plot import Plot

BYTES_BEFORE_PAYLOAD = 20 + 8 + 12 + 8
"""IPv4, UDP and RTP with extensions, subtracted from packets because a capture lacks payload sizes."""
NONE = -1
MOST_PANELS = 6


@dataclass(frozen=True)
class ArrivalReplay:
    """The REMBs that an estimator would have sent for the packets of a capture.

    ``rembs`` and ``values`` have a column ``flow`` (source and destination). ``seen_bps`` has, by flow, the
    last unencrypted REMB in the capture about the media of the flow.
    """

    capture: Path
    choice: ControlChoice
    rembs: pl.DataFrame
    values: pl.DataFrame
    seen_bps: dict[str, float]
    end_s: float

    def figures(self) -> dict[str, Any]:
        """For each flow, number, mean and last rate of the REMBs, as JSON values."""
        flows = [
            {
                "flow": flow,
                "rembs": rows.height,
                "mean_bps": rows["rate_bps"].mean(),
                "last_bps": rows["rate_bps"][-1],
                "last_in_capture_bps": self.seen_bps.get(flow),
            }
            for (flow,), rows in self.rembs.group_by("flow", maintain_order=True)
        ]
        return {"capture": str(self.capture), "control": str(self.choice), "flows": flows}

    def plot(self) -> Plot:
        """A plot of the REMBs of each flow over time, in kbit/s."""
        axes = []
        for (flow,), rows in list(self.rembs.group_by("flow", maintain_order=True))[:MOST_PANELS]:
            kbps = rows["rate_bps"].to_numpy() / 1000
            lines = [Line(Style.numbered(0, str(self.choice)), rows["at_s"].to_numpy(), kbps, steps=True)]
            if str(flow) in self.seen_bps:
                ends, seen = np.array([0.0, self.end_s]), self.seen_bps[str(flow)] / 1000
                lines.append(Line(Style.numbered(1, "last in the capture"), ends, np.array([seen, seen])))
            axes.append(Axes(str(flow), list(lines)))
        x = Axis("Time (s)", 0.0, self.end_s)
        y = Axis.from_zero("Rate (kbit/s)", largest([mark.y for one in axes for mark in one.marks]))
        return Plot(
            "replay",
            f"REMB of {self.choice}",
            "Rates that the estimator would report.",
            x,
            y,
            axes,
            over_time=True,
        )


def replay_capture(path: Path, choice: ControlChoice, bounds: RateBounds) -> ArrivalReplay:
    """Feeds the RTP packets of every flow of a capture to an estimator of its own.

    A packet that the capture has twice, entering and leaving, counts where it leaves: at its receiver.

    Raises:
        BadInput: the file is not a capture, has no RTP, or the control has no estimator at the receiver.
    """
    seen = monitoring.monitor(path, packets=True)
    rtp = seen["packets"].filter(pl.col("protocol") == "rtp", pl.col("ssrc").is_not_null())
    if rtp.is_empty():
        raise BadInput(f"{path}: no RTP in the capture")
    begin_ns = int(str(rtp["at_ns"].min()))
    native = bounds.native(audio=bool((rtp["kind"] == "audio").any()))
    rembs, values = [], []
    for (source, destination), packets in rtp.group_by("source", "destination", maintain_order=True):
        flow = f"{source}->{destination}"
        try:
            outbound = packets.filter(pl.col("direction") == "outbound")
            columns = _columns(packets if outbound.is_empty() else outbound, begin_ns)
            tables = choice.replayed("replay_arrivals", columns, None, bounds=native)
        except ValueError as error:
            raise BadInput(f"{path}: {error}") from None
        rembs.append(table_in_seconds(tables["remb"]).with_columns(flow=pl.lit(flow)))
        values.append(table_in_seconds(tables["values"]).with_columns(flow=pl.lit(flow)))
    all_rembs = pl.concat(rembs)
    if all_rembs.is_empty():
        raise BadInput(
            f"{path}: `{choice.name}` sent no REMB: no packet has an absolute send time",
            hint="expected a capture of a call with the header extension abs-send-time",
        )
    end_s = (int(str(rtp["at_ns"].max())) - begin_ns) / 1e9
    return ArrivalReplay(path, choice, all_rembs, pl.concat(values), _seen(seen), end_s)


def _columns(packets: pl.DataFrame, begin_ns: int) -> dict[str, Any]:
    """The columns that the native side takes."""
    columns = (
        packets.sort("at_ns", maintain_order=True)
        .select(
            pl.col("at_ns") - begin_ns,
            "ssrc",
            "seq",
            (pl.col("kind") == "audio").fill_null(False).cast(pl.Int64).alias("audio"),
            "size_bytes",
            (pl.col("size_bytes") - BYTES_BEFORE_PAYLOAD).clip(0).alias("payload_bytes"),
            "rtp_timestamp",
            pl.col("abs_send_time").fill_null(NONE),
            pl.col("transport_seq").fill_null(NONE),
        )
        .cast(pl.Int64)
    )
    return {name: np.ascontiguousarray(columns[name].to_numpy()) for name in columns.columns}


def _seen(seen: monitoring.Tables) -> dict[str, float]:
    """The last REMB in the capture, by the flow that it is about; that flow has the opposite direction."""
    rows = (
        seen["rtcp"]
        .drop_nulls("remb_bps")
        .join(seen["flows"].select("flow", "source", "destination"), on="flow")
        .select("source", "destination", "remb_bps")
    )
    return {f"{destination}->{source}": rate for source, destination, rate in rows.iter_rows()}
