"""``rtclab list``: the shipped scenarios by folder, and the congestion controls with their options."""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

from rtclab._native import CONGESTION_CONTROL_OPTIONS, CONGESTION_CONTROL_SUMMARIES
from rtclab.cli import tables
from rtclab.errors import BadInput
from rtclab.lab import list_scenarios as shipped_scenarios
from rtclab.plugins import papers
from rtclab.scenario.table import closest

EXAMPLES = "examples"


def list_scenarios(folders: Sequence[str], *, controls: bool, as_csv: bool, as_json: bool) -> None:
    """Prints the scenarios of some folders or, without any, all but the papers'; or the controls.

    Raises:
        BadInput: there is no such folder.
    """
    if controls:
        if folders:
            raise BadInput("--controls takes no folders")
        _list_controls(as_csv=as_csv, as_json=as_json)
        return
    scenarios = shipped_scenarios().with_columns(folder=pl.col("name").str.extract("^(.+)/", 1).fill_null(""))
    known = [folder for folder in scenarios["folder"].unique(maintain_order=True) if folder]
    wrong = [folder for folder in folders if folder not in known]
    if wrong:
        raise BadInput(
            f"no folder `{wrong[0]}` of scenarios; expected {', '.join(known)}", hint=closest(wrong[0], known)
        )
    if folders:
        scenarios = scenarios.filter(pl.col("folder").is_in(folders))
    if tables.print_rows(scenarios.drop("folder"), as_csv=as_csv, as_json=as_json):
        return
    shown = scenarios if folders else scenarios.filter(~pl.col("folder").is_in(papers()))
    # Scenarios without a folder, then the examples, then the other folders in their order.
    rank = pl.when(folder="").then(0).when(folder=EXAMPLES).then(1).otherwise(2)
    _print(shown.sort(rank, maintain_order=True))
    if not folders and papers():
        counts = dict(scenarios.group_by("folder").len().iter_rows())
        print("conditions of published papers; each is a scenario too:")
        for name, title in papers().items():
            tables.print_text(f"{name}: {counts[name]}, {title}", indent=2, hanging=2)
        print(f"`rtclab list {next(iter(papers()))}` lists one paper's")


def _print(scenarios: pl.DataFrame) -> None:
    """A table of names and titles, with a rule between folders."""
    table = tables.new_table(*tables.whole("scenario"), "title")
    previous = ""
    for name, title, folder in scenarios.select("name", "title", "folder").iter_rows():
        if folder != previous:
            table.add_section()
        previous = folder
        table.add_row(name, title)
    tables.print_table(table)


def _list_controls(*, as_csv: bool, as_json: bool) -> None:
    """Prints each congestion control with what it is, and its options with their bounds."""
    if as_csv:
        columns = ("control", "option", "meaning", "least", "most")
        options = pl.DataFrame(CONGESTION_CONTROL_OPTIONS, columns, orient="row")
        about = pl.DataFrame(CONGESTION_CONTROL_SUMMARIES, ("control", "summary"), orient="row")
        tables.print_rows(about.join(options, on="control", how="left"), as_csv=True)
        return
    controls = [
        {
            "name": name,
            "summary": summary,
            "options": [
                {"name": option, "meaning": meaning, "least": least, "most": most}
                for control, option, meaning, least, most in CONGESTION_CONTROL_OPTIONS
                if control == name
            ],
        }
        for name, summary in CONGESTION_CONTROL_SUMMARIES
    ]
    if as_json:
        tables.print_json(controls)
        return
    for name, summary in CONGESTION_CONTROL_SUMMARIES:
        tables.print_text(f"{name}: {summary}", hanging=2)
        for control, option, meaning, least, most in CONGESTION_CONTROL_OPTIONS:
            if control == name:
                tables.print_text(f"{option} ({least:g} to {most:g}): {meaning}", indent=2, hanging=4)
    print()
    tables.print_text("an option is set with `--set congestion_control.options.NAME=VALUE`")
