"""Arrows point one way: scenario -> backend -> trace -> metrics -> report, and the command line above all."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

import rtclab
import rtclab.backend.live
import rtclab.cli
import rtclab.report

PACKAGE = Path(__file__).parents[2] / "python" / "rtclab"

MAY_IMPORT: dict[str, set[str]] = {
    "__init__": set(),
    "scenarios": set(),  # servers of shipped scenarios, which know nothing of rtclab
    "terminal": set(),
    "progress": {"terminal"},
    "errors": set(),
    "arguments": {"errors"},
    "own_native": {"errors"},
    "phrases": set(),
    "processes": set(),
    "fingerprint": {"_native"},
    "plugins": {"errors"},
    "renamed": {"errors"},
    "scenario": {"errors", "arguments", "plugins"},
    "native_tables": set(),
    "control": {"_native"},
    "own_controls": {"errors", "scenario", "control", "_native"},
    "monitoring": {"errors", "native_tables", "_native"},
    "trace": {"errors", "arguments", "renamed"},
    "importers": {"errors", "arguments", "native_tables", "monitoring", "trace", "_native"},
    "backend": {
        "errors",
        "terminal",
        "native_tables",
        "scenario",
        "own_controls",
        "monitoring",
        "trace",
        "importers",
        "_native",
    },
    "linking": {"errors", "arguments", "scenario", "backend"},
    "machine": {"backend", "_native"},
    "metrics": {"errors", "renamed", "trace", "_native"},
    "experiment": {
        "errors",
        "arguments",
        "processes",
        "progress",
        "fingerprint",
        "phrases",
        "renamed",
        "scenario",
        "own_controls",
        "trace",
        "backend",
        "metrics",
    },
    "report": {"errors", "terminal", "phrases", "scenario", "monitoring", "trace", "metrics", "experiment"},
    "dashboard": {"errors", "trace", "report"},
    "replays": {
        "errors",
        "native_tables",
        "scenario",
        "own_controls",
        "importers",
        "monitoring",
        "trace",
        "metrics",
        "report",
        "_native",
    },
    "estimate": {
        "errors",
        "phrases",
        "scenario",
        "monitoring",
        "trace",
        "importers",
        "backend",
        "metrics",
        "experiment",
        "report",
    },
    "gym": {"errors", "processes", "scenario", "backend", "experiment", "trace", "_native"},
    "lab": {
        "errors",
        "arguments",
        "scenario",
        "trace",
        "backend",
        "importers",
        "metrics",
        "renamed",
        "experiment",
        "replays",
        "report",
        "dashboard",
        "estimate",
    },
    "comparing": {"errors", "arguments", "phrases", "trace", "experiment", "report", "lab"},
    "gates": {
        "errors",
        "terminal",
        "phrases",
        "scenario",
        "trace",
        "backend",
        "metrics",
        "experiment",
        "report",
    },
    "pytest_plugin": {"errors", "gates"},
    "arenas": {
        "errors",
        "arguments",
        "renamed",
        "phrases",
        "processes",
        "scenario",
        "trace",
        "backend",
        "metrics",
        "experiment",
        "report",
        "replays",
        "_native",
    },
    "remedy": {"errors", "arguments", "scenario", "trace", "experiment", "metrics", "report", "lab"},
    "cli": {
        "errors",
        "terminal",
        "progress",
        "phrases",
        "machine",
        "plugins",
        "lab",
        "linking",
        "comparing",
        "gates",
        "arenas",
        "processes",
        "remedy",
        "experiment",
        "scenario",
        "monitoring",
        "trace",
        "importers",
        "backend",
        "metrics",
        "replays",
        "report",
        "estimate",
        "_native",
    },
    "__main__": {"cli"},
}
"""For each part of the package, in order, the other parts that it may import."""

EXCEPTIONS = {
    # Imported if there is a library of the user's own.
    ("__init__", "own_native"),
    # Names for users; imported when first used.
    ("__init__", "arenas"),
    ("__init__", "comparing"),
    ("__init__", "backend"),
    ("__init__", "gates"),
    ("__init__", "lab"),
    ("__init__", "linking"),
    ("__init__", "machine"),
    ("__init__", "metrics"),
    ("__init__", "monitoring"),
    ("__init__", "remedy"),
    ("__init__", "scenario"),
    ("__init__", "experiment"),
    ("__init__", "trace"),
    # Methods of results and traces that draw, measure, try and import, which import what does it when called.
    ("experiment", "remedy"),
    ("experiment", "report"),
    ("trace", "experiment"),
    ("trace", "importers"),
    ("trace", "metrics"),
    ("trace", "report"),
}

SLOW_TO_IMPORT = {"matplotlib", "numpy", "polars", "pydantic", "scipy"}


def imports_of(file: Path) -> set[str]:
    """The parts of rtclab that a file imports, anywhere in it."""
    found = set()
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{file}: imports within rtclab are absolute"
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        else:
            continue
        found |= {name.split(".")[1] for name in names if name.startswith("rtclab.")}
    return found - {"__version__"}


def part_of(file: Path) -> str:
    return file.relative_to(PACKAGE).parts[0].removesuffix(".py")


@pytest.mark.parametrize("part", sorted({part_of(file) for file in PACKAGE.rglob("*.py")}))
def test_a_part_imports_only_parts_listed_before_it(part: str) -> None:
    for file in (file for file in PACKAGE.rglob("*.py") if part_of(file) == part):
        upwards = {
            other for other in imports_of(file) - {part} - MAY_IMPORT[part] if (part, other) not in EXCEPTIONS
        }
        assert not upwards, f"{file.relative_to(PACKAGE)} imports {', '.join(sorted(upwards))}"


def test_the_table_of_imports_allows_no_circle() -> None:
    reached: dict[str, set[str]] = {}
    for part in MAY_IMPORT:  # in order: everything that a part may import comes before it
        assert MAY_IMPORT[part] - {"_native"} <= reached.keys(), part
        reached[part] = MAY_IMPORT[part]


def test_rtclab_imports_no_distribution_that_adds_to_it() -> None:
    assert not [file for file in PACKAGE.rglob("*.py") if "rtclab_papers" in file.read_text()]


def test_metrics_know_nothing_of_backends() -> None:
    assert "backend" not in MAY_IMPORT["metrics"] | MAY_IMPORT["report"]


PROCESSES = {"concurrent.futures.process", "multiprocessing"}
DRAWING = {"bokeh", "jinja2", "matplotlib", "rtclab.report.page", "rtclab.report.runs", "scipy"}
OTHER_PAGES = {"bokeh", "matplotlib", "scipy", "rtclab.report.comparisons", "rtclab.report.sweeps"}
OTHER_COMMANDS = {
    f"rtclab.{part}" for part in ("arenas", "estimate", "gates", "importers", "remedy", "replays")
}
UNUSED = {
    "--help": {*SLOW_TO_IMPORT, *PROCESSES, *DRAWING, *OTHER_COMMANDS},
    "list": {*PROCESSES, *DRAWING, *OTHER_COMMANDS},
    "show first-call": {*PROCESSES, *DRAWING, *OTHER_COMMANDS},
    "run first-call --duration 5s": {*PROCESSES, *OTHER_PAGES, *OTHER_COMMANDS},
}
"""By command, modules that it does not need and therefore must not import, because people wait for it."""


@pytest.mark.parametrize("command", UNUSED)
def test_a_short_command_imports_no_module_that_it_does_not_need(command: str, tmp_path: Path) -> None:
    told = "import atexit, sys; atexit.register(lambda: print(*sys.modules))"
    code = f"{told}; from rtclab.cli import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", code, *command.split()],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )
    imported = set(done.stdout.splitlines()[-1].split())
    assert "rtclab.cli.app" in imported
    assert not UNUSED[command] & imported


@pytest.mark.skipif(sys.platform != "linux", reason="there are emulated links on Linux only")
def test_what_emulates_a_link_imports_no_module_that_it_does_not_need() -> None:
    """Each lab is a process of its own, which would need 50 MB and half a second more."""
    code = "import sys, rtclab.linking, rtclab.backend.live.lab.link; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    unused = {"numpy", "polars", "rtclab.lab", *PROCESSES, *DRAWING, *OTHER_COMMANDS}
    assert not unused & {*done.stdout.split()}


@pytest.mark.parametrize(
    "package",
    [rtclab, rtclab.backend, rtclab.backend.live, rtclab.cli, rtclab.report],
    ids=lambda package: package.__name__,
)
def test_a_public_name_that_is_imported_on_first_use_is_no_module(package: ModuleType) -> None:
    for name in package.__all__:
        assert not isinstance(getattr(package, name), ModuleType), name


def test_every_class_has_a_name_of_its_own() -> None:
    places: dict[str, list[str]] = {}
    for file in PACKAGE.rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.ClassDef):
                places.setdefault(node.name, []).append(f"{file.relative_to(PACKAGE)}:{node.lineno}")
    assert places
    assert {name: found for name, found in places.items() if len(found) > 1} == {}
