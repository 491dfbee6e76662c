"""Comparing results: :func:`compare`, and :class:`Comparison` with its tables, plots and page."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from hashlib import sha256
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING

import polars as pl

from rtclab.arguments import items
from rtclab.errors import BadInput
from rtclab.experiment import Moment, Results, chosen_metrics, essential
from rtclab.experiment.comparison import Differences
from rtclab.experiment.flows import Flows
from rtclab.experiment.results import as_html, as_text
from rtclab.lab import RUNS, open_results
from rtclab.trace import OpenWindow, Run, window_in_names, window_in_words

if TYPE_CHECKING:
    from rtclab.report import Plot


class Comparison:
    """Runs side by side, each compared with the first; see :func:`compare`.

    Attributes:
        runs: the runs; the first is the baseline.
        labels: a name for each run.
        paired: whether simulated repeats with the same seeds are compared in pairs.
        metrics: the metrics that are compared; None for all.
        flows: the flows that are compared; None for all that do not carry feedback alone.
    """

    def __init__(
        self,
        runs: Sequence[Results],
        labels: Sequence[str] | None = None,
        *,
        paired: bool = True,
        metrics: str | Sequence[str] | None = None,
        flows: Flows = None,
    ) -> None:
        self.runs: list[Results] = items("runs", runs, Results, "two results or more")
        self.labels = _labels(self.runs, labels)
        self.paired = paired
        self.metrics, self.flows = chosen_metrics(metrics), flows

    @property
    def window(self) -> OpenWindow | None:
        """Begin and end in s of the compared part of each repeat; None for all of it."""
        return self.runs[0].window

    def __str__(self) -> str:
        """A sentence on each run, and the most important differences from the first run."""
        about = (f"{label}: {text}" for label, text in zip(self.labels, self.verdicts(), strict=True))
        return "\n".join([*about, f"a: {self.labels[0]}, b: label", as_text(self._rows())])

    def table(self) -> pl.DataFrame:
        """Means and differences with 95 % confidence intervals: a row per metric, flow and compared run.

        ``label`` names the compared run. Columns that end in ``_a`` describe the first run, those in ``_b``
        the compared one. :func:`rtclab.experiment.compare_runs` describes all columns.

        Example:
            >>> slow, fast = (
            ...     rtclab.run("first-call", duration="10 s", repeats=2, set={"link.up.capacity": rate})
            ...     for rate in ("0.5 Mbit/s", "2 Mbit/s")
            ... )
            >>> compared = rtclab.compare(slow, fast, labels=["slow", "fast"]).table()
            >>> compared.filter(metric="receiving_rate", label="fast")["difference"].min() > 0
            True
        """
        return self._compared.table(self.metrics, self.flows)

    @cached_property
    def _compared(self) -> Differences:
        return Differences.of(self._by_label(), pair_repeats=self.paired)

    def verdicts(self) -> list[str]:
        """A sentence that sums up each run, whatever metrics and flows are compared.

        Example:
            >>> few, many = (rtclab.run("first-call", duration="10 s", repeats=n) for n in (1, 2))
            >>> len(rtclab.compare(few, many).verdicts())
            2
        """
        from rtclab.report import comparison_verdicts

        return comparison_verdicts(self._by_label(), self._compared.table())

    def differences(self) -> pl.DataFrame:
        """What differs between the scenarios: a row per field, with its value in each run as text.

        Returns the column ``field`` with paths such as ``link.up.queue``, and a column per label. Behind a
        path that the backend of all runs ignores stands ``(no effect)``.

        Example:
            >>> few, many = (rtclab.run("first-call", duration="10 s", repeats=n) for n in (1, 2))
            >>> rtclab.compare(few, many, labels=["few", "many"]).differences().rows()
            [('repeats', '1', '2')]
        """
        from rtclab.report.differences import scenario_differences

        rows = [(field, *values) for field, values in scenario_differences([*self._by_label().values()])]
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
            self._by_label(),
            page,
            pair_repeats=self.paired,
            metrics=self.metrics,
            wanted=self.flows,
        )

    def plot(self, name: str = "rate", flow: Flows = None, *, flows: Flows = None) -> Plot:
        """A plot that shows all runs, over the compared time.

        Args:
            name: the plot's name, such as "rate" or "delay".
            flow: the flows to draw, such as ``"alice->bob"``, ``"*->bob"`` or a list; by default
                the compared flows that all runs have, without flows of feedback alone.
            flows: another name of ``flow``.

        Raises:
            BadInput: there is no such plot or flow, or the runs have no data for it in common.

        Example:
            >>> run = rtclab.run("first-call", duration="10 s", repeats=2)
            >>> rtclab.compare(run, run).plot("delay").title
            'One-way delay over time'
        """
        from rtclab.report import comparison_plot

        wanted = next((given for given in (flow, flows) if given is not None), self.flows)
        return comparison_plot(self._by_label(), name, wanted)

    def _by_label(self) -> dict[str, Run]:
        return {label: one.run for label, one in zip(self.labels, self.runs, strict=True)}

    def _page_name(self) -> str:
        """The names of two runs; of more, the first name and a digest, because file names are short."""
        first, second, *more = (run.name for run in self.runs)
        part = window_in_names(self.window)
        if not more:
            return f"{first}-and-{second}{part}.html"
        digest = sha256("\n".join([second, *more]).encode()).hexdigest()[:8]
        return f"{first}-and-{1 + len(more)}-others-{digest}{part}.html"

    def _repr_html_(self) -> str:
        labels = ", ".join(map(escape, self.labels[1:]))
        return f"<p>a: {escape(self.labels[0])}, b: {labels}</p>{as_html(self._rows())}"

    def _rows(self) -> pl.DataFrame:
        """The rows to be read: of the metrics that were asked for, or else of the most important ones."""
        table = self.table() if self.metrics else essential(self.table())
        columns = ("label", "mean_a", "mean_b", "difference", "difference_percent", "verdict")
        return table.select("metric", "flow", *columns, "unit")


def compare(
    a: Results | str | Path,
    b: Results | str | Path,
    *more: Results | str | Path,
    labels: Sequence[str] | None = None,
    begin: Moment | None = None,
    end: Moment | None = None,
    paired: bool = True,
    metrics: str | Sequence[str] | None = None,
    flows: Flows = None,
    out: str | Path = RUNS,
) -> Comparison:
    """Compares runs with the first one; differences are a run's value minus the first run's.

    Whether a difference is more than chance is corrected for the number of all compared metrics and flows.
    Whoever has chosen them before looking at the values, such as for one hypothesis, names them.

    Args:
        a: the baseline: a run, its path, its name below ``out``, or ``latest``.
        b: another run.
        more: further runs.
        labels: a name for each run, in tables and plots; by default the names of the runs.
        begin: compare from this time on, such as ``"10 s"``; by default from the beginning.
        end: compare up to this time; by default to the end of each repeat.
        paired: compare simulated repeats with the same seeds in pairs.
        metrics: only these metrics; by default all.
        flows: only these flows, such as ``"*->erin"``; by default all that do not carry feedback alone, and
            what is of the whole run.
        out: directory in which to look for runs by name.

    Raises:
        TraceError: there is no such run.
        BadInput: a time cannot be read, ``end`` is not after ``begin``, the runs are about different parts of
            their time, there is not a label for each run, two labels are equal, there is no such metric, or
            the repeats of a run left no traces.

    Example:
        >>> run = rtclab.run("first-call", duration="10 s", repeats=2)
        >>> rtclab.compare(run, "latest", labels=["then", "now"]).table()["difference"].max()
        0.0
    """
    runs = [one if isinstance(one, Results) else open_results(one, out=out) for one in (a, b, *more)]
    for one in runs:
        if not one.run.traced:
            raise BadInput(f"{one.name} kept no traces", hint="run it again with traces=True")
    if begin is not None or end is not None:
        runs = [one.between(begin, end) for one in runs]
    for one in runs[1:]:
        if one.window != runs[0].window:
            times = [f"{of.name} is {_time_in_words(of.window)}" for of in (runs[0], one)]
            raise BadInput(
                f"{' and '.join(times)}; expected the same part of the time",
                hint="choose one for all: --from and --to, in Python `begin` and `end`",
            )
    return Comparison(runs, labels, paired=paired, metrics=metrics, flows=flows)


def _time_in_words(window: OpenWindow | None) -> str:
    return "about all of the time" if window is None else window_in_words(window)


def _labels(runs: Sequence[Results], given: Sequence[str] | None) -> list[str]:
    """The given labels, or the names of the runs; a name that several runs have is numbered.

    Raises:
        BadInput: there is not a label for each run, one is empty, or two are equal.
    """
    if len(runs) < 2:
        raise BadInput(f"{runs[0].name} alone: expected two runs or more", hint="the first is the baseline")
    if given is None:
        names = [run.name for run in runs]
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
