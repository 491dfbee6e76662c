"""The connections of a live call, their endpoints, and the flows of other programs: what all rooms share."""

from __future__ import annotations

from dataclasses import dataclass

from rtclab.scenario import Scenario, mixing
from rtclab.scenario.participant import CORE
from rtclab.scenario.topology import connections, flow_names

Address = tuple[str, int]
"""A node and a port."""

MIXER = "mixer"
"""The kind, in the connections of a live call, of an MCU that mixes."""
PAGE_CALL = "page"
"""The kind, in traces, of a call that pages of the user's own made, and of its servers."""


@dataclass(frozen=True)
class LiveConnection:
    """One peer connection between ``a`` and ``b``.

    ``flows`` are the names of the flows that ``a`` and ``b`` send. ``relay`` is the node of the TURN server
    that all packets pass. ``forwards`` is the number of the connection whose media ``a`` forwards.
    ``server`` is the kind of the server if ``a`` or ``b`` is one: ``janus``, ``str0m`` or ``whip`` for an
    SFU, ``mixer`` for an MCU that mixes, and ``PAGE_CALL`` for a server of the user's own. ``feed`` is the
    participant whose media ``a`` sends.
    """

    number: int
    call: int
    a: str
    b: str
    start_ns: int
    end_ns: int
    flows: tuple[str, str]
    feed: str
    one_way: bool = False
    relay: str | None = None
    forwards: int | None = None
    server: str | None = None

    @property
    def ends(self) -> tuple[str, str]:
        """The two nodes."""
        return self.a, self.b

    def peer_of(self, node: str) -> str:
        """The node at the other end."""
        return self.b if node == self.a else self.a

    def sent_by(self, node: str) -> str:
        """The flow that ``node`` sends."""
        return self.flows[node != self.a]

    def received_by(self, node: str) -> str:
        """The flow that ``node`` receives."""
        return self.flows[node == self.a]

    def logged_by(self, node: str) -> str:
        """The flow after which the event log of ``node`` is named.

        This is the flow that it sends. Where it only receives, the name has both ends of the media, so that
        the log is not taken for one of what the node sends to the server.
        """
        receives_only = self.one_way and node == self.b
        return f"{node}->{self.feed}" if receives_only else self.sent_by(node)


@dataclass(frozen=True)
class Endpoint:
    """An IP address and a port that a connection uses."""

    address: str
    port: int
    connection: int


@dataclass(frozen=True)
class PortFlows:
    """The flows at a port of a program that is not a browser.

    ``incoming`` and ``outgoing`` are the flows of the packets to and from the port, None for packets of no
    flow. ``protocol`` is the packets' protocol in the trace.
    """

    incoming: str | None = None
    outgoing: str | None = None
    protocol: str | None = None


def live_connections(scenario: Scenario) -> list[LiveConnection]:
    """The connections of a scenario, in the order and with the flows that a simulation has."""
    joined = connections(scenario)
    return [
        LiveConnection(
            number=number,
            call=one.call,
            a=one.a,
            b=one.b,
            start_ns=one.start_ns,
            end_ns=one.end_ns,
            flows=flows,
            feed=one.ends[0],
            one_way=one.one_way,
            relay=one.relay,
            forwards=one.forwards,
            server=server_kind(scenario, one.call),
        )
        for number, (one, flows) in enumerate(zip(joined, flow_names(joined), strict=True))
    ]


def server_kind(scenario: Scenario, call: int) -> str | None:
    """The server that forwards or mixes the media of a call; None if it has none."""
    about = scenario.calls[call]
    if about.kind == mixing.MIXING:
        return MIXER
    if about.kind != "sfu":
        return None
    server = about.server or CORE
    return scenario.servers[server].kind if server in scenario.servers else "janus"
