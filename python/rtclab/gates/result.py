"""The result of a gate, and its forms: JSON, JUnit XML, Markdown and a page."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree

from rtclab.gates.outcome import HEADINGS, CheckRow, GateOutcome
from rtclab.terminal import visible

_NOT_IN_XML = re.compile("[^\t\n\r -\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


@dataclass(frozen=True)
class GateResult(GateOutcome):
    """What a gate found: its checks, and forms of them for people and for other programs."""

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
