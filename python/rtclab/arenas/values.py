"""The values of an arena: what is compared, and a number for each control, case and repeat."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import isnan, nan
from typing import Literal

import numpy as np
import polars as pl

from rtclab.arenas.cases import Case
from rtclab.metrics import METRICS
from rtclab.metrics.budget import BUDGETS_MS
from rtclab.metrics.series import Array

KBIT = 1000.0
PERCENT = 100.0
DIGITS = 6
"""Significant digits of values in files."""


@dataclass(frozen=True)
class Criterion:
    """A criterion by which controls are compared.

    ``grain`` is the size below which a difference means nothing, ``words`` the definition.
    """

    name: str
    label: str
    unit: str
    better: Literal["higher", "lower", ""]
    grain: float
    words: str

    @property
    def heading(self) -> str:
        """The label with the unit."""
        return f"{self.label} ({self.unit})" if self.unit else self.label


def _of_metric(name: str, grain: float, words: str, label: str = "") -> Criterion:
    """A criterion that is the mean of a metric over the flows under test."""
    one = METRICS[name]
    return Criterion(name, label or one.label, one.unit, one.better, grain, words)


def _by_name(*criteria: Criterion) -> dict[str, Criterion]:
    return {one.name: one for one in criteria}


CRITERIA = _by_name(
    Criterion(
        "rate_attained",
        "Rate attained",
        "%",
        "higher",
        0,
        "Bits that arrive, in % of what the narrowest path could carry or the sources could send, "
        "whichever is less at any time.",
    ),
    _of_metric("queuing_delay_p95", 1, "95th percentile of the time that packets wait in queues."),
    _of_metric("packet_loss", 0.1, "Packets that do not arrive."),
    Criterion("frozen", "Time frozen", "%", "lower", 0.1, "Share of the time for which video is frozen."),
    _of_metric("picture_delay", 1, "Mean time from the camera to the screen."),
    _of_metric("audio_concealed", 0.1, "Sound that the receiver has to make up."),
    _of_metric(
        "convergence_time",
        1,
        "The longest time until the rate stays near its level, after the start and after changes.",
    ),
    _of_metric(
        "recovery_time",
        1,
        "The longest time after a fall of the capacity until the delay is within its budget again.",
    ),
    _of_metric(
        "over_budget",
        0.1,
        "Share of the seconds in which packets take on average over 100 ms more than without queues, or "
        "in which none arrive.",
        "Time over budget",
    ),
    Criterion(
        "balance",
        "Balance of flows",
        "%",
        "higher",
        0,
        "The lowest rate of flows that share a path, in % of the highest, in windows of 20 s.",
    ),
    Criterion(
        "tcp_balance",
        "Balance with TCP",
        "%",
        "higher",
        0,
        "The smaller rate of a flow and of TCP beside it, in % of the larger, in windows of 20 s.",
    ),
    *(
        _of_metric(
            f"in_time_{budget}",
            0,
            f"The rate attained by packets that wait in queues for at most {budget} ms, without the "
            "seconds in which more than 10 % of the packets are lost.",
            f"Used in time, {budget} ms",
        )
        for budget in BUDGETS_MS
    ),
)
"""The criteria by name. A flow counts as much as any other flow of its case."""
RANKED = tuple(name for name in CRITERIA if not name.startswith("in_time_"))
SHOWN = _by_name(
    _of_metric("queuing_delay_p50", 1, "Median time in queues."),
    _of_metric("ce_share", 0.1, "Packets that arrive with a mark (CE).", "Marked"),
    _of_metric("aqm_drop_share", 0.1, "Packets that the queue drops early.", "Dropped early"),
    Criterion("freezes", "Freezes", "1/min", "lower", 0.1, "Freezes of video per minute."),
    _of_metric("frame_rate", 0, "Frames that are decoded."),
    _of_metric("frame_height", 0, "Mean height of the received video."),
    _of_metric("receiving_rate", 0, "IP packets that arrive."),
)
"""Values that are shown and not ranked."""
ALL = CRITERIA | SHOWN
PERCENTILES = (5, 25, 50, 75, 95)
"""The percentiles of the queuing delay of which its distribution is drawn."""
DISTRIBUTION = tuple(f"queuing_delay_p{percent}" for percent in PERCENTILES)
COLUMNS = tuple(dict.fromkeys((*ALL, *DISTRIBUTION)))
"""The values of a repeat, in the order of the table."""
_IN_TIME = tuple(f"in_time_{budget}" for budget in BUDGETS_MS)
MEANS = tuple(name for name in COLUMNS if name in METRICS and name not in _IN_TIME)
"""Values of a repeat that are means of a metric over its flows under test."""
_FOR_VALUES = (
    "flow_begin",
    "active_time",
    "freeze_count",
    "freeze_duration",
    "rate_balance_20s",
    "share_against_tcp_20s",
    "late_rate",
)
MEASURED = tuple(name for name in METRICS if name in {*MEANS, *_IN_TIME, *_FOR_VALUES})
"""The metrics from which all values are computed."""


def of_repeat(case: Case, numbers: Mapping[tuple[str, str], float]) -> dict[str, float]:
    """The values of a repeat, from the values of metrics by metric and flow."""
    flows = case.tested

    def known(name: str) -> list[float]:
        return [numbers[name, flow] for flow in flows if (name, flow) in numbers]

    found = {name: float(np.mean(of)) for name in MEANS if (of := known(name))}
    lasts = {flow: numbers["active_time", flow] for flow in flows if ("flow_begin", flow) in numbers}
    begins = {flow: numbers["flow_begin", flow] for flow in lasts}
    spans = {flow: (begins[flow], round(begins[flow] + lasts[flow], 9)) for flow in lasts}
    room = sum(case.room_bits(spans).values())
    bits = {flow: numbers.get(("receiving_rate", flow), 0.0) * KBIT * s for flow, s in lasts.items()}
    if room > 0:
        found["rate_attained"] = PERCENT * sum(bits.values()) / room
        for name in _IN_TIME:
            in_time = sum(numbers.get((name, flow), 0.0) * of for flow, of in bits.items())
            found[name] = in_time / room
    minutes = sum(lasts.values()) / 60
    if minutes > 0:
        if count := known("freeze_count"):
            found["freezes"] = sum(count) / minutes
        if frozen := known("freeze_duration"):
            found["frozen"] = PERCENT * sum(frozen) / (60 * minutes)
    if (balance := numbers.get(("rate_balance_20s", ""), nan)) == balance:
        found["balance"] = PERCENT * balance
    if shares := known("share_against_tcp_20s"):
        both = [min(one, PERCENT - one) / max(one, PERCENT - one) for one in shares]
        found["tcp_balance"] = PERCENT * float(np.mean(both))
    return found


OUTCOME = {"repeat": pl.Int64(), "seed": pl.Int64(), "status": pl.String(), "reason": pl.String()}
"""The columns that say how a repeat ended."""
KEYS = pl.Schema({"case": pl.String(), "control": pl.String(), **OUTCOME})


def table(rows: Sequence[Mapping[str, object]]) -> pl.DataFrame:
    """A table with ``KEYS`` and ``COLUMNS``, whose values are rounded to ``DIGITS``; null if unknown."""
    schema = {**KEYS, **dict.fromkeys(COLUMNS, pl.Float64())}
    values = [
        tuple(_rounded(row.get(name)) if name not in KEYS else row[name] for name in schema) for row in rows
    ]
    return pl.DataFrame(values, schema=schema, orient="row")


def _rounded(value: object) -> float | None:
    if not isinstance(value, float | int) or isnan(value):
        return None
    return float(f"{value:.{DIGITS}g}")


@dataclass(frozen=True)
class Values:
    """The values of an arena: a row of ``rows`` for each control, case and repeat.

    ``cases`` and ``controls`` are in the order of the page.
    """

    cases: tuple[Case, ...]
    controls: tuple[str, ...]
    rows: pl.DataFrame

    def of(
        self, name: str, cases: Sequence[Case] | None = None, *, complete: bool = True
    ) -> tuple[Array, list[Case]]:
        """A value, of shape (controls, cases, repeats), and the cases in which it is known.

        These are the cases in which some control has it and, if ``complete``, every control that did not fail
        there. NaN is unknown.

        Means of different repeats cannot be compared, and a control may fail in just the hard ones. So one
        that failed in any repeat of a case is unknown in the case, and a repeat counts only if all others
        have the value in it.
        """
        repeats = 1 + max(self.rows["repeat"].to_list(), default=0)
        chosen = list(self.cases if cases is None else cases)
        at_case = {case.name: index for index, case in enumerate(chosen)}
        at_control = {control: index for index, control in enumerate(self.controls)}
        values = np.full((len(self.controls), len(chosen), repeats), nan)
        failed = np.zeros(values.shape[:2], dtype=bool)
        columns = ("case", "control", "repeat", "status", name)
        for case, control, repeat, status, value in self.rows.select(columns).iter_rows():
            if case in at_case and control in at_control:
                place = at_control[control], at_case[case]
                failed[place] |= status != "finished"
                values[(*place, repeat)] = nan if value is None else value
        values[failed] = nan
        absent = np.isnan(values)
        have = ~absent.all(axis=2)
        values[:, (absent & have[..., None]).any(axis=0)] = nan
        known = ~np.isnan(values).all(axis=2)
        whole = known.any(axis=0)
        if complete:
            whole &= (known | failed).all(axis=0)
        return values[:, whole], [case for case, kept in zip(chosen, whole.tolist(), strict=True) if kept]

    def failures(self) -> pl.DataFrame:
        """A row per control and case in which repeats failed: their number, and the first reason.

        One failed repeat is enough: what others of the case show is not compared.
        """
        failed = self.rows.filter(pl.col("status") != "finished")
        return failed.group_by("control", "case", maintain_order=True).agg(
            pl.len().alias("repeats"), pl.col("reason").first()
        )

    def failed_in(self, control: str, cases: Sequence[Case] | None = None) -> int:
        """The number of cases, among all or some, in which a control failed in a repeat."""
        names = [case.name for case in (self.cases if cases is None else cases)]
        return self.failures().filter(pl.col("control") == control, pl.col("case").is_in(names)).height
