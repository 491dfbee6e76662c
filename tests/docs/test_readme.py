"""What the README points at exists, its scenario means what it says, and its figures are this version's.

test_examples runs its examples, but does not compare figures.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import rtclab
from rtclab.metrics import METRICS
from rtclab.scenario import Bitrate, Scenario

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text()


def test_the_scenario_of_the_readme_loads(tmp_path: Path) -> None:
    toml = re.findall(r"```toml\n(.*?)```", README, re.DOTALL)
    assert len(toml) == 1
    (tmp_path / "my-call.toml").write_text(toml[0])
    scenario = Scenario.load(tmp_path / "my-call.toml")
    assert scenario.link_of("bob").down.delay.ms == 80  # type: ignore[union-attr]
    assert scenario.link_of("bob").up.capacity == Bitrate(1_000_000)


ROW = re.compile(r"^(\w+) +([\d.]+)(?: \[[^]]*\])? +([\d.]+)(?: \[[^]]*\])?(?: +\S+)?$", re.MULTILINE)
"""A metric with its means of both directions, with or without intervals."""


@pytest.mark.parametrize(("page", "duration"), [("README.md", None), ("docs/tutorial.md", "20s")])
def test_the_first_table_of_a_page_has_the_figures_of_this_version(
    page: str, duration: str | None, tmp_path: Path
) -> None:
    text = (ROOT / page).read_text(encoding="utf-8")
    table = re.search(r"^\$ rtclab run first-call.*?\n(.*?)^```", text, re.DOTALL | re.MULTILINE)
    assert table is not None
    measured = rtclab.run("first-call", duration=duration, out=tmp_path).summary()
    rows = ROW.findall(table[1])
    assert {"receiving_rate", "rtt", "setup_time"} <= {metric for metric, *_ in rows}
    for metric, *shown in rows:
        for flow, mean in zip(("alice->bob", "bob->alice"), shown, strict=True):
            is_ = measured.filter(metric=metric, flow=flow)["mean"].item()
            assert float(mean) == pytest.approx(is_, rel=0.05), f"{page}: {metric} of {flow}"
    for number in re.findall(r"all (\d+) metrics", table[1]):
        assert int(number) == len(METRICS), page


def test_the_first_screen_of_the_architecture_names_every_part_of_the_package() -> None:
    shown = (ROOT / "ARCHITECTURE.md").read_text().splitlines()[:50]
    named = {name.strip("/") for name in re.findall(r"`([^`]+)`", "\n".join(shown))}
    parts = {
        part.name for part in (ROOT / "python" / "rtclab").iterdir() if part.is_dir() or part.suffix == ".py"
    }
    assert parts - {"__init__.py", "__pycache__"} <= named


def test_files_that_the_readme_points_at_exist() -> None:
    for target in re.findall(r"\]\(([^)#]+)[^)]*\)", README):
        if target != "docs/sim-vs-live.md":  # made by `rtclab validate`, which takes a quarter of an hour
            assert (ROOT / target).exists(), target
