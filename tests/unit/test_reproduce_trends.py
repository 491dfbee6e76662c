"""The trends of papers hold in the simulator, in a few repeats of each condition at full length.

A trend that does not hold must have a reason. Its ``how`` has the bounds, from the numbers of the paper.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from rtclab.reproduce import paper, plan_of
from rtclab.reproduce.comparison import Comparison
from rtclab.reproduce.results import Results
from rtclab.reproduce.runner import run, unfinished
from rtclab.reproduce.trends import Trend

PAPERS = ("singh2013", "abello2013", "jansen2017")
REPEATS = 2
# What 10 % of loss leave after a minute depends on which reports exceed them by chance. The shares of a call
# and TCP vary. The rate of H.264 collapses in two of three directions.
MORE_REPEATS = {"jansen2017/loss-schedule": 5, "jansen2017/tcp": 5, "jansen2017/codec-h264": 20}

TRENDS = [(name, trend) for name in PAPERS for trend in paper(name).trends]


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Results:
    out: Path = tmp_path_factory.mktemp("reproduce")
    names = [name for one in PAPERS for name in paper(one).scenarios]
    repeats = dict.fromkeys(names, REPEATS) | MORE_REPEATS
    plans = [plan_of(name, count, traced=count) for name, count in repeats.items()]
    assert not run([batch for plan in plans for batch in unfinished(plan, out)])
    return Results({plan.name: plan.store(out) for plan in plans}, repeats)


@pytest.mark.parametrize(("name", "trend"), TRENDS, ids=[f"{name}: {one.statement}" for name, one in TRENDS])
def test_a_trend_holds_or_has_a_reason_why_it_does_not(results: Results, name: str, trend: Trend) -> None:
    finding = trend.check(results)
    if trend.reason:
        assert not finding.holds, f"it holds now ({finding.figures}): remove the reason"
    else:
        assert finding.holds, f"{trend.how}: {finding.figures}"


@pytest.mark.parametrize("name", PAPERS)
def test_every_figure_has_a_curve_for_each_of_its_names(results: Results, name: str) -> None:
    for figure in paper(name).figures:
        plot = figure.draw(results)
        assert f"Figure {figure.number}" in plot.title
        drawn = {mark.look.label for mark in plot.marks if not np.isnan(mark.y).all()}
        assert drawn == set(figure.names), figure.number


def test_four_of_five_rates_and_delays_of_singh2013_that_a_model_can_explain_are_within(
    results: Results,
) -> None:
    counts = {count.kind: count for count in Comparison(paper("singh2013"), results).counts()}
    within = counts["rate"].within + counts["delay"].within
    compared = counts["rate"].compared + counts["delay"].compared
    # 29 rates and 29 delays, without 9 of each in tables V to VII and 3 delays beside TCP over 1 Mbit/s.
    assert compared == 2 * (29 - 9) - 3
    assert within / compared >= 0.8
