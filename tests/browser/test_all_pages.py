"""Every kind of page in a real browser: widths, errors, first screen, contrast, texts, and keyboard."""

from __future__ import annotations

import importlib
import sys
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from test_report_page import WIDE, wait

from rtclab.cli import main

pytestmark = [pytest.mark.live, pytest.mark.needs("chromium", "chromedriver")]

DOCS = Path(__file__).parents[2] / "docs"
GALLERY = (DOCS / "gallery.md").read_text(encoding="utf-8")
sys.path.insert(0, str(DOCS / "_ext"))
gallery = importlib.import_module("gallery")

NARROWEST = 360
FIRST_SCREEN = {400: 800, 1400: 750}
"""Height of the first screen by width."""
LARGEST = 3_000_000
"""Most bytes of a page."""
LEAST_CONTRAST = 4.5
"""Least contrast of text with what is behind it (WCAG 2.2, 1.4.3)."""

LONG = "a-name-of-eighty-letters-which-no-column-of-any-table-and-no-title-expects-to-see"
ODD = f"""
name = "odd"
title = "会议 и اجتماع, {"a title that is longer than every screen " * 3}"
duration = "5 s"
repeats = 1
participants.anna = {{}}
participants.b = {{}}
[participants.{LONG}]
link.down = {{ capacity = "300 kbit/s" }}
[video]
[audio]
[servers.sfu]
link.both = {{}}
[link]
both = {{}}
[[calls]]
kind = "sfu"
server = "sfu"
"""
BROKEN = """
class Broken:
    def __init__(self, bounds): pass
    def on_feedback(self, now, feedback): raise ValueError("会议 لا شيء " + 200 * "x")
"""
SHORT = ["--duration", "1s", "--repeats", "1"]
MORE = {
    "odd": "runs/odd-sim-1/report.html",
    "one-second": "runs/first-call-sim-4/report.html",
    "failed": "runs/first-call-sim-5/report.html",
    "imported": "runs/import-capture-1/report.html",
}
"""Pages that the gallery does not have, each with its file."""
WATCHED = "a-call-while-it-goes-on"
"""The page that says what happens now, and has no answer yet."""
PAGES = {one.name: one.file for one in gallery.examples_of(GALLERY)} | MORE


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder in which the commands of the gallery left their pages, and those of odd calls."""
    work = tmp_path_factory.mktemp("pages")
    gallery.follow(GALLERY, work)
    (work / "odd.toml").write_text(ODD, encoding="utf-8")
    (work / "broken.py").write_text(BROKEN, encoding="utf-8")
    capture = "runs/first-call-sim-3/repeat-0/capture.pcapng"
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(work)
        for command in (
            ["run", "odd.toml"],
            ["run", "first-call", *SHORT],
            ["run", "first-call", *SHORT, "--control", "broken.py:Broken"],
            ["import", capture],
            ["report", "import-capture-1"],
        ):
            with pytest.raises(SystemExit):
                main(command)
    return work


@pytest.fixture(params=PAGES)
def page(pages: Path, request: pytest.FixtureRequest) -> Path:
    return pages / PAGES[request.param]


def show(browser: Any, page: Path, width: int) -> None:
    size = {"width": width, "height": FIRST_SCREEN.get(width, 800), "deviceScaleFactor": 1, "mobile": False}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    browser.get(page.as_uri())


def draw_all(browser: Any, page: Path) -> None:
    """Scrolls to each chart of a page, so that all are drawn."""
    for figure in browser.find_elements("css selector", "figure.plot, figure.timeline"):
        if figure.is_displayed():
            browser.execute_script("arguments[0].scrollIntoView()", figure)
            drawn = "return arguments[0].classList.contains('drawn')"
            wait(browser, partial(browser.execute_script, drawn, figure), f"{page.name} is not drawn")


SIDEWAYS = """
const { scrollWidth, clientWidth } = document.documentElement;
return [scrollWidth, clientWidth];
"""


@pytest.mark.parametrize("width", [NARROWEST, WIDE])
def test_a_page_fits_into_the_window_and_logs_no_error(browser: Any, page: Path, width: int) -> None:
    browser.get_log("browser")
    show(browser, page, width)
    draw_all(browser, page)
    wide, window = browser.execute_script(SIDEWAYS)
    assert wide <= window <= width
    assert [one for one in browser.get_log("browser") if one["level"] in ("SEVERE", "WARNING")] == []
    assert page.stat().st_size < LARGEST


@pytest.mark.parametrize("page", [name for name in PAGES if name != WATCHED], indirect=True)
@pytest.mark.parametrize("width", FIRST_SCREEN)
def test_the_answer_and_its_figures_are_on_the_first_screen(browser: Any, page: Path, width: int) -> None:
    show(browser, page, width)
    ends = [
        one.rect["y"] + one.rect["height"] for one in browser.find_elements("css selector", ".lead, .figures")
    ]
    assert ends
    assert max(ends) < FIRST_SCREEN[width]
    timeline = browser.find_elements("css selector", ".timeline")
    if timeline and not browser.find_elements("css selector", ".matrix"):
        assert timeline[0].rect["y"] < 0.8 * FIRST_SCREEN[width]


CONTRASTS = """
const channel = (value) => (value /= 255) <= 0.03928 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4;
// Mixed colours are written as color(srgb 0.5 0.5 0.5).
const parts = (colour) => colour.match(/[\\d.]+/g).map(Number)
  .map((value, index) => colour.startsWith("color") && index < 3 ? 255 * value : value);
const light = ([r, g, b]) => 0.2126 * channel(r) + 0.7152 * channel(g) + 0.0722 * channel(b);
function behind(element) {
  for (let one = element; one; one = one.parentElement) {
    const colour = getComputedStyle(one).backgroundColor;
    if ((parts(colour)[3] ?? 1) === 1) return parts(colour);
  }
  return [255, 255, 255];
}
const texts = [...document.querySelectorAll("main *, nav *")].filter((one) =>
  !one.closest(".chart, svg, script, style") && one.checkVisibility() &&
  [...one.childNodes].some((child) => child.nodeType === 3 && child.textContent.trim()));
return texts.map((one) => {
  const [high, low] = [light(parts(getComputedStyle(one).color)), light(behind(one))].sort((a, b) => b - a);
  return [(high + 0.05) / (low + 0.05), one.textContent.trim().slice(0, 40)];
});
"""


def test_all_texts_have_enough_contrast_in_light_and_dark(browser: Any, page: Path) -> None:
    show(browser, page, WIDE)
    try:
        for scheme in ("light", "dark"):
            features = [{"name": "prefers-color-scheme", "value": scheme}]
            browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})
            found = browser.execute_script(CONTRASTS)
            assert len(found) > 20
            assert [one for one in found if one[0] < LEAST_CONTRAST] == [], scheme
    finally:
        browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": []})


UNREADABLE = """
const all = (selector) => [...document.querySelectorAll(selector)].filter((one) => one.checkVisibility());
const name = (one) => ["aria-label", "alt", "title"].map((of) => one.getAttribute(of) ?? "").join("") +
  one.textContent + [...(one.labels ?? [])].map((label) => label.textContent).join("");
const pictures = all("img, [role=img]").filter((one) => name(one).trim().length < 10);
// Arrow keys move within a table with one cell that the tab key reaches.
const reached = (one) => one.tabIndex >= 0 ||
  one.closest("table")?.querySelectorAll("[tabindex='0']").length === 1;
const used = all("button, a[href], input, select, summary");
const silent = used.filter((one) => !name(one).trim() || !reached(one));
return [...pictures, ...silent].map((one) => one.outerHTML.slice(0, 120));
"""


def test_pictures_have_texts_and_everything_that_can_be_clicked_is_named_and_in_reach_of_the_keyboard(
    browser: Any, page: Path
) -> None:
    show(browser, page, WIDE)
    assert browser.execute_script(UNREADABLE) == []
