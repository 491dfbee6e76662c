"""The page of a sweep: its answer, heat maps, commands of examples, and names of fields."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from command_line import Rtclab

import rtclab
from rtclab.experiment import Condition, Results
from rtclab.experiment.fields import Field
from rtclab.lab import sweep
from rtclab.metrics import METRICS
from rtclab.report.drawing import COLOURS, INK, Cells, Line, Style, luminance
from rtclab.report.field_names import field_in_words, heading, short_values
from rtclab.report.plots_of_sweeps import cut, on_route
from rtclab.report.sweep_answer import Facts, answer, verdict
from rtclab.report.sweep_examples import example_command
from rtclab.report.sweep_maps import heat_map, oriented
from rtclab.report.sweep_values import Interval, amount, flows_are_alike, three_digits
from rtclab.report.sweeps import SweepPage, SweepView, largest_pictures
from rtclab.scenario import Scenario

LOSSES = ("0 %", "5 %", "10 %")
CAPACITIES = ("0.3 Mbit/s", "2 Mbit/s")
LOSS = Field("link.up.loss", LOSSES, LOSSES, numbers=(0.0, 5.0, 10.0), unit="%")
CAPACITY = Field("link.up.capacity", CAPACITIES, CAPACITIES, numbers=(3e5, 2e6), unit="bit/s")


@pytest.fixture(scope="module")
def grid(tmp_path_factory: pytest.TempPathFactory) -> Results:
    """Two capacities by three losses, with a faster downlink."""
    vary = {"link.up.capacity": [*CAPACITIES], "link.up.loss": [*LOSSES]}
    out = tmp_path_factory.mktemp("runs")
    options = {"repeats": 8, "duration": "15 s", "set": {"link.down.capacity": "10 Mbit/s"}}
    return sweep("first-call", vary, out=out, **options)


def page_of(results: Results, chosen: SweepView | None = None) -> SweepPage:
    return SweepPage(results, results.summary(), chosen or SweepView())


@pytest.mark.parametrize(
    ("field", "words"),
    [
        ("link.up.capacity", "capacity of the uplinks"),
        ("participants.bob.link.down.loss", "loss of bob's downlink"),
        ("link.up.delay+link.down.delay", "delay of the uplinks and the downlinks"),
        ("video.max_bitrate", "max bitrate of video"),
        ("congestion_control.name", "congestion control"),
        ("duration", "duration"),
        ("bottlenecks.core.up.queue", "queue of bottlenecks core up"),
    ],
)
def test_fields_have_names_for_readers(field: str, words: str) -> None:
    assert field_in_words(field) == words


def test_titles_and_values_of_fields_have_the_unit_and_three_digits() -> None:
    field = Field(
        "link.up.capacity", (), ("0.5017 Mbit/s", "5 Mbit/s"), numbers=(501_700.0, 5e6), unit="bit/s"
    )
    assert heading("link.up.capacity", "Mbit/s") == "Capacity of the uplinks (Mbit/s)"
    assert short_values(field) == {"0.5017 Mbit/s": "0.502 Mbit/s", "5 Mbit/s": "5 Mbit/s"}


@pytest.mark.parametrize(
    ("value", "unit", "words"),
    [
        (1610.4, "kbit/s", "1.61 Mbit/s"),
        (999.4, "kbit/s", "999 kbit/s"),
        (0.0, "s", "0 s"),
        (12345.6, "ms", "12346 ms"),
        (0.42049, "%", "0.42 %"),
        (3.0, "", "3"),
    ],
)
def test_amounts_have_three_digits(value: float, unit: str, words: str) -> None:
    assert amount(value, unit) == words
    assert "e" not in three_digits(value)


def known(mean: float, half: float, repeats: int = 5, flow: str = "alice->bob") -> Interval:
    return Interval(mean, mean - half, mean + half, flow, repeats)


def of_one_field(field: Field, **values: list[Interval]) -> Facts:
    """What is known of a sweep of one field, from the estimates of each metric."""
    along = {name: dict(zip(field.texts, of, strict=True)) for name, of in values.items()}
    points = {name: {(text,): one for text, one in of.items()} for name, of in along.items()}
    return Facts([field], {field.name: along}, points, path="runs/a-sweep-1")


def test_the_answer_names_only_what_differs_beyond_the_intervals() -> None:
    rates, same = [known(1000, 50), known(900, 60), known(500, 50)], [known(100, 30)] * 3
    said = verdict(of_one_field(LOSS, receiving_rate=rates, queuing_delay_p95=same))
    assert said == "From 0 % to 10 % (loss of the uplinks) the rate falls from 1 Mbit/s to 500 kbit/s."
    wide = [known(1000, 300), known(900, 60), known(500, 300)]
    none = "Different values of the loss of the uplinks make no difference beyond the 95 % intervals."
    assert verdict(of_one_field(LOSS, receiving_rate=wide, queuing_delay_p95=same)) == none


@pytest.mark.parametrize(
    ("freezes", "words"),
    [
        ([known(0, 0), known(0, 0), known(3, 1)], "freezes begin at 10 %"),
        ([known(0, 0), known(2, 1), known(3, 1)], "freezes begin at 5 %"),
        # At 5 %, chance may have made them.
        ([known(0, 0), known(2, 3), known(3, 1)], "the time that video is frozen rises from 0 s to 3 s"),
        ([known(1, 0.5), known(2, 1), known(4, 1)], "the time that video is frozen rises from 1 s to 4 s"),
        ([known(3, 2), known(3, 2), known(4, 1)], ""),
    ],
)
def test_freezes_begin_where_their_interval_is_above_zero(freezes: list[Interval], words: str) -> None:
    rates = [known(1000, 1), known(900, 1), known(500, 1)]
    said = verdict(of_one_field(LOSS, receiving_rate=rates, freeze_duration=freezes))
    assert said.removesuffix(".").partition("; ")[2] == words


@pytest.mark.parametrize(
    ("means", "words"),
    [
        ([100, 200, 500], "pictures take over 400 ms from 10 % on"),
        ([100, 200, 300], "pictures take over 150 ms from 5 % on"),
        ([160, 200, 300], "the delay of pictures rises from 160 ms to 300 ms"),
    ],
)
def test_delays_name_the_largest_limit_that_is_passed(means: list[float], words: str) -> None:
    delays = [known(mean, 5) for mean in means]
    assert words in verdict(of_one_field(LOSS, picture_delay=delays))
    (figure,) = answer(of_one_field(LOSS, picture_delay=delays)).figures[1:]
    assert (figure.value, figure.mark) == (str(means[-1]), "bad" if means[-1] > 400 else "poor")
    assert "ITU-T G.1010" in figure.source


def test_a_single_repeat_proves_nothing() -> None:
    found = of_one_field(
        LOSS, receiving_rate=[known(1000, float("nan"), 1)] * 2 + [known(10, float("nan"), 1)]
    )
    assert "With one repeat of each, nothing says what is chance." in verdict(found)
    assert [step.command for step in answer(found).steps] == [
        "rtclab sweep --resume runs/a-sweep-1 --repeats 5"
    ]


def test_the_answer_of_two_fields_agrees_with_the_summary(grid: Results) -> None:
    said = page_of(grid).verdict
    assert said.startswith("From 2 Mbit/s to 0.3 Mbit/s (capacity of the uplinks) the mean rate falls from ")
    rows = grid.summary(metrics="receiving_rate", by="link.up.capacity")
    worst = dict(rows.group_by("link.up.capacity").agg(pl.col("mean").min()).iter_rows())
    low, high = (amount(worst[text], "kbit/s") for text in CAPACITIES)
    assert f"from {high} to {low}" in said
    found = re.search(r"With 10 % instead of 0 % \(loss of the uplinks\) the rate is (\d+) % lower", said)
    assert found is not None
    rows = grid.summary(metrics="receiving_rate", by="link.up.loss")
    at_loss = dict(rows.group_by("link.up.loss").agg(pl.col("mean").min()).iter_rows())
    assert int(found[1]) == round(100 * (1 - at_loss["10 %"] / at_loss["0 %"]))


def test_the_figures_are_the_extremes_of_the_table(grid: Results) -> None:
    highest, lowest, *_ = page_of(grid).answer.figures
    worst = grid.summary(metrics="receiving_rate").group_by("condition").agg(pl.col("mean").min())["mean"]
    assert [f"{one.value} {one.unit}" for one in (highest, lowest)] == [
        amount(float(str(mean)), "kbit/s") for mean in (worst.max(), worst.min())
    ]
    assert (highest.about.partition(", bob")[0].partition(", alice")[0]).startswith("2 Mbit/s, ")


def test_the_command_of_an_example_repeats_the_condition(grid: Results, rtclab: Rtclab) -> None:
    commands = page_of(grid).commands
    assert len(commands) == 6
    words = shlex.split(commands["0.3 Mbit/s", "10 %"])
    assert rtclab(*words[1:], "--no-report").status == 0
    of_sweep = grid.where({"link.up.loss": "10 %", "link.up.capacity": "0.3 Mbit/s"}).metrics()
    (run,) = Path("runs").iterdir()
    assert "link.down.capacity=10 Mbit/s" in words
    of_example = open_metrics(run)
    chosen = pl.col("metric").is_in(["receiving_rate", "freeze_duration", "packet_loss"])
    expected = of_sweep.filter(chosen, repeat=0).select("metric", "flow", "value")
    assert of_example.filter(chosen).select("metric", "flow", "value").equals(expected)


def open_metrics(path: Path) -> pl.DataFrame:
    return rtclab.open(path).metrics()


def test_a_scenario_of_the_users_own_needs_its_file(tmp_path: Path) -> None:
    file = tmp_path / "mine.toml"
    file.write_text('extends = "first-call"\nduration = "3 s"\n')
    made = sweep(file, {"link.up.loss": ["0 %", "1 %"]}, repeats=1, out=tmp_path)
    page = made.report().read_text()
    assert "rtclab run SCENARIO.toml --set &#39;link.up.loss=1 %&#39; --duration 3s" in page
    assert "stands for the scenario’s file" in page


def test_fields_of_the_users_own_have_no_command(tmp_path: Path) -> None:
    scenario = Scenario.load("first-call", {"duration": "2 s"})
    given = {name: Condition(scenario, fields={"network": name}) for name in ("a", "b")}
    made = rtclab.Experiment(given, repeats=1, name="own").run(out=tmp_path)
    assert page_of(made).commands == {}
    assert 'data-at="' not in made.report().read_text()


def test_a_varied_control_is_set_by_its_option(grid: Results) -> None:
    field = Field("control", ("nada",), ("nada",))
    command = example_command(
        grid.runs[0],
        [field, CAPACITY, LOSS],
        {"control": "nada", "link.up.capacity": "2 Mbit/s", "link.up.loss": "0 %"},
    )
    assert command.startswith("rtclab run first-call --control nada --set 'link.up.capacity=2 Mbit/s'")


def test_the_page_has_a_map_for_each_metric_with_a_command_for_each_cell(grid: Results) -> None:
    page = grid.report().read_text()
    metrics = ["Receiving rate", "Freeze duration", "Picture delay", "Queuing delay p95", "Packet loss"]
    of_metric = re.findall(r'name="metric" id="metric-\d"(?: checked)?><span>([^<]+)', page)
    assert of_metric == metrics
    maps = page.split('<table class="map')[1:]
    assert len(maps) % len(metrics) == 0
    assert [len(re.findall(r'<td class="[^"]*" style', one)) for one in maps] == [6] * len(maps)
    examples = json.loads(re.findall(r'id="examples">(.*?)</script>', page)[0])
    assert [label for label, _ in examples] == grid.conditions
    for at, title in re.findall(r'data-at="(\d+)" title="(\d[^:"]*):', maps[0]):
        capacity, loss = title.split(", ")
        assert examples[int(at)][0] == f"link.up.capacity = {capacity}, link.up.loss = {loss}"


def estimates(values: dict[tuple[str, str], float]) -> dict[tuple[str, str], Interval]:
    return {key: known(value, 1) for key, value in values.items()}


def test_lines_between_cells_are_where_a_metric_passes_a_limit() -> None:
    delays = {("0.3 Mbit/s", "0 %"): 160.0, ("0.3 Mbit/s", "5 %"): 500.0, ("0.3 Mbit/s", "10 %"): 500.0}
    delays |= {("2 Mbit/s", "0 %"): 100.0, ("2 Mbit/s", "5 %"): 150.0, ("2 Mbit/s", "10 %"): 300.0}
    metric = METRICS["picture_delay"]
    made = heat_map(metric, (CAPACITY, LOSS), estimates(delays), "", (100, 500), {})
    edges = {name: [cell.edges for cell in cells] for name, cells in made.rows}
    # Columns are losses, because they are more; 150 ms itself is within the limit.
    assert made.columns == ["0", "5", "10"]
    assert edges == {
        "2": ["", "", "left-dashed"],
        "0.3": ["top-dashed", "left-solid top-solid", "top-solid"],
    }
    assert [(kind, limit.value) for kind, limit in made.limits] == [("dashed", 150), ("solid", 400)]
    assert made.result == "Picture delay: highest 500 ms at 0.3 Mbit/s, 5 %; lowest 100 ms at 2 Mbit/s, 0 %."
    within = heat_map(metric, (CAPACITY, LOSS), estimates(dict.fromkeys(delays, 90.0)), "", (90, 90), {})
    assert within.limits == []


def test_cells_without_a_value_say_so_and_many_cells_have_no_texts() -> None:
    metric = METRICS["receiving_rate"]
    made = heat_map(metric, (CAPACITY, LOSS), estimates({("2 Mbit/s", "0 %"): 1500.0}), "", (1500, 1500), {})
    (_, top), (_, bottom) = made.rows
    assert [(cell.text, cell.colour) for cell in bottom] == [("–", "")] * 3
    assert [cell.text for cell in top] == ["1.5", "–", "–"]  # Mbit/s
    assert top[0].about == "2 Mbit/s, 0 %: 1.5 Mbit/s [1.5, 1.5], alice → bob"
    texts = tuple(f"{number} %" for number in range(20))
    many = Field("link.up.loss", texts, texts, numbers=tuple(map(float, range(20))), unit="%")
    other = Field("link.down.loss", texts, texts, numbers=tuple(map(float, range(20))), unit="%")
    found = estimates({(x, y): 1.0 for x in texts for y in texts})
    made = heat_map(METRICS["packet_loss"], (many, other), found, "", (1, 1), {})
    assert not made.printed
    assert {cell.text for _, cells in made.rows for cell in cells} == {""}


def test_texts_of_cells_can_be_read_on_every_colour() -> None:
    values = np.linspace(0, 1, 101)
    for colour in COLOURS:
        cells = Cells(Style("", colour), values, values, values, values, values, (0, 1))
        for behind, ink in zip(cells.colours, cells.inks, strict=True):
            low, high = sorted((luminance(behind), luminance(ink)))
            assert (high + 0.05) / (low + 0.05) >= 4.5


def test_long_texts_are_rows() -> None:
    names = ("x" * 80, "y")
    long = Field("network", names, names)
    assert oriented(long, CAPACITY) == (CAPACITY, long)
    assert oriented(CAPACITY, LOSS) == (LOSS, CAPACITY)  # more columns than rows


def test_flows_are_alike_if_all_intervals_overlap_everywhere() -> None:
    def rows(second: float) -> pl.DataFrame:
        values = [("a", "x->y", 10.0), ("a", "y->x", 11.0), ("b", "x->y", 20.0), ("b", "y->x", second)]
        columns = {"field": pl.String, "flow": pl.String, "mean": pl.Float64}
        return pl.DataFrame(values, schema=columns, orient="row").with_columns(
            metric=pl.lit("rtt"), repeats=5, ci95_low=pl.col("mean") - 2, ci95_high=pl.col("mean") + 2
        )

    assert flows_are_alike(rows(23.9), ["field"])
    assert not flows_are_alike(rows(24.1), ["field"])


def test_flows_that_differ_can_be_chosen(tmp_path: Path) -> None:
    vary = {
        "participants.alice.link.up.capacity": ["0.2 Mbit/s", "1 Mbit/s"],
        "link.down.delay": "10..20 ms x2",
    }
    made = sweep("first-call", vary, repeats=3, duration="10 s", out=tmp_path)
    page = page_of(made)
    assert [page.whose(flow) for flow in page.choices] == [
        "the worse direction",
        "alice → bob",
        "bob → alice",
    ]
    assert len(page.views) == len(page.metrics) * 3


def test_one_field_is_lines_in_one_pair_of_axes(tmp_path: Path) -> None:
    vary = {"link.up.capacity": [*CAPACITIES, "1 Mbit/s"]}
    made = sweep("first-call", vary, repeats=3, duration="10 s", out=tmp_path)
    page = page_of(made)
    plots = page.plots(merged=True)
    assert [len(plot.axes) for plot in plots] == [1] * len(page.metrics)
    rate = plots[0].axes[0].marks
    assert [mark.look.label for mark in rate if mark.look.colour == INK] == ["capacity"]
    lines = [mark for mark in rate if isinstance(mark, Line) and mark.look.colour != INK]
    assert len({(mark.look.colour, mark.look.dash, mark.look.marker) for mark in lines}) == len(lines) <= 2
    assert page.views == []
    assert made.report().read_text().count("<figure") == len(page.metrics)


@pytest.mark.parametrize(
    ("field", "flow", "crosses"),
    [
        ("link.up.capacity", "alice->bob", True),
        ("participants.bob.link.up.capacity", "alice->bob", False),
        ("participants.bob.link.down.capacity", "alice->bob", True),
        ("participants.alice.link.up.capacity", "alice->bob", True),
        ("link.up.delay", "alice->bob", False),
        ("bottlenecks.core.up.capacity", "alice->bob", False),
    ],
)
def test_the_line_of_the_capacity_is_drawn_for_flows_that_cross_it(
    field: str, flow: str, crosses: bool
) -> None:
    assert on_route(field, flow) is crosses


def test_intervals_end_at_what_is_possible(grid: Results) -> None:
    assert largest_pictures(grid.runs) == {"frame_height": 480, "frame_width": 640}
    columns = {"metric": pl.String, "mean": pl.Float64, "ci95_high": pl.Float64}
    rows = [("frame_height", 400.0, 660.0), ("frame_height", 481.0, 660.0), ("rtt", 400.0, 660.0)]
    rows.append(("frame_height", 480.0, None))
    table = pl.DataFrame(rows, schema=columns, orient="row")
    assert cut(table, {"frame_height": 480.0})["ci95_high"].to_list() == [480, 481, 660, None]
    plot = grid.plot("utilisation", x="link.up.loss", by="link.up.capacity")
    assert plot.y.end <= 100


def test_a_page_without_results_says_why(tmp_path: Path) -> None:
    made = sweep("first-call", {"link.up.loss": ["100 %"]}, repeats=1, duration="3 s", out=tmp_path)
    page = made.report().read_text()
    assert "No repeat finished, so there are no results." in page
    assert "alice and bob did not connect within 3 s" in page
    assert "<figure" not in page


def test_conditions_without_values_are_named(tmp_path: Path) -> None:
    vary = {"link.up.loss": ["0 %", "1 %", "100 %"], "link.up.delay": ["10 ms", "20 ms"]}
    made = sweep("first-call", vary, repeats=2, duration="3 s", out=tmp_path)
    said = page_of(made).verdict
    assert "4 of 12 repeats failed." in said
    assert "Nothing was measured at link.up.loss = 100 %, link.up.delay = 10 ms and" in said
    page = made.report().read_text()
    assert page.count("100 %, 10 ms: no value") == 5  # metrics


def test_three_fields_are_averaged_in_the_map_and_the_page_says_over_what(tmp_path: Path) -> None:
    vary = {"link.up.loss": LOSSES[:2], "link.up.capacity": CAPACITIES, "link.up.delay": ["10 ms", "20 ms"]}
    made = sweep(
        "first-call", {name: [*of] for name, of in vary.items()}, repeats=2, duration="5 s", out=tmp_path
    )
    page = page_of(made)
    assert page.mapped is not None
    left = next(field for field in page.fields if field not in page.mapped)
    assert (
        f"Averaged over the {field_in_words(left.name)}, over the same repeats" in made.report().read_text()
    )


def test_a_page_of_400_conditions_is_small(tmp_path: Path) -> None:
    vary = {"link.up.capacity": "0.3..3 Mbit/s x20", "link.up.loss": "0..10 % x20"}
    made = sweep("first-call", vary, repeats=1, duration="1 s", out=tmp_path)
    page = made.report()
    assert page.stat().st_size < 1_500_000
    assert "20 × 20 = 400 conditions" in page.read_text()


def test_a_heat_map_as_a_plot_has_lines_along_the_edges_of_cells(grid: Results) -> None:
    plot = grid.plot("freeze_duration", flow="alice->bob")
    cells, *lines = plot.axes[0].marks
    assert isinstance(cells, Cells)
    assert [line.look.label for line in lines] == ["any freeze"]
    (line,) = lines
    assert isinstance(line, Line)
    at = dict(zip(zip(cells.x.tolist(), cells.y.tolist(), strict=True), cells.values.tolist(), strict=True))
    passed = sum(
        (at[x, y] > 0) != (at[other] > 0) for x, y in at for other in ((x - 1, y), (x, y - 1)) if other in at
    )
    assert passed == np.isnan(line.x).sum() > 0


def test_the_terminal_has_the_sentence_of_the_page(rtclab: Rtclab) -> None:
    vary = ("--vary", "link.up.capacity=0.3 Mbit/s,2 Mbit/s")
    result = rtclab("sweep", "first-call", *vary, "--duration", "8s", "--repeats", "3", "--jobs", "1")
    assert result.status == 0
    lines = " ".join(result.out.split())
    assert "From 2 Mbit/s to 0.3 Mbit/s (capacity of the uplinks) the rate falls from " in lines
    page = " ".join(Path("runs/first-call-sweep-1/report.html").read_text().split())
    sentence = lines[lines.index("From 2 Mbit/s") : lines.index(" run: ")]
    assert sentence in page
