"""Reports and comparison pages are complete, self-contained and reproducible."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from synthetic_run import call_tables, frame, report, second, write_run

from rtclab.experiment import summary_of_run
from rtclab.metrics import METRICS
from rtclab.report import run_plot, write_comparison, write_report
from rtclab.trace import Lateness, Run

VOID = {"meta", "link", "br", "hr", "img", "input"}
DIED = "alice: the browser <died>\n  hint: look at alice.log"
DEFINITIONS = "Definitions and sources of the metrics"
PLOTS = [
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


class WellFormed(HTMLParser):
    """Checks that tags are closed; collects ids, links, the text outside scripts, and the data of charts."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.ids: list[str] = []
        self.loads: list[str] = []
        self.text = ""
        self.charts: list[dict[str, Any]] = []
        self.rows: list[dict[str, Any]] = []
        """The rows of the timeline."""

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
        if self.open[-1:] != ["script"]:
            self.text += data
        elif self.ids[-1:] == ["chart-data"] and not self.charts:
            drawn = json.loads(data)
            self.charts = [chart for chart in drawn if not chart["compact"]]
            self.rows = [chart for chart in drawn if chart["compact"]]


def parsed(page: Path) -> WellFormed:
    parser = WellFormed()
    parser.feed(page.read_text(encoding="utf-8"))
    parser.close()
    assert parser.open == []
    return parser


def labels(chart: dict[str, Any]) -> set[str]:
    """Labels of all marks of a plot."""
    return {mark["label"] for axes in chart["axes"] for mark in axes["marks"]}


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
    assert {*PLOTS, "chart-data", "timeline"} <= set(parsed(page).ids)


def test_no_two_elements_of_the_report_share_an_id(page: Path) -> None:
    ids = parsed(page).ids
    assert len(ids) == len(set(ids))


def test_the_report_loads_nothing_from_outside_itself(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    assert [target for target in parsed(page).loads if not target.startswith(("data:", "#"))] == []
    assert "http" not in text.partition("<script")[0]
    assert re.search(r"url\((?!#|data:)", text.partition("<script")[0]) is None


def test_the_report_begins_with_the_answer_and_ends_with_how_it_was_made(page: Path) -> None:
    text = parsed(page).text
    places = [
        text.index(part)
        for part in (
            "1 of 4 repeats failed or did not run to their end.",
            "Timeline",
            "1 of 4 repeats failed; both directions used",
            "Receiving rate against the capacity",
            "Sending rate and target bitrate",
            DEFINITIONS,
            "alice and bob call each other",
            "capacity 1 Mbit/s, delay 25 ms, queue 300 ms",
            "simulated (virtual time)",
        )
    ]
    assert places == sorted(places)


def test_the_report_has_every_measured_metric_and_defines_all_metrics(run: Run, page: Path) -> None:
    text = parsed(page).text
    table, _, definitions = text.partition(DEFINITIONS)
    measured = set(summary_of_run(run).drop_nulls("mean")["metric"])
    assert len(measured) > 20
    for metric in METRICS.values():
        assert (metric.label in table) == (metric.name in measured), metric.name
        assert metric.label in definitions
        assert metric.definition.split(":")[0] in definitions


def test_the_table_has_mean_deviation_interval_and_the_deviation_within_repeats(run: Run, page: Path) -> None:
    (rtt,) = summary_of_run(run).filter(metric="one_way_delay", flow="alice->bob").to_dicts()
    text = parsed(page).text
    assert f"{rtt['mean']:.2f} ± {rtt['sd']:.2f}" in text
    assert f"[{rtt['ci95_low']:.2f}, {rtt['ci95_high']:.2f}]" in text
    assert f"within ± {rtt['within_run_sd']:.2f}" in text


def test_the_report_names_scenario_machine_and_failures(page: Path) -> None:
    text = parsed(page).text
    assert "alice: the browser <died>" in text  # escaped in the file, so that it reads as written
    assert "3 of 4 finished" in text
    assert "alice.up, alice.down, bob.up, bob.down" in text
    assert "capacity 1 Mbit/s, delay 25 ms, queue 300 ms" in text
    assert "99th percentile 0.400 ms, largest 2.10 ms (bound 1 ms); no repeat is marked late" in text
    assert "Testium 3, 2 cores, Linux 6.1" in text
    assert "rtclab 0.1.0, python 3.11.2, Chromium 137" in text


def test_each_plot_is_in_the_page_as_data_and_as_a_static_svg(page: Path) -> None:
    parser = parsed(page)
    charts = parser.charts
    assert [chart["name"] for chart in charts] == PLOTS
    panels = sum(len(chart["axes"]) for chart in [*charts, *parser.rows])
    rows = len(parser.rows)
    assert page.read_text(encoding="utf-8").count('<div class="outline"><svg') == panels == 2 * (8 + rows) + 2
    assert [row["name"] for row in parser.rows] == [
        "timeline-rate",
        "timeline-delay",
        "timeline-loss",
        "timeline-picture",
    ]
    # The encoder of this made-up run is at its one target all the time.
    assert labels(charts[0]) == {"alice → bob", "bob → alice", "capacity", "limit: maximum"}


def test_every_curve_of_a_plot_has_an_entry_in_its_legend(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    for chart in parsed(page).charts:
        figure = text.partition(f'<figure class="plot" id="{chart["name"]}">')[2].partition("</figure>")[0]
        entries = re.findall(r'data-label="([^"]+)"', figure)
        assert set(entries) - {"range over repeats", "range over packets"} == labels(chart)
        assert len(entries) == len(set(entries))


def test_report_and_comparison_warn_of_a_late_emulator(tmp_path: Path, run: Run, page: Path) -> None:
    lateness = Lateness(
        p50_ns=0, p99_ns=8_100_000, max_ns=9_000_000, bound_ns=5_000_000, over_bound_ratio=0.02
    )
    late = write_run(tmp_path, [call_tables(1)], lateness=lateness)
    pages = write_report(late), write_comparison({"late": late, "other": run}, tmp_path / "page.html")
    warnings = [parsed(one).text.count("The emulator was late in 1 of 1 repeats") for one in pages]
    assert warnings == [1, 1]
    assert "The emulator was late" not in parsed(page).text


def test_html_in_names_is_escaped(tmp_path: Path) -> None:
    flow = "</script><b>->bob"
    rows = frame("flow_seconds", [second(at, 100, flow=flow) for at in range(5)])
    parser = parsed(write_report(write_run(tmp_path, [{"flow_seconds": rows}], flows={flow: []})))
    assert labels(parser.charts[0]) == {"</script><b> → bob"}
    assert "</script><b> → bob" in parser.text


def test_the_same_run_gives_the_same_bytes(run: Run, page: Path) -> None:
    before = page.read_bytes()
    write_report(run)
    assert page.read_bytes() == before


def test_writing_a_report_imports_neither_matplotlib_nor_bokeh(run: Run) -> None:
    program = (
        "import sys, rtclab\n"
        f"rtclab.open({str(run.path)!r}).report()\n"
        "print(sorted({'matplotlib', 'bokeh'} & set(sys.modules)))"
    )
    shown = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert shown.stdout.strip() == "[]"


MOST_BYTES = 2_000_000


def test_a_report_of_an_hour_stays_below_two_megabytes(tmp_path: Path) -> None:
    page = write_report(write_run(tmp_path, [call_tables(seed, duration_s=3600) for seed in range(2)]))
    assert page.stat().st_size < MOST_BYTES


def test_a_report_of_two_thousand_flows_stays_below_two_megabytes_and_names_the_omitted_flows(
    tmp_path: Path,
) -> None:
    people = [f"p{number}" for number in range(46)]
    flows: dict[str, list[str]] = {f"{a}->{b}": [] for a in people for b in people if a != b}
    rows = [second(at, 100 + at, flow=flow) for flow in flows for at in range(10)]
    page = write_report(write_run(tmp_path, [{"flow_seconds": frame("flow_seconds", rows)}], flows=flows))
    assert page.stat().st_size < MOST_BYTES
    text = parsed(page).text
    assert "The first 20 of 2070 flows" in text
    # 100 to 109 packets of 8 kbit a second.
    assert "Each of the 2070 flows received 836 kbit/s." in text


def test_one_repeat_has_no_interval(tmp_path: Path) -> None:
    table = parsed(write_report(write_run(tmp_path, [call_tables(1)]))).text.partition(DEFINITIONS)[0]
    assert "Receiving rate" in table
    assert re.search(r"\[[\d.]+, ", table) is None


def test_a_metric_with_the_same_value_in_every_repeat_has_no_spread(tmp_path: Path) -> None:
    rows = frame("flow_seconds", [second(at, 100) for at in range(5)])
    text = parsed(write_report(write_run(tmp_path, [{"flow_seconds": rows}] * 3))).text
    table = text.partition(DEFINITIONS)[0]
    assert "800" in table
    assert "no spread" in table
    assert "± 0" not in table
    assert "[800" not in table


def test_the_interval_of_a_share_ends_at_0_and_100(tmp_path: Path) -> None:
    def tables(dropped: int) -> dict[str, pl.DataFrame]:
        return {"flow_seconds": frame("flow_seconds", [second(0, 100, dropped_packets=dropped)])}

    run = write_run(tmp_path, [tables(dropped) for dropped in (0, 0, 3)])
    (row,) = summary_of_run(run).filter(metric="packet_loss", flow="alice->bob").to_dicts()
    assert row["mean"] == pytest.approx(1)
    assert row["ci95_low"] == 0
    text = parsed(write_report(run)).text
    assert "[0, 5.30]" in text  # 1 + 4.3027 * sqrt(3) / sqrt(3)


def test_the_report_of_a_run_without_finished_repeats_says_why(tmp_path: Path) -> None:
    page = write_report(write_run(tmp_path, [{}, {}], failed={0: "no Chromium", 1: "no Chromium"}))
    text = parsed(page).text
    assert "0 of 2 finished" in text
    assert text.count("no Chromium") == 3  # in the verdict, and once for each repeat
    assert "nothing to measure" in text
    assert "No repeat finished (no Chromium)." in text
    assert "<svg" not in page.read_text(encoding="utf-8")
    assert 'id="chart-data"' not in page.read_text(encoding="utf-8")


def test_a_run_with_empty_tables_has_a_report(tmp_path: Path) -> None:
    text = parsed(write_report(write_run(tmp_path, [{}, {}]))).text
    assert "2 of 2 finished" in text
    assert "Call failures" in text


def test_many_flows_have_a_panel_per_receiver_in_a_plot_and_a_summary_of_their_metrics(
    tmp_path: Path,
) -> None:
    flows: dict[str, list[str]] = {f"p{index}->q": [] for index in range(8)} | {"p0->p1": []}
    rows = [second(at, 100 + int(flow[1]), flow=flow) for flow in flows for at in range(5)]
    run = write_run(tmp_path, [{"flow_seconds": frame("flow_seconds", rows)}], flows=flows)
    parser = parsed(write_report(run))
    assert [axes["title"] for axes in parser.charts[0]["axes"]] == [f"p{index} → q" for index in range(6)]
    assert "Shown are 6 of 9 curves." in parser.text
    rate = run_plot(run, "rate")
    assert [axes.title for axes in rate.axes] == ["to q", "p0 → p1"]
    assert {"from p0", "from p7"} <= {mark.look.label for mark in rate.marks}
    colours = [mark.look.colour for mark in rate.marks if mark.look.label == "from p0"]
    assert len(colours) == 2
    assert len(set(colours)) == 1, "a sender has the same colour in every panel"
    # 1000 B are 8 kbit: 800 to 856 kbit/s, and 800 kbit/s once more: 824.9 on average.
    summary = " ".join(parser.text.partition("Mean over flows")[2].split())
    assert "Sending rate kbit/s 824.9 800.0 p0 → p1 856.0 p7 → q" in summary


def test_a_difference_of_metrics_without_spread_is_marked(tmp_path: Path) -> None:
    def run_of(packets: int) -> Run:
        rows = frame("flow_seconds", [second(at, packets) for at in range(5)])
        return write_run(tmp_path, [{"flow_seconds": rows}] * 3)

    page = write_comparison({"a": run_of(100), "b": run_of(50)}, tmp_path / "page.html").read_text(
        encoding="utf-8"
    )
    marked = re.findall(r'<td[^>]*><span class="significant">\s*(\S+)', page)
    # The sending and the receiving rate, and its mean over the second half.
    assert marked == ["−400.0"] * 3


def test_a_comparison_shows_both_runs_and_marks_only_significant_differences(tmp_path: Path) -> None:
    def tables(fps: int) -> dict[str, pl.DataFrame]:
        seconds = [second(at, 100, flow=flow) for flow in ("alice->bob", "bob->alice") for at in range(10)]
        inbound = [report(at, framesDecoded=fps * at) for at in range(10)]
        return {"flow_seconds": frame("flow_seconds", seconds), "inbound_rtp": frame("inbound_rtp", inbound)}

    a = write_run(tmp_path, [tables(fps) for fps in (29, 30, 31)])
    b = write_run(tmp_path, [tables(fps) for fps in (14, 15, 16)])
    page = write_comparison({a.name: a, b.name: b}, tmp_path / "pages" / "a-and-b.html")
    parser, text = parsed(page), page.read_text(encoding="utf-8")
    assert len(parser.ids) == len(set(parser.ids))
    assert "http" not in text.partition("<script")[0]
    assert "first-call-sim-1 and first-call-sim-2" in parser.text
    marked = re.findall(r'<td[^>]*><span class="significant">\s*(\S+)', text)
    assert marked == ["−15.00"]
    assert "(−50 %)" in parser.text
    names = ["differences", "rate", "delay", "loss", "frame-rate", "delay-distribution"]
    assert [chart["name"] for chart in parser.charts] == names
    assert labels(parser.charts[1]) == {"first-call-sim-1", "first-call-sim-2"}  # no path has a capacity


@pytest.mark.parametrize(("other_kbps", "drawn"), [(1000, True), (500, False)])
def test_a_comparison_draws_the_capacity_only_if_both_runs_have_it(
    tmp_path: Path, other_kbps: int, drawn: bool
) -> None:
    a = write_run(tmp_path, [call_tables(1, capacity_kbps=1000)])
    b = write_run(tmp_path, [call_tables(1, capacity_kbps=other_kbps)])
    page = parsed(write_comparison({"a": a, "b": b}, tmp_path / "page.html"))
    (rate,) = (chart for chart in page.charts if chart["name"] == "rate")
    assert ("capacity" in labels(rate)) == drawn
