"""Assigns the packets that the emulator carried to the flows of a trace.

Between two nodes there may be several connections, and a relayed connection has two legs. A packet belongs to
the connection that uses its addresses and ports. The pages report these, except at a relay. There the SSRCs
decide, which every sender chooses at random.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import polars as pl

from rtclab.backend.live.connections import PAGE_CALL, Address, Endpoint, LiveConnection, PortFlows
from rtclab.scenario.participant import INTERNET

TUPLE = ["from", "from_port", "to", "to_port"]


@dataclass(frozen=True)
class FlowLeg:
    """The flow of a packet; ``leg`` is 1 behind a relay, else 0; ``protocol`` if the port determines it."""

    flow: str
    leg: int = 0
    protocol: str | None = None


@dataclass(frozen=True)
class FlowKeys:
    """What identifies a packet's flow.

    ``connections`` are the connections of the calls, by number. ``ends`` are the addresses that they use,
    ``nodes`` the names of nodes by IP address, ``ssrcs`` the flows by SSRC. ``port_flows`` are the ports of
    other programs. ``over_tcp`` are the participants who reach a relay over TCP. Segments of that leg do not
    show the media packets in them, so only the other leg of such a flow is known.
    """

    connections: Mapping[int, LiveConnection]
    ends: Iterable[Endpoint]
    nodes: Mapping[str, str]
    ssrcs: Mapping[int, str]
    port_flows: Mapping[Address, PortFlows]
    over_tcp: Collection[str] = ()


def assign_flows(packets: pl.DataFrame, known: FlowKeys) -> pl.DataFrame:
    """The packets that belong to a flow, with ``flow`` and ``leg``, which is 1 behind a relay.

    Args:
        packets: the emulator's log with the monitor's description, and with ``from_port`` and ``to_port``.
        known: what identifies a packet's flow.
    """
    owners = _owners(packets, known)
    rows = [(*key, owner.flow, owner.leg, owner.protocol) for key, owner in owners.items()]
    schema = {name: packets.schema[name] for name in TUPLE}
    table = pl.DataFrame(
        rows, schema | {"flow": pl.String(), "leg": pl.Int8(), "claimed": pl.String()}, orient="row"
    )
    found = packets.join(table, on=TUPLE, how="inner", nulls_equal=True, maintain_order="left")
    return found.with_columns(protocol=pl.coalesce("claimed", "protocol")).drop("claimed")


def _owners(packets: pl.DataFrame, known: FlowKeys) -> dict[tuple[Any, ...], FlowLeg]:
    """The owner of each tuple of ends that has one."""
    names = {Endpoint(known.nodes.get(end.address, ""), end.port, end.connection) for end in known.ends}
    users: defaultdict[Address, set[int]] = defaultdict(set)
    for end in names:
        users[end.address, end.port].add(end.connection)
    # A server may use one port for all its connections.
    used = {end: next(iter(those)) for end, those in users.items() if len(those) == 1}
    votes = _votes(packets, known)
    found = {}
    for key in packets.select(TUPLE).unique(maintain_order=True).iter_rows():
        source, destination = key[:2], key[2:]
        claims = known.port_flows.get(source), known.port_flows.get(destination)
        if any(claims):
            if (owner := flow_at_ports(*claims)) is not None:
                found[key] = owner
            continue
        candidates = _between(known, source[0], destination[0])
        by_port = {used[end] for end in (source, destination) if end in used} & candidates.keys()
        by_ssrc = [one for one in votes[frozenset((source, destination))] if one in candidates]
        chosen = next(iter(by_port), None) if by_port else next(iter(by_ssrc), None)
        # Behind the node of the hosts outside are many programs that are not part of the call.
        if chosen is None and len(candidates) == 1 and INTERNET not in (source[0], destination[0]):
            (only,) = candidates
            # A server of the user's own may have pages and signalling too.
            chosen = only if known.connections[only].server != PAGE_CALL else None
        if chosen is not None:
            found[key] = candidates[chosen]
    return found


def flow_at_ports(source: PortFlows | None, destination: PortFlows | None) -> FlowLeg | None:
    """The owner of packets between two ports, one of them a program's; None if they belong to no flow."""
    if source is not None and source.outgoing is not None:
        return FlowLeg(source.outgoing, protocol=source.protocol)
    if destination is not None and destination.incoming is not None:
        return FlowLeg(destination.incoming, protocol=destination.protocol)
    return None


def _between(known: FlowKeys, source: str, destination: str) -> dict[int, FlowLeg]:
    """The connections that have packets from one node to another, with the owner of these packets."""
    found = {}
    for one in known.connections.values():
        if one.relay is None:
            if {source, destination} == set(one.ends):
                found[one.number] = FlowLeg(one.sent_by(source))
        elif source in known.over_tcp or destination in known.over_tcp:
            continue
        elif source in one.ends and destination == one.relay:
            found[one.number] = FlowLeg(one.sent_by(source))
        elif source == one.relay and destination in one.ends:
            leg = 0 if one.peer_of(destination) in known.over_tcp else 1
            found[one.number] = FlowLeg(one.received_by(destination), leg)
    return found


def _votes(packets: pl.DataFrame, known: FlowKeys) -> defaultdict[frozenset[Address], list[int]]:
    """The connections whose streams are seen between two ends, the most frequent first."""
    of_flow: dict[str, int] = {}
    for one in known.connections.values():
        for flow in one.flows:
            of_flow.setdefault(flow, one.number)
    counts: defaultdict[frozenset[Address], Counter[int]] = defaultdict(Counter)
    streams = packets.filter(pl.col("ssrc").is_in(list(known.ssrcs))).group_by([*TUPLE, "ssrc"]).len()
    for source, source_port, destination, destination_port, ssrc, count in streams.iter_rows():
        if (flow := known.ssrcs[ssrc]) in of_flow:
            ends = frozenset(((source, source_port), (destination, destination_port)))
            counts[ends][of_flow[flow]] += count
    ordered: defaultdict[frozenset[Address], list[int]] = defaultdict(list)
    for ends, counter in counts.items():
        ordered[ends] = [number for number, _ in counter.most_common()]
    return ordered


OUTCOME = ["delivered_ns", "queued_ns", "dropped_ns", "written_ns", "drop_cause", "drop_path"]
"""Columns that say what became of a packet."""
MARK = ["mark_path", "mark_cause"]
"""Columns that say where and why a packet was marked. The first mark on either leg counts."""
ALIKE = ["flow", "protocol", "ssrc", "payload_type", "seq", "content_bytes"]
"""Columns that a relay leaves as they are. The size on the wire is not among them: a browser that binds no
channel, such as Firefox, has 32 bytes more per packet on its leg (RFC 8656, sections 11 and 12)."""
KEYS = [f"{name}_key" for name in ALIKE]
LONGEST_WAY_NS = 100_000_000
"""A relay holds no packet for longer than this."""


def join_relay_legs(packets: pl.DataFrame) -> pl.DataFrame:
    """Joins the two legs of relayed packets: sent on the first, delivered, dropped or marked on either.

    ``packets`` have ``leg``, which the result has not; see :func:`assign_flows`. The list ``logged`` of a
    joined packet has the rows of both legs.

    A relay also exchanges STUN messages of its own with each end, which look like the STUN messages that it
    forwards. So all STUN messages are left out.
    """
    relayed = packets.filter(leg=1)["flow"].unique().to_list()
    if not relayed:
        return packets.drop("leg")
    direct = packets.filter(~pl.col("flow").is_in(relayed))
    media = packets.filter(pl.col("flow").is_in(relayed), pl.col("protocol") != "stun")
    first, behind = media.filter(leg=0), media.filter(leg=1)
    # It may leave before the emulator has noted that it was written, but not before it was due.
    arrived = _keyed(first.filter(pl.col("delivered_ns").is_not_null())).with_columns(due_ns="delivered_ns")
    arrived = arrived.with_row_index("nth")
    of_behind = {f"{name}_behind": name for name in (*OUTCOME, *MARK)}
    outcome = _keyed(behind).select(*KEYS, at_ns="sent_ns", logged_behind="logged", **of_behind)
    # A relay forwards a packet at once, so a packet that leaves is a copy of the last equal one that arrived.
    passed = (
        outcome.sort("at_ns")
        .join_asof(
            arrived.sort("due_ns"),
            left_on="at_ns",
            right_on="due_ns",
            by=KEYS,
            strategy="backward",
            tolerance=LONGEST_WAY_NS,
            check_sortedness=False,  # both are sorted; polars cannot check this within groups
        )
        .drop_nulls("nth")
        .unique("nth", keep="first", maintain_order=True)
        .with_columns(
            queued_ns_behind=pl.col("queued_ns") + pl.col("queued_ns_behind"),
            logged=pl.concat_list("logged", "logged_behind"),
        )
        .with_columns(pl.col(f"{name}_behind").alias(name) for name in OUTCOME)
        .with_columns(
            pl.when(pl.col("delivered_ns").is_not_null())
            .then(pl.coalesce(name, f"{name}_behind"))
            .alias(name)
            for name in MARK
        )
    )
    lost = first.filter(pl.col("delivered_ns").is_null())
    # Packets of the handshake differ in size between the legs, because TURN frames them differently.
    swallowed = arrived.join(passed, on="nth", how="anti").filter(pl.col("protocol").is_in(["rtp", "rtcp"]))
    kept_by_relay = swallowed.with_columns(
        pl.lit(None, packets.schema[name]).alias(name)
        for name in ("delivered_ns", "queued_ns", "written_ns", *MARK)
    )
    rows = [direct, lost, *(part.select(packets.columns) for part in (passed, kept_by_relay))]
    return pl.concat(rows).sort("sent_ns", maintain_order=True).drop("leg")


def _keyed(packets: pl.DataFrame) -> pl.DataFrame:
    """The packets, with columns ``KEYS`` for the columns ``ALIKE``, whose numbers have no nulls."""
    return packets.with_columns(
        (pl.col(name) if packets.schema[name] == pl.String else pl.col(name).fill_null(-1)).alias(key)
        for name, key in zip(ALIKE, KEYS, strict=True)
    )
