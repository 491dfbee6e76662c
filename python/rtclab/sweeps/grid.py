"""The results of a sweep: its table, summaries over repeats, plots and a report."""

from __future__ import annotations

from html import escape
from pathlib import Path
from typing import TYPE_CHECKING

import polars as pl

from rtclab.sweeps.store import Store
from rtclab.sweeps.summary import summary_of
from rtclab.trace import write_text

if TYPE_CHECKING:
    from rtclab.report import Plot


class Grid:
    """The results of a sweep, finished or not.

    Example:
        >>> grid = rtclab.sweep("first-call", {"link.up.loss": ["0 %", "5 %"]}, duration="10 s", repeats=2)
        >>> grid.metrics().filter(metric="packet_loss", flow="alice->bob").height
        4
    """

    def __init__(self, path: str | Path) -> None:
        """Opens a sweep.

        Raises:
            TraceError: the directory is not a sweep.
        """
        self._store = Store(Path(path))

    def __repr__(self) -> str:
        return f"Grid({str(self.path)!r})"

    @property
    def path(self) -> Path:
        """Directory of the sweep."""
        return self._store.path

    @property
    def name(self) -> str:
        """Name of the directory, such as ``first-call-sweep-1``."""
        return self.path.resolve().name

    @property
    def backend(self) -> str:
        """``sim`` or ``live``."""
        return self._store.plan.backend

    @property
    def fields(self) -> list[str]:
        """The varied fields."""
        return [field.name for field in self._store.plan.fields]

    def progress(self) -> tuple[int, int]:
        """The number of finished repeats, and the number of all repeats.

        Example:
            >>> grid = rtclab.sweep("first-call", {"link.up.loss": "0..5 % x2"}, duration="10 s", repeats=2)
            >>> grid.progress()
            (4, 4)
        """
        return self._store.repeats_done(), self._store.plan.size

    def metrics(self) -> pl.DataFrame:
        """Every metric of every flow in every finished repeat, one row each.

        Columns: ``point``, the number of the point; for each varied field, its value as given and, if all its
        values are numbers, the value in a base unit (``link.up.capacity_bps``); ``repeat``, ``metric``,
        ``unit``, ``flow``, ``value`` and ``failure``. ``flow`` is empty for metrics of a whole repeat. A
        metric that could not be measured has no row. A failed repeat has one row, ``call_failures``, and its
        reason in ``failure``; ``value`` is null if the laboratory failed, not the call.

        Example:
            >>> grid = rtclab.sweep("first-call", {"link.up.loss": "0..5 % x2"}, duration="10 s", repeats=2)
            >>> grid.metrics()["link.up.loss_percent"].unique().sort().to_list()
            [0.0, 5.0]
        """
        return self._store.rows().collect()

    def failures(self) -> pl.DataFrame:
        """The repeats that failed: ``point``, the varied fields, ``repeat``, and the reason in ``failure``.

        Example:
            >>> grid = rtclab.sweep("first-call", {"link.up.loss": "0..5 % x2"}, duration="10 s", repeats=2)
            >>> grid.failures().height
            0
        """
        failed = self._store.rows().filter(pl.col("failure").is_not_null())
        return failed.select("point", *self.fields, "repeat", "failure").unique(maintain_order=True).collect()

    def summary(self) -> pl.DataFrame:
        """Mean, standard deviation and 95 % confidence interval over repeats, per point, metric and flow.

        Columns: ``point``, the varied fields as in :meth:`metrics`, ``metric``, ``unit``, ``better``,
        ``flow``, ``mean``, ``sd``, ``ci95_low``, ``ci95_high``, and ``repeats``, the number of repeats with a
        value. Intervals are computed as in :func:`rtclab.metrics.measure_run`.

        Example:
            >>> grid = rtclab.sweep("first-call", {"link.up.loss": "0..5 % x2"}, duration="10 s", repeats=2)
            >>> grid.summary().filter(metric="setup_time", flow="alice->bob")["repeats"].to_list()
            [2, 2]
        """
        return summary_of(self._store.rows(), self._columns())

    def plot(
        self, metric: str, *, x: str | None = None, by: str | None = None, flow: str | None = None
    ) -> Plot:
        """A metric against the field ``x``, with 95 % intervals and a line for each value of ``by``.

        A sweep of two fields is drawn as a heat map unless ``x`` or ``by`` is given. Values are averaged over
        all other fields. ``flow`` selects one flow; by default the first four flows have axes of their own.

        Raises:
            BadInput: there is no such metric, field or flow, or no repeat has a value of the metric.

        Example:
            >>> grid = rtclab.sweep("first-call", {"link.up.loss": "0..5 % x2"}, duration="10 s", repeats=2)
            >>> grid.plot("receiving_rate", x="link.up.loss").save("rate.svg").name
            'rate.svg'
        """
        from rtclab.sweeps.plots import make_plot

        return make_plot(self._store.rows(), self._store.plan.fields, metric, x, by, flow)

    def report(self) -> Path:
        """Writes ``report.html`` into the sweep's directory; returns its path.

        Raises:
            DiskFull: no disk space is left.

        Example:
            >>> grid = rtclab.sweep("first-call", {"link.up.loss": "0..5 % x2"}, duration="10 s", repeats=2)
            >>> grid.report().name
            'report.html'
        """
        from rtclab.sweeps.page import page_of

        facts, plan = self._facts(), self._store.plan
        text = page_of(self.name, plan, facts, self._store.rows(), self.summary(), self.failures())
        page = self.path / "report.html"
        write_text(page, text)
        return page

    def _facts(self) -> list[tuple[str, str]]:
        """The facts at the top of the report, as pairs of label and value."""
        plan, versions = self._store.plan, self._store.versions
        done, size = self.progress()
        return [
            ("Scenario", plan.name),
            ("Backend", "simulated (virtual time)" if plan.backend == "sim" else plan.backend),
            ("Points", f"{plan.points}, each repeated {plan.repeats} times with the same seeds"),
            ("Repeats", f"{done} of {size} finished"),
            ("Versions", f"rtclab {versions['rtclab']}, build {versions['code']}"),
        ]

    def _repr_html_(self) -> str:
        done, size = self.progress()
        varied = ", ".join(f"{field.name} ({field.count} values)" for field in self._store.plan.fields)
        return f"<p>{escape(f'{self.name}: {varied}; {done} of {size} repeats finished')}</p>"

    def _columns(self) -> list[str]:
        """The columns of the varied fields: first the values as given, then the numbers."""
        numbers = [field.number_column for field in self._store.plan.fields if field.numbers]
        return [*self.fields, *numbers]
