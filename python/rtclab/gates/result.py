"""The result of a gate, and its forms: tables, JSON, JUnit XML, Markdown and a page."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from xml.etree import ElementTree

import polars as pl

from rtclab.experiment.comparison import Side
from rtclab.gates.checks import Check, checks_table
from rtclab.phrases import count, number
from rtclab.terminal import visible
from rtclab.trace import OpenWindow, window_in_words

HEADINGS = ("scenario", "check", "worst flow", "before", "now", "change", "allowed", "result")
"""Columns of the table that every form shows."""
_NOT_IN_XML = re.compile("[^\t\n\r -\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


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
class GateResult:
    """What a gate found.

    ``checks`` has the outcome of each limit and each comparison, for each flow. ``failed_scenarios`` has the
    name of each scenario that fails because of failed repeats, and a sentence. ``notes`` are sentences about
    what was not checked or was written. ``measured`` has the values and the outcomes of the repeats of
    every scenario, and ``window`` the part of each repeat that was measured; None for all of it.
    ``commands`` has the command that runs each scenario alone. ``file`` is the suite's file; empty without
    one.
    """

    suite: str
    checks: tuple[Check, ...]
    failed_scenarios: tuple[tuple[str, str], ...]
    notes: tuple[str, ...]
    measured: Mapping[str, Side]
    window: OpenWindow | None = None
    commands: Mapping[str, str] = field(default_factory=dict)
    file: str = ""

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

    def as_dict(self) -> dict[str, object]:
        """The result as JSON values."""
        return {
            "suite": self.suite,
            "passed": self.passed,
            "reasons": self.sentences(),
            "notes": list(self.notes),
            "checks": self.table().to_dicts(),
            "window": self.window,
            "repeats": [
                {
                    "condition": name,
                    **{key: getattr(one, key) for key in ("repeat", "seed", "status", "reason")},
                }
                for name, side in self.measured.items()
                for one in side.run.repeats
            ],
        }

    def junit(self) -> str:
        """The result as JUnit XML: a test suite for each scenario, a test for each limit and comparison.

        A comparison that the baseline lacks is a skipped test.
        """
        root = ElementTree.Element("testsuites", name=self.suite)
        for name in dict.fromkeys([*(check.scenario for check in self.checks), *self.measured]):
            suite = ElementTree.SubElement(root, "testsuite", name=_in_xml(name))
            for sentence in [sentence for scenario, sentence in self.failed_scenarios if scenario == name]:
                _test(suite, self.suite, "repeats", [sentence])
            for line in (line for line in self.lines if line.worst.scenario == name):
                test = _test(suite, self.suite, line.worst.check, [one.sentence() for one in line.failing])
                if all(check.verdict == "new" for check in line.checks):
                    ElementTree.SubElement(test, "skipped", message="the baseline has no value")
            _count_tests(suite)
        _count_tests(root)
        ElementTree.indent(root)
        return ElementTree.tostring(root, encoding="unicode", xml_declaration=True) + "\n"

    def markdown(self) -> str:
        """The result as Markdown, for a comment on a pull request or the summary of a job."""
        rows = [HEADINGS, ("---",) * len(HEADINGS), *map(_marked, self.lines)]
        parts = [
            f"### Gate `{self.suite}` {self.verdict()}",
            "\n".join(f"- {_plain(sentence)}" for sentence in self.sentences()),
            "\n".join(f"| {' | '.join(row)} |" for row in rows),
            "\n\n".join(map(_plain, self.notes)),
        ]
        return "\n\n".join(filter(None, parts)) + "\n"

    def report(self, path: str | Path) -> Path:
        """Writes a page with all checks, and returns its path.

        Raises:
            DiskFull: the page could not be written.
        """
        from rtclab.gates.page import write_page

        return write_page(Path(path), self)


def _test(suite: ElementTree.Element, gate: str, name: str, failures: list[str]) -> ElementTree.Element:
    classname = f"{gate}.{suite.get('name')}"
    test = ElementTree.SubElement(suite, "testcase", classname=_in_xml(classname), name=name)
    if failures:
        texts = [_in_xml(failure) for failure in failures]
        ElementTree.SubElement(test, "failure", message=texts[0]).text = "\n".join(texts)
    return test


def _in_xml(text: str) -> str:
    """A text without characters that XML cannot have."""
    return _NOT_IN_XML.sub("?", visible(text))


def _count_tests(element: ElementTree.Element) -> None:
    for attribute, tag in (("tests", "testcase"), ("failures", "failure"), ("skipped", "skipped")):
        element.set(attribute, str(sum(1 for _ in element.iter(tag))))
    element.set("errors", "0")


def _marked(line: CheckRow) -> tuple[str, ...]:
    """The cells of a row in Markdown."""
    scenario, check, flow, *figures, result = line.cells
    code = [f"`{text}`" if text else "" for text in (check, flow)]
    cells = [_plain(scenario), *code, *figures, f"**{result}**" if line.failing else result]
    return tuple(cell.replace("|", "\\|") for cell in cells)


def _plain(sentence: str) -> str:
    """A text in Markdown, on one line, in which `<` begins no tag."""
    return " ".join(visible(sentence).replace("<", "&lt;").split())
