"""Abello Lozano 2013: the thesis behind singh2013, same testbed, more conditions."""

from __future__ import annotations

from rtclab.metrics import delay
from rtclab.reproduce.figures import LabelledFlow, distributions, over_time, per_repeat
from rtclab.reproduce.papers import singh2013
from rtclab.reproduce.reader import read_paper

UNCONSTRAINED = "singh2013/unconstrained"
MOBILE = "examples/mobile-3g"
FIGURES = [
    per_repeat(
        "27",
        "Rate of each iteration, nothing limited",
        "Mean of each call with the deviation of its one-second samples.",
        [LabelledFlow(UNCONSTRAINED, flow) for flow in singh2013.BOTH],
    ),
    distributions(
        "29",
        "One-way delay, nothing limited",
        "All packets of three calls.",
        [("", [LabelledFlow(UNCONSTRAINED, flow) for flow in singh2013.BOTH])],
        3,
    ),
    distributions(
        "34",
        "One-way delay beside TCP, 10/10 Mbit/s",
        "All packets of three calls.",
        [("", [LabelledFlow(singh2013.TCP_SYMMETRIC, flow) for flow in singh2013.BOTH])],
        3,
    ),
    over_time(
        "35",
        "Receiving rate beside TCP, 10/1 Mbit/s",
        "One call.",
        [("", [LabelledFlow("singh2013/tcp-10mbit-1mbit-0ms", flow) for flow in singh2013.BOTH])],
        singh2013.RATE,
    ),
    over_time(
        "40",
        "Three calls, one every 30 s",
        "Receiving rate of one direction of each call.",
        [
            (
                "",
                [
                    LabelledFlow("abello2013/calls-3-shifted", flow, f"call {i}")
                    for i, flow in enumerate(singh2013.CALLS, 1)
                ],
            )
        ],
        singh2013.RATE,
    ),
    over_time(
        "48",
        "A phone on 3G and a desktop",
        "Receiving rate of one call. The bearer is a model: narrow for a minute, then wider.",
        [
            (
                "",
                [
                    LabelledFlow(MOBILE, "desktop->phone", "to the phone"),
                    LabelledFlow(MOBILE, "phone->desktop", "from the phone"),
                ],
            )
        ],
        singh2013.RATE,
    ),
    over_time(
        "49",
        "One-way delay from the phone",
        "Mean over the packets of each second of the same call.",
        [("", [LabelledFlow(MOBILE, "phone->desktop", "from the phone", delay.one_way_delay_ms)])],
        "One-way delay (ms)",
    ),
]

PAPER = read_paper("abello2013", figures=FIGURES)
