"""What a gate found: the outcomes of its checks, by scenario and by importance."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import polars as pl

from rtclab.experiment.comparison import Side
from rtclab.gates.checks import Check, checks_table
from rtclab.phrases import count, number
from rtclab.trace import OpenWindow, window_in_words

HEADINGS = ("scenario", "check", "worst flow", "before", "now", "change", "allowed", "result")
"""Columns of the table that every form shows."""


@dataclass(frozen=True)
class CheckRow:
    """The outcomes of one limit or comparison of a scenario for all flows; ``worst`` is the worst of them."""

    checks: Sequence[Check]

    @property
    def worst(self) -> Check:
        """The outcome that is furthest beyond what is allowed."""
        return max(self.checks, key=lambda check: (check.fails, check.excess))

    @property
    def failing(self) -> list[Check]:
        """The outcomes that make the gate fail."""
        return [check for check in self.checks if check.fails]

    @property
    def cells(self) -> tuple[str, ...]:
        """The texts of the columns ``HEADINGS``."""
        worst = self.worst
        before, change, allowed = number(worst.before), "", ""
        if worst.compares:
            before = number(worst.base)
            if worst.difference is not None and worst.base:
                change = f"{100 * worst.difference / abs(worst.base):+.1f} %"
            elif worst.difference is not None:
                change = number(worst.difference)
            if worst.margin is not None:
                allowed = f"{number(worst.margin)} {worst.unit}".rstrip()
        now = f"{number(worst.new)} {worst.unit}".rstrip() if worst.new is not None else ""
        result = f"{worst.verdict}, {worst.since}" if worst.since and not worst.compares else worst.verdict
        return worst.scenario, worst.check, worst.flow, before, now, change, allowed, result


def lines_of(checks: Sequence[Check]) -> list[CheckRow]:
    """The checks by scenario and limit or comparison, in the given order."""
    groups: dict[tuple[str, str], list[Check]] = {}
    for check in checks:
        groups.setdefault((check.scenario, check.check), []).append(check)
    return [CheckRow(of) for of in groups.values()]


@dataclass(frozen=True)
class GateOutcome:
    """What a gate found."""

    suite: str
    """The name of the suite."""
    checks: tuple[Check, ...]
    """The outcome of each limit and each comparison, for each flow."""
    failed_scenarios: tuple[tuple[str, str], ...]
    """The name of each scenario that fails because of failed repeats, and a sentence."""
    notes: tuple[str, ...]
    """Sentences about what was not checked or was written."""
    measured: Mapping[str, Side]
    """The values and the outcomes of the repeats of every scenario, by its name."""
    window: OpenWindow | None = None
    """The part of each repeat that was measured, in s; None for all of it."""
    commands: Mapping[str, str] = field(default_factory=dict)
    """The command that runs a scenario alone, by its name."""
    file: str = ""
    """The suite's file; empty without one."""

    @property
    def passed(self) -> bool:
        """Whether every check holds and no scenario has failed."""
        return not self.failed_scenarios and not any(check.fails for check in self.checks)

    @property
    def lines(self) -> list[CheckRow]:
        """The checks by scenario and limit or comparison, in the order of the suite."""
        return lines_of(self.checks)

    @property
    def every(self) -> list[CheckRow]:
        """A row for each check, of every flow."""
        return [CheckRow([check]) for check in self.checks]

    @property
    def by_importance(self) -> tuple[list[CheckRow], list[CheckRow]]:
        """The checks that fail, the furthest beyond first, and the others, undecided ones first."""
        failing = [line for line in self.lines if line.failing]
        others = [line for line in self.lines if not line.failing]
        failing.sort(key=lambda line: line.worst.over_percent or line.worst.excess, reverse=True)
        others.sort(key=lambda line: line.worst.verdict != "undecided")
        return failing, others

    @property
    def failing_scenarios(self) -> list[str]:
        """The scenarios in which something fails, the worst first."""
        failing, _ = self.by_importance
        names = [*(name for name, _ in self.failed_scenarios), *(line.worst.scenario for line in failing)]
        return list(dict.fromkeys(names))

    def command(self, scenario: str) -> str:
        """The command that runs a scenario alone, with traces; empty if there is none."""
        command = self.commands.get(scenario, "")
        moments = zip(("--from", "--to"), self.window or (), strict=False)
        measured = "".join(f" {option} {moment_s:g}s" for option, moment_s in moments if moment_s)
        return f"{command}{measured}" if command else ""

    def table(self) -> pl.DataFrame:
        """A row for each limit or comparison and flow.

        ``base`` is the bound of a limit or the mean of the baseline, ``new`` the mean now, ``margin``
        by how much a compared metric may be worse, ``p`` the one-sided p-value before correction,
        ``broken`` the number of repeats in which a limit does not hold, ``over_percent`` how far a failing
        value is beyond what is allowed, and ``held_before`` whether the check held in the baseline. Unknown
        values are null.
        """
        return checks_table(self.checks)

    def sentences(self) -> list[str]:
        """A sentence for each reason why the gate fails; empty if it passes."""
        return [f"{name}: {sentence}" for name, sentence in self._failures()]

    def _failures(self) -> Iterator[tuple[str, str]]:
        yield from self.failed_scenarios
        for line in self.lines:
            for check in line.failing:
                yield check.scenario, check.sentence()

    def verdict(self) -> str:
        """What came out in one line: ``failed: 2 of 42 checks, in 1 of 5 scenarios``."""
        scenarios = len(self.measured)
        when = "" if self.window is None else f", {window_in_words(self.window)}"
        lines = self.lines
        failing = sum(bool(line.failing) for line in lines) + len(self.failed_scenarios)
        total = len(lines) + len(self.failed_scenarios)
        if not failing:
            return f"passed: {count(total, 'check')} in {count(scenarios, 'scenario')}{when}"
        where = len({name for name, _ in self._failures()})
        of = f"{where} of {count(scenarios, 'scenario')}"
        return f"failed: {failing} of {count(total, 'check')}, in {of}{when}"
