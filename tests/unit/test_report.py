"""The pages as a browser gets them: complete, self-contained, the same each time."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from pathlib import Path
from xml.etree import ElementTree

import polars as pl
import pytest
from synthetic_run import call_tables, frame, report, second, write_run

from rtclab.metrics import METRICS, measure_run
from rtclab.report import write_comparison, write_report
from rtclab.trace import Lateness, Run

VOID = {"meta", "link", "br", "hr", "img", "input"}
DIED = "alice: the browser <died>\n  hint: look at alice.log"
PLOTS = ["delay", "delay-distribution", "frame-rate", "rate", "repeats", "target"]


class WellFormed(HTMLParser):
    """Follows open tags; collects ids, attributes that load something, and text."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.ids: list[str] = []
        self.loads: list[str] = []
        self.text = ""

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        if tag not in VOID:
            self.open.append(tag)
        self.handle_startendtag(tag, attributes)

    def handle_startendtag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        given = dict(attributes)
        self.ids += [given["id"] or ""] if "id" in given else []
        self.loads += [given[name] or "" for name in ("src", "href", "xlink:href", "data") if name in given]

    def handle_endtag(self, tag: str) -> None:
        assert self.open, f"</{tag}> closes nothing"
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data


def parsed(page: Path) -> WellFormed:
    parser = WellFormed()
    parser.feed(page.read_text(encoding="utf-8"))
    parser.close()
    assert parser.open == []
    return parser


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """Three finished repeats and a failed one."""
    lateness = Lateness(
        p50_ns=20_000, p99_ns=400_000, max_ns=2_100_000, bound_ns=1_000_000, over_bound_ratio=0.001
    )
    tables = [call_tables(seed) for seed in range(4)]
    out = tmp_path_factory.mktemp("runs")
    return write_run(out, tables, failed={2: DIED}, lateness=lateness, browser="Chromium 137")


@pytest.fixture(scope="module")
def page(run: Run) -> Path:
    return write_report(run)


def test_every_tag_of_the_report_is_closed_in_order(page: Path) -> None:
    assert len(parsed(page).ids) > 100


def test_no_two_elements_of_the_report_share_an_id(page: Path) -> None:
    ids = parsed(page).ids
    assert len(ids) == len(set(ids))


def test_the_report_loads_nothing_from_outside_itself(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    assert [target for target in parsed(page).loads if not target.startswith(("#", "data:"))] == []
    assert [target for target in re.findall(r"url\(([^)]*)\)", text) if not target.startswith("#")] == []
    assert "http" not in text
    assert "<script" not in text


def test_every_reference_inside_the_report_has_its_target(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    used = {target[1:] for target in parsed(page).loads if target.startswith("#")}
    used |= set(re.findall(r"url\(#([^)]*)\)", text))
    assert len(used) > 10
    assert used <= set(parsed(page).ids)


def test_the_report_holds_every_metric_that_was_measured_and_defines_all(run: Run, page: Path) -> None:
    text = parsed(page).text
    table, _, definitions = text.partition("What each metric means")
    measured = set(measure_run(run).drop_nulls("mean")["metric"])
    assert len(measured) > 20
    for metric in METRICS.values():
        assert (metric.label in table) == (metric.name in measured), metric.name
        assert metric.label in definitions
        assert metric.definition.split(":")[0] in definitions


def test_the_table_shows_mean_deviation_interval_and_the_deviation_within_a_run(run: Run, page: Path) -> None:
    (rtt,) = measure_run(run).filter(metric="one_way_delay", flow="alice->bob").to_dicts()
    text = parsed(page).text
    assert f"{rtt['mean']:.2f} ± {rtt['sd']:.2f}" in text
    assert f"[{rtt['ci95_low']:.2f}, {rtt['ci95_high']:.2f}]" in text
    assert f"within ± {rtt['within_run_sd']:.2f}" in text


def test_the_report_says_what_was_run_where_and_what_failed(page: Path) -> None:
    text = parsed(page).text
    assert "alice: the browser <died>" in text  # escaped in the file, so that it reads as written
    assert "3 of 4 finished" in text
    assert "alice.up, alice.down, bob.up, bob.down" in text
    assert "capacity 1 Mbit/s, delay 25 ms, queue 300 ms" in text
    assert "99th percentile 0.400 ms, largest 2.10 ms (bound 1 ms); no repeat is marked late" in text
    assert "Testium 3, 2 cores, Linux 6.1" in text
    assert "rtclab 0.1.0, python 3.11.2, Chromium 137" in text


def test_each_plot_is_in_the_page_twice_and_beside_it_as_svg_and_png(run: Run, page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    assert text.count('<div class="wide"><svg') == text.count('<div class="narrow"><svg') == len(PLOTS)
    files = sorted(file.name for file in (run.path / "plots").iterdir())
    assert files == sorted(f"{name}.{ending}" for name in PLOTS for ending in ("png", "svg"))


def test_a_plot_file_is_an_svg_whose_text_is_text(run: Run, page: Path) -> None:
    root = ElementTree.parse(run.path / "plots" / "rate.svg").getroot()
    texts = {element.text for element in root.iter("{http://www.w3.org/2000/svg}text")}
    assert {"Time (s)", "Rate (kbit/s)", "capacity", "smallest to largest repeat", "alice → bob"} <= texts
    assert root.find("{http://www.w3.org/2000/svg}metadata") is None


def test_the_same_run_gives_the_same_bytes(run: Run, page: Path) -> None:
    files = [page, *sorted((run.path / "plots").iterdir())]
    before = [file.read_bytes() for file in files]
    write_report(run)
    assert [file.read_bytes() for file in files] == before


def test_a_report_of_a_minute_is_a_few_hundred_kilobytes(page: Path) -> None:
    assert 100_000 < page.stat().st_size < 500_000


def test_a_report_of_an_hour_stays_below_a_megabyte(tmp_path: Path) -> None:
    page = write_report(write_run(tmp_path, [call_tables(1, duration_s=3600)]))
    assert 200_000 < page.stat().st_size < 1_000_000


def test_one_repeat_has_no_interval(tmp_path: Path) -> None:
    table = parsed(write_report(write_run(tmp_path, [call_tables(1)]))).text.partition("What each metric")[0]
    assert "Receiving rate" in table
    assert re.search(r"\[[\d.]+, ", table) is None


def test_figures_that_were_the_same_in_every_repeat_are_said_to_have_no_spread(tmp_path: Path) -> None:
    rows = frame("flow_seconds", [second(at, 100) for at in range(5)])
    text = parsed(write_report(write_run(tmp_path, [{"flow_seconds": rows}] * 3))).text
    table = text.partition("What each metric")[0]
    assert "800" in table
    assert "no spread" in table
    assert "± 0" not in table
    assert "[800" not in table


def test_the_interval_of_a_share_ends_at_0_and_100(tmp_path: Path) -> None:
    def tables(dropped: int) -> dict[str, pl.DataFrame]:
        return {"flow_seconds": frame("flow_seconds", [second(0, 100, dropped_packets=dropped)])}

    run = write_run(tmp_path, [tables(dropped) for dropped in (0, 0, 3)])
    (row,) = measure_run(run).filter(metric="packet_loss", flow="alice->bob").to_dicts()
    assert row["mean"] == pytest.approx(1)
    assert row["ci95_low"] == 0
    text = parsed(write_report(run)).text
    assert "[0, 5.30]" in text  # 1 + 4.3027 * sqrt(3) / sqrt(3)


def test_a_run_of_which_nothing_finished_says_so(tmp_path: Path) -> None:
    page = write_report(write_run(tmp_path, [{}, {}], failed={0: "no Chromium", 1: "no Chromium"}))
    text = parsed(page).text
    assert "0 of 2 finished" in text
    assert text.count("no Chromium") == 2
    assert "nothing to measure" in text
    assert "<svg" not in page.read_text(encoding="utf-8")


def test_repeats_with_empty_tables_can_be_shown(tmp_path: Path) -> None:
    text = parsed(write_report(write_run(tmp_path, [{}, {}]))).text
    assert "2 of 2 finished" in text
    assert "Call failures" in text


def test_many_flows_share_one_panel(tmp_path: Path) -> None:
    flows: dict[str, list[str]] = {f"p{index}->q": [] for index in range(8)}
    rows = [second(at, 100, flow=flow) for flow in flows for at in range(5)]
    run = write_run(tmp_path, [{"flow_seconds": frame("flow_seconds", rows)}], flows=flows)
    write_report(run)
    svg = (run.path / "plots" / "rate.svg").read_text(encoding="utf-8")
    assert svg.count('id="axes_') == 1
    assert [label in svg for label in ("p0 → q", "p7 → q")] == [True, True]


def test_a_difference_of_figures_without_spread_is_not_marked(tmp_path: Path) -> None:
    def run_of(packets: int) -> Run:
        rows = frame("flow_seconds", [second(at, packets) for at in range(5)])
        return write_run(tmp_path, [{"flow_seconds": rows}] * 3)

    page = write_comparison(run_of(100), run_of(50), tmp_path / "page.html").read_text(encoding="utf-8")
    assert "−400" in page
    assert '<span class="significant">' not in page.partition("leaves out zero")[2]


def test_a_comparison_shows_both_runs_and_marks_only_significant_differences(tmp_path: Path) -> None:
    def tables(fps: int) -> dict[str, pl.DataFrame]:
        seconds = [second(at, 100, flow=flow) for flow in ("alice->bob", "bob->alice") for at in range(10)]
        inbound = [report(at, framesDecoded=fps * at) for at in range(10)]
        return {"flow_seconds": frame("flow_seconds", seconds), "inbound_rtp": frame("inbound_rtp", inbound)}

    a = write_run(tmp_path, [tables(fps) for fps in (29, 30, 31)])
    b = write_run(tmp_path, [tables(fps) for fps in (14, 15, 16)])
    page = write_comparison(a, b, tmp_path / "pages" / "a-and-b.html")
    parser, text = parsed(page), page.read_text(encoding="utf-8")
    assert len(parser.ids) == len(set(parser.ids))
    assert "http" not in text
    assert "first-call-sim-1 and first-call-sim-2" in parser.text
    marked = re.findall(r'<span class="significant">\s*(\S+)', text.partition("leaves out zero")[2])
    assert marked == ["−15.00"]
    assert "(−50 %)" in parser.text
    rate_svg = (tmp_path / "pages" / "a-and-b-plots" / "rate.svg").read_text(encoding="utf-8")
    assert "capacity" not in rate_svg  # no path of these runs has one
    plots = sorted(file.stem for file in (tmp_path / "pages" / "a-and-b-plots").glob("*.svg"))
    assert plots == ["delay", "delay-distribution", "frame-rate", "rate"]


@pytest.mark.parametrize(("other_kbps", "drawn"), [(1000, True), (500, False)])
def test_a_comparison_draws_the_capacity_only_if_both_runs_have_it(
    tmp_path: Path, other_kbps: int, drawn: bool
) -> None:
    a = write_run(tmp_path, [call_tables(1, capacity_kbps=1000)])
    b = write_run(tmp_path, [call_tables(1, capacity_kbps=other_kbps)])
    write_comparison(a, b, tmp_path / "page.html")
    svg = (tmp_path / "page-plots" / "rate.svg").read_text(encoding="utf-8")
    assert (">capacity<" in svg) == drawn
