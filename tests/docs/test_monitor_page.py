"""The columns that docs/monitor.md lists are those that the monitor gives, in their order."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

from rtclab import monitoring

ROOT = Path(__file__).parents[2]
sys.path.append(str(ROOT / "tests" / "unit"))

from captures import speech, write_pcap  # noqa: E402


def documented(section: str) -> dict[str, list[str]]:
    """Columns by table; what stands in parentheses explains."""
    rows = re.findall(r"^\| (\w+) \| [^|]+ \| (`.*) \|$", section, re.MULTILINE)
    return {name: re.findall(r"`([\w…]+)`", re.sub(r"\([^)]*\)", "", columns)) for name, columns in rows}


@pytest.fixture
def page() -> tuple[str, str]:
    """The tables on the page, for one point and for two."""
    one, _, two = (ROOT / "docs" / "monitor.md").read_text().partition("## Two points")
    return one, two


def test_the_columns_of_one_capture_are_documented(tmp_path: Path, page: tuple[str, str]) -> None:
    seen = monitoring.monitor(write_pcap(tmp_path / "a.pcap", speech(10)), packets=True, seconds=True)
    assert documented(page[0]) == {name: table.columns for name, table in seen.items()}


def test_the_columns_of_two_captures_are_documented(tmp_path: Path, page: tuple[str, str]) -> None:
    capture = write_pcap(tmp_path / "a.pcap", speech(10))
    compared = monitoring.follow(capture, capture, packets=True)
    columns = {
        name: list(
            dict.fromkeys(
                re.sub(r"delay_(mean|sd|min|p50|p95|p99|max)_ms", "delay_…_ms", column)
                for column in table.columns
            )
        )
        for name, table in compared.items()
    }
    columns["packets"] = compared["packets"].columns
    assert documented(page[1]) == columns
