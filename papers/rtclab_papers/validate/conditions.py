"""Random conditions of two-party calls of ``rtclab validate random``: groups, names and words."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from rtclab.arenas import random_calls
from rtclab.scenario import GilbertElliott, Scenario

GROUPS = {
    "151-200": "seeds 151 to 200",
    "101-150": "seeds 101 to 150",
    "odd": "odd seeds of 1 to 100",
    "even": "even seeds of 1 to 100",
    "later": "other seeds",
}
"""The groups of random conditions, by the name that rows have, in the order of the page."""


@dataclass(frozen=True)
class CallCondition:
    """A network and a call, run on both backends.

    Attributes:
        name: short name, unique among the conditions of a page; of random conditions the seed.
        words: the condition on one line.
        scenario: what is run.
        group: name of the conditions with which its errors are summed up.
    """

    name: str
    words: str
    scenario: Scenario
    group: str

    @property
    def loses(self) -> bool:
        """Whether an uplink loses packets on the wire; its queue may drop some in any case."""
        return any(self.scenario.link_of(name).up.loss is not None for name in self.scenario.participants)


def group_of(seed: int) -> str:
    """The group of a seed.

    The models were improved on the odd seeds up to 100. The even ones and those up to 150 were held out until
    they were first compared; the models have changed since. Seeds from 151 to 200 are held out.
    """
    if 1 <= seed <= 100:
        return parity(seed)
    ranges = {"101-150": range(101, 151), "151-200": range(151, 201)}
    return next((name for name, seeds in ranges.items() if seed in seeds), "later")


def parity(seed: int) -> str:
    """``odd`` or ``even``."""
    return "odd" if seed % 2 else "even"


def draw(seed: int) -> CallCondition:
    """The condition of a seed. The same seed always gives the same condition."""
    scenario = random_calls.random_call(seed, f"twin-{parity(seed)}-{seed:04d}")
    return CallCondition(str(seed), words_of(scenario), scenario, group_of(seed))


def words_of(scenario: Scenario, *written: Mapping[str, Any]) -> str:
    """The condition of a call of two people on one line; ``written`` are the uplinks in other units."""
    video = scenario.video
    size = f"{video.width}x{video.height}" if video else "no video"
    return f"{network_words(scenario, *written)}; {size}{', audio' if scenario.audio else ''}"


def network_words(scenario: Scenario, *written: Mapping[str, Any]) -> str:
    """The uplinks of two people on one line: ``393 kbit/s, 119 ms, queue 100 ms, loss 5 %`` and so on."""
    specs = [scenario.link_of(name).up for name in scenario.participants]
    ups = written or [up.model_dump(mode="json", by_alias=True, exclude_none=True) for up in specs]
    alice, bob = (path_words(up, spec.loss) for up, spec in zip(ups, specs, strict=True))
    return f"both ways {alice}" if alice == bob else f"alice {alice}; bob {bob}"


def path_words(up: Mapping[str, Any], loss: object) -> str:
    """A path on one line. Its loss is that of a scenario, or the text in the table of the path."""
    capacity, delay, queue, jitter = up["capacity"], up["delay"], up["queue"], up.get("jitter")
    if isinstance(capacity, dict):
        steps = capacity["steps"]
        shape, other = ("step", steps[1]) if len(steps) == 3 else ("ramp", steps[-1])
        capacity = f"{steps[0][1]} ({shape} to {other[1]})"
    if isinstance(delay, dict):
        delay = f"{delay['from']} to {delay['to']}"
    words = [str(capacity), str(delay), queue["aqm"] if isinstance(queue, dict) else f"queue {queue}"]
    if isinstance(loss, GilbertElliott):
        p, r = loss.p.value, loss.r.value
        words.append(f"loss {100 * p / (p + r):.1f} % in bursts of {1 / r:.1f}")
    elif loss is not None:
        words.append(f"loss {up['loss']}")
    if isinstance(jitter, dict):
        words.append(f"jitter {jitter['sd']}{' with reordering' if jitter['reorder'] else ''}")
    elif jitter is not None:
        words.append(f"jitter {jitter}")
    return ", ".join(words)
