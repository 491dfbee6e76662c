"""What is measured in a repeat: rtclab's metrics, or values of a function of one's own."""

from __future__ import annotations

import hashlib
import importlib
import inspect
import socket
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cache
from math import isnan
from pathlib import Path
from types import ModuleType

from rtclab.backend.sim_batch import own_name
from rtclab.errors import BadInput, RtclabError, reason_of
from rtclab.experiment.measure import NOT_MEASURED, measured, metrics_digest
from rtclab.experiment.store import About, Number, Result
from rtclab.metrics import METRICS
from rtclab.trace import OpenWindow, Repeat, Trace, closed


class OtherVersion(RtclabError):
    """A worker runs another build of rtclab than the caller, so its results may differ."""


Measure = Callable[[Trace, tuple[str, ...]], Iterable[Number]]
"""Measures values of a trace, given the names of what to measure. NaN stands for an unknown value."""


@dataclass(frozen=True)
class Definitions:
    """The definitions of what an experiment measures.

    A store names its function. Running repeats imports it, because then it is the caller's own; reading a
    store imports nothing, because stores come from anywhere.

    Attributes:
        function: a function of one's own as ``module:name``; empty for rtclab's metrics.
        window: the window of time to which metrics are limited; None for all.
    """

    function: str = ""
    window: OpenWindow | None = None

    @classmethod
    def of(cls, about: About) -> Definitions:
        """The definitions of an experiment."""
        return cls(about.measure, about.window)

    @property
    def is_known(self) -> bool:
        """Whether these are metrics, or a function that this process has passed to an experiment."""
        return not self.function or self.function in _PASSED

    def check(self, names: Sequence[str]) -> None:
        """Checks that this process has the definitions.

        Raises:
            OtherVersion: it has not one of the metrics.
            BadInput: it cannot import the function.
        """
        if self.function:
            function_named(self.function)
            return
        for name in names:
            if name not in METRICS:
                raise OtherVersion(
                    f"the worker on {socket.gethostname()} has no metric `{name}`, which the caller has",
                    hint="have every worker import the module that defines it",
                )

    def values(self, outcome: Repeat, trace: Trace | None, names: Sequence[str]) -> list[Number]:
        """The values of a repeat. There may be a trace even if the call failed.

        A function of one's own has values wherever there is a trace, and metrics only of a finished repeat.
        """
        if not self.function:
            of = trace if outcome.status == "finished" else None
            if of is not None and self.window is not None:
                of = of.within(closed(self.window, of.end_s))
            chosen = [METRICS[name] for name in names]
            return measured(outcome, of, chosen, in_window=self.window is not None)
        if trace is None:
            return []
        found = function_named(self.function)(trace, tuple(names))
        return [one._replace(flow=own_name(one.flow)) for one in found if not isnan(one.value)]

    def result(self, condition: int, outcome: Repeat, trace: Trace | None, names: Sequence[str]) -> Result:
        """The outcome of a repeat with its values, or with a note that says why it could not be measured."""
        try:
            return Result(condition, outcome, self.values(outcome, trace, names), self.digest(names))
        except Exception as error:
            reasons = filter(None, [outcome.note, f"{NOT_MEASURED}{reason_of(error)}"])
            return Result(condition, replace(outcome, note="; ".join(reasons)))

    def digest(self, names: Sequence[str]) -> str:
        """Identifies the definitions: the names, and the code that computes their values."""
        if not self.function:
            return metrics_digest(names)
        known = " ".join((self.function, _code_of(function_named(self.function)), *names))
        return hashlib.sha256(known.encode()).hexdigest()[:12]


_PASSED: set[str] = set()
"""The names of the functions that this process has passed to experiments."""


def name_of(function: Measure) -> str:
    """A function as ``module:name``, by which other processes find it. From now on it is known here.

    Raises:
        BadInput: it is not found by this name, such as a lambda or a function within a function.
    """
    name = f"{function.__module__}:{function.__qualname__}"
    if getattr(sys.modules.get(function.__module__), function.__qualname__, None) is not function:
        raise BadInput(f"measure: {name} cannot be imported; expected a function of a module")
    _PASSED.add(name)
    return name


def function_named(name: str) -> Measure:
    """The function with a name as from :func:`name_of`. Its module is imported.

    Raises:
        BadInput: it cannot be imported.
    """
    module, _, function = name.partition(":")
    try:
        found: Measure = getattr(importlib.import_module(module), function)
    except (ImportError, AttributeError) as error:
        raise BadInput(
            f"measure: {name} cannot be imported: {error}", hint="install the package that has it"
        ) from None
    return found


@cache
def _code_of(function: Measure) -> str:
    """Identifies the code of a function and of the modules of its package that it uses."""
    digest = hashlib.sha256()
    for file in _sources(function.__module__):
        digest.update(file.read_bytes())
    with suppress(OSError, TypeError):  # the module of a notebook has no file
        digest.update(inspect.getsource(function).encode())
    return digest.hexdigest()


def _sources(name: str) -> list[Path]:
    """The files of a module and of all modules of its package that it uses, directly or not."""
    package, found = name.partition(".")[0], {name: sys.modules[name]}
    left = [name]
    while left:
        for used in _used(found[left.pop()]):
            if used.partition(".")[0] == package and used in sys.modules and used not in found:
                found[used] = sys.modules[used]
                left.append(used)
    files = (getattr(module, "__file__", None) for module in found.values())
    return sorted(Path(file) for file in files if file)


def _used(module: ModuleType) -> Iterator[str]:
    """The names of the modules from which a module's globals come."""
    for value in vars(module).values():
        name = value.__name__ if isinstance(value, ModuleType) else getattr(value, "__module__", None)
        if isinstance(name, str):
            yield name
