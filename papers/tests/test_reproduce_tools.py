"""Quantities as other tools measure them, on traces whose numbers can be derived."""

from __future__ import annotations

from itertools import accumulate
from math import isnan

import pytest
from synthetic_run import ALICE_TO_BOB, TWO_WAY, report, second, trace

from rtclab.trace import Trace
from rtclab_papers.reproduce import tools

FLOW = "alice->bob"


def received(bytes_per_s: list[int], **columns: int) -> Trace:
    """Reports at the start and after each second; the arguments are the bytes received in each second."""
    totals = accumulate(bytes_per_s, initial=0)
    rows = [
        report(at_s, bytesReceived=total, headerBytesReceived=0, **columns)
        for at_s, total in enumerate(totals)
    ]
    return trace(inbound_rtp=rows)


def test_a_rise_ends_at_90_percent_of_the_later_rate() -> None:
    # 100 kbit/s for ten seconds, then 1000: the middle of the first fast second is at 10.5 s.
    call = received([12_500] * 10 + [125_000] * 50)
    assert tools.rise_s(call, FLOW, 0) == 10.5
    assert isnan(tools.rise_s(call, FLOW, 60)), "nothing was received in the second minute"


def test_all_seconds_have_the_same_weight_in_the_loss() -> None:
    counted = [(0, 0), (1, 9), (1, 1009)]  # 1 of 10 lost, then 0 of 1000
    rows = [report(at_s, packetsLost=lost, packetsReceived=got) for at_s, (lost, got) in enumerate(counted)]
    assert tools.stats_loss(trace(inbound_rtp=rows), FLOW).mean() == 5


@pytest.mark.parametrize(
    ("rtts_s", "spike"),
    # The median is 0.1 s. The highest of each ten seconds counts, if it is above 1.5 times the median.
    [([0.1] * 8 + [0.2, 0.3] + [0.1] * 9 + [0.5], 4.0), ([0.1] * 9 + [0.2] + [0.1] * 10, 2.0)],
)
def test_spikes_are_multiples_of_the_median(rtts_s: list[float], spike: float) -> None:
    rows = [report(at_s, roundTripTime=rtt_s) for at_s, rtt_s in enumerate(rtts_s)]
    seconds = [second(at_s, packets=1) for at_s in range(20)]
    call = trace(remote_inbound_rtp=rows, flow_seconds=seconds)
    assert tools.rtt_spike(call, FLOW) == pytest.approx(spike)


def test_a_call_without_spikes_has_no_spike_height() -> None:
    rows = [report(at_s, roundTripTime=0.1) for at_s in range(20)]
    assert isnan(tools.rtt_spike(trace(remote_inbound_rtp=rows), FLOW))


def test_the_rate_sent_to_all_is_the_sum_of_the_flows() -> None:
    flows = ALICE_TO_BOB | {
        "alice->carol": ["alice.up", "carol.down"],
        "bob->alice": ["bob.up", "alice.down"],
    }
    rows = [second(0, packets=10) | {"flow": flow} for flow in flows]
    # Two flows of 10 packets of 1000 bytes are 160 kbit.
    assert tools.sent_to_all_kbps(trace(flows, flow_seconds=rows), "alice").values.tolist() == [160.0]


def test_the_way_back_is_the_reverse_flow_of_the_same_call() -> None:
    call = trace(TWO_WAY, flow_seconds=[second(0, packets=1)])
    assert tools.way_back(call, FLOW) == "", "the flows belong to no call"
    for name, flow in list(call.manifest.flows.items()):
        call.manifest.flows[name] = flow.model_copy(update={"call": 0})
    assert tools.way_back(call, FLOW) == "bob->alice"
