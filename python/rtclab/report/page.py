"""Renders pages: self-contained HTML files, including the script that draws their charts."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined, Template
from markupsafe import Markup

from rtclab.report import chart, words
from rtclab.report.drawing import Drawing
from rtclab.terminal import visible
from rtclab.trace import write_text

TEMPLATES = Path(__file__).parent / "templates"
SECTION = re.compile(r'<h2 id="([^"]+)">(.*?)</h2>', re.DOTALL)
CONTENTS = '<nav class="contents" aria-label="On this page">'


def write_plot_page(out: Path, title: str, plots: Sequence[Drawing]) -> None:
    """Writes a page that contains only charts."""
    write_page(out, "plots.html", plots, title=title)


def write_page(out: Path, template: str, plots: Sequence[Drawing], **options: Any) -> Path:
    """Writes what :func:`render` makes of a template, plots and further arguments; returns ``out``.

    Raises:
        DiskFull: no space is left.
    """
    out.parent.mkdir(parents=True, exist_ok=True)
    write_text(out, render(template, plots, **options))
    return out


def render(
    template: str,
    plots: Sequence[Drawing],
    *,
    tied: bool = False,
    templates: Path = TEMPLATES,
    **content: Any,
) -> str:
    """Renders an HTML page. The template gets the plots as ``charts``, and ``content`` by name.

    Args:
        template: file name of the template without ``.j2``.
        plots: the plots that the page shows as interactive charts.
        tied: whether charts over time share one zoom. Pass it if they all show the same time span.
        templates: directory of the template.
        content: what the template gets by name.
    """
    page = load_template(template, templates)
    charts = [chart.chart(plot) for plot in plots]
    scripts = chart.scripts() if plots else []
    return _with_contents(
        page.render(charts=charts, data=chart.data(plots, tied=tied), scripts=scripts, **content)
    )


def _with_contents(page: str) -> str:
    """The page with links to its sections, which are the headings with an ``id``."""
    before, contents, after = page.partition(CONTENTS)
    links = [f'<a href="#{name}">{title}</a>' for name, title in SECTION.findall(after)]
    return before + contents + "".join(links) + after


def _shown(value: Any) -> Any:
    """What a template writes: texts with their control characters shown, and HTML of rtclab as it is."""
    return visible(value) if isinstance(value, str) and not isinstance(value, Markup) else value


def load_template(name: str, templates: Path = TEMPLATES) -> Template:
    """Loads a page template by its file name without ``.j2``.

    A template in the directory ``templates`` may extend and import rtclab's own, such as ``page.html.j2``.
    """
    environment = Environment(
        loader=FileSystemLoader([templates, TEMPLATES]),
        autoescape=name.endswith(".html"),
        undefined=StrictUndefined,
        finalize=_shown,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["number"] = words.number
    return environment.get_template(f"{name}.j2")
