"""The values of a varied field: a list such as ``A,B,C``, or a range such as ``0.2..5 Mbit/s x8 log``."""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any, Self

from pydantic import BaseModel

from rtclab.errors import BadInput
from rtclab.scenario import Bitrate, Duration, PixelRate, QueueLimit, Ratio, Scenario, Size
from rtclab.scenario.layers import split_fields
from rtclab.scenario.toml_text import OPENING, QUOTES, read_value, split_at_commas, toml_text

MAX_REPEATS = 1_000_000
"""Maximum number of repeats of a sweep. One core simulates this many minutes of a call in four hours."""
DIGITS = 4
"""Significant digits of the values inside a range."""

SUFFIXES = {
    "": "number",
    "bit/s": "bps",
    "s": "s",
    "%": "percent",
    "B": "bytes",
    "packets": "packets",
    "pixel/s": "pixels_per_second",
}
"""Suffix of number columns, by unit."""

_NUMBER = r"-?(?:[0-9]+(?:\.[0-9]+)?|\.[0-9]+)"
_RANGE = re.compile(
    rf"\s*(?P<begin>{_NUMBER})\s*\.\.\s*(?P<end>{_NUMBER})\s*(?P<unit>(?!x[0-9])[^\d\s]*)"
    rf"(?:\s*x\s*(?P<count>[0-9]+))?(?P<log>\s+log)?\s*"
)
_EXAMPLE = "for example `link.up.capacity=0.2..5 Mbit/s x8 log`"


@dataclass(frozen=True)
class Field:
    """A varied field of the scenario, or several with the same value, with the values in the given order.

    ``texts`` are the values as written. ``range`` is the text of the range, empty for a list, and ``log``
    says whether the range is logarithmic. ``numbers`` are the values in the base unit ``unit``, empty
    unless all values are numbers with the same base unit.
    """

    name: str
    values: tuple[Any, ...]
    texts: tuple[str, ...]
    range: str = ""
    log: bool = False
    numbers: tuple[float, ...] = ()
    unit: str = ""

    @property
    def count(self) -> int:
        """Number of values."""
        return len(self.values)

    def only(self, texts: Collection[str]) -> Field:
        """The field with only some of its values."""
        places = [place for place, text in enumerate(self.texts) if text in texts]

        def of(values: tuple[Any, ...]) -> tuple[Any, ...]:
            return tuple(values[place] for place in places) if values else ()

        return replace(self, values=of(self.values), texts=of(self.texts), numbers=of(self.numbers))

    @property
    def number_column(self) -> str:
        """Name of the number column in the table of results, such as ``link.up.capacity_bps``."""
        return f"{self.name}_{SUFFIXES[self.unit]}"

    @classmethod
    def from_json(cls, known: Mapping[str, Any]) -> Self:
        """Makes a field from the result of ``dataclasses.asdict``, read back from JSON."""
        lists = {key: tuple(known[key]) for key in ("values", "texts", "numbers")}
        return cls(**{**known, **lists})


def read_field(name: str, given: object) -> Field:
    """Reads the values of a field: a text such as ``A,B,C`` or ``0..5 % x6``, or a list of values.

    Raises:
        BadInput: the values cannot be read, are missing, or are given twice.
    """
    if isinstance(given, str):
        parts = split_at_commas(given)
        if any(_outside(part, "..") for part in parts):
            return _range(name, given)
        values, texts = [read_value(part) for part in parts], parts
    elif isinstance(given, Sequence):
        values = list(given)
        texts = [value if isinstance(value, str) else toml_text(value) for value in values]
    else:
        raise BadInput(
            f"vary: {name}: expected a list of values or a range; got `{toml_text(given)}`", hint=_EXAMPLE
        )
    if not values or not all(text.strip() for text in texts):
        raise BadInput(f"vary: {name}: empty value in `{toml_text(given)}`", hint=_EXAMPLE)
    twice = next((text for index, text in enumerate(texts) if text in texts[:index]), None)
    if twice is not None:
        raise BadInput(f"vary: {name}: `{twice}` is given twice; expected each value once")
    return Field(name, tuple(values), tuple(texts))


def number_of(scenario: Scenario, field: str) -> tuple[float, str] | None:
    """A field of a scenario, or the first of several, as a number and its base unit; None if it is none."""
    value: object = scenario
    for key in split_fields(field)[0].split("."):
        match value:
            case BaseModel():
                names = {about.alias or name: name for name, about in type(value).model_fields.items()}
                value = getattr(value, names.get(key, key), None)
            case Mapping():
                value = value.get(key)
            case list():
                value = value[int(key)]
    match value:
        case bool():
            return None
        case int() | float():
            return float(value), ""
        case Bitrate(bps=bps):
            return float(bps), "bit/s"
        case Duration(ns=ns):
            return ns / 1e9, "s"
        case Ratio(value=share):
            return 100 * share, "%"
        case Size(bytes=count) | QueueLimit(kind="bytes", limit=count):
            return float(count), "B"
        case QueueLimit(kind="packets", limit=count):
            return float(count), "packets"
        case QueueLimit(kind="time", limit=ns):
            return ns / 1e9, "s"
        case PixelRate(pixels_per_second=rate):
            return float(rate), "pixel/s"
    return None


def _range(name: str, text: str) -> Field:
    match = _RANGE.fullmatch(text)
    if match is None:
        raise BadInput(
            f"vary: {name}: cannot read the range `{text}`; expected FROM..TO UNIT xN", hint=_EXAMPLE
        )
    begin, end, unit = match["begin"], match["end"], match["unit"]
    if match["count"] is None:
        raise BadInput(
            f"vary: {name}: number of values missing in `{text}`; expected xN",
            hint=f"write `{text.strip()} x5`",
        )
    count, log = int(match["count"]), match["log"] is not None
    if not 2 <= count <= MAX_REPEATS:
        raise BadInput(f"vary: {name}: x{count} in `{text}`; expected x2 to x{MAX_REPEATS}")
    if float(begin) == float(end):
        raise BadInput(f"vary: {name}: both ends of `{text}` are equal; expected two different numbers")
    if log and min(float(begin), float(end)) <= 0:
        raise BadInput(
            f"vary: {name}: both ends of a logarithmic range must be positive; got `{text}`",
            hint="leave out `log`",
        )
    numbers = [begin, *_between(float(begin), float(end), count, log=log), end]
    texts = [f"{number} {unit}".strip() for number in numbers]
    if len(set(texts)) < count:
        raise BadInput(
            f"vary: {name}: the {count} values of `{text}` are not all different at {DIGITS} digits"
        )
    return Field(name, tuple(texts if unit else map(read_value, texts)), tuple(texts), text.strip(), log)


def _between(begin: float, end: float, count: int, *, log: bool) -> list[str]:
    """The values between the ends of a range, evenly spaced; with ``log``, on a logarithmic scale."""
    shares = [index / (count - 1) for index in range(1, count - 1)]
    if log:
        inner = [begin * math.exp(share * math.log(end / begin)) for share in shares]
    else:
        inner = [begin + share * (end - begin) for share in shares]
    # Rates and times must be whole numbers of bit/s and ns, so values with more digits might be invalid.
    return [f"{Decimal(f'{number:.{DIGITS}g}').normalize():f}" for number in inner]


def _outside(part: str, wanted: str) -> bool:
    """Whether ``part`` contains ``wanted`` and is not a table, an array or a quoted string."""
    return part[:1] not in (*OPENING, *QUOTES) and wanted in part
