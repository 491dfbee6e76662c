"""A plot that can be shown and saved."""

from __future__ import annotations

from pathlib import Path

from rtclab.errors import BadInput
from rtclab.report.drawing import Drawing
from rtclab.report.page import write_plot_page

SUFFIXES = (".svg", ".png", ".pdf", ".html")


class Plot(Drawing):
    """A plot that shows itself in a notebook and can be saved as an image or an interactive page."""

    def __repr__(self) -> str:
        return f"Plot({self.name!r})"

    def save(self, path: str | Path, *, size: tuple[float, float] | None = None) -> Path:
        """Writes the plot as an image (``.svg``, ``.png``, ``.pdf``) or as an interactive page (``.html``).

        Args:
            path: the file to write.
            size: of an image, its width and the height of each row of panels, in inches, such as
                ``(3.4, 2.0)`` for a column of a paper.

        Raises:
            BadInput: the name has another suffix, or the size is not for an image.
        """
        path = Path(path)
        if path.suffix not in SUFFIXES:
            raise BadInput(f"`{path}`: expected a name that ends in {', '.join(SUFFIXES)}")
        if size is not None and path.suffix == ".html":
            raise BadInput("size: a page has the size of its window; expected an image")
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.suffix == ".html":
            write_plot_page(path, self.title, [self])
        else:
            from rtclab.report import picture

            picture.write(path, self, size)
        return path

    def _repr_svg_(self) -> str:
        from rtclab.report import picture

        return picture.as_svg(self)
