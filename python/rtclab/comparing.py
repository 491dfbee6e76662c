"""Comparing results: :func:`compare`, and :class:`Comparison` with its tables, plots and page."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import cached_property
from hashlib import sha256
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING

import polars as pl

from rtclab.arguments import items
from rtclab.errors import BadInput
from rtclab.experiment import Moment, Results, check_names, chosen_metrics, essential
from rtclab.experiment.comparison import Differences, Side
from rtclab.experiment.flows import Flows
from rtclab.experiment.results import as_html, as_text
from rtclab.lab import RUNS, open_results
from rtclab.phrases import names_in_words
from rtclab.trace import OpenWindow, Run, window_in_names, window_in_words

if TYPE_CHECKING:
    from rtclab.report import Plot
    from rtclab.report.compared import Compared
    from rtclab.report.moved import Moved

DIFFERENCES = "differences"
"""The name of the forest plot."""
MOST_NAMED = 3
"""Maximum number of conditions that an error names."""


class Comparison:
    """Results side by side, each compared with the first; see :func:`compare`.

    Attributes:
        runs: the results; the first are the baseline.
        labels: a name for each of them.
        by: the varied field by whose values the conditions of one experiment are compared, if it is one.
        paired: whether simulated repeats with the same seeds are compared in pairs.
        metrics: the metrics that are compared; None for all.
        flows: the flows that are compared; None for all that do not carry feedback alone.
        hypothesis: the metrics for which a difference was expected before anybody saw the values.
    """

    def __init__(
        self,
        runs: Sequence[Results],
        labels: Sequence[str] | None = None,
        *,
        by: str | None = None,
        paired: bool = True,
        metrics: str | Sequence[str] | None = None,
        flows: Flows = None,
        hypothesis: str | Sequence[str] | None = None,
    ) -> None:
        self.runs: list[Results] = items("runs", runs, Results, "two results or more")
        self.labels = _labels(self.runs, labels)
        self.by = by
        self.paired = paired
        self.metrics, self.flows = chosen_metrics(metrics), flows
        self.hypothesis = _hypothesis(hypothesis)

    @property
    def window(self) -> OpenWindow | None:
        """Begin and end in s of the compared part of each repeat; None for all of it."""
        return self.runs[0].window

    @property
    def is_of_runs(self) -> bool:
        """Whether each side is one condition with traces, about which a sentence and plots can be made."""
        return all(one.drawn_over_time for one in self.runs)

    def __str__(self) -> str:
        """A sentence on each difference from the first run, one on each run, and the first rows to read."""
        several = len(self.labels) > 2
        found = [f"{label}: {text}" if several else text for label, text in self.sentences().items()]
        about = (f"{label}: {text}" for label, text in zip(self.labels, self.verdicts(), strict=False))
        return "\n".join([*found, *about, f"base: {self.labels[0]}, new: label", as_text(self._rows())])

    def table(self) -> pl.DataFrame:
        """Means and differences with 95 % intervals: a row per condition, metric, flow and compared side.

        ``label`` names the compared side. ``base`` is the mean of the first, ``new`` the mean of the compared
        one. :meth:`rtclab.experiment.Differences.table` describes all columns.

        Example:
            >>> slow, fast = (
            ...     rtclab.run("first-call", duration="10 s", repeats=2, set={"link.up.capacity": rate})
            ...     for rate in ("0.5 Mbit/s", "2 Mbit/s")
            ... )
            >>> compared = rtclab.compare(slow, fast, labels=["slow", "fast"]).table()
            >>> compared.filter(metric="receiving_rate", label="fast")["difference"].min() > 0
            True
        """
        return self.differences_by_condition.table(self.metrics, self.flows, self.hypothesis)

    def overview(self) -> pl.DataFrame:
        """The rows of :meth:`table` to read first: of the hypothesis, and then of the most important metrics.

        Example:
            >>> run = rtclab.run("first-call", duration="10 s", repeats=2)
            >>> rows = rtclab.compare(run, run, hypothesis="setup_ice").overview()
            >>> rows["metric"].unique(maintain_order=True).head(2).to_list()
            ['setup_ice', 'receiving_rate']
        """
        table = self.table()
        return pl.concat([table.filter("hypothesis"), essential(table).filter(~pl.col("hypothesis"))])

    @cached_property
    def differences_by_condition(self) -> Differences:
        """All differences, of which a table shows those that were asked for.

        Raises:
            BadInput: the first and another side share no condition.
        """
        return Differences.of(self._sides(), pair_repeats=self.paired)

    def _sides(self) -> dict[str, dict[str, Side]]:
        """By label, the conditions by the name under which they are compared."""
        alone = all(len(one.conditions) == 1 for one in self.runs)
        found = {}
        for label, one in zip(self.labels, self.runs, strict=True):
            names = [""] if alone else one.labels_without(self.by)
            found[label] = dict(zip(names, one.sides().values(), strict=True))
        first, *others = found.items()
        for label, side in others:
            if not first[1].keys() & side.keys():
                raise BadInput(
                    f"{first[0]} and {label} share no condition: {_some(first[1])}; {_some(side)}",
                    hint="conditions are compared by their labels; --by FIELD compares those of one sweep",
                )
        return found

    @cached_property
    def _told(self) -> Compared:
        """What is said of the differences."""
        from rtclab.report.compared import Compared

        command = "run" if all(len(one.conditions) == 1 for one in self.runs) else "sweep"
        paths = [str(one.path) for one in self.runs]
        return Compared(
            self.labels,
            self._first_runs(),
            self.table().to_dicts(),
            paths,
            command if self.by is None else "sweep",
            self.by,
        )

    def sentences(self) -> dict[str, str]:
        """By label, what changed in each compared side, by how much it differs, and whether it may be chance.

        Example:
            >>> slow, fast = (
            ...     rtclab.run("first-call", duration="10 s", repeats=2, set={"link.up.capacity": rate})
            ...     for rate in ("1 Mbit/s", "2 Mbit/s")
            ... )
            >>> rtclab.compare(slow, fast, labels=["slow", "fast"]).sentences()["fast"].partition(",")[0]
            'With link.up.capacity 2 Mbit/s instead of 1 Mbit/s'
        """
        return self._told.sentences()

    def verdicts(self) -> list[str]:
        """A sentence that sums up each run, whatever metrics and flows are compared.

        There are none for several conditions, or for conditions without traces.

        Example:
            >>> few, many = (rtclab.run("first-call", duration="10 s", repeats=n) for n in (1, 2))
            >>> len(rtclab.compare(few, many).verdicts())
            2
        """
        from rtclab.report import comparison_verdicts

        if not self.is_of_runs:
            return []
        return comparison_verdicts(self._by_label(), self.differences_by_condition.table())

    def moved(self) -> dict[str, Moved]:
        """Which cause moved from the first run to each other one, by label; it needs the traces of both.

        The ``sentence`` of each says it, as of the flow in which most moved. See docs/why.md.

        Example:
            >>> run = rtclab.run("first-call", duration="10 s", repeats=2)
            >>> rtclab.compare(run, run, labels=["then", "now"]).moved()["now"].moves
            []
        """
        from rtclab.report.moved import Moved, moved

        first, found = self.runs[0], {}
        for label, one in zip(self.labels[1:], self.runs[1:], strict=True):
            without = [side.name for side in (first, one) if not side.drawn_over_time]
            found[label] = (
                Moved("", (), f"{without[0]} has several conditions or no traces")
                if without
                else moved(first.run, one.run)
            )
        return found

    def differences(self) -> pl.DataFrame:
        """What differs between the scenarios: a row per field, with its value in each run as text.

        With several conditions it is of the first that all sides have.

        Returns the column ``field`` with paths such as ``link.up.queue``, and a column per label. Behind a
        path that the backend of all runs ignores stands ``(no effect)``.

        Example:
            >>> few, many = (rtclab.run("first-call", duration="10 s", repeats=n) for n in (1, 2))
            >>> rtclab.compare(few, many, labels=["few", "many"]).differences().rows()
            [('repeats', '1', '2')]
        """
        from rtclab.report.differences import scenario_differences

        rows = [(field, *values) for field, values in scenario_differences(self._first_runs())]
        return pl.DataFrame(rows, schema=dict.fromkeys(["field", *self.labels], pl.String), orient="row")

    def report(self, path: str | Path | None = None) -> Path:
        """Writes a page that compares the runs, by default next to the first run; returns its path.

        Raises:
            DiskFull: the page could not be written.

        Example:
            >>> run = rtclab.run("first-call", duration="10 s", repeats=2)
            >>> rtclab.compare(run, run).report("both.html").name
            'both.html'
        """
        from rtclab.report import write_comparison

        page = self.runs[0].path.parent / self._page_name() if path is None else Path(path)
        return write_comparison(
            {label: one.runs for label, one in zip(self.labels, self.runs, strict=True)},
            page,
            self.differences_by_condition,
            title="" if self.by in (None, "condition") else f"{self.by}: {names_in_words(self.labels, 5)}",
            metrics=self.metrics,
            wanted=self.flows,
            moved={label: one.sentence for label, one in self.moved().items()} if self.is_of_runs else {},
            drawn=self.is_of_runs,
            hypothesis=self.hypothesis,
            told=self._told,
        )

    def plot(self, name: str = "rate", flow: Flows = None, *, flows: Flows = None) -> Plot:
        """A plot that shows all runs, over the compared time.

        Args:
            name: the plot's name, such as "rate" or "delay"; "differences" is the forest plot of what
                differs, which needs no traces.
            flow: the flows to draw, such as ``"alice->bob"``, ``"*->bob"`` or a list; by default
                the compared flows that all runs have, without flows of feedback alone.
            flows: another name of ``flow``.

        Raises:
            BadInput: there is no such plot or flow, the runs have no data for it in common, or a plot over
                time is asked for and a side has several conditions or no traces.

        Example:
            >>> run = rtclab.run("first-call", duration="10 s", repeats=2)
            >>> rtclab.compare(run, run).plot("delay").title
            'One-way delay over time'
        """
        from rtclab.report import comparison_plot

        wanted = next((given for given in (flow, flows) if given is not None), self.flows)
        if name == DIFFERENCES:
            return self._forest(wanted)
        if not self.is_of_runs:
            raise BadInput(
                f"plot: `{name}` is drawn over time; expected one condition with traces on each side",
                hint="choose conditions with .where(…), of runs or of a sweep with traces=True",
            )
        return comparison_plot(self._by_label(), name, wanted)

    def _forest(self, flows: Flows) -> Plot:
        """The differences with their intervals, of the wanted flows."""
        from rtclab.report.forest import forest

        table = self.differences_by_condition.table(self.metrics, flows, self.hypothesis)
        plot = forest(self.labels, table.to_dicts(), self.by)
        if plot is None:
            raise BadInput("plot: nothing can be compared: no metric has a value on both sides")
        return plot

    def _first_runs(self) -> list[Run]:
        """The run of each side in the first condition that all have; else the first run of each."""
        sides = list(self._sides().values())
        shared = next((name for name in sides[0] if all(name in side for side in sides)), None)
        return [side[shared].run if shared in side else next(iter(side.values())).run for side in sides]

    def _by_label(self) -> dict[str, Run]:
        return {label: one.run for label, one in zip(self.labels, self.runs, strict=True)}

    def _page_name(self) -> str:
        """The names of two runs; of more, the first name and a digest, because file names are short."""
        names = [run.name for run in self.runs]
        if len(set(names)) == 1:  # their labels, with the signs that file names may have
            names = [re.sub(r"[^\w.]+", "-", label).strip("-") or "condition" for label in self.labels]
        first, second, *more = names
        part = window_in_names(self.window)
        if not more:
            return f"{first}-and-{second}{part}.html"
        digest = sha256("\n".join([second, *more]).encode()).hexdigest()[:8]
        return f"{first}-and-{1 + len(more)}-others-{digest}{part}.html"

    def _repr_html_(self) -> str:
        labels = ", ".join(map(escape, self.labels[1:]))
        return f"<p>base: {escape(self.labels[0])}, new: {labels}</p>{as_html(self._rows())}"

    def _rows(self) -> pl.DataFrame:
        """The rows to be read: of the metrics that were asked for, or else of the most important ones."""
        table = self.table() if self.metrics else self.overview()
        condition = () if (table["condition"] == "").all() else ("condition",)
        columns = ("label", "base", "new", "difference", "difference_percent", "verdict")
        return table.select(*condition, "metric", "flow", *columns, "unit")


def compare(
    *results: Results | str | Path,
    by: str | None = None,
    labels: Sequence[str] | None = None,
    begin: Moment | None = None,
    end: Moment | None = None,
    paired: bool = True,
    metrics: str | Sequence[str] | None = None,
    flows: Flows = None,
    hypothesis: str | Sequence[str] | None = None,
    out: str | Path = RUNS,
) -> Comparison:
    """Compares results with the first ones, condition by condition; differences are new minus base.

    Runs are compared as they are, sweeps in the conditions that they share. With ``by``, the conditions of
    one experiment are compared with each other. Values come from the store, so no traces are needed unless
    another time is compared than the one that was measured.

    Whether a difference is more than chance is corrected for the number of all compared conditions, metrics
    and flows. A difference that was expected before anybody saw the values is a ``hypothesis``: it is tested
    alone, and all other differences are corrected among themselves.

    Args:
        results: the baseline and others: results, their paths, their names below ``out``, or ``latest``.
        by: a varied field, such as ``"link.up.loss"``, or ``"condition"``: each of its values is compared
            with the first, in the conditions in which all other fields are equal.
        labels: a name for each of them, in tables and plots; by default the names of the runs, of the
            conditions, or the values of the field.
        begin: compare from this time on, such as ``"10 s"``; by default from the beginning.
        end: compare up to this time; by default to the end of each repeat.
        paired: compare simulated repeats with the same seeds in pairs.
        metrics: only these metrics; by default all.
        flows: only these flows, such as ``"*->erin"``; by default all that do not carry feedback alone, and
            what is of the whole run.
        hypothesis: the metrics for which a difference was expected beforehand, such as
            ``"receiving_rate"``. With several, and in several flows, they are corrected among themselves.
        out: directory in which to look for results by name.

    Raises:
        TraceError: there are no such results.
        BadInput: a time cannot be read, ``end`` is not after ``begin``, the results are about different parts
            of their time, or share no condition, there is not a label for each, two labels are equal, or
            there is no such metric or field.

    Example:
        >>> run = rtclab.run("first-call", duration="10 s", repeats=2)
        >>> rtclab.compare(run, "latest", labels=["then", "now"]).table()["difference"].max()
        0.0
        >>> grid = rtclab.sweep("first-call", {"link.up.loss": ["0 %", "5 %"]}, duration="10 s", repeats=2)
        >>> rtclab.compare(grid, by="link.up.loss").labels
        ['0 %', '5 %']
        >>> table = rtclab.compare(grid, by="link.up.loss", hypothesis="packet_loss").table()
        >>> table.filter("hypothesis")["metric"].unique().to_list()
        ['packet_loss']
    """
    runs = [one if isinstance(one, Results) else open_results(one, out=out) for one in results]
    if by is not None:
        if len(runs) != 1:
            raise BadInput(
                f"by: compares the conditions of one experiment; got {len(runs)} results",
                hint="leave out --by, or name one of them",
            )
        values = _values_of(runs[0], by)
        runs, labels = [*values.values()], list(values) if labels is None else labels
    if len(runs) < 2:
        raise BadInput(
            f"{runs[0].name if runs else 'nothing'} alone: expected two results or more, or what differs "
            "between the conditions of one",
            hint="the first are the baseline; --by FIELD compares the conditions of a sweep",
        )
    if begin is not None or end is not None:
        runs = [one.between(begin, end) for one in runs]
    for one in runs[1:]:
        if one.window != runs[0].window:
            times = [
                f"{of.name} is {window_in_words(of.window) if of.window else 'about all of the time'}"
                for of in (runs[0], one)
            ]
            raise BadInput(
                f"{' and '.join(times)}; expected the same part of the time",
                hint="choose one for all: --from and --to, in Python `begin` and `end`",
            )
    return Comparison(runs, labels, by=by, paired=paired, metrics=metrics, flows=flows, hypothesis=hypothesis)


def _hypothesis(given: str | Sequence[str] | None) -> list[str]:
    """The metrics of a hypothesis; none by default.

    Raises:
        BadInput: there is no such metric, or the list is empty.
    """
    if given is None:
        return []
    names = items("hypothesis", given, str, "names of metrics, such as receiving_rate; leave it out for none")
    check_names(names)
    return names


def _values_of(results: Results, by: str) -> dict[str, Results]:
    """The results of each value of a varied field, or of each condition.

    Raises:
        BadInput: the field was not varied, or has one value.
    """
    if by == "condition":
        return {label: results[label] for label in results.conditions}
    varied = {field.name: field for field in results.varied}
    if by not in varied:
        expected = " or ".join(dict.fromkeys([*results.fields, "condition"]))
        raise BadInput(f"by: `{by}` is not varied in {results.name}; expected {expected}")
    return {text: results.where({by: text}) for text in varied[by].texts}


def _labels(runs: Sequence[Results], given: Sequence[str] | None) -> list[str]:
    """The given labels, or the names of the runs; conditions of one experiment have their own labels.

    A name that several have is numbered.

    Raises:
        BadInput: there is not a label for each run, one is empty, or two are equal.
    """
    if given is None:
        names = [run.name for run in runs]
        if len(set(names)) == 1:
            names = [run.part.replace("; ", ", ") or run.name for run in runs]
        seen = [names[: index + 1].count(name) for index, name in enumerate(names)]
        return [name if count == 1 else f"{name} ({count})" for name, count in zip(names, seen, strict=True)]
    given = items("labels", given, str, "a label for each run")
    if len(given) != len(runs):
        raise BadInput(
            f"labels: {len(given)} for {len(runs)} runs; expected one for each",
            hint="give them in the order of the runs",
        )
    for label in given:
        if not label.strip():
            raise BadInput("labels: one is empty", hint="leave all labels out to use the names of the runs")
        if list(given).count(label) > 1:
            raise BadInput(f"labels: `{label}` stands for several runs", hint="give each run its own label")
    return given


def _some(conditions: Mapping[str, Side]) -> str:
    """The first conditions of a side, in words."""
    return names_in_words([name or "its only condition" for name in conditions], MOST_NAMED)
