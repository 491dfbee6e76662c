"""The repeats of one scenario on one backend: their outcomes and their traces."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from rtclab.trace.manifest import Machine, Repeat
from rtclab.trace.trace import MANIFEST, Trace
from rtclab.trace.window import OpenWindow, closed


@dataclass(frozen=True)
class Run:
    """The repeats of one scenario on one backend, from which metrics and reports are made.

    Attributes:
        path: directory of the repeats and of the report.
        name: name for readers, such as ``first-call-sim-1``.
        backend: ``sim``, ``live``, ``capture`` or ``log``.
        scenario: the scenario as it ran, with all changes, as JSON values.
        repeats: the outcome of each repeat that ended, in order.
        planned: number of repeats that the run should have. A run that was killed has fewer outcomes.
        versions: versions of rtclab and of what it used.
        machine: the computer that made the run, if known.
        traced: the repeats that leave traces; None for all.
        window: begin and end in s of the part of each repeat that is shown; without an end it lasts until the
            repeat ends. None for all of the time.
    """

    path: Path
    name: str
    backend: str
    scenario: Mapping[str, Any]
    repeats: list[Repeat]
    planned: int
    versions: Mapping[str, str] = field(default_factory=dict)
    machine: Machine | None = None
    traced: Collection[int] | None = None
    window: OpenWindow | None = None
    _opened: dict[int, Trace] = field(default_factory=dict, repr=False, compare=False)

    @property
    def finished(self) -> int:
        """Number of repeats that finished, out of ``planned``."""
        return sum(entry.status == "finished" for entry in self.repeats)

    @property
    def unfinished(self) -> int:
        """Number of planned repeats that say nothing about the call yet.

        They have not run, or were interrupted, or the laboratory failed. Resuming the run runs them.
        """
        return self.planned - sum(entry.about_the_call for entry in self.repeats)

    @property
    def flows(self) -> list[str]:
        """Names of the flows of media and data in any repeat, in order of first appearance."""
        return list(dict.fromkeys(flow for trace in self.traces for flow in trace.flows))

    @cached_property
    def traces(self) -> list[Trace]:
        """The traces of the finished repeats, in order, without repeats that leave no traces.

        Raises:
            TraceError: a trace cannot be read.
        """
        finished = [entry.repeat for entry in self.repeats if entry.status == "finished"]
        return [self.trace(repeat) for repeat in finished if self.traced is None or repeat in self.traced]

    def trace(self, repeat: int) -> Trace:
        """The trace of one repeat, over the run's window. It is opened once, so that cached values are kept.

        Raises:
            TraceError: this repeat has no trace that can be read.
        """
        if repeat not in self._opened:
            self._opened[repeat] = Trace(self.repeat_path(repeat))
        trace = self._opened[repeat]
        return trace if self.window is None else trace.within(closed(self.window, trace.end_s))

    def has_trace(self, repeat: int) -> bool:
        """Whether the trace of a repeat was kept."""
        return repeat in self._opened or (self.repeat_path(repeat) / MANIFEST).is_file()

    def repeat_path(self, repeat: int) -> Path:
        """The directory of the trace of a repeat."""
        return self.path / f"repeat-{repeat}"
