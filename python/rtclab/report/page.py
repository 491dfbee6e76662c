"""How a page is made: one HTML file with everything in it, also the script that draws its charts."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from rtclab.report import chart, words
from rtclab.report.drawing import Drawing
from rtclab.trace import write_text

TEMPLATES = Path(__file__).parent / "templates"


def write_plot_page(out: Path, title: str, plots: Sequence[Drawing]) -> None:
    """Writes a page of nothing but charts."""
    out.parent.mkdir(parents=True, exist_ok=True)
    write_text(out, render("plots.html", plots, title=title))


def render(template: str, plots: Sequence[Drawing], *, tied: bool = False, **content: Any) -> str:
    """A page with charts, which the template places as ``charts``; the script that draws them comes along.

    The charts over time of a page are ``tied`` if all show the same time: they are zoomed together.
    """
    made = page_template(template)
    charts = [chart.chart(plot) for plot in plots]
    scripts = chart.scripts() if plots else []
    return str(made.render(charts=charts, data=chart.data(plots, tied=tied), scripts=scripts, **content))


def page_template(name: str) -> Any:
    """One of the templates of pages, by its file name without `.j2`."""
    loader = FileSystemLoader(TEMPLATES)
    environment = Environment(
        loader=loader,
        autoescape=name.endswith(".html"),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["number"] = words.number
    return environment.get_template(f"{name}.j2")
