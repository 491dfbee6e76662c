"""An excerpt of a call: what happened in a window of time, with times from its begin."""

from __future__ import annotations

import polars as pl

from rtclab.errors import BadInput
from rtclab.experiment.window import Moment, check_reached, open_window
from rtclab.trace import NS_PER_S, SCHEMAS, Trace, Window, closed

LONGEST_S = 3600
"""Maximum length of a call, so that it is estimated and simulated in minutes."""

_LENGTHS = ("queued_ns", "held_ns", "decode_ns", "display_ns")
"""Columns in ns that are no times."""


def chosen_window(duration_ns: int, begin: Moment | None, end: Moment | None) -> Window | None:
    """The window of a call that is taken, in s; None for the whole call.

    Raises:
        BadInput: it is too long, or there is no such time in the call.
    """
    duration_s = duration_ns / NS_PER_S
    window = open_window(begin, end)
    check_reached(window, [duration_s])
    chosen = window and closed(window, duration_s)
    length_s = duration_s if chosen is None else chosen[1] - chosen[0]
    if length_s > LONGEST_S:
        raise BadInput(
            f"{'the call' if chosen is None else 'the part of the call'} lasts {_words(length_s)}; "
            f"expected at most {_words(LONGEST_S)}",
            hint="choose a part, such as `--from 60s --to 10min`, in Python `begin=` and `end=`",
        )
    return chosen


def excerpt_of(trace: Trace, chosen: Window) -> Trace:
    """The rows of a window. Tables whose rows have no time, such as histograms, are left out."""
    begin_ns, end_ns = (round(moment * NS_PER_S) for moment in chosen)
    part, tables = trace.within(chosen), {}
    for name in trace.tables:
        times = [one for one in SCHEMAS[name] if one.endswith("_ns") and one not in _LENGTHS]
        if times or name == "hops":
            tables[name] = part.table(name).with_columns(pl.col(one) - begin_ns for one in times)
    about, length_ns, flows = trace.manifest, end_ns - begin_ns, {}
    for name, flow in about.flows.items():
        ends_ns = (min(max(at_ns - begin_ns, 0), length_ns) for at_ns in (flow.begin_ns, flow.end_ns))
        flows[name] = flow.model_copy(update=dict(zip(("begin_ns", "end_ns"), ends_ns, strict=True)))
    calls = tuple(call.model_copy(update={"start_ns": 0, "end_ns": length_ns}) for call in about.calls)
    shorter = about.model_copy(update={"duration_ns": length_ns, "flows": flows, "calls": calls})
    return Trace.in_memory(tables, shorter)


def _words(length_s: float) -> str:
    """A length in the unit in which it is short: ``26.4 h``."""
    return f"{length_s / 3600:.3g} h" if length_s >= 3600 else f"{length_s / 60:.3g} min"
