"""A digest of the code, which changes whenever simulated results may change."""

from __future__ import annotations

import hashlib
from functools import cache
from pathlib import Path

import rtclab
from rtclab import _native

__all__ = [
    "code_digest",
]

PACKAGE = Path(rtclab.__file__).parent


@cache
def code_digest(more: tuple[Path, ...] = ()) -> str:
    """SHA-256 of the version, the native module and all Python code that simulates and measures.

    ``more`` are further files to include.
    """
    digest = hashlib.sha256(rtclab.__version__.encode())
    for path in (*files(), *more):
        digest.update(path.read_bytes())
    return digest.hexdigest()


def files() -> list[Path]:
    """The native module and all Python code that simulates and measures."""
    parts = ("scenario", "trace", "metrics", "own_controls")
    own = sorted(path for part in parts for path in (PACKAGE / part).rglob("*.py"))
    names = (
        "backend/backends",
        "backend/promises",
        "backend/sim",
        "backend/sim_batch",
        "experiment/definitions",
        "experiment/draws",
        "experiment/measure",
        "experiment/work",
        "native_tables",
        "control",
    )
    return [Path(str(_native.__file__)), *own, *(PACKAGE / f"{name}.py" for name in names)]
