"""Instructions and cache misses of simulations, against their limits."""

from __future__ import annotations

import pytest

from tools import instructions
from tools.instructions import Count, faults, figures_of, read_limits, read_totals

OUT = """# callgrind format
version: 1
creator: callgrind-3.19.0
cmd:  ./rtclab-cases mesh of 4
desc: D1 cache: 49152 B, 64 B, 12-way associative

positions: line
events: Ir Dr Dw I1mr D1mr D1mw ILmr DLmr DLmw
summary: 9 9 9 9 9 9 9 9 9

ob=(6) /rtclab-cases
fl=(447) /forwarded_stream.rs
fn=(5170) rtclab_core::endpoint::events: 7
202 110565 8505 59535 137 0 0 15
totals: 66106 18616 11702 2785 602 212 30 1 50
"""
LIMITS = """
rustc = "1.0.0"
host = "x86_64-unknown-linux-gnu"
[cases."mesh of 4"]
instructions = 1000
d1_misses = 100
reason = "the first figures"
"""


def test_totals_are_read_by_the_name_of_their_event() -> None:
    totals = read_totals(OUT)
    assert totals["Ir"] == 66106
    assert (totals["D1mr"], totals["D1mw"]) == (602, 212)
    assert (totals["ILmr"], totals["DLmr"], totals["DLmw"]) == (30, 1, 50)


def test_figures_are_per_unit_of_work() -> None:
    count = Count(read_totals(OUT), "flow and second", 2.0)
    assert figures_of(count, {}) == {"instructions": 33053, "d1_misses": 407, "ll_misses": 40.5}


def test_figures_beyond_those_of_another_case_are_the_difference() -> None:
    events = read_totals(OUT)
    more = Count(events | {"Ir": events["Ir"] + 500}, "packet and path", 10, beyond="mesh of 4")
    figures = figures_of(more, {"mesh of 4": Count(events, "flow and second", 2.0)})
    assert figures == {"instructions": 50, "d1_misses": 0, "ll_misses": 0}


@pytest.mark.parametrize(
    ("name", "value", "fault"),
    [
        ("instructions", 1029, None),
        ("instructions", 1040, "instructions 4.0% above the limit"),
        ("instructions", 971, None),
        ("instructions", 960, "instructions 4.0% below: lower the limit to 960"),
        ("d1_misses", 114, None),
        ("d1_misses", 120, "d1_misses 20.0% above the limit"),
        ("d1_misses", 80, "d1_misses 20.0% below: lower the limit to 80"),
        ("ll_misses", 10_000, None),  # has no limit
    ],
)
def test_a_figure_may_be_as_far_from_its_limit_as_its_margin(
    name: str, value: float, fault: str | None
) -> None:
    figures = {"instructions": 1000.0, "d1_misses": 100.0, "ll_misses": 1.0} | {name: value}
    assert faults(figures, read_limits(LIMITS).cases["mesh of 4"]) == ([fault] if fault else [])


@pytest.mark.parametrize(
    ("line", "instead", "says"),
    [
        ('reason = "the first figures"', "", "mesh of 4: no reason"),
        ("d1_misses", "l1_misses", r"mesh of 4: unknown figures \['l1_misses'\]"),
    ],
)
def test_a_limit_has_a_reason_and_known_figures(line: str, instead: str, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        read_limits(LIMITS.replace(line, instead))


@pytest.mark.parametrize(("release", "wrong"), [("1.0.0", 1), ("1.0.1", 0)])
def test_figures_of_another_compiler_are_shown_and_not_compared(
    release: str, wrong: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    count = Count(read_totals(OUT), "flow and second", 2.0)  # 33 times the limit
    monkeypatch.setattr(instructions, "rustc", lambda: (release, "x86_64-unknown-linux-gnu"))
    monkeypatch.setattr(instructions, "names_of", lambda _program: ["mesh of 4"])
    monkeypatch.setattr(instructions, "count", lambda _program, _case: count)
    found = instructions.compare_with_limits(instructions.ROOT, read_limits(LIMITS))
    said = capsys.readouterr().out
    assert len(found) == 2 * wrong  # instructions and D1 misses
    assert "33,053" in said
    assert ("not compared" in said) == (not wrong)


@pytest.mark.needs("valgrind")
def test_the_simulator_keeps_the_limits(capfd: pytest.CaptureFixture[str]) -> None:
    limits = read_limits(instructions.LIMITS.read_text())
    if reason := instructions.not_compared(limits):
        pytest.skip(reason)
    program = instructions.build(instructions.ROOT, "--locked")
    assert instructions.names_of(program) == list(limits.cases)
    wrong = instructions.compare_with_limits(program, limits)
    assert not wrong, capfd.readouterr().out
