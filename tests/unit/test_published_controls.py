"""Congestion controls against figures that others published.

Sources are in the docstring of each test. The papers' own figures are of other code, so bounds are wide where a
figure was read from a plot, and only the order is compared where versions differ.
"""

from __future__ import annotations

from statistics import mean
from typing import Any

import pytest

import rtclab
from rtclab import Trace
from rtclab.metrics import METRICS, rate

VIDEO = {"width": 1920, "height": 1080, "frame_rate": 30, "max_bitrate": "8 Mbit/s"}
FLOW = "alice->bob"


def of_flow(trace: Trace, metric: str, window: tuple[float, float]) -> float:
    """A metric of the call's media in a time."""
    return METRICS[metric].function(trace, FLOW, window)


def test_three_flows_of_goog_cc_take_turns_at_the_start_and_share_in_the_end() -> None:
    """SoonyangZhang/rmcat-ns3 516403d, figure of three GCC flows on 4 Mbit/s that start 40 s apart.

    There the first flow grows from 0.5 to 3.6 Mbit/s in 26 s, and 250 s after its start the highest of the three
    rates is less than 1.5 times the lowest.
    """
    pairs = [(f"sender-{n}", f"receiver-{n}") for n in (1, 2, 3)]
    scenario: dict[str, Any] = {
        "name": "three-of-goog-cc",
        "duration": "270 s",
        "participants": {one: {} for pair in pairs for one in pair}
        | {receiver: {"video": False} for _, receiver in pairs},
        "calls": [{"participants": list(pair), "start": f"{40 * n} s"} for n, pair in enumerate(pairs)],
        "bottlenecks": {
            "forward": {
                "routes": [f"{sender}->{receiver}" for sender, receiver in pairs],
                "capacity": "4 Mbit/s",
                "delay": "50 ms",
                "queue": "300 ms",
            },
            "backward": {
                "routes": [f"{receiver}->{sender}" for sender, receiver in pairs],
                "delay": "50 ms",
            },
        },
        "video": VIDEO | {"start_bitrate": "500 kbit/s"},
    }
    first_s, spread = [], []
    for seed in range(3):
        trace = rtclab.simulate(scenario, seed=seed)
        seconds = range(1, 40)
        rates = {s: rate.receiving_rate(trace, "sender-1->receiver-1", (s, s + 1)) for s in seconds}
        first_s.append(next((s for s, kbps in rates.items() if kbps >= 3600), 40))
        shares = [rate.receiving_rate(trace, f"{a}->{b}", (220, 270)) for a, b in pairs]
        spread.append(max(shares) / min(shares))
    assert (mean(first_s), mean(spread)) == (0, 0)


def call(control: str, **link: Any) -> list[Trace]:
    """Three calls of two people with a control over a link of alice's."""
    scenario = {
        "name": "order",
        "duration": "60 s",
        "congestion_control": {"name": control},
        "participants": {"alice": {"link": {"up": {"capacity": "2 Mbit/s", "delay": "25 ms"} | link}}, "bob": {}},
        "video": VIDEO,
    }
    return [rtclab.simulate(scenario, seed=seed) for seed in range(3)]


def found(traces: list[Trace], metric: str, window: tuple[float, float] = (20.0, 60.0)) -> float:
    """Mean of a metric over traces."""
    return mean(of_flow(trace, metric, window) for trace in traces)


def test_scream_of_rfc_8298_has_the_shortest_queue_and_uses_least() -> None:
    """arXiv 1809.00304: the order of SCReAM, NADA and GCC on a link with a queue of 300 ms."""
    traces = {name: call(name, queue="300 ms") for name in ("scream-rfc8298", "nada", "goog-cc")}
    waits = {name: found(own, "queuing_delay_p50") for name, own in traces.items()}
    used = {name: found(own, "utilisation") for name, own in traces.items()}
    settles = {name: found(own, "convergence_time", (0.0, 60.0)) for name, own in traces.items()}
    assert (waits, used, settles) == ({}, {}, {})


def test_random_loss_costs_goog_cc_less_than_scream_of_rfc_8298() -> None:
    """arXiv 1809.00304: GCC keeps more of its rate under random loss."""
    rates = {
        name: found(call(name, queue="300 ms", loss="3 %"), "receiving_rate")
        for name in ("scream-rfc8298", "nada", "goog-cc")
    }
    assert rates == {}


@pytest.mark.parametrize("aqm", ["codel", "pie"])
def test_a_queue_that_drops_early_raises_the_loss_of_goog_cc(aqm: str) -> None:
    """Carlucci et al. 2016: behind CoDel and PIE GCC loses more packets than behind drop-tail."""
    dropped = found(call("goog-cc", queue={"aqm": aqm}), "packet_loss")
    tail = found(call("goog-cc", queue="300 ms"), "packet_loss")
    assert (dropped, tail) == (0, 0)
