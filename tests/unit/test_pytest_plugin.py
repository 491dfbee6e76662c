"""The plugin of pytest: the checks of a suite are tests."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

pytest_plugins = ["pytester"]

ROOT = Path(__file__).parents[2]
SUITE = """
duration = "4 s"
repeats = 2
[scenarios.good]
scenario = "first-call"
limits = ["rtt < 1 s"]
compare = { rtt = { relative = "5 %" } }
[scenarios.bad]
scenario = "first-call"
limits = ["rtt of alice->bob < 1 ms"]
"""
PLUGIN = ("-p", "no:rtclab", "-p", "rtclab.pytest_plugin", "-p", "no:cacheprovider")
"""Loads the plugin whether or not its entry point is installed."""


def outcomes(pytester: pytest.Pytester, *arguments: str) -> pytest.RunResult:
    return pytester.runpytest_subprocess(*PLUGIN, *arguments)


@pytest.fixture
def suite(pytester: pytest.Pytester) -> Path:
    """A suite in a directory, beside a test that passes."""
    folder = pytester.mkdir("calls")
    (folder / "suite.toml").write_text(SUITE)
    pytester.makepyfile(test_own="def test_own():\n    pass\n")
    return folder / "suite.toml"


def test_each_check_of_a_named_suite_is_a_test(pytester: pytest.Pytester, suite: Path) -> None:
    result = outcomes(pytester, "calls/suite.toml", "-v", "-rs")
    result.assert_outcomes(passed=3, failed=1, skipped=1)
    result.stdout.re_match_lines_random(
        [
            r"calls/suite.toml::good: repeats PASSED.*",
            r"calls/suite.toml::good: rtt < 1 s PASSED.*",
            r"calls/suite.toml::good: rtt SKIPPED.*the baseline has no value.*",
            r"calls/suite.toml::bad: repeats PASSED.*",
            r"calls/suite.toml::bad: rtt of alice->bob < 1 ms FAILED.*",
            r"rtt of alice->bob < 1 ms: .* ms, .* ms too high, in 2 of 2 repeats",
        ]
    )
    assert "Traceback" not in result.stdout.str()


def test_listed_suites_are_collected_with_other_tests(pytester: pytest.Pytester, suite: Path) -> None:
    outcomes(pytester).assert_outcomes(passed=1)
    pytester.makeini("[pytest]\nrtclab_suites = calls/*.toml\n")
    (suite.parent / "notes.md").write_text("")
    outcomes(pytester).assert_outcomes(passed=4, failed=1, skipped=1)
    outcomes(pytester, "-k", "good and repeats").assert_outcomes(passed=1, deselected=5)


def test_strangers_code_needs_trust_and_a_failed_repeat_is_a_failed_test(
    pytester: pytest.Pytester, suite: Path
) -> None:
    control = "class Control:\n    def on_feedback(self, now, feedback):\n        raise ValueError('no')\n"
    (suite.parent / "control.py").write_text(control)
    suite.write_text(
        SUITE.replace(
            "[scenarios.bad]\n", '[scenarios.bad]\nset = { control = "calls/control.py:Control" }\n'
        )
    )
    outcomes(pytester, str(suite)).stdout.fnmatch_lines(["*would do as you:*", "*add --rtclab-trust*"])
    result = outcomes(pytester, str(suite), "-v", "--rtclab-trust")
    result.stdout.re_match_lines_random([r".*bad: repeats FAILED.*", r"2 of 2 repeats failed; the first .*"])


def test_a_suite_that_cannot_be_read_is_an_error_that_says_why(
    pytester: pytest.Pytester, suite: Path
) -> None:
    suite.write_text(SUITE.replace("rtt < 1 s", "rt < 1 s"))
    result = outcomes(pytester, str(suite))
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(["*no metric `rt`*", "*did you mean `rtt`?*"])


def test_a_suite_that_cannot_run_is_an_error_of_its_tests(pytester: pytest.Pytester, suite: Path) -> None:
    suite.write_text("require_baseline = true\n" + SUITE)
    result = outcomes(pytester, str(suite))
    result.assert_outcomes(errors=5)
    assert "Traceback" not in result.stdout.str()


def test_without_a_suite_nothing_of_rtclab_is_imported(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        "import sys\n"
        "def test_it():\n"
        "    assert [name for name in sys.modules if name.startswith('rtclab')] == "
        "['rtclab', 'rtclab.pytest_plugin']\n"
    )
    pytester.maketoml("[tool.other]\n")
    outcomes(pytester).assert_outcomes(passed=1)


def test_pytest_finds_the_plugin_by_its_entry_point() -> None:
    about = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert about["entry-points"]["pytest11"] == {"rtclab": "rtclab.pytest_plugin"}
