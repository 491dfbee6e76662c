"""The page of --watch in a real browser: figures, markup in texts, a run that goes on, and widths."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from test_report_page import NARROW, WIDE, wait

from rtclab.dashboard import Dashboard
from rtclab.dashboard.page import PAGE_FILE, keep_page
from rtclab.experiment import Experiment
from rtclab.metrics import delay, wire
from rtclab.scenario import Scenario
from rtclab.trace import Trace, only_writer, watch_file

pytestmark = [pytest.mark.live, pytest.mark.needs("chromium", "chromedriver")]

ATTACK = "<img src=x onerror=\"document.title='taken over'\"><script>document.title='taken over'</script>"
FLOWS = ["alice->bob", "bob->alice"]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of two short simulated repeats, with its page."""
    scenario = Scenario.load("first-call", {"duration": "20 s", "link.up.loss": "2 %"})
    made = Experiment([scenario], repeats=2).run(out=tmp_path_factory.mktemp("runs"), progress=False)
    keep_page(made.path)
    return made.path


@pytest.fixture
def page(browser: Any) -> Iterator[Any]:
    """The browser, in which nothing was forbidden by a policy and no script failed."""
    browser.get_log("browser")
    yield browser
    complaints = [entry["message"] for entry in browser.get_log("browser")]
    browser.get("about:blank")
    assert [text for text in complaints if "ERR_CONNECTION" not in text] == []


def show(browser: Any, url: str, width: int = WIDE) -> None:
    metrics = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": False}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
    browser.get(url)


def figure(browser: Any, flow: str, field: str) -> str:
    """The text of a cell of the table of flows; empty if there is none."""
    script = "return document.querySelector(arguments[0])?.textContent ?? ''"
    return str(browser.execute_script(script, f'#flows td[data-flow="{flow}"][data-field="{field}"]'))


def text_of(browser: Any, name: str) -> str:
    return str(browser.find_element("id", name).text)


def begin(directory: Path, name: str, participants: list[str]) -> None:
    """Writes that a live run of one repeat has begun."""
    watch_file.append(directory, "run", name=name, backend="live", planned=1, finished=0)
    flow = {"sender": participants[0], "receiver": participants[1], "call": 0, "begin_ns": 0, "end_ns": 1}
    about = {"attempt": 2, "duration_s": 20, "participants": participants, "flows": {FLOWS[0]: flow}}
    watch_file.append(directory, "repeat", condition="", repeat=0, **about)


def points(directory: Path, at_s: float, kbps: float, events: list[Any]) -> None:
    new = {
        "at_s": at_s,
        "flows": {FLOWS[0]: {"received_kbps": [[at_s, kbps]]}},
        "people": {},
        "ends": {},
        "events": events,
    }
    watch_file.append(directory, "points", condition="", repeat=0, **new)


def test_the_figures_of_each_repeat_are_in_its_trace(page: Any, run: Path) -> None:
    show(page, (run / PAGE_FILE).as_uri())
    assert text_of(page, "status") == "The run has ended: 2 of 2 repeats finished"
    buttons = page.find_elements("css selector", "#repeats button")
    assert [button.text for button in buttons] == ["repeat 0", "repeat 1"]
    for repeat, button in enumerate(buttons):
        if button.get_attribute("aria-pressed") == "false":  # the newest is shown at first
            button.click()
        assert text_of(page, "heading") == f"Repeat {repeat}: finished"
        trace = Trace(run / f"repeat-{repeat}")
        for flow in FLOWS:
            reported_s = trace.table("inbound_rtp").filter(flow=flow)["at_ns"].max() / 1e9
            received = wire.stats_received_kbps(trace, flow)
            last = received.values[received.at_s <= reported_s][-1]
            assert float(figure(page, flow, "received_kbps")) == pytest.approx(last, abs=0.6)
            assert float(figure(page, flow, "rtt_ms")) == pytest.approx(
                delay.rtt_ms(trace, flow).values[-1], abs=0.6
            )
            one_way_ms = delay.one_way_delay_ms(trace, flow).values[-1]
            assert float(figure(page, flow, "delay_ms")) == pytest.approx(one_way_ms, abs=0.6)
        assert len(page.find_elements("css selector", ".card")) == 2
        assert len(page.find_elements("css selector", ".card .chart path[stroke-width='1.6']")) == 2 * 10


@pytest.mark.parametrize("width", [WIDE, NARROW])
def test_nothing_is_wider_than_the_page(page: Any, run: Path, width: int) -> None:
    show(page, (run / PAGE_FILE).as_uri(), width)
    assert page.execute_script("return document.documentElement.scrollWidth") <= width
    charts = page.find_elements("css selector", ".chart")
    assert len(charts) == 2 * 9
    assert all(150 < chart.size["width"] < width for chart in charts)


def test_a_page_follows_a_run_to_its_end_and_shows_why_it_failed(page: Any, tmp_path: Path) -> None:
    with Dashboard() as dashboard, dashboard.showing(tmp_path):
        show(page, dashboard.url)
        assert text_of(page, "status") == "Waiting for the run to begin"
        with only_writer(tmp_path):
            begin(tmp_path, "a run", ["alice", "bob"])
            points(tmp_path, 1.0, 111.4, [[0.5, "bob", FLOWS[0], "dtls_connected", ""]])
            wait(page, lambda: figure(page, FLOWS[0], "received_kbps") == "111", "the first point is missing")
            assert text_of(page, "heading") == "Repeat 0, try 2: running, 1 s of 20 s"
            states = [state.text for state in page.find_elements("css selector", ".card h3 span")]
            assert states == ["starting", "dtls connected (alice → bob) at 0.5 s"]
            page.execute_script("window.kept = true")
            points(tmp_path, 2.0, 222.4, [])
            wait(page, lambda: figure(page, FLOWS[0], "received_kbps") == "222", "the second one is missing")
            outcome = {"condition": "", "repeat": 0, "status": "failed", "reason": "the camera\nis missing"}
            watch_file.append(tmp_path, "outcome", **outcome, attempt=2, note="", disturbed="", seed=1)
            watch_file.append(tmp_path, "end", reason="")
    ended = "The run has ended: 0 of 1 repeat finished, 1 failed"
    wait(page, lambda: text_of(page, "status") == ended, "the end is missing")
    assert text_of(page, "reason") == "the camera\nis missing"
    assert page.execute_script("return window.kept")  # without loading the page again
    assert not page.find_element("id", "connection").is_displayed()


def test_a_connection_that_was_not_planned_is_on_the_card_of_its_reporter(page: Any, tmp_path: Path) -> None:
    begin(tmp_path, "a run", ["alice", "bob"])
    curves = {"bob/2 sent": "sent_kbps", "bob/2 received": "received_kbps"}
    flows = {flow: {curve: [[1.0, 50.4]]} for flow, curve in curves.items()}
    ends = {"bob/2 sent": {"sender": "bob"}, "bob/2 received": {"receiver": "bob"}}
    new = {"at_s": 1.0, "flows": flows, "people": {}, "ends": ends, "events": []}
    watch_file.append(tmp_path, "points", condition="", repeat=0, **new)
    watch_file.append(tmp_path, "end", reason="")
    keep_page(tmp_path)
    show(page, (tmp_path / PAGE_FILE).as_uri())
    alice, bob = page.find_elements("css selector", ".card")
    assert alice.find_elements("css selector", ".legend span") == []
    named = [entry.text for entry in bob.find_elements("css selector", ".legend span")]
    assert named == ["bob/2 sent", "bob/2 received"]
    assert figure(page, "bob/2 received", "received_kbps") == "50.4"


def test_a_page_says_that_it_has_lost_the_connection(page: Any, tmp_path: Path) -> None:
    with only_writer(tmp_path), Dashboard() as dashboard, dashboard.showing(tmp_path):
        begin(tmp_path, "a run", ["alice", "bob"])
        show(page, dashboard.url)
        wait(page, lambda: text_of(page, "name") == "a run, live", "the run is missing")
    lost = page.find_element("id", "connection")
    wait(page, lost.is_displayed, "the page does not say that the connection is lost")


@pytest.mark.parametrize("served", [True, False])
def test_markup_in_names_and_details_is_text(page: Any, tmp_path: Path, served: bool) -> None:
    begin(tmp_path, ATTACK, [ATTACK, "bob"])
    points(tmp_path, 1.0, 100, [[0.5, ATTACK, FLOWS[0], ATTACK, ATTACK]])
    outcome = {
        "condition": "",
        "repeat": 0,
        "status": "failed",
        "reason": ATTACK,
        "note": "",
        "disturbed": "",
    }
    watch_file.append(tmp_path, "outcome", **outcome, attempt=1, seed=1)
    watch_file.append(tmp_path, "end", reason=ATTACK)
    with Dashboard() as dashboard, dashboard.showing(tmp_path):
        keep_page(tmp_path)
        show(page, dashboard.url if served else (tmp_path / PAGE_FILE).as_uri())
        wait(page, lambda: ATTACK in text_of(page, "status"), "the text is not in the page")
        assert text_of(page, "reason") == ATTACK
        assert page.find_element("css selector", ".card h3").text.startswith(ATTACK)
        assert page.find_elements("css selector", "main img, main script") == []
        assert "taken over" not in page.title.replace(ATTACK, "")


@pytest.mark.parametrize("extreme", [1e15, -1e15, 0.001])
@pytest.mark.parametrize("duration_s", [1e9, 1e-9])
def test_the_smallest_and_largest_values_of_the_file_are_drawn(
    page: Any, tmp_path: Path, duration_s: float, extreme: float
) -> None:
    begin(tmp_path, "extreme", ["alice", "bob"])
    about = {"attempt": 0, "duration_s": duration_s, "participants": ["alice", "bob"], "flows": {}}
    watch_file.append(tmp_path, "repeat", condition="", repeat=10**9, **about)
    new = {
        "at_s": extreme,
        "flows": {FLOWS[0]: {"received_kbps": [[extreme, extreme], [0, 1]]}},
        "people": {"alice": {"cpu_percent": [[0, extreme]]}},
        "ends": {FLOWS[0]: {"sender": "alice", "receiver": "bob"}},
        "events": [[extreme, "", None, "", ""]],
    }
    watch_file.append(tmp_path, "points", condition="", repeat=10**9, **new)
    watch_file.append(tmp_path, "end", reason="")
    keep_page(tmp_path)
    show(page, (tmp_path / PAGE_FILE).as_uri())
    assert text_of(page, "status") == "The run has ended: 0 of 1 repeat finished"
    assert text_of(page, "heading").startswith("Repeat 1000000000: interrupted")
    assert len(page.find_elements("css selector", "#events tr")) == 1


HIGHEST = """
return [...document.querySelectorAll(".chart")].map((chart) => {
  const curves = [...chart.querySelectorAll("path[stroke-width='1.6']")].map((path) => path.getBBox().y);
  const ticks = [...chart.querySelectorAll("path")].filter((path) => /H/.test(path.getAttribute("d")) &&
    !path.getAttribute("stroke-width")).map((path) => path.getBBox().y);
  return curves.length ? [Math.min(...ticks), Math.min(...curves)] : [0, 0];
});
"""


@pytest.mark.parametrize("kbps", [924.0, 970.0, 1000.0, 3.1])
def test_the_highest_tick_is_above_every_curve(page: Any, tmp_path: Path, kbps: float) -> None:
    begin(tmp_path, "rates", ["alice", "bob"])
    for at_s in (1.0, 2.0, 3.0):
        points(tmp_path, at_s, kbps / (4 - at_s), [])
    watch_file.append(tmp_path, "end", reason="")
    keep_page(tmp_path)
    show(page, (tmp_path / PAGE_FILE).as_uri())
    ends = page.execute_script(HIGHEST)
    assert any(curve > 0 for _, curve in ends)
    assert all(tick <= curve + 0.1 for tick, curve in ends)
