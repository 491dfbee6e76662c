"""Pages in ``docs/`` say what the rows in ``docs/data`` give, above their notes that are written by hand."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from xml.etree import ElementTree

import pytest

from rtclab.cli import main
from rtclab_papers.markdown import NOTES
from rtclab_papers.validate import arena, l4s, marks
from rtclab_papers.validate.conditions import draw
from rtclab_papers.validate.l4s_page import write_l4s
from rtclab_papers.validate.marks_page import write_marks
from rtclab_papers.validate.outcome_files import names_in
from rtclab_papers.validate.twin import stored
from rtclab_papers.validate.twin_page import write_twin

DOCS = Path(__file__).parents[2] / "docs"


def then_and_now(page: Path, rows: Path) -> None:
    """The command has one paper as its argument; the page has all papers that have rows."""
    command = ["reproduce", "iqbal", "--backend", "live", "--page-only", "--page", str(page)]
    with pytest.raises(SystemExit, match="0"):
        main(command)


MADE: dict[str, Callable[[Path, Path], None]] = {
    "arena": lambda page, rows: arena.write_arena(page, *arena.read(rows), arena.read_live(rows)),
    "l4s": lambda page, rows: write_l4s(page, l4s.read(rows)),
    "marks": lambda page, rows: write_marks(page, stored(marks.conditions(), rows), rows),
    "then-and-now": then_and_now,
    "twin": lambda page, rows: write_twin(page, stored(map(draw, map(int, names_in(rows))), rows), rows),
}
"""What makes each page of its rows."""


def texts(picture: Path) -> list[str | None]:
    """All letters of a picture; its lines depend on the version of Matplotlib."""
    return [one.text for one in ElementTree.parse(picture).iter("{http://www.w3.org/2000/svg}text")]


@pytest.mark.parametrize("name", MADE)
def test_a_page_and_its_pictures_are_made_of_the_rows(name: str, tmp_path: Path) -> None:
    shutil.copytree(DOCS / "data", tmp_path / "data")
    page = tmp_path / f"{name}.md"
    published = (DOCS / page.name).read_text(encoding="utf-8")
    page.write_text("".join(published.partition(NOTES)[1:]), encoding="utf-8")
    MADE[name](page, tmp_path / "data" / f"{name}.csv")
    assert page.read_text(encoding="utf-8") == published
    pictures = {file.name for file in tmp_path.glob("*.svg")}
    assert pictures == {file.name for file in DOCS.glob(f"{name}-*.svg")} > set()
    for picture in pictures:
        assert texts(tmp_path / picture) == texts(DOCS / picture), picture
