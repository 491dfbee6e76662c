"""The digest of the code: it changes with every module that decides what is simulated and measured."""

from __future__ import annotations

import ast
from pathlib import Path

from rtclab import fingerprint

DECIDES_NOTHING = {
    "experiment/conditions": "a condition has the digest of its scenario",
    "experiment/fields": "values of varied fields are in the scenario of each condition",
    "experiment/store": "it keeps what was measured",
    "experiment/targets": "it writes notes for people",
    "backend/__init__": "it imports names on first use",
    "backend/sampler": "it shows people what happens",
    "backend/taking_turns": "it locks the machine for live calls",
}
"""Modules that repeats pass through and that are not in the digest, with the reason."""


def imported(file: Path) -> set[Path]:
    """The files of rtclab that a module imports when it is imported."""
    found = set()
    for node in ast.parse(file.read_text()).body:
        if isinstance(node, ast.ImportFrom) and str(node.module).startswith("rtclab."):
            parts = str(node.module).split(".")[1:]
            found.add(fingerprint.PACKAGE.joinpath(*parts).with_suffix(".py"))
            found.add(fingerprint.PACKAGE.joinpath(*parts, "__init__.py"))
            found |= {fingerprint.PACKAGE.joinpath(*parts, f"{name.name}.py") for name in node.names}
    return {file for file in found if file.is_file()}


def test_every_module_between_a_task_and_its_results_is_in_the_digest() -> None:
    known, left = set(), {fingerprint.PACKAGE / "experiment" / "work.py"}
    while left:
        file = left.pop()
        known.add(file)
        left |= imported(file) - known
    names = {
        file.relative_to(fingerprint.PACKAGE).with_suffix("").as_posix(): file
        for file in known
        if file.parent.name in ("experiment", "backend")
    }
    missing = {name for name, file in names.items() if file not in fingerprint.files()}
    assert "experiment/draws" in names
    assert missing - {"experiment/__init__"} == DECIDES_NOTHING.keys()
