"""Names and values of varied fields for readers."""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np

from rtclab.experiment.fields import Field
from rtclab.metrics.series import Array
from rtclab.scenario.layers import split_fields

SCALES = {
    "bit/s": ((1e6, "Mbit/s"), (1e3, "kbit/s")),
    "s": ((1.0, "s"), (1e-3, "ms")),
    "B": ((1e6, "MB"), (1e3, "kB")),
    "pixel/s": ((1e6, "Mpixel/s"),),
}
"""Display units of each base unit, largest first, with their size."""
WAYS = {"up": "uplink", "down": "downlink"}
OWNERS = re.compile(r"(?:participants\.(?P<who>[^.]+)\.)?link\.(?P<way>up|down)")
NAMES = {"congestion_control.name": "congestion control", "control": "congestion control"}


def field_in_words(name: str) -> str:
    """What a field is, for a sentence: ``capacity of the uplinks`` for ``link.up.capacity``.

    Fields that are joined by ``+`` are one quantity of several owners, if their last keys are equal.
    """
    parts = [_parts(field) for field in split_fields(name)]
    if len({what for what, _ in parts}) > 1:
        return " and ".join(f"{what} of {of}" if of else what for what, of in parts)
    owners = list(dict.fromkeys(of for _, of in parts if of))
    return f"{parts[0][0]} of {' and '.join(owners)}" if owners else parts[0][0]


def heading(name: str, unit: str = "") -> str:
    """The name of a field as a title or the label of an axis: ``Capacity of the uplinks (Mbit/s)``."""
    words = field_in_words(name)
    return f"{words[0].upper()}{words[1:]}" + (f" ({unit})" if unit else "")


def _parts(field: str) -> tuple[str, str]:
    """The quantity, and what has it; that is empty for a table of the whole scenario without a name."""
    if field in NAMES:
        return NAMES[field], ""
    table, _, key = field.rpartition(".")
    what = key.replace("_", " ")
    found = OWNERS.fullmatch(table)
    if found is None:
        return what, table.replace("_", " ").replace(".", " ")
    way = WAYS[found["way"]]
    return what, f"{found['who']}'s {way}" if found["who"] else f"the {way}s"


def unit_of(field: Field) -> tuple[float, str]:
    """The size of a field's display unit in base units, and its name."""
    scales = SCALES.get(field.unit, ())
    greatest = max((abs(value) for value in field.numbers), default=0.0)
    return next(((size, unit) for size, unit in scales if greatest >= size), (1.0, field.unit))


def short_numbers(field: Field) -> list[str]:
    """The values without their unit, in the given order; texts if they are no numbers."""
    if not field.numbers:
        return list(field.texts)
    return shortened(np.array(field.numbers) / unit_of(field)[0])


def short_values(field: Field) -> dict[str, str]:
    """Each value as it was written, and for readers: with three digits and a unit."""
    if not field.numbers:
        return {text: text for text in field.texts}
    unit = unit_of(field)[1]
    return {
        text: f"{number} {unit}".strip()
        for text, number in zip(field.texts, short_numbers(field), strict=True)
    }


def in_order(field: Field) -> list[str]:
    """The values as written: numbers in ascending order, others in the given order."""
    if not field.numbers:
        return list(field.texts)
    return [text for _, text in sorted(zip(field.numbers, field.texts, strict=True))]


def shortened(numbers: Array | Sequence[float]) -> list[str]:
    """Numbers with three significant digits, or with more if some would look the same."""
    rounded = ([f"{number:.{digits}g}" for number in numbers] for digits in (3, 4, 6))
    return next((names for names in rounded if len(set(names)) == len(names)), list(map(str, numbers)))
