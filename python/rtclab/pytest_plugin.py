"""A plugin of pytest: the checks of a gate's suite are tests.

A suite is collected if the command line names its TOML file, or if the ini option ``rtclab_suites`` has a
pattern that matches it. It runs once, before the first of its tests. Each limit and each comparison of a
scenario is a test, which fails with the sentence of the check; so is ``repeats``, which fails if a repeat
failed. A comparison that the baseline lacks is skipped. Without a suite, nothing of rtclab is imported.
"""

from __future__ import annotations

from collections.abc import Iterator
from fnmatch import fnmatch
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from rtclab.gates import GateResult, Suite

REPEATS = "repeats"
"""Name of the test whether the repeats of a scenario ran to their end."""


def pytest_addoption(parser: pytest.Parser) -> None:
    """Adds ``--rtclab-trust`` and the ini option ``rtclab_suites``."""
    parser.getgroup("rtclab").addoption(
        "--rtclab-trust",
        action="store_true",
        help="Run what suites from outside of the current project name, such as Python code.",
    )
    parser.addini(
        "rtclab_suites",
        "Suites whose checks are tests: patterns of files below the root directory, such as calls/*.toml.",
        type="args",
    )


def pytest_collect_file(file_path: Path, parent: pytest.Collector) -> pytest.Collector | None:
    """The tests of a TOML file, if it is named or listed as a suite."""
    if file_path.suffix != ".toml":
        return None
    root = parent.config.rootpath
    below = file_path.relative_to(root).as_posix() if file_path.is_relative_to(root) else ""
    listed = any(fnmatch(below, pattern) for pattern in parent.config.getini("rtclab_suites"))
    if listed or parent.session.isinitpath(file_path):
        return SuiteFile.from_parent(parent, path=file_path)
    return None


class SuiteFile(pytest.File):
    """A suite, which runs before the first of its tests."""

    suite: Suite
    result: GateResult

    def collect(self) -> Iterator[pytest.Item]:
        """A test for each limit and comparison of each scenario, and one for its repeats."""
        from rtclab.errors import RtclabError
        from rtclab.gates import Suite

        try:
            self.suite = Suite.load(self.path, trust=self.config.getoption("--rtclab-trust"))
        except RtclabError as error:
            raise self.CollectError(str(error).replace("--trust", "--rtclab-trust")) from None
        for scenario, gated in self.suite.conditions.items():
            for check in dict.fromkeys([REPEATS, *map(str, gated.limits), *gated.margins]):
                yield CheckItem.from_parent(self, name=f"{scenario}: {check}", scenario=scenario, check=check)

    def setup(self) -> None:
        """Runs the suite."""
        from rtclab.errors import RtclabError
        from rtclab.gates import gate

        try:
            self.result = gate(self.suite, progress=False)
        except RtclabError as error:
            pytest.fail(str(error), pytrace=False)


class CheckItem(pytest.Item):
    """One check of one scenario, for all flows."""

    def __init__(self, *, scenario: str, check: str, **options: Any) -> None:
        super().__init__(**options)
        self.scenario = scenario
        self.check = check

    def runtest(self) -> None:
        """Fails with the sentence of each flow for which the check fails."""
        result = self._result
        if self.check == REPEATS:
            sentences = [text for scenario, text in result.failed_scenarios if scenario == self.scenario]
        else:
            own = (self.scenario, self.check)
            checks = [one for one in result.checks if (one.scenario, one.check) == own]
            if all(one.verdict == "new" for one in checks):
                pytest.skip("the baseline has no value")
            sentences = [one.sentence() for one in checks if one.fails]
        if sentences:
            pytest.fail("\n".join(sentences), pytrace=False)

    def reportinfo(self) -> tuple[Path, None, str]:
        """The suite, and the name of the test."""
        return self.path, None, self.name

    @property
    def _result(self) -> GateResult:
        assert isinstance(self.parent, SuiteFile)
        return self.parent.result
