"""Meetings of three and four people, in a mesh and over each SFU."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from rtclab.arenas import random_calls
from rtclab.scenario import Scenario
from rtclab_papers.validate.conditions import CallCondition, path_words

GROUP = "meetings"
GROUPS = {GROUP: GROUP}
"""The group of these conditions, and its heading in tables."""

DURATION_S = 45
PEOPLE = ("alice", "bob", "carol", "dave")
SIZES = (3, 4)
TOPOLOGIES = {"mesh": "in a mesh", "str0m": "over rtclab's SFU", "janus": "over Janus"}
"""The topologies: ``mesh``, or the kind of the server that is the SFU."""
SERVER = "sfu"

LINK = {
    "up": {"capacity": "3 Mbit/s", "delay": "25 ms", "queue": "100 ms"},
    "down": {"capacity": "6 Mbit/s", "delay": "25 ms", "queue": "100 ms"},
}
"""The link of everybody but one. Its capacity carries all streams of a mesh."""
WORSE = "carol"
"""The participant with the worse link."""
WORSE_LINK = {
    "up": {"capacity": "500 kbit/s", "delay": "60 ms", "queue": "200 ms", "loss": "1 %"},
    "down": {"capacity": "2500 kbit/s", "delay": "60 ms", "queue": "200 ms", "loss": "1 %"},
}
"""Less up than one stream wants, and enough down for all that an SFU forwards."""
VIDEO = random_calls.camera(320, 180, 15)
"""The camera, with the maximum rate of browsers at this size.

It is small because two cores encode twelve streams in a mesh of four. At 320x240 and 30 frames/s a frame took
30 ms there, more than in an undisturbed call (``SLOWEST_ENCODER_MS``).
"""
AUDIO = {"bitrate": "32 kbit/s"}


def known_conditions() -> list[CallCondition]:
    """The six meetings."""
    return [meeting(people, topology) for people in SIZES for topology in TOPOLOGIES]


def meeting(people: int, topology: str) -> CallCondition:
    """A meeting of the first ``people`` of four in one of the ``TOPOLOGIES``."""
    name = f"meeting-{people}-{topology}"
    words = f"{people} people {TOPOLOGIES[topology]}"
    data: dict[str, Any] = {
        "name": name,
        "title": f"Meeting: {words}",
        "duration": f"{DURATION_S} s",
        "participants": {one: {"link": WORSE_LINK} if one == WORSE else {} for one in PEOPLE[:people]},
        "link": LINK,
        "video": VIDEO,
        "audio": AUDIO,
    }
    if topology == "mesh":
        data["calls"] = [{"kind": "p2p"}]
    else:
        data["servers"] = {SERVER: {"kind": topology}}
        data["calls"] = [{"kind": "sfu", "server": SERVER}]
    return CallCondition(name, words, Scenario.read(data, name), GROUP)


def introduction() -> Iterator[str]:
    """The section of the page above the figures."""
    size = f"{VIDEO['width']}x{VIDEO['height']} at {VIDEO['frame_rate']} frames/s"
    yield "## Meetings"
    yield f"""\
Three and four people in a mesh, over rtclab's own SFU (`str0m`) and over Janus. Everybody has
{_words(LINK)}, except {WORSE}:
{_words(WORSE_LINK)}.
Cameras of {size}, up to {VIDEO["max_bitrate"]}, with audio.
Each meeting has one live call of {DURATION_S} s. Values are per flow.
Over an SFU these are what each person sends to the server (`alice->{SERVER}`), its feedback
(`{SERVER}->alice`), and what each person receives of each other one (`alice->bob`)."""
    yield """\
The simulated SFU forwards everything to everybody, answers NACKs itself and ignores the
receivers' estimates, as Janus does by default. rtclab's SFU estimates the bandwidth towards each
receiver to choose a layer of simulcast. Here there is one layer, so that the simulated SFUs
differ only in how connections are set up."""


def _words(link: dict[str, dict[str, str]]) -> str:
    """Both directions of a link on one line."""
    return "; ".join(f"{way} {path_words(path, path.get('loss'))}" for way, path in link.items())
