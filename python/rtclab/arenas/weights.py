"""Weights of a score, which an arena shows only if somebody asks for it."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from math import isfinite
from pathlib import Path

from rtclab.arenas.values import RANKED
from rtclab.errors import BadInput
from rtclab.scenario.table import closest

_EXAMPLE = "for example `rate_attained=1,queuing_delay_p95=2`"


def read_weights(given: str | Path | Mapping[str, float] | None) -> dict[str, float]:
    """Weights by the name of a value, in the order of the page: a mapping, text ``k=v,…``, or a TOML file.

    Raises:
        BadInput: a name is unknown, a weight is no positive number, or a file cannot be read.
    """
    if given is None:
        return {}
    origin, pairs = "weights", given
    if not isinstance(given, (str, Path, Mapping)):
        raise BadInput(f"weights: got `{given}`; expected a number for each name", hint=_EXAMPLE)
    if not isinstance(given, Mapping):
        text = str(given)
        if text.endswith(".toml"):
            origin, pairs = text, _from_file(Path(text))
        else:
            pairs = dict(_pair(part) for part in text.split(","))
    assert isinstance(pairs, Mapping)
    found: dict[str, float] = {}
    for name, weight in pairs.items():
        if name not in RANKED:
            hint = closest(name, RANKED) or _EXAMPLE
            raise BadInput(f"{origin}: no value `{name}`; expected {', '.join(RANKED)}", hint=hint)
        if (
            isinstance(weight, bool)
            or not isinstance(weight, int | float)
            or not isfinite(weight)
            or weight <= 0
        ):
            raise BadInput(f"{origin}: {name}: got `{weight}`; expected a number above 0", hint=_EXAMPLE)
        found[name] = float(weight)
    if not found:
        raise BadInput(f"{origin}: no weight; expected at least one", hint=_EXAMPLE)
    return {name: found[name] for name in RANKED if name in found}


def _pair(part: str) -> tuple[str, float]:
    name, equals, weight = part.partition("=")
    try:
        if not equals:
            raise ValueError
        return name.strip(), float(weight)
    except ValueError:
        raise BadInput(f"weights: cannot read `{part}`; expected NAME=NUMBER", hint=_EXAMPLE) from None


def _from_file(path: Path) -> dict[str, float]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise BadInput(f"{path}: {error.strerror}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise BadInput(f"{path}: {error}", hint="expected lines such as `rate_attained = 1`") from None
