"""The registry of metrics: definition, unit, direction in which a metric is better, and source."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Literal, TypeVar

from rtclab.metrics.series import Samples

Better = Literal["lower", "higher", ""]
Certainty = Literal["exactly", "within bounds", "not"]
Scope = Literal["flow", "trace", "run"]
Packets = Literal["always", "in a window", ""]
"""When a metric needs the table of packets, and not only sums per second: always, in a window, or never."""
Bounds = tuple[float, float]
"""The smallest and the largest possible value of a metric."""
NOT_NEGATIVE: Bounds = (0.0, math.inf)
ANY: Bounds = (-math.inf, math.inf)
Function = TypeVar("Function", bound=Callable[..., float])

CALLS = {"sim": "simulated calls", "live": "live calls", "capture": "captures", "log": "logs of browsers"}
SOURCES_OF = {
    "sim": ("simulated",),
    "live": ("live",),
    "capture": ("capture",),
    "log": ("event log", "dump"),
}
"""By backend, its calls in words, and the sources that its traces are made of."""
SOURCES = ("simulated", "live", "capture", "event log", "dump")
"""What a trace can be made of: a simulated or live call, one or two captures, RTC event logs, or a dump of
getStats (webrtc-internals, rtcstats)."""


@dataclass(frozen=True)
class Coverage:
    """How well a source knows a metric, and under which conditions or within which bounds."""

    certainty: Certainty
    note: str = ""


EXACT, UNKNOWN = Coverage("exactly"), Coverage("not")


def exact(note: str) -> Coverage:
    """Known exactly, with a remark such as a condition."""
    return Coverage("exactly", note)


def bounded(note: str) -> Coverage:
    """Known within the bounds that the note names."""
    return Coverage("within bounds", note)


Sources = dict[str, Coverage]
"""How each of ``SOURCES`` knows a metric."""


def sources(
    simulated: Coverage, live: Coverage, capture: Coverage, event_log: Coverage, dump: Coverage
) -> Sources:
    """The coverage of a metric by source, in the order of :data:`SOURCES`."""
    return dict(zip(SOURCES, (simulated, live, capture, event_log, dump), strict=True))


OF_PACKETS = sources(EXACT, EXACT, EXACT, bounded("at least: RTP packets only"), UNKNOWN)
"""Counts of packets and bytes on the wire."""
OF_RTP = sources(EXACT, EXACT, EXACT, EXACT, UNKNOWN)
"""Quantities of single RTP packets."""
OF_DELAYS = sources(
    EXACT,
    EXACT,
    exact("with two captures, or one with packets that enter and leave; to the error of their clocks"),
    bounded("to 1 ms; if the clocks differ, the smallest delay is taken as half of the smallest round trip"),
    UNKNOWN,
)
"""Delays from one end to the other."""
OF_MODEL = sources(EXACT, EXACT, UNKNOWN, UNKNOWN, UNKNOWN)
"""Quantities of the emulated or simulated network, and events of the laboratory."""
OF_REPORTS = sources(EXACT, EXACT, UNKNOWN, UNKNOWN, EXACT)
"""Counters and values that browsers report in getStats."""
OF_FLOWS = sources(EXACT, EXACT, EXACT, EXACT, EXACT)
"""When flows begin and end."""
OF_BROWSERS = sources(UNKNOWN, EXACT, UNKNOWN, UNKNOWN, UNKNOWN)
"""Quantities of processes, which only live calls have."""

ACRONYMS = {"nacks": "NACKs"} | {
    name: name.upper() for name in ("rtt", "cpu", "ice", "dtls", "tcp", "fec", "ce", "aqm", "w3c")
}


@dataclass(frozen=True, kw_only=True)
class Metric:
    """One entry of the registry.

    ``scope`` says what one value describes and how ``function`` is called: a flow of one repeat
    ``(trace, flow)``, all flows of a repeat ``(trace)``, or a repeat that may have failed ``(run)``.
    ``samples``, if present, gives the one-second samples behind the value. ``bounds`` limits values and
    confidence intervals. ``total`` says that the value grows with the measured time. ``share``: the
    mean over repeats is the percentage of repeats. ``of_time`` says that the value, in s, is a part of the
    measured time. ``known`` says how well each source knows the metric, and ``packets`` when it needs
    recorded packets.
    """

    name: str
    unit: str
    better: Better
    source: str
    scope: Scope
    function: Callable[..., float]
    samples: Callable[..., Samples] | None
    bounds: Bounds
    total: bool
    share: bool
    of_time: bool
    known: Sources | None
    packets: Packets

    def needs_packets(self, *, in_window: bool) -> bool:
        """Whether the metric has a value only if packets were recorded, and not only sums per second."""
        return self.packets == "always" or (self.packets == "in a window" and in_window)

    def known_by(self, backend: str) -> bool:
        """Whether the traces of a backend may know the metric: ``sim``, ``live``, ``capture`` or ``log``."""
        sources = SOURCES_OF.get(backend, SOURCES)
        return self.known is None or any(self.known[source].certainty != "not" for source in sources)

    def no_value(self, backend: str, record: str, *, in_window: bool) -> str:
        """Why a run has no value of the metric, for readers.

        Args:
            backend: ``sim``, ``live``, ``capture`` or ``log``.
            record: what was recorded, ``packets`` or ``seconds``.
            in_window: whether a part of the time was measured.
        """
        if self.scope == "run" and in_window:
            return "it is of whole repeats, and has no value in a part of their time"
        if not self.known_by(backend):
            return f"{CALLS.get(backend, backend)} do not know it; known: {self.known_in_words}"
        if self.needs_packets(in_window=in_window) and record != "packets":
            when = " in a part of the time" if self.packets == "in a window" else ""
            return (
                f"it needs packets{when}, and sums per second were recorded; a run records packets with "
                f"--record packets, a sweep with --metric {self.name}"
            )
        return f"nothing that it measures was there; see `rtclab metrics {self.name}`"

    def bounds_in(self, measured_s: float) -> Bounds:
        """The smallest and the largest possible value in a measured time in s."""
        return (self.bounds[0], measured_s) if self.of_time else self.bounds

    @property
    def compared_bounds(self) -> Bounds:
        """The bounds in comparisons, in which totals are divided by the minutes that were measured."""
        return self.bounds_in(60.0) if self.total else self.bounds

    @property
    def compared_unit(self) -> str:
        """The unit in comparisons, where totals are divided by the minutes that were measured."""
        return f"{self.unit or 1}/min" if self.total else self.unit

    @property
    def shipped(self) -> bool:
        """Whether the metric comes with rtclab."""
        return self.function.__module__.startswith(f"{__package__}.")

    @property
    def label(self) -> str:
        """The name for readers: ``Queuing delay p95`` for ``queuing_delay_p95``."""
        words = [ACRONYMS.get(word, word) for word in self.name.replace("one_way", "one-way").split("_")]
        return words[0][0].upper() + words[0][1:] + "".join(f" {word}" for word in words[1:])

    @property
    def known_in_words(self) -> str:
        """The sources that know the metric: ``simulated, live, dump``, with their conditions or bounds."""
        return ", ".join(
            f"{source} ({known.note})" if known.note else source
            for source, known in (self.known or {}).items()
            if known.certainty != "not"
        )

    @property
    def definition(self) -> str:
        """The function's docstring on one line."""
        return " ".join((self.function.__doc__ or "").split())


METRICS: dict[str, Metric] = {}

ESSENTIAL = (
    *("receiving_rate", "utilisation", "rtt", "queuing_delay_p95", "packet_loss", "frame_rate"),
    *("frame_height", "freeze_count", "freeze_duration", "setup_time", "tcp_throughput", "call_failures"),
)
"""The metrics to look at first, in the order in which they are shown."""

EARLIER = {"audio_delay": "it is called `audio_buffer_delay` now; `sound_delay` is from mouth to ear"}
"""Hints about metrics that had another name."""

INSTEAD = {
    "receiving_rate": ("stats_receiving_rate", "stats_sending_rate"),
    "queuing_delay_p95": ("delay_variation_p95",),
    "packet_loss": ("unseen_loss",),
}
"""What is shown in place of an essential metric that the source of a trace does not know."""


def essentials(known: Collection[str]) -> list[str]:
    """The metrics to look at first, in order, for a trace in which the metrics ``known`` have values.

    A dump has no packets, but getStats counted bytes and gaps in sequence numbers: of what its page received,
    and of what it sent. Captures do not tell how long packets were queued, but how their delay varied.
    """
    chosen = [one for name in ESSENTIAL for one in ((name,) if name in known else INSTEAD.get(name, ()))]
    return [name for name in chosen if name in known]


def metric(
    *,
    unit: str,
    source: str,
    better: Better = "",
    scope: Scope = "flow",
    samples: Callable[..., Samples] | None = None,
    bounds: Bounds = NOT_NEGATIVE,
    total: bool = False,
    share: bool = False,
    of_time: bool = False,
    known: Sources | None = None,
    packets: Packets = "",
) -> Callable[[Function], Function]:
    """Adds the decorated function to `METRICS` under its own name. Its docstring is the definition.

    Raises:
        ValueError: a metric with that name already exists, or the function has no docstring, or it has the
            parameter ``window`` of earlier versions.
    """

    def register(function: Function) -> Function:
        name = function.__name__
        if name in METRICS:
            raise ValueError(f"metric `{name}` is defined twice\n  hint: choose another function name")
        if not function.__doc__:
            raise ValueError(f"metric `{name}` has no docstring\n  hint: the docstring is its definition")
        if "window" in inspect.signature(function).parameters:
            raise ValueError(
                f"metric `{name}` has the parameter `window`; the trace is of the measured time already\n"
                "  hint: leave it out; trace.window has begin and end in seconds"
            )
        METRICS[name] = Metric(
            name=name,
            function=function,
            unit=unit,
            source=source,
            better=better,
            scope=scope,
            samples=samples,
            bounds=bounds,
            total=total,
            share=share,
            of_time=of_time,
            known=known,
            packets=packets,
        )
        return function

    return register
