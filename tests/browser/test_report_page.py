"""A report in a real browser: drawing, clicks, zoom, pointer, printing, and no JavaScript."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rtclab.experiment import Experiment
from rtclab.report import Plot
from rtclab.report.drawing import Axes, Axis, Line, Range, Style
from rtclab.report.page import write_plot_page
from rtclab.scenario import Scenario

pytestmark = [pytest.mark.live, pytest.mark.needs("chromium", "chromedriver")]

WIDE, NARROW = 1280, 400
TIME_CHARTS = ["rate", "target", "delay", "frame-rate"]
FIGURES = """
const figures = Bokeh.documents[0].roots().filter((figure) => figure.name === arguments[0]);
"""


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The report of a short simulated call."""
    scenario = Scenario.load("first-call", ["duration=20 s", "repeats=3"])
    return Experiment([scenario]).run(out=tmp_path_factory.mktemp("runs")).report()


@pytest.fixture
def opened(browser: Any, page: Path) -> Iterator[Any]:
    """The browser with the report open and its first chart drawn."""
    show(browser, page, WIDE)
    yield browser
    browser.get("about:blank")


def show(browser: Any, page: Path, width: int) -> None:
    metrics = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": False}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
    browser.get(page.as_uri())
    draw(browser, "rate")


def draw(browser: Any, name: str) -> Any:
    """Scrolls to a plot, waits until it is drawn, and returns its element."""
    element = browser.find_element("id", name)
    browser.execute_script("arguments[0].scrollIntoView()", element)
    wait(browser, lambda: element.find_elements("css selector", ".bk-Figure"), f"plot `{name}` is not drawn")
    script = FIGURES + "return figures.every((figure) => figure.inner_width > 0)"
    wait(browser, lambda: browser.execute_script(script, name), f"plot `{name}` has no size")
    return element


def wait(browser: Any, holds: Callable[[], object], message: str) -> None:
    from selenium.webdriver.support.ui import WebDriverWait

    WebDriverWait(browser, 20, poll_frequency=0.05).until(lambda _: holds(), message)


def ranges(browser: Any, name: str) -> list[list[float]]:
    """Begin and end of the horizontal axis of each figure of a plot."""
    script = FIGURES + "return figures.map((figure) => [figure.x_range.start, figure.x_range.end]);"
    found: list[list[float]] = browser.execute_script(script, name)
    assert found
    return found


def visible(browser: Any, name: str, colour: str) -> list[bool]:
    """Whether each glyph of a plot with this colour is visible: lines first, then areas."""
    script = (
        FIGURES
        + """
    const of = (one) => one.glyph.line_color?.value ?? one.glyph.fill_color?.value ?? one.glyph.fill_color;
    const all = figures.flatMap((figure) => figure.renderers).filter((one) => of(one) === arguments[1]);
    return all.map((one) => one.visible);
    """
    )
    found: list[bool] = browser.execute_script(script, name, colour)
    return found


def entry(element: Any, label: str) -> Any:
    return element.find_element("css selector", f'.legend button[data-label="{label}"]')


def button(element: Any, text: str) -> Any:
    return element.find_element("xpath", f'.//button[text()="{text}"]')


def drag(browser: Any, element: Any, from_share: float, to_share: float) -> None:
    """Drags over the first chart of a plot, between two shares of its width."""
    from selenium.webdriver.common.action_chains import ActionChains

    chart = element.find_element("css selector", ".chart")
    width = chart.size["width"]
    at = [round((share - 0.5) * width) for share in (from_share, to_share)]
    actions = ActionChains(browser)
    actions.move_to_element_with_offset(chart, at[0], 0).click_and_hold()
    actions.move_to_element_with_offset(chart, sum(at) // 2, 5)
    actions.move_to_element_with_offset(chart, at[1], 5).release().perform()


def requests(browser: Any) -> list[str]:
    """The URLs that the page requested since the last call."""
    messages = [json.loads(entry["message"])["message"] for entry in browser.get_log("performance")]
    asked = [one for one in messages if one["method"] == "Network.requestWillBeSent"]
    return [one["params"]["request"]["url"] for one in asked]


def test_the_page_logs_no_error_and_requests_only_itself(browser: Any, page: Path) -> None:
    requests(browser)
    show(browser, page, WIDE)
    for name in TIME_CHARTS:
        draw(browser, name)
    assert [one for one in browser.get_log("browser") if one["level"] in ("SEVERE", "WARNING")] == []
    assert {url for url in requests(browser) if not url.startswith("data:")} == {page.as_uri()}


def test_a_click_on_a_legend_entry_hides_a_curve_with_its_range_and_a_second_click_shows_both(
    opened: Any,
) -> None:
    rate = opened.find_element("id", "rate")
    blue, orange = "#0072B2", "#D55E00"
    assert visible(opened, "rate", blue) == [True, True]
    entry(rate, "alice → bob").click()
    assert visible(opened, "rate", blue) == [False, False]
    assert visible(opened, "rate", orange) == [True, True]
    assert entry(rate, "alice → bob").get_attribute("aria-pressed") == "false"
    entry(rate, "alice → bob").click()
    assert visible(opened, "rate", blue) == [True, True]


def test_a_click_on_the_legend_entry_of_ranges_hides_only_ranges(opened: Any) -> None:
    rate = opened.find_element("id", "rate")
    entry(rate, "range over repeats").click()
    assert sorted(visible(opened, "rate", "#0072B2")) == [False, True]


def test_dragging_zooms_all_charts_over_time_and_reset_undoes_it(opened: Any) -> None:
    rate = opened.find_element("id", "rate")
    (begin, end), *_ = ranges(opened, "rate")
    drag(opened, rate, 0.4, 0.6)
    wait(opened, lambda: ranges(opened, "rate")[0] != [begin, end], "the drag did not zoom")
    zoomed = ranges(opened, "rate")[0]
    assert begin < zoomed[0] < zoomed[1] < end
    for name in TIME_CHARTS:
        element = draw(opened, name)
        assert all(one == zoomed for one in ranges(opened, name)), name
    draw(opened, "delay-distribution")
    assert ranges(opened, "delay-distribution")[0] != zoomed
    opened.execute_script("arguments[0].scrollIntoView({ block: 'center' })", button(element, "Reset"))
    button(element, "Reset").click()
    assert all(one == [begin, end] for name in TIME_CHARTS for one in ranges(opened, name))


def test_dragging_moves_a_zoomed_chart_if_that_tool_is_chosen(opened: Any) -> None:
    rate = opened.find_element("id", "rate")
    drag(opened, rate, 0.4, 0.6)
    before = ranges(opened, "rate")[0]
    button(rate, "Drag to move").click()
    drag(opened, rate, 0.6, 0.4)
    after = ranges(opened, "rate")[0]
    assert after[0] > before[0]
    assert after[1] - after[0] == pytest.approx(before[1] - before[0])


def test_the_pointer_shows_the_time_and_the_value_of_every_visible_curve(opened: Any) -> None:
    from selenium.webdriver.common.action_chains import ActionChains

    rate = opened.find_element("id", "rate")
    chart = rate.find_element("css selector", ".chart")
    ActionChains(opened).move_to_element(chart).move_by_offset(5, 0).perform()
    box = chart.find_element("css selector", ".values")
    wait(opened, box.is_displayed, "no values at the pointer")
    time, flow, target, capacity, limit = box.text.splitlines()
    assert time.startswith("Time ")
    assert time.endswith(" s")
    assert flow.startswith("alice → bob: ")
    assert " kbit/s (" in flow
    assert target.startswith("target of congestion control: ")
    assert capacity == "capacity: 1000 kbit/s"
    assert re.fullmatch(r"[\d.]+ to [\d.]+ s: limited by .+", limit)
    entry(rate, "capacity").click()
    ActionChains(opened).move_to_element(chart).move_by_offset(8, 0).perform()
    wait(opened, lambda: len(box.text.splitlines()) == 4, "the capacity is still shown")


def test_without_javascript_the_page_has_its_verdict_static_plots_and_tables(
    browser: Any, page: Path
) -> None:
    browser.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": True})
    try:
        browser.get(page.as_uri())
        assert browser.find_element("css selector", ".lead").text.startswith("Good both ways: ")
        for name in TIME_CHARTS:
            plot = browser.find_element("id", name)
            assert plot.find_element("tag name", "h3").is_displayed()
            assert all(one.is_displayed() for one in plot.find_elements("css selector", ".outline svg"))
            assert not plot.find_element("css selector", ".tools").is_displayed()
        assert "Receiving rate" in browser.find_element("tag name", "table").text
        rows = browser.find_elements("css selector", ".timeline .chart")
        assert rows
        assert all(row.find_element("css selector", "svg").is_displayed() for row in rows)
        assert not any(one.is_displayed() for one in browser.find_elements("css selector", "[data-copy]"))
    finally:
        browser.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": False})


def test_the_rows_of_the_timeline_are_drawn_and_zoom_with_all_charts(opened: Any) -> None:
    timeline = opened.find_element("id", "timeline")
    opened.execute_script("arguments[0].scrollIntoView()", timeline)
    rows = len(timeline.find_elements("css selector", ".chart"))
    assert rows == 8  # rate, delay, loss and picture of two directions
    wait(
        opened, lambda: len(timeline.find_elements("css selector", ".bk-Figure")) == rows, "not all are drawn"
    )
    before = ranges(opened, "timeline-rate")
    rate = draw(opened, "rate")
    drag(opened, rate, 0.4, 0.6)
    wait(opened, lambda: ranges(opened, "timeline-rate") != before, "the timeline did not zoom")
    assert ranges(opened, "timeline-picture") == ranges(opened, "rate")
    button(rate, "Reset").click()
    assert ranges(opened, "timeline-rate") == before


def test_answer_and_figures_are_on_the_first_screen_and_each_section_has_a_link(opened: Any) -> None:
    opened.execute_script("window.scrollTo(0, 0)")
    bottom = "return document.querySelector(arguments[0]).getBoundingClientRect().bottom"
    assert opened.execute_script(bottom, ".lead") < 300
    assert opened.execute_script(bottom, ".figures") < 750
    for link in opened.find_elements("css selector", ".contents a"):
        assert opened.find_element("id", link.get_attribute("href").partition("#")[2])
    copy = opened.find_element("css selector", "[data-copy]")
    copy.click()
    wait(opened, lambda: copy.text in ("copied", "selected"), "the command was not copied")


def test_texts_of_charts_say_what_they_show(opened: Any) -> None:
    charts = opened.find_elements("css selector", ".chart")
    told = [chart.get_attribute("aria-label") for chart in charts]
    assert all(told)
    rates = [text for text in told if text.startswith("Receiving rate against")]
    assert len({*rates}) == 2
    assert all(re.search(r"alice → bob|bob → alice", text) and "kbit/s" in text for text in rates)


MEETING = """
duration = "10 s"
repeats = 1
[video]
[servers.sfu]
[servers.sfu.link]
up = {}
down = {}
[link]
up = {}
down = {}
[[calls]]
kind = "sfu"
server = "sfu"
"""


@pytest.fixture(scope="module")
def meeting(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The report of a meeting of eight, one of whom has a slow downlink."""
    names = [f"p{number}" for number in range(8)]
    people = "".join(f"[participants.{name}]\n" for name in names)
    slow = '[participants.p5.link]\nup = {}\ndown = { capacity = "400 kbit/s" }\n'
    out = tmp_path_factory.mktemp("meeting")
    file = out / "meeting.toml"
    file.write_text(f"{MEETING}participants = {json.dumps(names)}\n{people}{slow}")
    return Experiment([Scenario.load(file)]).run(out=out).report()


def test_a_cell_of_a_meeting_opens_the_timeline_of_its_pair(browser: Any, meeting: Path) -> None:
    show(browser, meeting, WIDE)
    matrix = browser.find_element("css selector", ".matrix")
    rows = [row.text for row in matrix.find_elements("css selector", "tbody th")]
    assert rows[0] == "p5"
    assert sorted(rows) == [f"p{number}" for number in range(8)]
    senders = [one.text for one in matrix.find_elements("css selector", "thead th")]

    def shown() -> list[str]:
        columns = browser.find_elements("css selector", ".timeline .column")
        return [one.get_attribute("data-flow") for one in columns if one.is_displayed()]

    (worst,) = shown()
    assert worst.endswith("->p5")
    # One that has no account: its timeline is made of the small curves in the page.
    place = f"tbody tr:nth-child({rows.index('p0') + 1}) td:nth-of-type({senders.index('p1') + 1}) button"
    cell = matrix.find_element("css selector", place)
    browser.execute_script("arguments[0].scrollIntoView({ block: 'center' })", cell)
    cell.click()
    assert shown() == ["p1->p0"]
    assert cell.get_attribute("aria-pressed") == "true"
    assert cell.get_attribute("title").startswith("p1 → p0: frozen 0 s a minute")
    column = browser.find_element("css selector", '.column[data-flow="p1->p0"]')
    wait(browser, lambda: len(column.find_elements("css selector", ".bk-Figure")) >= 4, "it is not drawn")
    assert [one for one in browser.get_log("browser") if one["level"] in ("SEVERE", "WARNING")] == []


def test_the_people_of_a_meeting_can_be_found_and_sorted(browser: Any, meeting: Path) -> None:
    from selenium.webdriver.support.ui import Select

    show(browser, meeting, WIDE)
    matrix = browser.find_element("css selector", ".matrix")

    def rows() -> list[str]:
        return [one.text for one in matrix.find_elements("css selector", "tbody th") if one.is_displayed()]

    Select(matrix.find_element("tag name", "select")).select_by_value("name")
    assert rows() == [f"p{number}" for number in range(8)]
    matrix.find_element("css selector", "input").send_keys("P3")
    assert rows() == ["p3"]
    cards = browser.find_elements("css selector", ".cards li")
    assert [card.find_element("tag name", "strong").text for card in cards if card.is_displayed()] == ["p3"]


def test_the_page_prints_with_static_plots(opened: Any) -> None:
    pdf = base64.b64decode(opened.execute_cdp_cmd("Page.printToPDF", {})["data"])
    assert pdf.startswith(b"%PDF")
    assert len(pdf) > 20_000
    opened.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "print"})
    try:
        rate = opened.find_element("id", "rate")
        assert all(one.is_displayed() for one in rate.find_elements("css selector", ".outline svg"))
        assert not any(one.is_displayed() for one in rate.find_elements("css selector", ".bk-Figure"))
    finally:
        opened.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": ""})


def test_a_line_is_interrupted_where_a_value_is_unknown(browser: Any, tmp_path: Path) -> None:
    y = np.array([5.0, np.nan, 7.0])
    line = Line(Style.numbered(0, "a"), np.array([0.0, 1.0, 2.0]), y, Range("range", y - 1, y + 1))
    axes = [Axes("", [line])]
    write_plot_page(
        tmp_path / "page.html", "P", [Plot("rate", "P", "", Axis("x", 0, 2), Axis("y", 0, 8), axes)]
    )
    show(browser, tmp_path / "page.html", WIDE)
    script = FIGURES + (
        "return figures[0].renderers.map((one) => ['y', 'low', 'high'].map((column) => "
        "Array.from(one.data_source.data[column], (value) => Number.isNaN(value) ? 'unknown' : value)));"
    )
    # Of the range and of the line; Bokeh would draw null as 0.
    assert browser.execute_script(script, "rate") == 2 * [
        [[5, "unknown", 7], [4, "unknown", 6], [6, "unknown", 8]]
    ]
    browser.get("about:blank")
