"""Parts of a report: bands over repeats, curves with a capacity, and text for numbers, networks and calls."""

from __future__ import annotations

import numpy as np
import pytest
from synthetic_run import about

from rtclab.metrics.series import Array, Samples
from rtclab.report import words
from rtclab.report.bands import Band, band, points_per_line, thinned
from rtclab.report.drawing import Axes, Line, Style
from rtclab.report.plot_kinds import Curve, Panel, Steps, over_time
from rtclab.report.plots_of_runs import MOST_CURVES
from rtclab.scenario import Scenario
from rtclab.trace import Lateness, Trace


def seconds(count: int) -> Array:
    """The middle of each of the first ``count`` seconds."""
    return np.arange(count, dtype=np.float64) + 0.5


def samples(*values: float) -> Samples:
    return Samples(seconds(len(values)), np.array(values, dtype=np.float64))


def test_a_band_has_mean_minimum_and_maximum_of_each_second() -> None:
    drawn = band([samples(1, 10), samples(3, 20), samples(8)], points=100)
    assert drawn.at_s.tolist() == [0.5, 1.5]
    assert drawn.mean.tolist() == [4, 15]
    assert drawn.low.tolist() == [1, 10]
    assert drawn.high.tolist() == [8, 20]


def test_minimum_and_maximum_of_a_band_can_come_from_other_series() -> None:
    drawn = band([samples(5, 6)], points=100, lows=[samples(1, 2)], highs=[samples(9, 8)])
    assert (drawn.mean.tolist(), drawn.low.tolist(), drawn.high.tolist()) == ([5, 6], [1, 2], [9, 8])


def test_a_band_of_an_hour_is_reduced_without_losing_its_peak() -> None:
    values = np.ones(3600)
    values[1234] = 100
    drawn = band([Samples(seconds(3600), values)], points=600)
    assert 300 <= drawn.mean.size <= 600
    assert (drawn.low.min(), drawn.high.max()) == (1, 100)
    assert drawn.mean.mean() == pytest.approx(values.mean(), rel=0.01)


def test_a_band_leaves_out_samples_of_less_than_half_a_second() -> None:
    parts = Samples(seconds(4), np.array([9.0, 1.0, 2.0, 9.0]), np.array([0.49, 0.5, 1.0, 0.1]))
    drawn = band([parts], points=100)
    assert (drawn.at_s.tolist(), drawn.mean.tolist()) == ([1.5, 2.5], [1, 2])


def test_a_band_is_interrupted_where_there_are_no_values_for_long() -> None:
    at_s = np.array([0.5, 1.5, 2.5, 3.5, 4.5, 5.5, 12.5, 13.5, 16.5])
    drawn = band([Samples(at_s, np.ones(at_s.size))], points=100)
    assert drawn.at_s.tolist() == [0.5, 1.5, 2.5, 3.5, 4.5, 5.5, 9.0, 12.5, 13.5, 16.5]
    assert np.flatnonzero(np.isnan(drawn.mean)).tolist() == [6]  # 7 steps are long, and 3 are not
    assert np.isnan(drawn.low[6])
    assert np.isnan(drawn.high[6])


def test_a_band_without_samples_is_empty() -> None:
    assert band([samples(), samples()], points=600).mean.size == 0


def test_lines_of_a_plot_share_its_maximum_number_of_points() -> None:
    assert [points_per_line(lines) for lines in (1, 4, 8, 1000)] == [600, 600, 300, 100]


def test_thinned_values_include_both_ends() -> None:
    kept = thinned(seconds(10_000), 600)
    assert (kept.size, kept[0], kept[-1]) == (600, 0.5, 9999.5)
    assert thinned(seconds(3), 600).tolist() == [0.5, 1.5, 2.5]


def drawn(curve: Curve, limit: Steps) -> Axes:
    """The axes of a panel with a curve and a capacity."""
    (axes,) = over_time("rate", "", "", [Panel("", [curve], limit)], "Rate (kbit/s)").axes
    return axes


def labels_with_capacity(kbps: float) -> tuple[list[str], str]:
    """Labels and note of a panel with this capacity, whose curve peaks at 1000 kbit/s."""
    rate = np.array([500.0, 1000.0])
    curve = Curve(
        Style.numbered(0, "alice → bob"), Band(np.array([0.5, 1.5]), rate, rate, rate), filled=False
    )
    axes = drawn(curve, Steps("capacity", np.array([0.0]), np.array([kbps])))
    return [mark.look.label for mark in axes.marks], axes.note


def test_a_capacity_near_the_rate_is_drawn() -> None:
    assert labels_with_capacity(2000) == (["alice → bob", "capacity"], "")


def test_a_capacity_far_above_the_rate_is_noted_instead_of_drawn() -> None:
    assert labels_with_capacity(100_000) == (["alice → bob"], "capacity 100 000, off the scale")


def test_an_unlimited_capacity_is_not_drawn() -> None:
    assert labels_with_capacity(np.nan) == (["alice → bob"], "")


def test_a_change_of_the_capacity_is_a_step_at_its_time() -> None:
    rate = np.full(10, 400.0)
    curve = Curve(Style.numbered(0, "a"), Band(seconds(10), rate, rate, rate), filled=False)
    limit = Steps("capacity", np.array([0.0, 4.0]), np.array([1000.0, 500.0]))
    steps = drawn(curve, limit).marks[-1]
    assert isinstance(steps, Line)
    assert steps.steps
    assert steps.x.tolist() == [0, 4, 10]
    assert steps.y.tolist() == [1000, 500, 500]


def test_looks_differ_in_colour_dashes_and_marker() -> None:
    looks = [Style.numbered(index, "") for index in range(4)]
    assert len({look.colour for look in looks}) == len({look.dash for look in looks}) == 4
    assert len({look.marker for look in looks}) == 4


def test_seven_looks_differ_in_colour_and_twenty_in_colour_or_dashes() -> None:
    looks = [Style.numbered(index, "") for index in range(MOST_CURVES)]
    assert len({look.colour for look in looks[:7]}) == 7
    assert len({(look.colour, look.dash) for look in looks}) == MOST_CURVES == 20


def late_warning(*p99_ms: float) -> str:
    """The warning for a live run with a repeat for each 99th percentile; 5 ms are tolerated."""
    traces = []
    for one_ms in p99_ms:
        late = Lateness(
            p50_ns=0, p99_ns=round(one_ms * 1e6), max_ns=20_000_000, bound_ns=5_000_000, over_bound_ratio=0.02
        )
        traces.append(Trace.in_memory({}, about({}, {}, lateness=late)))
    return words.late_warning(traces)


def test_the_warning_of_a_late_emulator_has_the_worst_repeat_and_the_bound() -> None:
    assert late_warning(0.4, 8.1, 5.0) == (
        "The emulator was late in 1 of 3 repeats: 99th percentile 8.10 ms, bound 5 ms. "
        "The browsers saw another network than the scenario's."
    )
    assert "late in 2 of 3 repeats: 99th percentile up to 8.10 ms," in late_warning(6.0, 8.1, 0.4)


def test_an_emulator_in_time_and_a_simulation_cause_no_warning() -> None:
    assert late_warning(0.4, 5.0) == ""
    assert words.late_warning([Trace.in_memory({}, about({}, {}))]) == ""


@pytest.mark.parametrize(
    ("value", "text"),
    [(1234.5, "1234"), (834.76, "834.8"), (87.873, "87.87"), (0.0904, "0.090"), (640.0, "640"), (0.0, "0")],
)
def test_a_number_has_three_or_four_digits(value: float, text: str) -> None:
    assert words.number(value) == text


def test_a_standard_deviation_has_as_many_decimals_as_its_mean() -> None:
    assert words.number(1.2345, like=834.76) == "1.2"
    assert words.number(0.0, like=834.76) == "0"


def test_a_negative_number_has_a_minus_sign_and_zero_has_none() -> None:
    assert words.number(-2.5) == "−2.50"
    assert words.number(-0.0001) == "0.000"


def test_a_missing_number_is_a_dash() -> None:
    assert words.number(None) == words.number(float("nan")) == "–"


def test_equal_paths_of_a_network_share_a_description() -> None:
    link = {"up": {"capacity": "1 Mbit/s", "delay": "25 ms", "loss": "2 %"}, "down": {"delay": "25 ms"}}
    steps = {"steps": [["0 s", "1 Mbit/s"], ["30 s", "500 kbit/s"]]}
    gilbert = {"p": "1 %", "r": "30 %"}
    scenario = {
        "participants": {
            "alice": {"link": None},
            "bob": {},
            "carol": {"link": {"both": {"capacity": steps}}},
        },
        "link": link,
        "bottlenecks": {"shared": {"capacity": "2 Mbit/s", "loss": gilbert, "routes": ["*->bob"]}},
    }
    assert words.network(scenario) == [
        ("alice.up, bob.up", "capacity 1 Mbit/s, delay 25 ms, loss 2 %"),
        ("alice.down, bob.down", "unlimited, delay 25 ms"),
        ("carol.both", "capacity 1 Mbit/s from 0 s; 500 kbit/s from 30 s"),
        ("shared", "capacity 2 Mbit/s, loss p = 1 % r = 30 %, routes *->bob"),
    ]


def test_a_ramp_and_a_capacity_trace_are_described() -> None:
    ramp = {"ramp": "linear", "from": "10 ms", "to": "20 ms", "start": "0 s", "end": "5 s"}
    up = {"capacity": {"trace": "mobile.mahimahi", "opportunities_ms": [1, 2]}, "delay": ramp}
    scenario = {"participants": {"alice": {"link": {"both": up}}}}
    expected = "capacity as recorded in mobile.mahimahi, delay 10 ms to 20 ms (linear, 0 s to 5 s)"
    assert words.network(scenario) == [("alice.both", expected)]


def test_the_network_includes_the_links_of_servers() -> None:
    scenario = Scenario.load("examples/relay").model_dump(mode="json")
    named = [name for names, _ in words.network(scenario) for name in names.split(", ")]
    expected = [f"{node}.{side}" for node in ("alice", "bob", "turn") for side in ("up", "down")]
    assert sorted(named) == sorted(expected)


def calls_in_words(call: dict[str, object], **scenario: object) -> str:
    participants: dict[str, object] = {"alice": {}, "bob": {}, "carol": {}}
    everybody = {"participants": list(participants)}
    known = {"participants": participants, "video": {"width": 640}, "calls": [everybody | call]}
    return words.calls(known | scenario)


@pytest.mark.parametrize(
    ("call", "text"),
    [
        ({"kind": "p2p"}, "alice, bob and carol call each other with video"),
        ({"relay": "turn"}, "alice, bob and carol call each other through the relay turn with video"),
        ({"kind": "sfu", "server": "box"}, "alice, bob and carol meet through the SFU box with video"),
        ({"kind": "mixing-mcu"}, "alice, bob and carol meet through the mixing MCU with video"),
        (
            {"kind": "mcu", "servers": {"east": ["alice"], "west": ["bob", "carol"]}},
            "alice, bob and carol meet through the MCUs east and west with video",
        ),
        ({"kind": "star", "root": "bob"}, "bob sends to alice and carol with video"),
        ({"kind": "tree"}, "alice sends to bob and carol over a tree with video"),
        ({"kind": "hub-and-spoke"}, "bob and carol meet through alice with video"),
    ],
)
def test_a_call_is_described_by_its_participants_and_topology(call: dict[str, object], text: str) -> None:
    assert calls_in_words(call) == text


def test_media_settings_of_participants_override_the_scenarios_settings() -> None:
    silent = {name: {"video": False} for name in ("alice", "bob", "carol")}
    one = silent | {"bob": {"audio": {"bitrate": "32 kbit/s"}, "video": False}}
    assert calls_in_words({}, participants=silent) == "alice, bob and carol call each other without media"
    assert calls_in_words({}, participants=one) == "alice, bob and carol call each other with audio from bob"


def test_identical_calls_are_counted_and_tcp_flows_are_described() -> None:
    pair = {"participants": ["alice", "bob"]}
    traffic = {"sender": "alice", "receiver": "core", "congestion_control": "cubic", "flows": 2}
    assert calls_in_words({}, calls=[pair, pair], traffic={"upload": traffic}) == (
        "alice and bob call each other with video, in 2 calls; upload is 2 cubic TCP flows from alice to core"
    )


def test_many_participants_are_counted_instead_of_listed() -> None:
    crowd = {f"p{number}": {} for number in range(50)}
    text = calls_in_words({}, participants=crowd, calls=[{"kind": "sfu", "participants": list(crowd)}])
    assert text == "50 participants (p0, p1 … p49) meet through the SFU with video"


def sfu_scenario(**servers: dict[str, str]) -> dict[str, object]:
    """A scenario of an SFU call over the first of the servers, or over ``core``."""
    return {"servers": servers, "calls": [{"kind": "sfu", "server": next(iter(servers), None)}]}


def test_results_over_janus_say_that_it_does_not_estimate() -> None:
    for scenario in (sfu_scenario(sfu={"kind": "janus"}), sfu_scenario()):
        assert "does not estimate the bandwidth towards its receivers" in words.janus_caution(scenario)
    assert words.janus_caution(sfu_scenario(sfu={"kind": "str0m"})) == ""
    assert words.janus_caution({"calls": [{"kind": "p2p"}]}) == ""
