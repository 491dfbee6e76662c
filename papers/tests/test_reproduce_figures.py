"""Published values in figures, and the pictures in the documentation."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest
from synthetic_run import second
from synthetic_run import trace as synthetic_trace

from rtclab.errors import BadInput
from rtclab.report.drawing import INK, Dots, Line
from rtclab.report.picture_sizes import NARROW
from rtclab.report.plot import Plot
from rtclab.trace import Trace
from rtclab_papers.reproduce import NAMES, paper
from rtclab_papers.reproduce.figure_marks import PUBLISHED, Printed, cell_of, with_published
from rtclab_papers.reproduce.figures import Figure, figures_of
from rtclab_papers.reproduce.measurements import Measurements
from rtclab_papers.reproduce.measures import MEDIA, Values
from rtclab_papers.reproduce.pages import file_name
from rtclab_papers.reproduce.paper import PUBLISHED as FILES
from rtclab_papers.reproduce.published_cells import Cell

DOCS = Path(__file__).parents[2] / "docs"
MOST_BYTES = 60_000
"""Limit of the size of a figure in the documentation."""
MOST_BYTES_OF_ALL = 2_500_000
SVG = "{http://www.w3.org/2000/svg}"
FIGURES = [(name, figure) for name in NAMES for figure in paper(name).figures]
IDS = [f"{name} {figure.number}" for name, figure in FIGURES]


CALL: Values = {
    MEDIA: {"alice->bob": (1.0, None), "bob->alice": (1.0, None)},
    "rate_kbps": {"alice->bob": (1000.0, 50.0), "bob->alice": (500.0, 50.0)},
}


class Calls(Measurements):
    """Calls of 10 s, in which alice sends 1000 kbit/s and bob 500."""

    def traces(self, scenario: str, repeats: int = 1) -> list[Trace]:
        rows = [second(at, 125, flow="alice->bob") for at in range(10)]
        return [synthetic_trace(flow_seconds=rows)] * repeats


RESULTS = Calls({name: dict.fromkeys(range(3), CALL) for name in ("my/call", "my/other")})


def figure(**keys: object) -> Figure:
    row = {
        "number": "5",
        "title": "Rates",
        "caption": "One call.",
        "metric": "rate_kbps",
        "scenario": "my/call",
    }
    (read,) = figures_of(row | {"lines": [{"flow": "alice->bob"}]} | keys, "test")
    return read


def shown(one: Figure, printed: Sequence[Printed] = ()) -> Plot:
    """The plot of a figure with our results and the published values."""
    return with_published(one.draw(RESULTS), one, printed)


def cell(mean: float, sd: float | None = None, flows: str = "*->*", **keys: object) -> Printed:
    row = {"table": "II", "row": "1 %", "machine": "A", "column": "Rate", "metric": "rate_kbps"}
    return Cell.read(row | {"scenario": "my/call", "mean": mean, "sd": sd} | keys, "test"), flows


BOTH = [{"flow": "alice->bob"}, {"flow": "bob->alice"}]


def published(plot: Plot) -> list[Dots | Line]:
    return [mark for mark in plot.marks if mark.look.label == PUBLISHED and isinstance(mark, (Dots, Line))]


def test_a_cell_of_the_lines_own_flows_comes_before_a_cell_of_all_machines() -> None:
    (line,) = figure().lines
    overall, own, others = cell(10), cell(20, flows="alice->*"), cell(30, flows="bob->*")
    assert cell_of(line, "rate_kbps", [overall, own, others]) == own[0]
    assert cell_of(line, "rate_kbps", [overall, others]) == overall[0]
    assert cell_of(line, "rate_kbps", [others]) is None


def test_cells_that_differ_or_that_the_paper_contradicts_are_not_drawn() -> None:
    (line,) = figure().lines
    assert cell_of(line, "rate_kbps", [cell(10), cell(10, table="I")]) is not None
    assert cell_of(line, "rate_kbps", [cell(10), cell(11)]) is None
    assert cell_of(line, "rate_kbps", [cell(10, status="unusable")]) is None
    assert cell_of(line, "rate_kbps", [cell(float("nan"))]) is None
    assert cell_of(line, "rate_kbps", [cell(10, metric="media_rate_kbps")]) is None


def test_a_line_over_several_flows_takes_a_cell_with_the_same_pattern_only() -> None:
    (line,) = figure(lines=[{"flow": "alice->*"}]).lines
    assert cell_of(line, "rate_kbps", [cell(10, flows="alice->*")]) is not None
    assert cell_of(line, "rate_kbps", [cell(10, flows="*->bob")]) is None


def test_the_mean_of_a_whole_call_is_a_diamond_at_the_right_of_its_curve() -> None:
    plot = shown(figure(), [cell(900, 80)])
    (mark,) = published(plot)
    assert isinstance(mark, Dots)
    assert (mark.y, mark.low, mark.high) == (900, 820, 980)
    # The call lasts 10 s.
    assert plot.x.last_tick == 10
    assert 10 < mark.x < plot.x.end
    assert mark.look.colour == plot.axes[0].marks[0].look.colour
    assert plot.caption == "One call. Published: table II (mean ± standard deviation)."


def test_a_value_of_several_curves_is_drawn_once_and_in_the_colour_of_text() -> None:
    lines = [{"label": "sent", "metric": "sent_kbps"}, {"label": "received"}]
    two = figure(flow="alice->bob", lines=lines, cells="rate_kbps")
    (mark,) = published(shown(two, [cell(900)]))
    assert mark.look.colour == INK


def test_a_value_of_a_part_of_a_call_is_a_line_over_that_part() -> None:
    stated = [{"value": 700, "window_s": [2, 6], "source": "section 4"}]
    plot = shown(figure(published=stated))
    (mark,) = published(plot)
    assert isinstance(mark, Line)
    assert (mark.x.tolist(), mark.y.tolist()) == ([2, 6], [700, 700])
    assert plot.x.end == 10
    assert plot.caption.endswith("Published: section 4.")


def test_bars_and_means_of_repeats_have_diamonds_with_the_deviation_of_the_table() -> None:
    cells = [cell(900, 80, flows="alice->*"), cell(2000, 60, flows="bob->*")]
    for form in ("bars", "means", "per repeat"):
        plot = shown(figure(form=form, lines=BOTH), cells)
        marks = [mark for mark in published(plot) if isinstance(mark, Dots)]
        columns = (np.concatenate([getattr(mark, end) for mark in marks]) for end in ("y", "low", "high"))
        heights = list(zip(*columns, strict=True))
        assert heights == [(900, 820, 980), (2000, 1940, 2060)], form
        assert plot.y.end > 2060


def test_a_printed_change_is_drawn_as_a_change_of_our_first_bar() -> None:
    lines = [{"label": "before", "flow": "alice->bob"}, {"label": "after", "flow": "bob->alice"}]
    stated = [{"label": "after", "group": "mean", "change": [-25], "source": "text"}]
    (mark,) = published(shown(figure(form="bars per repeat", lines=lines, published=stated)))
    assert mark.y == 750
    stated = [{"label": "after", "change": [23, 4], "source": "text"}]
    (mark,) = published(shown(figure(form="means", lines=lines, published=stated)))
    assert mark.y.tolist() == pytest.approx([1040, 1230])


@pytest.mark.parametrize(
    ("keys", "problem"),
    [
        ({"published": [{"source": "text"}]}, "published.0.value: expected either `value` or `change`"),
        ({"published": [{"value": 1}]}, "published.0.source: missing"),
        (
            {"published": [{"value": 1, "label": "bob", "source": "text"}]},
            "published.0.label: no `bob`; expected `alice → bob`",
        ),
        (
            {"published": [{"value": 1, "group": "x", "source": "text"}], "group": "left"},
            "published.0.group: no `x`; expected `left`",
        ),
        (
            {"published": [{"value": 1, "source": "text"}], "form": "distribution", "metric": "owd_ms"},
            "published: a distribution shows no published values",
        ),
    ],
)
def test_the_error_for_a_published_value_names_its_key(keys: dict[str, object], problem: str) -> None:
    with pytest.raises(BadInput, match=f"figure `5`: {problem}"):
        figure(**keys)


def test_a_figure_shows_at_most_twelve_repeats_and_the_mean_of_all() -> None:
    results = Measurements({"my/call": dict.fromkeys(range(40), CALL)})
    assert list(figure(form="bars per repeat").draw(results).x.names) == [*map(str, range(1, 13)), "mean"]
    assert list(figure(form="per repeat").draw(results).x.names) == [*map(str, range(1, 13)), "mean"]


@pytest.mark.parametrize(("name", "drawn"), FIGURES, ids=IDS)
def test_the_lines_of_a_figure_find_the_cells_of_the_csv_file(name: str, drawn: Figure) -> None:
    with (FILES / f"{name}.csv").open(encoding="utf-8", newline="") as lines:
        rows = list(csv.DictReader(lines))
    one = paper(name)
    printed = [(cell, one.flows(cell)) for cell in one.cells]
    found = [(line, cell_of(line, drawn.cells or line.metric, printed)) for line in drawn.lines]
    for line, cell in found:
        if cell is not None:
            same = [row for row in rows if row["table"] == cell.table and row["scenario"] == line.condition]
            assert (f"{cell.mean:g}", f"{cell.sd or 0:g}") in {
                (f"{float(row['mean'] or 'nan'):g}", f"{float(row['sd'] or 0):g}")
                for row in same
                if row["metric"] == cell.metric and row["machine"] == cell.machine
            }
    if drawn.cells is not None:
        assert any(cell for _, cell in found), "none of the lines has a cell with this metric"


@pytest.mark.parametrize(("name", "drawn"), FIGURES, ids=IDS)
def test_every_figure_is_a_small_picture_whose_legend_names_its_curves(name: str, drawn: Figure) -> None:
    file = DOCS / file_name("reproduction", name, drawn.number)
    content = file.read_bytes()
    assert len(content) <= MOST_BYTES
    texts = {element.text for element in ElementTree.fromstring(content).iter(f"{SVG}text")}
    assert set(drawn.names) <= texts
    assert (PUBLISHED in texts) or not drawn.published


def test_the_pictures_are_the_figures_of_the_papers_and_no_others() -> None:
    files = {file.name: file.stat().st_size for file in DOCS.glob("reproduction-*-figure-*.svg")}
    assert set(files) == {file_name("reproduction", name, drawn.number) for name, drawn in FIGURES}
    assert sum(files.values()) < MOST_BYTES_OF_ALL


def test_letters_of_a_narrow_picture_have_nine_pixels_on_a_phone() -> None:
    width_px = 360
    assert NARROW.font_pt / (72 * NARROW.width_in) * width_px == pytest.approx(9.4, abs=0.1)


def test_names_below_bars_break_where_they_do_not_fit_and_keep_a_number_beside_its_unit() -> None:
    names = ["delay of 50 ms", "1000 ms"]
    assert NARROW.wrapped(names, width_in=2) == names
    assert NARROW.wrapped(names, width_in=0.9) == ["delay of\n50 ms", "1000 ms"]


def test_no_value_lies_above_the_axes() -> None:
    plot = shown(figure(), [cell(9000, 500)])
    assert plot.y.end >= max(float(np.max(mark.high)) for mark in published(plot) if isinstance(mark, Dots))
