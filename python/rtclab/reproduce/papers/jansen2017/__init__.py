"""Jansen et al. 2017: Chrome 52 to 57 under static and changing conditions, codecs, phones, wireless."""

from __future__ import annotations

from rtclab.reproduce.papers.jansen2017.figures import FIGURES
from rtclab.reproduce.papers.jansen2017.measure import measure
from rtclab.reproduce.reader import read_paper

PAPER = read_paper("jansen2017", figures=FIGURES, measure=measure)
