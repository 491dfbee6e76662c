"""Progress bars and spinners, shown only if standard error is a terminal, or in a notebook."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from typing import TYPE_CHECKING

from rtclab.terminal import below, visible

if TYPE_CHECKING:
    from rich.console import Console

__all__ = [
    "Advance",
    "busy",
    "progress",
]

SPEED_OVER_S = 3600.0
"""Length of the past from which the remaining time is estimated. Live calls advance a bar once a minute."""

Advance = Callable[[int], None]
"""Advances a progress bar by a number of steps."""


@contextmanager
def progress(
    title: str, total: int, unit: str, *, show: bool = True, remaining: bool = False
) -> Iterator[Advance]:
    """Shows a progress bar up to ``total``; yields the function that advances it.

    With ``remaining`` it also shows how much longer it takes, if further steps take as long as those before.
    """
    if not (show and total and _visible()):
        yield lambda steps: None
        return
    from rich import progress as bars

    columns: list[bars.ProgressColumn] = [
        bars.SpinnerColumn(),
        bars.TextColumn("{task.description}", markup=False),
        bars.BarColumn(),
        bars.MofNCompleteColumn(),
        bars.TextColumn(unit),
        bars.TimeElapsedColumn(),
    ]
    if remaining:
        columns += [bars.TextColumn("remaining"), bars.TimeRemainingColumn()]
    with bars.Progress(
        *columns, console=_console(), transient=True, speed_estimate_period=SPEED_OVER_S
    ) as bar:
        task = bar.add_task(visible(title), total=total)
        yield lambda steps: bar.advance(task, steps)


@contextmanager
def busy(doing: str) -> Iterator[None]:
    """Shows a spinner for work of unknown length, on a terminal only."""
    if not sys.stderr.isatty():
        yield
        return
    with _console().status(doing):
        yield


def _visible() -> bool:
    if sys.stderr.isatty():
        return True
    # A notebook's kernel has IPython loaded; rich shows a bar there with ipywidgets, and a warning without.
    return "IPython" in sys.modules and find_spec("ipywidgets") is not None and _console().is_jupyter


def _console() -> Console:
    from rich.console import Console

    return Console(file=below(sys.stderr))
