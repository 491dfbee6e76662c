"""Metrics of RFC 8868 from series made by hand, whose values can be derived."""

from __future__ import annotations

from math import exp, isnan, log
from typing import Any

import pytest
from synthetic_run import NS_PER_S, second, trace

from rtclab.metrics import METRICS, adapting
from rtclab.trace import Trace

FLOW = "alice->bob"
KBIT = 125  # bytes


def paths(*rows: tuple[float, int | None], path: str = "alice.up") -> list[dict[str, Any]]:
    return [{"at_ns": int(at_s * NS_PER_S), "path": path, "capacity_bps": bps} for at_s, bps in rows]


def seconds(kbps: list[float], flow: str = FLOW, begin_s: int = 0) -> list[dict[str, Any]]:
    """Rows of ``flow_seconds`` with these rates."""
    return [
        second(begin_s + at, flow=flow, packets=1, size_bytes=round(rate * KBIT))
        for at, rate in enumerate(kbps)
    ]


UNLIMITED = paths((0, None))


def of_rates(kbps: list[float]) -> Trace:
    """A trace of one flow over a path without limit."""
    return trace(flow_seconds=seconds(kbps), paths=UNLIMITED)


def test_a_first_order_step_converges_when_its_exponential_is_within_the_band() -> None:
    # r(t) = L (1 - e^(-t/T)) has the mean L (1 - T (1 - e^(-1/T)) e^(-k/T)) in the second from k on. It
    # differs from L by a fifth of L at k = T ln(5 T (1 - e^(-1/T))), which is 7.56 with T = 5. So second 8 is
    # the first.
    tau = 5.0
    deviation = [tau * (1 - exp(-1 / tau)) * exp(-k / tau) for k in range(60)]
    rise = of_rates([1000 * (1 - one) for one in deviation])
    assert 7 < tau * log(5 * tau * (1 - exp(-1 / tau))) < 8
    assert adapting.convergence_time(rise, FLOW) == 8
    fall = of_rates([1000 * (1 + one) for one in deviation])
    assert adapting.convergence_time(fall, FLOW) == 8


def test_a_rate_that_leaves_the_band_within_five_seconds_has_not_converged() -> None:
    # Seconds 3 to 6 are within the band and second 7 is not; from second 8 on all are.
    rates = [300.0] * 3 + [1000.0] * 4 + [700.0] + [1000.0] * 48
    assert adapting.convergence_time(of_rates(rates), FLOW) == 8
    # After five seconds within the band it counts as oscillation, and not as late convergence.
    rates = [300.0] * 3 + [1000.0] * 5 + [700.0] + [1000.0] * 48
    assert adapting.convergence_time(of_rates(rates), FLOW) == 3


@pytest.mark.parametrize(("rate", "time_s"), [(801.0, 0.0), (799.0, 30.0), (1199.0, 0.0), (1201.0, 30.0)])
def test_the_band_reaches_20_percent_to_either_side(rate: float, time_s: float) -> None:
    rates = [rate] * 30 + [1000.0] * 30
    assert adapting.convergence_time(of_rates(rates), FLOW) == time_s


def test_a_rate_that_never_stays_counts_with_the_whole_time() -> None:
    square = [500.0, 1500.0] * 20
    assert adapting.convergence_time(of_rates(square), FLOW) == 40
    # The last two seconds are within the band, which is not long enough to know.
    square = [500.0, 1500.0] * 19 + [1000.0] * 2
    assert adapting.convergence_time(of_rates(square), FLOW) == 40


def test_each_change_of_the_capacity_is_an_occurrence_and_the_longest_counts() -> None:
    # At the start 4 s, after the change at 30 s 7 s.
    rates = [200.0] * 4 + [1000.0] * 26 + [1000.0] * 7 + [500.0] * 23
    changed = trace(flow_seconds=seconds(rates), paths=paths((0, 1_200_000), (10, 1_200_000), (30, 600_000)))
    times = adapting.convergence_times(changed, FLOW)
    assert times.at_s.tolist() == [0, 30]
    assert times.values.tolist() == [4, 7]
    assert adapting.convergence_time(changed, FLOW) == 7
    assert adapting.convergence_time(changed.within((0, 30)), FLOW) == 4


def two_flows(first: list[float], second_one: list[float], begin_s: int, **tables: Any) -> Trace:
    """A flow from alice to bob, and one from alice to carol that begins later, behind the same uplink."""
    rows = seconds(first) + seconds(second_one, "alice->carol", begin_s)
    outbound = [{"at_ns": 0, "flow": flow, "ssrc": ssrc, "kind": "video"} for ssrc, flow in enumerate(BOTH)]
    return trace(BOTH, flow_seconds=rows, outbound_rtp=outbound, **tables)


BOTH = {FLOW: ["alice.up", "bob.down"], "alice->carol": ["alice.up", "carol.down"]}


def test_the_arrival_of_another_flow_is_a_change_only_on_a_shared_path_of_limited_capacity() -> None:
    first, other = [1000.0] * 20 + [900.0] * 6 + [500.0] * 34, [500.0] * 40
    limited = two_flows(first, other, 20, paths=paths((0, 1_000_000)))
    assert adapting.convergence_times(limited, FLOW).at_s.tolist() == [0, 20]
    assert adapting.convergence_time(limited, FLOW) == 6
    for unlimited in (paths((0, None)), paths((0, 1_000_000), path="bob.down")):
        alone = two_flows(first, other, 20, paths=unlimited)
        assert adapting.convergence_times(alone, FLOW).at_s.tolist() == [0]


def test_times_of_less_than_ten_seconds_between_changes_have_no_level() -> None:
    steps = paths(*((at_s, 1_000_000 + at_s) for at_s in range(0, 60, 9)))
    rates = seconds([1000.0] * 60)
    assert isnan(adapting.convergence_time(trace(flow_seconds=rates, paths=steps), FLOW))
    assert isnan(adapting.oscillations(trace(flow_seconds=rates, paths=steps, packets=[]), FLOW))
    assert isnan(adapting.convergence_time(of_rates([]), FLOW))


def test_where_the_network_is_not_known_nobody_knows_its_changes() -> None:
    captured = trace(flow_seconds=seconds([1000.0] * 60), packets=packets(lambda _: 1000, 60))
    assert isnan(adapting.convergence_time(captured, FLOW))
    assert isnan(adapting.oscillations(captured, FLOW))


def packets(rate_kbps: Any, duration_s: int) -> list[dict[str, Any]]:
    """Packets every 10 ms with the sizes that the rate at their time asks for."""
    return [
        {"sent_ns": 10_000_000 * n, "size_bytes": round(rate_kbps(n / 100) * KBIT / 100)}
        for n in range(duration_s * 100)
    ]


def of_rate(rate_kbps: Any, duration_s: int) -> Trace:
    """A trace of packets, and of the seconds that they add up to."""
    rows = packets(rate_kbps, duration_s)
    sums = [sum(row["size_bytes"] for row in rows[at * 100 : at * 100 + 100]) for at in range(duration_s)]
    seconds_of = [second(at, 1, size) for at, size in enumerate(sums)]
    return trace(packets=rows, flow_seconds=seconds_of, paths=UNLIMITED)


@pytest.mark.parametrize(
    ("low", "high", "swings"),
    [
        # Half periods of 2 s from 0 to 40 s are 20, with 19 changes between them. The level is 1000 kbit/s.
        (600, 1400, 19),
        (660, 1340, 19),
        (675, 1325, 0),  # within the watermarks of 667 and 1333 kbit/s
        (1000, 1000, 0),
    ],
)
def test_every_half_period_of_a_square_wave_between_the_watermarks_is_a_swing(
    low: float, high: float, swings: int
) -> None:
    square = of_rate(lambda at_s: low if at_s % 4 < 2 else high, 40)
    assert adapting.oscillations(square, FLOW) == swings


def test_a_swing_shorter_than_a_window_is_averaged_out() -> None:
    fast = of_rate(lambda at_s: 200 if at_s % 0.5 < 0.25 else 1800, 40)
    assert adapting.oscillations(fast, FLOW) == 0


def test_without_packets_there_are_no_windows_of_half_a_second() -> None:
    assert isnan(adapting.oscillations(of_rates([1000.0] * 40), FLOW))


def balances(of: Trace) -> list[float]:
    return [METRICS[f"rate_balance_{length}s"].function(of) for length in (1, 5, 20)]


def test_the_balance_is_the_lowest_rate_by_the_highest_in_the_second_half_of_a_static_time() -> None:
    # Both are there from 20 s on, so the second half is from 60 to 100 s. There, one second in five has 250
    # instead of 1000 kbit/s: windows of 1 s have 4/5 x 0.5 + 1/5 x 0.5, because 500 by 250 is 0.5, too, and
    # windows of 5 s 500 by (4 x 1000 + 250) / 5 = 850.
    first = [1000.0] * 60 + [250.0, *[1000.0] * 4] * 8
    shared = two_flows(first, [500.0] * 80, 20, paths=paths((0, 1_500_000)))
    assert balances(shared) == pytest.approx([0.5, 500 / 850, 500 / 850])


def test_flows_that_share_no_path_of_limited_capacity_have_no_balance() -> None:
    alone = two_flows([1000.0] * 100, [500.0] * 80, 20, paths=paths((0, 1_500_000), path="bob.down"))
    assert all(map(isnan, balances(alone)))


def test_a_flow_that_gets_nothing_has_a_balance_of_zero_and_a_short_time_none_of_20_s() -> None:
    starved = two_flows([1000.0] * 60, [0.0] * 60, 0, paths=paths((0, 1_500_000)))
    assert balances(starved)[:2] == [0, 0]
    silent = two_flows([0.0] * 60, [0.0] * 60, 0, paths=paths((0, 1_500_000)))
    assert all(map(isnan, balances(silent)))
    short = two_flows([1000.0] * 38, [500.0] * 38, 0, paths=paths((0, 1_500_000)))
    assert balances(short)[:2] == [0.5, 0.5]
    assert isnan(balances(short)[2])


def test_the_share_against_tcp_compares_with_the_mean_of_the_transfers() -> None:
    # 300 kbit/s beside 400 and 1400 kbit/s, 900 on average, are a quarter of what both together have.
    flows = {FLOW: ["alice.up"], "tcp.1": ["alice.up"], "tcp.2": ["alice.up"]}
    rates = {FLOW: 300.0, "tcp.1": 400.0, "tcp.2": 1400.0}
    rows = [row for flow, rate in rates.items() for row in seconds([rate] * 60, flow)]
    tcp = [{"at_ns": 0, "flow": flow} for flow in ("tcp.1", "tcp.2")]
    outbound = [{"at_ns": 0, "flow": FLOW, "ssrc": 1, "kind": "video"}]
    beside = trace(flows, flow_seconds=rows, tcp=tcp, outbound_rtp=outbound, paths=paths((0, 2_100_000)))
    for length in (1, 5, 20):
        share = METRICS[f"share_against_tcp_{length}s"].function
        assert share(beside, FLOW) == pytest.approx(25)
        assert isnan(share(beside, "tcp.1"))
