"""What a sweep came to: its table, summaries over repeats, plots and a page."""

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
            TraceError: the directory holds none.
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
    def fields(self) -> list[str]:
        """The varied fields."""
        return [field.name for field in self._store.plan.fields]

    def progress(self) -> tuple[int, int]:
        """The number of finished repeats, and of all.

        Example:
            >>> grid = rtclab.sweep("first-call", {"link.up.loss": "0..5 % x2"}, duration="10 s", repeats=2)
            >>> grid.progress()
            (4, 4)
        """
        return self._store.repeats_done(), self._store.plan.size

    def metrics(self) -> pl.DataFrame:
        """Every metric of every flow in every repeat that is finished.

        A row has the number of its ``point``; the value of each varied field as it was given, in a column
        named as the field; the same as a number in a base unit, where it is one (``link.up.capacity_bps``);
        ``repeat``, ``metric``, ``unit``, ``flow`` and ``value``. ``flow`` is empty for what describes a whole
        repeat. What could not be measured has no row. A repeat that failed has only its ``call_failures``,
        and ``failure`` says why.

        Example:
            >>> grid = rtclab.sweep("first-call", {"link.up.loss": "0..5 % x2"}, duration="10 s", repeats=2)
            >>> grid.metrics()["link.up.loss_percent"].unique().sort().to_list()
            [0.0, 5.0]
        """
        return self._store.rows().collect()

    def failures(self) -> pl.DataFrame:
        """The repeats that failed: ``point``, the varied fields, ``repeat``, and the reason as ``failure``.

        Example:
            >>> grid = rtclab.sweep("first-call", {"link.up.loss": "0..5 % x2"}, duration="10 s", repeats=2)
            >>> grid.failures().height
            0
        """
        failed = self._store.rows().filter(pl.col("failure").is_not_null())
        return failed.select("point", *self.fields, "repeat", "failure").unique(maintain_order=True).collect()

    def summary(self) -> pl.DataFrame:
        """Mean, standard deviation and 95 % interval over repeats, of every point, metric and flow.

        Columns: those of the varied fields as in :meth:`metrics`, ``metric``, ``unit``, ``better``, ``flow``,
        ``mean``, ``sd``, ``ci95_low``, ``ci95_high`` and ``repeats``, the number of repeats that could be
        measured. Intervals are those of :func:`rtclab.metrics.measure_run`.

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

        Without ``x`` and ``by`` the plot of two fields is a heat map. Values are averaged over fields that
        are neither. ``flow`` chooses one flow; else each of the first four has axes of its own.

        Raises:
            BadInput: there is no such metric, field or flow, or nobody could measure it.

        Example:
            >>> grid = rtclab.sweep("first-call", {"link.up.loss": "0..5 % x2"}, duration="10 s", repeats=2)
            >>> grid.plot("receiving_rate", x="link.up.loss").save("rate.svg").name
            'rate.svg'
        """
        from rtclab.sweeps.plots import make_plot

        return make_plot(self._store.rows(), self._store.plan.fields, metric, x, by, flow)

    def report(self) -> Path:
        """Writes the page ``report.html`` into the sweep's directory; returns its path.

        Raises:
            DiskFull: the page could not be written.

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
        """What a reader must know of a sweep before believing it, as pairs of word and value."""
        plan, versions = self._store.plan, self._store.versions
        done, size = self.progress()
        return [
            ("Scenario", plan.name),
            ("Backend", "simulated (virtual time)" if plan.backend == "sim" else plan.backend),
            ("Points", f"{plan.points}, each {plan.repeats} times with the same seeds"),
            ("Repeats", f"{done} of {size} finished"),
            ("Versions", f"rtclab {versions['rtclab']}, build {versions['code']}"),
        ]

    def _repr_html_(self) -> str:
        done, size = self.progress()
        varied = ", ".join(f"{field.name} ({field.count} values)" for field in self._store.plan.fields)
        return f"<p>{escape(f'{self.name}: {varied}; {done} of {size} repeats finished')}</p>"

    def _columns(self) -> list[str]:
        """The columns of the varied fields."""
        numbers = [field.number_column for field in self._store.plan.fields if field.numbers]
        return [*self.fields, *numbers]
