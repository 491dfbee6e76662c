"""Which files congestion controls read: they decide what a control does as much as its code does.

Only a run shows them. An audit hook in the control's process notes them, and the store keeps their digests. A
repeat whose files have changed since then is not finished any more.
"""

from __future__ import annotations

import glob
import hashlib
import os
import pathlib
import site
import sys
import sysconfig
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from types import FrameType, SimpleNamespace
from typing import Any

import rtclab
from rtclab.scenario.own_control import OwnControl

EVENTS = ("open", "sqlite3.connect", "ctypes.dlopen")
"""Audit events whose first argument is a file that is read."""
LISTINGS = ("os.listdir", "os.scandir")
"""Audit events whose first argument is a directory whose names are read."""
LISTING = {str(module.__file__) for module in (glob, os, pathlib)} | {"<frozen os>"}
"""Files of Python that list directories for whoever calls them."""
SYSTEM = tuple(map(os.sep.__add__, ("dev", "etc", "proc", "run", "sys", "usr")))
"""Directories of the system. What lies there does not count."""
CACHES = ("__pycache__", ".cache")
"""Directories of files that are made again if they are missing. What lies there does not count."""
UNSTEADY = "changed while it was read"
"""Stands for the digest of a file that was not always the same."""

Files = dict[str, str]
"""The digest of each file by its absolute path; a directory ends with a separator."""


class FilesRead:
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
def files_read() -> Iterator[FilesRead]:
    """Collects the files that controls read while this thread is inside."""
    before = getattr(_OF_THREAD, "read", None)
    _OF_THREAD.read = read = FilesRead()
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
def recording(controls: Sequence[OwnControl], *, all_threads: bool = False) -> Iterator[OpenedFiles]:
    """Records the files that are opened for reading inside, and what they contain when they are opened.

    The files of the controls and of their options are recorded at once.

    Args:
        controls: the controls that run inside.
        all_threads: record what any thread of this process opens, not only this one.
    """
    _listen()
    place = _OF_PROCESS if all_threads else _OF_THREAD
    place.recorder = recorder = OpenedFiles([os.path.dirname(control.file) for control in controls])
    try:
        for control in controls:
            recorder.add(*map(str, (*model_files(control), *_of_options(control))))
        yield recorder
    finally:
        place.recorder = None


def _recorder() -> OpenedFiles | None:
    return getattr(_OF_THREAD, "recorder", None) or getattr(_OF_PROCESS, "recorder", None)


def add_declared(control: OwnControl, names: Sequence[str]) -> None:
    """Records files that a control says it reads, relative to its own file."""
    if recorder := _recorder():
        recorder.add(*(str(Path(control.file).parent / name) for name in names))


def users_modules(controls: Sequence[OwnControl]) -> dict[str, str]:
    """The file of each module, by its name, that a control has loaded and that is of no installed package."""
    directories = [os.path.dirname(control.file) for control in controls]
    loaded = {name: module for name, module in list(sys.modules.items()) if name not in _BEFORE}
    files = {name: getattr(module, "__file__", None) for name, module in loaded.items()}
    return {name: file for name, file in files.items() if file and _counts(file, directories)}


def digest_of(file: str | Path) -> str:
    """Identifies the content of a file, 12 hexadecimal digits; empty if it cannot be read.

    Of a directory, whose name ends with a separator, it identifies the names of the files in it.
    """
    try:
        if str(file).endswith(os.sep):
            with os.scandir(file) as entries:
                names = "/".join(sorted(entry.name for entry in entries if entry.is_file()))
            return hashlib.sha256(names.encode(errors="surrogateescape")).hexdigest()[:12]
        known = os.stat(file)
        return _digest_of(str(file), known.st_ino, known.st_size, known.st_mtime_ns, known.st_ctime_ns)
    except OSError:
        return ""


@lru_cache(maxsize=1000)
def _digest_of(file: str, *_: int) -> str:
    """As :func:`digest_of`. A model may be large, so it is read once while its place, size and time stay."""
    with open(file, "rb") as opened:
        return hashlib.file_digest(opened, "sha256").hexdigest()[:12]


class OpenedFiles:
    """Keeps the digest of each file that controls read, and of each directory that they list.

    Files of Python and of installed packages do not count, nor do files that the controls write themselves.
    The digest of a file that was not there is empty: it may be there the next time.
    """

    def __init__(self, directories: Sequence[str]) -> None:
        """``directories`` are where the files of the controls are. Each file in them counts."""
        self.files: Files = {}
        self._directories = directories
        self._seen: set[str] = set()
        self._busy = False

    def add(self, *paths: str) -> None:
        """Adds files that are known to be read."""
        for path in paths:
            self._keep(os.path.abspath(path))

    def opened(self, path: str, *, written: bool) -> None:
        """Adds a file that is about to be opened. One that is written first is not read."""
        path = os.path.abspath(path)
        if written and self.files.get(path) == "":
            del self.files[path]  # it was not there, and the control makes it
        elif not self._busy and path not in self._seen:
            self._seen.add(path)
            if not written and self.counts(path) and (os.path.isfile(path) or not os.path.exists(path)):
                self._keep(path)

    def listed(self, path: str) -> None:
        """Adds a directory whose names are about to be read."""
        path = os.path.join(os.path.abspath(path), "")
        if not self._busy and self.counts(path):
            self._keep(path)

    def _keep(self, path: str) -> None:
        if path not in self.files:
            self._busy = True  # computing the digest opens the file or lists the directory again
            try:
                self.files[path] = digest_of(path)
            finally:
                self._busy = False

    def counts(self, path: str) -> bool:
        """Whether a file belongs to the user."""
        return _counts(path, self._directories)


def model_files(control: OwnControl) -> list[Path]:
    """The file of a control; of a model also the files of its weights, whose names begin with its name."""
    file = Path(control.file)
    return sorted(file.parent.glob(f"{glob.escape(file.name)}*")) if control.kind == "onnx" else [file]


def _counts(path: str, directories: Sequence[str]) -> bool:
    """Whether a file belongs to the user: it is nearer to a control than to Python or the system."""
    if not os.path.isabs(path) or any(f"{os.sep}{cache}{os.sep}" in path for cache in CACHES):
        return False
    own, others = _depth(path, directories), _depth(path, (*SYSTEM, *_PACKAGES))
    return own > others or not others


def _depth(path: str, directories: Iterable[str]) -> int:
    """The length of the longest of the directories in which a file is; 0 for none."""
    below = (one for one in directories if path.startswith(one.rstrip(os.sep) + os.sep))
    return max(map(len, below), default=0)


def _packages() -> list[str]:
    """The directories of Python, of installed packages and of rtclab."""
    places = [sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")]
    places += [
        sys.prefix,
        sys.base_prefix,
        *site.getsitepackages(),
        site.getusersitepackages(),
        str(Path(rtclab.__file__).parent),
    ]
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
    if event not in (*EVENTS, *LISTINGS) or (recorder := _recorder()) is None:
        return
    path, *more = arguments
    if event in LISTINGS:
        if not isinstance(path, int) and _lists_itself(recorder, sys._getframe(1)):
            recorder.listed(os.fsdecode("." if path is None else path))
        return
    if isinstance(path, str | bytes | os.PathLike):
        flags = more[1] if len(more) > 1 else 0
        recorder.opened(os.fsdecode(path), written=bool(flags & (os.O_WRONLY | os.O_CREAT | os.O_TRUNC)))


def _lists_itself(recorder: OpenedFiles, frame: FrameType | None) -> bool:
    """Whether a file of the user lists a directory, and not Python to find a module or a package."""
    while frame is not None and frame.f_code.co_filename in LISTING:
        frame = frame.f_back
    return frame is not None and recorder.counts(frame.f_code.co_filename)


_OF_THREAD, _OF_PROCESS = threading.local(), SimpleNamespace()
_LOCK = threading.Lock()
_LISTENING: list[bool] = []
_PACKAGES = _packages()
_BEFORE = frozenset(sys.modules)
