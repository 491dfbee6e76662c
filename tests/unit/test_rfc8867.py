"""What RFC 8867 expects of a congestion control in its test cases, and whether goog-cc does it.

An expectation that goog-cc does not meet is recorded as such, and not made weaker. It is met if the 95 %
interval of the mean over ten repeats is within its bounds, missed if the interval is outside of them, and
otherwise undecided. Rates are in kbit/s of IP packets.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from statistics import mean

import pytest

import rtclab
from rtclab import Trace
from rtclab.metrics import METRICS, media_flows, rate, summarise
from rtclab.scenario.load import shipped

REPEATS = 10
MAX_RATE = (1400, 1800)
"""A source at its highest rate: 1500 kbit/s of video and 20 of audio are 1560 with headers. Encoders leave up
to 10 % unused, because frames vary in size; probes and RTCP may add 15 %."""
MIN_RATE = (165, 4000)
"""At least the lowest rate of a source, 150 kbit/s of video and 20 of audio, less 3 % for losses."""
FAIR = (1 / 3, 1)
"""Between flows alike, the lower rate by the higher one (RFC 8868, section 3)."""
AGAINST_TCP = (25, 75)
"""The same against TCP, as share of what both have in %."""
Bounds = tuple[float, float]


@dataclass
class Case:
    """A repeat of a case."""

    trace: Trace

    def rate(self, flow: str, begin_s: float, end_s: float) -> float:
        """Mean receiving rate of a flow in a time."""
        return rate.receiving_rate(self.trace.within((begin_s, end_s)), flow)

    def of_trace(self, metric: str, begin_s: float, end_s: float) -> float:
        """A metric of all flows in a time."""
        return METRICS[metric].function(self.trace.within((begin_s, end_s)))

    def of_flow(self, metric: str, flow: str, begin_s: float, end_s: float) -> float:
        """A metric of a flow in a time."""
        return METRICS[metric].function(self.trace.within((begin_s, end_s)), flow)


Expectations = dict[str, tuple[float, Bounds]]


def one_to_another(number: int) -> str:
    """The flow of media of a pair of participants."""
    return f"sender-{number}->receiver-{number}"


ONE, TWO, THREE = map(one_to_another, (1, 2, 3))


def variable_capacity(case: Case) -> Expectations:
    """The rate follows the capacity: it uses 60 % of it at least, in the second half of each step."""
    steps = {(0, 40): 1000, (40, 60): 2500, (60, 80): 600, (80, 100): 1000}
    return {
        f"uses the capacity until {end_s} s": (
            case.rate("sender->receiver", (begin_s + end_s) / 2, end_s) / min(capacity, 1520),
            # Sources at their highest rate send headers beside it.
            (0.6, 1.0 if capacity < 1520 else 1.15),
        )
        for (begin_s, end_s), capacity in steps.items()
    }


def variable_capacity_beside_udp(case: Case) -> Expectations:
    """The same of what UDP leaves. UDP does not adapt, so a flow that fills the queue takes some of it."""
    return {name: (value, (0.6, 1.3)) for name, (value, _) in variable_capacity(case).items()}


def two_flows(case: Case) -> Expectations:
    """At 4 and 3.5 Mbit/s both are at their highest rate, and otherwise they share."""
    found: Expectations = {
        f"{flow} is at its highest rate at {end_s} s": (case.rate(flow, end_s - 5, end_s), MAX_RATE)
        for flow in (ONE, TWO)
        for end_s in (25, 75)
    }
    for begin_s, end_s, capacity in ((25, 50, 2000), (75, 100, 1000), (100, 125, 2000)):
        found[f"they share at {end_s} s"] = (case.of_trace("rate_balance_5s", begin_s, end_s), FAIR)
        both = sum(case.rate(flow, (begin_s + end_s) / 2, end_s) for flow in (ONE, TWO))
        found[f"they use the capacity at {end_s} s"] = (both / capacity, (0.6, 1.0))
    return found


def two_flows_beside_udp(case: Case) -> Expectations:
    """The same, of what UDP leaves."""
    found = two_flows(case)
    return {
        name: (value, (0.6, 1.3)) if name.startswith("they use") else (value, bounds)
        for name, (value, bounds) in found.items()
    }


def feedback_in_a_queue(case: Case) -> Expectations:
    """Feedback behind a full queue costs little, and both directions recover when there is room again."""
    there = "alice->bob"
    return {
        "forward does nearly as well as without the limit on feedback": (
            case.rate(there, 0, 100) / without_limit_on_feedback(),
            (0.75, 1.1),
        ),
        "forward recovers": (case.rate(there, 90, 100), MAX_RATE),
        "backward recovers": (case.rate("bob->alice", 90, 100), MAX_RATE),
        "backward follows its capacity of 800 kbit/s": (case.rate("bob->alice", 52, 70) / 800, (0.6, 1.0)),
    }


@cache
def without_limit_on_feedback() -> float:
    """Mean rate of case 5.3 with room for all feedback."""
    free = run("5.3", {"bottlenecks.backward.capacity": "2 Mbit/s"})
    return mean(case.rate("alice->bob", 0, 100) for case in free)


def feedback_beside_udp(case: Case) -> Expectations:
    """Both directions recover, here from UDP traffic."""
    there, back = "alice->bob", "bob->alice"
    return {
        "forward recovers": (case.rate(there, 90, 100), MAX_RATE),
        "backward recovers": (case.rate(back, 90, 100), MAX_RATE),
        "backward has what UDP leaves, 800 kbit/s": (case.rate(back, 52, 70) / 800, (0.6, 1.3)),
    }


def same_control(case: Case) -> Expectations:
    """There is room for the second flow, and three share what there is."""
    flows = (ONE, TWO, THREE)
    return {
        "the first is at its highest rate before the others": (case.rate(ONE, 15, 20), MAX_RATE),
        "there is room for the second": (case.rate(TWO, 35, 40), MAX_RATE),
        "the first keeps its rate": (case.rate(ONE, 35, 40), MAX_RATE),
        "three share": (case.of_trace("rate_balance_20s", 40, 120), FAIR),
        "three use the capacity": (sum(case.rate(flow, 80, 120) for flow in flows) / 3500, (0.6, 1.0)),
    }


def round_trips(case: Case) -> Expectations:
    """Nobody starves, and the rates do not depend on the round trip."""
    flows = [one_to_another(number) for number in range(1, 6)]
    found: Expectations = {f"{flow} does not starve": (case.rate(flow, 100, 160), MIN_RATE) for flow in flows}
    found["five share"] = (case.of_trace("rate_balance_20s", 40, 160), FAIR)
    found["five use the capacity"] = (sum(case.rate(flow, 100, 160) for flow in flows) / 4000, (0.6, 1.0))
    return found


def long_tcp(case: Case) -> Expectations:
    """At the worst the flow has its lowest rate; TCP does not starve either."""
    flow = "sender->receiver"
    return {
        "the flow does not starve": (case.rate(flow, 60, 120), MIN_RATE),
        "TCP does not starve": (case.rate("tcp", 60, 120), (200, 1900)),
        "both use the capacity": (
            (case.rate(flow, 60, 120) + case.rate("tcp", 60, 120)) / 2000,
            # What waits in the queue at the beginning, up to 0.3 s, comes on top of 60 s.
            (0.9, 1.005),
        ),
        "the flow and TCP share": (case.of_flow("share_against_tcp_20s", flow, 5, 120), AGAINST_TCP),
    }


def short_tcp(case: Case) -> Expectations:
    """Nobody starves, and the flows get back what the transfers leave."""
    found: Expectations = {
        f"{flow} does not starve": (case.rate(flow, 30, 120), MIN_RATE) for flow in (ONE, TWO)
    }
    found["they share"] = (case.of_trace("rate_balance_20s", 5, 120), FAIR)
    # Ten sources of 40 kB in 10 s and more have 300 kbit/s, which leaves 850 for each of the flows.
    found["they recover between transfers"] = (
        mean(case.rate(of, 30, 120) for of in (ONE, TWO)),
        (850 / 3, 1000),
    )
    return found


def pause(case: Case) -> Expectations:
    """While one is paused, the others rise to their highest rate; then all share again."""
    before, paused = ((20, 40), (55, 60))
    found: Expectations = {
        f"{flow} rises in the pause": (case.rate(flow, *paused) / case.rate(flow, *before), (1.05, 3))
        for flow in (ONE, THREE)
    }
    found |= {
        f"{flow} is at its highest rate at the end of the pause": (case.rate(flow, *paused), MAX_RATE)
        for flow in (ONE, THREE)
    }
    # RTCP and the packets that keep the connection alive remain.
    found["nothing is sent in the pause"] = (case.rate(TWO, 45, 60), (1, 20))
    found["the second returns"] = (case.rate(TWO, 80, 120), MIN_RATE)
    found["three share again"] = (case.of_trace("rate_balance_20s", 70, 120), FAIR)
    return found


def two_bottlenecks(case: Case) -> Expectations:
    """Both bottlenecks are used, and the flow over both does not starve."""
    rates = {flow: case.rate(flow, 60, 120) for flow in (ONE, TWO, THREE)}
    found: Expectations = {f"{flow} does not starve": (value, MIN_RATE) for flow, value in rates.items()}
    found["A-B is used"] = ((rates[ONE] + rates[TWO]) / 2000, (0.6, 1.0))
    found["C-D is used"] = ((rates[ONE] + rates[THREE]) / 1500, (0.6, 1.0))
    return found


CASES: dict[str, tuple[Callable[[Case], Expectations], float | None]] = {
    "5.1": (variable_capacity, None),
    "5.1-udp": (variable_capacity_beside_udp, None),
    "5.2": (two_flows, None),
    "5.2-udp": (two_flows_beside_udp, None),
    "5.3": (feedback_in_a_queue, None),
    "5.3-udp": (feedback_beside_udp, None),
    "5.4": (same_control, None),
    "5.5": (round_trips, 160),
    "5.6": (long_tcp, None),
    "5.7": (short_tcp, 120),
    "5.8": (pause, None),
    "6.3": (two_bottlenecks, 120),
}
"""By case, what the RFC expects, and a shorter duration in s where that is enough to see it."""

NOT_MET: dict[str, set[str]] = {
    # 1057 kbit/s after 20 s.
    "5.4": {"there is room for the second"},
    # 0.23: the flows with the shortest round trips, which started first, have the least.
    "5.5": {"five share"},
    # 11 %: TCP fills the queue, and the flow is at its lowest rate.
    "5.6": {"the flow and TCP share"},
    # 225 kbit/s: the flows stay near their lowest rate.
    "5.7": {"they recover between transfers"},
}
"""By case, what goog-cc does not do, with the measured values."""

BOTH_AT_MOST = {f"{flow} is at its highest rate at {end_s} s" for flow in (ONE, TWO) for end_s in (25, 75)}
UNDECIDED: dict[str, set[str]] = {
    # Some repeats are at the highest rate only after the time.
    "5.2": BOTH_AT_MOST,
    "5.2-udp": BOTH_AT_MOST,
    "5.3": {"forward recovers"},
    "5.3-udp": {"forward recovers", "backward recovers"},
    "5.8": {f"{flow} is at its highest rate at the end of the pause" for flow in (ONE, THREE)},
    # 0.41, from 0.25 to 0.57; 1443 kbit/s, from 1358 to 1528, where the highest rate begins at 1400.
    "5.4": {"three share", "the first is at its highest rate before the others"},
}
"""By case, what may be undecided after ten repeats. Everything else is met for certain."""


def run(name: str, changes: dict[str, str] | None = None, duration_s: float | None = None) -> list[Case]:
    """Runs a case with goog-cc, and with these changes of its scenario."""
    result = rtclab.run(
        f"rfc8867/{name}", set=changes or {}, duration=duration_s and f"{duration_s} s", repeats=REPEATS
    )
    assert len(result.traces) == REPEATS
    return [Case(trace) for trace in result.traces]


@pytest.mark.parametrize("name", CASES)
def test_goog_cc_does_what_rfc_8867_expects_apart_from_what_is_recorded(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    expected, duration_s = CASES[name]
    repeats = [expected(case) for case in run(name, duration_s=duration_s)]
    undecided, missed = {}, {}
    for what, (_, (least, most)) in repeats[0].items():
        value = summarise([found[what][0] for found in repeats])
        if value.ci95_high < least or most < value.ci95_low:
            missed[what] = value
        elif value.ci95_low < least or most < value.ci95_high:
            undecided[what] = value
    assert set(missed) == NOT_MET.get(name, set()), missed
    assert set(undecided) <= UNDECIDED.get(name, set()), undecided


SENDERS = {"2.1": 1, "2.2": 1, "3.1-1": 1, "3.1-2": 2, "3.1-3": 2, "3.1-4": 2, "3.1-5": 1}
"""By case of RFC 8869, the flows of media; 16 in all others."""
LATER_S = {"3.1-4": 70, "3.2-e": 70, "3.2-f": 50}
"""By case, the duration that is needed to see its cross traffic, in s."""


@pytest.mark.parametrize("name", [one.partition("/")[2] for one in shipped() if one.startswith("rfc8869/")])
def test_in_every_case_of_rfc_8869_all_flows_connect_and_none_starves(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    duration_s = LATER_S.get(name, 15)
    trace = rtclab.run(f"rfc8869/{name}", duration=f"{duration_s} s", repeats=1).traces[0]
    assert not trace.manifest.not_connected
    sent = {flow for flow in media_flows(trace) if rate.target_bitrate(trace, flow) > 0}
    assert len(sent) == SENDERS.get(name, 16)
    # The lowest rates of 16 sources are 2.7 Mbit/s of 20, and five transfers beside them are TCP.
    for flow in sent:
        assert (
            MIN_RATE[0] < rate.receiving_rate(trace.within((duration_s - 10, duration_s)), flow) < MAX_RATE[1]
        )


def test_the_wi_fi_of_rfc_8869_has_20_mbit_per_second(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("radio.toml").write_text(RADIO)
    trace = rtclab.run("radio.toml", repeats=1).traces[0]
    assert 18_000 < rate.receiving_rate(trace.within((8, 18)), "udp") < 22_000


RADIO = """
name = "radio"
extends = "rfc8869/wifi"
duration = "18 s"
[participants.alice]
[participants.bob]
[traffic.udp]
sender = "alice"
receiver = "bob"
protocol = "udp"
rate = "40 Mbit/s"
packet_size = "1200 B"
start = "5 s"
"""


def test_every_case_is_shipped() -> None:
    there = {name for name in shipped() if name.startswith("rfc8867/")}
    assert there == {f"rfc8867/{name}" for name in CASES}
