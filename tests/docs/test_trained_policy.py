"""The example that trains a policy does what it says, and docs/gym.md has the table of its rows."""

from __future__ import annotations

import runpy
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "examples" / "train-a-policy.py"
PAGE = ROOT / "docs" / "gym.md"
ROWS = ROOT / "docs" / "data" / "gym-policy.csv"


@pytest.fixture(scope="module")
def example() -> dict[str, Any]:
    """The names in the example."""
    return runpy.run_path(str(EXAMPLE))


def trained(out: Path) -> str:
    """Runs the example with little work, and returns what it prints."""
    little = ["--generations", "2", "--networks", "2", "--repeats", "1", "--out", str(out)]
    done = subprocess.run([sys.executable, EXAMPLE, *little], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_example_runs_and_gives_the_same_every_time(tmp_path: Path, example: dict[str, Any]) -> None:
    first, _ = (trained(tmp_path / name) for name in ("first", "second"))
    for name in ("weights.npy", "calls.csv"):
        assert (tmp_path / "first" / name).read_bytes() == (tmp_path / "second" / name).read_bytes()
    weights = np.load(tmp_path / "first" / "weights.npy")
    assert weights.shape == (example["WEIGHTS"],)
    assert example["WEIGHTS"] < 200
    rows = pl.read_csv(tmp_path / "first" / "calls.csv")
    assert rows.columns == ["networks", "repeat", "control", *example["METRICS"], "score"]
    assert rows.height == len(example["HELD_OUT"]) * len(example["CONTROLS"])
    for name in example["HELD_OUT"]:
        assert f"| {name} " in first


def test_the_page_has_the_table_of_the_kept_rows(example: dict[str, Any]) -> None:
    rows = pl.read_csv(ROWS)
    assert rows.group_by("networks", "control").len()["len"].unique().to_list() == [20]
    assert example["as_text"](example["table"](rows)) in PAGE.read_text()


def test_the_page_says_of_the_policy_what_the_table_has(example: dict[str, Any]) -> None:
    """Near goog-cc and far better than fixed where it was trained; no use on links with short queues."""
    by = {row["networks"]: row for row in example["table"](pl.read_csv(ROWS)).iter_rows(named=True)}
    for name in ("as in training", "long queue, 1 to 3 s", "random loss, 2 to 5 %"):
        assert by[name]["verdict"] == "near goog-cc"
        assert by[name]["fixed"] + 5 < by[name]["policy"]
    faster = by["faster, 4 to 8 Mbit/s"]
    assert max(faster[name] for name in ("policy", "fixed", "goog-cc")) - faster["fixed"] < 0.15
    slower, longer = by["slower, 100 to 250 kbit/s"], by["longer, 120 to 300 ms one way"]
    assert slower["verdict"] == longer["verdict"] == "worse than goog-cc"
    assert slower["high"] < longer["low"]
    assert by["short queue, 20 to 50 ms"]["verdict"] == "worse than both"
    assert by["beside a TCP download"]["verdict"] == "undecided"
