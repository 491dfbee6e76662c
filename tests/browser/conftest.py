"""The browser that looks at pages of reports."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from typing import Any

import pytest

from rtclab.backend.live.browsers.launch_options import find_chromium


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """A browser without network access: requests of a page fail and are logged."""
    from selenium import webdriver

    options = webdriver.ChromeOptions()
    options.binary_location = find_chromium() or ""
    for argument in ("--headless=new", "--no-sandbox", "--disable-gpu", "--proxy-server=127.0.0.1:9"):
        options.add_argument(argument)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    # A driver that ends leaves files of Chromium behind. Paths of its sockets must be short.
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as temporary:
        environment = os.environ | {"TMPDIR": temporary}
        service = webdriver.ChromeService(shutil.which("chromedriver"), env=environment)
        driver = webdriver.Chrome(options=options, service=service)
        yield driver
        driver.quit()
