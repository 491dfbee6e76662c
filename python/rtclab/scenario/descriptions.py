"""Reads the docstrings of a model's fields from the source code.

Pydantic can read them itself (``use_attribute_docstrings``), but it does so on every import.
"""

from __future__ import annotations

import ast
import inspect
from itertools import pairwise
from textwrap import dedent


def descriptions(model: type) -> dict[str, str]:
    """The docstring of each field of a class, inherited ones included, by the field's name."""
    found: dict[str, str] = {}
    for one in reversed(model.__mro__):
        if one.__module__.startswith("rtclab."):
            found |= _own(one)
    return found


def _own(model: type) -> dict[str, str]:
    (tree,) = ast.parse(dedent(inspect.getsource(model))).body
    assert isinstance(tree, ast.ClassDef)
    return {
        field.target.id: inspect.cleandoc(text.value.value)
        for field, text in pairwise(tree.body)
        if isinstance(field, ast.AnnAssign)
        and isinstance(field.target, ast.Name)
        and isinstance(text, ast.Expr)
        and isinstance(text.value, ast.Constant)
        and isinstance(text.value.value, str)
    }
