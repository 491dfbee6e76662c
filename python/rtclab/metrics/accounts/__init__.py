"""Accounts of a trace that add up: what limited the rate, where packets were lost and what became of them,
what each freeze and gap of sound was, and where pictures waited. See docs/why.md."""

from collections.abc import Callable
from typing import NamedTuple

import polars as pl

from rtclab.metrics.accounts import fates, limits, losses, stalls, waits
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
    "fates": Account(fates.SCHEMA, fates.fates_table),
    "repair": Account(fates.SCHEMA_OF_REPAIR, fates.repair_table),
    "stalls": Account(stalls.SCHEMA, stalls.stalls_table),
    "waits": Account(waits.SCHEMA, waits.waits_table),
}
"""The accounts by name. ``Trace.table`` gives them like the tables that were recorded."""
