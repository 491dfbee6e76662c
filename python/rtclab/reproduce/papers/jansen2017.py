"""Jansen et al. 2017: Chrome 52 to 57 under static and changing conditions, codecs, phones, wireless."""

from __future__ import annotations

from rtclab.reproduce.paper import Paper

PAPER = Paper(
    name="jansen2017",
    title="Performance evaluation of WebRTC-based video conferencing",
    source="B. Jansen, T. Goodwin, V. Gupta, F. Kuipers, G. Zussman, Performance Evaluation Review 2017",
    tables=[],
)
