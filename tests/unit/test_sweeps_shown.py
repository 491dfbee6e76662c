"""Output of sweeps: plots, the report, and the command line."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from command_line import Rtclab

from rtclab.errors import BadInput
from rtclab.experiment import Results
from rtclab.experiment.summary import Averaged, marginal_of
from rtclab.lab import open_results, sweep
from rtclab.metrics.statistics import summarise
from rtclab.report.chart import legend
from rtclab.report.drawing import Cells, Dots, Line
from rtclab.report.words import number

RANGE = "0.2..5 Mbit/s x3 log"
LOSSES = ["0 %", "5 %"]


@pytest.fixture(scope="module")
def grid(tmp_path_factory: pytest.TempPathFactory) -> Results:
    """Three capacities by two losses."""
    out = tmp_path_factory.mktemp("runs")
    vary = {"link.up.capacity": RANGE, "link.up.loss": LOSSES}
    return sweep("first-call", vary, repeats=3, duration="5 s", out=out)


@pytest.fixture(scope="module")
def three(tmp_path_factory: pytest.TempPathFactory) -> Results:
    """Three fields with two values each. The values of one field are not numbers."""
    vary = {
        "congestion_control.name": ["goog-cc", "gcc-2016"],
        "link.up.capacity": ["0.5 Mbit/s", "1 Mbit/s"],
        "link.up.loss": LOSSES,
    }
    out = tmp_path_factory.mktemp("runs")
    return sweep("first-call", vary, repeats=2, duration="5 s", out=out)


def test_a_plot_has_a_line_with_an_interval_for_each_value(grid: Results) -> None:
    plot = grid.plot("receiving_rate", x="link.up.capacity", by="link.up.loss")
    assert [axes.title for axes in plot.axes] == ["alice → bob", "bob → alice"]
    lines = [mark for mark in plot.axes[0].marks if isinstance(mark, Line)]
    labels = ["Loss of the uplinks = 0 %", "Loss of the uplinks = 5 %", "capacity"]
    assert [line.look.label for line in lines] == labels
    # The axis of a logarithmic range is logarithmic: 0.2, 1 and 5 Mbit/s are equally far apart.
    assert lines[0].x.tolist() == pytest.approx([-0.69897, 0.0, 0.69897], abs=1e-5)
    assert (plot.x.label, plot.x.names) == ("Capacity of the uplinks (Mbit/s)", ["0.2", "1", "5"])
    summary = (
        grid.summary()
        .filter(metric="receiving_rate", flow="alice->bob")
        .filter(pl.col("link.up.loss") == "0 %")
    )
    assert lines[0].y.tolist() == pytest.approx(summary["mean"].to_list())
    assert lines[0].range is not None
    assert lines[0].range.low.tolist() == pytest.approx(summary["ci95_low"].to_list())
    assert lines[0].range.high.tolist() == pytest.approx(summary["ci95_high"].to_list())
    assert lines[0].range.whiskers


def test_the_capacity_on_the_axis_is_a_line_that_stays_within_the_axes(grid: Results) -> None:
    plot = grid.plot("receiving_rate", x="link.up.capacity", by="link.up.loss", flow="alice->bob")
    capacity = plot.axes[0].marks[-1]
    assert isinstance(capacity, Line)
    drawn = ~np.isnan(capacity.y)
    assert 10 < drawn.sum() < capacity.y.size
    assert capacity.y[drawn].max() <= plot.y.end
    # The axis has logarithms of Mbit/s, and the rate is in kbit/s.
    assert capacity.y[drawn] == pytest.approx(1000 * 10 ** capacity.x[drawn])
    others = grid.plot("rtt", x="link.up.capacity", by="link.up.loss", flow="alice->bob")
    assert "capacity" not in [mark.look.label for mark in others.axes[0].marks]


def test_two_fields_make_a_heat_map_by_default(grid: Results) -> None:
    plot = grid.plot("receiving_rate", flow="alice->bob")
    (cells,) = plot.axes[0].marks
    assert isinstance(cells, Cells)
    assert cells.x.tolist() == [0, 0, 1, 1, 2, 2]
    assert cells.y.tolist() == [0, 1, 0, 1, 0, 1]
    assert (plot.x.names, plot.y.names) == (["0.2", "1", "5"], ["0", "5"])
    dark = cells.colours[cells.values.argmax()]
    light = cells.colours[cells.values.argmin()]
    assert (dark, light) == (cells.look.colour.lower(), "#f0f5fa")
    assert legend([plot]) == []
    lowest, highest = number(cells.values.min()), number(cells.values.max())
    assert plot.axes[0].note == f"{lowest} (light) to {highest} (dark) kbit/s"
    assert (cells.low <= cells.values).all()
    assert (cells.values <= cells.high).all()


def test_each_repeat_is_averaged_over_the_other_fields(three: Results) -> None:
    others = ["congestion_control.name", "link.up.capacity"]
    plot = three.plot("receiving_rate", x="link.up.loss", flow="alice->bob", average=others)
    (line,) = plot.axes[0].marks
    assert isinstance(line, Line)
    assert line.range is not None
    rows = three.metrics().filter(metric="receiving_rate", flow="alice->bob")
    for index, loss in enumerate(LOSSES):
        at_loss = rows.filter(pl.col("link.up.loss") == loss)
        # Four conditions: two controls by two capacities. A repeat has the same seed at all of them.
        means = [at_loss.filter(repeat=repeat)["value"].mean() for repeat in (0, 1)]
        expected = summarise([float(str(mean)) for mean in means], (0.0, float("inf")))
        assert line.y[index] == pytest.approx(expected.mean)
        assert line.range.low[index] == pytest.approx(expected.ci95_low)
    assert "averaged over the values of congestion control and capacity of the uplinks" in plot.caption


def test_fields_that_are_neither_drawn_nor_averaged_have_axes_of_their_own(three: Results) -> None:
    plot = three.plot("receiving_rate", x="link.up.loss", by="link.up.capacity", flow="alice->bob")
    controls = ["goog-cc", "gcc-2016"]
    assert [axes.title for axes in plot.axes] == [
        f"alice → bob, Congestion control = {name}" for name in controls
    ]
    summary = three.summary(metrics=["receiving_rate"]).filter(flow="alice->bob")
    for axes, control in zip(plot.axes, controls, strict=True):
        for mark, capacity in zip(axes.marks, ["0.5 Mbit/s", "1 Mbit/s"], strict=True):
            rows = summary.filter(
                pl.col("congestion_control.name") == control, pl.col("link.up.capacity") == capacity
            )
            assert isinstance(mark, Line)
            assert mark.y.tolist() == pytest.approx(rows["mean"].to_list())


def measured_rows(missing: set[tuple[str, str, int]]) -> pl.DataFrame:
    """Ten times a value of ``delay``, whatever ``loss`` and the repeat, but for the missing ones."""
    of = pl.Enum(["a", "b", "c"]), pl.Enum(["1", "2"])
    rows = [
        (x, other, repeat, "rtt", "alice->bob", 10.0 * int(other), None, 60.0)
        for x in ("a", "b", "c")
        for other in ("1", "2")
        for repeat in (0, 1)
        if (x, other, repeat) not in missing
    ]
    schema = {"loss": of[0], "delay": of[1], "repeat": pl.Int64, "metric": pl.String, "flow": pl.String}
    schema |= {"value": pl.Float64, "deviation": pl.Float64, "measured_s": pl.Float64}
    return pl.DataFrame(rows, schema=schema, orient="row")


@pytest.mark.parametrize(
    ("missing", "means", "repeats"),
    [
        (set(), {"a": 15, "b": 15, "c": 15}, 4),
        # Without the larger value of repeat 0, its mean would be 10 at b and 15 at the others.
        ({("b", "2", 0)}, {"a": 12.5, "b": 12.5, "c": 12.5}, 3),
        # c has one of four values.
        ({("c", "2", 0), ("c", "2", 1), ("c", "1", 1)}, {"a": 15, "b": 15}, 4),
        ({("b", "2", 0), ("c", "2", 1)}, {"a": 10, "b": 10, "c": 10}, 2),
    ],
)
def test_missing_values_make_no_average_over_other_fields_larger_or_smaller_than_the_next(
    missing: set[tuple[str, str, int]], means: dict[str, float], repeats: int
) -> None:
    table, averaged = marginal_of(measured_rows(missing), ["loss"], ["delay"])
    assert dict(table.select("loss", "mean").iter_rows()) == pytest.approx(means)
    assert averaged == {("rtt", "alice->bob"): Averaged(repeats, of=4)}


def test_without_other_fields_every_point_has_its_own_mean() -> None:
    rows = measured_rows({("b", "2", 0)})
    table, averaged = marginal_of(rows, ["loss", "delay"], [])
    assert table["repeats"].to_list() == [2, 2, 2, 1, 2, 2]
    assert averaged == {}


def test_a_plot_says_what_its_averages_leave_out_and_has_a_gap_without_values(tmp_path: Path) -> None:
    vary = {
        "link.up.loss": ["0 %", "100 %", "1 %"],
        "link.up.capacity": ["0.5 Mbit/s", "1 Mbit/s"],
        "link.up.delay": ["10 ms", "20 ms"],
    }
    made = sweep("first-call", vary, repeats=1, duration="3 s", out=tmp_path)
    both = ["link.up.capacity", "link.up.delay"]
    plot = made.plot("receiving_rate", x="link.up.loss", flow="alice->bob", average=both)
    (line,) = plot.axes[0].marks
    assert isinstance(line, Line)
    assert np.isnan(line.y).tolist() == [False, False, True]  # nobody connects at 100 %
    assert "over the same repeats at every point" in plot.caption
    assert plot.axes[0].note == "too few values at 100 %"
    # Each of the four conditions with 0 % or 1 % has a value at both capacities.
    others = ["link.up.loss", "link.up.delay"]
    of_capacity = made.plot("receiving_rate", x="link.up.capacity", flow="alice->bob", average=others)
    assert of_capacity.axes[0].note == ""
    lines = made.plot(
        "receiving_rate", x="link.up.loss", by="link.up.capacity", flow="alice->bob", average="link.up.delay"
    )
    assert lines.axes[0].note == "too few values at 100 %, 0.5 Mbit/s and 100 %, 1 Mbit/s"


def test_values_that_are_not_numbers_are_drawn_side_by_side(three: Results) -> None:
    plot = three.plot("rtt", x="congestion_control.name", by="link.up.loss", flow="alice->bob")
    assert all(isinstance(mark, Dots) for mark in plot.axes[0].marks)
    assert plot.x.names == ["goog-cc", "gcc-2016"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"name": "receving_rate"}, "no metric `receving_rate`\n  hint: did you mean `receiving_rate`?"),
        ({"name": "rtt", "average": "link.up.delay"}, "average: `link.up.delay` is not varied; expected"),
        ({"name": "rtt", "x": "link.up.delay"}, "x: `link.up.delay` is not varied; expected"),
        ({"name": "rtt", "x": "link.up.loss", "by": "link.up.loss"}, "by: `link.up.loss` is already x"),
        ({"name": "rtt", "x": "link.up.loss", "flow": "a"}, "flow: no flow `a`; expected `alice->bob` or"),
        (
            {"name": "tcp_rtt", "x": "link.up.loss"},
            "tcp_rtt has no value: nothing that it measures was there",
        ),
    ],
)
def test_a_plot_with_invalid_arguments_is_refused(
    three: Results, arguments: dict[str, str], message: str
) -> None:
    with pytest.raises(BadInput, match=re.escape(message)):
        three.plot(**arguments)


@pytest.mark.parametrize("suffix", [".svg", ".png", ".html"])
def test_lines_and_heat_maps_can_be_saved(grid: Results, tmp_path: Path, suffix: str) -> None:
    for index, chosen in enumerate(({}, {"x": "link.up.capacity", "by": "link.up.loss"})):
        saved = grid.plot("receiving_rate", **chosen).save(tmp_path / f"{index}{suffix}")
        assert saved.stat().st_size > 1000


def test_the_report_shows_fields_plots_and_conditions_in_one_file(grid: Results) -> None:
    text = grid.report().read_text()
    page = text[: text.index('<script type="application/json"')]
    assert "0.2 Mbit/s, 1 Mbit/s, 5 Mbit/s" in page
    assert "Receiving rate against capacity of the uplinks" in page
    assert "3 of each, with the same seeds" in page
    assert "18 of 18" in page
    for name in ("conditions", "map", "how"):
        assert f'<h2 id="{name}">' in page
    table = page[page.index('<h2 id="conditions">') : page.index("Further metrics of each condition")]
    assert table.count("<tr>") == 1 + 6 * 2  # a heading, conditions by flows
    assert not re.search(r'(?:src|href)="(?!data:|#)', page)


@pytest.mark.parametrize(
    ("chosen", "part", "file"),
    [
        ({"link.up.loss": "5 %"}, "link.up.loss = 5 %", "report-link.up.loss-5.html"),
        (
            {"link.up.loss": "5 %", "link.up.capacity": "1 Mbit/s"},
            "link.up.capacity = 1 Mbit/s; link.up.loss = 5 %",
            "report-link.up.capacity-1-Mbit-s-link.up.loss-5.html",
        ),
    ],
)
def test_the_report_of_a_part_says_which_and_leaves_the_report_of_the_whole(
    grid: Results, chosen: dict[str, str], part: str, file: str
) -> None:
    whole = grid.report()
    before = whole.read_bytes()
    page = grid.where(chosen).report()
    assert (page.name, whole.read_bytes()) == (file, before)
    assert f"Only a part of the conditions: {part}." in page.read_text()
    assert "Only a part" not in whole.read_text()


def test_the_report_of_conditions_that_make_no_grid_names_them_in_a_name_of_bounded_length(
    grid: Results,
) -> None:
    page = grid[[grid.conditions[0], grid.conditions[-1]]].report()
    assert f"Only a part of the conditions: {grid.conditions[0]}, {grid.conditions[-1]}." in page.read_text()
    assert len(page.name) < 110


def test_the_report_names_failed_repeats(tmp_path: Path) -> None:
    vary = {"link.up.loss": ["0 %", "100 %"]}
    made = sweep("first-call", vary, repeats=2, duration="5 s", out=tmp_path)
    page = made.report().read_text()
    assert "link.up.loss = 100 %, repeat 1" in page
    assert "alice and bob did not connect within 5 s" in page


SWEEP = ("sweep", "first-call", "--duration", "5s", "--repeats", "2", "--jobs", "1")
VARY = ("--vary", "link.up.capacity=0.5..1 Mbit/s x2", "--vary", "link.up.loss=0 %,5 %")


def test_the_command_prints_a_row_for_each_condition_and_flow(rtclab: Rtclab) -> None:
    result = rtclab(*SWEEP, *VARY)
    assert (result.status, result.err) == (0, "")
    lines = [line.split() for line in result.out.splitlines() if "->" in line]
    assert [line[:5] for line in lines[:3]] == [
        ["0.5", "Mbit/s", "0", "%", "alice->bob"],
        ["0.5", "Mbit/s", "0", "%", "bob->alice"],
        ["0.5", "Mbit/s", "5", "%", "alice->bob"],
    ]
    assert len(lines) == 8
    assert "run: runs/first-call-sweep-1 (8 of 8 repeats finished)" in result.out
    assert Path("runs/first-call-sweep-1/report.html").is_file()


def test_the_command_prints_json(rtclab: Rtclab) -> None:
    answer: dict[str, Any] = json.loads(rtclab(*SWEEP, *VARY, "--json", "--no-report").out)
    assert (answer["run"], answer["page"]) == ("runs/first-call-sweep-1", None)
    assert [repeat["status"] for repeat in answer["repeats"]] == ["finished"] * 8
    assert answer["metrics"] == open_results("first-call-sweep-1").summary().to_dicts()


def test_the_exit_status_is_1_if_a_repeat_failed(rtclab: Rtclab) -> None:
    result = rtclab(*SWEEP, "--vary", "link.up.loss=0 %,100 %", "--no-report")
    assert result.status == 1
    assert "link.up.loss = 100 %, 2 repeats failed: alice and bob did not connect" in result.err


def test_a_row_of_fewer_repeats_than_others_says_so(rtclab: Rtclab) -> None:
    code = "class C:\n    def on_feedback(self, now, feedback): return 4e5\n"
    bad = code.replace(
        "class C:", "import random\nclass C:\n    def __init__(self): self.x = random.random()"
    )
    bad = bad.replace("return 4e5", "return 4e5 if self.x < 0.8 else None")
    Path("good.py").write_text(code)
    Path("bad.py").write_text(bad)
    many = ["sweep", "first-call", "--duration", "5s", "--repeats", "8"]
    result = rtclab(*many, "--vary", "control=good.py:C,bad.py:C")
    assert result.status == 1
    found = re.search(r"run: (\S+) \((\d+) of 16 repeats finished\)", result.out)
    assert found is not None
    left = int(found[2]) - 8
    assert 0 < left < 8
    assert re.search(r"control +flow +repeats ", result.out)
    assert re.search(rf"bad\.py:C +alice->bob +{left} ", result.out)
    assert re.search(r"good\.py:C +alice->bob +8 ", result.out)
    page = Path(found[1], "report.html").read_text()
    assert page.count(f"{left} of 8 repeats") == 2 * 2  # two flows in two tables
    assert "A row of fewer repeats is not comparable" in page
    complete = rtclab(*many, "--vary", "control=good.py:C")
    assert "repeats  " not in complete.out.partition("\n")[2]


def test_the_command_resumes_a_sweep(rtclab: Rtclab) -> None:
    assert rtclab(*SWEEP, *VARY, "--no-report").status == 0
    result = rtclab("sweep", "--resume", "first-call-sweep-1", "--no-report")
    assert (result.status, "8 of 8 repeats finished" in result.out) == (0, True)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--vary", "link.up.loss=0 %", "--vary", "link.up.loss=5 %"), "--vary: link.up.loss is given twice"),
        (("--vary", "link.up.los=0 %"), "vary: link.up.los: unknown key"),
        (("--set", "link.up.delay=2", "--vary", "link.up.loss=0 %"), "--set: link.up.delay: no unit in `2`"),
        ((), "vary: no field; expected at least one"),
    ],
)
def test_the_exit_status_is_2_for_bad_input(rtclab: Rtclab, arguments: tuple[str, ...], message: str) -> None:
    result = rtclab(*SWEEP, *arguments)
    assert result.status == 2
    assert result.err.startswith(message)
    assert not Path("runs").exists()


def test_the_help_has_an_example(rtclab: Rtclab) -> None:
    result = rtclab("sweep", "--help")
    assert result.status == 0
    assert "Example: rtclab sweep" in result.out


@pytest.mark.filterwarnings("error")
def test_a_single_value_is_in_the_middle_of_the_axis(tmp_path: Path) -> None:
    grid = sweep("first-call", {"link.up.loss": ["2 %"]}, duration="2 s", repeats=1, out=tmp_path)
    plot = grid.plot("receiving_rate")
    assert plot.x.begin < plot.x.places[0] < plot.x.end
    page = grid.report().read_text()
    assert "Receiving rate against loss of the uplinks" in page
    assert "Nothing was measured" not in page
