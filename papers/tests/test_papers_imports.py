"""The papers use the public interface of rtclab only: names that its packages export in ``__all__``."""

from __future__ import annotations

import ast
import importlib
from collections.abc import Iterator
from pathlib import Path

import pytest

import rtclab_papers

FILES = sorted(Path(rtclab_papers.__path__[0]).rglob("*.py"))
PUBLIC = {
    "rtclab",
    "rtclab.arenas",
    "rtclab.backend",
    "rtclab.backend.live",
    "rtclab.cli",
    "rtclab.errors",
    "rtclab.estimate",
    "rtclab.experiment",
    "rtclab.fingerprint",
    "rtclab.metrics",
    "rtclab.processes",
    "rtclab.progress",
    "rtclab.report",
    "rtclab.scenario",
    "rtclab.trace",
}
"""The packages and modules whose ``__all__`` is the public interface."""


def imports_of(code: str) -> Iterator[tuple[str, str]]:
    """Every import from rtclab: the module, and the imported name; empty if it is the module itself."""
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, ast.Import):
            for alias in node.names:
                if alias.name.partition(".")[0] == "rtclab":
                    yield alias.name, ""
        elif isinstance(node, ast.ImportFrom) and str(node.module).partition(".")[0] == "rtclab":
            for alias in node.names:
                yield str(node.module), alias.name


def private_imports(code: str) -> list[str]:
    """The imports that are not public, as ``module`` or ``module.name``."""
    return [
        f"{module}.{name}".removesuffix(".")
        for module, name in imports_of(code)
        if module not in PUBLIC or (name and name not in importlib.import_module(module).__all__)
    ]


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.name)
def test_only_public_names_are_imported(file: Path) -> None:
    assert private_imports(file.read_text()) == []


def test_there_are_files_that_import_rtclab() -> None:
    assert sum(bool([*imports_of(file.read_text())]) for file in FILES) > 30


@pytest.mark.parametrize(
    ("code", "private"),
    [
        ("import rtclab\nfrom rtclab.metrics import summarise", []),
        ("import rtclab.metrics.statistics", ["rtclab.metrics.statistics"]),
        ("from rtclab.metrics.statistics import summarise", ["rtclab.metrics.statistics.summarise"]),
        ("from rtclab.metrics import statistics", ["rtclab.metrics.statistics"]),
        ("from rtclab.backend import PACKAGE", ["rtclab.backend.PACKAGE"]),
        ("def late():\n    from rtclab import _native", ["rtclab._native"]),
        ("from rtclab.metrics import *", ["rtclab.metrics.*"]),
    ],
)
def test_private_imports_are_found(code: str, private: list[str]) -> None:
    assert private_imports(code) == private


@pytest.mark.parametrize("package", sorted(PUBLIC))
def test_every_public_name_exists(package: str) -> None:
    module = importlib.import_module(package)
    assert [name for name in module.__all__ if not hasattr(module, name)] == []
