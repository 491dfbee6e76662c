"""Single plots of runs, and the files they are saved as."""

from __future__ import annotations

import json
import re
from itertools import permutations
from pathlib import Path
from xml.etree import ElementTree

import matplotlib
import numpy as np
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from synthetic_run import call_tables, frame, second, write_run

import rtclab
from rtclab.errors import BadInput
from rtclab.report import (
    COMPARISON_PLOTS,
    RUN_PLOTS,
    Plot,
    chart,
    comparison_plot,
    picture,
    run_plot,
    run_plots,
)
from rtclab.report.drawing import Axes, Axis, Dots, Line, Style
from rtclab.report.picture_sizes import LEGEND_EDGE_IN, WIDE
from rtclab.report.plot_kinds import Bars, bars
from rtclab.report.static_svg import static_svgs
from rtclab.trace import Run

SVG = "{http://www.w3.org/2000/svg}"


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    return write_run(tmp_path_factory.mktemp("runs"), [call_tables(seed) for seed in range(3)])


@pytest.fixture(scope="module")
def rate(run: Run) -> Plot:
    return run_plot(run, "rate")


def texts(svg: str) -> set[str | None]:
    return {element.text for element in ElementTree.fromstring(svg).iter(f"{SVG}text")}


def test_the_suffix_decides_the_format_of_a_saved_plot(rate: Plot, tmp_path: Path) -> None:
    begins = {"svg": b"<?xml", "png": b"\x89PNG", "pdf": b"%PDF", "html": b"<!DOCTYPE html>"}
    for suffix, begin in begins.items():
        file = rate.save(tmp_path / "new" / f"rate.{suffix}")
        assert file.read_bytes().startswith(begin)


def test_the_error_for_another_suffix_lists_the_possible_ones(rate: Plot, tmp_path: Path) -> None:
    with pytest.raises(
        BadInput, match=r"rate\.eps`: expected a name that ends in \.svg, \.png, \.pdf, \.html"
    ):
        rate.save(tmp_path / "rate.eps")
    assert list(tmp_path.iterdir()) == []


def test_a_legend_does_not_touch_the_edge_of_a_picture_nor_the_axes(rate: Plot) -> None:
    with matplotlib.rc_context(WIDE.style):
        figure = picture._draw(rate)
        FigureCanvasAgg(figure).draw()
        (legend,) = figure.legends
        box, axes = legend.get_window_extent(), figure.axes[0].get_window_extent()
    margin = LEGEND_EDGE_IN * figure.dpi
    assert box.x0 == pytest.approx(margin, abs=1)
    assert figure.bbox.y1 - box.y1 == pytest.approx(margin, abs=1)
    assert box.x1 <= figure.bbox.x1 - margin
    assert box.y0 >= axes.y1


def test_text_in_an_svg_stays_text(rate: Plot) -> None:
    svg = rate._repr_svg_()
    assert {"Time (s)", "Rate (kbit/s)", "capacity", "range over repeats", "alice → bob"} <= texts(svg)
    assert "<metadata>" not in svg


def test_the_same_plot_gives_the_same_bytes(rate: Plot, tmp_path: Path) -> None:
    for suffix in ("svg", "png", "pdf"):
        first, second = (rate.save(tmp_path / f"{name}.{suffix}").read_bytes() for name in "ab")
        assert first == second


def test_a_pdf_has_no_date_and_embeds_its_letters_as_truetype(rate: Plot, tmp_path: Path) -> None:
    pdf = rate.save(tmp_path / "rate.pdf").read_bytes()
    assert b"CreationDate" not in pdf
    assert b"/FontFile2" in pdf  # the entry of a TrueType font, PDF 32000-1, table 122


def test_one_flow_can_be_drawn_alone(run: Run) -> None:
    assert [axes.title for axes in run_plot(run, "rate").axes] == ["alice → bob", "bob → alice"]
    assert [axes.title for axes in run_plot(run, "rate", "bob->alice").axes] == ["bob → alice"]
    twice = {"a": run, "b": run}
    assert [axes.title for axes in comparison_plot(twice, "rate", "bob->alice").axes] == ["bob → alice"]


def test_run_and_comparison_of_the_python_interface_draw_the_chosen_flow(run: Run) -> None:
    opened = rtclab.open(run.path)
    for plotted in (opened, rtclab.compare(opened, opened)):
        assert [axes.title for axes in plotted.plot("rate", flow="bob->alice").axes] == ["bob → alice"]


def test_the_error_for_an_unknown_flow_lists_all_flows(run: Run) -> None:
    message = "flow: no flow `bob`; expected `alice->bob` or `bob->alice`"
    with pytest.raises(BadInput, match=message):
        run_plot(run, "rate", "bob")
    with pytest.raises(BadInput, match=message):
        comparison_plot({"a": run, "b": run}, "rate", "bob")


def test_a_flow_of_a_run_without_finished_repeats_cannot_be_drawn(tmp_path: Path) -> None:
    failed = write_run(tmp_path, [{}], failed={0: "died"})
    with pytest.raises(BadInput, match="no data for the plot `rate`"):
        run_plot(failed, "rate", "alice->bob")


def test_the_error_for_an_unknown_plot_lists_all_plots(run: Run) -> None:
    with pytest.raises(BadInput, match=f"no plot `rates`; expected {', '.join(RUN_PLOTS)}"):
        run_plot(run, "rates")
    with pytest.raises(BadInput, match=f"no plot `target`; expected {', '.join(COMPARISON_PLOTS)}"):
        comparison_plot({"a": run, "b": run}, "target")


def test_a_plot_that_would_be_empty_is_refused(tmp_path: Path) -> None:
    rows = frame("flow_seconds", [second(at, 100) for at in range(5)])
    run = write_run(tmp_path, [{"flow_seconds": rows}])
    with pytest.raises(BadInput, match="first-call-sim-1: no data for the plot `frame-rate`"):
        run_plot(run, "frame-rate")


def test_a_run_has_the_plots_for_which_it_has_data(run: Run) -> None:
    names = [
        "rate",
        "delay",
        "rtt",
        "loss",
        "resolution",
        "frame-rate",
        "processor",
        "target",
        "delay-distribution",
        "repeats",
    ]
    assert [plot.name for plot in run_plots(run)] == names


def test_flows_through_a_server_are_drawn_from_end_to_end(tmp_path: Path) -> None:
    flows: dict[str, list[str]] = {"alice->sfu": [], "sfu->bob": [], "alice->bob": []}
    rows = [second(at, 100, flow=flow) for flow in flows for at in range(5)]
    run = write_run(tmp_path, [{"flow_seconds": frame("flow_seconds", rows)}], flows=flows)
    manifest = run.traces[0].manifest
    calls = {name: flow.model_copy(update={"call": 0}) for name, flow in manifest.flows.items()}
    run.traces[0].manifest = manifest.model_copy(update={"flows": calls, "participants": ("alice", "bob")})
    assert [axes.title for axes in run_plot(run, "rate").axes] == ["alice → bob"]
    assert [axes.title for axes in run_plot(run, "rate", "sfu->bob").axes] == ["sfu → bob"]


def test_tcp_beside_a_call_of_three_over_a_server_has_a_colour_of_its_own(tmp_path: Path) -> None:
    flows: dict[str, list[str]] = {f"{a}->{b}": [] for a, b in permutations(("alice", "bob", "carol"), 2)}
    flows["tcp"] = []
    rows = [second(at, 100, flow=flow) for flow in flows for at in range(5)]
    run = write_run(tmp_path, [{"flow_seconds": frame("flow_seconds", rows)}], flows=flows)
    plot = run_plot(run, "rate")
    assert [axes.title for axes in plot.axes] == ["to alice", "to bob", "to carol", "tcp"]
    colours = {mark.look.label: mark.look.colour for mark in plot.marks}
    assert colours.keys() == {"from alice", "from bob", "from carol", "tcp"}
    assert len(set(colours.values())) == 4


def test_the_data_of_a_chart_are_rounded_and_nan_is_null() -> None:
    line = Line(Style.numbered(0, "a"), np.array([0.5, 1.5]), np.array([1234.5678, np.nan]))
    plot = Plot(
        "rate", "Rate", "", Axis("Time (s)", 0, 2), Axis("Rate (kbit/s)", 0, 1300), [Axes("", [line])]
    )
    (found,) = json.loads(chart.data([plot], tied=True))
    assert found["y"]["unit"] == "kbit/s"
    assert found["axes"][0]["marks"][0]["x"] == [0.5, 1.5]
    assert found["axes"][0]["marks"][0]["y"] == [1235, None]


def test_points_of_a_static_svg_are_at_the_places_given_by_the_axes() -> None:
    # The axes go from 52 to 470 and, downwards, from 24 to 208.
    x, y = np.array([0.0, 25.0, 50.0, 75.0, 100.0]), np.array([0.0, 5.0, np.nan, 5.0, 10.0])
    line = Line(Style.numbered(0, "a"), x, y)
    plot = Plot("p", "P", "", Axis("x (s)", 0, 100), Axis("y (ms)", 0, 10), [Axes("of a < b", [line])])
    (svg,) = static_svgs(plot)
    assert re.findall(r'<polyline points="([^"]*)"', svg) == [
        "52.0,208.0 156.5,116.0",
        "365.5,116.0 470.0,24.0",
    ]
    assert {"x (s)", "y (ms)", "of a < b", "0", "2", "10", "20", "100"} <= texts(
        svg.replace("<svg", f'<svg xmlns="{SVG[1:-1]}"')
    )


def test_bars_of_a_group_are_side_by_side_around_its_centre() -> None:
    series = [Bars(Style.numbered(index, name), [10.0, 20.0], [1.0, 0.0]) for index, name in enumerate("ab")]
    plot = bars("b", "B", "", series, ["one", "two"], "Rate (kbit/s)")
    first, second = plot.marks
    assert first.x.tolist() == pytest.approx([-0.19, 0.81])
    assert second.x.tolist() == pytest.approx([0.19, 1.19])
    assert plot.y.end == pytest.approx(21)
    assert static_svgs(plot)[0].count("V") == 2 * 2 * 2 + 2  # two vertical sides of each bar, two error bars


def test_a_logarithmic_axis_has_ticks_at_1_and_3_of_each_decade_at_the_logarithms_of_their_names() -> None:
    axis = Axis.logarithmic("Delay (ms)", 0.5, 40)
    assert axis.names == ["1", "3", "10", "30"]
    assert axis.places == pytest.approx([0, 0.4771, 1, 1.4771], abs=1e-4)
    assert (axis.begin, axis.end) == pytest.approx((-0.3510, 1.6521), abs=1e-4)


def test_marks_have_their_size_on_pages_and_in_static_svgs() -> None:
    one, look = np.array([1.0]), Style.numbered(0, "a")
    dots = [Dots(look, one, one, one, one), Dots(look, one, one, one, one, size=1.5)]
    plot = Plot("p", "P", "", Axis("x", 0, 2), Axis("y", 0, 2), [Axes("", dots)])
    (found,) = json.loads(chart.data([plot], tied=False))
    assert [mark["size"] for mark in found["axes"][0]["marks"]] == [1, 1.5]
    assert static_svgs(plot)[0].count("scale(1.5)") == 1


def test_an_image_has_the_size_that_is_asked_for(run: Run, tmp_path: Path) -> None:
    plot = run_plot(run, "rate")
    assert len(plot.axes) == 2
    heights = {}
    for width_in, row_in in [(3.4, 2.0), (3.4, 3.0), (7.0, 2.0)]:
        svg = plot.save(tmp_path / "rate.svg", size=(width_in, row_in)).read_text()
        size = re.search(r'width="([\d.]+)pt" height="([\d.]+)pt"', svg)
        assert size is not None
        # 72 points to an inch.
        assert float(size[1]) == pytest.approx(72 * width_in)
        heights[width_in, row_in] = float(size[2])
    # A narrow picture has one panel in a row, so two rows here.
    assert heights[3.4, 3.0] - heights[3.4, 2.0] == pytest.approx(2 * 72)
    assert heights[7.0, 2.0] < heights[3.4, 2.0]
    with pytest.raises(BadInput, match="size: a page has the size of its window"):
        plot.save(tmp_path / "rate.html", size=(3.4, 2.0))
