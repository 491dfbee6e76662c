"""Singh, Abello Lozano, Ott 2013: receive-side congestion control of Chrome 27 in a dummynet testbed."""

from __future__ import annotations

from math import nan
from statistics import mean

from rtclab.metrics import delay, rate
from rtclab.reproduce.figures import Line, distributions, over_time
from rtclab.reproduce.measure import WHOLE_RUN
from rtclab.reproduce.paper import Paper, Trend, published, words
from rtclab.reproduce.trends import all_between, between, both, falls, percent, shares_between
from rtclab.trace import Trace

LATENCIES = [
    "singh2013/unconstrained",
    *(f"singh2013/latency-{ms}ms" for ms in (50, 100, 200, 500)),
]
LOSSES = ["singh2013/unconstrained", *(f"singh2013/loss-{percent}-percent" for percent in (1, 5, 10, 20))]
TCP = [f"singh2013/tcp-10mbit-1mbit-{ms}ms" for ms in (0, 25, 100)]
TCP_SYMMETRIC = "singh2013/tcp-10mbit-10mbit-50ms"
LOSS_AND_DELAY = "singh2013/loss-5-percent-100ms"

TITLES = {
    "I": "One-way latency added",
    "II": "Loss added",
    "III": "Capacity and queue length",
    "IV": "Two TCP flows at each end",
    "V": "Several calls over one relay, nothing limited",
    "VI": "Full mesh of three",
    "VII": "Three over a forwarding MCU",
}

VARIES = (
    "repeats",
    "calls",
    "participants.carol",
    "traffic.*",
    "link.*.capacity",
    "link.*.queue",
    "bottlenecks.pipe.capacity",
    "bottlenecks.pipe.queue",
    "bottlenecks.pipe.delay",
    "bottlenecks.pipe*.loss",
)

BOTH = ("alice->bob", "bob->alice")
PEERS = ("alice", "bob", "carol")
CALLS = [f"alice->bob{number}" for number in ("", "#2", "#3")]


def measured(trace: Trace) -> dict[str, dict[str, float]]:
    """In per cent: FEC of all packets; the first of three calls, of the others while these are young."""
    seconds = trace.table("flow_seconds")
    fec, sent = (int(seconds[name].sum()) for name in ("fec_sent_packets", "sent_packets"))
    values = {"fec_share": {WHOLE_RUN: 100 * fec / sent if sent else nan}}
    if all(flow in trace.manifest.flows for flow in CALLS):
        first, *others = (rate.receiving_rate(trace, flow, (30.0, 90.0)) for flow in CALLS)
        values["first_call_share"] = {WHOLE_RUN: 100 * first / (mean(others) or nan)}
    return values


def received(scenario: str, label: str = "", flow: str = BOTH[0]) -> Line:
    """The receiving rate of a flow."""
    return Line(scenario, flow, label)


def sent_and_received(scenario: str) -> list[Line]:
    """Both rates of both directions would be four curves; of one direction they are two."""
    return [Line(scenario, BOTH[0], "sent", rate.sent_kbps), Line(scenario, BOTH[0], "received")]


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
        [("", [Line(TCP_SYMMETRIC, flow, series=delay.one_way_delay_ms) for flow in BOTH])],
        "One-way delay (ms)",
    ),
    over_time(
        "7",
        "Three parallel calls",
        "Sending rate of one direction of each call; together, and one every 15 s.",
        [
            (title, [Line(name, flow, f"call {i}", rate.sent_kbps) for i, flow in enumerate(CALLS, start=1)])
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
                    Line("singh2013/mesh-3", f"{me}->{other}", f"to {other}", rate.sent_kbps)
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
        [("", [Line("singh2013/mcu-3", f"{me}->core", series=rate.sent_kbps) for me in PEERS])],
        RATE,
    ),
]

WORDS = words("singh2013")

PAPER = Paper(
    name="singh2013",
    title="Performance analysis of receive-side real-time congestion control for WebRTC",
    source="V. Singh, A. Abello Lozano, J. Ott, Packet Video Workshop 2013",
    tables=published("singh2013", TITLES, transposed=("VI", "VII")),
    machines={"A": "alice->*", "B": "bob->*", "C": "carol->*"},
    varies=VARIES,
    reasons=WORDS.reasons,
    measure=measured,
    figures=FIGURES,
    also=[LOSS_AND_DELAY],
    remarks=WORDS.remarks,
    trends=[
        Trend(
            "The rate falls with latency and collapses beyond 200 ms",
            "IV-B, VI, table I",
            "each mean below that of the next smaller latency; at 500 ms at most half of that at 0 ms and at "
            "least 2.5 %, the encoder's minimum (13 % in the table)",
            both(falls(LATENCIES), between(2.5, 50, percent(LATENCIES[-1], LATENCIES[0]), "%")),
        ),
        Trend(
            "The round-trip time is twice the latency: no queue builds up",
            "IV-B, table I",
            "at 500 ms the mean lies between 1000 and 1020 ms",
            between(1000, 1020, lambda results: results.mean(LATENCIES[-1], "rtt_ms"), "ms"),
        ),
        Trend(
            "The rate falls with loss",
            "IV-B, table II",
            "each mean rate from 1 % on below the one before",
            falls(LOSSES[1:]),
        ),
        Trend(
            "It hardly reacts to loss below 10 % (5 % on each leg)",
            "IV-B, table II",
            "at 5 % the rate is 60 to 100 % of that without loss (80 % in the table)",
            between(60, 100, percent(LOSSES[2], LOSSES[0]), "%"),
        ),
        Trend(
            "Loss is repaired while the round trip is short",
            "IV-B, table II",
            "at 20 %, where 36 % of the packets are lost, 0 to 5 % remain lost (2.4 % in the table)",
            between(0, 5, lambda r: r.mean(LOSSES[-1], "unseen_loss_pct"), "%"),
        ),
        Trend(
            "With 100 ms of latency retransmissions come too late",
            "IV-B, figure 4",
            "5 % and 100 ms: residual loss of 5 to 9 % (7 % in the text)",
            between(5, 9, lambda r: r.mean(LOSS_AND_DELAY, "unseen_loss_pct"), "%"),
            reason="Open: of 9.7 % that are lost, retransmission brings 6 here and 2 to 3 there.",
        ),
        Trend(
            "FEC is about 20 % of what is sent",
            "slides",
            "5 % and 100 ms: 16 to 24 % of the packets",
            between(16, 24, lambda r: r.mean(LOSS_AND_DELAY, "fec_share", WHOLE_RUN), "%"),
            reason="the code's floor of 20 % is for pictures of several packets; at 85 kbit/s they have 350 "
            "bytes, one packet, and get what the table gives",
        ),
        Trend(
            "The delay stays that of the path under loss",
            "IV-B, figure 4",
            "5 % and 100 ms: mean one-way delay of 100 to 110 ms",
            between(100, 110, lambda r: r.mean(LOSS_AND_DELAY, "owd_ms"), "ms"),
        ),
        Trend(
            "About 0.4 of 1 Mbit/s is used, whatever the queue",
            "IV-B, table III",
            "rates at 100 ms, 1 s and 10 s of queue between 300 and 500 kbit/s",
            all_between([f"singh2013/queue-1mbit-{queue}" for queue in ("100ms", "1s", "10s")], 300, 500),
        ),
        Trend(
            "It starves beside TCP, with 1 or 10 Mbit/s up and 10 Mbit/s down",
            "IV-C, table IV",
            "two flows at each end: each rate at most a third of that alone and at least 2.5 %, the "
            "encoder's minimum (4 and 25 % in the table)",
            shares_between(2.5, 100 / 3, [*TCP, TCP_SYMMETRIC], LATENCIES[0]),
        ),
        Trend(
            "The first of three calls yields to the later ones",
            "IV-D, figure 7",
            "15 s apart, its rate from 30 to 90 s is 0 to 80 % of the mean of the other two",
            between(0, 80, lambda r: r.mean("singh2013/calls-3-shifted", "first_call_share", WHOLE_RUN), "%"),
            reason="Not explained, as the rates of table V are not.",
        ),
    ],
)
