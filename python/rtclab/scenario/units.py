"""Quantities that carry their unit: ``1 Mbit/s``, ``25 ms``, ``2 %``, ``20 packets``; k = 1000."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from decimal import Decimal
from math import inf
from typing import Any, ClassVar, Literal, Self

from pydantic import GetCoreSchemaHandler, GetJsonSchemaHandler
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema, core_schema

from rtclab.errors import FieldError
from rtclab.scenario.toml_text import toml_text

_NUMBER_AND_UNIT = re.compile(r"\s*([0-9]+(?:\.[0-9]+)?|\.[0-9]+)\s*(\D*?)\s*")

_NS_PER: dict[str, Decimal] = {
    "ns": Decimal(1),
    "us": Decimal(10**3),
    "ms": Decimal(10**6),
    "s": Decimal(10**9),
    "min": Decimal(60 * 10**9),
}
_NS_PER_SUBMINUTE = {unit: size for unit, size in _NS_PER.items() if unit != "min"}
_BYTES_PER: dict[str, Decimal] = {"B": Decimal(1), "kB": Decimal(10**3), "MB": Decimal(10**6)}
# Larger than in any network, and small enough for sums and products in 64 bits: 31 years, 1 Pbit/s, 1 PB.
_LARGEST_NS = 10**18
_LARGEST = 10**15
_TIME_SPELLINGS = {"sec": "s", "second": "s", "seconds": "s", "msec": "ms", "µs": "us", "m": "min"}
_RATE_SPELLINGS = {
    short + ending: unit
    for short, unit in {"": "bit/s", "k": "kbit/s", "m": "Mbit/s", "g": "Gbit/s"}.items()
    for ending in ("bps", "b/s", "bit", "bits/s", "bit/s")
}
_BYTES_SPELLINGS = {"b": "B", "byte": "B", "bytes": "B", "kb": "kB", "kib": "kB", "mb": "MB", "mib": "MB"}


class Quantity:
    """A number with a unit. The name of the field that holds the number is its unit (``bps``, ``ns``).

    ``units`` maps each accepted unit to its size. ``spellings`` maps common misspellings, in lower case, to
    the unit to suggest in the hint. ``guesses`` are the units to suggest for a number without one: those
    of the first entry whose limit the number is below.
    """

    noun: ClassVar[str]
    example: ClassVar[str]
    units: ClassVar[Mapping[str, Decimal]]
    spellings: ClassVar[Mapping[str, str]] = {}
    guesses: ClassVar[Sequence[tuple[float, Sequence[str]]]] = ()
    largest: ClassVar[int] = _LARGEST

    @property
    def amount(self) -> Any:
        """The number without its unit, in the unit that the name of its field says."""
        return getattr(self, fields(self)[0].name)  # type: ignore[arg-type]  # each kind is a dataclass

    def __str__(self) -> str:
        return _in_largest_unit(self.amount, self.units)

    @classmethod
    def parse(cls, value: object) -> Self:
        """Parses a text such as ``1 Mbit/s``. The space is optional.

        Raises:
            FieldError: the unit is missing or unknown, or the value is not a quantity.
        """
        if isinstance(value, cls):
            return value
        number, unit = cls._split(value)
        return cls._of(number, unit)

    @classmethod
    def _of(cls, number: Decimal, unit: str) -> Self:
        smallest = f"1 {next(iter(cls.units))}"
        return cls(_whole(number, unit, cls.units, smallest, cls.largest))  # type: ignore[call-arg]

    @classmethod
    def _split(cls, value: object) -> tuple[Decimal, str]:
        *others, last = cls.units
        expected = f"{', '.join(others)} or {last}" if others else last
        if isinstance(value, bool) or not isinstance(value, str | int | float):
            raise FieldError(f"expected a {cls.noun} such as `{cls.example}`; got `{toml_text(value)}`")
        match = _NUMBER_AND_UNIT.fullmatch(str(value))
        if match is None and _NUMBER_AND_UNIT.fullmatch(str(value).strip().removeprefix("-")):
            raise FieldError(f"`{value}` is negative; expected a {cls.noun} of 0 or more")
        if match is None:
            raise FieldError(
                f"cannot read `{value}` as a {cls.noun}; expected a number and a unit ({expected})",
                hint=f"for example `{cls.example}`",
            )
        number, unit = match.groups()
        if unit in cls.units:
            return Decimal(number), unit
        if not unit:
            hint = cls._hint(cls._guesses(Decimal(number)))
            raise FieldError(f"no unit in `{toml_text(value)}`; expected {expected}", hint=hint)
        hint = cls._hint([f"{number} {meant}" for meant in cls._meant(unit)])
        raise FieldError(f"unknown {cls.noun} unit in `{value}`; expected {expected}", hint=hint)

    @classmethod
    def likely_units(cls, number: Decimal) -> Sequence[str]:
        """The units that a number without one may have."""
        return next((units for limit, units in cls.guesses if number < limit), ())

    @classmethod
    def _guesses(cls, number: Decimal) -> list[str]:
        """What a number without a unit may mean, if it is not 0, which most fields reject."""
        return [f"{_plain(number)} {unit}" for unit in cls.likely_units(number)] if number else []

    @classmethod
    def _meant(cls, unit: str) -> list[str]:
        """The unit that a misspelled one means, if it is known."""
        spelled = cls.spellings.get(unit.lower())
        return [spelled] if spelled else [known for known in cls.units if known.lower() == unit.lower()]

    @classmethod
    def _hint(cls, texts: Sequence[str]) -> str:
        """What to write: the texts that can be read, or else an example."""
        valid = [f"`{text}`" for text in texts if cls._reads(text)]
        return f"write {' or '.join(valid)}" if valid else f"for example `{cls.example}`"

    @classmethod
    def _reads(cls, text: str) -> bool:
        number, unit = text.split()
        try:
            cls._of(Decimal(number), unit)
        except (FieldError, KeyError):
            return False
        return True

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.no_info_plain_validator_function(
            cls.parse, serialization=core_schema.to_string_ser_schema()
        )

    @classmethod
    def __get_pydantic_json_schema__(
        cls, schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> JsonSchemaValue:
        units = "|".join(re.escape(unit) for unit in cls.units)
        pattern = rf"^\s*([0-9]+(\.[0-9]+)?|\.[0-9]+)\s*({units})\s*$"
        return {"type": "string", "pattern": pattern, "examples": [cls.example]}


@dataclass(frozen=True, order=True)
class Bitrate(Quantity):
    """A bitrate in bit/s, written as ``1 Mbit/s``."""

    bps: int

    noun: ClassVar[str] = "rate"
    example: ClassVar[str] = "1 Mbit/s"
    units: ClassVar[Mapping[str, Decimal]] = {
        "bit/s": Decimal(1),
        "kbit/s": Decimal(10**3),
        "Mbit/s": Decimal(10**6),
        "Gbit/s": Decimal(10**9),
    }
    spellings: ClassVar[Mapping[str, str]] = _RATE_SPELLINGS
    # Rates of calls are 50 kbit/s to 50 Mbit/s; above, other tools' numbers are in bit/s.
    guesses = ((50, ["Mbit/s"]), (50_000, ["kbit/s"]), (inf, ["bit/s"]))

    @classmethod
    def _meant(cls, unit: str) -> list[str]:
        return [] if "B" in unit else super()._meant(unit)  # `MB/s` are bytes


@dataclass(frozen=True, order=True)
class Duration(Quantity):
    """A duration, or a time since the run began, in nanoseconds."""

    ns: int

    noun: ClassVar[str] = "time"
    example: ClassVar[str] = "25 ms"
    units: ClassVar[Mapping[str, Decimal]] = _NS_PER
    spellings: ClassVar[Mapping[str, str]] = _TIME_SPELLINGS
    guesses = ((100_000, ["ms", "s"]), (inf, ["us", "ns"]))
    largest = _LARGEST_NS

    @property
    def s(self) -> float:
        """The duration in seconds."""
        return self.ns / 1e9

    @property
    def ms(self) -> float:
        """The duration in milliseconds."""
        return self.ns / 1e6

    def __str__(self) -> str:
        return _in_largest_unit(self.ns, _NS_PER_SUBMINUTE) if self.ns else "0 s"


@dataclass(frozen=True, order=True)
class PixelRate(Quantity):
    """A rate of encoding in pixels per second: width times height times frame rate."""

    pixels_per_second: int

    noun: ClassVar[str] = "pixel rate"
    example: ClassVar[str] = "20 Mpixel/s"
    units: ClassVar[Mapping[str, Decimal]] = {
        "pixel/s": Decimal(1),
        "kpixel/s": Decimal(10**3),
        "Mpixel/s": Decimal(10**6),
        "Gpixel/s": Decimal(10**9),
    }
    # 320x180 at 15 frame/s are 0.9 Mpixel/s, and 4K at 60 frame/s are 500.
    guesses = ((1000, ["Mpixel/s"]), (700_000, ["kpixel/s"]), (inf, ["pixel/s"]))


@dataclass(frozen=True, order=True)
class Ratio(Quantity):
    """A ratio as a number from 0 to 1, written in per cent."""

    value: float

    noun: ClassVar[str] = "ratio"
    example: ClassVar[str] = "2 %"
    units: ClassVar[Mapping[str, Decimal]] = {"%": Decimal("0.01")}
    spellings: ClassVar[Mapping[str, str]] = {"percent": "%", "pct": "%"}

    @classmethod
    def _of(cls, number: Decimal, unit: str) -> Self:
        if number > 100:
            raise FieldError(f"`{number} %` is more than 100 %; expected 0 % to 100 %")
        return cls(float(number * cls.units[unit]))

    @classmethod
    def _guesses(cls, number: Decimal) -> list[str]:
        return [f"{_plain(number * 100 if number < 1 else number)} %"] if number else []

    def __str__(self) -> str:
        return f"{_plain(Decimal(repr(self.value)) * 100)} %"


@dataclass(frozen=True, order=True)
class Probability(Ratio):
    """A ratio that may also be written as a number from 0 to 1."""

    @classmethod
    def parse(cls, value: object) -> Self:
        """Parses ``2 %`` or ``0.02``."""
        if isinstance(value, int | float) and not isinstance(value, bool):
            if not 0 <= value <= 1:
                raise FieldError(f"`{value}` is not a probability; expected 0 to 1, or 0 % to 100 %")
            return cls(float(value))
        return super().parse(value)

    @classmethod
    def __get_pydantic_json_schema__(
        cls, schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> JsonSchemaValue:
        written = super().__get_pydantic_json_schema__(schema, handler)
        return {"anyOf": [written, {"type": "number", "minimum": 0, "maximum": 1}]}


@dataclass(frozen=True, order=True)
class Size(Quantity):
    """An amount of data in bytes, written as ``30 kB``."""

    bytes: int

    noun: ClassVar[str] = "size"
    example: ClassVar[str] = "30 kB"
    units: ClassVar[Mapping[str, Decimal]] = _BYTES_PER
    spellings: ClassVar[Mapping[str, str]] = _BYTES_SPELLINGS
    guesses = ((1000, ["B", "kB"]), (inf, ["B"]))


@dataclass(frozen=True)
class QueueLimit(Quantity):
    """The limit of a queue: packets, bytes, or a time in ns, meaning the bytes that the link sends in it."""

    kind: Literal["time", "packets", "bytes"]
    limit: int

    noun: ClassVar[str] = "queue limit"
    example: ClassVar[str] = "300 ms"
    units: ClassVar[Mapping[str, Decimal]] = _NS_PER_SUBMINUTE | {"packets": Decimal(1)} | _BYTES_PER
    spellings: ClassVar[Mapping[str, str]] = (
        _BYTES_SPELLINGS | _TIME_SPELLINGS | {"packet": "packets", "pkts": "packets"}
    )
    guesses = ((10_000, ["ms", "packets"]), (inf, ["B"]))

    @classmethod
    def _of(cls, number: Decimal, unit: str) -> Self:
        kind: Literal["time", "packets", "bytes"] = "packets"
        if unit != "packets":
            kind = "bytes" if unit in _BYTES_PER else "time"
        smallest = {"time": "1 ns", "packets": "one packet", "bytes": "1 B"}[kind]
        largest = _LARGEST_NS if kind == "time" else _LARGEST
        return cls(kind, _whole(number, unit, cls.units, smallest, largest))

    def __str__(self) -> str:
        if self.kind == "packets":
            return f"{self.limit} packets"
        if self.kind == "bytes":
            return _in_largest_unit(self.limit, _BYTES_PER)
        return str(Duration(self.limit))


def with_unit(value: float, unit: str) -> str:
    """A number and its unit, to 6 significant digits, or fewer if the unit cannot be divided further."""
    number = Decimal(f"{value:.6g}")
    sizes = [
        kind.units[unit] for kind in (Bitrate, Duration, PixelRate, Size, QueueLimit) if unit in kind.units
    ]
    if sizes:
        number = (number * sizes[0]).to_integral_value() / sizes[0]
    return f"{_plain(number)} {unit}".strip()


def _whole(
    number: Decimal, unit: str, units: Mapping[str, Decimal], smallest: str, largest: int = _LARGEST
) -> int:
    value = number * units[unit]
    if value > largest:
        most = _plain(Decimal(largest) / units[unit])
        raise FieldError(f"`{number} {unit}` is too large; expected at most {most} {unit}")
    if value != value.to_integral_value():
        raise FieldError(f"`{_plain(number)} {unit}` is not a whole multiple of {smallest}")
    return int(value)


def _in_largest_unit(value: int, units: Mapping[str, Decimal]) -> str:
    fitting = [unit for unit, size in units.items() if value >= size]
    unit = fitting[-1] if fitting else next(iter(units))
    return f"{_plain(Decimal(value) / units[unit])} {unit}"


def _plain(number: Decimal) -> str:
    return f"{number.normalize():f}"
