"""The registry of metrics: definition, unit, direction in which a metric is better, and source."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, TypeVar

from rtclab.metrics.series import Samples

Better = Literal["lower", "higher", ""]
Scope = Literal["flow", "trace", "run"]
Bounds = tuple[float, float]
"""The smallest and the largest possible value of a metric."""
NOT_NEGATIVE: Bounds = (0.0, math.inf)
ANY: Bounds = (-math.inf, math.inf)
Function = TypeVar("Function", bound=Callable[..., float])

ACRONYMS = {name: name.upper() for name in ("rtt", "cpu", "ice", "dtls", "tcp")} | {
    "p50": "p50",
    "p95": "p95",
}


@dataclass(frozen=True)
class Metric:
    """One entry of the registry.

    ``scope`` says what one value describes and how ``function`` is called: a flow of one repeat
    ``(trace, flow, window)``, a whole repeat ``(trace, window)``, or all repeats together ``(run)``.
    ``samples``, if present, gives the one-second samples behind the value. ``bounds`` limits values and
    confidence intervals. ``total`` says that the value grows with the measured time. ``trials``, if present,
    gives the number of independent trials behind a value of a whole run that is a share in %.
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
    trials: Callable[..., int] | None

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
    def definition(self) -> str:
        """The function's docstring on one line."""
        return " ".join((self.function.__doc__ or "").split())


METRICS: dict[str, Metric] = {}

ESSENTIAL = (
    "receiving_rate",
    "utilisation",
    "rtt",
    "queuing_delay_p95",
    "packet_loss",
    "frame_rate",
    "frame_height",
    "freeze_count",
    "freeze_duration",
    "setup_time",
    "tcp_throughput",
    "call_failures",
)
"""The metrics to look at first, in the order in which they are shown."""


def metric(
    *,
    unit: str,
    source: str,
    better: Better = "",
    scope: Scope = "flow",
    samples: Callable[..., Samples] | None = None,
    bounds: Bounds = NOT_NEGATIVE,
    total: bool = False,
    trials: Callable[..., int] | None = None,
) -> Callable[[Function], Function]:
    """Adds the decorated function to `METRICS` under its own name. Its docstring is the definition.

    Raises:
        ValueError: a metric with that name already exists, or the function has no docstring.
    """

    def register(function: Function) -> Function:
        name = function.__name__
        if name in METRICS:
            raise ValueError(f"metric `{name}` is defined twice\n  hint: choose another function name")
        if not function.__doc__:
            raise ValueError(f"metric `{name}` has no docstring\n  hint: the docstring is its definition")
        METRICS[name] = Metric(name, unit, better, source, scope, function, samples, bounds, total, trials)
        return function

    return register
