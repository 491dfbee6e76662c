"""One writer at a time: locks that the kernel releases when their process ends, however it ends."""

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
    """Holds a directory for writing.

    Raises:
        BadInput: somebody else is writing there; the message names the process and its machine.
    """
    with _locked(directory / LOCK_FILE, wait=False):
        yield


@contextmanager
def one_after_another(file: Path) -> Iterator[None]:
    """Waits until nobody else holds the lock file, and holds it."""
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
        # While it is still held, so that nobody's else is removed.
        file.unlink(missing_ok=True)
        os.close(descriptor)


def _acquired(file: Path, *, wait: bool) -> int:
    """The descriptor of the locked file that has this name."""
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
        # Whoever held it before has removed the file: the lock is one of a file without a name.
        if file.exists() and os.path.samestat(os.fstat(descriptor), file.stat()):
            return descriptor
        os.close(descriptor)
