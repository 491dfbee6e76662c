"""No module of rtclab imports itself, directly or through other modules."""

from __future__ import annotations

import ast
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[2] / "python" / "rtclab"
METHODS_OF_LATER_STAGES = (PACKAGE / "trace" / "trace.py", PACKAGE / "experiment" / "results.py")
"""Traces and results measure and draw themselves, and results try remedies: their methods import what does it
when they are called. They are the one exception."""
PACKAGES = sorted(file.parent.relative_to(PACKAGE.parent) for file in PACKAGE.rglob("__init__.py"))


def modules_of(package: Path, name: str) -> dict[str, Path]:
    """The file of each module by dotted name, including the package itself."""
    modules = {}
    for file in package.rglob("*.py"):
        parts = file.relative_to(package).with_suffix("").parts
        modules[".".join([name, *(part for part in parts if part != "__init__")])] = file
    return modules


def imports_between(modules: dict[str, Path]) -> dict[str, set[str]]:
    """The modules that each one imports: at its top, in a function, or only for type checkers."""
    return {name: modules_imported(file, modules) - {name} for name, file in modules.items()}


def modules_imported(file: Path, modules: dict[str, Path]) -> set[str]:
    found = set()
    tree = ast.parse(file.read_text())
    for node in tree.body if file in METHODS_OF_LATER_STAGES else ast.walk(tree):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            # `from a.b import c` is the module a.b.c if it exists, otherwise a name in a.b.
            names = {f"{node.module}.{alias.name}" for alias in node.names}
            found |= names if names <= modules.keys() else names | {str(node.module)}
    return found & modules.keys()


def circle_in(imports: dict[str, set[str]]) -> list[str]:
    """The modules of one circle of imports, ending with the first one; empty if there is no circle."""
    try:
        TopologicalSorter(imports).prepare()
    except CycleError as error:
        return list(error.args[1])
    return []


@pytest.mark.parametrize("package", PACKAGES, ids=str)
def test_modules_of_a_package_do_not_import_each_other_in_a_circle(package: Path) -> None:
    modules = modules_of(PACKAGE.parent / package, ".".join(package.parts))
    # The names for users are imported on first use.
    modules.pop("rtclab", None)
    assert circle_in(imports_between(modules)) == []


@pytest.mark.parametrize(
    "text",
    [
        "from many.b import thing",
        "def late():\n    from many.b import thing",
        "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from many import b",
        "import many.b",
    ],
    ids=["at the top", "in a function", "for types", "whole module"],
)
def test_a_circle_is_found_wherever_the_import_is(tmp_path: Path, text: str) -> None:
    (tmp_path / "c").mkdir()
    texts = {"__init__": "", "a": text, "b": "from many.c.d import thing", "c/__init__": "", "c/d": ""}
    for name, content in texts.items():
        (tmp_path / f"{name}.py").write_text(content)
    assert circle_in(imports_between(modules_of(tmp_path, "many"))) == []
    (tmp_path / "c" / "d.py").write_text("from many import a")
    found = circle_in(imports_between(modules_of(tmp_path, "many")))
    assert set(found) == {"many.a", "many.b", "many.c.d"}
