"""Errors for names of earlier versions, which say the present ones."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import NoReturn, ParamSpec, TypeVar

from rtclab.errors import BadInput

Arguments = ParamSpec("Arguments")
Returned = TypeVar("Returned")

BETWEEN = "choose the time before: .between(begin, end)"


def renamed(**hints: str) -> Callable[[Callable[Arguments, Returned]], Callable[Arguments, Returned]]:
    """Refuses arguments of earlier versions, each with a hint that says what to write now."""

    def decorate(function: Callable[Arguments, Returned]) -> Callable[Arguments, Returned]:
        @wraps(function)
        def called(*args: Arguments.args, **named: Arguments.kwargs) -> Returned:
            for name in named.keys() & hints.keys():
                raise BadInput(f"{name}: an argument of an earlier version", hint=hints[name])
            return function(*args, **named)

        return called

    return decorate


class NameGone(BadInput, AttributeError):
    """An attribute of an earlier version was asked for. Tools that look at every attribute pass over it."""


class Gone:
    """A name of an earlier version in a class: asking for it raises an error that says the present one."""

    def __init__(self, name: str, now: str) -> None:
        self._name, self._now = name, now

    def __get__(self, instance: object, owner: type) -> NoReturn:
        raise NameGone(f"{self._name}: a name of an earlier version", hint=f"write {self._now}")
