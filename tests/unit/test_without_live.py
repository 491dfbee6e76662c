"""Where live calls cannot run, the rest works: without the packages of the extra `live`, and not on Linux."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

NO_PACKAGES = """
import sys
for name in ("aiohttp", "aiortc", "av", "psutil", "pyroute2"):
    sys.modules[name] = None
"""
NOT_LINUX = (
    """
import asyncio, bokeh, concurrent.futures.process, jinja2, multiprocessing.connection, numpy, os, polars
import pydantic, rich.console, rich.progress, rich.table, sqlite3, subprocess, sysconfig, typer, webbrowser
import rtclab._native
"""
    + NO_PACKAGES
    + """
sys.platform = "darwin"
for name in ("pidfd_open", "sched_getaffinity"):
    delattr(os, name)
del rtclab._native.Emulator, rtclab._native.LiveMonitor
"""
)
"""What other packages need is imported before the system seems to be another one."""


def rtclab(prelude: str, here: Path, *arguments: str) -> tuple[int, str]:
    code = f"{prelude}\nfrom rtclab.cli import main\nmain({arguments!r})"
    done = subprocess.run([sys.executable, "-c", code], cwd=here, capture_output=True, text=True, check=False)
    return done.returncode, done.stdout + done.stderr


def test_the_doctor_works_without_the_packages_and_names_them(tmp_path: Path) -> None:
    _, said = rtclab(NO_PACKAGES, tmp_path, "doctor")
    assert "pip install aiohttp av psutil pyroute2" in " ".join(said.split())
    status, said = rtclab(NO_PACKAGES, tmp_path, "run", "first-call", "--backend", "live")
    assert status == 1
    assert "python packages: missing: aiohttp, av, psutil, pyroute2" in said
    status, said = rtclab(NO_PACKAGES, tmp_path, "link", "--", "true")
    assert status == 1
    assert "needs the Python module `pyroute2`" in said


def test_only_what_needs_linux_fails_on_another_system(tmp_path: Path) -> None:
    status, said = rtclab(NOT_LINUX, tmp_path, "run", "first-call", "--repeats", "1", "--duration", "2s")
    assert status == 0, said
    status, said = rtclab(NOT_LINUX, tmp_path, "doctor")
    assert status == 0, said
    assert "need Linux" in said
    commands = [
        ["run", "first-call", "--backend", "live"],
        ["link", "--", "true"],
        ["monitor", "--live", "lo"],
    ]
    for command in commands:
        status, said = rtclab(NOT_LINUX, tmp_path, *command)
        assert status == 1, said
        assert "need Linux; this system is" in said
