"""Locks for one writer at a time. The kernel releases a lock when its process ends, even if killed."""

from __future__ import annotations

import fcntl
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from rtclab.errors import BadInput

LOCK_FILE = ".lock"


@contextmanager
def only_writer(directory: Path) -> Iterator[None]:
    """Locks a directory for writing.

    Raises:
        BadInput: another process holds the lock. The message names the process and its machine.
    """
    with _locked(directory / LOCK_FILE, wait=False):
        yield


@contextmanager
def one_after_another(file: Path) -> Iterator[None]:
    """Waits until no other process holds the lock file, and locks it."""
    with _locked(file, wait=True):
        yield


@contextmanager
def _locked(file: Path, *, wait: bool) -> Iterator[None]:
    descriptor = _acquired(file, wait=wait)
    try:
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, f"process {os.getpid()} on {socket.gethostname()}".encode(), 0)
        yield
    finally:
        # Removed while it is still locked, so that no other process's lock file is removed.
        file.unlink(missing_ok=True)
        os.close(descriptor)


def _acquired(file: Path, *, wait: bool) -> int:
    """Opens and locks the file, and returns its descriptor."""
    while True:
        descriptor = os.open(file, os.O_RDWR | os.O_CREAT, 0o644)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
        except BlockingIOError:
            owner = os.pread(descriptor, 200, 0).decode(errors="replace") or "another process"
            os.close(descriptor)
            raise BadInput(
                f"{file.parent}: {owner} is writing here", hint="wait until it has ended, or end it"
            ) from None
        except BaseException:
            os.close(descriptor)
            raise
        # If the previous owner has removed the file meanwhile, this lock is on a file without a name.
        if file.exists() and os.path.samestat(os.fstat(descriptor), file.stat()):
            return descriptor
        os.close(descriptor)
