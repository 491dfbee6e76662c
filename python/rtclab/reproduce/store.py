"""Finished repeats on disk: one JSON file per repeat, and whole traces where figures need them.

A file is written when its repeat is finished and never changed, so whatever ends the program leaves all
finished repeats. Those of another fingerprint (scenario, version, code or what is measured changed) are
forgotten.
"""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from rtclab.fingerprint import PACKAGE, code_digest
from rtclab.reproduce.measures import Values
from rtclab.scenario import Scenario
from rtclab.trace import Trace
from rtclab.trace.files import replace_file, write_bytes
from rtclab.trace.trace import MANIFEST

MEASURING = (PACKAGE / "reproduce" / "measures.py",)
"""Code of this package that takes part in measuring a repeat."""


@dataclass(frozen=True)
class Store:
    """What is known of one scenario below the directory ``out``."""

    out: Path
    scenario: str
    fingerprint: str

    @property
    def path(self) -> Path:
        """The directory of the values of repeats."""
        return self.out / "repeats" / self.scenario / self.fingerprint

    def trace_path(self, repeat: int) -> Path:
        """Where the whole trace of a repeat is, if it was kept."""
        return self.out / "traces" / self.scenario / self.fingerprint / f"repeat-{repeat}"

    def read(self) -> dict[int, Values]:
        """The finished repeats by number; a file that a crash of the system cut off does not count."""
        finished = {}
        for file in self.path.glob("*.json"):
            try:
                finished[int(file.stem)] = json.loads(file.read_bytes())
            except json.JSONDecodeError:
                continue
        return dict(sorted(finished.items()))

    def add(self, repeat: int, values: Values) -> None:
        """Keeps a finished repeat, whole or not at all."""
        self.path.mkdir(parents=True, exist_ok=True)
        content = json.dumps(values, separators=(",", ":")).encode()
        replace_file(self.path / f"{repeat}.json", lambda file: write_bytes(file, content))

    def forget_others(self) -> None:
        """Removes what was kept under other fingerprints: values and whole traces."""
        for kept in (self.path, self.trace_path(0).parent):
            for other in kept.parent.glob("*"):
                if other != kept:
                    shutil.rmtree(other, ignore_errors=True)

    def traces(self, repeats: int) -> list[Trace]:
        """The whole traces of the first repeats, as far as there are any."""
        return [Trace(self.trace_path(repeat)) for repeat in range(repeats) if self.has_trace(repeat)]

    def has_trace(self, repeat: int) -> bool:
        """Whether the whole trace of a repeat was kept."""
        return (self.trace_path(repeat) / MANIFEST).is_file()


def fingerprint(scenario: Scenario, measures: Sequence[str]) -> str:
    """Changes whenever a repeat of the scenario may come out differently, or is measured differently."""
    digest = hashlib.sha256(code_digest(MEASURING).encode())
    digest.update(scenario.model_dump_json(exclude={"title", "source", "repeats"}).encode())
    digest.update(" ".join(measures).encode())
    return digest.hexdigest()[:16]
