"""Congestion controls of the user's own: how a scenario names them, and what identifies their code.

``FILE.py:CLASS`` is a Python class, ``alphartc:FILE.py`` an estimator written for AlphaRTC, and ``onnx:FILE``
a model of the 2024 challenge on bandwidth estimation.
"""

from __future__ import annotations

import ast
import hashlib
import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal, Self

from rtclab.errors import BadInput, FieldError
from rtclab.scenario.files import FileName
from rtclab.scenario.toml_text import read_value

AGENT = re.compile(r"(alphartc|onnx):(.+)")
CLASS = re.compile(r"(.+\.py)(?::(.*))?")
FORMS = "FILE.py:CLASS, alphartc:FILE.py or onnx:FILE"


@dataclass(frozen=True)
class OwnControl:
    """A congestion control of the user's own, with its options.

    Attributes:
        kind: ``class`` for a Python class, ``alphartc`` or ``onnx`` for a published agent.
        file: absolute path of its file.
        name: name of the class; empty for a model.
        options: passed to the class by keyword.
        digest: identifies the code that a scenario was loaded with; empty if it is not known.
        owner: the participant or server that sends with it; empty if that does not matter.
    """

    kind: Literal["class", "alphartc", "onnx"]
    file: str
    name: str
    options: dict[str, Any] = field(default_factory=dict)
    digest: str = ""
    owner: str = ""

    @classmethod
    def parse(cls, text: str, options: dict[str, Any] | None = None, digest: str = "") -> Self | None:
        """The control that a text names; None if it is a name without a file.

        Raises:
            FieldError: the text has a file, and no class.
        """
        if agent := AGENT.fullmatch(text):
            kind, file = agent.groups()
            if kind == "onnx":
                return cls("onnx", file, "", options or {}, digest)
            if not file.endswith(".py"):
                raise FieldError(f"cannot read `{text}`; expected alphartc:FILE.py", key="name")
            return cls("alphartc", file, "Estimator", options or {}, digest)
        if not (found := CLASS.fullmatch(text)):
            return None
        file, name = found.groups()
        if name is None or not name.isidentifier():
            raise FieldError(f"`{text}` names no class; expected {FORMS}", key="name")
        return cls("class", file, name, options or {}, digest)

    @classmethod
    def located(cls, text: str) -> Self | None:
        """The control that a text names, with the absolute path and the digest of its file.

        Raises:
            FieldError: there is no such file, or the text has no class.
        """
        control = cls.parse(text)
        if control is None:
            return None
        directory = text.directory if isinstance(text, FileName) else Path()
        path = (directory / control.file).absolute()
        try:
            return replace(control, file=str(path), digest=digest_of(path))
        except OSError as error:
            raise FieldError(
                f"cannot read `{path}`: {error.strerror}",
                hint="it is relative to the TOML file that names it or else to the current directory",
                key="name",
            ) from None

    @property
    def text(self) -> str:
        """The control's name in a scenario, with the path of its file."""
        return f"{self.file}:{self.name}" if self.kind == "class" else f"{self.kind}:{self.file}"

    @property
    def label(self) -> str:
        """Its name for readers, without directories."""
        file = Path(self.file).name
        return f"{file}:{self.name}" if self.kind == "class" else f"{self.kind}:{file}"

    @property
    def key(self) -> str:
        """The name of the control with its options and its owner in one run."""
        options = "".join(f",{name}={value}" for name, value in self.options.items())
        return f"{self.text}{options}{f' of {self.owner}' if self.owner else ''}"

    def check_unchanged(self) -> None:
        """Checks that the file is there, and still has the code that the scenario was loaded with.

        Raises:
            BadInput: the file cannot be read, or has other code.
        """
        try:
            found = digest_of(Path(self.file))
        except OSError as error:
            raise BadInput(f"congestion_control.name: cannot read {self.file}: {error.strerror}") from None
        if self.digest and found != self.digest:
            raise BadInput(
                f"congestion_control.name: {self.file} has changed: its digest is {found}; "
                f"expected {self.digest}",
                hint="it changed while it was used; the same command or --resume runs it again as it is now",
            )


def parse_control(text: str) -> dict[str, Any]:
    """The table of a congestion control, from ``NAME`` or ``NAME,OPTION=VALUE,…``. Values are as in TOML.

    Other values are texts. The directory that a file is relative to stays.

    Raises:
        BadInput: an option has no value.
    """
    name, *parts = (part.strip() for part in text.split(","))
    options: dict[str, Any] = {}
    for part in parts:
        option, equals, value = part.partition("=")
        if not equals or not option:
            raise BadInput(f"cannot read `{part}` in `{text}`; expected NAME,OPTION=VALUE,…")
        options[option.strip()] = read_value(value)
    named = FileName(name, text.directory) if isinstance(text, FileName) else name
    return {"name": named} | ({"options": options} if options else {})


def digest_of(file: Path) -> str:
    """Identifies the code of a file and of the modules beside it that it imports, 12 hexadecimal digits.

    Raises:
        OSError: a file cannot be read.
    """
    digest = hashlib.sha256()
    for part in files_of(file):
        digest.update(f"{part.relative_to(file.parent)}\n".encode() + part.read_bytes())
    return digest.hexdigest()[:12]


def files_of(file: Path) -> list[Path]:
    """The file of a control, and the modules beside it that it imports, directly or through each other.

    Raises:
        OSError: a file cannot be read.
    """
    return sorted(_with_modules_beside(file, set()))


def _with_modules_beside(file: Path, known: set[Path]) -> set[Path]:
    """The file and the modules in its directory that it imports, directly or through each other."""
    known.add(file)
    if file.suffix != ".py":
        return known
    try:
        tree = ast.parse(file.read_bytes())
    except (SyntaxError, ValueError):  # loading it says what is wrong
        return known
    for name in set(_imported(tree)):
        place = file.parent / name.partition(".")[0]
        for module in (place.with_suffix(".py"), *(place.rglob("*.py") if place.is_dir() else ())):
            if module.is_file() and module not in known:
                _with_modules_beside(module, known)
    return known


def _imported(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield from [node.module] if node.module else (alias.name for alias in node.names)
