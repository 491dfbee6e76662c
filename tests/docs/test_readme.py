"""What the README points at exists, its scenario means what it says, and its figures are this version's.

test_examples runs its examples, but does not compare figures.
"""

from __future__ import annotations

import re
from pathlib import Path

import polars as pl
import pytest
import typer

import rtclab
from rtclab.arenas.controls import default_controls
from rtclab.cli.app import app
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


LINK = re.compile(r"\]\(([^)#]+)#?([^)]*)\)")
FRONT = ("README.md", "CHANGELOG.md", "CONTRIBUTING.md")


@pytest.mark.parametrize("page", FRONT)
def test_files_and_sections_that_a_page_points_at_exist(page: str) -> None:
    for target, section in LINK.findall((ROOT / page).read_text(encoding="utf-8")):
        if target.startswith("https://"):
            continue
        assert (ROOT / target).exists(), target
        if section:
            headings = re.findall(r"^#+ (.*)$", (ROOT / target).read_text(encoding="utf-8"), re.MULTILINE)
            assert section in {heading.lower().replace(" ", "-") for heading in headings}, section


@pytest.mark.parametrize("page", FRONT)
def test_commands_that_a_page_names_exist(page: str) -> None:
    named = re.findall(r"[`$] ?rtclab (\w[\w-]*)", (ROOT / page).read_text(encoding="utf-8"))
    group = typer.main.get_command(app)
    assert named
    assert set(named) <= {*group.list_commands(typer.Context(group))}


def test_the_changelog_names_every_congestion_control_of_2026() -> None:
    text = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    assert {*default_controls()} <= set(re.findall(r"[\w-]+", text))


COMPARED = {
    "receiving rate": "receiving_rate",
    "round-trip time": "rtt",
    "95th percentile of the queuing delay": "queuing_delay_p95",
    "number of freezes (W3C)": "freeze_count_w3c",
}
"""The metrics of the table about random networks, by their words."""
HELD_OUT = "151-200"


def test_the_errors_that_the_readme_states_are_those_of_the_random_networks_held_out() -> None:
    head, _, errors, by_chance = re.findall(r"^\|.*\|$", README, re.MULTILINE)[:4]
    words = [word.strip() for word in head.split("|")[2:-1]]
    assert words == [*COMPARED]
    conditions = pl.read_csv(ROOT / "docs" / "data" / "twin.csv").filter(group=HELD_OUT)
    assert f"[{conditions.height} random networks](docs/twin.md)" in README
    values = pl.read_csv(ROOT / "docs" / "data" / "twin-values.csv").join(conditions, on="name", how="semi")
    chance = pl.read_csv(ROOT / "docs" / "data" / "twin-chance.csv").filter(group=HELD_OUT)
    error = (pl.col("simulated") - pl.col("live")).abs() / pl.col("live")
    for word, of, by in zip(words, _percent(errors), _percent(by_chance), strict=True):
        rows = values.filter(pl.col("live") > 0, metric=COMPARED[word]).drop_nulls()
        assert of == round(100 * rows.select(error.median()).item(), 1), word
        assert by == round(100 * chance.filter(metric=COMPARED[word])["error"].item(), 1), word


def _percent(row: str) -> list[float]:
    return [float(number) for number in re.findall(r"([\d.]+) %", row)]
