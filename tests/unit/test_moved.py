"""Comparisons and gates name the cause that changed, or that a check fails for."""

from __future__ import annotations

import html
import json
from pathlib import Path
from typing import Any

import pytest

import rtclab
from rtclab import Results
from rtclab.cli import main

FLOW = "alice->bob"
UP = "participants.alice.link.up."
LOSS = {f"{UP}loss": {"mean": "8 %", "burst": 8}}


@pytest.fixture(scope="module")
def out(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("runs")


def call(out: Path, changes: dict[str, Any]) -> Results:
    return rtclab.run("first-call", set=changes, duration="30 s", repeats=1, out=out)


@pytest.fixture(scope="module")
def clean(out: Path) -> Results:
    return call(out, {})


@pytest.fixture(scope="module")
def lossy(out: Path) -> Results:
    return call(out, LOSS)


def share(made: Results, limit: str) -> float:
    """The part of the time in % in which a limit held."""
    rows = made.why(FLOW).table().filter(account="limit", what=limit)
    return float(rows["value"].sum())


def test_the_cause_that_moved_is_said_with_its_figures_of_both_runs(clean: Results, lossy: Results) -> None:
    compared = rtclab.compare(clean, lossy, labels=["before", "after"])
    moved = compared.moved()["after"]
    assert moved.flow == FLOW  # nothing was done to the other one
    figures = f"for {share(clean, 'loss'):.0f} % of the time before, {share(lossy, 'loss'):.0f} % now"
    assert "by losses (" in moved.sentence
    assert figures in moved.sentence
    frozen_s = lossy.why(FLOW).table().filter(account="stall", where="burst alice.up")["value"].sum()
    (freezes,) = [one for one in moved.moves if one.account == "stall"]
    assert freezes.what == "freezes that waited for packets lost in bursts on alice.up"
    active_s = lossy.why(FLOW).accounts[0].active_s
    assert (freezes.before, freezes.after) == (0, pytest.approx(60 * frozen_s / active_s))
    back = rtclab.compare(lossy, clean, labels=["before", "after"]).moved()["after"]
    assert {(one.what, one.after, one.before) for one in back.moves} == {
        (one.what, one.before, one.after) for one in moved.moves
    }


def test_nothing_moves_between_a_run_and_itself(clean: Results) -> None:
    sentence = rtclab.compare(clean, clean, labels=["a", "b"]).moved()["b"].sentence
    first, _, longest = sentence.partition(": ")
    assert first == "No cause moved much"
    shares = clean.why(FLOW).accounts[0].shares
    limit = clean.why(FLOW).accounts[0].limit_in_words(max(shares, key=shares.__getitem__))
    assert longest == f"alice → bob is limited mostly by {limit}, as before."


def test_runs_without_traces_do_not_tell_what_moved(clean: Results, out: Path) -> None:
    swept = rtclab.sweep("first-call", {"link.up.loss": ["0 %"]}, duration="30 s", repeats=1, out=out)
    (moved,) = rtclab.compare(clean, swept, labels=["a", "b"]).moved().values()
    assert moved.sentence == (
        f"Which cause moved is not known: {swept.name} has several conditions or no traces."
    )
    assert not moved.moves


def test_the_command_its_json_and_its_page_say_which_cause_moved(
    clean: Results, lossy: Results, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    sentence = rtclab.compare(clean, lossy).moved()[lossy.name].sentence
    page = tmp_path / "page.html"
    for options in (["--page", str(page)], ["--json"]):
        with pytest.raises(SystemExit):
            main(["compare", str(clean.path), str(lossy.path), "--metric", "rtt", *options])
        printed = capsys.readouterr().out
        if options == ["--json"]:
            answer = json.loads(printed)["moved"][lossy.name]
            assert (answer["flow"], answer["sentence"]) == (FLOW, sentence)
            assert {"account", "what", "before", "after"} == answer["moves"][0].keys()
        else:
            assert " ".join(sentence.split()) in " ".join(printed.split())
    assert f"<strong>Why:</strong> {sentence}</p>" in html.unescape(page.read_text())


def test_a_check_that_fails_names_the_cause_of_the_worst_flow(tmp_path: Path) -> None:
    loss = f'{{ "{UP}loss" = "8 %" }}'
    suite = tmp_path / "suite.toml"
    suite.write_text(
        'duration = "20 s"\nrepeats = 2\n'
        'limits = ["packet_loss < 1 %", "frame_rate > 1 frame/s", "tcp_rtt < 1 s"]\n'
        f'[scenarios.call]\nscenario = "first-call"\nset = {loss}\n'
    )
    result = rtclab.gate(suite, out=tmp_path, progress=False)
    causes = {(check.metric, check.flow): check.cause for check in result.checks}
    assert "at random on alice.up" in causes["packet_loss", FLOW]
    assert causes["packet_loss", FLOW].startswith("alice → bob: ")
    # What holds has no cause to look for, and what was not measured has none that is known.
    assert [key for key, cause in causes.items() if cause] == [("packet_loss", FLOW)]
    assert {check.verdict for check in result.checks} == {"broken", "holds", "not measured"}
    (broken,) = [sentence for sentence in result.sentences() if "packet_loss" in sentence]
    assert broken.endswith(f". Why: {causes['packet_loss', FLOW]}")
    assert not (tmp_path / "runs").exists()
