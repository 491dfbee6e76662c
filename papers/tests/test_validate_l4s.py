"""What L4S buys a video call: conditions, and the page from rows."""

from __future__ import annotations

from pathlib import Path

from rtclab_papers.campaigns import Key, Record, RowFile
from rtclab_papers.validate import l4s
from rtclab_papers.validate.l4s_page import CONTRASTS, write_l4s


def test_every_condition_is_a_call_of_its_own() -> None:
    scenarios = [cell.scenario() for cell in l4s.CELLS]
    assert len({scenario.name for scenario in scenarios}) == len(l4s.CELLS) == 24
    with_tcp = [scenario for scenario in scenarios if scenario.traffic]
    assert len(with_tcp) == 12
    assert {one.congestion_control for scenario in with_tcp for one in scenario.traffic.values()} == {
        "cubic",
        "prague",
    }


def record(cell: l4s.Cell, side: str, repeat: int, delay: float) -> Record:
    values = [
        (l4s.FLOW, "queuing_delay_p95", delay),
        (l4s.FLOW, "receiving_rate", 1500.0),
        ("bob->alice", "receiving_rate", 1400.0),
        ("tcp-1", "receiving_rate", 2000.0 + repeat),
    ]
    return Record(Key(cell.name, side, repeat), 1, "finished", digest="x", values=values)


def test_the_page_tells_differences_and_means_with_intervals(tmp_path: Path) -> None:
    rows = tmp_path / "l4s.csv"
    _, before, after = CONTRASTS[0]
    cells = {100.0: l4s.Cell("cubic", *before), 10.0: l4s.Cell("cubic", *after)}
    RowFile(rows).write(
        record(cell, "sim", repeat, delay + repeat) for delay, cell in cells.items() for repeat in range(5)
    )
    found = l4s.read(rows)
    # Five values in a row have the mean of the third, and the standard deviation √2.5.
    tcp = found.tcp(cells[10.0], "sim")
    assert (tcp.mean, round(tcp.sd, 3)) == (2002, 1.581)
    assert found.tcp(cells[10.0], "live").repeats == 0
    page = tmp_path / "l4s.md"
    write_l4s(page, found)
    text = page.read_text().replace("\u00a0", " ")
    # Each error is √(2.5 / 5 · 2) = 1, and Student's t with 8 degrees of freedom is 2.306.
    assert "**-90 [-92.3, -87.7]**" in text
    assert "| 2002 [2000, 2004] |" in text
    assert (tmp_path / "l4s-rate-and-delay.svg").is_file()
