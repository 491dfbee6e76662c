"""Numbers that follow from the configuration of a published condition alone, without any model."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from math import inf, prod

from rtclab.reproduce.variants import split
from rtclab.scenario import Scenario
from rtclab.scenario.network import Routes
from rtclab.scenario.participant import CORE
from rtclab.scenario.units import Bitrate, Duration, Ratio


@dataclass(frozen=True)
class Configured:
    """The authors' settings on the route from the first participant to the second, if constant.

    The access links are not part of it, because they are the machines' own.
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
    routes = Routes(read)
    names = [name for hop in hops for name in routes.between(*hop) if name in read.bottlenecks]
    crossed = [read.bottlenecks[name] for name in names]
    capacities = [path.capacity.bps / 1000 for path in crossed if isinstance(path.capacity, Bitrate)]
    delays = [path.delay.ns / 1e6 for path in crossed if isinstance(path.delay, Duration)]
    passed = prod(1 - path.loss.value for path in crossed if isinstance(path.loss, Ratio))
    return Configured(min(capacities, default=inf), sum(delays), 100 * (1 - passed))
