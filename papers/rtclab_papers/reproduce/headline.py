"""How much of a publication agrees, in a few sentences and one drawing, for the top of a page."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from rtclab.report import COLOURS, QUIET, Axes, Axis, Columns, Drawing, Style
from rtclab_papers.reproduce.estimate import Outcome
from rtclab_papers.reproduce.measures import EQUATION
from rtclab_papers.reproduce.score import EVERYTHING, KeptCount, Score

AGREEMENT = """\
A bar is the share of the measurements that test the model and are kept: the whole 95 % interval of
our mean is within the tolerance. The number of measurements stands beside each kind."""
"""What stands below the drawing."""
WIDTH = 0.35
"""Width of a bar; the places of two kinds are 1 apart."""


def result_words(scores: Sequence[Score], outcomes: Mapping[str, int]) -> list[str]:
    """At most five sentences on what agrees, against the null model, and what does not.

    Args:
        scores: the scores, one for each kind.
        outcomes: the number of statements with each outcome.
    """
    return [*_measurements(scores), *_statements(outcomes)]


def _measurements(scores: Sequence[Score]) -> Iterator[str]:
    known = {one.kind: one for one in scores}
    if total := known.get(EVERYTHING):
        every = total.all
        yield (
            f"Of {every.all} distinct measurements, our calls keep {_ours(every)}, and a null model\n"
            f"of a few constants keeps {_null(every)}."
        )
    if total and total.tests.all:
        tests = total.tests
        yield (
            f"Of the {tests.all} that test the model, which were neither fitted nor follow from the\n"
            f"configuration, our calls keep {_ours(tests)}, and the null model keeps {_null(tests)}."
        )
        kinds = [
            f"{kind} {one.tests.percent:.0f} % ({one.tests.null_percent:.0f} %)"
            for kind, one in known.items()
            if kind not in (EVERYTHING, EQUATION) and one.tests.all
        ]
        yield f"By kind, with the null model in parentheses: {', '.join(kinds)}."
    if EQUATION in known:
        equations = known[EQUATION].all
        yield (
            f"Of {equations.all} numbers that follow from a printed equation, our values keep\n"
            f"{_ours(equations)}, and the null model keeps {_null(equations)}."
        )


def _statements(outcomes: Mapping[str, int]) -> Iterator[str]:
    if count := sum(outcomes.values()):
        told = [f"{outcomes[one]} {one}" for one in Outcome if outcomes.get(one)]
        yield f"Of {count} statements: {', '.join(told)}."


def _ours(of: KeptCount) -> str:
    return f"{of.within} ({of.percent:.0f} %)"


def _null(of: KeptCount) -> str:
    return f"{of.null} ({of.null_percent:.0f} %)"


def drawing(scores: Sequence[Score], name: str) -> Drawing | None:
    """Our share and the null model's share that is kept, by kind; None without measurements that test it."""
    shown = [one for one in scores if one.tests.all]
    if not shown:
        return None
    places = np.arange(len(shown), dtype=np.float64)
    nothing = np.full(len(shown), np.nan)
    bars = [
        Columns(look, places + side * WIDTH / 2, WIDTH, np.array(shares), nothing, nothing)
        for look, side, shares in (
            (Style("our calls", COLOURS[0]), -1, [one.tests.percent for one in shown]),
            (Style("null model", QUIET), 1, [one.tests.null_percent for one in shown]),
        )
    ]
    title = "Measurements that test the model and are kept"
    x = Axis("", -0.5, len(shown) - 0.5, [f"{one.kind}, {one.tests.all}" for one in shown])
    return Drawing(name, title, title, x, Axis("kept (%)", 0, 100), [Axes("", bars)])
