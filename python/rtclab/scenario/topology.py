"""Connections and flows of calls: their ends, the nodes between them, and what each node forwards."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from itertools import combinations

from rtclab.scenario.call import Call
from rtclab.scenario.model import ScenarioTables

FAN_OUT = 2
"""Default number of children of a node in a tree."""


@dataclass(frozen=True)
class Flow:
    """One direction between two participants, or between a participant and a forwarder.

    ``paths`` are the names of the paths it crosses, in order. ``call`` is the index of its call, or ``None``
    for cross traffic.
    """

    name: str
    sender: str
    receiver: str
    paths: tuple[str, ...]
    call: int | None

    def as_dict(self) -> dict[str, object]:
        """The flow as JSON values, by the names of the fields."""
        return asdict(self) | {"paths": list(self.paths)}


@dataclass(frozen=True)
class Connection:
    """Two nodes that exchange datagrams. Times are in ns.

    With ``mixing``, each end that is a server decodes what it receives, and sends a composition of what it
    receives over the other connections of the call.

    ``ends`` are the original sender of the media from ``a`` and their receiver ``b``; ``hops`` are the nodes
    that these media pass. ``forwards`` is the index of the connection whose media ``a`` forwards, ``None`` if
    ``a`` sends its own.
    """

    a: str
    b: str
    call: int
    ends: tuple[str, str]
    hops: tuple[str, ...]
    start_ns: int
    end_ns: int
    relay: str | None = None
    one_way: bool = False
    forwards: int | None = None
    switching: bool = False
    mixing: bool = False


@dataclass
class _Calls:
    scenario: ScenarioTables
    connections: list[Connection] = field(default_factory=list)

    def join(
        self,
        call: int,
        a: str,
        b: str,
        *,
        relay: str | None = None,
        one_way: bool = False,
        forwards: int | None = None,
        switching: bool = False,
        mixing: bool = False,
    ) -> int:
        """Adds a connection and returns its index."""
        before = None if forwards is None else self.connections[forwards]
        sender = a if before is None else before.ends[0]
        hops = (a, relay, b) if relay else (*(before.hops if before else (a,)), b)
        start_ns, end_ns = self.scenario.meeting(self.scenario.calls[call], sender, a, b) or (0, 0)
        self.connections.append(
            Connection(
                a, b, call, (sender, b), hops, start_ns, end_ns, relay, one_way, forwards, switching, mixing
            )
        )
        return len(self.connections) - 1


def connections(scenario: ScenarioTables) -> list[Connection]:
    """The connections of every call. A connection that forwards another comes after it."""
    calls = _Calls(scenario)
    for index, call in enumerate(scenario.calls):
        _KINDS[call.kind](calls, index, call)
    return calls.connections


def flow_names(connections: list[Connection]) -> Iterator[tuple[str, str]]:
    """The names of each connection's flows, from ``a`` to ``b`` and back.

    If several calls have a flow of the same name, the second one is ``alice->bob#2``, and so on.
    """
    seen: Counter[str] = Counter()
    numbers: dict[tuple[int, str], int] = {}
    for connection in connections:
        names = "->".join(connection.ends), f"{connection.b}->{connection.a}"
        for name in names:
            if (connection.call, name) not in numbers:
                seen[name] += 1
                numbers[connection.call, name] = seen[name]
        there, back = (numbered(name, numbers[connection.call, name]) for name in names)
        yield there, back


def named_connections(scenario: ScenarioTables) -> list[tuple[Connection, tuple[str, str]]]:
    """The connections of every call, each with the names of its flows; see :func:`flow_names`."""
    joined = connections(scenario)
    return list(zip(joined, flow_names(joined), strict=True))


def numbered(name: str, number: int) -> str:
    """``alice->bob`` for the first of that name, ``alice->bob#2`` for the second."""
    return name if number == 1 else f"{name}#{number}"


def encoders(scenario: ScenarioTables) -> list[str]:
    """The participant of each encoder of video in a live call.

    There is one for each connection over which a participant sends its own camera or forwards the camera of
    another participant. Connections that do not overlap in time count too.
    """
    return [
        node
        for one in connections(scenario)
        for node, source in ((one.a, one.ends[0]), *([] if one.one_way else [(one.b, one.b)]))
        if node in scenario.participants and scenario.video_of(source) is not None
    ]


def _p2p(calls: _Calls, index: int, call: Call) -> None:
    for a, b in combinations(call.participants, 2):
        calls.join(index, a, b, relay=call.relay)


def _forwarding(calls: _Calls, index: int, call: Call) -> None:
    home, switching = _home(call), call.kind == "mcu"
    ups = {
        name: calls.join(index, name, home[name], one_way=True, switching=switching)
        for name in call.participants
    }
    hub, *others = call.homes

    def forward(sender: str, server: str, came_from: str | None, media: int) -> None:
        """From a server to its participants, and to the next servers."""
        receivers = [name for name in call.participants if home[name] == server and name != sender]
        servers = others if server == hub else [hub]
        for next_one in (*receivers, *servers):
            if next_one != came_from:
                link = calls.join(index, server, next_one, one_way=True, forwards=media, switching=switching)
                if next_one in servers:
                    forward(sender, next_one, server, link)

    for sender, up in ups.items():
        forward(sender, home[sender], None, up)


def _mixing(calls: _Calls, index: int, call: Call) -> None:
    home = _home(call)
    for name in call.participants:
        calls.join(index, name, home[name], mixing=True)
    hub, *others = call.homes
    for server in others:
        calls.join(index, hub, server, mixing=True)


def _home(call: Call) -> dict[str, str]:
    """By participant, the server that it is connected with."""
    return {name: server for server, names in call.homes.items() for name in names}


def _star(calls: _Calls, index: int, call: Call) -> None:
    root, others = _root_first(call)
    for name in others:
        calls.join(index, root, name, one_way=True)


def _hub_and_spoke(calls: _Calls, index: int, call: Call) -> None:
    hub, spokes = _root_first(call)
    ups = {name: calls.join(index, name, hub) for name in spokes}
    for sender, up in ups.items():
        for receiver in spokes:
            if receiver != sender:
                calls.join(index, hub, receiver, one_way=True, forwards=up)


def _tree(calls: _Calls, index: int, call: Call) -> None:
    root, others = _root_first(call)
    nodes, fan_out = [root, *others], call.fan_out or FAN_OUT
    above: dict[str, int] = {}
    for number, name in enumerate(others):
        parent = nodes[number // fan_out]
        above[name] = calls.join(index, parent, name, one_way=True, forwards=above.get(parent))


def _root_first(call: Call) -> tuple[str, list[str]]:
    root = call.root or call.participants[0]
    return root, [name for name in call.participants if name != root]


_KINDS = {
    "p2p": _p2p,
    "sfu": _forwarding,
    "mcu": _forwarding,
    "mixing-mcu": _mixing,
    "star": _star,
    "hub-and-spoke": _hub_and_spoke,
    "tree": _tree,
}
