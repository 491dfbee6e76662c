"""Loads congestion controls from files, and makes instances of their classes."""

from __future__ import annotations

import importlib.util
import inspect
import random
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import count
from pathlib import Path
from types import FunctionType, ModuleType, SimpleNamespace
from typing import Any

import numpy as np

from rtclab.control import Bounds, explain, place_of
from rtclab.errors import BadInput
from rtclab.own_controls import agents, randomness
from rtclab.own_controls.reading import add_declared, digest_of, model_files
from rtclab.scenario.own_control import OwnControl, files_of

Factory = tuple[str, str, Callable[[Bounds], Any]]
"""A control for the native side: its name there, its stack profile, and what makes an instance."""
Loaded = tuple[Callable[[Bounds], Any], str]
"""What makes instances of a control from bounds, and their stack profile."""
SENDER_STACK, RECEIVER_STACK = "chrome-156", "chrome-156-remb"
MODULE = "rtclab_own_control"
"""Name of the module that a file becomes. Each run has its own, so that none sees another's globals."""
INTERVALS_S = (0.001, 3600)
"""The least and the greatest time between two calls of ``on_timeout``."""


def factories(controls: Sequence[OwnControl], seed: int) -> list[Factory]:
    """Loads controls for one run. Each instance has random numbers of its own, which follow from the seed.

    Raises:
        BadInput: a file cannot be loaded, or has no such class.
    """
    if not controls:
        return []
    randomness.redirect()
    random.seed(seed)
    np.random.seed(seed % 2**32)  # for libraries that have kept a function of the global generator
    made: dict[str, Loaded] = {}
    for control in controls:
        alone = replace(control, owner="")
        if alone.key not in made:
            with randomness.Stream(seed, alone.key).used():
                made[alone.key] = _loaded(alone)
    return [_factory(control, made[replace(control, owner="").key], seed) for control in controls]


def _factory(control: OwnControl, made: Loaded, seed: int) -> Factory:
    (make, stack), numbers = made, count()

    def create(bounds: Bounds) -> Any:
        stream = randomness.Stream(seed, control.owner, next(numbers))
        with stream.used():
            instance = make(bounds)
        known = {name: getattr(instance, name, None) for name in (*METHODS, "interval")}
        return SimpleNamespace(
            **{
                name: stream.given_to(value) if name in METHODS else value
                for name, value in known.items()
                if value is not None
            }
        )

    return control.key, stack, create


def _loaded(control: OwnControl) -> Loaded:
    """Loads a control, and checks its methods. A function is called once for that."""
    if control.kind == "onnx":
        digests = tuple(map(digest_of, model_files(control)))
        maker: Any = agents.onnx(Path(control.file), digests)
    else:
        maker = _maker_of(control)
    if control.kind == "alphartc":
        for method in ("report_states", "get_estimated_bandwidth"):
            if not hasattr(maker, method):
                raise BadInput(f"{control.text}: the class `{control.name}` has no method `{method}`")
        maker = agents.alphartc(maker)

    def create(bounds: Bounds) -> Any:
        return _made(maker, control, bounds)

    about = maker if isinstance(maker, type) else create(Bounds())
    receives = _check(control, about)
    _declare(control, getattr(about, "reads", ()))
    stack = getattr(about, "stack", RECEIVER_STACK if receives else SENDER_STACK)
    return create, str(stack)


def _check(control: OwnControl, about: Any) -> bool:
    """Checks the class of a control, or an instance of it. Returns whether it estimates at the receiver."""
    receives = hasattr(about, "on_packet")
    if receives and not hasattr(about, "on_timeout"):
        raise BadInput(
            f"{control.text}: it has `on_packet`; expected `on_timeout` too, which returns the estimate"
        )
    if not receives and not hasattr(about, "on_feedback"):
        raise BadInput(
            f"{control.text}: expected a method `on_feedback(now, feedback)` or `on_packet(packet)`"
        )
    interval = getattr(about, "interval", None)
    unknown = interval is None or inspect.isdatadescriptor(interval)  # a slot gets its value later
    least_s, most_s = INTERVALS_S
    if not unknown and not (isinstance(interval, int | float) and least_s <= interval <= most_s):
        raise BadInput(
            f"{control.text}: interval is {interval!r}; expected the time between two calls of on_timeout, "
            f"{least_s} to {most_s} s"
        )
    _check_methods(control, about, receives=receives)
    return receives


def _declare(control: OwnControl, names: Any) -> None:
    """Notes the files that a control says it reads: those that a compiled library opens for it."""
    if not isinstance(names, list | tuple) or not all(isinstance(name, str) for name in names):
        raise BadInput(f"{control.text}: reads is {names!r}; expected a list of files")
    for name in names:
        if not (Path(control.file).parent / name).is_file():
            raise BadInput(f"{control.text}: reads: no file `{name}`", hint="it is relative to the control")
    add_declared(control, names)


METHODS = {
    "on_feedback": "now, feedback",
    "on_report": "now, report",
    "on_sent": "now, packet",
    "on_timeout": "now, sender",
    "on_packet": "packet",
    "observe": "",
}
"""The arguments of each method."""


def _check_methods(control: OwnControl, about: Any, *, receives: bool) -> None:
    """Checks that methods can be called as they will be."""
    for name, arguments in (METHODS | {"on_timeout": "now"} if receives else METHODS).items():
        method = getattr(about, name, None)
        count = len(arguments.split(", ")) if arguments else 0
        itself = isinstance(about, type) and isinstance(method, FunctionType)
        itself &= not isinstance(inspect.getattr_static(about, name, None), staticmethod)
        try:
            if method is not None:
                inspect.signature(method).bind(*range(itself + count))
        except TypeError as error:
            wanted = f"{name}({', '.join(filter(None, ('self', arguments)))})"
            raise BadInput(
                f"{control.text}: {name}: {error}; expected {wanted}\n{place_of(method)}"
            ) from None
        except ValueError:  # a method without a signature, such as a built-in one
            pass


def _made(maker: Any, control: OwnControl, bounds: Bounds) -> Any:
    """An instance. It is given the bounds, unless it takes none, and the options."""
    if isinstance(maker, type) and not any(
        {"__init__", "__new__"} & vars(kind).keys() for kind in maker.__mro__[:-1]
    ):
        return _with_attributes(maker(), control)
    signature = inspect.signature(maker)
    bounds_of = _name_of_bounds(signature, control.options)
    positional = () if bounds_of is None or bounds_of == "bounds" else (bounds,)
    named = ({"bounds": bounds} if bounds_of == "bounds" else {}) | control.options
    try:
        signature.bind(*positional, **named)
    except TypeError as error:
        known = [name for name in signature.parameters if name != bounds_of]
        raise BadInput(
            f"congestion_control.options: {control.text}: {error}",
            hint=f"it is called with the bounds and its options: {', '.join(known) or 'none'}",
        ) from None
    return maker(*positional, **named)


def _name_of_bounds(signature: inspect.Signature, options: Mapping[str, Any]) -> str | None:
    """The parameter that takes the bounds: ``bounds``, or else the first one without a default value."""
    for name, one in signature.parameters.items():
        if name == "bounds" and one.kind not in (one.POSITIONAL_ONLY, one.VAR_POSITIONAL, one.VAR_KEYWORD):
            return name
    first = next(iter(signature.parameters.values()), None)
    if first is None or first.kind in (first.KEYWORD_ONLY, first.VAR_KEYWORD):
        return None
    return first.name if first.default is first.empty and first.name not in options else None


def _with_attributes(instance: Any, control: OwnControl) -> Any:
    """An instance of a class without ``__init__``, whose options are its attributes."""
    known = [name for name in dir(instance) if not name.startswith("_") and name not in ("stack", "reads")]
    known = [name for name in known if not callable(getattr(type(instance), name))]
    for name, value in control.options.items():
        if name not in known:
            raise BadInput(
                f"congestion_control.options: {control.text}: no option `{name}`",
                hint=f"it has no __init__, so its options are its attributes: {', '.join(known) or 'none'}",
            )
        setattr(instance, name, value)
    return instance


def _maker_of(control: OwnControl) -> Any:
    """The class of a control, or the function that makes its objects."""
    module = _module(Path(control.file))
    found = getattr(module, control.name, None)
    if not (isinstance(found, type) if control.kind == "alphartc" else callable(found)):
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
    for name in [name for name in sys.modules if name.startswith(f"{MODULE}.")]:
        del sys.modules[name]
    # As a package, so that `from . import helper` finds the file beside it.
    specification = importlib.util.spec_from_file_location(
        MODULE, file, submodule_search_locations=[directory]
    )
    assert specification is not None
    assert specification.loader is not None
    module = importlib.util.module_from_spec(specification)
    sys.modules[MODULE] = module
    try:
        specification.loader.exec_module(module)
    except Exception as error:
        raise BadInput(f"congestion_control.name: cannot import {file}: {explain(error)}") from error
    return module


def without_owners(text: str, controls: Sequence[OwnControl]) -> str:
    """An error of the native side, whose names of controls say whose they are, with the names as given."""
    for control in controls:
        text = text.replace(f"`{control.key}`", f"`{replace(control, owner='').key}`")
    return text
