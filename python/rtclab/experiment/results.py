"""The results of an experiment: a run, a sweep, a list of conditions, or an imported capture or log."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from hashlib import sha256
from html import escape
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import polars as pl

from rtclab.arguments import items, table
from rtclab.errors import (
    BadInput,
    CallFailed,
    DiskFull,
    LaboratoryFailed,
    OtherSchema,
    TraceError,
)
from rtclab.experiment.comparison import Side, per_minute, values_of
from rtclab.experiment.conditions import equal_text, field_columns, table_of
from rtclab.experiment.definitions import Definitions
from rtclab.experiment.fields import Field
from rtclab.experiment.flows import Flows, chosen_flows, flows_of
from rtclab.experiment.measure import NOT_MEASURED, rows_of
from rtclab.experiment.recorded import no_value
from rtclab.experiment.store import Number, Result, Store, build, repeat_of
from rtclab.experiment.summary import (
    VALUES,
    duration_s,
    marginal_of,
    measured_s,
    of_metrics,
    summary_of,
)
from rtclab.experiment.window import Moment, check_reached, open_window
from rtclab.metrics import METRICS, essentials
from rtclab.metrics.accounts import ACCOUNTS
from rtclab.metrics.registry import EARLIER
from rtclab.phrases import names_in_words
from rtclab.renamed import BETWEEN, Gone, renamed
from rtclab.scenario.table import closest
from rtclab.trace import (
    SCHEMAS,
    OpenWindow,
    Repeat,
    Run,
    Trace,
    closed,
    replace_file,
    rows_within,
    window_in_names,
    window_in_words,
    write_text,
)

if TYPE_CHECKING:
    from rtclab.remedy import Remedies
    from rtclab.report.plot import Plot
    from rtclab.report.why import Why

MAX_SUFFIX = 80
"""Maximum number of letters that the conditions of a page take in its name."""
MOST_NAMED = 5
"""Maximum number of conditions that a sentence names."""
MOST_ROWS = 200
"""Maximum number of rows of the table in a notebook."""


class Results:
    """The results of an experiment, finished or not.

    A run, a sweep and an imported capture have the same methods. Results of several conditions have one row
    for each condition where results of one condition have one row. They are a mapping of conditions:
    ``results["label"]`` has the results of one, and ``in``, ``len``, iteration and ``items()`` work as with a
    dictionary.

    Example:
        >>> grid = rtclab.sweep("first-call", {"link.up.loss": ["0 %", "5 %"]}, duration="10 s", repeats=2)
        >>> grid.metrics().filter(metric="packet_loss", flow="alice->bob").height
        4
    """

    def __init__(
        self,
        store: Store | str | Path,
        traces: Mapping[int, Trace] | None = None,
        chosen: Sequence[int] | None = None,
    ) -> None:
        """Opens results.

        Args:
            store: the store, or its directory.
            traces: opened traces of a single condition, by repeat.
            chosen: the numbers of some conditions, by default all.

        Raises:
            TraceError: the directory has no results.
        """
        self._store = store if isinstance(store, Store) else Store(Path(store))
        self._known = dict(table("traces", traces or {}, "opened traces by repeat"))
        numbers = "numbers of conditions"
        self._chosen = None if chosen is None else items("chosen", chosen, int, numbers, may_be_empty=True)
        self._window = self._store.about.window

    def __repr__(self) -> str:
        part = "" if self.window is None else f" {window_in_words(self.window)}"
        return f"Results({str(self.path)!r}){part}"

    @property
    def path(self) -> Path:
        """Directory of the results, with the store, the traces and the report."""
        return self._store.path

    @property
    def name(self) -> str:
        """Name of the directory, such as ``first-call-sim-1``."""
        return self._store.name

    @property
    def backend(self) -> str:
        """``sim``, ``live``, ``capture`` or ``log``."""
        return self._store.about.backend

    @property
    def window(self) -> OpenWindow | None:
        """Begin and end in s of the part of each repeat that these results are about; None for all of it.

        Without an end it lasts until each repeat ends.
        """
        return self._window

    def between(self, begin: Moment | None = None, end: Moment | None = None) -> Self:
        """These results over a part of the time: every table, sentence, plot, page and comparison is of it.

        Times count from the begin of each repeat, whatever part these results are about. Without arguments,
        the results are of all of the time.

        Args:
            begin: the begin, such as ``"10 s"`` or 10 (seconds); by default the begin of each repeat.
            end: the end, which is excluded; by default the end of each repeat, however long it is.

        Raises:
            BadInput: a time cannot be read, ``end`` is not after ``begin``, all repeats end before ``begin``,
                or a function of your own measured the results.

        Example:
            >>> run = rtclab.run("first-call", duration="10 s", repeats=2)
            >>> run.between("5 s").metrics(metrics="rtt", flows="alice->bob")["measured_s"].to_list()
            [5.0, 5.0]
        """
        made = self._of(self._chosen)
        made._window = open_window(begin, end)
        if made._window is not None and self._store.about.measure:
            raise BadInput(
                f"{self.name} was measured by {self._store.about.measure}, which has a time of its own"
            )
        check_reached(made._window, (duration_s(run) for run in self.runs))
        return made

    @property
    def fields(self) -> list[str]:
        """The fields that a sweep varied; empty for other experiments."""
        return [field.name for field in self._store.conditions.fields]

    @property
    def varied(self) -> tuple[Field, ...]:
        """What differs between the conditions: the varied fields with their values, or the labels."""
        labels = tuple(self.conditions)
        fields = self._store.conditions.fields
        varied = tuple(field.only(self._table[field.name].unique().to_list()) for field in fields)
        return varied or (Field("condition", labels, labels),)

    @property
    def part(self) -> str:
        """Which conditions these are, such as ``link.up.loss = 2 %``; empty if they are all there are."""
        every = self._store.conditions
        if len(self._table) == len(every):
            return ""
        pairs = zip(self.varied, every.fields, strict=False)
        fewer = [f"{one.name} = {', '.join(one.texts)}" for one, whole in pairs if one.count < whole.count]
        is_product = prod(field.count for field in self.varied) == len(self._table)
        return "; ".join(fewer) if fewer and is_product else ", ".join(self.conditions)

    @property
    def conditions(self) -> list[str]:
        """The labels of the conditions: of a run the name of its scenario, of a sweep the varied values."""
        return self._table["condition"].to_list()

    def labels_without(self, field: str | None) -> list[str]:
        """The label of each condition without the value of one varied field, or of ``condition`` itself.

        Example:
            >>> rtclab.run("first-call", duration="10 s", repeats=2).labels_without(None)
            ['first-call']
        """
        if field == "condition":
            return [""] * len(self._table)
        if field is None or field not in self.fields:
            return self.conditions
        rest = [name for name in self.fields if name != field]
        rows = self._table.select(rest).iter_rows(named=True) if rest else ({} for _ in self.conditions)
        return [", ".join(f"{name} = {value}" for name, value in row.items()) for row in rows]

    @cached_property
    def _table(self) -> pl.DataFrame:
        """Number, label and varied values of each condition."""
        every = table_of(self._store.conditions)
        return every if self._chosen is None else every.filter(pl.col("number").is_in(self._chosen))

    @property
    def flows(self) -> list[str]:
        """The flows of any condition that carry media or data, without flows of feedback alone.

        Example:
            >>> rtclab.run("first-call", duration="10 s", repeats=2).flows
            ['alice->bob', 'bob->alice']
        """
        return [name for name, carries in self._carries.items() if carries] or list(self._carries)

    @cached_property
    def _carries(self) -> dict[str, bool]:
        return flows_of(self.runs)

    @property
    def planned(self) -> int:
        """Number of repeats that there should be, over all conditions."""
        return sum(len(self._store.repeats_of(number)) for number in self._table["number"])

    @property
    def finished(self) -> int:
        """Number of finished repeats."""
        return int((self.outcomes()["status"] == "finished").sum())

    @property
    def unfinished(self) -> int:
        """Number of planned repeats that say nothing about the call yet; resuming runs them."""
        return self.planned - int(self.outcomes()["status"].is_in(["finished", "failed"]).sum())

    def __getitem__(self, labels: str | Sequence[str]) -> Self:
        """The results of one condition by its label, or of several by a list of labels.

        Raises:
            BadInput: there is no such condition, or no label is given.
        """
        numbers = dict(self._table.select("condition", "number").iter_rows())
        wanted = items("condition", labels, str, "the label of a condition, or a list of labels")
        for label in wanted:
            if label not in numbers:
                expected = names_in_words(self.conditions, MOST_NAMED)
                hint = closest(label, self.conditions) or f"there is {expected}"
                raise BadInput(f"no condition `{label}` in {self.name}", hint=hint)
        return self._of([numbers[label] for label in wanted])

    def __len__(self) -> int:
        """Number of conditions."""
        return len(self._table)

    def __iter__(self) -> Iterator[str]:
        """The labels of the conditions."""
        return iter(self.conditions)

    def __contains__(self, label: object) -> bool:
        """Whether there is a condition with this label."""
        return label in self.conditions

    def keys(self) -> list[str]:
        """The labels of the conditions, as :attr:`conditions`.

        Example:
            >>> rtclab.run("first-call", duration="10 s", repeats=2).keys()
            ['first-call']
        """
        return self.conditions

    def values(self) -> list[Self]:
        """The results of each condition.

        Example:
            >>> [one.finished for one in rtclab.run("first-call", duration="10 s", repeats=2).values()]
            [2]
        """
        return [self._of([number]) for number in self._table["number"]]

    def items(self) -> list[tuple[str, Self]]:
        """The label and the results of each condition.

        Example:
            >>> grid = rtclab.sweep("first-call", {"link.up.loss": "0..5 % x2"}, duration="10 s", repeats=2)
            >>> {label: len(one.outcomes()) for label, one in grid.items()}
            {'link.up.loss = 0 %': 2, 'link.up.loss = 5 %': 2}
        """
        return list(zip(self.keys(), self.values(), strict=True))

    def where(self, values: Mapping[str, object] | None = None, **more: object) -> Self:
        """The conditions of a sweep with these values of varied fields.

        Values may be written in any way that the field's unit allows: ``"2 %"``, ``"2%"`` and ``0.02`` are
        the same, and so are ``"0.5 Mbit/s"`` and ``"500 kbit/s"``.

        Args:
            values: the value of each field, such as ``{"link.up.loss": "5 %"}``.
            more: fields whose names have no dots may be keywords: ``where(duration="10 s")``.

        Raises:
            BadInput: a field was not varied, or had no such value.

        Example:
            >>> grid = rtclab.sweep("first-call", {"link.up.loss": "0..5 % x2"}, duration="10 s", repeats=2)
            >>> grid.where({"link.up.loss": 0.05}).planned
            2
        """
        expected = 'a value of each field, such as {"link.up.loss": "2 %"}'
        given = {**table("where", {} if values is None else values, expected), **more}
        rows = self._table
        for name, value in given.items():
            field = self._field("where", name)
            text = equal_text(self._store.conditions, field, value)
            rows = rows.filter(pl.col(name) == text)
        if rows.is_empty():
            raise BadInput("where: no condition is left")
        return self._of(rows["number"].to_list())

    def _of(self, numbers: Sequence[int] | None) -> Self:
        made = type(self)(self._store, self._known, numbers)
        made._window = self._window
        return made

    def _field(self, option: str, name: str) -> Field:
        found = {field.name: field for field in self._store.conditions.fields}
        if name not in found:
            expected = " or ".join(found) or "a sweep: these results have no varied field"
            raise BadInput(f"{option}: `{name}` is not varied; expected {expected}")
        return found[name]

    def sides(self, *, totals_per_minute: bool = True) -> dict[str, Side]:
        """The conditions by label, each with its outcomes and values, for comparisons and gates.

        Args:
            totals_per_minute: divide totals, such as the number of freezes, by the minutes for which the flow
                was active.

        Example:
            >>> list(rtclab.run("first-call", duration="10 s", repeats=2).sides())
            ['first-call']
        """
        rows = self.metrics()
        parts = {str(label): part for (label,), part in rows.group_by("condition", maintain_order=True)}
        values = (values_of(parts.get(label, rows.clear())) for label in self.conditions)
        return {
            label: Side(run, per_minute(found) if totals_per_minute else found)
            for label, run, found in zip(self.conditions, self.runs, values, strict=True)
        }

    def outcomes(self) -> pl.DataFrame:
        """The outcome of each repeat that ended.

        Columns: ``condition``, the varied fields, ``repeat``, ``seed``, ``status`` (finished, failed, error
        or interrupted), ``reason``, ``note``, ``attempt``, ``disturbed``, and ``older``, whether another
        build of rtclab made it. ``failed`` means that the call failed, ``error`` that the laboratory did.

        Example:
            >>> rtclab.run("first-call", duration="10 s", repeats=2).outcomes()["status"].to_list()
            ['finished', 'finished']
        """
        older = (pl.col("code") != build()).alias("older")
        columns = ("repeat", "seed", "status", "reason", "note", "attempt", "disturbed")
        rows = self._labelled(self._outcomes())
        return rows.select("condition", *self._field_columns, *columns, older)

    def failures(self) -> pl.DataFrame:
        """The repeats in which the call or the laboratory failed: their condition, fields, number and reason.

        Example:
            >>> rtclab.run("first-call", duration="10 s", repeats=2).failures().height
            0
        """
        failed = self.outcomes().filter(pl.col("status").is_in(["failed", "error"]))
        return failed.select("condition", *self.fields, "repeat", "status", "reason")

    def raise_for_failures(self) -> Self:
        """Raises an error if a repeat failed; returns these results otherwise, so that calls can be chained.

        The message has the number of failed repeats and the first reason.

        Raises:
            CallFailed: the first repeat that failed did so because of the call.
            LaboratoryFailed: the first repeat that failed did so because of the laboratory.

        Example:
            >>> run = rtclab.run("first-call", duration="10 s", repeats=2).raise_for_failures()
            >>> run.finished
            2
        """
        failures = self.failures()
        if failures.is_empty():
            return self
        first = failures.row(0, named=True)
        where = f"repeat {first['repeat']}"
        if len(self.conditions) > 1:
            where = f"{first['condition']}, {where}"
        kind = LaboratoryFailed if first["status"] == "error" else CallFailed
        raise kind(
            f"{failures.height} of {self.planned} repeats of {self.name} failed; {where}: {first['reason']}"
        )

    @property
    def repeats(self) -> list[Repeat]:
        """The outcome of each repeat that ended, in order."""
        return [one for run in self.runs for one in run.repeats]

    @cached_property
    def runs(self) -> list[Run]:
        """The repeats of each condition, with their traces."""
        found = self._store.runs(self._table["number"].to_list())
        opened = self._known if len(found) == 1 else {}
        return [replace(run, window=self.window, opened=opened) for run in found]

    @property
    def run(self) -> Run:
        """The repeats of the only condition.

        Raises:
            BadInput: there are several conditions.
        """
        if len(self.runs) > 1:
            raise BadInput(
                f"{self.name} has {len(self.runs)} conditions; expected one",
                hint="choose one: results['label'] or results.where(…)",
            )
        return self.runs[0]

    @property
    def scenario(self) -> Mapping[str, Any]:
        """The scenario of the only condition as it ran, as JSON values."""
        return self.run.scenario

    @property
    def traces(self) -> list[Trace]:
        """The traces of the finished repeats, in order. A simulated sweep has none.

        Raises:
            TraceError: a trace cannot be read.
        """
        return [trace for run in self.runs for trace in run.traces]

    @property
    def drawn_over_time(self) -> bool:
        """Whether these are the results of one condition with traces, which are drawn over time."""
        return len(self._table) == 1 and self._store.about.traces

    is_run = Gone("Results.is_run", "Results.drawn_over_time")

    def repeat_path(self, repeat: int) -> Path:
        """The directory of the trace of a repeat of the only condition.

        Example:
            >>> rtclab.run("first-call", duration="10 s", repeats=2).repeat_path(1).name
            'repeat-1'
        """
        return self.run.repeat_path(repeat)

    def table(self, name: str, *, repeat: int | None = None) -> pl.DataFrame:
        """A table of one repeat, or of all finished repeats with the additional first column ``repeat``.

        Raises:
            BadInput: there is no finished repeat with that number, or there are several conditions.
            TraceError: there is no such table, or it was not recorded.

        Example:
            >>> run = rtclab.run("first-call", duration="10 s", repeats=2)
            >>> run.table("packets", repeat=0).columns[:3]
            ['sent_ns', 'packet', 'delivered_ns']
        """
        if name not in SCHEMAS and name not in ACCOUNTS:
            raise TraceError(f"no table `{name}`; expected {', '.join((*SCHEMAS, *ACCOUNTS))}")
        finished = [entry.repeat for entry in self.run.repeats if entry.status == "finished"]
        if repeat is not None and repeat not in finished:
            known = ", ".join(map(str, finished)) or "none"
            raise BadInput(f"repeat: {self.name} has no finished repeat {repeat}; finished: {known}")
        if repeat is not None:
            return self.run.trace(repeat).table(name)
        tables = [
            self.run.trace(number).table(name).select(pl.lit(number, pl.Int64).alias("repeat"), pl.all())
            for number in finished
        ]
        schema = SCHEMAS[name] if name in SCHEMAS else ACCOUNTS[name].schema
        return pl.concat([pl.Schema({"repeat": pl.Int64(), **schema}).to_frame(), *tables])

    def scan(self, name: str) -> pl.LazyFrame:
        """A table of all finished repeats of all conditions, which is read only where a query needs it.

        The first columns are ``condition`` and ``repeat``.

        Raises:
            BadInput: the repeats left no traces.
            TraceError: there is no such table, or it was not recorded.

        Example:
            >>> run = rtclab.run("first-call", duration="10 s", repeats=2)
            >>> run.scan("packets").group_by("repeat").len().sort("repeat").collect()["repeat"].to_list()
            [0, 1]
        """
        if name not in SCHEMAS:
            raise TraceError(f"no table `{name}`; expected {', '.join(SCHEMAS)}")
        if not self._store.about.traces:
            raise BadInput(f"{self.name} kept no traces", hint="run it again with traces=True")
        schema = pl.Schema({"condition": pl.String(), "repeat": pl.Int64(), **SCHEMAS[name]})
        tables = [schema.to_frame().lazy()]
        for label, run in zip(self.conditions, self.runs, strict=True):
            for number in (entry.repeat for entry in run.repeats if entry.status == "finished"):
                file = run.repeat_path(number) / f"{name}.parquet"
                if not file.is_file():
                    run.trace(number).table(name)  # raises the error that says why
                columns = (pl.lit(label).alias("condition"), pl.lit(number, pl.Int64).alias("repeat"))
                rows = pl.scan_parquet(file)
                if (window := run.trace(number).window if run.window else None) is not None:
                    rows = rows_within(name, rows, window)
                tables.append(rows.select(*columns, pl.all()))
        return pl.concat(tables, how="diagonal")

    @renamed(begin=BETWEEN, end=BETWEEN)
    def metrics(
        self,
        *,
        metrics: str | Sequence[str] | None = None,
        flows: Flows = None,
    ) -> pl.DataFrame:
        """The value of every metric for every flow, in every repeat, one row each.

        Columns: ``condition``; for each varied field its value as given and, if all its values are numbers,
        the value in a base unit (``link.up.capacity_bps``); ``repeat``, ``metric``, ``unit``, ``better``,
        ``flow``, ``value``, and ``deviation``, the standard deviation of the metric's one-second samples
        within the repeat, null if it has none; and ``measured_s``, the time in s that was measured.
        ``flow`` is empty for a metric of the whole repeat. A metric that could not be measured has no row. A
        repeat whose call failed has one row, ``call_failures``.

        Args:
            metrics: only this metric or these metrics, by default all.
            flows: only these flows, such as ``"*->erin"`` or ``["alice->bob", "bob->*"]``; by default all,
                and what is of the whole repeat.

        Raises:
            BadInput: there is no such metric or flow, or the repeats left no traces from which another time
                than their own could be measured.
            TraceError: a trace cannot be read.

        Example:
            >>> run = rtclab.run("first-call", duration="10 s", repeats=2)
            >>> run.metrics().filter(metric="rtt", flow="alice->bob")["repeat"].to_list()
            [0, 1]
        """
        rows = self._rows(metrics).with_columns(pl.col("metric", "flow").cast(pl.String))
        return (
            self._labelled(self.rows_of_flows(rows, flows, metrics or ()))
            .join(of_metrics(), on="metric", how="left")
            .sort("number", "repeat", "order", maintain_order=True, nulls_last=True)
            .select("condition", *self._field_columns, *VALUES)
        )

    def export(
        self, path: str | Path, *, metrics: str | Sequence[str] | None = None, flows: Flows = None
    ) -> Path:
        """Writes the value of every metric in every repeat to a file for other programs; returns its path.

        Rows are as in :meth:`values_of_repeats`.

        Args:
            path: the file, which is replaced. Its name ends in ``.csv`` or ``.parquet``.
            metrics: only this metric or these metrics, by default all.
            flows: as in :meth:`metrics`.

        Raises:
            BadInput: as in :meth:`metrics`, or the name has another ending.
            DiskFull: no disk space is left.

        Example:
            >>> import polars
            >>> file = rtclab.run("first-call", duration="10 s", repeats=2).export("rtt.csv", metrics="rtt")
            >>> polars.read_csv(file).filter(flow="alice->bob")["status"].to_list()
            ['finished', 'finished']
        """
        file = Path(path)
        if file.suffix not in (".csv", ".parquet"):
            raise BadInput(f"export: `{file}`: expected a name that ends in .csv or .parquet")
        rows = self.values_of_repeats(metrics=metrics, flows=flows)
        file.parent.mkdir(parents=True, exist_ok=True)
        if file.suffix == ".csv":
            write_text(file, rows.write_csv())
        else:
            replace_file(file, rows.write_parquet)
        return file

    def values_of_repeats(
        self, *, metrics: str | Sequence[str] | None = None, flows: Flows = None
    ) -> pl.DataFrame:
        """The value of every metric for every flow in every repeat that ended, with its outcome.

        The columns are those of :meth:`metrics` without ``better``, and ``seed``, ``status`` and ``reason``
        of the repeat. A repeat without a value has one row, in which what is unknown is null.

        Args:
            metrics: only this metric or these metrics, by default all.
            flows: as in :meth:`metrics`.

        Raises:
            BadInput: as in :meth:`metrics`.

        Example:
            >>> run = rtclab.run("first-call", duration="10 s", repeats=2)
            >>> run.values_of_repeats(metrics="rtt", flows="alice->bob")["repeat"].to_list()
            [0, 1]
        """
        of_values = ("metric", "flow", "unit", "value", "deviation", "measured_s")
        values = self.metrics(metrics=metrics, flows=flows).select("condition", "repeat", *of_values)
        order = pl.DataFrame({"condition": self.conditions}).with_row_index("place")
        outcomes = self.outcomes().join(order, on="condition").sort("place", "repeat")
        fields = outcomes.columns[: outcomes.columns.index("repeat")]
        return outcomes.select(*fields, "repeat", "seed", "status", "reason").join(
            values, on=["condition", "repeat"], how="left", maintain_order="left_right"
        )

    @renamed(begin=BETWEEN, end=BETWEEN)
    def summary(
        self,
        *,
        metrics: str | Sequence[str] | None = None,
        by: str | Sequence[str] | None = None,
        flows: Flows = None,
    ) -> pl.DataFrame:
        """Mean, standard deviation and 95 % confidence interval over repeats, for every metric and flow.

        Columns: ``condition`` and the varied fields as in :meth:`metrics`, ``metric``, ``unit``, ``better``,
        ``flow``, ``mean``, ``sd``, ``ci95_low``, ``ci95_high``, ``within_run_sd`` (the mean of
        ``deviation``: the "±" of papers), and ``repeats``, the number of repeats with a value. Intervals are
        Student's, within the metric's bounds, and Wilson's for shares of all repeats. Student's is null for
        fewer than two values, and for values that are all equal.

        Args:
            metrics: only this metric or these metrics, by default all.
            by: varied fields; the values of the others are averaged, over the same repeats everywhere. By
                default there is a row for each condition.
            flows: as in :meth:`metrics`.

        Raises:
            BadInput: as in :meth:`metrics`, or a field of ``by`` is not varied.

        Example:
            >>> run = rtclab.run("first-call", duration="10 s", repeats=2)
            >>> run.summary().filter(metric="utilisation")["unit"].unique().to_list()
            ['%']
        """
        rows = self.rows_of_flows(self._rows(metrics), flows, metrics or ())
        if by is None:
            labelled = self._labelled(summary_of(rows, ["number"]))
            return labelled.select(
                "condition", *self._field_columns, pl.exclude("number", *self._table.columns)
            )
        wanted = items("by", by, str, "names of varied fields")
        keys = [self._field("by", name).name for name in wanted]
        rows = rows.join(self._table.select("number", *self.fields), on="number", maintain_order="left")
        return marginal_of(rows, keys, [name for name in self.fields if name not in keys])[0]

    def rows_of_flows(
        self, rows: pl.DataFrame, flows: Flows, metrics: str | Sequence[str] = ()
    ) -> pl.DataFrame:
        """The rows of the flows asked for, or all rows if none was.

        Rows of the whole repeat remain if their metric is among ``metrics``, which the user named.

        Raises:
            BadInput: there is no such flow.

        Example:
            >>> run = rtclab.run("first-call", duration="10 s", repeats=2)
            >>> run.rows_of_flows(run.summary(), "*->bob")["flow"].unique().to_list()
            ['alice->bob']
        """
        if flows is None:
            return rows
        known = dict.fromkeys([*self._carries, *filter(None, rows["flow"].unique(maintain_order=True))])
        named = items("metrics", metrics, str, "names of metrics", may_be_empty=True)
        is_whole = (pl.col("flow") == "") & pl.col("metric").is_in(named)
        return rows.filter(pl.col("flow").is_in(chosen_flows(flows, known)) | is_whole)

    def without_feedback(self, rows: pl.DataFrame) -> pl.DataFrame:
        """The rows without flows that carry feedback alone; all rows if there are no other flows.

        Example:
            >>> run = rtclab.run("first-call", duration="10 s", repeats=2)
            >>> run.without_feedback(run.summary()).height == run.summary().height
            True
        """
        left_out = self._carries.keys() - {*self.flows}
        return rows.filter(~pl.col("flow").is_in(list(left_out)))

    def without_value(self, metrics: str | Sequence[str], rows: pl.DataFrame) -> list[str]:
        """For each of some metrics that has no value in any row of a summary, a sentence that says why.

        A further sentence names the conditions that end before the time that these results are about.

        Example:
            >>> run = rtclab.run("first-call", duration="10 s", repeats=2)
            >>> run.without_value(["tcp_rtt", "rtt"], run.summary())
            ['tcp_rtt has no value: nothing that it measures was there; see `rtclab metrics tcp_rtt`']
        """
        found = set(rows.drop_nulls("mean")["metric"])
        return [
            no_value(name, self.backend, self.runs[0].scenario, in_window=self.window is not None)
            for name in items("metrics", metrics, str, "names of metrics", may_be_empty=True)
            if name not in found and name in METRICS
        ] + self._too_short()

    def _too_short(self) -> list[str]:
        """A sentence that names the conditions that end before the window begins, if there are any."""
        short = [
            label for label, run in zip(self.conditions, self.runs, strict=True) if not measured_s(run) > 0
        ]
        if not short or self.window is None:
            return []
        named = names_in_words(short, MOST_NAMED)
        return [f"nothing was measured of {named}: nothing is left {window_in_words(self.window)}"]

    def overview(self) -> pl.DataFrame:
        """The most important rows of :meth:`summary`: rate, delay, loss, video and set-up time.

        Example:
            >>> run = rtclab.run("first-call", duration="10 s", repeats=2)
            >>> run.overview().height < run.summary().height
            True
        """
        return essential(self.summary())

    def why(self, flows: Flows = None) -> Why:
        """Why the calls of one run went as they did: what limited each flow, and what its freezes were.

        Args:
            flows: the flows, such as ``"alice->bob"``, ``"*->bob"`` or a list; by default all flows of media
                between participants.

        Raises:
            BadInput: there are several conditions, no traces, or no such flow.

        Example:
            >>> run = rtclab.run("first-call", duration="10 s", repeats=1)
            >>> run.why("alice->bob").table()["account"].unique().sort().to_list()[:2]
            ['limit', 'wait']
        """
        from rtclab.report.why import why

        return why(self.run, flows)

    def remedies(self, **options: Any) -> Remedies:
        """What would help the call of one run, tried: its scenario is simulated with one thing changed.

        Args:
            options: the arguments of :func:`rtclab.remedies` beside the call, such as ``goal``.

        Raises:
            BadInput: there are several conditions, or as :func:`rtclab.remedies`.

        Example:
            >>> run = rtclab.run("first-call", duration="10 s", repeats=1)
            >>> run.remedies(goal="receiving_rate", repeats=2).table()["kind"].unique().sort().to_list()
            ['cause', 'remedy']
        """
        from rtclab.remedy import remedies

        return remedies(self, **options)

    def plot(
        self,
        name: str = "rate",
        flow: Flows = None,
        *,
        flows: Flows = None,
        x: str | None = None,
        by: str | None = None,
        average: str | Sequence[str] = (),
    ) -> Plot:
        """A plot of one run, or of a metric of a sweep. A notebook displays it; ``save`` writes it as a file.

        Args:
            name: of one run the plot's name, such as "rate" or "delay"; of a sweep a metric.
            flow: the flows to draw, such as ``"alice->bob"``, ``"*->bob"`` or a list; by default all between
                participants that do not carry feedback alone.
            flows: another name of ``flow``.
            x: of a sweep, the varied field on the horizontal axis. With two fields and neither ``x`` nor
                ``by``, the plot is a heat map.
            by: of a sweep, the varied field with a line for each of its values. Every combination of further
                fields has axes of its own.
            average: of a sweep, varied fields over whose values the metric is averaged.

        Raises:
            BadInput: there is no such plot, metric, field or flow, or there are no data for it.

        Example:
            >>> run = rtclab.run("first-call", duration="10 s", repeats=2)
            >>> run.plot("rate").save("rate.svg").name
            'rate.svg'
        """
        fields = items("average", average, str, "names of varied fields", may_be_empty=True)
        wanted = flow if flows is None else flows
        if len(self._table) == 1 and name not in METRICS:
            from rtclab.report.plots_of_runs import run_plot

            if x or by or fields:
                raise BadInput(
                    f"plot: x, by and average are for metrics of sweeps; `{name}` is drawn over time"
                )
            return run_plot(self.run, name, wanted)
        from rtclab.report.plots_of_sweeps import sweep_plot

        check_names([name])
        rows = self.metrics(metrics=[name], flows=wanted)
        if rows.is_empty():
            in_window = self.window is not None
            raise BadInput(no_value(name, self.backend, self.runs[0].scenario, in_window=in_window))
        rows = self.without_feedback(rows) if wanted is None else rows
        return sweep_plot(rows, self.varied, name, x, by, wanted, fields)

    def report(self, measured: pl.DataFrame | None = None) -> Path:
        """Writes ``report.html`` into the directory of the results; returns its path.

        The page of some conditions of a sweep has a name of its own, such as ``report-link.up.loss-2.html``,
        and so has the page of another time than the one that was measured first: ``report-from-25s.html``.

        Args:
            measured: the result of :meth:`summary`, if the caller already has it.

        Raises:
            DiskFull: a file could not be written.

        Example:
            >>> rtclab.run("first-call", duration="10 s", repeats=2).report().name
            'report.html'
        """
        measured = self.summary() if measured is None else measured
        if self.drawn_over_time:
            from rtclab.report.runs import write_report

            return write_report(self.run, measured, self.path / f"report{self.page_suffix}.html")
        from rtclab.report.sweeps import write_sweep_report

        return write_sweep_report(self, measured)

    @property
    def page_suffix(self) -> str:
        """What the name of the page of these results has after ``report``; empty for the first page."""
        own = self.window if self.window != self._store.about.window else None
        whole = "-whole" if self.window is None and self._store.about.window is not None else ""
        return suffix_of(self.part) + window_in_names(own) + whole

    @property
    def _field_columns(self) -> list[str]:
        return field_columns(self._store.conditions.fields)

    def _labelled(self, rows: pl.DataFrame) -> pl.DataFrame:
        """Rows with the label and the varied values of their condition, whose number they have."""
        return rows.join(self._table, on="number", how="inner", maintain_order="left")

    def _outcomes(self) -> pl.DataFrame:
        """The latest outcomes of these conditions, with the number of the condition."""
        outcomes = self._store.outcomes().rename({"condition": "number"})
        return outcomes.filter(pl.col("number").is_in(self._table["number"].implode()))

    def _rows(self, metrics: str | Sequence[str] | None) -> pl.DataFrame:
        """The values by condition (number), repeat, metric and flow, from the store or else from traces.

        The column ``measured_s`` is the time that was measured.
        """
        lasts_s = pl.Series(list(map(measured_s, self.runs)), dtype=pl.Float64)
        lasts = pl.DataFrame({"number": self._table["number"], "measured_s": lasts_s})
        return self._values(metrics).join(lasts, on="number", how="left", maintain_order="left")

    def _values(self, chosen: str | Sequence[str] | None) -> pl.DataFrame:
        about = self._store.about
        metrics = chosen_metrics(chosen, self._store.measured() if about.measure else METRICS)
        of_store = about.measure or metrics is None or set(metrics) <= set(about.metrics)
        if of_store and self._is_of_stored_time():
            if not self._measure_again() and not about.measure:
                return self._from_traces(about.metrics if metrics is None else metrics)
            outcomes = self._outcomes().select("outcome", "number", "repeat")
            numbers = self._store.numbers(outcomes["outcome"].to_list(), metrics)
            return outcomes.join(numbers, on="outcome", how="inner", maintain_order="left").drop("outcome")
        return self._from_traces(list(METRICS) if metrics is None else metrics)

    def _is_of_stored_time(self) -> bool:
        """Whether the window of these results is in each repeat the one that was measured."""
        stored = self._store.about.window
        if self.window is None or stored is None or self.window == stored:
            return self.window == stored
        return all(
            closed(self.window, end_s) == closed(stored, end_s) for end_s in map(duration_s, self.runs)
        )

    def _measure_again(self) -> bool:
        """Measures repeats whose traces were kept, if other definitions measured them or if they were not.

        A function of somebody's own measures again only if this process has passed it to an experiment:
        whoever made the store may have named any function.

        Returns whether the values could be kept.
        """
        store = self._store
        definitions = Definitions.of(store.about)
        if not definitions.is_known:
            return True
        names = {number: store.measures_of(number) for number in self._table["number"]}
        if not store.about.measure and not METRICS.keys() >= {name for of in names.values() for name in of}:
            return True
        digests = {number: definitions.digest(of) for number, of in names.items()}
        old = self._outcomes().filter(
            pl.col("definitions") != pl.col("number").replace_strict(digests, return_dtype=pl.String),
            pl.col("status").is_in(["finished", "failed"]),
        )
        if old.is_empty():
            return True
        runs = dict(zip(self._table["number"], self.runs, strict=True))
        files = store.files()
        for (code,), part in old.group_by("code", maintain_order=True):
            results = []
            for row in part.iter_rows(named=True):
                number, outcome = row["number"], repeat_of(row)
                needs_trace = outcome.status == "finished" or bool(store.about.measure)
                if needs_trace and not store.keeps_trace(number, outcome.repeat):
                    continue
                try:
                    numbers = _numbers(runs[number], outcome, definitions, names[number])
                except OtherSchema:
                    if not row["definitions"]:
                        raise
                    continue  # what was measured then stays
                if numbers is not None:
                    note = outcome.note.partition(NOT_MEASURED)[0].removesuffix("; ")
                    known = (digests[number], files.get(row["outcome"], {}))
                    results.append(Result(number, replace(outcome, note=note), numbers, *known))
            try:
                if results:
                    store.add(results, code=str(code), changed=False)
            except (BadInput, DiskFull):
                return False
        return True

    def _from_traces(self, metrics: Sequence[str]) -> pl.DataFrame:
        if not self._store.about.traces and self.finished:
            raise BadInput(
                f"{self.name} kept no traces, so only its own time can be measured",
                hint="run it again with --from and --to, or with --traces",
            )
        chosen = [METRICS[name] for name in metrics]
        return pl.concat(
            rows_of(run, chosen).with_columns(number=pl.lit(number, pl.Int64))
            for run, number in zip(self.runs, self._table["number"], strict=True)
        )

    def _repr_html_(self) -> str:
        fields = self.fields or ["condition"] if len(self) > 1 else []
        part = "" if self.window is None else f" {window_in_words(self.window)}"
        heading = f"{self.name}{part}: {self.finished} of {self.planned} repeats finished"
        columns = ("metric", "flow", "mean", "ci95_low", "ci95_high", "unit")
        rows = self.without_feedback(self.overview()) if fields else self.overview()
        rows = rows.select(*fields, *columns).head(MOST_ROWS)
        return f"<p>{escape(heading)}</p>{as_html(rows)}"


def _numbers(
    run: Run, outcome: Repeat, definitions: Definitions, names: Sequence[str]
) -> list[Number] | None:
    """The values of a repeat from its trace; None if the trace is gone or cannot be measured.

    Raises:
        TraceError: the trace cannot be read.
    """
    trace = None
    if outcome.status == "finished" or definitions.function:
        if not run.has_trace(outcome.repeat):
            return None
        trace = run.trace(outcome.repeat)
    try:
        return definitions.values(outcome, trace, names)
    except Exception:  # the note of the outcome says why
        return None


def suffix_of(part: str) -> str:
    """What the name of the page of some conditions has after ``report``: their words without other signs."""
    words = re.sub(r"[^\w.]+", "-", part).strip("-")
    if len(words) > MAX_SUFFIX:
        words = f"{words[:MAX_SUFFIX]}-{sha256(part.encode()).hexdigest()[:8]}"
    return f"-{words}" if words else ""


def essential(rows: pl.DataFrame) -> pl.DataFrame:
    """The rows of the most important metrics, in their order, without rows that have no value.

    A metric that the source of the traces does not know is replaced by the nearest that it knows. If it knows
    none, as with a function of one's own that measures, all rows remain.
    """
    mean = pl.col("mean") if "mean" in rows.columns else pl.coalesce("base", "new")
    known = rows.filter(mean.is_not_null())
    order = {name: index for index, name in enumerate(essentials(known["metric"].unique()))}
    chosen = known.filter(pl.col("metric").is_in(list(order)))
    if chosen.is_empty():
        return known
    place = pl.col("metric").replace_strict(order, return_dtype=pl.Int64)
    return chosen.sort(place, maintain_order=True)


def check_names(metrics: Sequence[str], known: Collection[str] = METRICS) -> None:
    """Checks that metrics exist. ``known`` are the names that there are.

    Raises:
        BadInput: one does not.
    """
    for name in metrics:
        if name not in known:
            hint = EARLIER.get(name) or closest(name, known) or "`rtclab metrics` lists them"
            raise BadInput(f"no metric `{name}`", hint=hint)


def chosen_metrics(given: str | Sequence[str] | None, known: Collection[str] = METRICS) -> list[str] | None:
    """The names of the chosen metrics: of one or of several; None for all.

    Raises:
        BadInput: there is no such metric, or the list is empty.
    """
    if given is None:
        return None
    names = items("metrics", given, str, "names of metrics, such as rtt; leave it out for all")
    check_names(names, known)
    return names


def as_text(rows: pl.DataFrame) -> str:
    """A table as text, with all rows and columns, numbers with few digits and no wrapped cells."""
    with pl.Config(
        tbl_rows=-1,
        tbl_cols=-1,
        tbl_hide_dataframe_shape=True,
        tbl_hide_column_data_types=True,
        tbl_width_chars=-1,
        fmt_str_lengths=60,
        float_precision=2,
        tbl_formatting="NOTHING",
    ):
        return str(rows)


def as_html(rows: pl.DataFrame) -> str:
    """A table as HTML for a notebook, with all rows and columns."""
    with pl.Config(tbl_rows=-1, tbl_cols=-1, tbl_hide_dataframe_shape=True, tbl_hide_column_data_types=True):
        return rows._repr_html_()
