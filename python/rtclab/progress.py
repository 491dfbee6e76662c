"""What shows that something is going on: on a terminal's standard error, or in a notebook; nowhere else."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console

Advance = Callable[[int], None]
"""Moves a bar on by so many steps."""


@contextmanager
def progress(title: str, total: int, unit: str, *, show: bool = True) -> Iterator[Advance]:
    """A bar that counts to ``total``; yields the function that moves it on."""
    if not (show and total and _visible()):
        yield lambda steps: None
        return
    from rich import progress as bars

    columns = (
        bars.SpinnerColumn(),
        bars.TextColumn("{task.description}"),
        bars.BarColumn(),
        bars.MofNCompleteColumn(),
        bars.TextColumn(unit),
        bars.TimeElapsedColumn(),
    )
    with bars.Progress(*columns, console=_console(), transient=True) as bar:
        task = bar.add_task(title, total=total)
        yield lambda steps: bar.advance(task, steps)


@contextmanager
def busy(doing: str) -> Iterator[None]:
    """A spinner for work of unknown length; on a terminal only."""
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

    return Console(stderr=True)
