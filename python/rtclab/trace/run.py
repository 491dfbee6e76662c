"""All repeats of a scenario on disk."""

from __future__ import annotations

import difflib
from contextlib import AbstractContextManager
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any, Self

from rtclab.errors import TraceError
from rtclab.trace.files import new_directory, subdirectories, write_json
from rtclab.trace.lock import only_writer
from rtclab.trace.manifest import Repeat, RunManifest, read_manifest
from rtclab.trace.trace import Trace

RUN_FILE = "run.json"


class Run:
    """All repeats of a scenario on one backend: ``run.json``, and a trace of each finished repeat."""

    def __init__(self, path: Path) -> None:
        """Opens a run.

        Raises:
            TraceError: ``path`` is not a run, or one of another version. The message names file and field.
        """
        self.path = path
        self.manifest = read_manifest(path / RUN_FILE, RunManifest)
        self._opened: dict[int, Trace] = {}

    def __repr__(self) -> str:
        return f"Run({str(self.path)!r})"

    @classmethod
    def create(cls, out: Path, *, scenario: str, manifest: RunManifest) -> Self:
        """Creates the directory ``<out>/<scenario>-<backend>-<n>``, where n is one more than the largest."""
        path = new_directory(out, f"{scenario}-{manifest.backend}-")
        write_json(path / RUN_FILE, manifest.as_json())
        return cls(path)

    @classmethod
    def open(cls, name_or_path: str | Path, *, out: Path = Path("runs")) -> Self:
        """Opens a run by its path, or by its name in ``out``: ``first-call-sim-3``, or ``latest``.

        Raises:
            TraceError: there is no such run.
        """
        text = str(name_or_path)
        known = {path.name: path for path in subdirectories(out) if (path / RUN_FILE).is_file()}
        if (Path(text) / RUN_FILE).is_file():
            return cls(Path(text))
        if text in known:
            return cls(known[text])
        if text == "latest" and known:
            return cls(max(known.values(), key=lambda path: (path / RUN_FILE).stat().st_mtime_ns))
        near = difflib.get_close_matches(text, known, n=1)
        hint = f"did you mean `{near[0]}`?" if near else "make one with `rtclab run first-call`"
        raise TraceError(
            f"no run `{text}`: it is neither a directory with {RUN_FILE} nor the name of a run in {out}/",
            hint=hint,
        )

    @property
    def name(self) -> str:
        """Name of the directory, e.g. ``first-call-sim-3``."""
        return self.path.resolve().name

    @property
    def backend(self) -> str:
        """``sim`` or ``live``."""
        return self.manifest.backend

    @property
    def scenario(self) -> dict[str, Any]:
        """The scenario as it ran, with all changes, as JSON values."""
        return self.manifest.scenario

    @property
    def repeats(self) -> list[Repeat]:
        """The outcome of each repeat, in order."""
        return list(self.manifest.repeats)

    @property
    def planned(self) -> int:
        """Number of repeats that the run should have. A run that was killed has recorded fewer."""
        planned = self.scenario.get("repeats")
        return max(len(self.repeats), planned if isinstance(planned, int) else 0)

    @property
    def finished(self) -> int:
        """Number of finished repeats."""
        return sum(entry.status == "finished" for entry in self.repeats)

    @property
    def unfinished(self) -> int:
        """Number of planned repeats that say nothing about the call yet.

        They have not run, or were interrupted, or the laboratory failed. Resuming the run runs them.
        """
        return self.planned - sum(entry.about_the_call for entry in self.repeats)

    @cached_property
    def traces(self) -> list[Trace]:
        """The traces of the finished repeats, in order."""
        return [self.trace(entry.repeat) for entry in self.repeats if entry.status == "finished"]

    def trace(self, repeat: int) -> Trace:
        """The trace of one repeat. It is opened once, so that its cached values are kept.

        Raises:
            TraceError: this repeat has no trace that can be read.
        """
        if repeat not in self._opened:
            self._opened[repeat] = Trace(self.repeat_path(repeat))
        return self._opened[repeat]

    def repeat_path(self, repeat: int) -> Path:
        """The directory of the trace of a repeat."""
        return self.path / f"repeat-{repeat}"

    def writing(self) -> AbstractContextManager[None]:
        """Locks the run for writing, so that two writers cannot overwrite each other's repeats.

        Raises:
            BadInput: another process is writing to the run. The message names it.
        """
        return only_writer(self.path)

    def reload(self) -> None:
        """Reads ``run.json`` again, because another process may have changed it."""
        self.manifest = read_manifest(self.path / RUN_FILE, RunManifest)
        self._opened.clear()
        self.__dict__.pop("traces", None)

    def plan(self, repeats: int) -> None:
        """Records how many repeats the run should have."""
        if self.scenario.get("repeats") != repeats:
            scenario = {**self.scenario, "repeats": repeats}
            self.manifest = self.manifest.model_copy(update={"scenario": scenario})
            write_json(self.path / RUN_FILE, self.manifest.as_json())

    def record(self, outcome: Repeat) -> None:
        """Records the outcome of a repeat in ``run.json``, replacing an earlier outcome."""
        outcome = replace(outcome, reason=outcome.reason.strip())
        others = [entry for entry in self.repeats if entry.repeat != outcome.repeat]
        repeats = sorted([*others, outcome], key=lambda entry: entry.repeat)
        self.manifest = self.manifest.model_copy(update={"repeats": tuple(repeats)})
        self._opened.pop(outcome.repeat, None)
        self.__dict__.pop("traces", None)
        write_json(self.path / RUN_FILE, self.manifest.as_json())
