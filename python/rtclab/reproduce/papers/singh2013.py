"""Singh, Abello Lozano, Ott 2013: receive-side congestion control of Chrome 27 in a dummynet testbed."""

from __future__ import annotations

from math import nan
from statistics import mean

import polars as pl

from rtclab.metrics import delay, rate
from rtclab.reproduce.figures import LabelledFlow, distributions, over_time
from rtclab.reproduce.measure import WHOLE_RUN
from rtclab.reproduce.reader import read_paper
from rtclab.trace import Trace

LATENCIES = [
    "singh2013/unconstrained",
    *(f"singh2013/latency-{ms}ms" for ms in (50, 100, 200, 500)),
]
LOSSES = ["singh2013/unconstrained", *(f"singh2013/loss-{percent}-percent" for percent in (1, 5, 10, 20))]
TCP_SYMMETRIC = "singh2013/tcp-10mbit-10mbit-50ms"
LOSS_AND_DELAY = "singh2013/loss-5-percent-100ms"

BOTH = ("alice->bob", "bob->alice")
PEERS = ("alice", "bob", "carol")
CALLS = [f"alice->bob{number}" for number in ("", "#2", "#3")]


def measured(trace: Trace) -> dict[str, dict[str, float]]:
    """Shares in per cent, where there is what they are about: see ``fec_share`` and ``first_call_share``."""
    values = {}
    if "packets" in trace.tables:
        values["fec_share"] = {WHOLE_RUN: fec_share(trace)}
    if all(flow in trace.manifest.flows for flow in CALLS):
        values["first_call_share"] = {WHOLE_RUN: first_call_share(trace)}
    return values


def fec_share(trace: Trace) -> float:
    """FEC as a share of the rate sent, in per cent: IP bytes of FEC of those of all RTP, repair included.

    Source: the slides, "FEC is ~20% of the average send rate".
    """
    rtp = trace.table("packets").filter(pl.col("protocol") == "rtp")
    fec_bytes = int(rtp.filter(pl.col("kind") == "fec")["size_bytes"].sum())
    return 100 * fec_bytes / (int(rtp["size_bytes"].sum()) or nan)


def first_call_share(trace: Trace) -> float:
    """Receiving rate of the first of three calls from 30 to 90 s, in per cent of the mean of the others."""
    first, *others = (rate.receiving_rate(trace, flow, (30.0, 90.0)) for flow in CALLS)
    return 100 * first / (mean(others) or nan)


def received(scenario: str, label: str = "", flow: str = BOTH[0]) -> LabelledFlow:
    """The receiving rate of a flow."""
    return LabelledFlow(scenario, flow, label)


def sent_and_received(scenario: str) -> list[LabelledFlow]:
    """Both rates of both directions would be four curves; of one direction they are two."""
    return [
        LabelledFlow(scenario, BOTH[0], "sent", rate.sent_kbps),
        LabelledFlow(scenario, BOTH[0], "received"),
    ]


RATE = "Rate (kbit/s)"
FIGURES = [
    over_time(
        "2",
        "Receiving rate with latency",
        "One call of each condition, one direction.",
        [
            (
                "",
                [
                    received(name, f"{ms} ms")
                    for name, ms in zip(LATENCIES, (0, 50, 100, 200, 500), strict=True)
                ],
            )
        ],
        RATE,
    ),
    over_time(
        "3",
        "Receiving rate with loss",
        "One call of each condition, one direction; loss as configured, on each leg.",
        [("", [received(name, f"{share} %") for name, share in zip(LOSSES, (0, 1, 5, 10, 20), strict=True)])],
        RATE,
    ),
    over_time(
        "4a",
        "5 % of loss and 100 ms",
        "Sending and receiving rate of one call.",
        [("", sent_and_received(LOSS_AND_DELAY))],
        RATE,
    ),
    distributions(
        "4b",
        "One-way delay with 5 % of loss and 100 ms",
        "All packets of three calls.",
        [("", [received(LOSS_AND_DELAY, "", flow) for flow in BOTH])],
        3,
    ),
    over_time(
        "5",
        "Queues of 10 s",
        "Sending and receiving rate of one call over 1 and 5 Mbit/s.",
        [
            (f"{capacity} Mbit/s", sent_and_received(f"singh2013/queue-{capacity}mbit-10s"))
            for capacity in (1, 5)
        ],
        RATE,
    ),
    over_time(
        "6a",
        "Beside two TCP flows at each end, 10/10 Mbit/s",
        "Sending and receiving rate of one call.",
        [("", sent_and_received(TCP_SYMMETRIC))],
        RATE,
    ),
    over_time(
        "6b",
        "The same call's delay",
        "Mean over the packets of each second.",
        [("", [LabelledFlow(TCP_SYMMETRIC, flow, series=delay.one_way_delay_ms) for flow in BOTH])],
        "One-way delay (ms)",
    ),
    over_time(
        "7",
        "Three parallel calls",
        "Sending rate of one direction of each call; together, and one every 15 s.",
        [
            (
                title,
                [
                    LabelledFlow(name, flow, f"call {i}", rate.sent_kbps)
                    for i, flow in enumerate(CALLS, start=1)
                ],
            )
            for title, name in (
                ("together", "singh2013/calls-3"),
                ("15 s apart", "singh2013/calls-3-shifted"),
            )
        ],
        RATE,
    ),
    over_time(
        "9",
        "Sending rate in a mesh",
        "What each sends each other.",
        [
            (
                f"peer {me}",
                [
                    LabelledFlow("singh2013/mesh-3", f"{me}->{other}", f"to {other}", rate.sent_kbps)
                    for other in PEERS
                    if other != me
                ],
            )
            for me in PEERS
        ],
        RATE,
    ),
    over_time(
        "11",
        "Sending rate to an MCU",
        "What each sends the MCU.",
        [("", [LabelledFlow("singh2013/mcu-3", f"{me}->core", series=rate.sent_kbps) for me in PEERS])],
        RATE,
    ),
]

PAPER = read_paper("singh2013", figures=FIGURES, measure=measured)
