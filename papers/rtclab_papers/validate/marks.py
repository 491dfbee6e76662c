"""Random calls whose packets a queue may mark: the distribution of ``rtclab validate marks``.

SCReAM, half of the calls behind queues that mark and half behind drop-tail, and goog-cc behind current
queues. SCReAM's odd seeds are for improving the models, its even seeds are held out.
"""

from __future__ import annotations

import random
from typing import Any

from rtclab.arenas import random_calls
from rtclab.scenario import Scenario
from rtclab_papers.validate.conditions import CallCondition, words_of

DURATION_S = 45
SCREAM_SEEDS = range(1, 41)
GOOG_CC_SEEDS = range(101, 121)

LEARNED, HELD_OUT, GOOG_CC = "scream-odd", "scream-even", "goog-cc"
GROUPS = {
    HELD_OUT: "SCReAM, even seeds (held out)",
    LEARNED: "SCReAM, odd seeds",
    GOOG_CC: "goog-cc, seeds 101 to 120",
}
"""The groups of these conditions, in the order of the page."""

# Below 10 Mbit/s the default threshold of 1 ms is shorter than a packet of 1200 B.
MARKING: tuple[dict[str, Any], ...] = (
    {"aqm": "dualpi2"},
    {"aqm": "step", "threshold": "5 ms", "limit": "300 ms"},
    {"aqm": "fq_codel"},
    {"aqm": "codel", "ecn": True},
)
"""The queues that mark SCReAM's packets, each as likely."""
MANAGED = ("codel", "fq_codel", "pie", "dualpi2")
"""The queues that goog-cc's calls go through, in turn by their seeds."""

DISTRIBUTION = (
    ("capacity of each uplink", "300 kbit/s to 8 Mbit/s, log-uniform"),
    ("one-way delay of each uplink", "5 to 100 ms, log-uniform"),
    (
        "queue, SCReAM",
        "in half of the conditions drop-tail of 30 to 500 ms, log-uniform; otherwise DualPI2, a step of "
        "5 ms, FQ-CoDel or CoDel with ECN, each as likely, with the defaults of their standards",
    ),
    ("queue, goog-cc", "CoDel, FQ-CoDel, PIE and DualPI2 in turn, with the defaults of their standards"),
    ("loss on the wire", "none in 80 % of uplinks; otherwise independent, 0.1 to 3 %, uniform"),
    (
        "changes",
        "none in 75 % of uplinks; otherwise a step of the capacity at 15 s and back at 30 s to a value from "
        "the same distribution",
    ),
    ("asymmetry", "in half of the conditions bob's uplink is drawn separately; otherwise it equals alice's"),
    ("downlinks", "no limit of capacity, no delay, no loss"),
    ("camera", "640x480 in 70 %, 1280x720 in 30 %, 30 frames/s, VP8"),
    ("audio", "Opus at 32 kbit/s in half of the conditions"),
)
"""Each property and its distribution, as text for the page."""


def conditions() -> list[CallCondition]:
    """All conditions."""
    return [draw(seed) for seed in (*SCREAM_SEEDS, *GOOG_CC_SEEDS)]


def draw(seed: int) -> CallCondition:
    """The condition of a seed. The same seed always gives the same condition."""
    source = random.Random(f"marks {seed}")
    is_scream = seed in SCREAM_SEEDS
    # So that each half has as many queues that mark as queues that do not.
    managed = not is_scream or seed % 4 < 2
    alice = _uplink(source, seed, managed=managed)
    bob = _uplink(source, seed, managed=managed) if source.random() < 0.5 else alice
    wide = source.random() < 0.3
    control = "scream" if is_scream else "goog-cc"
    data: dict[str, Any] = {
        "name": f"marks-{seed:03d}",
        "title": f"Marks, condition {seed}: {control}",
        "duration": f"{DURATION_S} s",
        "seed": seed,
        "congestion_control": {"name": control},
        "participants": {"alice": {"link": {"up": alice}}, "bob": {"link": {"up": bob}}},
        "video": random_calls.camera(*((1280, 720) if wide else (640, 480))),
    }
    if source.random() < 0.5:
        data["audio"] = {"bitrate": "32 kbit/s"}
    scenario = Scenario.read(data, f"condition {seed}")
    words = f"{control}; {words_of(scenario, alice, bob)}"
    group = (LEARNED if seed % 2 else HELD_OUT) if is_scream else GOOG_CC
    return CallCondition(data["name"], words, scenario, group)


def _uplink(source: random.Random, seed: int, *, managed: bool) -> dict[str, Any]:
    uplink: dict[str, Any] = {
        "capacity": random_calls.kbps(random_calls.log_uniform(source, 300, 8_000)),
        "delay": random_calls.ms(random_calls.log_uniform(source, 5, 100)),
    }
    limit, chosen = random_calls.log_uniform(source, 30, 500), source.randrange(len(MARKING))
    if not managed:
        uplink["queue"] = random_calls.ms(limit)
    elif seed in GOOG_CC_SEEDS:
        uplink["queue"] = {"aqm": MANAGED[seed % len(MANAGED)]}
    else:
        uplink["queue"] = MARKING[chosen]
    if random_calls.choice(source, [(True, 0.2), (False, 0.8)]):
        uplink["loss"] = f"{0.1 + 2.9 * source.random():.2f} %"
    if random_calls.choice(source, [(True, 0.25), (False, 0.75)]):
        other = random_calls.kbps(random_calls.log_uniform(source, 300, 8_000))
        first = uplink["capacity"]
        uplink["capacity"] = {"steps": [["0 s", first], ["15 s", other], ["30 s", first]]}
    return uplink
