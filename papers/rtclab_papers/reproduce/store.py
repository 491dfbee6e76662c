"""Finished repeats on disk: a JSON file per repeat, and full traces where figures need them.

A file is written when its repeat is finished and is never changed, so finished repeats survive any crash.
When the scenario, the code or the measures change, so does the fingerprint. The repeats of the fingerprints
used last are kept, because several checkouts may share a directory.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from math import nan
from pathlib import Path

from rtclab.fingerprint import code_digest
from rtclab.scenario import Scenario
from rtclab.trace import MANIFEST, Trace, subdirectories, write_bytes
from rtclab_papers.reproduce.measures import MEASURING, Values

KEPT = 3
"""Number of fingerprints of a scenario whose repeats are kept: those used last."""


@dataclass(frozen=True)
class Store:
    """The finished repeats of a scenario below the directory ``out``."""

    out: Path
    scenario: str
    fingerprint: str

    @property
    def path(self) -> Path:
        """Directory of the values of repeats."""
        return self.out / "repeats" / self.scenario / self.fingerprint

    def trace_path(self, repeat: int) -> Path:
        """Directory of the full trace of a repeat, which exists only if it was kept."""
        return self.out / "traces" / self.scenario / self.fingerprint / f"repeat-{repeat}"

    def read(self) -> dict[int, Values]:
        """The values of finished repeats by number. Files truncated by a system crash are ignored."""
        finished = {}
        for file in self.path.glob("*.json"):
            try:
                finished[int(file.stem)] = json.loads(file.read_bytes())
            except json.JSONDecodeError:
                continue
        return dict(sorted(finished.items()))

    def add(self, repeat: int, values: Values) -> None:
        """Saves the values of a finished repeat atomically."""
        self.path.mkdir(parents=True, exist_ok=True)
        content = json.dumps(values, separators=(",", ":")).encode()
        write_bytes(self.path / f"{repeat}.json", content)

    def add_time(self, repeat: int, processor_s: float) -> None:
        """Saves the processor time in s that a finished repeat took."""
        write_bytes(self.path / f"{repeat}.time", f"{processor_s:.6f}".encode())

    def processor_s(self) -> float:
        """Processor time in s that the finished repeats took; NaN if it is not known of one of them."""
        times = [self.path / f"{repeat}.time" for repeat in self.read()]
        return sum(float(file.read_text() or nan) if file.exists() else nan for file in times)

    def delete_unused(self) -> None:
        """Marks this fingerprint as used, and deletes values and full traces of all but the last ``KEPT``."""
        self.path.mkdir(parents=True, exist_ok=True)
        os.utime(self.path)
        known = sorted(subdirectories(self.path.parent), key=lambda one: one.stat().st_mtime_ns)
        kept = {one.name for one in known[-KEPT:]}
        for place in (self.path.parent, self.trace_path(0).parent.parent):
            for other in subdirectories(place):
                if other.name not in kept:
                    shutil.rmtree(other, ignore_errors=True)

    def traces(self, repeats: int) -> list[Trace]:
        """The full traces of the first repeats, without those that were not kept."""
        return [Trace(self.trace_path(repeat)) for repeat in range(repeats) if self.has_trace(repeat)]

    def has_trace(self, repeat: int) -> bool:
        """Whether the full trace of a repeat was kept."""
        return (self.trace_path(repeat) / MANIFEST).is_file()


def fingerprint(scenario: Scenario, measures: Sequence[str]) -> str:
    """A hash that changes if repeats of the scenario could have other results or are measured differently."""
    digest = hashlib.sha256(code_digest(MEASURING).encode())
    digest.update(scenario.model_dump_json(exclude={"title", "source", "repeats"}).encode())
    digest.update(" ".join(measures).encode())
    return digest.hexdigest()[:16]
