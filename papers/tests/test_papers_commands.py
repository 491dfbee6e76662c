"""The commands of the papers at the command line of rtclab, and their conditions in its list of scenarios."""

from __future__ import annotations

import subprocess
import sys

import pytest
import typer

from rtclab.cli import main
from rtclab.scenario import shipped
from rtclab_papers.commands import NEW_FORMS, validate_app
from rtclab_papers.commands.validating import COMPARISONS
from rtclab_papers.reproduce import NAMES, paper
from rtclab_papers.scenarios import PAPERS


def rtclab(*arguments: str) -> str:
    command = [sys.executable, "-m", "rtclab", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def refused(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> str:
    """What a command that is refused says."""
    with pytest.raises(SystemExit) as ended:
        main(["validate", *arguments])
    assert ended.value.code == 2
    out, err = capsys.readouterr()
    assert out == ""
    return err


@pytest.mark.parametrize("option", NEW_FORMS)
@pytest.mark.parametrize("form", ["{}", "{}=2"])
def test_each_option_of_the_earlier_command_is_refused_with_the_new_form(
    option: str, form: str, capsys: pytest.CaptureFixture[str]
) -> None:
    said = refused([form.format(option), "2"], capsys)
    assert said.startswith(f"{option}: each comparison is a command of its own\n")
    assert f"hint: write `rtclab validate {NEW_FORMS[option]}`" in said


def test_every_comparison_is_a_command_and_every_new_form_names_one() -> None:
    commands = typer.main.get_command(validate_app).commands  # type: ignore[attr-defined]
    assert commands.keys() == COMPARISONS.keys()
    names = {form.split()[0] for form in NEW_FORMS.values()} - {"COMPARISON"}
    assert names == COMPARISONS.keys() - {"why", "field-reports"}  # which the earlier command did not have


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["tcp", "--keep-live"], "--keep-live"),
        (["marks", "--repeats", "2"], "--repeats"),
        (["l4s", "--seed", "2"], "--seed"),
        (["random"], "NUMBER"),
        (["elsewhere"], "elsewhere"),
    ],
)
def test_a_comparison_has_its_own_options_alone(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert message in refused(arguments, capsys)


@pytest.mark.parametrize("command", ["reproduce", "validate"])
def test_the_help_of_every_command_has_an_example(command: str) -> None:
    assert f"Example: rtclab {command}" in rtclab(command, "--help")


def test_the_list_of_scenarios_counts_the_conditions_of_papers() -> None:
    listed = rtclab("list")
    names = [line.split()[0] for line in listed.splitlines() if line.strip()]
    assert "sim-vs-live/500kbit" in names
    assert not [name for name in names if name.startswith("iqbal/")]
    conditions = [name for name in shipped() if name.startswith("iqbal/")]
    assert f"  iqbal: {len(conditions)}, " in listed
    of_paper = rtclab("list", "iqbal")
    assert [name for name in conditions if f"\n{name} " not in of_paper] == []
    assert "first-call" not in of_paper


def test_the_list_of_scenarios_names_every_paper_with_its_title() -> None:
    assert {name: paper(name).title for name in NAMES} == PAPERS


def test_show_gives_the_pictures_that_a_phone_sends_and_not_the_ones_it_is_given() -> None:
    # 1280x720 within 640x480, and libwebrtc's highest rate of such a picture.
    shown = rtclab("show", "jansen2017/wireless-oregon-far")
    assert "640x360 30 frame/s, at most 1.7 Mbit/s (android-2016)" in shown
    assert shown.count("1280x720 50 frame/s, at most 2.5 Mbit/s") == 1
