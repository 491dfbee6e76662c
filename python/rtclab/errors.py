"""Errors. Their messages tell a user what is wrong, which value, and what was expected."""

from __future__ import annotations

import errno
import platform
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

__all__ = [
    "BackendUnavailable",
    "BadInput",
    "CallFailed",
    "DiskFull",
    "FieldError",
    "FieldErrors",
    "LaboratoryFailed",
    "OtherSchema",
    "Problem",
    "RtclabError",
    "ScenarioError",
    "TraceError",
    "UnsupportedScenario",
    "is_disk_full",
    "need_linux",
    "reason_of",
    "with_hint",
]


SEE_DOCTOR = "`rtclab doctor` says how to install what is missing"
"""The hint about anything that live calls lack on a machine."""


class RtclabError(Exception):
    """Base class of all errors that are printed without a traceback.

    ``hint`` says what to do about the error and is printed on a separate line.
    ``exit_status`` is the exit status of the command line: 2 for bad input, 1 for a failed run.
    """

    exit_status = 1

    def __init__(self, message: str, *, hint: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint

    def __str__(self) -> str:
        return with_hint(self.message, self.hint)

    def __reduce__(self) -> tuple[Any, ...]:
        """Allows errors to cross processes, whatever the arguments of their constructors are."""
        return _restored, (type(self), self.args, self.__dict__)


def _restored(kind: type[RtclabError], args: tuple[Any, ...], state: dict[str, Any]) -> RtclabError:
    error = kind.__new__(kind, *args)
    error.__dict__.update(state)
    return error


class BadInput(RtclabError):
    """Invalid input from the user: a name, a file or an option."""

    exit_status = 2


@dataclass(frozen=True)
class Problem:
    """One problem in a scenario: the field (``link.up.capacity``), what is wrong, and what to do about it.

    ``origin`` is the file or option that sets the field, if it differs from the origin of the whole error.
    """

    field: str
    message: str
    hint: str | None = None
    origin: str | None = None


class ScenarioError(BadInput):
    """A scenario is invalid. The message lists every problem found, one per line.

    ``origin`` is the file or command line option that the fields belong to.
    """

    def __init__(self, origin: str, problems: list[Problem]) -> None:
        self.origin = origin
        self.problems = problems
        super().__init__("\n".join(self._line(problem) for problem in problems))

    def _line(self, problem: Problem) -> str:
        origin = problem.origin or self.origin
        where = f"{origin}: {problem.field}" if problem.field else origin
        return with_hint(f"{where}: {problem.message}", problem.hint)


class UnsupportedScenario(BadInput):
    """The backend cannot run this scenario. ``field`` is the field that it does not support."""

    def __init__(self, field: str, message: str, *, hint: str | None = None) -> None:
        super().__init__(f"{field}: {message}", hint=hint)
        self.field = field


class TraceError(BadInput):
    """A run or trace does not exist, or does not follow the trace contract."""


class OtherSchema(TraceError):
    """A run or trace follows another version of the trace contract."""


class BackendUnavailable(RtclabError):
    """This machine lacks something that the backend needs, such as a browser, namespaces or a module."""


class CallFailed(RtclabError):
    """The call failed: a browser died or never connected, or its page reported an error."""


class LaboratoryFailed(RtclabError):
    """The laboratory failed, not the call: the emulator ended, or the machine was suspended."""


class DiskFull(RtclabError):
    """No disk space is left for writing ``path``."""

    def __init__(self, path: Path) -> None:
        super().__init__(f"{path}: no space left on the disk", hint="free some disk space")
        self.path = path


class FieldError(ValueError):
    """A value in a scenario is invalid. Validators raise it, and it becomes a :class:`Problem`.

    ``key`` is the key below the validated field to which the value belongs, if any.
    """

    def __init__(self, message: str, *, hint: str | None = None, key: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        self.key = key


class FieldErrors(ValueError):
    """Several :class:`FieldError` of one table."""

    def __init__(self, errors: list[FieldError]) -> None:
        super().__init__("; ".join(error.message for error in errors))
        self.errors = errors


def with_hint(message: str, hint: str | None) -> str:
    """The message, followed by a line with the hint if there is one."""
    return f"{message}\n  hint: {hint}" if hint else message


def reason_of(error: Exception) -> str:
    """The reason of a failure for a manifest: the message, with the type of an unexpected error before it."""
    return str(error) if isinstance(error, RtclabError) else f"{type(error).__name__}: {error}"


def need_linux(what: str) -> None:
    """Refuses what the simulator-only builds for other systems lack. ``what`` is in the plural.

    Raises:
        BackendUnavailable: this system is not Linux.
    """
    if sys.platform != "linux":
        raise BackendUnavailable(f"{what} need Linux; this system is {platform.system()}")


def is_disk_full(error: OSError) -> bool:
    """Whether the error means that the disk is full or the quota is used up."""
    return error.errno in (errno.ENOSPC, errno.EDQUOT)
