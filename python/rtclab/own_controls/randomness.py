"""Gives each sender's control random numbers of its own, although Python and numpy have one global generator.

Otherwise a control of one participant would change the random numbers of another participant's control, and
calls with the same seed would not be alike.
"""

from __future__ import annotations

import functools
import hashlib
import random
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np


class Stream:
    """Random numbers of ``random`` and of ``numpy.random`` that begin with a seed."""

    def __init__(self, *seed: object) -> None:
        text = "/".join(map(str, seed))
        self._seed = int.from_bytes(hashlib.sha256(text.encode()).digest()[:4])

    @functools.cached_property
    def python(self) -> random.Random:
        """What the functions of ``random`` use."""
        return random.Random(self._seed)

    @functools.cached_property
    def numpy(self) -> np.random.RandomState:
        """What the functions of ``numpy.random`` use."""
        return np.random.RandomState(self._seed)

    @contextmanager
    def used(self) -> Iterator[None]:
        """Has the global functions draw from this stream in this thread."""
        before = getattr(_OF_THREAD, "stream", None)
        _OF_THREAD.stream = self
        try:
            yield
        finally:
            _OF_THREAD.stream = before

    def given_to(self, method: Callable[..., Any]) -> Callable[..., Any]:
        """The method, which draws from this stream. It is called for every feedback, so it is short."""

        @functools.wraps(method)
        def drawing(*arguments: Any) -> Any:
            before = getattr(_OF_THREAD, "stream", None)
            _OF_THREAD.stream = self
            try:
                return method(*arguments)
            finally:
                _OF_THREAD.stream = before

        return drawing


def redirect() -> None:
    """Lets the global functions draw from the stream in use; without one, they draw as ever."""
    with _LOCK:
        if _REDIRECTED:
            return
        _REDIRECTED.append(True)
        own = getattr(random, "_inst", None)
        for name in random.__all__:
            if getattr(getattr(random, name), "__self__", None) is own:
                setattr(random, name, _redirected(getattr(random, name), "python", name))
        for name in np.random.__all__:
            drawn = {"ranf": "random_sample", "sample": "random_sample"}.get(name, name)
            if hasattr(np.random.RandomState, drawn):
                setattr(np.random, name, _redirected(getattr(np.random, name), "numpy", drawn))


def _redirected(function: Callable[..., Any], generator: str, name: str) -> Callable[..., Any]:
    @functools.wraps(function)
    def drawn(*arguments: Any, **named: Any) -> Any:
        stream = getattr(_OF_THREAD, "stream", None)
        chosen = function if stream is None else getattr(getattr(stream, generator), name)
        return chosen(*arguments, **named)

    return drawn


_OF_THREAD = threading.local()
_LOCK = threading.Lock()
_REDIRECTED: list[bool] = []
