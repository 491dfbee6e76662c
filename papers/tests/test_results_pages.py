"""Pages of results begin with the result and one figure, their tables are folded, and none is too wide."""

from __future__ import annotations

import re
from math import ceil
from pathlib import Path
from xml.etree import ElementTree

import pytest

from rtclab.report import as_svg
from rtclab_papers.markdown import NOTES, folded, in_sentence, listed
from rtclab_papers.reproduce import NAMES
from rtclab_papers.reproduce.headline import drawing, result_words
from rtclab_papers.reproduce.measures import EQUATION
from rtclab_papers.reproduce.score import KeptCount, Score

DOCS = Path(__file__).parents[2] / "docs"
REPRODUCTIONS = ("reproduction", *(f"reproduction-{name}" for name in NAMES))
PAGES = ("twin", "then-and-now", "arena", *REPRODUCTIONS)
MOST_COLUMNS = 10
"""Columns of short numbers that fit beside the sidebars of the site at 1400 pixels."""
NONE = KeptCount(0, 0, 0, 0)


def text_of(name: str) -> str:
    return (DOCS / f"{name}.md").read_text(encoding="utf-8").partition(NOTES)[0]


def lead_of(name: str) -> str:
    """The first paragraph with a result, on one line; pages of publications name their source above it."""
    blocks = text_of(name).split("\n\n")
    return blocks[2 if name in REPRODUCTIONS[1:] else 1].replace("\n", " ")


def sentences(text: str) -> list[str]:
    return re.split(r"(?<=[.?])\s+(?=[A-Z`])", text)


def rows_of(text: str) -> list[list[str]]:
    """The cells of all lines of tables."""
    lines = [line for line in text.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]] for line in lines]


@pytest.mark.parametrize("name", PAGES)
def test_a_page_begins_with_the_result_and_one_figure(name: str) -> None:
    above = text_of(name).partition("\n## ")[0]
    assert 2 <= len(sentences(lead_of(name))) <= 5
    assert above.count("](") - above.count("](reproduction.md)") == above.count("![") == 1
    assert "|" not in above
    assert "<details>" not in above


@pytest.mark.parametrize("name", PAGES)
def test_tables_are_folded_and_none_is_cut(name: str) -> None:
    text = text_of(name)
    shown = re.sub(r"^<details>$.*?^</details>$", "", text, flags=re.MULTILINE | re.DOTALL)
    assert not rows_of(shown)
    assert "details>" not in shown  # nothing is folded twice or left open
    rows = rows_of(text)
    assert rows
    assert max(map(len, rows)) <= MOST_COLUMNS
    inside = re.findall(r"^<details>\n<summary>[^\n]+</summary>\n\n(.*?)\n\n</details>$", text, re.M | re.S)
    assert len(inside) == text.count("<details>")
    assert not any(re.search("^#", part, re.M) for part in inside), "a heading would close the fold"


@pytest.mark.parametrize("name", PAGES)
def test_every_figure_has_a_text_besides_its_name(name: str) -> None:
    figures = re.findall(r"!\[([^\]]*)\]\(([^)]+)\)", text_of(name))
    assert figures
    for words, file in figures:
        assert len(words.split()) > 2, file
        assert (DOCS / file).is_file()


def kept(ours: str, null: str) -> KeptCount:
    """The counts in two cells of the table."""
    if not ours:
        return NONE
    found = re.fullmatch(r"(\d+) of (\d+) \(\d+ %\)(?:, (\d+) undecided)?", ours)
    assert found is not None
    return KeptCount(int(found[1]), int(found[3] or 0), int(null.partition(" ")[0]), int(found[2]))


def scores_in(text: str) -> list[Score]:
    """The scores in the table of a page."""
    found = []
    for kind, ours, null, _, _, tests, of_tests in rows_of(
        text.partition("all: ours")[2].partition("</d")[0]
    ):
        if kind != "---":
            name = EQUATION if kind.startswith("equations") else kind.strip("*")
            found.append(Score(name, kept(ours, null), NONE, NONE, kept(tests, of_tests)))
    return found


def outcomes_in(text: str) -> dict[str, int]:
    """The numbers of statements in a page: in a table, or in the sentence above the statements."""
    if told := re.search(r"^Of \d+ statements: ([^.]+)\. A statement", text, re.M):
        return {words: int(count) for count, words in (one.split(" ", 1) for one in told[1].split(", "))}
    heads, _, *rows = rows_of(text.partition("The statements of each publication")[2])
    return {head: sum(int(row[at]) for row in rows) for at, head in enumerate(heads) if at}


@pytest.mark.parametrize("name", REPRODUCTIONS)
def test_the_result_of_a_reproduction_is_what_its_tables_say(name: str) -> None:
    text = text_of(name)
    told = result_words(scores_in(text), outcomes_in(text))
    assert lead_of(name) == " ".join(told).replace("\n", " ")
    drawn = drawing(scores_in(text), "agreement")
    assert drawn is not None
    texts = [
        [one.text for one in ElementTree.fromstring(svg.encode()).iter("{http://www.w3.org/2000/svg}text")]
        for svg in (as_svg(drawn), (DOCS / f"{name}-agreement.svg").read_text(encoding="utf-8"))
    ]
    assert texts[0] == texts[1]


def test_without_measurements_nothing_is_told_or_drawn() -> None:
    assert result_words([], {}) == []
    assert drawing([], "agreement") is None


def test_the_result_of_the_twin_is_what_its_table_says() -> None:
    table = text_of("twin").partition("metrics: seeds 151 to 200</summary>")[2].partition("</details>")[0]
    rows = [[cell.replace("**", "").split("\u00a0")[0] for cell in row] for row in rows_of(table)[2:]]
    errors = {row[0]: float(row[2]) for row in rows}
    coverages = {row[0]: float(row[5]) for row in rows}
    lead = lead_of("twin")
    assert f"rate is {errors['Receiving rate']} % off and the round trip is {errors['RTT']} % off" in lead
    close = sum(error <= 10 for error in errors.values())
    assert f"Of {len(rows)} metrics, {close} have a median error" in lead
    ends = (min(errors.values()), max(errors.values()), max(coverages.values()), min(coverages.values()))
    assert [float(found) for found in re.findall(r"([\d.]+) % \(", lead)] == list(ends)
    full = sum(coverage >= 85 for coverage in coverages.values())
    assert f"{full} have at least 85 % of live values" in lead


def test_the_cases_that_a_decision_needs_follow_from_the_interval() -> None:
    told = re.search(
        r"the one where ([^(]+) \(`access`\): .*? about (\d+) cases instead of (\d+)", lead_of("arena")
    )
    assert told is not None
    of_suite = text_of("arena").partition("`access`, 30 cases.")[2]
    row = next(row for row in rows_of(of_suite) if row[0] == told[1])
    numbers = re.search(
        r"is ([\d.]+) percentage points .* interval (−?[\d.]+) to .* over (\d+) cases", row[3]
    )
    assert numbers is not None
    lead, low = float(numbers[1]), float(numbers[2].replace("−", "-"))
    assert told[3] == numbers[3]
    assert int(told[2]) == pytest.approx(ceil(int(told[3]) * ((lead - low) / lead) ** 2), rel=0.01)
    # With so many cases the lower end of the interval is just above zero.
    half = (lead - low) * (int(told[3]) / int(told[2])) ** 0.5
    assert 0 <= lead - half < 0.02 * lead


def test_the_sentences_that_lead_stand_in_their_sections_too() -> None:
    lead, text = lead_of("then-and-now"), text_of("then-and-now")
    own = [one for one in sentences(lead) if not one.startswith("Live in 2026")]
    assert len(own) == 4
    assert all(text.count(one) >= 2 for one in own)


def test_blocks_are_folded_with_blank_lines_around_them() -> None:
    assert folded("More", "a", "b").splitlines() == [
        "<details>",
        "<summary>More</summary>",
        "",
        "a",
        "",
        "b",
        "",
        "</details>",
    ]
    assert [in_sentence(label) for label in ("RTT", "Freeze count W3C")] == ["RTT", "freeze count W3C"]
    assert [listed(words) for words in (["a"], ["a", "b", "c"])] == ["a", "a, b and c"]
