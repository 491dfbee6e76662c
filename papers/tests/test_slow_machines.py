"""Compares a simulated slow machine with real browsers. The table in `docs/model.md` has both.

The live calls in `docs/data/encoder-live.csv` are of Chromium 156 at both ends on two cores, one call of 40 s
for each row. The metrics are of 10 to 40 s.
"""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

import rtclab

DOCS = Path(__file__).resolve().parents[2] / "docs"
METRICS = ["frame_rate", "frame_height", "stats_receiving_rate", "cpu_limited"]
HOST = """
[participants.sender.host]
encoder_capacity = "65.5 Mpixel/s"
encoder_output = "30.3 Mbit/s"
variation = { deviation = "18 %", correlation = "1 s" }
"""
"""Fitted to the time of encoding of all seconds of the live calls; the deviation is what the fit leaves."""
CALL = """
name = "slow-machine"
duration = "40 s"
repeats = 6
[participants.sender]
[participants.viewer]
video = false
[link]
up = { capacity = "100 Mbit/s", delay = "10 ms" }
down = { capacity = "100 Mbit/s", delay = "10 ms" }
"""
CAMERAS = {"1280x720": 30, "1920x1080": 60}


def live() -> pl.DataFrame:
    return pl.read_csv(DOCS / "data" / "encoder-live.csv")


def simulated(tmp_path: Path, size: str, mbps: int) -> dict[str, float]:
    """The mean of each metric."""
    width, height = size.split("x")
    video = f"""
[video]
width = {width}
height = {height}
frame_rate = {CAMERAS[size]}
max_bitrate = "{mbps} Mbit/s"
start_bitrate = "{mbps} Mbit/s"
"""
    file = tmp_path / f"{size}-{mbps}.toml"
    file.write_text(CALL + HOST + video)
    run = rtclab.run(file, seed=1, out=tmp_path, progress=False, jobs=1)
    rows = run.between(begin="10 s").summary(metrics=METRICS, flows="sender->viewer")
    return dict(rows.select("metric", "mean").rows())


def table(rows: list[dict[str, object]]) -> str:
    """The table of the page: live, and simulated in brackets."""
    lines = [
        "| camera | at most | pictures/s | lines | kbit/s | limited by `cpu`, % |",
        "|---|---|---|---|---|---|",
    ]
    for row in rows:
        cells = [f"{row[name]:.0f} ({row['simulated_' + name]:.0f})" for name in METRICS]
        lines.append(f"| {row['camera']} | {row['max_mbps']} Mbit/s | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, object]]:
    """Live rows with the simulated values."""
    rows = live().rows(named=True)
    tmp_path = tmp_path_factory.mktemp("machines")
    for row in rows:
        size = row["camera"].split(",")[0]
        found = simulated(tmp_path, size, row["max_mbps"])
        row |= {f"simulated_{name}": value for name, value in found.items()}
    return rows


def test_the_table_of_the_page_has_both_sides(both: list[dict[str, object]]) -> None:
    assert table(both) in (DOCS / "model.md").read_text(encoding="utf-8"), table(both)


def test_a_simulated_slow_machine_sends_what_a_real_one_does(both: list[dict[str, object]]) -> None:
    """Where encoding takes about 85 % of the time between pictures, chance decides when they shrink."""
    within = {"frame_rate": 0.25, "frame_height": 0.06, "stats_receiving_rate": 0.25}
    for row in both:
        for name, rel in within.items():
            assert row[f"simulated_{name}"] == pytest.approx(row[name], rel=rel), row
        assert row["simulated_cpu_limited"] == pytest.approx(row["cpu_limited"], abs=20), row
