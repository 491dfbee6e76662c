"""How flows compare with other flows, on traces whose numbers can be derived."""

from __future__ import annotations

from collections.abc import Sequence
from math import inf, isnan

import numpy as np
import pytest
from synthetic_run import report, second, trace

from rtclab.metrics.series import Samples
from rtclab.trace import Trace
from rtclab_papers.reproduce import flow_relations

FLOW = "alice->bob"


def calls(rates: Sequence[Sequence[int]]) -> Trace:
    """Calls between alice and bob; each sends this many packets of 1000 bytes in each second, from 0 s on.

    A call begins with its first second that has packets.
    """
    names = [FLOW, *(f"{FLOW}#{number}" for number in range(2, len(rates) + 1))]
    rows = [
        second(at_s, packets=count) | {"flow": name}
        for name, counts in zip(names, rates, strict=True)
        for at_s, count in enumerate(counts)
    ]
    made = trace({name: ["alice.up"] for name in names}, flow_seconds=rows)
    for name in names:
        flow = made.manifest.flows[name]
        made.manifest.flows[name] = flow.model_copy(update={"sender": "alice", "receiver": "bob"})
    return made


def samples(values: Sequence[float]) -> Samples:
    return Samples(np.arange(0.5, len(values)), np.array(values, np.float64))


@pytest.mark.parametrize(
    ("other", "expected"),
    [([2, 4, 6, 8], 1.0), ([4, 3, 2, 1], -1.0), ([1, 2, 2, 1], 0.0)],
)
def test_a_correlation_has_the_value_computed_by_hand(other: list[float], expected: float) -> None:
    assert flow_relations.correlation(samples([1, 2, 3, 4]), samples(other)) == pytest.approx(expected)


def test_only_seconds_that_both_have_are_correlated() -> None:
    # The second one lacks the fourth second, in which the first one turns round.
    assert flow_relations.correlation(samples([1, 2, 3, 0]), samples([1, 2, 3])) == pytest.approx(1)
    assert isnan(flow_relations.correlation(samples([1, 2, 3]), samples([5, 5, 5]))), "it never changes"


def test_the_rate_is_compared_with_the_delay_of_the_same_second() -> None:
    delays = {at_s: 10.0 * (5 - at_s) for at_s in range(5)}
    rows = [second(at_s, packets=1 + at_s, one_way_delay_mean_ms=ms) for at_s, ms in delays.items()]
    assert flow_relations.rate_and_delay(trace(flow_seconds=rows), FLOW) == pytest.approx(-1)


def test_a_rate_that_falls_after_a_long_delay_has_a_negative_correlation_with_it() -> None:
    # Packets by second: after 90 ms the rate falls by 2, after 10 ms it rises by 2.
    rows = [
        second(at_s, packets=4 + 2 * (at_s % 2), one_way_delay_mean_ms=ms)
        for at_s, ms in enumerate([10.0, 90.0] * 3)
    ]
    assert flow_relations.delay_and_change(trace(flow_seconds=rows), FLOW) == pytest.approx(-1)


def test_the_frame_rate_is_compared_with_the_round_trip_of_the_same_second() -> None:
    call = trace(
        flow_seconds=[second(at_s, packets=1) for at_s in range(5)],
        inbound_rtp=[report(at_s, framesPerSecond=30 - at_s) for at_s in range(4)],
        remote_inbound_rtp=[report(at_s + 0.3, roundTripTime=0.1 * (at_s + 1)) for at_s in range(4)],
    )
    assert flow_relations.frames_and_rtt(call, FLOW) == pytest.approx(-1)


def test_calls_are_compared_after_the_minute_in_which_they_grow() -> None:
    growing = list(range(1, 61))
    turns = [10, 20] * 10
    together, against = calls([growing + turns] * 2), calls([growing + turns, growing + turns[::-1]])
    assert flow_relations.with_other_calls(together, FLOW) == pytest.approx(1)
    assert flow_relations.with_other_calls(against, FLOW) == pytest.approx(-1)
    assert isnan(flow_relations.with_other_calls(calls([growing]), FLOW)), "there is no other call"


def test_streams_of_a_sender_are_apart_by_the_difference_over_the_mean() -> None:
    flows = {"alice->bob": ["alice.up"], "alice->carol": ["alice.up"], "bob->alice": ["bob.up"]}
    rows = [
        second(at_s, packets=count) | {"flow": flow}
        for flow, counts in {"alice->bob": (1, 3), "alice->carol": (3, 1), "bob->alice": (9, 9)}.items()
        for at_s, count in enumerate(counts)
    ]
    # A difference of 2 from a mean of 2 in every second, although both have the same mean rate.
    assert flow_relations.streams_apart(trace(flows, flow_seconds=rows), "alice->bob") == pytest.approx(100)
    assert isnan(flow_relations.streams_apart(trace(flows, flow_seconds=rows), "bob->alice")), "one stream"


def test_the_two_sides_of_a_call_are_apart_by_the_difference_over_the_mean() -> None:
    rows = [second(0, packets=3) | {"flow": "alice->bob"}, second(0, packets=1) | {"flow": "bob->alice"}]
    call = trace({"alice->bob": ["alice.up"], "bob->alice": ["bob.up"]}, flow_seconds=rows)
    for name, flow in list(call.manifest.flows.items()):
        call.manifest.flows[name] = flow.model_copy(update={"call": 0})
    assert flow_relations.sides_apart(call, "alice->bob") == pytest.approx(100)


def test_the_share_of_the_first_call_is_relative_to_the_mean_of_the_others() -> None:
    call = calls([[1] * 20, [1] * 20, [3] * 20])
    assert flow_relations.first_call_share(call, FLOW, (0, 20)) == pytest.approx(50)
    assert flow_relations.first_call_share(call, f"{FLOW}#3", (0, 20)) == pytest.approx(50), (
        "of all its calls"
    )
    assert isnan(flow_relations.first_call_share(calls([[1] * 20]), FLOW, (0, 20)))


@pytest.mark.parametrize(
    ("first", "expected"),
    [
        # Four of ten seconds have packets at 16 s, and eight at 38 s.
        ([10] * 10 + [0] * 20 + [10] * 30, 22.0),
        ([10] * 10 + [0] * 50, inf),
    ],
)
def test_a_recovery_lasts_from_half_to_four_fifths_of_the_others(first: list[int], expected: float) -> None:
    assert flow_relations.recovery_s(calls([first, [10] * 60]), FLOW) == expected


def test_a_call_that_never_starves_has_nothing_to_recover_from() -> None:
    assert isnan(flow_relations.recovery_s(calls([[10] * 60, [10] * 60]), FLOW))
    assert isnan(flow_relations.recovery_s(calls([[10] * 60]), FLOW))


def test_calls_converge_when_their_rates_of_ten_seconds_are_alike() -> None:
    # Jain's index of 1 and x is 0.95 at x = 0.63; the second call has 7 of 10 packets from 20 s on, and
    # ten seconds with 0 and 7 packets have a mean of 6.3 at 29 s.
    call = calls([[10] * 60, [0] * 20 + [7] * 40])
    call.manifest.flows[f"{FLOW}#2"] = call.manifest.flows[f"{FLOW}#2"].model_copy(update={"begin_ns": 0})
    assert flow_relations.converges_s(call, FLOW, 0) == 29
    assert isnan(flow_relations.converges_s(calls([[10] * 60, [1] * 60]), FLOW, 0))


def test_a_dip_is_the_lowest_of_ten_seconds_in_per_cent_of_the_ten_before() -> None:
    call = calls([[10] * 10 + [10, 4, 10] + [10] * 7])
    assert flow_relations.dip(call, FLOW, 10) == pytest.approx(40)
    assert isnan(flow_relations.dip(call, FLOW, 30)), "the call has ended"
