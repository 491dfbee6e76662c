"""Iqbal, Shirmohammadi, Atwah: a dynamic decrease factor against the fixed one."""

from __future__ import annotations

from rtclab.reproduce.paper import Paper

PAPER = Paper(
    name="iqbal",
    title="A dynamic approach to estimate receiving bandwidth for WebRTC",
    source="H. Iqbal, S. Shirmohammadi, M. Atwah",
    tables=[],
)
