"""Abello Lozano 2013: the thesis behind singh2013, same testbed, more conditions."""

from __future__ import annotations

from rtclab.metrics import delay
from rtclab.reproduce.figures import Line, distributions, over_time, per_repeat
from rtclab.reproduce.paper import Paper, Trend, published, words
from rtclab.reproduce.papers import singh2013
from rtclab.reproduce.trends import all_between, between

LOSS_AND_DELAY = [f"abello2013/loss-10-percent-{ms}ms" for ms in (25, 50, 100, 200)]
LOSS_ALONE = "singh2013/loss-10-percent"

TITLES = {
    "2": "One-way latency added",
    "3": "Loss added",
    "4": "10 % loss and latency added",
    "5": "500 kbit/s and queue length",
    "6": "1 Mbit/s and queue length",
    "7": "5 Mbit/s and queue length",
    "8": "Nothing limited",
    "9": "Two TCP flows at each end",
    "10": "Two calls",
    "11": "Three calls together",
    "12": "Three calls, one every 30 s",
    "13": "Full mesh of three",
    "14": "Three over a switching MCU",
}

UNCONSTRAINED = "singh2013/unconstrained"
MOBILE = "examples/mobile-3g"
FIGURES = [
    per_repeat(
        "27",
        "Rate of each iteration, nothing limited",
        "Mean of each call with the deviation of its one-second samples.",
        [Line(UNCONSTRAINED, flow) for flow in singh2013.BOTH],
    ),
    distributions(
        "29",
        "One-way delay, nothing limited",
        "All packets of three calls.",
        [("", [Line(UNCONSTRAINED, flow) for flow in singh2013.BOTH])],
        3,
    ),
    distributions(
        "34",
        "One-way delay beside TCP, 10/10 Mbit/s",
        "All packets of three calls.",
        [("", [Line(singh2013.TCP_SYMMETRIC, flow) for flow in singh2013.BOTH])],
        3,
    ),
    over_time(
        "35",
        "Receiving rate beside TCP, 10/1 Mbit/s",
        "One call.",
        [("", [Line(singh2013.TCP[0], flow) for flow in singh2013.BOTH])],
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
                    Line("abello2013/calls-3-shifted", flow, f"call {i}")
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
                    Line(MOBILE, "desktop->phone", "to the phone"),
                    Line(MOBILE, "phone->desktop", "from the phone"),
                ],
            )
        ],
        singh2013.RATE,
    ),
    over_time(
        "49",
        "One-way delay from the phone",
        "Mean over the packets of each second of the same call.",
        [("", [Line(MOBILE, "phone->desktop", "from the phone", delay.one_way_delay_ms)])],
        "One-way delay (ms)",
    ),
]

WORDS = words("abello2013")

PAPER = Paper(
    name="abello2013",
    title="Performance analysis of topologies for Web-based real-time communication",
    source="A. Abello Lozano, M.Sc. thesis, Aalto University 2013",
    tables=published("abello2013", TITLES, transposed=tuple(TITLES)),
    machines={"A": "alice->*", "B": "bob->*", "C": "carol->*"},
    varies=singh2013.VARIES,
    reasons=singh2013.WORDS.reasons | WORDS.reasons,
    figures=FIGURES,
    remarks=WORDS.remarks,
    trends=[
        Trend(
            "With 10 % loss on each leg any latency leaves barely 60 kbit/s",
            "6.3.3, table 4",
            "rates at 25, 50, 100 and 200 ms between 40 and 90 kbit/s",
            all_between(LOSS_AND_DELAY, 40, 90),
            reason="The row of 25 ms contradicts itself: its round trip is 30 ms more than twice the delay. "
            "With 40 ms, half of what it prints, ours is 99 kbit/s.",
        ),
        Trend(
            "Without latency the same loss leaves over 1 Mbit/s",
            "6.3.3, table 3",
            "rate between 900 and 1400 kbit/s",
            between(900, 1400, lambda results: results.mean(LOSS_ALONE, "media_rate_kbps"), "kbit/s"),
        ),
        Trend(
            "About 0.4 of 500 kbit/s is used, whatever the queue",
            "6.3.4, table 5",
            "rates at 100 ms, 500 ms, 1 s and 10 s of queue between 150 and 250 kbit/s",
            all_between(
                [f"abello2013/queue-500kbit-{queue}" for queue in ("100ms", "500ms", "1s", "10s")], 150, 250
            ),
        ),
    ],
)
