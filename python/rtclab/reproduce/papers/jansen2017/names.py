"""The conditions by name."""

from __future__ import annotations

CAPACITIES_KBPS = (1500, 750, 250)
LATENCIES_MS = (100, 250, 500)
FORWARD = "alice->bob"
BACK = "bob->alice"
UNCONSTRAINED = "jansen2017/unconstrained"
CAPACITY_SCHEDULE = "jansen2017/capacity-schedule"
LATENCY_SCHEDULE = "jansen2017/latency-schedule"
LOSS_SCHEDULE = "jansen2017/loss-schedule"
HANDOFF = "jansen2017/handoff"
THREE_CALLS = "jansen2017/three-calls"
TCP = "jansen2017/tcp"
MAXIMUM_KBPS = 2500
SHARED_KBPS = 2000
MINUTES = 60


def capacity(kbps: int) -> str:
    """A call over a constant capacity, figure 5."""
    return f"jansen2017/capacity-{kbps}kbit"


def latency(ms: int) -> str:
    """A call with a delay added in each direction, figure 6."""
    return f"jansen2017/latency-{ms}ms"


def loss(percent: int) -> str:
    """A call with random loss, figure 7."""
    return f"jansen2017/loss-{percent}-percent"


def codec(name: str) -> str:
    """The schedule of table 4 with a codec, section 5.1."""
    return f"jansen2017/codec-{name}"


def platform(name: str) -> str:
    """The schedule of table 4 on a kind of device, figure 17."""
    return f"jansen2017/platform-{name}"


def mesh(people: int) -> str:
    """A full mesh of some people, figure 14."""
    return f"jansen2017/mesh-{people}"


def sfu(people: int) -> str:
    """Some people over an SFU, figure 15."""
    return f"jansen2017/sfu-{people}"


def wireless(where: str, fading: str, retries: str = "") -> str:
    """A tablet near or far its access point calls one of ``PLACES``; ``retries`` is one of ``RETRIES``."""
    return f"jansen2017/wireless-{where}-{fading}{retries}"


PLACES = ("local", "oregon", "sydney")
RETRIES = ("", "-retry-1", "-retry-15")
TO_TABLET = "wired->tablet"

ALSO = [
    UNCONSTRAINED,
    *map(capacity, CAPACITIES_KBPS),
    *map(latency, LATENCIES_MS),
    *map(loss, (5, 10, 20)),
    CAPACITY_SCHEDULE,
    LATENCY_SCHEDULE,
    LOSS_SCHEDULE,
    HANDOFF,
    THREE_CALLS,
    TCP,
    *(topology(people) for topology in (mesh, sfu) for people in (2, 3, 4)),
    *(wireless(place, fading, retry) for place in PLACES for fading in ("near", "far") for retry in RETRIES),
]
