"""Paths that are estimated from simulated calls: two of the random ones, and what the page says of all."""

from __future__ import annotations

from pathlib import Path

import pytest

from rtclab_papers.validate import from_calls

DOCS = Path(__file__).parents[2] / "docs"


@pytest.mark.parametrize("seed", [3002, 3008])
def test_a_path_is_found_from_every_source(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(from_calls, "REPEATS", 3)
    rows = {row["source"]: row for row in from_calls.rows_of(seed, from_calls.TUNED)}
    assert tuple(rows) == from_calls.SOURCES
    for source, row in rows.items():
        if source == from_calls.SENDER_CAPTURE:
            assert row["capacity_grade"] == "unknown"
            assert "capacity_error_percent" not in row
        elif source not in (from_calls.SENDER_STATS, from_calls.RECEIVER_STATS):
            assert row["capacity_error_percent"] < 5, source
            assert row["delay_error_ms"] < 5, source
            assert row["loss_error_points"] < 1, source
    # Calls over the path that was found have the rate of the call from which it was found.
    assert rows[from_calls.CAPTURES]["rate_inside"]


def test_the_rows_are_of_all_paths_and_sources() -> None:
    rows = from_calls.read_rows(DOCS / "data" / "from-a-call.csv")
    assert rows.height == from_calls.PATHS * len(from_calls.SOURCES)
    assert rows["seed"].n_unique() == from_calls.PATHS
    assert rows.filter(group=from_calls.TUNED)["seed"].n_unique() == from_calls.TUNED_ON


def test_published_rows_stay_the_same_when_they_are_written_again(tmp_path: Path) -> None:
    published, again = DOCS / "data" / "from-a-call.csv", tmp_path / "again.csv"
    from_calls.write_rows(again, from_calls.read_rows(published))
    assert again.read_bytes() == published.read_bytes()


def test_the_page_quotes_the_rows() -> None:
    rows = from_calls.read_rows(DOCS / "data" / "from-a-call.csv")
    page = (DOCS / "from-a-call.md").read_text(encoding="utf-8")
    for table in from_calls.tables(rows):
        assert table in page
    words = " ".join(page.split())
    for group in from_calls.GROUPS:
        assert from_calls.sentence(rows, group) in words, group
