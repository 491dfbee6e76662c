"""Numbers that follow from the configuration of a published condition alone, without any model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from math import inf, prod

from rtclab.scenario import (
    CORE,
    Bitrate,
    DelayCourse,
    DelaySteps,
    Duration,
    LossSteps,
    Ratio,
    Scenario,
    route,
)
from rtclab_papers.reproduce.variants import split


@dataclass(frozen=True)
class Configured:
    """The authors' settings on the route from the first participant to the second.

    Delays and losses that change in steps are averaged over the run. Capacities that change, ramps of delay
    and bursts of loss are left out. The access links are not part of it, because they are the machines' own.
    """

    capacity_kbps: float = inf
    delay_ms: float = 0.0
    loss_percent: float = 0.0

    def of(self, metric: str) -> float | None:
        """The value of a delay or loss that follows from the configuration; None for other quantities."""
        return {
            "owd_ms": self.delay_ms,
            "rtt_ms": 2 * self.delay_ms,
            "media_rtt_ms": 2 * self.delay_ms,
            "stats_rtt_ms": 2 * self.delay_ms,
            "stats_loss_pct": self.loss_percent,
            "packet_loss_pct": self.loss_percent,
            "unseen_loss_pct": 0.0,
        }.get(metric)


@cache
def configured(scenario: str) -> Configured:
    """The settings of a scenario, without its variants; nothing for the empty name."""
    if not scenario:
        return Configured()
    read = Scenario.load(split(scenario)[0])
    sender, receiver = list(read.participants)[:2]
    call = read.calls[0] if read.calls else None
    hops = [(sender, CORE), (CORE, receiver)] if call and call.relay == CORE else [(sender, receiver)]
    names = [name for hop in hops for name in route(read, *hop) if name in read.bottlenecks]
    crossed = [read.bottlenecks[name] for name in names]
    capacities = [path.capacity.bps / 1000 for path in crossed if isinstance(path.capacity, Bitrate)]
    end_ns = read.duration.ns
    delays = [_mean(_delays(path.delay), end_ns) / 1e6 for path in crossed]
    passed = prod(1 - _mean(_losses(path.loss), end_ns) for path in crossed)
    return Configured(min(capacities, default=inf), sum(delays), 100 * (1 - passed))


Steps = Sequence[tuple[int, float]]
"""Times in ns and the values from then on; the first value also applies before its time."""


def _delays(delay: object) -> Steps:
    match delay:
        case Duration(ns=ns):
            return [(0, ns)]
        case DelaySteps(steps=steps):
            return [(at.ns, value.ns) for at, value in steps]
        case DelayCourse():
            return delay.steps_ns
    return [(0, 0)]


def _losses(loss: object) -> Steps:
    match loss:
        case Ratio(value=value):
            return [(0, value)]
        case LossSteps(steps=steps):
            return [(at.ns, value.value) for at, value in steps]
    return [(0, 0)]


def _mean(steps: Steps, end_ns: int) -> float:
    """Mean of a value over the run."""
    begins = [0, *(min(at_ns, end_ns) for at_ns, _ in steps[1:]), end_ns]
    return (
        sum((end - begin) * value for (begin, end), (_, value) in zip(pairwise(begins), steps, strict=True))
        / end_ns
    )
