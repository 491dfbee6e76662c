"""Strips of limits and freezes, and stacks of waits, show what the accounts of a run say."""

from __future__ import annotations

from itertools import combinations, pairwise
from pathlib import Path

import numpy as np
import polars as pl
import pytest

import rtclab
from rtclab import Results
from rtclab.metrics import METRICS
from rtclab.metrics.accounts.limits import LIMITS, limits_table
from rtclab.metrics.accounts.stalls import stalls_of
from rtclab.metrics.accounts.waits import STAGES, waits_of
from rtclab.report import run_plots
from rtclab.report.account_strips import LIMIT_COLOURS, stage_looks
from rtclab.report.drawing import Boxes
from rtclab.report.plot import Plot
from rtclab.report.runs import write_report
from rtclab.report.why import why

FLOW = "alice->bob"
LIGHTNESS_STEPS = 5.0


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Results:
    """One call with losses, of which some lead to freezes."""
    loss = {"participants.alice.link.up.loss": {"mean": "8 %", "burst": 8}}
    return rtclab.run(
        "first-call", set=loss, duration="30 s", repeats=1, seed=3, out=tmp_path_factory.mktemp("runs")
    )


@pytest.fixture(scope="module")
def plots(made: Results) -> dict[str, Plot]:
    accounts = why(made.run).accounts
    return {plot.name: plot for plot in run_plots(made.run, None, accounts)}


def boxes(plot: Plot) -> list[Boxes]:
    """The boxes of the first panel, which is of alice → bob."""
    assert plot.axes[0].title == "alice → bob"
    return [mark for mark in plot.axes[0].marks if isinstance(mark, Boxes)]


def lightness(colour: str) -> float:
    """L* of CIE 1976, 0 to 100, of an sRGB colour (IEC 61966-2-1)."""
    parts = np.array([int(colour[at : at + 2], 16) for at in (1, 3, 5)]) / 255
    linear = np.where(parts <= 0.04045, parts / 12.92, ((parts + 0.055) / 1.055) ** 2.4)
    return float(116 * np.cbrt(linear @ np.array([0.2126, 0.7152, 0.0722])) - 16)


def test_every_limit_has_a_colour_that_differs_from_the_others_in_greyscale() -> None:
    assert LIMIT_COLOURS.keys() == LIMITS.keys()
    for one, other in combinations(LIMIT_COLOURS.values(), 2):
        assert abs(lightness(one) - lightness(other)) >= LIGHTNESS_STEPS, (one, other)
    steps = [lightness(look.colour) for look in stage_looks()]
    assert [look.label for look in stage_looks()] == [stage.replace("_", " ") for stage in STAGES]
    assert all(after - before >= LIGHTNESS_STEPS for before, after in pairwise(steps))


@pytest.mark.parametrize("name", ["rate", "target"])
def test_a_strip_shows_in_each_second_the_limit_that_held_longest(
    made: Results, plots: dict[str, Plot], name: str
) -> None:
    strips = boxes(plots[name])
    assert all((strip.high < 0).all() for strip in strips)
    rows = limits_table(made.traces[0]).filter(pl.col("flow") == FLOW)
    for second in range(2, 30):
        begin_ns, end_ns = second * 1e9, (second + 1) * 1e9
        inside = rows.select(
            "limit", held=(pl.col("end_ns").clip(None, end_ns) - pl.col("begin_ns").clip(begin_ns)).clip(0)
        )
        held = inside.group_by("limit").agg(pl.col("held").sum()).sort("held", descending=True)
        if held.height > 1 and held["held"][0] - held["held"][1] < 1e6:
            continue  # two limits held equally long
        middle = second + 0.5
        shown = [one.look for one in strips if ((one.x <= middle) & (middle < one.end)).any()]
        assert [(look.label, look.colour) for look in shown] == [
            (f"limit: {held['limit'][0]}", LIMIT_COLOURS[held["limit"][0]])
        ]


def test_a_stretch_of_a_strip_says_the_limit_its_place_and_its_share(plots: dict[str, Plot]) -> None:
    (losses,) = [one for one in boxes(plots["rate"]) if one.look.label == "limit: loss"]
    assert all("limited by losses in bursts on alice.up" in text for text in losses.texts)
    for begin_s, end_s, text in zip(losses.x, losses.end, losses.texts, strict=True):
        assert text.startswith(f"{begin_s:g} to {round(end_s, 1):g} s: ")


def test_freezes_are_marked_where_they_were_with_their_causes(made: Results, plots: dict[str, Plot]) -> None:
    stalls = stalls_of(made.traces[0], FLOW)
    assert stalls
    for name in ("waits", "frame-rate"):
        frozen = boxes(plots[name])[-1]
        assert frozen.look.label == "frozen"
        assert sorted(frozen.x) == pytest.approx([one.begin_ns / 1e9 for one in stalls])
        assert (frozen.end - frozen.x).sum() == pytest.approx(
            METRICS["freeze_duration"].function(made.traces[0], FLOW)
        )
        assert sum("waited for packets lost in bursts on alice.up" in text for text in frozen.texts) == sum(
            (one.cause, one.where) == ("loss", "burst alice.up") for one in stalls
        )


def test_stacked_stages_add_up_to_the_delay_of_the_pictures_of_each_second(
    made: Results, plots: dict[str, Plot]
) -> None:
    stages = [one for one in boxes(plots["waits"]) if one.look in stage_looks()]
    waits = waits_of(made.traces[0], FLOW)
    drawn = [look for look, stage in zip(stage_looks(), STAGES, strict=True) if waits[f"{stage}_ns"].sum()]
    assert [one.look for one in stages] == drawn
    assert 5 <= len(drawn) < len(STAGES)
    assert all((lower.high == upper.low).all() for lower, upper in pairwise(stages))
    frames = made.traces[0].table("frames").filter(pl.col("flow") == FLOW).drop_nulls("rendered_ns")
    delays = (
        frames.group_by(second=pl.col("rendered_ns") // 1_000_000_000)
        .agg(ms=(pl.col("rendered_ns") - pl.col("captured_ns")).mean() / 1e6)
        .sort("second")
    )
    assert stages[0].x.tolist() == delays["second"].to_list()
    assert stages[-1].high == pytest.approx(delays["ms"].to_numpy())


def test_a_plot_of_waits_can_be_saved_and_has_no_strip_without_reasons(made: Results, tmp_path: Path) -> None:
    assert made.plot("waits", FLOW).save(tmp_path / "waits.svg").stat().st_size > 1000
    (axes,) = made.plot("rate", FLOW).axes
    assert not any(isinstance(mark, Boxes) for mark in axes.marks)


def test_a_page_of_a_meeting_draws_the_flows_that_it_explains(tmp_path: Path) -> None:
    people = "\n".join(f"[participants.{name}]" for name in ("ann", "ben", "cid", "dee"))
    file = tmp_path / "meeting.toml"
    file.write_text(f'[video]\n[link.up]\ncapacity = "2 Mbit/s"\nloss = "3 %"\n[link.down]\n{people}\n')
    meeting = rtclab.run(file, duration="8 s", repeats=1, out=tmp_path)
    page = write_report(meeting.run).read_text()
    assert '<a href="#rate">' in page
    accounts = why(meeting.run, None, 6).accounts
    explained = {plot.name: plot for plot in run_plots(meeting.run, None, accounts)}
    titles = [one.flow.replace("->", " → ") for one in accounts]
    assert [axes.title for axes in explained["rate"].axes] == titles
    assert [axes.title for axes in explained["waits"].axes] == titles
