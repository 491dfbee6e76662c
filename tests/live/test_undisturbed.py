"""Disturbed measurements are never used as results."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import nullcontext

import pytest
from live_tests import TRIES, undisturbed


def measurements() -> Iterator[int]:
    yield from range(1, TRIES + 1)


def test_the_first_undisturbed_measurement_is_used() -> None:
    each = measurements()
    assert undisturbed(lambda: next(each), lambda number: number < TRIES, nullcontext) == TRIES
    assert list(each) == []


@pytest.mark.parametrize(("ci", "outcome"), [("", pytest.skip.Exception), ("1", pytest.fail.Exception)])
def test_if_all_measurements_are_disturbed_the_test_is_skipped_or_fails_in_ci(
    monkeypatch: pytest.MonkeyPatch, ci: str, outcome: type[BaseException]
) -> None:
    monkeypatch.setenv("CI", ci)
    each = measurements()
    with pytest.raises(outcome, match=f"disturbed each of {TRIES} measurements"):
        undisturbed(lambda: next(each), lambda number: True, nullcontext)
    assert list(each) == []
