"""Replay of an RTC event log into a congestion control."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from rtclab.errors import BadInput
from rtclab.importers.logs.control import control_values
from rtclab.importers.logs.event_log import read_event_log
from rtclab.importers.logs.text import read_log
from rtclab.native_tables import table_in_seconds
from rtclab.replays.agreement import AGREE, Agreement, agreement, first_divergence
from rtclab.replays.settings import ControlChoice, RateBounds
from rtclab.replays.sockets import socket_times
from rtclab.report.drawing import DOTTED, Axes, Axis, Line, Style, largest
from rtclab.report.plot import Plot
from rtclab.report.plot_kinds import Steps

SETTLED_S = 5.0
"""Figures count from this time after the control began."""
MS_PER_S = 1000
_PLOTTED = 2000


@dataclass(frozen=True, kw_only=True)
class LogReplay:
    """A congestion control's decisions for a log, beside the browser's.

    Times (``at_s``) are seconds since the browser's own control began. ``target`` is the control's
    target and ``values`` are its internal values at every feedback; ``probes`` are those that it wanted, and
    ``cluster`` is the browser's probe that stood for one. ``rembs`` are those that the control's receiving
    half sent for the arrivals in the feedback, None if the control has no such half. ``browser`` has the
    browser's own values by name, as in the table ``controller`` of a trace.
    """

    log: Path
    choice: ControlChoice
    bounds: RateBounds
    target: pl.DataFrame
    values: pl.DataFrame
    probes: pl.DataFrame
    rembs: pl.DataFrame | None
    browser: pl.DataFrame
    end_s: float
    notes: tuple[str, ...]

    @property
    def agreement(self) -> Agreement | None:
        """How well the target follows the browser's from ``SETTLED_S`` on; None if the log is shorter."""
        return agreement(self._own, self._browsers, SETTLED_S, self.end_s)

    @property
    def divergence_s(self) -> float | None:
        """When the targets first differ by more than 5 % for half a second; None if they never do."""
        return first_divergence(self._own, self._browsers, 0.0, self.end_s)

    def figures(self) -> dict[str, Any]:
        """Agreement, first divergence, and both controllers' internal state at that time, as JSON values."""
        measured, diverged_s = self.agreement, self.divergence_s
        within = measured.within if measured else (None,) * len(AGREE)
        return {
            "log": str(self.log),
            "control": str(self.choice),
            "seconds": self.end_s,
            **{
                f"within_{100 * bound:.0f}_percent": share for bound, share in zip(AGREE, within, strict=True)
            },
            "median_error_percent": measured.median_error if measured else None,
            "bias_percent": measured.bias if measured else None,
            "first_divergence_s": diverged_s,
            "reasons": {} if diverged_s is None else self.reasons(diverged_s),
            "probes": {"wanted": self.probes.height, "sent": self.probes["cluster"].count()},
            "rembs": None if self.rembs is None else self.rembs.height,
            "notes": list(self.notes),
        }

    @property
    def fed(self) -> str:
        """What the control was fed with, for a sentence that ends with it."""
        if self.rembs is not None:
            return (
                "the same packets: its receiving half got the arrivals that the feedback reports, and its "
                "sending half the receiving half's REMBs and the receiver reports"
            )
        return "the same packets and feedback"

    def reasons(self, at_s: float) -> dict[str, dict[str, float]]:
        """The last known values of both sides at a time: ``browser`` and ``replay``."""
        own = pl.concat(
            [
                self.target.select(
                    "at_s", name=pl.lit("target_bps"), value=pl.col("target_bps").cast(pl.Float64)
                ),
                self.values,
            ],
            how="diagonal_relaxed",
        ).select("at_s", "name", "value")
        return {"browser": _last(self.browser, at_s), "replay": _last(own, at_s)}

    def plot(self) -> Plot:
        """Both targets and the browser's delay-based estimate over time."""
        lines = [
            _line(Style.numbered(0, "browser"), self._browsers, self.end_s),
            _line(Style.numbered(1, str(self.choice)), self._own, self.end_s),
        ]
        delay_based = self._of_browser("delay_based_bps")
        if delay_based.at_s.size:
            look = Style("browser, delay-based", Style.numbered(2, "").colour, DOTTED)
            lines.append(_line(look, delay_based, self.end_s))
        x = Axis("Time (s)", 0.0, self.end_s)
        y = Axis.from_zero("Rate (kbit/s)", largest([line.y for line in lines[:2]]))
        return Plot(
            "replay",
            f"Target of {self.choice} and of the browser",
            "The browser's target after all its limits, and the target of the replayed control for "
            f"{self.fed}.",
            x,
            y,
            [Axes(self.log.name, list(lines))],
            over_time=True,
        )

    @property
    def _own(self) -> Steps:
        at_s, target_bps = self.target["at_s"].to_numpy(), self.target["target_bps"].cast(pl.Float64)
        return Steps(str(self.choice), at_s, target_bps.to_numpy())

    @property
    def _browsers(self) -> Steps:
        return self._of_browser("target_bps")

    def _of_browser(self, name: str) -> Steps:
        rows = self.browser.filter(pl.col("name") == name)
        return Steps(name, rows["at_s"].to_numpy(), rows["value"].to_numpy())


def replay_event_log(path: Path, choice: ControlChoice, bounds: RateBounds) -> LogReplay:
    """Feeds the packets and feedback of an event log to a control.

    A control that estimates at the receiver gets the arrivals that the feedback reports, in its receiving
    half, whose REMBs reach its sending half together with that feedback.

    If the log lies in the trace of its live call, packets are sent when the trace saw them.

    Raises:
        BadInput: the file is not an event log that can be read or replayed, or an option is invalid.
    """
    log = read_log(path)
    read = read_event_log(path, log)
    sent_ms = socket_times(read)
    native = bounds.native(audio=not read.tables["audio_send_config"].is_empty())
    try:
        tables, begin_ms = choice.replayed("replay_log", log.content, sent_ms, bounds=native)
    except ValueError as error:
        raise BadInput(f"{path}: {error}") from None
    browser = control_values(read).select(
        (pl.col("at_ms") - begin_ms).truediv(MS_PER_S).alias("at_s"), "name", "value"
    )
    if browser.filter(pl.col("name") == "target_bps").is_empty():
        raise BadInput(f"{path}: the log has no target of the browser", hint="the call was too short")
    own = {name: table_in_seconds(columns) for name, columns in tables.items()}
    heard = "outgoing_rtp", "transport_feedback", "congestion_feedback"
    ends = [read.tables[name]["at_ms"].max() for name in heard]
    return LogReplay(
        log=path,
        choice=choice,
        bounds=bounds,
        target=own["target"],
        values=own["values"],
        probes=own["probes"],
        rembs=own.get("remb"),
        browser=browser,
        end_s=(max(int(str(at_ms)) for at_ms in ends if at_ms is not None) - begin_ms) / MS_PER_S,
        notes=read.notes,
    )


def _last(rows: pl.DataFrame, at_s: float) -> dict[str, float]:
    """The last value of each name up to a little after a time, since effects are logged before causes."""
    known = rows.filter(pl.col("at_s") <= at_s + 0.002).group_by("name", maintain_order=True).last()
    return dict(known.select("name", "value").iter_rows())


def _line(look: Style, steps: Steps, end_s: float) -> Line:
    """A line of steps in kbit/s, thinned to the points that a page can show."""
    every = max(1, steps.at_s.size // _PLOTTED)
    at_s, values = steps.at_s[::every], steps.values[::every]
    if not at_s.size:
        return Line(look, at_s, values, steps=True)
    return Line(look, np.append(at_s, end_s), np.append(values, values[-1]) / 1000, steps=True)
