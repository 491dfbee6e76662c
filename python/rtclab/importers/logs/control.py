"""Decisions of a browser's congestion control, from its event log."""

from __future__ import annotations

import polars as pl

from rtclab.importers.logs.event_log import EventLog

DETECTOR_STATES = {"underuse": -1, "normal": 0, "overuse": 1}
"""Numbers of the detector's states, as the simulator's goog-cc records them."""

PROBE_FAILURES = {"invalid_send_receive_interval": 1, "invalid_send_receive_ratio": 2, "timeout": 3}

_VALUES: dict[str, dict[str, pl.Expr]] = {
    "target": {"target_bps": pl.col("target_bps"), "loss_ratio": pl.col("fraction_lost") / 255},
    "delay_based": {
        "delay_based_bps": pl.col("rate_bps"),
        "detector_state": pl.col("detector_state").replace_strict(DETECTOR_STATES, default=None),
    },
    "probe_created": {"probe_rate_bps": pl.col("rate_bps")},
    "probe_success": {"probe_bps": pl.col("rate_bps")},
    "probe_failure": {"probe_failure": pl.col("reason").replace_strict(PROBE_FAILURES, default=None)},
    "alr": {"in_alr": pl.col("in_alr")},
    "remote_estimate": {
        "remote_estimate_lower_bps": pl.col("lower_kbps") * 1000,
        "remote_estimate_upper_bps": pl.col("upper_kbps") * 1000,
    },
    "scream": {
        "target_bps": pl.col("target_kbps") * 1000,
        "ref_window_bytes": pl.col("ref_window_bytes"),
        "rtt_ms": pl.col("smoothed_rtt_ms"),
        "queue_delay_ms": pl.col("queue_delay_ms"),
        "l4s_marked_ratio": pl.col("l4s_marked_permille") / 1000,
        "in_flight_bytes": pl.col("in_flight_bytes"),
    },
}
"""By table of the log, its values in the table ``controller``, with the names of the simulator's goog-cc."""


ECT1, CE = 1, 3
"""Codes of ECN in the table ``congestion_feedback``, as in the header of IP (RFC 3168, RFC 9331)."""

_FEEDBACK: dict[str, dict[str, pl.Expr]] = {
    "transport_feedback": {"transport_wide_packets": pl.len()},
    "congestion_feedback": {
        "rfc8888_packets": pl.len(),
        "ect1_packets": (pl.col("ecn") == ECT1).sum(),
        "ce_packets": (pl.col("ecn") == CE).sum(),
    },
}
"""By table of the log, the packets that each feedback which the browser received is about."""


def control_values(log: EventLog) -> pl.DataFrame:
    """Columns ``at_ms``, ``name`` and ``value``, in order of time.

    A probe's result is logged again for each further packet of the probe, so the last result counts.
    """
    feedback = {
        table: log.tables[table]
        .filter(pl.col("sent") == 0)
        .group_by("at_ms", maintain_order=True)
        .agg(**values)
        for table, values in _FEEDBACK.items()
    }
    frames = [
        log.tables[table].select("at_ms", pl.lit(name).alias("name"), value.cast(pl.Float64).alias("value"))
        for table, values in _VALUES.items()
        for name, value in values.items()
    ]
    frames += [
        feedback[table].select(
            "at_ms", pl.lit(name).alias("name"), pl.col(name).cast(pl.Float64).alias("value")
        )
        for table, values in _FEEDBACK.items()
        for name in values
    ]
    return pl.concat(frames).drop_nulls().sort("at_ms", maintain_order=True)
