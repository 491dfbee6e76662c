"""The report of a sweep in a real browser: the buttons of its heat map, and its cells."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from rtclab.lab import sweep

pytestmark = [pytest.mark.live, pytest.mark.needs("chromium", "chromedriver")]


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    vary = {"link.up.capacity": ["0.3 Mbit/s", "1 Mbit/s"], "link.up.loss": ["0 %", "5 %", "10 %"]}
    return sweep("first-call", vary, repeats=2, duration="5 s", out=tmp_path_factory.mktemp("runs")).report()


@pytest.fixture
def opened(browser: Any, page: Path) -> Any:
    metrics = {"width": 1280, "height": 900, "deviceScaleFactor": 1, "mobile": False}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
    browser.get(page.as_uri())
    return browser


def shown_maps(browser: Any) -> list[str]:
    maps = browser.find_elements("css selector", ".view")
    return [one.find_element("css selector", "h3").text for one in maps if one.is_displayed()]


def test_a_button_shows_the_map_of_its_metric_alone(opened: Any) -> None:
    assert len(shown_maps(opened)) == 1
    assert shown_maps(opened)[0].startswith("Receiving rate")
    opened.find_element("xpath", "//label[.='Packet loss']").click()
    (title,) = shown_maps(opened)
    assert title.startswith("Packet loss (%)")


def test_a_cell_shows_its_command_and_arrows_move_to_the_next(opened: Any) -> None:
    from selenium.webdriver.common.keys import Keys

    picked = opened.find_element("css selector", ".picked")
    assert not picked.is_displayed()
    first = opened.find_element("css selector", ".map td button")
    first.click()
    assert picked.is_displayed()
    at = first.get_attribute("title").partition(":")[0].split(", ")
    assert f"link.up.capacity = {at[0]}, link.up.loss = {at[1]}" in picked.text
    assert f"--set 'link.up.loss={at[1]}'" in picked.find_element("css selector", "code").text
    first.send_keys(Keys.ARROW_RIGHT)
    opened.switch_to.active_element.send_keys(Keys.ENTER)
    told = opened.switch_to.active_element.get_attribute("title").partition(":")[0].split(", ")
    assert told != at
    assert f"link.up.capacity = {told[0]}, link.up.loss = {told[1]}" in picked.text


def test_without_javascript_the_buttons_work_and_cells_have_values(opened: Any, page: Path) -> None:
    opened.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": True})
    try:
        opened.get(page.as_uri())
        opened.find_element("xpath", "//label[.='Freeze duration']").click()
        (title,) = shown_maps(opened)
        assert title.startswith("Freeze duration (s)")
        texts = [one.text for one in opened.find_elements("css selector", ".view:not([hidden]) td")]
        assert len([text for text in texts if text]) == 6
    finally:
        opened.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": False})
