"""Scripts without a guard: processes that they start would run them again."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

POOL = """
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
import rtclab
{guard}
    with ProcessPoolExecutor(2, mp_context=get_context("spawn")) as executor:
        vary = {{"link.up.loss": ["0 %", "1 %"]}}
        print(rtclab.sweep("first-call", vary, executor=executor, repeats=1).finished)
"""
ARENA = """
import rtclab
{guard}
    print(rtclab.arena(["goog-cc"], suite="suite.toml", repeats=1, jobs=2, progress=False).failed)
"""
SUITE = """
[cases.one]
scenario = "first-call"
set = { duration = "5 s" }
"""


def run(text: str, guard: str, directory: Path) -> subprocess.CompletedProcess[str]:
    (directory / "script.py").write_text(text.format(guard=guard))
    (directory / "suite.toml").write_text(SUITE)
    return subprocess.run(
        [sys.executable, "script.py"], cwd=directory, capture_output=True, text=True, check=False
    )


def test_a_pool_of_processes_needs_a_guarded_script(tmp_path: Path) -> None:
    refused = run(POOL, "if True:", tmp_path)
    assert refused.stderr.splitlines()[-2:] == [
        f"rtclab.errors.BadInput: executor: its processes import {tmp_path / 'script.py'}, "
        "which would run again in each of them",
        '  hint: put what the script runs below `if __name__ == "__main__":`',
    ]
    assert not (tmp_path / "runs" / "first-call-sweep-1").exists()
    guarded = run(POOL, 'if __name__ == "__main__":', tmp_path)
    assert guarded.stdout == "2\n", guarded.stderr


def test_an_arena_needs_no_guard(tmp_path: Path) -> None:
    for guard in ("if True:", "if __name__ == '__main__':"):
        done = run(ARENA, guard, tmp_path)
        assert done.returncode == 0, done.stderr
