"""Locks for one writer at a time. The kernel releases a lock when its process ends, even if killed."""

from __future__ import annotations

import os
import socket
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from rtclab.errors import BadInput

if sys.platform == "win32":
    import msvcrt
else:
    import fcntl

LOCK_FILE = ".lock"
CHECK_INTERVAL_S = 0.2
NO_FOLLOW = getattr(os, "O_NOFOLLOW", 0)
FLAGS = os.O_RDWR | NO_FOLLOW
LOCKED_BYTE = 1 << 30
"""The byte that is locked on Windows. It is beyond the text, which other processes read."""


@contextmanager
def only_writer(place: Path) -> Iterator[None]:
    """Locks a directory, or a file that need not exist yet, for writing.

    Raises:
        BadInput: another process holds the lock. The message names the process and its machine.
    """

    def refuse(owner: str) -> None:
        raise BadInput(f"{place}: {owner} is writing here", hint="wait until it has ended, or end it")

    file = place / LOCK_FILE if place.is_dir() else place.with_name(f".{place.name}{LOCK_FILE}")
    with _locked(file, 0o644, refuse):
        yield


def has_writer(directory: Path) -> bool:
    """Whether a process holds the lock of :func:`only_writer` on a directory."""
    try:
        descriptor = os.open(directory / LOCK_FILE, os.O_RDONLY | NO_FOLLOW)
    except FileNotFoundError:
        return False
    try:
        if sys.platform == "win32":
            _lock(descriptor)  # it has no shared locks
        else:
            fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except (BlockingIOError, PermissionError):
        return True
    finally:
        os.close(descriptor)
    return False


@contextmanager
def one_after_another(file: Path, on_wait: Callable[[str], None]) -> Iterator[None]:
    """Waits until no other process holds the lock file, and locks it. Ctrl-C ends the wait.

    Processes of all users may share the file.

    Args:
        file: the lock file. It is removed in the end.
        on_wait: called before waiting, with the process to wait for and its machine.
    """
    with _locked(file, 0o666, on_wait):
        yield


@contextmanager
def _locked(file: Path, mode: int, on_wait: Callable[[str], None]) -> Iterator[None]:
    try:
        descriptor = _acquired(file, mode, on_wait)
    except OSError as error:
        raise BadInput(
            f"{file.parent}: cannot be written: {error.strerror}",
            hint="copy the directory to a writable place",
        ) from None
    try:
        os.ftruncate(descriptor, 0)
        os.lseek(descriptor, 0, os.SEEK_SET)
        os.write(descriptor, f"process {os.getpid()} on {socket.gethostname()}".encode())
        yield
    finally:
        # Removed while it is still locked, so that no other process's lock file is removed. What another user
        # left behind in /tmp cannot be removed; it stays as a lock file.
        with suppress(PermissionError):
            file.unlink(missing_ok=True)
        os.close(descriptor)
        if sys.platform == "win32":  # which removes no file that a process has open
            with suppress(PermissionError):
                file.unlink(missing_ok=True)


def _acquired(file: Path, mode: int, on_wait: Callable[[str], None]) -> int:
    """Opens and locks the file, and returns its descriptor. ``on_wait`` may raise instead of waiting."""
    waited = False
    while True:
        with ExitStack() as unless_locked:
            descriptor = _opened(file, mode)
            unless_locked.callback(os.close, descriptor)
            try:
                _lock(descriptor)
            except (BlockingIOError, PermissionError):
                if not waited:
                    os.lseek(descriptor, 0, os.SEEK_SET)
                    on_wait(os.read(descriptor, 200).decode(errors="replace") or "another process")
                waited = True
            else:
                # If the previous owner has removed the file meanwhile, this one has no name any more.
                if file.exists() and os.path.samestat(os.fstat(descriptor), file.stat()):
                    unless_locked.pop_all()
                    return descriptor
        # Not in flock, which Ctrl-C would not interrupt: polars sets SA_RESTART for SIGINT.
        time.sleep(CHECK_INTERVAL_S)


def _lock(descriptor: int) -> None:
    """Locks an open file.

    Raises:
        BlockingIOError, PermissionError: another process has locked it.
    """
    if sys.platform == "win32":
        os.lseek(descriptor, LOCKED_BYTE, os.SEEK_SET)
        msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)
    else:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)


def _opened(file: Path, mode: int) -> int:
    # First without O_CREAT, which Linux refuses for files of other users in /tmp (fs.protected_regular).
    with suppress(FileNotFoundError):
        return os.open(file, FLAGS)
    descriptor = os.open(file, FLAGS | os.O_CREAT, mode)
    if sys.platform != "win32":
        with suppress(PermissionError):  # another user has created it meanwhile
            os.fchmod(descriptor, mode)  # whatever the umask
    return descriptor
