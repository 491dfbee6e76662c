"""Calls that are bad in one known way of ten: the conditions of ``rtclab validate why``.

Every condition is a call of two people. Its trouble is on the way from alice to bob; in some calls bob has
the same trouble. Accounts and sentences may be improved on odd seeds; even seeds are held out.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from rtclab.arenas import random_calls
from rtclab.scenario import Scenario

SEEDS = range(1, 61)
OPEN, HELD_OUT = "open", "held out"
FLOW = "alice->bob"
"""The flow that is made bad."""
DURATION_S = 40

Path = dict[str, Any]
Data = dict[str, Any]
Draw = random.Random


@dataclass(frozen=True)
class Way:
    """A way in which a call is made bad.

    Attributes:
        words: its distribution.
        make: draws it into the data of a scenario.
        says: regular expression of the words by which a sentence names it.
        goal: the metric by which remedies are ranked, stated before any was tried.
        remedies: the changes of ``rtclab remedy`` that are right for it.
    """

    words: str
    make: Callable[[Draw, Data], None]
    says: str
    goal: str
    remedies: tuple[str, ...]


def _troubled(data: Data) -> list[Data]:
    """The participants whose media have the trouble: alice, or both."""
    return [data["participants"][name] for name in data["troubled"]]


def _on_uplinks(data: Data, **fields: Any) -> None:
    for own in _troubled(data):
        own["link"]["up"] |= fields


def _random_loss(source: Draw, data: Data) -> None:
    _on_uplinks(data, loss=_percent(source, 4, 15))


def _bursts(source: Draw, data: Data) -> None:
    _on_uplinks(data, loss={"mean": _percent(source, 3, 10), "burst": round(source.uniform(5, 20), 1)})


def _short_queue(source: Draw, data: Data) -> None:
    capacity = random_calls.kbps(source.uniform(700, 1400))
    _on_uplinks(data, queue=f"{source.randint(4, 7)} packets", capacity=capacity)


def _long_queue(source: Draw, data: Data) -> None:
    before, after = source.uniform(2000, 4000), source.uniform(300, 700)
    steps = [["0 s", random_calls.kbps(before)], [f"{source.randint(8, 14)} s", random_calls.kbps(after)]]
    _on_uplinks(data, queue=random_calls.ms(source.uniform(1500, 3000)), capacity={"steps": steps})


def _tcp(source: Draw, data: Data) -> None:
    capacity = random_calls.kbps(source.uniform(1500, 4000))
    _on_uplinks(data, capacity=capacity, queue=random_calls.ms(source.uniform(100, 400)))
    flows, start = source.randint(1, 3), f"{source.randint(3, 8)} s"
    for name, other in zip(data["troubled"], reversed(PEOPLE), strict=False):
        sent = {"sender": name, "receiver": other, "congestion_control": "cubic"}
        data.setdefault("traffic", {})[f"upload-{name}"] = sent | {"flows": flows, "start": start}


def _processor(source: Draw, data: Data) -> None:
    capacity = f"{source.uniform(2.5, 5):.1f} Mpixel/s"
    for own in _troubled(data):
        own["host"] = {"encoder_capacity": capacity}


def _maximum(source: Draw, data: Data) -> None:
    most = random_calls.kbps(source.uniform(100, 250))
    for own in _troubled(data):
        own["video"] = data["video"] | {"max_bitrate": most}


def _feedback(source: Draw, data: Data) -> None:
    # The call is set up before the loss begins. A call that has grown does without most of its feedback:
    # 50 to 80 % that were lost from 5 s on changed no rate.
    steps = [["0 s", "0 %"], ["5 s", _percent(source, 90, 98)]]
    data["participants"]["bob"]["link"]["up"]["loss"] = {"steps": steps}


def _fades(source: Draw, data: Data) -> None:
    fading = {
        "good": {"rate": f"{source.choice([24, 36, 54])} Mbit/s", "error": 0.05},
        "fade": {"rate": f"{source.choice([6, 12])} Mbit/s", "error": round(source.uniform(0.8, 0.95), 2)},
        "mean_good": f"{source.uniform(2, 5):.1f} s",
        "mean_fade": random_calls.ms(source.uniform(100, 300)),
    }
    _on_uplinks(data, wifi={"fading": fading})
    for own in _troubled(data):
        del own["link"]["up"]["capacity"]


def _outage(source: Draw, data: Data) -> None:
    begin, length = source.uniform(8, 25), source.uniform(1.5, 4)
    for own in _troubled(data):
        up = own["link"]["up"]
        out, back = [f"{begin:.1f} s", "0 bit/s"], [f"{begin + length:.1f} s", up["capacity"]]
        up["capacity"] = {"steps": [["0 s", up["capacity"]], out, back]}


def _percent(source: Draw, low: float, high: float) -> str:
    return f"{source.uniform(low, high):.1f} %"


PEOPLE = ("alice", "bob")
FREEZES, RATE = "freeze_duration", "receiving_rate"
LATENESS = "over_budget"
"""The delay of pictures would be that of those alone that were shown, and freezes hide the late ones."""
_QUEUE = r"(in a full,? |the )((short|long) )?queue"
WAYS = {
    "random loss": Way(
        "4 to 15 % independent loss on the uplink", _random_loss, r"at random", FREEZES, ("no loss",)
    ),
    "bursts": Way(
        "3 to 10 % loss on the uplink, in bursts of 5 to 20 packets on average",
        _bursts,
        r"in bursts",
        FREEZES,
        ("no loss",),
    ),
    "short queue": Way(
        "an uplink of 700 to 1400 kbit/s with a queue of 4 to 7 packets",
        _short_queue,
        r"(full, |the )short queue",
        FREEZES,
        ("queues of 500 ms",),
    ),
    "long queue": Way(
        "an uplink of 2 to 4 Mbit/s that falls to 300 to 700 kbit/s after 8 to 14 s, with a queue of 1.5 "
        "to 3 s",
        _long_queue,
        r"(full, |the )long queue|packets in queues",
        LATENESS,
        ("queues of 50 ms", "FQ-CoDel at every queue"),
    ),
    "TCP beside": Way(
        "an uplink of 1.5 to 4 Mbit/s with a queue of 100 to 400 ms, and 1 to 3 connections with CUBIC from "
        "3 to 8 s on",
        _tcp,
        rf"{_QUEUE}[^;(]*(, |\()which upload\S* fills",
        RATE,
        ("no cross traffic",),
    ),
    "processor": Way(
        "a processor that encodes 2.5 to 5 Mpixel/s",
        _processor,
        r"the sender's processor",
        RATE,
        ("processors without a limit",),
    ),
    "maximum": Way(
        "a maximum bitrate of 100 to 250 kbit/s",
        _maximum,
        r"its own maximum bitrate",
        RATE,
        ("twice the maximum bitrate",),
    ),
    "feedback": Way(
        "90 to 98 % independent loss from 5 s on, on the uplink of bob, which carries the feedback",
        _feedback,
        r"missing feedback",
        RATE,
        ("no loss",),
    ),
    "fades": Way(
        "a Wi-Fi hop of 24 to 54 Mbit/s whose channel fades every 2 to 5 s for 100 to 300 ms on average; "
        "80 to 95 % of the attempts fail then",
        _fades,
        rf"(at random|in bursts|{_QUEUE}) (on|of) the Wi-Fi hop \S+, which fades",
        FREEZES,
        ("no fading",),
    ),
    "outage": Way(
        "an uplink that carries nothing for 1.5 to 4 s, from 8 to 25 s on",
        _outage,
        r"outage",
        FREEZES,
        ("no outage",),
    ),
}
"""The ways by name, in the order of the page."""

ASIDE = (
    ("length", f"{DURATION_S} s"),
    ("who has the trouble", "alice alone in half of the calls, or both"),
    ("uplinks", "4 to 10 Mbit/s, with a queue of 100 to 300 ms"),
    ("one-way delay of each uplink", "5 to 80 ms, log-uniform"),
    ("jitter", "none in half of the calls; otherwise half-normal without reordering, sd 1 to 5 ms"),
    ("camera", "640x360 or 640x480 at 30 frames/s, VP8, at most 1.7 Mbit/s"),
    ("audio", "Opus at 32 kbit/s in half of the calls"),
)
"""What is drawn beside the way, and its distribution."""


@dataclass(frozen=True)
class BadCall:
    """A call that is bad in one way.

    Attributes:
        seed: the seed that it was drawn with.
        way: a key of ``WAYS``.
        scenario: what is run.
    """

    seed: int
    way: str
    scenario: Scenario

    @property
    def half(self) -> str:
        """``open`` or ``held out``."""
        return half_of(self.seed)


def half_of(seed: int) -> str:
    """The half that a seed belongs to: odd seeds are open."""
    return OPEN if seed % 2 else HELD_OUT


def way_of(seed: int) -> str:
    """The way of a seed. Each half of ``SEEDS`` is dealt every way equally often, in an order of its own."""
    cards = [*WAYS] * (len(SEEDS) // 2 // len(WAYS))
    random.Random(f"why {half_of(seed)}").shuffle(cards)
    return cards[(seed - SEEDS.start) // 2 % len(cards)]


def seeds_of(half: str) -> list[int]:
    """The seeds of a half."""
    return [seed for seed in SEEDS if half_of(seed) == half]


def live_seeds() -> list[int]:
    """Two held-out seeds of each way, the first ones."""
    held = seeds_of(HELD_OUT)
    return sorted(seed for way in WAYS for seed in [one for one in held if way_of(one) == way][:2])


def draw(seed: int) -> BadCall:
    """The call of a seed. The same seed always gives the same call."""
    source, way = random.Random(f"why {seed}"), way_of(seed)
    jitter = {} if source.random() < 0.5 else {"jitter": random_calls.ms(source.uniform(1, 5))}
    data: Data = {
        "name": f"why-{seed:02d}",
        "title": f"Bad call {seed}",
        "duration": f"{DURATION_S} s",
        "seed": seed,
        "participants": {name: {"link": {"up": _uplink(source) | jitter}} for name in PEOPLE},
        "video": random_calls.camera(640, source.choice([360, 480])),
        "troubled": PEOPLE[: source.choice([1, 2])],
    }
    if source.random() < 0.5:
        data["audio"] = {"bitrate": "32 kbit/s"}
    WAYS[way].make(source, data)
    del data["troubled"]
    return BadCall(seed, way, Scenario.read(data, f"bad call {seed}"))


def _uplink(source: Draw) -> Path:
    return {
        "capacity": random_calls.kbps(source.uniform(4000, 10_000)),
        "delay": random_calls.ms(random_calls.log_uniform(source, 5, 80)),
        "queue": random_calls.ms(source.uniform(100, 300)),
    }
