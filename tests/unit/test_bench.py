"""The table of benchmarks appears line by line."""

from __future__ import annotations

import sys

import pytest

from tools import bench


def test_each_figure_is_printed_before_the_next_one_is_measured(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    printed: list[str] = []

    def measured(figure: bench.Figure, _base: object) -> list[str]:
        printed.append(capsys.readouterr().out)
        return [figure.name, "1", "1 … 1", figure.unit]

    monkeypatch.setattr(sys, "argv", ["bench"])
    monkeypatch.setattr(bench, "_measured", measured)
    monkeypatch.setattr(bench, "_pages", lambda: [("a page", "1", "MB")])
    monkeypatch.setattr(bench, "_emulator", lambda: [("emulator", "2", "ms")])
    monkeypatch.setattr(bench, "_live_call", lambda: [("live call", "3", "s")])
    bench.main()
    names = [figure.name for figure in [*bench.FIGURES, *bench.OWN]]
    assert printed[0].startswith("figure ")
    assert [line.partition("  ")[0] for line in printed[1:]] == names[:-1]
    assert [line.split() for line in capsys.readouterr().out.splitlines()[1:]] == [
        ["a", "page", "1", "MB"],
        ["emulator", "2", "ms"],
        ["live", "call", "3", "s"],
    ]
