"""Iqbal, Shirmohammadi, Atwah: a dynamic decrease factor against the fixed one."""

from __future__ import annotations

from rtclab.reproduce.papers.iqbal.changes import Changes
from rtclab.reproduce.papers.iqbal.figures import figures
from rtclab.reproduce.papers.iqbal.model import dynamic_alpha, of_table_1
from rtclab.reproduce.papers.iqbal.pairs import over_use
from rtclab.reproduce.reader import read_paper

PAPER = read_paper(
    "iqbal",
    figures=figures(),
    measure=over_use,
    compute=lambda cell: dynamic_alpha(*of_table_1(cell)),
    check=Changes,
)
