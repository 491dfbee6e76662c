"""Limits of metrics: how they are read, and when they hold."""

from __future__ import annotations

from decimal import Decimal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as some

from rtclab.errors import FieldError
from rtclab.gates.limits import COMPARE, QUANTITIES, Limit
from rtclab.metrics import METRICS
from rtclab.scenario import Scenario

OF_FLOWS = [one.name for one in METRICS.values() if one.scope == "flow" and one.shipped]
NAMES = some.from_regex(r"[a-z0-9][a-z0-9_-]{0,8}", fullmatch=True)
NUMBERS = some.decimals(min_value=-(10**6), max_value=10**6, places=3, allow_nan=False)


@some.composite
def units(draw: some.DrawFn, metric: str) -> tuple[str, Decimal]:
    """A unit in which values of a metric may be written, and its size in the metric's own."""
    own = METRICS[metric].unit
    for quantity in QUANTITIES:
        if own in quantity.units:
            unit = draw(some.sampled_from([*quantity.units]))
            return unit, quantity.units[unit] / quantity.units[own]
    return own, Decimal(1)


@settings(deadline=None)
@given(some.data(), some.sampled_from(OF_FLOWS), some.sampled_from([*COMPARE]), NUMBERS)
def test_a_limit_is_read_as_it_was_written(
    data: some.DataObject, metric: str, operator: str, number: Decimal
) -> None:
    flow = data.draw(some.none() | some.builds("{}->{}".format, NAMES, NAMES))
    unit, size = data.draw(units(metric))
    spaces = [data.draw(some.sampled_from(["", " ", "  "])) for _ in range(3)]
    spaces[2] = " " if unit[:1].isdigit() else spaces[2]  # 2 1/min is not 21/min
    of = "" if flow is None else f" of {flow}"
    limit = Limit.parse(f"{metric}{of}{spaces[0]}{operator}{spaces[1]}{number:f}{spaces[2]}{unit}")
    assert (limit.metric, limit.flow, limit.operator) == (metric, flow, operator)
    assert limit.bound == pytest.approx(float(number * size), rel=1e-12)
    assert Limit.parse(str(limit)) == limit


def test_units_are_converted() -> None:
    assert Limit.parse("rtt_p95 < 0.15 s") == Limit.parse("rtt_p95<150 ms")
    assert Limit.parse("freeze_duration <= 500 ms").bound == 0.5
    assert Limit.parse("receiving_rate >= 1.2 Mbit/s").bound == 1200
    assert Limit.parse("memory < 500 kB").bound == 0.5


@pytest.mark.parametrize(
    ("text", "message", "hint"),
    [
        ("rtt95 < 150 ms", "no metric `rtt95`", "did you mean `rtt_p95`?"),
        ("qqq < 1", "no metric `qqq`", "`rtclab metrics` lists them"),
        ("rtt < 150", "no unit in `150`, a value of `rtt`; expected ns, us, ms, s or min", "write `150 ms`"),
        (
            "receiving_rate > 300 kbps",
            "unknown unit `kbps` of `receiving_rate`; expected bit/s, kbit/s, Mbit/s or Gbit/s",
            "write `300 kbit/s`",
        ),
        (
            "receiving_rate > 500000",
            "no unit in `500000`, a value of `receiving_rate`; expected bit/s, kbit/s, Mbit/s or Gbit/s",
            "write `500000 bit/s`",
        ),
        ("rtt < 5 kbit/s", "unknown unit `kbit/s` of `rtt`; expected ns, us, ms, s or min", "write `5 ms`"),
        ("packet_loss < 5", "no unit in `5`, a value of `packet_loss`; expected %", "write `5 %`"),
        ("nacks < 5 ms", "`nacks` has no unit; got `5 ms`", "write `5`"),
        ("rtt < fast", "cannot read `fast` as a value of `rtt`; expected a number in ms", None),
        ("fairness < x", "cannot read `x` as a value of `fairness`; expected a number", None),
        (
            "fairness of alice->bob > 0.9",
            "`fairness` has one value for the whole call, and none for `alice->bob`",
            "leave out `of alice->bob`",
        ),
        *(
            (
                text,
                f"cannot read `{text}` as a limit; expected METRIC [of FLOW] OP NUMBER UNIT, "
                "where OP is <, <=, > or >=",
                "for example `rtt_p95 < 150 ms` or `frame_rate of alice->bob >= 25 frame/s`",
            )
            for text in ("", "rtt", "rtt 150 ms", "rtt == 150 ms", "rtt =< 150 ms", "rtt of < 1 ms", 3, None)
        ),
    ],
)
def test_what_cannot_be_read_is_refused_in_a_sentence(text: object, message: str, hint: str | None) -> None:
    with pytest.raises(FieldError) as caught:
        Limit.parse(text)
    assert (caught.value.message, caught.value.hint) == (message, hint)


def test_a_limit_of_an_unknown_flow_is_refused() -> None:
    scenario = Scenario.load("first-call")
    Limit.parse("rtt of alice->bob < 1 ms").check_flow(scenario)
    with pytest.raises(FieldError) as caught:
        Limit.parse("rtt of alice->bbo < 1 ms").check_flow(scenario)
    assert caught.value.message == "no flow `alice->bbo` in first-call; expected `alice->bob` or `bob->alice`"
    assert caught.value.hint == "did you mean `alice->bob`?"


def test_the_mean_over_repeats_decides_and_the_sentence_counts_the_repeats() -> None:
    limit = Limit.parse("rtt < 150 ms")
    (check,) = limit.checks("call", {"alice->bob": [100, 160, None, 160]})
    assert (check.verdict, check.new, check.broken, check.repeats) == ("holds", 140, 2, 3)
    (check,) = limit.checks("call", {"alice->bob": [100, 160, None, 196]})
    assert check.fails
    assert check.sentence() == "rtt < 150 ms: 152.0 ms for alice->bob, 2.00 ms too high, in 2 of 3 repeats"


@pytest.mark.parametrize(
    ("text", "holds"),
    [("rtt < 150 ms", False), ("rtt <= 150 ms", True), ("rtt > 150 ms", False), ("rtt >= 150 ms", True)],
)
def test_the_bound_itself_is_within_a_limit_with_an_equals_sign(text: str, holds: bool) -> None:
    (check,) = Limit.parse(text).checks("call", {"alice->bob": [150.0, 150.0]})
    assert (check.verdict == "holds") is holds
    assert ("exactly the limit" in check.sentence()) is not holds


def test_without_a_flow_every_flow_with_a_value_is_checked() -> None:
    values = {"alice->bob": [20.0], "bob->alice": [30.0], "sfu->bob": [None]}
    checks = Limit.parse("frame_rate >= 25 frame/s").checks("call", values)
    assert [(one.flow, one.verdict) for one in checks] == [("alice->bob", "broken"), ("bob->alice", "holds")]
    assert "5.00 frame/s too low" in checks[0].sentence()


@pytest.mark.parametrize("flow", ["", " of sfu->bob", " of carol->bob"])
def test_what_was_not_measured_does_not_hold(flow: str) -> None:
    (check,) = Limit.parse(f"rtt{flow} < 1 s").checks("call", {"sfu->bob": [None, None]})
    assert check.fails
    assert check.sentence() == f"rtt{flow} < 1 s: not measured"
