"""``RTCLAB_NATIVE=FILE``: a library of the user's, with further congestion controls, as ``rtclab._native``.

The crate ``rtclab-extension`` makes such a library; ``docs/rust-control.md`` says how.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ExtensionFileLoader, ModuleSpec
from importlib.util import spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import TypeVar

import rtclab
from rtclab.errors import BadInput

VARIABLE = "RTCLAB_NATIVE"
NAME = "rtclab._native"
Argument = TypeVar("Argument")
Result = TypeVar("Result")


def use(file: str) -> None:
    """Makes ``import rtclab._native`` load a library, here and in processes that are started from here."""
    os.environ[VARIABLE] = os.path.abspath(file)
    sys.meta_path.insert(0, _Finder(Path(os.environ[VARIABLE])))


class _Finder(MetaPathFinder):
    def __init__(self, file: Path) -> None:
        self.file = file

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname != NAME:
            return None
        if not self.file.is_file():
            raise _error(f"no file `{self.file}`", hint="`cargo build --release` makes it in target/release")
        return spec_from_file_location(NAME, self.file, loader=_Loader(NAME, str(self.file)))


class _Loader(ExtensionFileLoader):
    """Its errors say what is wrong with the library."""

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        return self._try(super().create_module, spec)

    def exec_module(self, module: ModuleType) -> None:
        self._try(super().exec_module, module)
        version = getattr(module, "VERSION", None)
        if version != rtclab.__version__:
            found = f"is from rtclab {version}" if version else "has no version"
            raise _error(
                f"`{self.path}` {found}; expected {rtclab.__version__}, the version of this rtclab",
                hint="build it with rtclab-core and rtclab-extension of that version",
            )

    def _try(self, step: Callable[[Argument], Result], argument: Argument) -> Result:
        try:
            return step(argument)
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # a panic in Rust is no Exception
            raise _error(
                f"`{self.path}` cannot be loaded: {error}; "
                "expected a library that rtclab_extension::extension! makes",
                hint="docs/rust-control.md says how to make one",
            ) from None


def _error(what: str, hint: str) -> BadInput:
    return BadInput(f"{VARIABLE}: {what}", hint=f"{hint}; without {VARIABLE}, rtclab has its own controls")
