"""Measuring a meeting reads every table of its trace once, however many people and flows there are."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from rtclab.backend.sim import SimBackend
from rtclab.experiment import Results
from rtclab.experiment.measure import measured
from rtclab.lab import run
from rtclab.metrics import METRICS
from rtclab.scenario import Scenario
from rtclab.trace import Repeat, Trace

MEETING = """
name = "meeting"
duration = "12 s"
[video]
max_bitrate = "300 kbit/s"
[audio]
[link]
up = { capacity = "10 Mbit/s", delay = "10 ms" }
down = { capacity = "10 Mbit/s", delay = "20 ms" }
[servers.sfu]
[[calls]]
kind = "sfu"
server = "sfu"
[traffic.load]
sender = "a"
receiver = "b"
start = "3 s"
"""


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """How often each table was read from its file, whole or in part."""
    counted: Counter[str] = Counter()

    def counting(read: Any) -> Any:
        def counts(source: Any, *arguments: Any, **options: Any) -> Any:
            counted[Path(source).stem] += 1
            return read(source, *arguments, **options)

        return counts

    for name in ("read_parquet", "scan_parquet"):
        monkeypatch.setattr(pl, name, counting(getattr(pl, name)))
    return counted


def meeting(tmp_path: Path, people: int) -> Scenario:
    file = tmp_path / f"meeting-{people}.toml"
    file.write_text(MEETING + "".join(f"[participants.{name}]\n" for name in "abcdefgh"[:people]))
    return Scenario.load(file)


@pytest.mark.parametrize("people", [2, 6])
@pytest.mark.parametrize("window", [None, (4.0, 9.0)])
def test_all_metrics_of_a_meeting_read_every_table_once(
    tmp_path: Path, reads: Counter[str], people: int, window: tuple[float, float] | None
) -> None:
    SimBackend().run(meeting(tmp_path, people), seed=1, repeat=0, out=tmp_path)
    trace, in_window = Trace(tmp_path).within(window), window is not None
    values = measured(Repeat(0, 1, "finished"), trace, METRICS.values(), in_window=in_window)
    assert len(values) > 50 * people
    assert reads["packets"] == 1
    assert set(reads.values()) == {1}, reads


def test_a_run_and_its_report_read_the_packets_twice(tmp_path: Path, reads: Counter[str]) -> None:
    """Once for metrics, and once more columns of the few flows whose reasons the page says.

    Other tables are still in memory from the simulation.
    """
    results = run(meeting(tmp_path, 4), out=tmp_path)
    results.report()
    assert reads == {"packets": 2, "hops": 1}


def test_the_report_of_a_run_on_disk_reads_every_other_table_once(
    tmp_path: Path, reads: Counter[str]
) -> None:
    path = run(meeting(tmp_path, 4), out=tmp_path).path
    reads.clear()
    Results(path).report()
    assert reads.pop("packets") == 2
    assert set(reads.values()) == {1}, reads
