"""The page that compares all built-in congestion controls, and its values."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from rtclab._native import CONGESTION_CONTROLS
from rtclab.arenas.findings import FEWEST_CASES, rankings, recommendations
from rtclab.arenas.values import CRITERIA, Values
from rtclab.errors import BadInput
from rtclab.metrics.statistics import means_of_known
from rtclab_papers.markdown import NOTES
from rtclab_papers.validate import arena

DOCS = Path(__file__).parents[2] / "docs"
PAGE, ROWS = DOCS / "arena.md", DOCS / "data" / "arena.csv"


@pytest.fixture(scope="module")
def found() -> dict[str, Values]:
    return arena.read(ROWS)[0]


def test_the_page_is_made_of_its_values(tmp_path: Path) -> None:
    page = tmp_path / "arena.md"
    arena.write_arena(page, *arena.read(ROWS), arena.read_live(ROWS))
    assert page.read_text().partition(NOTES)[0] == PAGE.read_text().partition(NOTES)[0]
    plots = {f"arena-{suite}.svg" for suite in arena.SUITES}
    assert {file.name for file in tmp_path.glob("*.svg")} == plots
    assert all(f"]({name})" in page.read_text() and (DOCS / name).is_file() for name in plots)


def test_every_control_has_every_case_and_repeat(found: dict[str, Values]) -> None:
    assert tuple(found) == arena.SUITES
    for values in found.values():
        assert values.controls == arena.CONTROLS
        assert sorted(values.controls) == sorted(CONGESTION_CONTROLS)
        expected = len(values.cases) * len(values.controls) * arena.REPEATS
        assert values.rows.height == expected
        seeds = values.rows.select("case", "repeat", "seed").unique()
        assert seeds.height == len(values.cases) * arena.REPEATS  # the same for all controls


def test_sentences_have_the_figures_of_the_values(found: dict[str, Values]) -> None:
    """Computed here once more, with other code, from the rows."""
    for suite, values in found.items():
        text = PAGE.read_text().partition(f"`{suite}`, {len(values.cases)} cases.")[2]
        for pick in recommendations(values):
            if pick.winner is None or pick.winner.second is None:
                continue
            own = values.rows.filter(values.rows["case"].is_in([case.name for case in pick.cases]))
            means = {
                control: float(
                    np.mean([rows[pick.use.value].mean() for _, rows in part.group_by("case")])  # type: ignore[arg-type]
                )
                for (control,), part in own.group_by("control")
            }
            first, second = (values.controls[one] for one in (pick.winner.control, pick.winner.second))
            sign = 1 if CRITERIA[pick.use.value].better == "higher" else -1
            candidates = {name: sign * mean for name, mean in means.items() if name != "fixed"}
            assert first == max(candidates, key=lambda name: candidates[name])
            margin = candidates[first] - candidates[second]
            sentence = rf"{first} with ([\d.]+) % is ([\d.]+) percentage points better than {second} "
            told = re.search(rf"\| {pick.use.when} \|.*?{sentence}", text)
            assert told is not None
            assert [float(told[1]), float(told[2])] == pytest.approx([means[first], margin], rel=2e-3)
            certain = len(pick.cases) >= FEWEST_CASES and pick.winner.low > 0
            assert (f"| **{first}** |" if certain else "None: ") in text
        for value, one in rankings(values):
            known, cases = values.of(value.name)
            assert one.cases == len(cases)
            assert means_of_known(known).shape == (len(values.controls), len(cases))


def test_an_intervals_ends_are_around_its_mean(found: dict[str, Values]) -> None:
    ends = re.findall(r"(\d+\.\d) \[(\d+\.\d),\xa0(\d+\.\d)\]", PAGE.read_text())
    assert len(ends) > 100
    assert all(1 <= float(low) <= float(mean) <= float(high) <= 10 for mean, low, high in ends)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="validate arena"):
        arena.read(tmp_path / "arena.csv")


def test_live_calls_are_compared_with_the_repeats_of_their_case() -> None:
    """Of a live value at each simulated value, all are alike; one far off is outside."""
    simulated = arena.read(ROWS)[0]["access"]
    own = simulated.rows.filter(
        simulated.rows["case"].is_in(arena.LIVE_CASES), simulated.rows["control"].is_in(arena.LIVE_CONTROLS)
    )
    cases = tuple(case for case in simulated.cases if case.name in arena.LIVE_CASES)
    assert len(cases) == len(arena.LIVE_CASES) == 20
    numbers = pl.selectors.by_name(arena.COLUMNS)
    means = own.group_by("case", "control", maintain_order=True).agg(numbers.mean(), repeat=0)
    same = Values(cases, arena.LIVE_CONTROLS, means)
    for one in arena.agreements(simulated, same):
        assert (one.calls, one.inside, one.same) == (40, 40, one.cases)
        assert one.difference == pytest.approx(0, abs=1e-9)
    off = same.rows.with_columns(rate_attained=pl.col("rate_attained") + 100)
    far = arena.agreements(simulated, Values(cases, arena.LIVE_CONTROLS, off))[0]
    assert (far.value.name, far.inside) == ("rate_attained", 0)
    assert far.difference == pytest.approx(100)
