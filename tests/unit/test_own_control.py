"""A crate of somebody else's adds a congestion control, and no file of rtclab knows of it."""

from __future__ import annotations

import json
import os
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest

from rtclab.scenario import Scenario

ROOT = Path(__file__).parents[2]
CRATE = ROOT / "examples" / "own-control"
LOG = ROOT / "tests" / "unit" / "event_logs" / "event-log-alice-bob.log"


@pytest.fixture(scope="module")
def program() -> Path:
    """The program of the crate, built like any crate outside of the workspace."""
    target = ROOT / "target" / "own-control"
    command = ["cargo", "build", "--quiet", "--locked", "--target-dir", str(target)]
    subprocess.run(
        command, cwd=CRATE, check=True, env=os.environ | {"RUSTFLAGS": "", "CARGO_PROFILE_DEV_DEBUG": "false"}
    )
    return target / "debug" / "own-control"


def config(tmp_path: Path, **control: Any) -> Path:
    """Alice's control is ``aimd``, bob's is Chromium's."""
    loaded = Scenario.load("first-call", {"duration": "20 s"})
    native: dict[str, Any] = json.loads(json.dumps(loaded.native(seed=1)))
    native["participants"][0]["congestion_control"] = {"name": "aimd"} | control
    native["participants"][0]["stack"] = None
    file = tmp_path / "config.json"
    file.write_text(json.dumps(native))
    return file


def run(program: Path, *arguments: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run([program, *arguments], capture_output=True, text=True, check=False)


def sent_kbps(program: Path, file: Path) -> float:
    done = run(program, file)
    found = re.fullmatch(r"sent (\d+) kbit/s\n", done.stdout)
    assert found, done.stderr
    return float(found[1])


def test_a_control_of_a_crate_outside_runs_in_simulations_and_replays(program: Path, tmp_path: Path) -> None:
    done = run(program, config(tmp_path), LOG)
    assert done.returncode == 0, done.stderr
    sent, replayed = done.stdout.splitlines()
    assert sent.startswith("sent ")
    found = re.fullmatch(r"replayed (\d+) targets, the last (\d+) bit/s", replayed)
    assert found
    # From 300 kbit/s in steps of 10, halved at losses, up to 2500.
    assert int(found[1]) > 3
    assert 30_000 <= int(found[2]) <= 2_500_000


def test_its_options_change_what_it_sends(program: Path, tmp_path: Path) -> None:
    """Rates of both participants together: bob's is the same in both runs, up to 1 Mbit/s."""
    slow = sent_kbps(program, config(tmp_path, options={"step_kbps": 1.0}))
    fast = sent_kbps(program, config(tmp_path, options={"step_kbps": 100.0}))
    assert slow < 0.9 * fast


def test_its_options_are_checked_by_its_own_names(program: Path, tmp_path: Path) -> None:
    for options, text in [
        (
            {"step": 1.0},
            "congestion_control.options.step: `aimd` has no such option; expected one of `step_kbps`",
        ),
        (
            {"step_kbps": 0.5},
            "congestion_control.options.step_kbps: 0.5 is out of bounds; expected 1 to 10000",
        ),
    ]:
        done = run(program, config(tmp_path, options=options))
        assert done.returncode == 1
        assert done.stderr.startswith(text)
    unknown = json.loads(config(tmp_path).read_text())
    unknown["participants"][0]["congestion_control"]["name"] = "aimed"
    (tmp_path / "config.json").write_text(json.dumps(unknown))
    known = (
        "`goog-cc`, `remb`, `fixed`, `rrtcc-2013`, `gcc-2016`, `dynamic-alpha`, `fixed-alpha`, "
        "`scream`, `scream-rfc8298`, `nada`, `aimd`"
    )
    expected = f"congestion_control.name: unknown `aimed`; expected one of {known}\n"
    assert run(program, tmp_path / "config.json").stderr == expected
