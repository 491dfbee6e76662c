"""What L4S buys a video call: conditions, and the page from rows."""

from __future__ import annotations

from rtclab_papers.validate import l4s


def test_every_condition_is_a_call_of_its_own() -> None:
    scenarios = [cell.scenario() for cell in l4s.CELLS]
    assert len({scenario.name for scenario in scenarios}) == len(l4s.CELLS) == 24
    with_tcp = [scenario for scenario in scenarios if scenario.traffic]
    assert len(with_tcp) == 12
    assert {one.congestion_control for scenario in with_tcp for one in scenario.traffic.values()} == {
        "cubic",
        "prague",
    }
