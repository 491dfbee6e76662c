"""``rtclab validate``: compares the simulation with real browsers, or simulated TCP with the kernel's."""

from __future__ import annotations

import sys
from dataclasses import asdict
from pathlib import Path

import typer

from rtclab.cli import tables


def validate_and_show(
    out: Path | None, runs: Path, repeats: int | None, *, keep_live: bool, tcp: bool, as_json: bool
) -> None:
    """Runs the comparison, writes its page, and prints the path of the page or all numbers as JSON."""
    if tcp:
        from rtclab.validate.tcp import DURATION_S, write_tcp_validation

        page = out or Path("docs/tcp-vs-kernel.md")
        compared = write_tcp_validation(page, duration_s=DURATION_S, say=_say)
        numbers: list[dict[str, object]] = [asdict(one) for one in compared]
    else:
        from rtclab.validate import write_validation

        page = out or Path("docs/sim-vs-live.md")
        pairs = write_validation(page, runs=runs, repeats=repeats, keep_live=keep_live, say=_say)
        numbers = [pair.as_dict() for pair in pairs]
    if as_json:
        tables.print_json({"page": str(page), "compared": numbers})
    else:
        print(page)


def validate_random_and_show(
    out: Path | None, runs: Path, seeds: list[int], *, keep_live: bool, as_json: bool
) -> None:
    """Compares random conditions, writes their rows and page, and prints the page's path or all as JSON.

    With ``keep_live`` conditions without a live run are left out instead of run.
    """
    from rtclab.validate.twin import outcomes
    from rtclab.validate.twin_page import figures, write_twin

    page = out or Path("docs/twin.md")
    data = page.parent / "data"
    folder = runs / "twin"
    found = outcomes(seeds, data / f"{page.stem}.csv", folder, run_missing=not keep_live, say=_say)
    write_twin(page, found, data / f"{page.stem}-reasons.csv")
    if as_json:
        pairs = [asdict(pair) for one in found for pair in one.pairs]
        tables.print_json({"page": str(page), "figures": dict(figures(found)), "compared": pairs})
    else:
        print(page)


def _say(text: str) -> None:
    typer.echo(text, err=True)
    sys.stderr.flush()
