"""What can go wrong, each with the sentence that a user needs: what, which value, what was expected."""

from __future__ import annotations

import errno
from dataclasses import dataclass
from pathlib import Path


class RtclabError(Exception):
    """Base of all errors that are printed without a traceback.

    ``hint`` says what to do about it and is printed on a line of its own.
    ``exit_status`` is what the command line ends with: 2 for bad input, 1 for a run that failed.
    """

    exit_status = 1

    def __init__(self, message: str, *, hint: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint

    def __str__(self) -> str:
        return with_hint(self.message, self.hint)


class BadInput(RtclabError):
    """The user's input cannot be used: a name, a file, an option."""

    exit_status = 2


@dataclass(frozen=True)
class Problem:
    """One thing wrong in a scenario: where (``link.up.capacity``), what, and what to do.

    ``origin`` is the file with the field, where it is another than that of the whole error.
    """

    field: str
    message: str
    hint: str | None = None
    origin: str | None = None


class ScenarioError(BadInput):
    """A scenario cannot be read; every problem found is listed, one per line.

    ``origin`` is the file, or the command line option, that the fields belong to.
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
    """The backend cannot run this scenario; ``field`` is the part that it cannot do."""

    def __init__(self, field: str, message: str, *, hint: str | None = None) -> None:
        super().__init__(f"{field}: {message}", hint=hint)
        self.field = field


class TraceError(BadInput):
    """A run or trace is not there, or does not hold what the trace contract says."""


class BackendUnavailable(RtclabError):
    """This machine lacks something that the backend needs: a browser, namespaces, a module."""


class CallFailed(RtclabError):
    """The call did not work: a browser died, never connected, or its page reported an error."""


class DiskFull(RtclabError):
    """No space is left where ``path`` was to be written."""

    def __init__(self, path: Path) -> None:
        super().__init__(f"{path}: no space left on the disk", hint="free some space there")
        self.path = path


class FieldError(ValueError):
    """A value inside a scenario is wrong; raised by validators and turned into a :class:`Problem`.

    ``key`` names a key below the field under validation, if the value belongs to one.
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
    """The message, and below it the hint if there is one."""
    return f"{message}\n  hint: {hint}" if hint else message


def reason_of(error: Exception) -> str:
    """Why something failed, as it is noted in runs: without the type where the message was written for users."""
    return str(error) if isinstance(error, RtclabError) else f"{type(error).__name__}: {error}"


def is_disk_full(error: OSError) -> bool:
    """Whether an error of the operating system says that no space is left."""
    return error.errno in (errno.ENOSPC, errno.EDQUOT)
