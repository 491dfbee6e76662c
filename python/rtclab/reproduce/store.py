"""Finished repeats on disk: one file of JSON lines per scenario, and whole traces where figures need them.

A line is written when its repeat is finished and never changed, so whatever ends the program leaves all
finished repeats. Lines of another fingerprint (scenario, version or code changed) are forgotten.
"""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Iterable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path

from rtclab.fingerprint import PACKAGE, code_digest
from rtclab.reproduce.measure import Values
from rtclab.scenario import Scenario
from rtclab.trace import Trace, one_after_another
from rtclab.trace.files import write_bytes
from rtclab.trace.trace import MANIFEST

MEASURE = PACKAGE / "reproduce" / "measure.py"


@dataclass(frozen=True)
class Store:
    """What is known of one scenario below the directory ``out``."""

    out: Path
    scenario: str
    fingerprint: str

    @property
    def file(self) -> Path:
        """The lines of finished repeats."""
        return self.out / "repeats" / f"{self.scenario}.jsonl"

    def trace_path(self, repeat: int) -> Path:
        """Where the whole trace of a repeat is, if it was kept."""
        return self.out / "traces" / self.scenario / self.fingerprint / f"repeat-{repeat}"

    def read(self) -> dict[int, Values]:
        """The finished repeats by number; a line that was cut off while it was written does not count."""
        if not self.file.is_file():
            return {}
        finished = {}
        for line in self.file.read_text(encoding="utf-8").splitlines():
            try:
                entry = json.loads(line)
            except json.JSONDecodeError:
                continue
            if entry["fingerprint"] == self.fingerprint:
                finished[int(entry["repeat"])] = entry["values"]
        return finished

    def add(self, finished: Iterable[tuple[int, Values]]) -> None:
        """Notes finished repeats; waits for another process that is writing the same file."""
        with self._alone(), self.file.open("a", encoding="utf-8") as file:
            file.writelines(self._line(*entry) for entry in finished)

    def _alone(self) -> AbstractContextManager[None]:
        """Keeps other processes from adding lines while the file is read and replaced."""
        self.file.parent.mkdir(parents=True, exist_ok=True)
        return one_after_another(self.file.with_suffix(".lock"))

    def _line(self, repeat: int, values: Values) -> str:
        entry = {"fingerprint": self.fingerprint, "repeat": repeat, "values": values}
        # The line before may have been cut off.
        return "\n" + json.dumps(entry, separators=(",", ":"))

    def forget_others(self) -> None:
        """Removes what was kept under other fingerprints: lines and whole traces."""
        for kept in self.trace_path(0).parent.parent.glob("*"):
            if kept.name != self.fingerprint:
                shutil.rmtree(kept, ignore_errors=True)
        with self._alone():
            if not self.file.is_file():
                return
            kept_lines = "".join(self._line(*entry) for entry in sorted(self.read().items()))
            beside = self.file.with_suffix(".new")
            write_bytes(beside, kept_lines.encode())
            beside.replace(self.file)

    def traces(self, repeats: int) -> list[Trace]:
        """The whole traces of the first repeats, as far as there are any."""
        return [Trace(self.trace_path(repeat)) for repeat in range(repeats) if self.has_trace(repeat)]

    def has_trace(self, repeat: int) -> bool:
        """Whether the whole trace of a repeat was kept."""
        return (self.trace_path(repeat) / MANIFEST).is_file()


def fingerprint(scenario: Scenario, *code: Path) -> str:
    """Changes whenever a repeat of the scenario may come out differently, or is measured differently.

    ``code`` are further files that take part in measuring.
    """
    digest = hashlib.sha256(code_digest((MEASURE, *code)).encode())
    digest.update(scenario.model_dump_json(exclude={"title", "source", "repeats"}).encode())
    return digest.hexdigest()[:16]
