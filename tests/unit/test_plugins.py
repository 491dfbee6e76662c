"""Commands and scenarios of other distributions: what is found, and that a broken one breaks nothing else."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from rtclab.plugins import ELSEWHERE

ENTRY_POINTS = """
[rtclab.commands]
greet = my_plugin.commands:app
run = my_plugin.commands:app
broken = my_plugin.missing:app

[rtclab.scenarios]
mine = my_plugin.scenarios
broken = my_plugin.missing
"""
COMMAND = '''
import typer

app = typer.Typer()


@app.command()
def anything(name: str) -> None:
    """Greet somebody."""
    print(f"hello {name}")
'''
SCENARIO = 'extends = "base"\nname = "one"\ntitle = "One of mine"\n'


def install(site: Path, name: str, entry_points: str = "") -> None:
    """Makes a distribution that an interpreter with ``site`` on its path finds before others of its name."""
    about = site / f"{name.replace('-', '_')}-9.dist-info"
    about.mkdir(parents=True)
    (about / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 9\n")
    (about / "entry_points.txt").write_text(entry_points)


@pytest.fixture
def site(tmp_path: Path) -> Path:
    """A directory with a plugin, and without rtclab-papers: an empty distribution has its place."""
    for name in {*ELSEWHERE.values()}:
        install(tmp_path, name)
    install(tmp_path, "my-plugin", ENTRY_POINTS)
    scenarios = tmp_path / "my_plugin" / "scenarios"
    (scenarios / "folder").mkdir(parents=True)
    (scenarios.parent / "commands.py").write_text(COMMAND)
    (scenarios / "__init__.py").write_text('PAPERS = {"folder": "A paper of mine"}\n')
    (scenarios / "base.toml").write_text('extends = "examples/sfu"\nduration = "2 s"\nname = "base"\n')
    (scenarios / "first-call.toml").write_text(SCENARIO)
    (scenarios / "folder" / "one.toml").write_text(SCENARIO)
    return tmp_path


def rtclab(site: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    path = os.pathsep.join(filter(None, [str(site), os.environ.get("PYTHONPATH", "")]))
    return subprocess.run(
        [sys.executable, "-m", "rtclab", *arguments],
        env=os.environ | {"PYTHONPATH": path, "COLUMNS": "120"},
        capture_output=True,
        text=True,
        check=False,
        cwd=site,
    )


def test_a_command_of_another_distribution_runs_and_is_in_the_help(site: Path) -> None:
    done = rtclab(site, "greet", "alice")
    assert (done.returncode, done.stdout, done.stderr) == (0, "hello alice\n", "")
    told = rtclab(site, "--help")
    assert "greet" in told.stdout
    assert "Greet somebody." in told.stdout
    # Once, with its own meaning, although the other distribution has a command of this name.
    assert len(re.findall(r"^│ run ", told.stdout, re.MULTILINE)) == 1
    assert "broken" not in told.stdout
    assert "Greet" not in rtclab(site, "run", "--help").stdout


def test_a_broken_command_is_named_with_its_distribution_and_disturbs_no_other(site: Path) -> None:
    reason = "my-plugin: its command `broken` cannot be loaded: ModuleNotFoundError: No module named"
    told = rtclab(site, "--help")
    assert told.returncode == 0
    assert [line.startswith(reason) for line in told.stderr.splitlines()] == [True]
    used = rtclab(site, "broken")
    assert used.returncode == 1
    assert used.stderr.startswith(reason)
    assert "Traceback" not in used.stderr
    assert rtclab(site, "metrics", "rtt").stderr == ""


def test_scenarios_of_another_distribution_are_shipped_ones_and_broken_packages_are_named(site: Path) -> None:
    shown = rtclab(site, "show", "folder/one")
    assert shown.stdout.startswith("one: One of mine\n2 s, ")
    assert shown.stderr.splitlines() == [
        "my-plugin: its scenarios cannot be loaded: ModuleNotFoundError: No module named 'my_plugin.missing'"
    ]
    # rtclab's own comes first, and needs no look at other distributions.
    own = rtclab(site, "show", "first-call")
    assert "One of mine" not in own.stdout
    assert own.stderr == ""
    listed = rtclab(site, "list").stdout
    assert "\nbase" in listed
    assert "folder/one" not in listed
    assert "  folder: 1, A paper of mine\n" in listed
    assert "\nfolder/one" in rtclab(site, "list", "folder").stdout


@pytest.mark.parametrize("command", ELSEWHERE)
def test_a_command_that_is_not_installed_names_its_distribution(site: Path, command: str) -> None:
    done = rtclab(site, command)
    assert done.returncode == 2
    assert f"the command `{command}` is in the distribution {ELSEWHERE[command]}, which is not" in done.stderr
    assert "pip install ./papers" in done.stderr
    assert command not in rtclab(site, "--help").stdout
    assert "singh2013" not in rtclab(site, "list", "--all").stdout


def test_without_papers_the_list_of_scenarios_says_nothing_of_papers(tmp_path: Path) -> None:
    install(tmp_path, "rtclab-papers")
    listed = rtclab(tmp_path, "list")
    assert listed.stdout.startswith("\nscenario") or listed.stdout.startswith("scenario")
    assert "first-call" in listed.stdout
    assert "paper" not in listed.stdout
    assert listed.stderr == ""
