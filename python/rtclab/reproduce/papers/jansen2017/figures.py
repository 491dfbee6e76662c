"""Figures 5 to 23, in the order of the paper."""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

from rtclab.metrics import delay, media, rate
from rtclab.metrics.series import NS_PER_S, Samples, gauge
from rtclab.reproduce.figures import LabelledFlow, Panels, Series, bars, over_time
from rtclab.reproduce.paper import Figure
from rtclab.trace import Trace

RATE, RTT, FRAMES, WIDTH = "Rate (kbit/s)", "RTT (ms)", "Frames per second", "Width (pixel)"
LOSS = "Packet loss (%)"
RUNS = 5
MEAN = "Mean over five runs, one direction."
FORWARD, BACK, DOWNLOAD = "alice->bob", "bob->alice", "download"
UNCONSTRAINED = "jansen2017/unconstrained"
PLACES = {"local": "local", "oregon": "Oregon", "sydney": "Sydney"}
RETRIES = {"-retry-1": "1", "": "automatic", "-retry-15": "15"}


def width(trace: Trace, flow: str) -> Samples:
    """Width of the received pictures in every report."""
    return gauge(trace, "inbound_rtp", flow, "frameWidth")


def sent_to_all(trace: Trace, sender: str) -> Samples:
    """What a participant sends in each second, to a server or else to everybody."""
    flows = {name: trace.manifest.flows[name] for name in trace.flows}
    sent = [name for name, flow in flows.items() if flow.sender == sender]
    own = [name for name in sent if flows[name].receiver not in trace.manifest.participants] or sent
    seconds = trace.table("flow_seconds").filter(pl.col("flow").is_in(own))
    total = seconds.group_by("at_ns").agg(pl.col("sent_bytes").sum()).sort("at_ns")
    at_s = total["at_ns"].to_numpy() / NS_PER_S + 0.5
    return Samples(at_s, total["sent_bytes"].to_numpy() * rate.KBIT_PER_BYTE)


def _one(number: str, title: str, lines: Sequence[tuple[str, str]], series: Series, unit: str) -> Figure:
    """One pair of axes: a curve per (label, scenario)."""
    drawn = [LabelledFlow(scenario, FORWARD, label, series) for label, scenario in lines]
    return over_time(number, title, MEAN, [("", drawn)], unit, RUNS)


def _both_ways(scenario: str, series: Series = rate.received_kbps) -> list[LabelledFlow]:
    return [LabelledFlow(scenario, flow, series=series) for flow in (FORWARD, BACK)]


def _two(number: str, title: str, scenario: str, series: Series, unit: str) -> Figure:
    """One pair of axes with both directions."""
    return over_time(number, title, "Mean over five runs.", [("", _both_ways(scenario, series))], unit, RUNS)


CODECS = [
    (label, f"jansen2017/codec-{name}") for label, name in (("VP8", "vp8"), ("VP9", "vp9"), ("H.264", "h264"))
]
PLATFORMS = [
    (label, f"jansen2017/platform-{name}")
    for label, name in (("Chrome", "chrome"), ("iOS", "ios"), ("Android", "android"))
]


def _four(number: str, title: str, lines: Sequence[tuple[str, str]]) -> list[Figure]:
    """Rate, round trip, width and frame rate of the same calls."""
    parts = ((rate.received_kbps, RATE), (delay.rtt_ms, RTT), (width, WIDTH), (media.decoded_fps, FRAMES))
    return [
        _one(
            f"{number}{letter}",
            f"{title}: {_what(unit)}",
            lines,
            series,
            unit,
        )
        for letter, (series, unit) in zip("abcd", parts, strict=True)
    ]


def _what(unit: str) -> str:
    """The quantity of an axis as it stands in a title."""
    return "RTT" if unit == RTT else unit.partition(" (")[0].lower()


def _groups(number: str, title: str, kind: str) -> Figure:
    panels: Panels = [
        (
            f"{people} people",
            [
                LabelledFlow(f"jansen2017/{kind}-{people}", "alice", "sent to all", sent_to_all),
                LabelledFlow(f"jansen2017/{kind}-{people}", "bob->alice", "received from one"),
            ],
        )
        for people in (2, 3, 4)
    ]
    return over_time(number, title, "Mean over five runs, of one participant.", panels, RATE, RUNS)


def _air(number: str, title: str, metric: str, unit: str, retries: Sequence[str]) -> Figure:
    """Bars for each place: near and far, with each retry limit if there are several."""
    groups = [
        (
            place_name,
            [
                LabelledFlow(
                    f"jansen2017/wireless-{place}-{fading}{limit}",
                    "wired->tablet",
                    f"{fading}, limit {RETRIES[limit]}" if len(retries) > 1 else fading,
                )
                for fading in ("near", "far")
                for limit in retries
            ],
        )
        for place, place_name in PLACES.items()
    ]
    return bars(
        number,
        title,
        "Mean over four calls with the deviation within calls, at the wireless node.",
        groups,
        metric,
        unit,
    )


AIR = (
    ("rate_kbps", RATE),
    ("rtt_ms", RTT),
    ("packet_loss_pct", LOSS),
    ("framerate_fps", FRAMES),
    ("width_px", WIDTH),
)

FIGURES = [
    _one(
        "5",
        "Limited capacity",
        [
            ("unlimited", UNCONSTRAINED),
            *((f"{kbps} kbit/s", f"jansen2017/capacity-{kbps}kbit") for kbps in (1500, 750, 250)),
        ],
        rate.received_kbps,
        RATE,
    ),
    _one(
        "6",
        "Latency",
        [("none", UNCONSTRAINED), *((f"{ms} ms", f"jansen2017/latency-{ms}ms") for ms in (100, 250, 500))],
        rate.received_kbps,
        RATE,
    ),
    _one(
        "7",
        "Loss",
        [
            ("none", UNCONSTRAINED),
            *((f"{share} %", f"jansen2017/loss-{share}-percent") for share in (5, 10, 20)),
        ],
        rate.received_kbps,
        RATE,
    ),
    _two("8", "Capacity that changes every minute", "jansen2017/capacity-schedule", rate.received_kbps, RATE),
    _two("9a", "Latency that changes: rate", "jansen2017/latency-schedule", rate.received_kbps, RATE),
    _two("9b", "Latency that changes: RTT", "jansen2017/latency-schedule", delay.rtt_ms, RTT),
    _two("10", "Loss that changes every minute", "jansen2017/loss-schedule", rate.received_kbps, RATE),
    _two("11a", "Hand-off: rate", "jansen2017/handoff", rate.received_kbps, RATE),
    _two("11b", "Hand-off: RTT", "jansen2017/handoff", delay.rtt_ms, RTT),
    over_time(
        "12",
        "Three calls that share 2000 kbit/s",
        MEAN,
        [
            (
                "",
                [
                    LabelledFlow("jansen2017/three-calls", f"{FORWARD}{number}", f"call {index}")
                    for index, number in enumerate(("", "#2", "#3"), start=1)
                ],
            )
        ],
        RATE,
        RUNS,
    ),
    over_time(
        "13",
        "A call and a TCP download that share 2000 kbit/s",
        MEAN,
        [
            (
                "",
                [
                    LabelledFlow("jansen2017/tcp", FORWARD, "call"),
                    LabelledFlow("jansen2017/tcp", DOWNLOAD, "TCP"),
                ],
            )
        ],
        RATE,
        RUNS,
    ),
    _groups("14", "Mesh", "mesh"),
    _groups("15", "SFU", "sfu"),
    *_four("16", "Codecs", CODECS),
    *_four("17", "Phones and desktop", PLATFORMS),
    *(
        _air(f"20{letter}", f"Wireless: {_what(unit)}", metric, unit, [""])
        for letter, (metric, unit) in zip("abcde", AIR, strict=True)
    ),
    *(
        _air(
            f"23{letter}",
            f"MAC retry limit: {_what(unit)}",
            metric,
            unit,
            ["-retry-1", "-retry-15"],
        )
        for letter, (metric, unit) in zip("abcde", AIR, strict=True)
    ),
]
