"""The repeats that a campaign runs, their order, and the number at once."""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

from rtclab.experiment import digest_of
from rtclab.scenario import Scenario, encoders
from rtclab_papers.campaigns.rows import Key

ENCODERS_PER_CORE = 1
"""Encoders of live calls that a core carries undisturbed, with their browsers and emulators.

Measured on two cores with calls of two at 640x480 and 2 Mbit/s, for 15 s: the 99th percentile of the
emulator's lateness was 1.2 ms with one call, 2.8 and 4.3 ms with two at once, and 17 to 26 ms with three,
above the bound of 5 ms. Encoding a frame took 4, 6 and 12 ms. Two at once are too many all the same: in a
campaign of 38 repeats of the papers' conditions they disturbed 10."""


@dataclass(frozen=True)
class Item:
    """A repeat of a scenario. ``condition`` is its name in the rows."""

    condition: str
    scenario: Scenario
    repeat: int

    @property
    def seed(self) -> int:
        """The seed of the repeat."""
        return self.scenario.seed_of(self.repeat)

    @property
    def weight(self) -> int:
        """Number of encoders in a live call, or of participants if these are more."""
        return max(len(encoders(self.scenario)), len(self.scenario.participants))

    @cached_property
    def digest(self) -> str:
        """Identifies the scenario. Fields with default values do not count, so new fields change nothing."""
        return digest_of(self.scenario)

    def key(self, backend: str) -> Key:
        """The repeat in the rows."""
        return Key(self.condition, backend, self.repeat)


def items_of(scenarios: Iterable[tuple[str, Scenario]], repeats: int) -> list[Item]:
    """Every repeat of the named scenarios."""
    return [Item(name, scenario, repeat) for name, scenario in scenarios for repeat in range(repeats)]


def shuffled(items: Sequence[Item], seed: int) -> list[Item]:
    """All items in an order that depends only on the seed, the names and the numbers of the repeats.

    An order that follows the conditions would confuse a change of the machine with one of the condition.
    """
    order = sorted(items, key=lambda item: (item.condition, item.repeat))
    random.Random(seed).shuffle(order)
    return order


def encoders_at_once(cores: int) -> int:
    """How many encoders of live calls run at once by default. A call with more than that runs alone."""
    return cores * ENCODERS_PER_CORE
