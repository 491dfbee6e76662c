"""What the README points at exists, and its scenario means what it says. test_examples runs its examples."""

from __future__ import annotations

import re
from pathlib import Path

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


def test_files_that_the_readme_points_at_exist() -> None:
    for target in re.findall(r"\]\(([^)#]+)[^)]*\)", README):
        if target != "docs/sim-vs-live.md":  # made by `rtclab validate`, which takes a quarter of an hour
            assert (ROOT / target).exists(), target
