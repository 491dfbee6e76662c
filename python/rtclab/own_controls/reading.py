"""Which files congestion controls read: they decide what a control does as much as its code does."""

from __future__ import annotations

import glob
import hashlib
import os
import site
import sys
import sysconfig
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import rtclab
from rtclab.scenario.own_control import OwnControl

EVENTS = ("open", "sqlite3.connect", "ctypes.dlopen")
"""Audit events whose first argument is a file that is read."""
SYSTEM = tuple(map(os.sep.__add__, ("dev", "etc", "proc", "run", "sys", "usr")))
"""Directories of the system. What lies there does not count."""
CACHES = ("__pycache__", ".cache")
"""Directories of files that are made again if they are missing. What lies there does not count."""
UNSTEADY = "changed while it was read"
"""Stands for the digest of a file that was not always the same."""

Files = dict[str, str]
"""The digest of each file by its absolute path."""


class Read:
    """The files that controls have read, by the controls of their runs."""

    def __init__(self) -> None:
        self._of: dict[tuple[str, ...], Files] = {}

    def add(self, controls: Sequence[OwnControl], files: Mapping[str, str]) -> None:
        """Adds what the controls of a run have read."""
        known = self._of.setdefault(_key(controls), {})
        for file, digest in files.items():
            if known.setdefault(file, digest) != digest:
                known[file] = UNSTEADY

    def of(self, controls: Sequence[OwnControl]) -> Files:
        """The files that runs with these controls have read."""
        return self._of.get(_key(controls), {})


def _key(controls: Sequence[OwnControl]) -> tuple[str, ...]:
    return tuple(control.key for control in controls)


@contextmanager
def files_read() -> Iterator[Read]:
    """Collects the files that the controls read that this thread runs inside."""
    before = getattr(_OF_THREAD, "read", None)
    _OF_THREAD.read = read = Read()
    try:
        yield read
    finally:
        _OF_THREAD.read = before


def note(controls: Sequence[OwnControl], files: Mapping[str, str]) -> None:
    """Adds files to what :func:`files_read` collects in this thread."""
    read = getattr(_OF_THREAD, "read", None)
    if read is not None:
        read.add(controls, files)


@contextmanager
def recording(controls: Sequence[OwnControl]) -> Iterator[Recorder]:
    """Records the files that this thread opens for reading inside, and what they contain when it opens them.

    The files of the controls and of their options are recorded at once.
    """
    _listen()
    _OF_THREAD.recorder = recorder = Recorder([os.path.dirname(control.file) for control in controls])
    try:
        for control in controls:
            recorder.add(*map(str, (*model_files(control), *_of_options(control))))
        yield recorder
    finally:
        _OF_THREAD.recorder = None


def add_declared(control: OwnControl, names: Sequence[str]) -> None:
    """Records files that a control says it reads, relative to its own file."""
    if recorder := getattr(_OF_THREAD, "recorder", None):
        recorder.add(*(str(Path(control.file).parent / name) for name in names))


def users_modules(controls: Sequence[OwnControl]) -> dict[str, str]:
    """The file of each module, by its name, that a control has loaded and that is of no installed package."""
    directories = [os.path.dirname(control.file) for control in controls]
    loaded = {name: module for name, module in list(sys.modules.items()) if name not in _BEFORE}
    files = {name: getattr(module, "__file__", None) for name, module in loaded.items()}
    return {name: file for name, file in files.items() if file and _counts(file, directories)}


def digest_of(file: str | Path) -> str:
    """Identifies the content of a file, 12 hexadecimal digits; empty if it cannot be read."""
    try:
        with open(file, "rb") as opened:
            return hashlib.file_digest(opened, "sha256").hexdigest()[:12]
    except OSError:
        return ""


class Recorder:
    """Keeps the digest of each file that controls read.

    Files of Python and of installed packages do not count, nor do files that the controls write.
    """

    def __init__(self, directories: Sequence[str]) -> None:
        """``directories`` are those of the controls. Each file in them counts."""
        self.files: Files = {}
        self._directories = directories
        self._seen: set[str] = set()
        self._busy = False

    def add(self, *paths: str) -> None:
        """Adds files that are read, unless they have been opened before."""
        for path in paths:
            self.opened(path, written=False)

    def opened(self, path: str, *, written: bool) -> None:
        """Adds a file that is about to be opened. One that is written first is not read."""
        path = os.path.abspath(path)
        if self._busy or path in self._seen:
            return
        self._busy = True  # computing the digest opens the file again
        try:
            self._seen.add(path)
            if not written and _counts(path, self._directories) and os.path.isfile(path):
                self.files[path] = digest_of(path)
        finally:
            self._busy = False


def model_files(control: OwnControl) -> list[Path]:
    """The file of a control; of a model also the files of its weights, whose names begin with its name."""
    file = Path(control.file)
    return sorted(file.parent.glob(f"{glob.escape(file.name)}*")) if control.kind == "onnx" else [file]


def _counts(path: str, directories: Sequence[str]) -> bool:
    """Whether a file belongs to the user: it is beside a control, or elsewhere and not of a package."""
    if any(f"{os.sep}{cache}{os.sep}" in path for cache in CACHES):
        return False
    if _is_below(path, directories):
        return True
    return not _is_below(path, SYSTEM) and not _is_below(path, _PACKAGES)


def _is_below(path: str, directories: Iterable[str]) -> bool:
    return any(path.startswith(directory.rstrip(os.sep) + os.sep) for directory in directories)


def _packages() -> list[str]:
    """The directories of Python, of installed packages and of rtclab."""
    places = [sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")]
    places += [*site.getsitepackages(), site.getusersitepackages(), str(Path(rtclab.__file__).parent)]
    return list({found for place in places for found in (os.path.abspath(place), os.path.realpath(place))})


def _of_options(control: OwnControl) -> Iterator[Path]:
    """The files that texts in options name, relative to the control's file or to the current directory."""
    for text in _texts(control.options):
        for place in (Path(control.file).parent, Path()):
            try:
                if (place / text).is_file():
                    yield (place / text).absolute()
            except (OSError, ValueError):  # a text that is no name of a file
                continue


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list | tuple):
        for one in value.values() if isinstance(value, dict) else value:
            yield from _texts(one)


def _listen() -> None:
    """Has the files noticed that any thread opens, from the first time on. A hook cannot be removed."""
    with _LOCK:
        if not _LISTENING:
            _LISTENING.append(True)
            sys.addaudithook(_notice)


def _notice(event: str, arguments: tuple[Any, ...]) -> None:
    if event not in EVENTS or (recorder := getattr(_OF_THREAD, "recorder", None)) is None:
        return
    path, *more = arguments
    if isinstance(path, str | bytes | os.PathLike):
        flags = more[1] if len(more) > 1 else 0
        recorder.opened(os.fsdecode(path), written=bool(flags & (os.O_WRONLY | os.O_CREAT | os.O_TRUNC)))


_OF_THREAD = threading.local()
_LOCK = threading.Lock()
_LISTENING: list[bool] = []
_PACKAGES = _packages()
_BEFORE = frozenset(sys.modules)
