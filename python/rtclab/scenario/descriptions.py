"""Reads the docstrings of a model's fields from the source code.

Pydantic can read them itself (``use_attribute_docstrings``), but it does so on every import.
"""

from __future__ import annotations

import ast
import inspect
from itertools import pairwise
from textwrap import dedent

from rtclab.scenario.ignored import ignored_in_words


def descriptions(model: type) -> dict[str, str]:
    """The docstring of each field of a class, inherited ones included, by the field's name.

    Fields of scenarios that one backend ignores say so.
    """
    found: dict[str, str] = {}
    for one in reversed(model.__mro__):
        if one.__module__.startswith("rtclab."):
            found |= {
                name: " ".join(filter(None, (text, ignored_in_words(one, name))))
                for name, text in _own(one).items()
            }
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
