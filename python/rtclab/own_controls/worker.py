"""The process in which congestion controls of the user's own run.

``python -m rtclab.own_controls.worker FD`` reads calls from a socket and answers them, one after another. A
control that never answers is interrupted, too much memory is refused, Python starts no program, and what is
printed is kept up to a limit. All this is against mistakes: a control that wants to can get around it.
"""

from __future__ import annotations

import faulthandler
import io
import os
import signal
import sys
from collections.abc import Callable, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import partial
from multiprocessing.connection import Connection
from pathlib import Path
from types import FrameType
from typing import Any, NoReturn

from rtclab import _native
from rtclab.control import Bounds, explain
from rtclab.errors import RtclabError
from rtclab.own_controls import loading
from rtclab.own_controls.reading import recording, users_modules
from rtclab.scenario.own_control import OwnControl

ANSWER_S = int(os.environ.get("RTCLAB_ANSWER_S", "10"))
"""A method that takes longer than this is interrupted; three times as long, and the process ends."""
MEMORY_BYTES = 2 * 2**30
"""Memory that a control may use."""
PRINTED = 4000
"""Number of characters that are kept of what a run prints."""
STDERR = 2
"""File descriptor of what the caller reads if this process dies."""
STARTING = (
    *("os.fork", "os.forkpty", "os.posix_spawn", "os.exec", "os.system", "subprocess.Popen", "pty.spawn"),
)
"""Audit events of processes that begin."""


class NeverAnswers(BaseException):
    """A method has not returned. It is no Exception, so that few controls catch it."""


class OutputKeeper(io.TextIOBase):
    """Keeps the beginning of what is printed, and counts the rest."""

    def __init__(self) -> None:
        self._kept, self._size = "", 0

    def write(self, text: str) -> int:
        """Keeps a text up to the limit, and counts the rest of it."""
        self._size += len(text)
        self._kept += text[: max(PRINTED - len(self._kept), 0)]
        return len(text)

    def take(self) -> str:
        """What was printed since the last time."""
        more = self._size - len(self._kept)
        taken = self._kept + (f"\n… and {more:,} more characters\n" if more else "")
        self._kept, self._size = "", 0
        return taken


class CallTimer:
    """Interrupts a method that takes too long. It is called every second by a timer."""

    def __init__(self) -> None:
        self._calls, self._seconds = -1, 0

    def __call__(self, number: int, frame: FrameType | None) -> None:
        """Notices whether the same method still runs as a second ago."""
        calls = _native.control_calls()
        self._seconds = self._seconds + 1 if calls == self._calls else 0
        self._calls = calls
        if self._seconds >= ANSWER_S:
            raise NeverAnswers(f"it has not answered for {ANSWER_S} s")

    @contextmanager
    def watching(self) -> Any:
        """Interrupts a method that takes too long in the code inside."""
        self._calls, self._seconds = -1, 0
        signal.setitimer(signal.ITIMER_REAL, 1, 1)
        try:
            yield
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)


def loaded(controls: Sequence[OwnControl], seed: int) -> list[loading.Factory]:
    """Loads controls; ends the process if that takes too long and cannot be interrupted.

    Afterwards the native side watches each call.
    """
    faulthandler.dump_traceback_later(3 * ANSWER_S, exit=True, file=STDERR)
    try:
        return loading.factories(controls, seed)
    finally:
        faulthandler.cancel_dump_traceback_later()


def check(controls: Sequence[OwnControl]) -> None:
    """Loads controls and makes an instance of each."""
    alone = list({control.key: control for control in (replace(one, owner="") for one in controls)}.values())
    for name, _, create in loaded(alone, 0):
        try:
            create(Bounds())
        except RtclabError:
            raise
        except Exception as error:
            raise RtclabError(f"{name}: {explain(error)}") from error


def _simulate(name: str, controls: Sequence[OwnControl], config: str, seed: int) -> Any:
    """Calls a native function that simulates."""
    return getattr(_native, name)(config, controls=loaded(controls, seed))


def _replay(name: str, controls: Sequence[OwnControl], *arguments: Any) -> Any:
    """Calls a native function that replays a recording."""
    return getattr(_native, name)(*arguments, loaded(controls, 0))


FUNCTIONS: dict[str, Callable[..., Any]] = {
    "check": check,
    **{name: partial(_simulate, name) for name in ("simulate", "simulate_captured")},
    **{name: partial(_replay, name) for name in ("replay_log", "replay_arrivals")},
}


def answer(
    watch: CallTimer, name: str, controls: Sequence[OwnControl], arguments: tuple[Any, ...]
) -> tuple[str, Any]:
    """The result of a call, or the text of its error."""
    try:
        with watch.watching():
            return "done", FUNCTIONS[name](controls, *arguments)
    except (RtclabError, ValueError) as error:
        return "failed", loading.without_owners(str(error), controls)
    except BaseException as error:
        allow_memory()
        return "failed", explain(error)


def forget_modules(controls: Sequence[OwnControl]) -> None:
    """Has the modules that controls loaded loaded anew, because their files may have changed."""
    for module, file in users_modules(controls).items():
        if file.endswith(".py"):
            del sys.modules[module]


def limit_memory() -> None:
    """Limits the memory of this process to what it has and :data:`MEMORY_BYTES`."""
    with suppress(ImportError, OSError, ValueError):
        import resource

        has_pages = int(Path("/proc/self/statm").read_text().split()[0])
        most = has_pages * resource.getpagesize() + MEMORY_BYTES
        resource.setrlimit(resource.RLIMIT_AS, (most, resource.getrlimit(resource.RLIMIT_AS)[1]))


def allow_memory() -> None:
    """Ends the limit, so that an error can be told."""
    with suppress(ImportError, OSError, ValueError):
        import resource

        hard = resource.getrlimit(resource.RLIMIT_AS)[1]
        resource.setrlimit(resource.RLIMIT_AS, (hard, hard))


def refuse_programs() -> None:
    """Refuses Python's ways to start processes, which would not end with the run and make results vary.

    ``ctypes`` can still start some.
    """

    def refuse(*_: Any) -> NoReturn:
        raise PermissionError("a congestion control cannot start processes")

    def audit(event: str, _: tuple[Any, ...]) -> None:
        if event in STARTING:
            refuse()

    sys.addaudithook(audit)
    with suppress(ImportError):
        import _posixsubprocess

        _posixsubprocess.fork_exec = refuse


def main() -> None:
    """Answers calls until the other side is gone."""
    connection = Connection(int(sys.argv[1]))
    printed, watch = OutputKeeper(), CallTimer()
    sys.stdout = sys.stderr = printed
    faulthandler.enable(STDERR)
    sys.dont_write_bytecode = True
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGALRM, watch)
    refuse_programs()
    with suppress(ImportError, OSError, ValueError):
        import resource

        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    _native.end_when_stuck(3 * ANSWER_S)
    with suppress(EOFError, OSError):
        while True:
            directory, name, controls, *arguments = connection.recv()
            os.chdir(directory)
            forget_modules(controls)
            with recording(controls, all_threads=True) as recorder:
                limit_memory()
                status, value = answer(watch, name, controls, tuple(arguments))
                allow_memory()
                recorder.add(*users_modules(controls).values())
            connection.send((status, value, printed.take(), recorder.files))
    os._exit(0)


if __name__ == "__main__":
    main()
