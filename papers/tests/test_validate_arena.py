"""The page that compares all built-in congestion controls, and its values."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from rtclab._native import CONGESTION_CONTROLS
from rtclab.arenas.findings import FEWEST_CASES, rankings, recommendations
from rtclab.arenas.values import CRITERIA, Values
from rtclab.errors import BadInput
from rtclab.metrics.statistics import means_of_known
from rtclab_papers.validate import arena

DOCS = Path(__file__).parents[2] / "docs"
PAGE, ROWS = DOCS / "arena.md", DOCS / "data" / "arena.csv"


@pytest.fixture(scope="module")
def found() -> dict[str, Values]:
    return arena.read(ROWS)[0]


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


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="validate arena"):
        arena.read(tmp_path / "arena.csv")
