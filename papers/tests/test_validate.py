"""The page that compares simulated and live figures."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import polars as pl
import pytest
from stub_backend import StubBackend

from rtclab.experiment import Experiment
from rtclab.scenario import Scenario
from rtclab.trace import Machine, Run
from rtclab_papers.markdown import NOTES, notes_of
from rtclab_papers.validate import sim_vs_live, tcp
from rtclab_papers.validate.sim_vs_live import ScenarioPair, page, run_pairs

DOCS = Path(__file__).parents[2] / "docs"


def compared(metric: str, live: float | None, sim: float | None) -> dict[str, object]:
    percent = None if live is None or sim is None else 100 * (sim - live) / live
    return {
        "metric": metric,
        "unit": "kbit/s",
        "flow": "alice->bob",
        "base": live,
        "base_low": live and live - 1.5,
        "base_high": live and live + 1.5,
        "new": sim,
        "new_low": None,
        "new_high": None,
        "difference_percent": percent,
    }


def page_of(tmp_path: Path, *rows: dict[str, object]) -> list[str]:
    scenario = Scenario.load("sim-vs-live/1mbit", ["duration=2 s"])
    run = Experiment([scenario], backend=StubBackend()).run(out=tmp_path).run
    return "\n".join(page([ScenarioPair(scenario, run, run, pl.DataFrame(rows))])).splitlines()


def test_a_rate_is_within_bounds_up_to_15_per_cent_and_not_beyond(tmp_path: Path) -> None:
    lines = page_of(
        tmp_path, compared("receiving_rate", 800.0, 920.0), compared("receiving_rate", 800.0, 679.0)
    )
    assert "| receiving_rate (kbit/s) | alice->bob | 800 [798.5, 801.5] | 920 | +15.0 % | yes |" in lines
    assert (
        "| receiving_rate (kbit/s) | alice->bob | 800 [798.5, 801.5] | 679 | -15.1 % | **no** (15 %) |"
        in lines
    )


def test_a_metric_that_could_not_be_measured_is_not_within_bounds(tmp_path: Path) -> None:
    lines = page_of(tmp_path, compared("rtt", None, 100.0))
    assert "| rtt (kbit/s) | alice->bob |  | 100 |  | not measured |" in lines


def test_a_page_says_how_many_repeats_finished(tmp_path: Path) -> None:
    lines = page_of(tmp_path, compared("rtt", 1.0, 1.0))
    finished = "3 of 3 repeats finished live, 3 of 3 repeats finished simulated"
    assert f"`sim-vs-live-1mbit`, 2 s; {finished}." in lines


@pytest.mark.parametrize(
    ("file", "introduction"),
    [
        ("sim-vs-live.md", page([])),
        ("tcp-vs-kernel.md", tcp.page([], tcp.DURATION_S)),
    ],
)
def test_the_page_in_docs_begins_as_its_command_writes_it(file: str, introduction: Iterable[str]) -> None:
    assert (DOCS / file).read_text().startswith("\n\n".join(introduction))


def test_each_scenario_is_followed_by_its_result(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [compared("receiving_rate", 800.0, 679.0), compared("rtt", None, 100.0)]

    def run_pair(scenario: Scenario, *_: object) -> ScenarioPair:
        run = Experiment([scenario], repeats=1, backend=StubBackend()).run(out=tmp_path).run
        return ScenarioPair(scenario, run, run, pl.DataFrame(rows))

    monkeypatch.setattr(sim_vs_live, "_run_pair", run_pair)
    said: list[str] = []
    pairs = [*run_pairs(tmp_path, repeats=1, keep_live=True, say=said.append)]
    rate = "  receiving_rate (kbit/s), alice->bob: live 800 [798.5, 801.5], simulated 679, -15.1 %"
    one = [f"{rate}; within bound: no (15 %)", "  rtt (kbit/s), alice->bob: not measured"]
    assert len(said) == 3 * len(pairs) > 3
    assert [said[at + 1 : at + 3] for at in range(0, len(said), 3)] == [one] * len(pairs)


def test_only_a_live_run_of_the_scenario_as_it_is_now_is_kept(tmp_path: Path) -> None:
    backend = StubBackend()
    backend.name = "live"
    call = Scenario.load("first-call", {"duration": "2 s", "repeats": 1})
    runs = [
        Experiment([one], backend=backend).run(out=tmp_path).name
        for one in (call, Scenario.load(call, {"title": "Another"}), Scenario.load(call, {"duration": "3 s"}))
    ]
    kept = sim_vs_live._newest_live(call, tmp_path)
    assert kept is not None
    assert kept.name == runs[1]
    assert sim_vs_live._newest_live(Scenario.load(call, {"seed": 2}), tmp_path) is None


def test_notes_below_the_line_are_kept_in_the_next_page(tmp_path: Path) -> None:
    file = tmp_path / "page.md"
    assert notes_of(file) == NOTES + "\n"
    file.write_text(f"old figures\n{NOTES}\n\n## Why\n\nBecause.\n")
    assert notes_of(file) == f"{NOTES}\n\n## Why\n\nBecause.\n"


def test_the_machine_has_the_version_of_its_kernel_but_no_name_of_a_build(tmp_path: Path) -> None:
    def run(release: str, browser: str) -> Run:
        known = Machine(system="Linux", kernel=release, processor="x86", cores=2)
        manifest = SimpleNamespace(browser=browser)
        fake = SimpleNamespace(
            machine=known, versions={"rtclab": "0.1.0"}, traces=[SimpleNamespace(manifest=manifest)]
        )
        return cast(Run, fake)

    said = "Machine: 2 cores, x86, Linux 6.18; rtclab 0.1.0, browser Chromium 156.0.8078.79."
    assert sim_vs_live._machine(run("6.18.44-mine", "Chromium 156.0.8078.79 built on Debian 12")) == said
    assert sim_vs_live._machine(run("6.18", "Chromium 156.0.8078.79")) == said
