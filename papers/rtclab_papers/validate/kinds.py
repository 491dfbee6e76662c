"""Random kinds of calls: the conditions of ``rtclab validate kinds``.

Networks are drawn as for the random conditions, and so are what the call carries, how it is connected, what
is beside it and how its queues drop. The models may be improved on odd seeds; even seeds are held out.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

from rtclab.arenas import random_calls
from rtclab.scenario import Scenario
from rtclab_papers.markdown import folded, table
from rtclab_papers.validate.conditions import CallCondition, network_words, parity

GROUP = "kinds"
"""The name of these conditions in files."""
SEEDS = range(1, 31)
GROUPS = {"kinds-even": "even seeds (held out)", "kinds-odd": "odd seeds"}
"""The two halves, by the name that rows have, in the order of the page."""

DURATION_S = 45
DECKS: dict[str, dict[Any, int]] = {
    "media": {"both ways": 6, "one way": 5, "sound alone": 4},
    "sound": {True: 8, False: 7},
    "size": {(320, 180): 4, (640, 360): 4, (640, 480): 4, (1280, 720): 3},
    "frame_rate": {15: 7, 30: 8},
    "relay": {True: 5, False: 10},
    "tcp": {True: 5, False: 10},
}
"""What the 15 calls of a half are: each half is dealt these cards, in an order of its own."""
DISCIPLINES = (("droptail", 0.4), ("codel", 0.2), ("fq_codel", 0.2), ("pie", 0.2))
"""The queue of an uplink, and the probability."""
REORDERED = 0.3
"""The share of uplinks whose packets overtake each other."""
RELAY = "turn"
TRANSFER = {
    "sender": "alice",
    "receiver": "bob",
    "congestion_control": "cubic",
    "start": "10 s",
    "end": "35 s",
}
"""The transfer beside a call. It shares alice's uplink with it."""

DISTRIBUTION = (
    ("networks", "as for the random conditions, except for what follows"),
    ("media", "in each half pictures both ways in 6 calls, from alice alone in 5, and sound alone in 4"),
    ("audio", "beside pictures in about half of the calls, from whoever sends pictures; Opus at 32 kbit/s"),
    ("camera", "320x180, 640x360, 640x480 or 1280x720, at 15 or 30 frames/s; VP8"),
    ("connection", "in each half 5 calls over a TURN relay; the others are direct"),
    (
        "TCP beside the call",
        "in 5 calls of each half alice sends to bob with CUBIC from 10 to 35 s; no uplink loses packets on "
        "the wire then, because CUBIC would leave the uplink to the call",
    ),
    (
        "queue of each uplink",
        "drop-tail in 40 %, CoDel, FQ-CoDel or PIE in 20 % each, with the defaults of their standards",
    ),
    ("reordering", "in 30 % of the uplinks, by half-normal jitter of sd 1 to 30 ms, log-uniform"),
)
"""Each property and its distribution, as text for the page."""


def known_conditions() -> list[CallCondition]:
    """All conditions."""
    return [draw(seed) for seed in SEEDS]


def draw(seed: int) -> CallCondition:
    """The condition of a seed. The same seed always gives the same condition."""
    source = random.Random(f"kinds {seed}")
    media, beside_tcp = _card(seed, "media"), _card(seed, "tcp")
    alice = _uplink(source, lossless=beside_tcp)
    bob = _uplink(source, lossless=beside_tcp) if source.random() < 0.5 else alice
    name = f"kind-{seed:02d}"
    data: dict[str, Any] = {
        "name": name,
        "title": f"Kind of call, condition {seed}",
        "duration": f"{DURATION_S} s",
        "seed": seed,
        "participants": {"alice": {"link": {"up": alice}}, "bob": {"link": {"up": bob}}},
    }
    # Without tables at the top, only alice has a camera and a microphone.
    senders = data["participants"]["alice"] if media == "one way" else data
    if media != "sound alone":
        width, height = _card(seed, "size")
        senders["video"] = random_calls.camera(width, height, _card(seed, "frame_rate"))
    if _card(seed, "sound") or media == "sound alone":
        senders["audio"] = {"bitrate": "32 kbit/s"}
    if _card(seed, "relay"):
        data |= {"servers": {RELAY: {}}, "calls": [{"kind": "p2p", "relay": RELAY}]}
    if beside_tcp:
        data["traffic"] = {"transfer": TRANSFER}
    scenario = Scenario.read(data, name)
    return CallCondition(name, words_of(scenario), scenario, f"{GROUP}-{parity(seed)}")


def _card(seed: int, deck: str) -> Any:
    """What a seed is dealt of a deck."""
    cards = [card for card, count in DECKS[deck].items() for _ in range(count)]
    random.Random(f"kinds {deck} {parity(seed)}").shuffle(cards)
    return cards[(seed - 1) // 2]


def _uplink(source: random.Random, *, lossless: bool) -> dict[str, Any]:
    """An uplink of the random conditions with another queue, reordering, or without loss."""
    uplink = random_calls.uplink(source)
    discipline = random_calls.choice(source, [*DISCIPLINES])
    if discipline != "droptail":
        uplink["queue"] = {"aqm": discipline}
    sd = random_calls.log_uniform(source, 1, 30)
    if source.random() < REORDERED:
        uplink["jitter"] = {"sd": random_calls.ms(sd), "reorder": True}
    if lossless:
        uplink.pop("loss", None)
    return uplink


def words_of(scenario: Scenario) -> str:
    """The condition on one line: media, connection, network, and what is beside it."""
    relay = ["over a relay"] * any(call.relay is not None for call in scenario.calls)
    beside = ["beside CUBIC"] * bool(scenario.traffic)
    return "; ".join([_media_words(scenario), *relay, *beside, network_words(scenario)])


def _media_words(scenario: Scenario) -> str:
    video, sound = scenario.video_of("alice"), scenario.audio_of("alice") is not None
    if video is None:
        return "sound alone"
    way = "both ways" if scenario.video_of("bob") else "from alice"
    return f"{video.width}x{video.height} at {video.frame_rate:g} frames/s {way}{', audio' if sound else ''}"


def introduction() -> Iterator[str]:
    """The section of the page above the figures."""
    yield "## Kinds of calls"
    yield f"""\
Calls of two people of which the kind is drawn, too: what they carry and how they are connected,
what is beside them, and how their queues drop. Made by `rtclab validate kinds`. Each
condition has one live call of {DURATION_S} s. The models may be improved on odd seeds; even
seeds are held out.
Values are per flow. Without pictures or sound of bob, `bob->alice` is the feedback alone."""
    rows = [(one.name, GROUPS[one.group], one.words) for one in known_conditions()]
    yield folded(f"The {len(rows)} conditions", table(["condition", "half", "call and network"], rows))
    yield folded("Their distribution", table(["property", "distribution"], DISTRIBUTION))
