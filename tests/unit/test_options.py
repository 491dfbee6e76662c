"""No option is ignored: alone it changes something, or it is refused and its partner is named."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer
from command_line import Rtclab

from rtclab import lab
from rtclab.cli.app import app
from rtclab.cli.commands import OLD_OPTIONS
from rtclab.errors import BadInput


def commands(command: Any, *names: str) -> Iterator[tuple[str, Any]]:
    """All commands below a command, with their names: ``run``, ``scenario from``, those of the papers."""
    if not hasattr(command, "list_commands"):
        yield " ".join(names), command
        return
    context = command.make_context("rtclab", [*names, "x"], resilient_parsing=True)
    for name in command.list_commands(context):
        yield from commands(command.get_command(context, name), *names, name)


OPTIONS = {
    (name, option.opts[0])
    for name, command in commands(typer.main.get_command(app))
    for option in command.params
    if option.param_type_name == "option"
}
"""Every option of every command, by its first name."""

EVERYWHERE = {
    "--json": "another form of the output",
    "--csv": "another form of the output",
    "--quiet": "another form of the output",
    "--all": "more is printed",
    "--metric": "other metrics are printed, measured or drawn",
    "--out": "another directory",
    "--page": "a page is written there",
    "--no-report": "no page is written",
    "--trust": "an answer to a question that is asked only of scenarios from elsewhere",
    "--jobs": "another speed",
    "--repeats": "another number of repeats",
    "--seed": "other random numbers, if something is random",
    "--backend": "another backend",
    "--set": "another scenario",
    "--control": "another control",
    "--duration": "another duration",
    "--from": "another time",
    "--to": "another time",
    "--assert": "a limit is checked",
    "--where": "a part of a sweep; refused for a run",
    "--flow": "other flows are shown, drawn or taken",
    "--names": "other names",
    "--sdp": "names of codecs; refused for logs",
    "--plot": "a plot is written",
    "--traces": "traces are kept",
    "--resume": "an earlier run goes on",
}
"""Options that change something in every command that has them, unless they are refused below."""

OWN = {
    ("list", "--controls"): "another list",
    ("run", "--record"): "another amount is recorded",
    ("run", "--capture"): "captures are written",
    ("run", "--watch"): "a page is served",
    ("run", "--invite"): "a browser is waited for",
    ("sweep", "--vary"): "other conditions",
    ("gate", "--junit"): "a file is written",
    ("gate", "--markdown"): "a file is written",
    ("arena", "--suite"): "other cases",
    ("schema", "--fields"): "another form of the schema",
    ("measure", "--by"): "means over the other fields; refused for a run",
    ("remedy", "--changes"): "further changes are tried",
    ("remedy", "--for"): "another rank",
    ("report", "--plots"): "files are written",
    ("report", "--x"): "another axis; refused for a run",
    ("report", "--by"): "other lines; refused for a run",
    ("report", "--average"): "means over a field; refused for a run",
    ("watch", "--port"): "another port",
    ("delete", "--yes"): "nothing is asked",
    ("compare", "--label"): "other names",
    ("compare", "--by"): "the conditions of one sweep are compared; refused for two",
    ("compare", "--hypothesis"): "a metric is tested alone",
    ("compare", "--unpaired"): "other intervals; live repeats are never paired",
    ("replay", "--start"): "another rate at the start",
    ("replay", "--min"): "another lower bound",
    ("replay", "--max"): "another upper bound",
    ("link", "--up"): "another path",
    ("link", "--down"): "another path",
    ("link", "--server"): "a server runs",
    ("link", "--pcap"): "a capture is written",
    ("monitor", "--live"): "an interface is monitored",
    ("monitor", "--max-streams"): "another limit",
    ("monitor", "--parquet"): "files are written",
    ("scenario from", "--toml"): "another file is written",
    ("scenario from", "--simulations"): "another number of simulations on the page",
    ("reproduce", "--papers"): "the papers are listed",
    ("reproduce", "--every-reading"): "more conditions run",
    ("validate random", "--half"): "fewer conditions",
    ("validate why", "--half"): "other calls",
    ("validate why", "--live"): "live calls are made",
    **{
        (f"validate {name}", "--keep-live"): "no calls are made"
        for name in (
            "scenarios",
            "random",
            "again",
            "recorded",
            "meetings",
            "kinds",
            "marks",
            "l4s",
            "arena",
            "why",
        )
    },
}
"""Options of one command that change something without another option."""

LOG = str(Path(__file__).parent / "event_logs" / "event-log-alice-bob.log")
REFUSED = {
    ("run", "--renew"): ("run first-call --renew", "renew: expected `resume` with it"),
    ("run", "--watch-port"): ("run first-call --watch-port 0", "--watch-port: expected --watch with it"),
    ("run", "--invite-wait"): (
        "run first-call --invite-wait 1s",
        "invite_wait: expected `invite` with it",
    ),
    ("sweep", "--renew"): ("sweep first-call --renew", "renew: expected `resume` with it"),
    ("gate", "--update-baseline"): ("gate x.toml --update-baseline", "expected both or neither"),
    ("gate", "--reason"): ("gate x.toml --reason why", "expected both or neither"),
    ("report", "--format"): ("report RUN --format pdf", "--format: expected --plots with it"),
    ("import", "--corrected"): (f"import {LOG} --corrected", "only clocks of two captures are corrected"),
    ("monitor", "--duration"): ("monitor x.pcap --duration 1s", "expected --live with it"),
    ("scenario from", "--same-clock"): (f"scenario from {LOG} --same-clock", "expected two captures"),
    ("scenario from", "--repeat"): (f"scenario from {LOG} --repeat 1", "repeat: it is for runs"),
    ("reproduce", "--keep-live"): ("reproduce all --keep-live", "need --backend live"),
    ("reproduce", "--page-only"): ("reproduce all --page-only", "need --backend live"),
    ("reproduce", "--retry-failed"): ("reproduce all --retry-failed", "need --backend live"),
}
"""Options that mean nothing alone: a command that has one, and what it says."""

TOGETHER = [
    ("run first-call -q --json", "--quiet and --json: expected one of them"),
    ("run first-call -q --all", "--quiet and --all: expected one of them"),
    ("sweep first-call -q --json", "--quiet and --json: expected one of them"),
    ("run --resume RUN --capture", "expected no `capture` with `resume`"),
    ("run --resume RUN --duration 3s", "resume: a run goes on as it began"),
    ("sweep --resume RUN --traces", "expected no `traces` with `resume`"),
    ("measure RUN --json --csv", "--json and --csv: expected one of them"),
    ("compare RUN RUN --json --csv", "--json and --csv: expected one of them"),
    ("runs --json --csv", "--json and --csv: expected one of them"),
    ("list examples --controls", "--controls takes no folders"),
    ("list --json --csv", "--json and --csv: expected one of them"),
    ("gate x.toml -q --csv", "--quiet and --csv: expected one of them"),
    ("export RUN values.csv --json", "--json: expected no FILE"),
    ("measure RUN --where link.up.loss=1", "where: `link.up.loss` is not varied"),
    ("measure RUN --by link.up.loss", "by: `link.up.loss` is not varied"),
    ("report RUN --x link.up.loss", "--flow chooses what is drawn, and the other options are for sweeps"),
    ("scenario from RUN --same-clock", "same_clock: it is for captures and logs"),
    ("scenario from RUN --names a,b", "names: it is for captures and logs"),
    (f"scenario from {LOG} --no-report --simulations 1", "expected neither --page nor --simulations"),
    (f"scenario from {LOG} --no-report --page x.html", "expected neither --page nor --simulations"),
    ("reproduce all --backend live --every-reading", "--every-reading is for --backend sim"),
]
"""Options that contradict each other, and what the command says."""


def said(rtclab: Rtclab, command: str) -> str:
    """What a refused command says, which has the run ``RUN`` to work on."""
    run = lab.run("first-call", duration="3 s", repeats=1, progress=False)
    result = rtclab(*(str(run.path) if word == "RUN" else word for word in command.split()))
    assert (result.status, result.out) == (2, "")
    return result.err


@pytest.mark.parametrize("option", sorted(REFUSED), ids=" ".join)
def test_an_option_without_its_partner_is_refused(rtclab: Rtclab, option: tuple[str, str]) -> None:
    command, message = REFUSED[option]
    assert message in said(rtclab, command)


@pytest.mark.parametrize(("command", "message"), TOGETHER)
def test_options_that_contradict_each_other_are_refused(rtclab: Rtclab, command: str, message: str) -> None:
    assert message in said(rtclab, command)


def test_every_option_of_every_command_was_thought_of() -> None:
    known = {*OWN, *REFUSED}
    assert known <= OPTIONS
    assert {(name, option) for name, option in OPTIONS - known if option not in EVERYWHERE} == set()
    assert EVERYWHERE.keys() <= {option for _, option in OPTIONS - known}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"renew": True}, "renew: expected `resume` with it"),
        ({"invite_wait": "1 s"}, "invite_wait: expected `invite` with it"),
        ({"resume": "latest", "capture": True}, "and no `capture` with `resume`"),
    ],
)
def test_python_refuses_what_the_command_refuses(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(BadInput, match=message):
        lab.run("first-call", **arguments)


@pytest.mark.parametrize("arguments", [{"x": "a"}, {"by": "a"}, {"average": "a"}])
def test_a_plot_over_time_refuses_what_is_for_sweeps(tmp_path: Path, arguments: dict[str, str]) -> None:
    run = lab.run("first-call", duration="3 s", repeats=1, out=tmp_path, progress=False)
    with pytest.raises(BadInput, match="x, by and average are for metrics of sweeps"):
        run.plot("rate", **arguments)  # type: ignore[arg-type]


@pytest.mark.parametrize(("command", "option"), OLD_OPTIONS, ids=" ".join)
def test_an_option_of_an_earlier_version_says_what_to_write_now(
    rtclab: Rtclab, command: str, option: str
) -> None:
    whole = next(name for name, _ in OPTIONS if name.split()[-1] == command)
    for given in ([option, "x"], [f"{option}=x"]):
        refused = rtclab(*whole.split(), "first-call", *given)
        hint = OLD_OPTIONS[command, option]
        assert refused == (2, "", f"{option}: an option of an earlier version\n  hint: {hint}\n")
    assert (whole, option) not in OPTIONS
    for now in re.findall("--[a-z-]+", hint):
        assert (whole, now) in OPTIONS


def test_the_help_shows_no_type_of_flags_and_arguments(rtclab: Rtclab) -> None:
    for name in {"", *(name for name, _ in OPTIONS)} - {"reproduce", "validate"}:
        told = rtclab(*name.split(), "--help").out
        assert "<bool>" not in told, name
        assert "<list" not in told, name
