"""Curves over time of the past and of 2026: means in equal parts of a call, their file, and their drawing."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from rtclab.experiment import Condition, Experiment, digest_of
from rtclab.metrics.series import Array, Samples
from rtclab.report.drawing import Line
from rtclab.scenario import Scenario
from rtclab_papers.campaigns import Key, Record
from rtclab_papers.reproduce.then_and_now import series
from rtclab_papers.reproduce.then_and_now.campaigns import LIVE, THEN
from rtclab_papers.reproduce.then_and_now.conditions import read_plan
from rtclab_papers.reproduce.then_and_now.series import Curve

NAME = "singh2013 2"
SCENARIOS = ("unconstrained", "latency-50ms", "latency-100ms", "latency-200ms", "latency-500ms")


def curve(campaign: str, scenario: str, length_s: float, values: list[float]) -> Curve:
    name = f"singh2013/{scenario}"
    return Curve(NAME, campaign, name, "alice->bob", "rate_kbps", "0a1b", length_s, 1, np.array(values))


def curves(values: list[float]) -> list[Curve]:
    lengths = {THEN: 300.0, LIVE: 45.0}
    return [curve(which, name, lengths[which], values) for which in lengths for name in SCENARIOS]


def samples(values: list[float]) -> Samples:
    return Samples(np.arange(len(values)) + 0.5, np.array(values))


def test_a_short_call_has_a_part_for_each_second_and_a_long_one_sixty() -> None:
    assert series.means([samples([1.0, 3.0])], 2).tolist() == [1, 3]
    of_minutes = series.means([samples(list(range(120)))], 120)
    assert of_minutes.tolist() == [2 * part + 0.5 for part in range(60)]


def test_a_part_is_the_mean_over_calls_and_unknown_without_samples() -> None:
    found = series.means([samples([1.0, np.nan, 5.0]), samples([3.0])], 3)
    assert found[0] == 2
    assert np.isnan(found[1])
    assert found[2] == 5


def test_the_past_and_2026_have_axes_of_their_own_that_end_with_the_call() -> None:
    drawn = series.drawing(figure(), NAME, curves([100.0, 200.0]), "file")
    assert drawn is not None
    assert [one.title for one in drawn.axes] == ["then, simulated, 300 s", "2026, live, 45 s"]
    for one in drawn.axes:
        assert [line_of(mark).look.label for mark in one.marks] == [
            "0 ms",
            "50 ms",
            "100 ms",
            "200 ms",
            "500 ms",
        ]
        # The middles of two halves of the call.
        np.testing.assert_array_equal(line_of(one.marks[0]).x, [25, 75])


def test_a_figure_without_live_curves_is_not_drawn() -> None:
    then = [one for one in curves([100.0]) if one.campaign == THEN]
    assert series.drawing(figure(), NAME, then, "file") is None


def test_live_curves_come_from_undisturbed_calls_whose_traces_are_there(
    tmp_path: Path,
) -> None:
    """Simulated calls stand for live ones."""
    scenario = Scenario.load("first-call", {"duration": "2 s"})
    digest = digest_of(scenario)
    Experiment({"call": Condition(scenario, 3)}).run(into=tmp_path / "live")
    records = {
        key: Record(key, 1, outcome, digest=of)  # type: ignore[arg-type]
        for key, outcome, of in (
            (Key("call", LIVE, 0), "finished", f"{digest}-0a1b"),
            (Key("call", LIVE, 1), "disturbed", digest),
            (Key("call", LIVE, 2), "finished", "another"),
            (Key("call", LIVE, 3), "finished", digest),  # run on another machine
        )
    }
    found = series._live("call", digest, records, tmp_path / "live")
    assert [trace.manifest.repeat for trace in found] == [0]
    assert [*series._live("other", digest, records, tmp_path / "live")] == []
    assert [*series._live("call", digest, records, tmp_path / "none")] == []


def figure() -> series.Figure:
    return dict(series.figures(read_plan(["singh2013"])))[NAME]


def line_of(mark: object) -> Line:
    assert isinstance(mark, Line)
    return mark


@pytest.mark.parametrize("values", [np.array([]), np.array([np.nan])])
def test_a_call_without_samples_has_no_values(values: Array) -> None:
    assert np.isnan(series.means([Samples(np.zeros(values.size), values)], 10)).all()


def test_published_curves_stay_the_same_when_they_are_written_again(tmp_path: Path) -> None:
    published = series.file_of(Path(__file__).parents[2] / "docs" / "then-and-now.md")
    again = tmp_path / published.name
    series.write(again, series.read(published))
    assert again.read_bytes() == published.read_bytes()
