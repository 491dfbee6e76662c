"""Congestion controls against figures that others published, and where ours differ.

Sources are in the docstring of each test. The published figures are of other code, so bounds are wide where a
figure was read from a plot, and only the order is compared where versions differ. A figure that is not met is
named as such, with ours.
"""

from __future__ import annotations

from statistics import mean
from typing import Any

import rtclab
from rtclab import Scenario, Trace
from rtclab.metrics import METRICS, rate

VIDEO = {"width": 1920, "height": 1080, "frame_rate": 30, "max_bitrate": "8 Mbit/s"}
FLOW = "alice->bob"


def of_flow(trace: Trace, metric: str, window: tuple[float, float]) -> float:
    """A metric of the call's media in a time."""
    return METRICS[metric].function(trace.within(window), FLOW)


def test_three_flows_of_goog_cc_take_turns_at_the_start_and_share_in_the_end() -> None:
    """SoonyangZhang/rmcat-ns3 516403d, figure of three GCC flows on 4 Mbit/s that start 40 s apart.

    There the first flow grows from 0.5 to 3.6 Mbit/s in 26 s, and 250 s after its start the highest of
    the three rates is less than 1.5 times the lowest. Not met: ours has 1.6 to 1.8 in means of 20 calls, with
    a standard error of 0.1. Not met, either: goog-cc of 2026 probes, and its first flow is there in 5 s.
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
    for seed in range(20):
        trace = rtclab.simulate(Scenario.read(scenario | {"seed": seed}, "test"))
        seconds = range(1, 40)
        rates = {s: rate.receiving_rate(trace.within((s, s + 1)), "sender-1->receiver-1") for s in seconds}
        first_s.append(next((s for s, kbps in rates.items() if kbps >= 3600), 40))
        shares = [rate.receiving_rate(trace.within((220, 270)), f"{a}->{b}") for a, b in pairs]
        spread.append(max(shares) / min(shares))
    assert 3 <= mean(first_s) <= 8
    assert 1 <= mean(spread) < 2


def call(control: str, **link: Any) -> list[Trace]:
    """Three calls of two people with a control over a link of alice's."""
    scenario = {
        "name": "order",
        "duration": "60 s",
        "congestion_control": {"name": control},
        "participants": {
            "alice": {"link": {"up": {"capacity": "2 Mbit/s", "delay": "25 ms"} | link}},
            "bob": {},
        },
        "video": VIDEO,
    }
    return [rtclab.simulate(Scenario.read(scenario | {"seed": seed}, "test")) for seed in range(3)]


def found(traces: list[Trace], metric: str, window: tuple[float, float] = (20.0, 60.0)) -> float:
    """Mean of a metric over traces."""
    return mean(of_flow(trace, metric, window) for trace in traces)


def test_nada_settles_before_scream_of_rfc_8298_and_goog_cc_has_the_shortest_queue() -> None:
    """arXiv 1809.00304: the order of SCReAM, NADA and GCC on a link with a queue of 300 ms.

    NADA settles first there. Here it settles long before SCReAM, and goog-cc is as fast, because it
    probes. Not met: SCReAM has the shortest queue and the lowest rate there. RFC 8298 aims at 100 ms,
    and ours stays below that.
    """
    traces = {name: call(name, queue="300 ms") for name in ("scream-rfc8298", "nada", "goog-cc")}
    waits = {name: found(own, "queuing_delay_p50") for name, own in traces.items()}
    settles = {name: found(own, "convergence_time", (0.0, 60.0)) for name, own in traces.items()}
    assert waits["goog-cc"] < waits["nada"] < waits["scream-rfc8298"] < 100
    assert max(settles["nada"], settles["goog-cc"]) < settles["scream-rfc8298"] / 2
    assert all(80 <= found(own, "utilisation") <= 100 for own in traces.values())


def test_random_loss_costs_goog_cc_less_than_scream_of_rfc_8298_and_nada() -> None:
    """arXiv 1809.00304: GCC keeps more of its rate under random loss."""
    rates = {
        name: found(call(name, queue="300 ms", loss="3 %"), "receiving_rate")
        for name in ("scream-rfc8298", "nada", "goog-cc")
    }
    assert rates["goog-cc"] > 1.5 * max(rates["nada"], rates["scream-rfc8298"])
    assert min(rates.values()) > 500


def test_codel_raises_the_loss_of_goog_cc_and_pie_does_not() -> None:
    """Carlucci et al. 2016: behind CoDel and PIE GCC loses more packets than behind drop-tail.

    Not met by PIE, which drops hardly anything of one flow of goog-cc.
    """
    whole = (0.0, 60.0)
    codel, pie, tail = (
        found(call("goog-cc", queue=queue), "packet_loss", whole)
        for queue in ({"aqm": "codel"}, {"aqm": "pie"}, "300 ms")
    )
    assert 0.5 <= codel <= 3
    assert max(pie, tail) <= 0.1
