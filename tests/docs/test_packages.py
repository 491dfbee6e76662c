"""Examples that need more than rtclab say what to install, and those that start processes work as scripts."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
import tomllib
from importlib.metadata import packages_distributions
from pathlib import Path
from typing import Any

import pytest

from examples import Example, examples_of

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
PROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
OURS = {"rtclab", "rtclab_papers"}
METHODS = {"to_pandas": ("pandas", "pyarrow")}
"""Methods of data frames that need further packages."""
STARTS_PROCESSES = re.compile(r"executor=")


def name_of(requirement: str) -> str:
    """The name of a package in a requirement such as ``numpy>=2.0``."""
    match = re.match(r"[\w.-]+", requirement)
    assert match is not None
    return match[0].lower()


ALWAYS = {name_of(one) for one in PROJECT["dependencies"]}
EXTRAS = {
    extra: {name_of(one) for one in needed} for extra, needed in PROJECT["optional-dependencies"].items()
}


def examples(page: Path) -> list[Example]:
    return [one for one in examples_of(page) if one.language in ("python", "pycon") and not one.file]


def packages_of(example: Example) -> set[str]:
    """The packages, beside rtclab and what comes with it, that an example imports."""
    lines = [line[4:] if example.language == "pycon" else line for line in example.text.splitlines()
             if example.language == "python" or line.startswith((">>> ", "... "))]  # fmt: skip
    found: set[str] = set()
    for node in ast.walk(ast.parse("\n".join(lines))):
        if isinstance(node, ast.Import):
            found |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            found.add(node.module.partition(".")[0])
    beside = {name for name in found - OURS - sys.stdlib_module_names if not Path(f"{name}.py").exists()}
    written = {Path(one.file).stem for page in PAGES for one in examples_of(page) if one.file}
    distributions = packages_distributions()
    return {distributions.get(name, [name])[0].lower() for name in beside - written} - ALWAYS


def named(page: str) -> set[str]:
    """The packages that a page says to install, by their names or by an extra."""
    commands = re.findall(r"pip install ([^`\n]*)", page)
    words = {word for command in commands for word in re.findall(r"[\w.-]+", command)}
    extras = {extra for command in commands for extra in re.findall(r"\[(\w+)\]", command)}
    return words | {package for extra in extras for package in EXTRAS[extra]} | extras


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_a_page_names_the_packages_that_its_examples_need(page: Path) -> None:
    text = page.read_text()
    needed = {package for example in examples(page) for package in packages_of(example)}
    needed |= {one for method, packages in METHODS.items() if f".{method}(" in text for one in packages}
    assert needed <= named(text)


SCRIPTS = [one for page in PAGES for one in examples(page) if STARTS_PROCESSES.search(one.text)]


def test_there_are_examples_that_start_processes() -> None:
    assert len(SCRIPTS) > 1


@pytest.mark.parametrize("example", SCRIPTS, ids=str)
def test_an_example_that_starts_processes_is_a_script(example: Example, tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(example.text)
    done = subprocess.run(
        [sys.executable, str(script)], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "Traceback" not in done.stderr
