"""The commands of the papers at the command line of rtclab, and their conditions in its list of scenarios."""

from __future__ import annotations

import subprocess
import sys

import pytest

from rtclab.cli import main
from rtclab.scenario import shipped
from rtclab_papers.reproduce import NAMES, paper
from rtclab_papers.scenarios import PAPERS


def rtclab(*arguments: str) -> str:
    command = [sys.executable, "-m", "rtclab", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--tcp", "--repeats", "2"], "--tcp has its own number of repeats, so it does not take --repeats"),
        (["--tcp", "--keep-live"], "--tcp makes no calls, so it does not take --keep-live"),
        (["--again", "41", "--random", "2"], "--random and --again are different comparisons"),
        (
            ["--meetings", "--random", "2"],
            "--random and --recorded, --meetings or --kinds are different comparisons",
        ),
        (["--marks", "--l4s"], "--marks and --l4s are different comparisons"),
    ],
)
def test_bad_input_exits_with_2_and_an_error_on_standard_error(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["validate", *arguments])
    assert ended.value.code == 2
    out, err = capsys.readouterr()
    assert err.startswith(message)
    assert out == ""


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
