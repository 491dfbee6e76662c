"""The base class of all tables in a scenario, and the translation of pydantic's errors."""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, ClassVar, Self

from pydantic import BaseModel, ConfigDict, ValidationError, model_validator
from pydantic_core import ErrorDetails

from rtclab.errors import FieldError, FieldErrors, Problem, ScenarioError
from rtclab.scenario.elsewhere import ELSEWHERE
from rtclab.scenario.toml_text import toml_text

CONSTANT = "<constant>"
UNKNOWN = "<unknown>"
EXAMPLES = {
    "duration": '`duration = "60 s"`',
    "participants": "a line `[participants.alice]` and one `[participants.bob]`",
    "encoder_capacity": '`encoder_capacity = "10 Mpixel/s"`',
    "sender": '`sender = "alice"`',
    "receiver": '`receiver = "bob"`',
    "routes": '`routes = ["alice->bob"]`',
}
"""Examples of fields that are required."""


class Table(BaseModel):
    """A TOML table with a fixed set of keys."""

    # Keys by another name that a user may expect, for the hint of the error.
    renamed: ClassVar[Mapping[str, str]] = {}

    model_config = ConfigDict(
        extra="forbid",
        frozen=True,
        serialize_by_alias=True,
        validate_default=True,
        # What holds tables is compiled with them, when it is first used.
        defer_build=True,
    )

    @model_validator(mode="before")
    @classmethod
    def _no_unknown_keys(cls, data: Any) -> Any:
        if isinstance(data, cls):
            return data
        if not isinstance(data, dict):
            raise FieldError(
                f"expected a table; got `{toml_text(data)}`", hint=f"valid keys: {', '.join(cls.key_names())}"
            )
        keys = cls.key_names()
        unknown = [
            FieldError(
                f"unknown key; expected {one_of(keys)}",
                hint=f"it is called `{cls.renamed[key]}`" if key in cls.renamed else hint_for(key, keys),
                key=str(key),
            )
            for key in data
            if key not in keys
        ]
        if unknown:
            raise FieldErrors(unknown)
        return data

    @classmethod
    def key_names(cls) -> list[str]:
        """The keys as written in TOML, in the order of the class."""
        return [field.alias or name for name, field in cls.model_fields.items()]

    @classmethod
    def read(cls, data: object, origin: str) -> Self:
        """Validates ``data``. Errors begin with ``origin``.

        Raises:
            ScenarioError: the data are invalid. It lists every problem found.
        """
        try:
            return cls.model_validate(data)
        except ValidationError as error:
            problems = [
                problem
                for detail in error.errors()
                # This default depends on another field, which is invalid and has an error already.
                if detail["type"] != "default_factory_not_called"
                for problem in _problems(detail)
            ]
            raise ScenarioError(origin, problems) from None


def check_goes_forward(table: Any) -> None:
    """Checks that the ``end`` of a table is after its ``start``.

    Raises:
        FieldError: it is not.
    """
    if table.end <= table.start:
        raise FieldError(f"`{table.end}` is not after start = `{table.start}`", key="end")


def check_positive(table: Table, *keys: str, hint: str | None = None) -> None:
    """Checks that quantities of a table are not zero, as far as they are given.

    Raises:
        FieldError: one is zero.
    """
    for key in keys:
        quantity = getattr(table, key)
        if quantity is not None and not quantity.amount:
            raise FieldError(f"must be positive; got `{quantity}`", hint=hint, key=key)


def tag_of(tables: dict[str, type[Table]]) -> Callable[[Any], str]:
    """Discriminator of a field that is either a plain quantity or one of several tables.

    ``tables`` maps the key that identifies a table to its class. Tags are in angle brackets, so that they can
    be removed from the location of an error.
    """

    def discriminate(value: Any) -> str:
        for key, table in tables.items():
            if isinstance(value, table) or (isinstance(value, dict) and key in value):
                return f"<{key}>"
        return UNKNOWN if isinstance(value, dict) else CONSTANT

    return discriminate


def closest(word: object, known: Iterable[str]) -> str | None:
    """A hint with the known word most similar to ``word``, None if none is similar."""
    matches = difflib.get_close_matches(str(word), list(known), n=1, cutoff=0.5)
    return f"did you mean `{matches[0]}`?" if matches else None


def hint_for(word: object, known: Iterable[str]) -> str | None:
    """A hint about an unknown word: what it is called in rtclab, or else the most similar known word."""
    return ELSEWHERE.get(str(word).lower().replace("-", "_")) or closest(word, known)


def _problems(detail: ErrorDetails) -> list[Problem]:
    location = [str(part) for part in detail["loc"] if not str(part).startswith("<")]
    error = detail.get("ctx", {}).get("error")
    errors: list[FieldError]
    if isinstance(error, FieldErrors):
        errors = error.errors
    elif isinstance(error, FieldError):
        errors = [error]
    else:
        errors = [_translated(detail)]
    return [
        Problem(".".join([*location, error.key] if error.key else location), error.message, error.hint)
        for error in errors
    ]


_TOML_WORDS = {
    "dict_type": "a table",
    "list_type": "an array",
    "tuple_type": "an array",
    "bool_type": "true or false",
}


def _translated(detail: ErrorDetails) -> FieldError:
    value = toml_text(detail["input"])
    if detail["type"] == "missing":
        example = EXAMPLES.get(str(detail["loc"][-1]))
        return FieldError("missing", hint=f"for example {example}" if example else None)
    if detail["type"] == "literal_error":
        expected = str(detail["ctx"]["expected"]).replace("'", "`")
        known = expected.replace("`", "").replace(" or ", ", ").split(", ")
        return FieldError(f"unknown value `{value}`; expected {expected}", hint=hint_for(value, known))
    if detail["type"] == "union_tag_invalid":
        tables = re.findall(r"<(\w+)>", str(detail["ctx"]["expected_tags"]).replace(CONSTANT, ""))
        return FieldError(f"expected a table with {one_of(tables)}, or a plain value; got `{value}`")
    if detail["type"] == "too_short":
        least, got = detail["ctx"]["min_length"], detail["ctx"]["actual_length"]
        return FieldError(f"expected a length of at least {least}; got {got}")
    if detail["type"] == "too_long":
        most, got = detail["ctx"]["max_length"], detail["ctx"]["actual_length"]
        return FieldError(f"expected a length of at most {most}; got {got}")
    if detail["type"] in _TOML_WORDS:
        return FieldError(f"expected {_TOML_WORDS[detail['type']]}; got `{value}`")
    message = detail["msg"].removeprefix("Input ").removeprefix("String ")
    return FieldError(f"{message}; got `{value}`")


def one_of(names: list[str]) -> str:
    """The names as ``a, b or c``."""
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} or {names[-1]}"
