"""Accounts of a trace that add up: what limited the rate, where packets were lost, what each freeze was, and
where pictures waited. See docs/why.md."""

from collections.abc import Callable
from typing import NamedTuple

import polars as pl

from rtclab.metrics.accounts import limits, losses, stalls, waits
from rtclab.trace import Trace


class Account(NamedTuple):
    """A table that is made from the recorded tables of a trace.

    Attributes:
        schema: its columns and types.
        of: makes it from a trace, of whose window it is.
    """

    schema: pl.Schema
    of: Callable[[Trace], pl.DataFrame]


ACCOUNTS: dict[str, Account] = {
    "limits": Account(limits.SCHEMA, limits.limits_table),
    "losses": Account(losses.SCHEMA, losses.losses_table),
    "stalls": Account(stalls.SCHEMA, stalls.stalls_table),
    "waits": Account(waits.SCHEMA, waits.waits_table),
}
"""The accounts by name. ``Trace.table`` gives them like the tables that were recorded."""
