"""Random networks and calls of two people: the distribution of the twin and of the suite ``random``."""

from __future__ import annotations

import math
import random
from typing import Any

from rtclab.scenario import Scenario

DURATION_S = 45
SIZES = (("640x360", 640, 360, 0.3), ("640x480", 640, 480, 0.5), ("1280x720", 1280, 720, 0.2))
"""Camera, width, height and probability."""

DISTRIBUTION = (
    ("capacity of each uplink", "150 kbit/s to 10 Mbit/s, log-uniform"),
    ("one-way delay of each uplink", "5 to 300 ms, log-uniform"),
    ("queue of each uplink", "20 to 1000 ms, log-uniform"),
    (
        "loss on the wire",
        "none in 60 % of uplinks, independent in 20 %, in bursts in 20 %; mean 0 to 15 %, uniform",
    ),
    ("length of bursts", "2 to 8 packets on average, uniform"),
    (
        "jitter",
        "none in 80 % of uplinks; otherwise half-normal without reordering, sd 1 to 30 ms, log-uniform",
    ),
    (
        "changes",
        "none in 70 % of uplinks; in 10 % each: a step of the capacity at 15 s and back at 30 s, a ramp of "
        "the capacity from 10 to 35 s in steps of 1 s, a linear ramp of the delay from 10 to 35 s; the "
        "second value is drawn from the same distribution",
    ),
    ("asymmetry", "in half of the conditions bob's uplink is drawn separately; otherwise it equals alice's"),
    ("downlinks", "no limit of capacity, no delay, no loss"),
    ("camera", ", ".join(f"{name} in {share:.0%}" for name, *_, share in SIZES) + ", 30 frames/s, VP8"),
    ("audio", "Opus at 32 kbit/s in half of the conditions"),
    ("TCP beside the call", "none"),
)
"""Each property and its distribution, as text for the page."""


def random_call(seed: int, name: str) -> Scenario:
    """The scenario of a seed with a name. The same seed always gives the same scenario."""
    source = random.Random(seed)
    alice = uplink(source)
    bob = uplink(source) if source.random() < 0.5 else alice
    _, width, height = choice(source, [((name, w, h), share) for name, w, h, share in SIZES])
    audio = source.random() < 0.5
    data: dict[str, Any] = {
        "name": name,
        "title": f"Random condition {seed}",
        "duration": f"{DURATION_S} s",
        "seed": seed,
        "participants": {"alice": {"link": {"up": alice}}, "bob": {"link": {"up": bob}}},
        "video": camera(width, height),
    }
    if audio:
        data["audio"] = {"bitrate": "32 kbit/s"}
    return Scenario.read(data, f"condition {seed}")


def camera(width: int, height: int, frame_rate: int = 30) -> dict[str, Any]:
    """A camera with the maximum rate that browsers have at its size, as a table of a scenario."""
    most = next(rate for lines, rate in ((180, 600), (480, 1700), (720, 2500)) if height <= lines)
    return {
        "width": width,
        "height": height,
        "frame_rate": frame_rate,
        "camera": "steady",
        "max_bitrate": kbps(most),
    }


def uplink(source: random.Random) -> dict[str, Any]:
    """An uplink that is drawn from the distribution, as a table of a scenario."""
    capacity, delay = _capacity(source), _delay(source)
    drawn: dict[str, Any] = {
        "capacity": kbps(capacity),
        "delay": ms(delay),
        "queue": ms(log_uniform(source, 20, 1000)),
    }
    if (loss := _loss(source)) is not None:
        drawn["loss"] = loss
    if source.random() < 0.2:
        drawn["jitter"] = ms(log_uniform(source, 1, 30))
    change = choice(source, [("none", 0.7), ("step", 0.1), ("ramp", 0.1), ("delay", 0.1)])
    if change == "step":
        steps = [["0 s", kbps(capacity)], ["15 s", kbps(_capacity(source))], ["30 s", kbps(capacity)]]
        drawn["capacity"] = {"steps": steps}
    elif change == "ramp":
        ratio = _capacity(source) / capacity
        steps = [[f"{10 + second} s", kbps(capacity * ratio ** (second / 25))] for second in range(1, 26)]
        drawn["capacity"] = {"steps": [["0 s", kbps(capacity)], *steps]}
    elif change == "delay":
        ends = {"from": ms(delay), "to": ms(_delay(source)), "start": "10 s", "end": "35 s"}
        drawn["delay"] = {"ramp": "linear", **ends}
    return drawn


def _loss(source: random.Random) -> Any:
    kind = choice(source, [(None, 0.6), ("independent", 0.2), ("bursts", 0.2)])
    if kind is None:
        return None
    mean = 0.15 * source.random()
    if kind == "independent":
        return f"{100 * mean:.2f} %"
    r = 1 / (2 + 6 * source.random())
    return {"p": round(r * mean / (1 - mean), 6), "r": round(r, 4)}


def _capacity(source: random.Random) -> float:
    return log_uniform(source, 150, 10_000)


def _delay(source: random.Random) -> float:
    return log_uniform(source, 5, 300)


def log_uniform(source: random.Random, low: float, high: float) -> float:
    """A number between ``low`` and ``high`` whose logarithm is uniform."""
    return low * math.exp(source.random() * math.log(high / low))


def choice(source: random.Random, options: list[tuple[Any, float]]) -> Any:
    """One of the options, whose probabilities add up to 1."""
    left = source.random()
    for value, share in options:
        left -= share
        if left < 0:
            return value
    return options[-1][0]


def kbps(rate: float) -> str:
    """A rate in kbit/s, in the notation of scenarios."""
    return f"{rate:.0f} kbit/s"


def ms(time: float) -> str:
    """A time in ms, in the notation of scenarios."""
    return f"{time:.0f} ms"
