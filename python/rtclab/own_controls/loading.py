"""Loads congestion controls from files, and makes instances of their classes."""

from __future__ import annotations

import importlib.util
import inspect
import random
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from rtclab.control import Bounds, explain, place_of
from rtclab.errors import BadInput
from rtclab.own_controls import agents
from rtclab.scenario.own_control import OwnControl, files_of

Factory = tuple[str, str, Callable[[Bounds], Any]]
"""A control for the native side: its name there, its stack profile, and what makes an instance."""
SENDER_STACK, RECEIVER_STACK = "chrome-156", "chrome-156-remb"
MODULE = "rtclab_own_control"
"""Name of the module that a file becomes. Each run has its own, so that none sees another's globals."""
INTERVALS_S = (0.001, 3600)
"""The least and the greatest time between two calls of ``on_timeout``."""


def factories(controls: Sequence[OwnControl], seed: int) -> list[Factory]:
    """Loads controls for one run. Random numbers of Python and numpy begin with the seed of the run.

    Raises:
        BadInput: a file cannot be loaded, or has no such class.
    """
    if not controls:
        return []
    random.seed(seed)
    np.random.seed(seed % 2**32)  # controls may use the global generator
    return [_factory(control) for control in controls]


def _factory(control: OwnControl) -> Factory:
    kind: Any = agents.onnx(Path(control.file)) if control.kind == "onnx" else _class_of(control)
    if control.kind == "alphartc":
        for method in ("report_states", "get_estimated_bandwidth"):
            if not hasattr(kind, method):
                raise BadInput(f"{control.text}: the class `{control.name}` has no method `{method}`")
        kind = agents.alphartc(kind)
    receives = hasattr(kind, "on_packet")
    if receives and not hasattr(kind, "on_timeout"):
        raise BadInput(
            f"{control.text}: it has `on_packet`; expected `on_timeout` too, which returns the estimate"
        )
    if not receives and not hasattr(kind, "on_feedback"):
        raise BadInput(
            f"{control.text}: expected a method `on_feedback(now, feedback)` or `on_packet(packet)`"
        )
    interval = getattr(kind, "interval", None)
    least_s, most_s = INTERVALS_S
    if interval is not None and not (isinstance(interval, int | float) and least_s <= interval <= most_s):
        raise BadInput(
            f"{control.text}: interval is {interval!r}; expected the time between two calls of on_timeout, "
            f"{least_s} to {most_s} s"
        )
    _check_methods(control, kind, receives=receives)
    stack = getattr(kind, "stack", RECEIVER_STACK if receives else SENDER_STACK)

    def create(bounds: Bounds) -> Any:
        return _made(kind, control, bounds)

    return control.key, str(stack), create


METHODS = {
    "on_feedback": "now, feedback",
    "on_report": "now, report",
    "on_sent": "now, packet",
    "on_timeout": "now, sender",
    "on_packet": "packet",
    "observe": "",
}
"""The arguments of each method."""


def _check_methods(control: OwnControl, kind: Any, *, receives: bool) -> None:
    """Checks that methods can be called as they will be."""
    for name, arguments in (METHODS | {"on_timeout": "now"} if receives else METHODS).items():
        method = getattr(kind, name, None)
        count = len(arguments.split(", ")) if arguments else 0
        try:
            if method is not None:
                inspect.signature(method).bind(*range(1 + count))
        except TypeError as error:
            wanted = f"{name}({', '.join(filter(None, ('self', arguments)))})"
            raise BadInput(
                f"{control.text}: {name}: {error}; expected {wanted}\n{place_of(method)}"
            ) from None
        except ValueError:  # a method without a signature, such as a built-in one
            pass


def _made(kind: Any, control: OwnControl, bounds: Bounds) -> Any:
    try:
        inspect.signature(kind).bind(bounds, **control.options)
    except TypeError as error:
        known = list(inspect.signature(kind).parameters)[1:]
        raise BadInput(
            f"congestion_control.options: {control.text}: {error}",
            hint=f"it is called with the bounds and its options: {', '.join(known) or 'none'}",
        ) from None
    return kind(bounds, **control.options)


def _class_of(control: OwnControl) -> object:
    module = _module(Path(control.file))
    found = getattr(module, control.name, None)
    if not isinstance(found, type):
        own = [
            name
            for name, value in vars(module).items()
            if isinstance(value, type) and value.__module__ == MODULE
        ]
        raise BadInput(
            f"congestion_control.name: {control.file} has no class `{control.name}`",
            hint=f"its classes: {', '.join(own) or 'none'}",
        )
    return found


def _module(file: Path) -> ModuleType:
    """The module in a file. Modules beside it can be imported, and are made anew too."""
    directory = str(file.parent)
    sys.path[:] = [directory, *(place for place in sys.path if place != directory)]
    for beside in files_of(file):
        parts = beside.relative_to(file.parent).with_suffix("").parts
        sys.modules.pop(".".join(part for part in parts if part != "__init__"), None)
    specification = importlib.util.spec_from_file_location(MODULE, file)
    assert specification is not None
    assert specification.loader is not None
    module = importlib.util.module_from_spec(specification)
    sys.modules[MODULE] = module
    try:
        specification.loader.exec_module(module)
    except Exception as error:
        raise BadInput(f"congestion_control.name: cannot import {file}: {explain(error)}") from error
    return module
