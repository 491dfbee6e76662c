"""Singh, Abello Lozano, Ott 2013: receive-side congestion control of Chrome 27 in a dummynet testbed."""

from __future__ import annotations

from rtclab.reproduce.paper import Paper, Trend, published
from rtclab.reproduce.trends import all_between, between, both, falls, percent

LATENCIES = [
    "singh2013/unconstrained",
    *(f"singh2013/latency-{ms}ms" for ms in (50, 100, 200, 500)),
]
LOSSES = ["singh2013/unconstrained", *(f"singh2013/loss-{percent}-percent" for percent in (1, 5, 10, 20))]
LOSS_AND_DELAY = "singh2013/loss-5-percent-100ms"

TITLES = {
    "I": "One-way latency added",
    "II": "Loss added",
    "III": "Capacity and queue length",
    "IV": "Two TCP downloads at each end",
    "V": "Several calls over one relay, nothing limited",
    "VI": "Full mesh of three",
    "VII": "Three over a forwarding MCU",
}

# Sending rates: with a forwarding MCU each sends one stream, to it.
MCU = {"VII/A": "alice->core", "VII/B": "bob->core", "VII/C": "carol->core"}

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

PAPER = Paper(
    name="singh2013",
    title="Performance analysis of receive-side real-time congestion control for WebRTC",
    source="V. Singh, A. Abello Lozano, J. Ott, Packet Video Workshop 2013",
    tables=published("singh2013", TITLES, transposed=("VI", "VII")),
    machines={"A": "alice->*", "B": "bob->*", "C": "carol->*"} | MCU,
    varies=VARIES,
    also=[LOSS_AND_DELAY],
    trends=[
        Trend(
            "The rate falls with latency",
            "IV-B, table I",
            "each mean rate below that of the next smaller latency, and at 500 ms 5 to 35 % of that at 0 ms "
            "(13 % in the table)",
            both(falls(LATENCIES), between(5, 35, percent(LATENCIES[-1], LATENCIES[0]), "%")),
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
            between(0, 5, lambda r: r.mean(LOSSES[-1], "residual_loss_pct"), "%"),
        ),
        Trend(
            "With 100 ms of latency retransmissions come too late",
            "IV-B, figure 4",
            "5 % and 100 ms: residual loss of 5 to 9 % (7 % in the text)",
            between(5, 9, lambda r: r.mean(LOSS_AND_DELAY, "residual_loss_pct"), "%"),
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
    ],
)
