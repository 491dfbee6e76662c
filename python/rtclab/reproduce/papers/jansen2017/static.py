"""What does not change during a call: section 4.1."""

from __future__ import annotations

from rtclab.reproduce.paper import Trend
from rtclab.reproduce.papers.jansen2017.names import (
    CAPACITIES_KBPS,
    LATENCIES_MS,
    MAXIMUM_KBPS,
    UNCONSTRAINED,
    capacity,
    latency,
    loss,
)
from rtclab.reproduce.papers.jansen2017.values import (
    in_seconds,
    near,
    of,
    ordered,
    over,
    percent_of,
    percent_used,
)
from rtclab.reproduce.trends import between, both

STATIC = [
    Trend(
        "80 % of the capacity is used, at a constant rate",
        "4.1, figure 5",
        "mean over 1500, 750 and 250 kbit/s: 64 to 96 %",
        near(80, percent_used([(capacity(kbps), kbps) for kbps in CAPACITIES_KBPS]), "%"),
    ),
    Trend(
        "Without constraint the rate is what the browser allows",
        "4.1, figure 5",
        "2500 kbit/s ± 20 %",
        near(MAXIMUM_KBPS, of(UNCONSTRAINED, "rate_kbps"), "kbit/s"),
    ),
    Trend(
        "At 250 kbit/s the picture has 480x270 pixels",
        "4.1",
        "mean width of 480 pixels ± 20 %",
        near(480, of(capacity(250), "width_px"), "pixels"),
    ),
    Trend(
        "and 25 come per second",
        "4.1",
        "25 ± 20 % per second",
        near(25, of(capacity(250), "framerate_fps"), "1/s"),
        reason="how many pictures of that size 215 kbit/s show depends on the film: the encoder model "
        "spends 0.03 bit per pixel on any",
    ),
    Trend(
        "and it takes about 10 s until data flow",
        "4.1, figure 5",
        "set-up of 8 to 12 s",
        near(10, in_seconds(of(capacity(250), "setup_ms")), "s"),
        reason="offer, answer, ICE and DTLS are some kilobytes, and the first picture takes a second at "
        "250 kbit/s; what took ten there (pages, signalling over the same link, the browser) is unknown",
    ),
    Trend(
        "Latency does not affect the rate",
        "4.1, figure 6",
        "at 100, 250 and 500 ms 95 to 105 % of the rate without",
        both(
            *[
                between(
                    95, 105, percent_of(of(latency(ms), "rate_kbps"), of(UNCONSTRAINED, "rate_kbps")), "%"
                )
                for ms in LATENCIES_MS
            ]
        ),
    ),
    Trend(
        "With latency it takes longer until data flow",
        "4.1, figure 6",
        "set-up with 500 ms above that with 250, 100 and none",
        ordered(
            *[of(name, "setup_ms") for name in (*map(latency, LATENCIES_MS[::-1]), UNCONSTRAINED)], unit="ms"
        ),
    ),
    Trend(
        "About 10 s after the first data the maximum is reached, whatever the latency",
        "4.1, figure 6",
        "8 to 12 s without latency and with 100, 250 and 500 ms",
        both(*[near(10, of(name, "rise_s@0"), "s") for name in (UNCONSTRAINED, *map(latency, LATENCIES_MS))]),
        reason="of start probes at 3 and 6 times 300 kbit/s the second is found, and from 1800 kbit/s 8 "
        "% a second take ln(2250 / 1800) / ln 1.08 = 3 s; from 900 kbit/s, where the first one "
        "leads, they would take 12 s",
    ),
    Trend(
        "With 5 % of loss the rate climbs slowly to the maximum",
        "4.1, figure 7",
        "last minute of five at 2500 kbit/s ± 20 %, and above the first",
        both(
            near(MAXIMUM_KBPS, over(loss(5), 240, 300), "kbit/s"),
            ordered(over(loss(5), 240, 300), over(loss(5), 0, 60), unit="kbit/s"),
        ),
    ),
    Trend(
        "With 10 % it falls to a minimum of 50 kbit/s, almost all of it audio",
        "4.1, figure 7",
        "last minute of five at 40 to 60 kbit/s",
        near(50, over(loss(10), 240, 300), "kbit/s"),
        reason="the collapse comes out; its floor is 30 kbit/s of video, the encoder's minimum, and 32 "
        "kbit/s of Opus, with RTP headers and retransmissions. What the beeps of Chrome's fake "
        "microphone cost in Opus the paper does not say",
    ),
]
