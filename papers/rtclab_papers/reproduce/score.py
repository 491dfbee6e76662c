"""The headline of a reproduction: the score over all distinct measurements, beside a null model's.

Publications print some measurements twice, and the same call under two names. Each counts once here.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from math import nan

from rtclab.scenario import Scenario
from rtclab_papers.reproduce.comparison import APART, ComparedCell, Comparison
from rtclab_papers.reproduce.measures import EQUATION, KINDS
from rtclab_papers.reproduce.published_cells import OVERALL, Verdict
from rtclab_papers.reproduce.variants import split

EVERYTHING = "everything"


@dataclass(frozen=True)
class KeptCount:
    """How many measurements are kept and undecided in our model, and kept in the null model."""

    within: int
    undecided: int
    null: int
    all: int

    @property
    def percent(self) -> float:
        """Share that is kept; NaN if there are no measurements."""
        return 100 * self.within / self.all if self.all else nan

    @property
    def null_percent(self) -> float:
        """Share that is kept in the null model; NaN if there are no measurements."""
        return 100 * self.null / self.all if self.all else nan


@dataclass(frozen=True)
class Score:
    """The measurements of a kind: all, the fitted ones, the ones that follow from the configuration (and were
    not fitted), and all others, which test the model."""

    kind: str
    all: KeptCount
    fitted: KeptCount
    follows: KeptCount
    tests: KeptCount


def scores(comparisons: Sequence[Comparison]) -> list[Score]:
    """The score of each kind of measurement, and of everything that was simulated.

    Numbers that follow from an equation have a score of their own, after everything else.
    """
    all_ = list(distinct(comparisons))
    found = [one for one in all_ if one.cell.kind != EQUATION]
    equations = [one for one in all_ if one.cell.kind == EQUATION]
    of_kinds = [(kind, [one for one in found if one.cell.kind == kind]) for kind in KINDS]
    return [_score(kind, of) for kind, of in (*of_kinds, (EVERYTHING, found), (EQUATION, equations)) if of]


def distinct(comparisons: Sequence[Comparison]) -> Iterator[ComparedCell]:
    """Each measurement once: over all machines if a publication prints that, else of each machine.

    Of two publications with the same measurement, the first one that can be compared counts.
    """
    cells = [one for of in comparisons for one in of.cells]
    names: dict[str, str] = {}

    def key(one: ComparedCell) -> tuple[str, str]:
        cell = one.cell
        if not cell.scenario:
            return f"{cell.table} {cell.row} {cell.column}", cell.metric
        name = names.setdefault(_simulated(cell.scenario), cell.scenario)
        return name.partition("/")[2], cell.metric

    over_all = {key(one) for one in cells if one.cell.machine == OVERALL}
    seen = set()
    for one in cells:
        machine = one.cell.machine
        if one.verdict in APART or (machine != OVERALL and key(one) in over_all):
            continue
        whole = (*key(one), machine)
        if whole not in seen:
            seen.add(whole)
            yield one


@cache
def _simulated(scenario: str) -> str:
    """The simulated scenario, which is the same for two names of one call."""
    shipped, variants = split(scenario)
    return json.dumps([Scenario.load(shipped).native(seed=0), variants])


def _score(kind: str, found: Sequence[ComparedCell]) -> Score:
    fitted = [one for one in found if one.is_fitted]
    follows = [one for one in found if one.follows and not one.is_fitted]
    tests = [one for one in found if not one.follows and not one.is_fitted]
    return Score(kind, *map(_tally, (found, fitted, follows, tests)))


def _tally(found: Sequence[ComparedCell]) -> KeptCount:
    verdicts = [one.verdict for one in found]
    null = sum(one.null_is_within for one in found)
    return KeptCount(verdicts.count(Verdict.KEPT), verdicts.count(Verdict.UNDECIDED), null, len(found))
