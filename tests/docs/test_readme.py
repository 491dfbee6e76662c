"""What the README shows works: its scenario loads, and its commands for the simulator run in their order."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from rtclab.cli import main
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


def test_the_commands_of_the_readme_run_in_their_order(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    commands = README.partition("## Commands")[2].partition("##")[0]
    lines = re.findall(r"^    rtclab (\S.*?)(?:  +.*)?$", commands, re.MULTILINE)
    assert len(lines) == 7
    for line in lines:
        with pytest.raises(SystemExit) as ended:
            main(shlex.split(line))
        assert ended.value.code == 0, (line, capsys.readouterr().err)
    assert (tmp_path / "runs" / "first-call-sim-2" / "report.html").is_file()


def test_files_that_the_readme_points_at_exist() -> None:
    for target in re.findall(r"\]\(([^)]+)\)", README):
        if target != "docs/sim-vs-live.md":  # made by `rtclab validate`, which takes a quarter of an hour
            assert (ROOT / target).exists(), target
