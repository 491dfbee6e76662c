"""Sphinx extension: makes the pages that `gallery.md` is about, and shows pictures of them in the site.

It runs the examples of `gallery.md` in their order and keeps the pages that it names. Pictures need Chromium;
without it, links stand in their place.

Marks in other pages, which a code host does not show: the line after `<!-- picture: NAME -->` is replaced by
a picture, and the list after `<!-- cards -->` by cards with pictures.
"""

from __future__ import annotations

import contextlib
import io
import re
import shlex
import shutil
import subprocess
import tempfile
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

from sphinx.application import Sphinx
from sphinx.util import logging

from rtclab.backend.live.browsers.launch_options import find_chromium
from rtclab.cli import main

FOLDER = "_static/gallery"
"""Where the site has the pages and their pictures."""
WINDOW, SCALE = "1120,720", 0.625
"""Width and height of the window in CSS pixels, and the pixels of a picture for one of them: 700 by 450."""
SCHEMES = {"light": 1, "dark": 0}
"""The colour schemes that a page may prefer, with their numbers in Blink."""
PATIENCE_S = 60

SECTION = re.compile(r"^## (.+?)\n(.*?)(?=^## |\Z)", re.DOTALL | re.MULTILINE)
PAGE = re.compile(r"^\*The page is `([^`]+)`\.\*", re.MULTILINE)
FENCE = re.compile(r"^```(console|toml) *(\S*)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
LINK = re.compile(r'href="([\w.-]+)"')
PICTURE = re.compile(r"^<!-- picture: ([\w-]+) -->\n[^\n]*$", re.MULTILINE)
CARDS = re.compile(r"^<!-- cards -->\n\n?((?:- .*\n(?:  .*\n)*)+)", re.MULTILINE)
CARD = re.compile(r"^- (.*?) \(\[[^]]*\]\(gallery\.md#([\w-]+)\)\)$", re.DOTALL | re.MULTILINE)


@dataclass(frozen=True)
class Example:
    """A section of the gallery: the name of its page, its title, and the file that its commands leave."""

    name: str
    title: str
    file: str


def examples_of(text: str) -> list[Example]:
    """The sections of the gallery."""
    return [
        Example(_name(title), title, page[1])
        for title, body in SECTION.findall(text)
        if (page := PAGE.search(body))
    ]


def _name(title: str) -> str:
    return title.lower().replace(" ", "-")


def make(app: Sphinx) -> None:
    """Runs the examples, and puts their pages and pictures into the site."""
    if app.builder.format != "html":
        return
    text = (Path(app.srcdir) / "gallery.md").read_text(encoding="utf-8")
    folder = Path(app.outdir) / FOLDER
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as work:
        said = follow(text, Path(work))
        for example in examples_of(text):
            made = Path(work) / example.file
            if made.is_file():
                _keep(made, folder, f"{example.name}.html")
            else:
                logging.getLogger(__name__).warning("gallery: no %s after:\n%s", example.file, said)
    pages = [folder / f"{example.name}.html" for example in examples_of(text)]
    take_pictures(find_chromium(), [page for page in pages if page.is_file()])


def _keep(made: Path, folder: Path, name: str) -> None:
    """Copies a page under another name, with the files beside it that it links to."""
    shutil.copy(made, folder / name)
    for link in LINK.findall(made.read_text(encoding="utf-8")):
        if (made.parent / link).is_file():
            shutil.copy(made.parent / link, folder)


def follow(text: str, work: Path) -> str:
    """Does in a directory what the examples of a page say; returns what was printed."""
    said = io.StringIO()
    with contextlib.chdir(work), contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
        for language, file, body in FENCE.findall(text):
            if language == "toml":
                Path(file).write_text(body, encoding="utf-8")
                continue
            for command in re.findall(r"^\$ rtclab (.*?)(?: \|\| true)?$", body, re.MULTILINE):
                with contextlib.suppress(SystemExit):
                    main(shlex.split(command))
    return said.getvalue()


def take_pictures(chromium: str | None, pages: list[Path]) -> None:
    """Takes a picture of the first screen of each page in each colour scheme, if there is a Chromium."""
    if chromium is None:
        return
    with ThreadPoolExecutor() as pool:
        list(pool.map(lambda one: _take_picture(chromium, *one), product(pages, SCHEMES)))


def _take_picture(chromium: str, page: Path, scheme: str) -> None:
    with tempfile.TemporaryDirectory() as profile, contextlib.suppress(subprocess.TimeoutExpired):
        subprocess.run(
            [
                chromium,
                *("--headless=new", "--no-sandbox", "--hide-scrollbars", "--virtual-time-budget=6000"),
                f"--user-data-dir={profile}",
                f"--window-size={WINDOW}",
                f"--force-device-scale-factor={SCALE}",
                f"--blink-settings=preferredColorScheme={SCHEMES[scheme]}",
                f"--screenshot={page.with_name(f'{page.stem}-{scheme}.png')}",
                page.as_uri(),
            ],
            capture_output=True,
            timeout=PATIENCE_S,
            check=False,
        )


def show(app: Sphinx, page: str, source: list[str]) -> None:
    """Puts pictures and cards into a page before it is parsed."""
    if app.builder.format != "html":
        return
    folder = Path(app.outdir) / FOLDER
    if page == "gallery":
        source[0] = SECTION.sub(lambda section: _section(section, folder), source[0])
    source[0] = PICTURE.sub(lambda mark: _link(mark[1], folder), source[0])
    source[0] = CARDS.sub(lambda cards: _cards(cards[1], folder), source[0])


def _section(section: re.Match[str], folder: Path) -> str:
    """A section of the gallery, with the picture in place of the words about the file."""
    link = _link(_name(section[1]), folder)
    return PAGE.sub(lambda _: f"{link}\n\n", section[0])


def _cards(items: str, folder: Path) -> str:
    """A list as cards: for each item a picture and its text."""
    cards = [
        f":::{{container}} card\n\n{_link(name, folder)}\n\n{text}\n\n:::"
        for text, name in CARD.findall(items)
    ]
    return "\n\n".join(["::::{container} cards", *cards, "::::\n"])


def _link(name: str, folder: Path) -> str:
    """A link to a page of the gallery: its picture if there is one, or else words."""
    taken = all((folder / f"{name}-{scheme}.png").is_file() for scheme in SCHEMES)
    images = "".join(
        f'<img class="only-{scheme}" src="{FOLDER}/{name}-{scheme}.png" alt="{name.replace("-", " ")}" '
        'width="700" height="450" loading="lazy">'
        for scheme in SCHEMES
    )
    return f'<p class="picture"><a href="{FOLDER}/{name}.html">{images if taken else "the page"}</a></p>'


def setup(app: Sphinx) -> dict[str, Any]:
    """What Sphinx calls."""
    app.connect("builder-inited", make)
    app.connect("source-read", show)
    return {"parallel_read_safe": True}
