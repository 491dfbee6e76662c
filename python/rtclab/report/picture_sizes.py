"""Sizes of pictures and of their letters, and the settings of matplotlib."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from rtclab.report.drawing import GRID, INK, QUIET

POINTS_PER_INCH = 72
CHARACTER_EM = 0.56
"""Mean width of a letter in DejaVu Sans, in sizes of the font."""
LEGEND_EDGE_IN = 0.08
"""Free space between a legend and the edges of the picture."""
LEGEND_GAPS_EM = 2.75
"""Gaps between a line in the legend and its text, and between its text and the next column."""

# Margins are fixed, so that plots one below the other are aligned.
RIGHT_IN, TOP_IN = 0.15, 0.08
# The other margins hold text; they are in sizes of the font.
LEFT_EM, BOTTOM_EM, BETWEEN_COLUMNS_EM, BETWEEN_ROWS_EM = 6.4, 4.0, 1.6, 3.2
TITLE_EM, LEGEND_ROW_EM = 1.6, 1.68
TICK_LINE_EM = 1.2
"""Height of a further line of a tick label."""

STYLE: Any = {
    "svg.fonttype": "none",
    "svg.hashsalt": "rtclab",
    "pdf.fonttype": 42,  # TrueType; many publishers refuse the default, Type 3
    "font.family": ["sans-serif"],
    "font.sans-serif": ["DejaVu Sans", "Verdana", "sans-serif"],
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.edgecolor": QUIET,
    "axes.labelcolor": INK,
    "axes.titlelocation": "left",
    "axes.titlepad": 5.0,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": GRID,
    "grid.linewidth": 0.6,
    "xtick.color": QUIET,
    "ytick.color": QUIET,
    "xtick.labelcolor": INK,
    "ytick.labelcolor": INK,
    "text.color": INK,
    "text.parse_math": False,  # names are no formulas
    "lines.linewidth": 1.5,
    "legend.frameon": False,
}
"""The settings that all formats share."""


@dataclass(frozen=True)
class Format:
    """Size of a picture and of its letters. Margins that hold text grow with the letters.

    Attributes:
        width_in: width of the picture in inches.
        row_in: height of a row of axes with its margins, in inches.
        columns: maximum number of axes side by side.
        font_pt: size of all letters in points.
        sample_em: length of a line in the legend, in sizes of the font.
        simplified_pt: how far a line may be from its points, in points. A larger value makes smaller files.
    """

    width_in: float = 9.0
    row_in: float = 2.5
    columns: int = 2
    font_pt: float = 9.0
    sample_em: float = 2.8
    simplified_pt: float = 1 / 9

    @property
    def style(self) -> Any:
        """The settings of matplotlib for this format."""
        sizes = {"font.size": self.font_pt, "axes.titlesize": self.font_pt}
        lines = {"legend.handlelength": self.sample_em, "path.simplify_threshold": self.simplified_pt}
        return STYLE | sizes | lines

    def inches(self, em: float) -> float:
        """A length in sizes of the font, in inches."""
        return em * self.font_pt / POINTS_PER_INCH

    def axes_in(self, columns: int) -> float:
        """Width of each of ``columns`` axes side by side, in inches."""
        inner_in = self.width_in - self.inches(LEFT_EM) - RIGHT_IN
        return (inner_in - (columns - 1) * self.inches(BETWEEN_COLUMNS_EM)) / columns

    def wrapped(self, names: Sequence[str], width_in: float) -> list[str]:
        """Tick labels, broken at spaces if one of them is wider than ``width_in``."""
        characters = max(int(width_in / self.inches(CHARACTER_EM)), 1)
        if max(map(len, names), default=0) <= characters:
            return list(names)
        return ["\n".join(_balanced(name, characters)) for name in names]

    def legend_columns(self, lengths: Sequence[int]) -> int:
        """The number of columns of a legend that fit, for entries of these lengths in characters.

        Columns are filled from top to bottom.
        """
        for columns in range(len(lengths), 1, -1):
            longest = [int(column.max()) for column in np.array_split(lengths, columns)]
            em = columns * (self.sample_em + LEGEND_GAPS_EM) + sum(longest) * CHARACTER_EM
            if self.inches(em) < self.width_in - 2 * LEGEND_EDGE_IN:
                return columns
        return 1


def _balanced(text: str, characters: int) -> list[str]:
    """As few lines as fit, and these as short as possible, so that a number stays beside its unit."""
    lines = textwrap.wrap(text, characters, break_long_words=False)
    for fewer in range(characters - 1, 0, -1):
        shorter = textwrap.wrap(text, fewer, break_long_words=False)
        if len(shorter) > len(lines):
            break
        lines = shorter
    return lines


WIDE = Format()
"""For reports and other wide pages."""
NARROW_IN = 5.0
"""Pictures that are narrower have one panel in a row, and smaller letters."""


def of_size(width_in: float, row_in: float) -> Format:
    """The format of pictures with this width and this height of each row of axes, in inches."""
    if width_in < NARROW_IN:
        return Format(width_in=width_in, row_in=row_in, columns=1, font_pt=7.0, sample_em=2.0)
    return Format(width_in=width_in, row_in=row_in)


NARROW = Format(width_in=5.6, row_in=2.3, font_pt=10.5, sample_em=2.0, simplified_pt=0.25)
"""For pages that are also read on a phone: at a width of 360 pixels the letters have 9 pixels."""
