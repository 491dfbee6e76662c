"""The connections that pages of the user's own make, and their flows.

What a page reports of a connection is kept under provisional names of flows. When the run has ended, the
addresses and SSRCs of all connections tell which ones belong together and which node is at the other end.
Behind a server, packets tell whose media it forwards: a copy leaves just after its original has arrived, and
the differences of their RTP timestamps and sizes are the same for all packets of a stream.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise

import polars as pl

from rtclab.backend.live.connections import PAGE_CALL, Endpoint, LiveConnection
from rtclab.backend.live.messages import Json
from rtclab.backend.live.records.page_reports import (
    MAX_CONNECTIONS,
    ConnectionMade,
    PageEvent,
    PageStats,
    PayloadTypes,
    Report,
    SelectedPair,
    known_values,
)
from rtclab.backend.live.records.recorder import Recorder
from rtclab.trace import CallInfo, FlowInfo

Place = tuple[str, int]
"""An IP address and a port."""

FORWARDED_WITHIN_NS = 200_000_000
"""A server holds no packet for longer than this."""
TIMESTAMP_RANGE = 2**32
LEAST_SHARE = 0.5
"""A stream copies another one if more than this part of its packets may be copies. The share was 0.89 or more
for true copies, and 0.21 or less otherwise, in calls of two over Janus and of three over LiveKit."""


@dataclass
class UserConnection:
    """One connection of a page."""

    number: int
    participant: str
    nth: int
    """Its number among the connections of the participant."""
    made_ns: int
    closed_ns: int | None = None
    connected: bool = False
    pairs: set[tuple[Place, Place, bool]] = field(default_factory=set)
    """Local and remote addresses that it used, and whether the local one is a relay's."""
    sent: set[int] = field(default_factory=set)
    """SSRCs that it sends."""
    received: set[int] = field(default_factory=set)
    """SSRCs that it receives."""
    repairs: dict[int, int] = field(default_factory=dict)
    """By SSRC of retransmissions or FEC that it receives, the SSRC of the media."""

    @property
    def has_media(self) -> bool:
        """Whether the connection sends or receives media."""
        return bool(self.sent or self.received)

    @property
    def placeholders(self) -> tuple[str, str]:
        """Provisional names of the flows that it sends and receives."""
        return f"{self.participant}/{self.nth} sent", f"{self.participant}/{self.nth} received"


class UserConnections:
    """All connections of all pages of the user's own.

    Args:
        recorder: where the reports are recorded.
        first: the number of the first connection; smaller numbers belong to the calls of the scenario.
        call: the index of the call that these connections are, in the manifest.
    """

    def __init__(self, recorder: Recorder, first: int, call: int) -> None:
        self._recorder = recorder
        self._next = first
        self._call = call
        self._known: dict[tuple[str, str, int], UserConnection] = {}

    def receive(self, participant: str, report: Report, duration_ns: int) -> None:
        """Records a report of a participant's page.

        Raises:
            LookupError, TypeError, ValueError: the report makes no sense.
        """
        if not isinstance(report, ConnectionMade | PageEvent | PayloadTypes | PageStats):
            return
        at_ns = max(0, self._recorder.at_ns(report.at_ms))
        key = participant, report.page, report.number
        if isinstance(report, ConnectionMade):
            self._made(key, at_ns, duration_ns)
            return
        one = self._known[key]
        if isinstance(report, PageEvent):
            self._happened(one, report, at_ns)
        elif isinstance(report, PayloadTypes):
            self._recorder.add_payload_types(report.model_dump() | {"number": one.number})
        else:
            self._add_stats(one, report)

    def connected(self) -> set[str]:
        """The participants whose page has or had a working connection."""
        return {one.participant for one in self._known.values() if one.connected}

    def addresses(self) -> set[str]:
        """The addresses at the far ends of all connections, and of the relays that they use."""
        pairs = [pair for one in self.all() for pair in one.pairs]
        relays = {local for (local, _), _, relayed in pairs if relayed}
        return relays | {remote for _, (remote, _), _ in pairs}

    def numbers(self, participant: str) -> list[int]:
        """The connections of a participant's page, in the order in which they were made."""
        return [one.number for one in self._known.values() if one.participant == participant]

    def all(self) -> list[UserConnection]:
        """All connections."""
        return list(self._known.values())

    def _made(self, key: tuple[str, str, int], at_ns: int, duration_ns: int) -> None:
        if key in self._known:
            raise ValueError("the page reported the same connection twice")
        if len(self.numbers(key[0])) >= MAX_CONNECTIONS:
            raise ValueError("the page has made too many connections")
        one = UserConnection(self._next, key[0], len(self.numbers(key[0])), at_ns)
        self._next += 1
        self._known[key] = one
        self._recorder.connections[one.number] = _connection(
            one, self._call, one.participant, "", one.placeholders, duration_ns
        )

    def _happened(self, one: UserConnection, report: PageEvent, at_ns: int) -> None:
        one.connected |= report.event == "dtls_connected"
        if report.event == "closed":
            one.closed_ns = at_ns
        self._recorder.add_event(at_ns, one.participant, report.event, flow=one.placeholders[1])

    def _add_stats(self, one: UserConnection, report: PageStats) -> None:
        reports = [checked(entry) for entry in report.reports]
        message = {"number": one.number, "at_ms": report.at_ms, "reports": reports, "frames": []}
        ssrcs: dict[object, int] = {}
        for entry in reports:
            if entry["type"] == "outbound-rtp":
                one.sent.add(entry["ssrc"])
            if entry["type"] == "inbound-rtp":
                one.received.add(entry["ssrc"])
                ssrcs[entry.get("trackIdentifier")] = entry["ssrc"]
                for key in ("rtxSsrc", "fecSsrc"):
                    if type(entry.get(key)) is int:
                        one.repairs[entry[key]] = entry["ssrc"]
        self._recorder.add_stats(one.participant, message)
        for track, rows in report.frames.items():
            if track in ssrcs:
                self._recorder.add_frames(one.placeholders[1], ssrcs[track], map(list, rows))
        for pair in report.selected:
            self._add_pair(one, pair)

    def _add_pair(self, one: UserConnection, pair: SelectedPair) -> None:
        local, remote = pair.local, pair.remote
        if local.address is None or local.port is None or remote.address is None or remote.port is None:
            return
        relayed = local.kind == "relay"
        one.pairs.add(((local.address, local.port), (remote.address, remote.port), relayed))
        for side in (local, remote):
            self._recorder.add_end(one.number, side.model_dump(by_alias=True))


def checked(entry: Json) -> Json:
    """The values of a report of ``getStats`` that a trace has, and what tells tracks and repair streams.

    Raises:
        Refused: a value is not one that a browser gives.
    """
    further: Json = {key: entry[key] for key in ("trackIdentifier", "rtxSsrc", "fecSsrc") if key in entry}
    return {**further, **known_values(entry)}


def _connection(
    one: UserConnection, call: int, a: str, b: str, flows: tuple[str, str], duration_ns: int
) -> LiveConnection:
    return LiveConnection(
        number=one.number,
        call=call,
        a=a,
        b=b,
        start_ns=min(one.made_ns, duration_ns),
        end_ns=duration_ns if one.closed_ns is None else min(one.closed_ns, duration_ns),
        flows=flows,
        feed=a,
    )


# --- when the run has ended -----------------------------------------------------------------------


@dataclass(frozen=True)
class EmulatedNetwork:
    """What is known of the network: names of nodes by address, participants, and paths between nodes."""

    nodes: Mapping[str, str]
    participants: Sequence[str]
    routes: Mapping[tuple[str, str], tuple[str, ...]]

    def route(self, hops: Sequence[str]) -> tuple[str, ...]:
        """The paths from the first node to the last one, over all nodes between them."""
        return tuple(path for leg in pairwise(hops) for path in self.routes.get(leg, ()))


class UserFlows:
    """Finds the flows of all connections, and renames them in the recorder.

    Args:
        own: the connections.
        recorder: has their rows, under provisional names.
        network: see :class:`EmulatedNetwork`.
        call: the index of their call.
        taken: names of flows that are used otherwise.
        duration_ns: length of the run.
    """

    def __init__(
        self,
        own: UserConnections,
        recorder: Recorder,
        network: EmulatedNetwork,
        call: int,
        taken: Iterable[str],
        duration_ns: int,
    ) -> None:
        self._recorder = recorder
        self._network = network
        self._call = call
        self._duration_ns = duration_ns
        self._taken = set(taken)
        self._own = {one.number: one for one in own.all()}
        self.flows: dict[str, FlowInfo] = {}
        self.notes: list[str] = []
        self._drop_false_addresses()
        self._peers = self._find_peers()
        self._flows_of: dict[int, tuple[str, str]] = {}
        """Flows that each connection sends and receives."""
        self._join()
        names: dict[str, str | None] = {}
        for number, one in self._own.items():
            names |= dict(zip(one.placeholders, self._flows_of.get(number, (None, None)), strict=True))
        self._rename(names, {})

    def sent(self, number: int) -> str | None:
        """The flow that a page sends over a connection, None if it is not known."""
        return self._flows_of.get(number, (None, None))[0]

    def call(self) -> CallInfo:
        """The call that these connections are."""
        there = {one.participant for one in self._own.values()}
        participants = tuple(name for name in self._network.participants if name in there)
        return CallInfo(kind=PAGE_CALL, participants=participants, start_ns=0, end_ns=self._duration_ns)

    # --- which node is at the other end ---

    def _find_peers(self) -> dict[int, int | str]:
        """By connection, the connection at the other end, or the node if that is a server."""
        found: dict[int, int | str] = {}
        used = [one for one in self._own.values() if one.pairs]
        # Addresses first: a page can claim the SSRCs of others, but not their addresses.
        for alike in (_meet, self._share_streams):
            for one in used:
                others = (other for other in used if other.participant != one.participant)
                free = (other for other in others if other.number not in found)
                met = next((other for other in free if alike(one, other)), None)
                if met is not None and one.number not in found:
                    found[one.number], found[met.number] = met.number, one.number
        for one in used:
            remote = self._remote_node(one)
            if one.number not in found and remote is not None and remote != one.participant:
                found[one.number] = remote
        return found

    def _drop_false_addresses(self) -> None:
        """Forgets addresses that a page gave for its own although they belong to another participant."""
        ends = defaultdict(set)
        for one in self._own.values():
            one.pairs = {pair for pair in one.pairs if not self._is_of_another(one, pair[0][0])}
            ends[one.number] = {end for local, remote, _ in one.pairs for end in (local, remote)}
        self._recorder.ends = {
            end
            for end in self._recorder.ends
            if end.connection not in self._own or (end.address, end.port) in ends[end.connection]
        }

    def _is_of_another(self, one: UserConnection, address: str) -> bool:
        name = self._network.nodes.get(address)
        return name in self._network.participants and name != one.participant

    def _share_streams(self, one: UserConnection, other: UserConnection) -> bool:
        """Whether two connections without a server between them have the same streams."""
        remote = self._remote_node(one)
        if remote not in (*self._network.participants, *self._relays()):
            return False
        return bool(one.sent & other.received or other.sent & one.received)

    def _remote_node(self, one: UserConnection) -> str | None:
        names = [self._network.nodes.get(address) for _, (address, _), _ in sorted(one.pairs)]
        return next(filter(None, names), None)

    def _relays(self) -> set[str]:
        """Nodes whose TURN servers the connections use."""
        locals_ = (local for one in self._own.values() for local, _, relayed in one.pairs if relayed)
        return {name for address, _ in locals_ if (name := self._network.nodes.get(address)) is not None}

    def _relay_of(self, *ends: UserConnection) -> str | None:
        for end in ends:
            for (address, _), _, relayed in sorted(end.pairs):
                if relayed:
                    return self._network.nodes.get(address)
        return None

    # --- names ---

    def _join(self) -> None:
        """Makes a connection of the trace from each pair of connections, and from each one with a server."""
        counts: Counter[frozenset[str]] = Counter()
        # Connections with media come first, so that their flows have no number.
        place = {name: nth for nth, name in enumerate(self._network.participants)}
        for number, one in sorted(
            self._own.items(), key=lambda item: (not item[1].has_media, place[item[1].participant], item[0])
        ):
            peer = self._peers.get(number)
            del self._recorder.connections[number]
            if peer is None or number in self._flows_of:
                continue
            other = self._own[peer] if isinstance(peer, int) else None
            node = other.participant if other is not None else str(peer)
            between = frozenset((one.participant, node))
            counts[between] += 1
            there = self._free(f"{one.participant}->{node}", counts[between])
            back = self._free(f"{node}->{one.participant}", counts[between])
            self._flows_of[number] = there, back
            ends = [one] if other is None else [one, other]
            if other is not None:
                self._flows_of[other.number] = back, there
                renumbered = {replace(end, connection=number) for end in self._ends(other.number)}
                self._recorder.ends -= self._ends(other.number)
                self._recorder.ends |= renumbered
            relay = self._relay_of(*ends)
            hops = (one.participant, relay, node) if relay is not None else (one.participant, node)
            joined = _connection(one, self._call, one.participant, node, (there, back), self._duration_ns)
            self._recorder.connections[number] = replace(
                joined, relay=relay, server=PAGE_CALL if other is None else None
            )
            self._add_flow(there, hops, joined)
            self._add_flow(back, hops[::-1], joined)
        lost = Counter(
            (one.participant, "the page itself" if self._remote_node(one) == one.participant else "not known")
            for number, one in self._own.items()
            if number not in self._flows_of
        )
        self.notes += [
            f"{count} connection{'s' * (count > 1)} of {name}'s page: the other end is {what}, "
            "so nothing is recorded of them"
            for (name, what), count in lost.items()
        ]

    def _ends(self, number: int) -> set[Endpoint]:
        return {end for end in self._recorder.ends if end.connection == number}

    def _free(self, name: str, number: int = 1) -> str:
        """The name of a flow with this number, or a higher one if that is taken."""
        names = [name if number == 1 else f"{name}#{number}"]
        while names[-1] in self._taken:
            number += 1
            names.append(f"{name}#{number}")
        return names[-1]

    def _add_flow(self, name: str, hops: Sequence[str], joined: LiveConnection) -> None:
        known = self.flows.get(name)
        self.flows[name] = FlowInfo(
            sender=hops[0],
            receiver=hops[-1],
            route=self._network.route(hops),
            call=self._call,
            begin_ns=joined.start_ns if known is None else min(known.begin_ns, joined.start_ns),
            end_ns=joined.end_ns if known is None else max(known.end_ns, joined.end_ns),
        )

    # --- whose media a server forwards ---

    def forwarded(self, packets: pl.DataFrame) -> pl.DataFrame:
        """The packets, where copies by a server belong to a flow from the original sender.

        Args:
            packets: the emulator's log with ``flow``; see :func:`.packet_flows.assign_flows`.
        """
        joined = self._recorder.connections
        servers = {n: joined[n].b for n in self._flows_of if n in joined and joined[n].server == PAGE_CALL}
        ups = {joined[n].flows[0]: n for n in servers}
        downs = {joined[n].flows[1]: n for n in servers}
        sources = sources_of(
            packets,
            {flow: servers[n] for flow, n in ups.items()},
            {flow: servers[n] for flow, n in downs.items()},
        )
        renamed: dict[tuple[str, int], str] = {}
        for down, by_ssrc in sources.items():
            receiver = self.flows[down].receiver
            for ssrc, up in by_ssrc.items():
                sender = self.flows[up].sender
                name = self._free(f"{sender}->{receiver}")
                renamed[down, ssrc] = name
                if name not in self.flows:
                    self._add_copies(name, joined[downs[down]], joined[ups[up]])
        for number in servers:
            down = joined[number].flows[1]
            for repair, media in self._own[number].repairs.items():
                if (down, media) in renamed:
                    renamed[down, repair] = renamed[down, media]
        whole = self._from_one_sender(renamed, sources, packets)
        self._rename(whole, renamed)
        for flow in whole:
            del self.flows[flow]
        return _renamed_packets(packets, renamed, whole)

    def _add_copies(self, name: str, down: LiveConnection, up: LiveConnection) -> None:
        number = max(self._recorder.connections) + 1
        server, receiver = down.b, down.a
        copies = replace(
            down,
            number=number,
            a=server,
            b=receiver,
            flows=(name, down.flows[0]),
            feed=up.a,
            one_way=True,
            forwards=up.number,
        )
        self._recorder.connections[number] = copies
        self._add_flow(name, (up.a, server, receiver), copies)

    def _from_one_sender(
        self,
        renamed: Mapping[tuple[str, int], str],
        sources: Mapping[str, Mapping[int, str]],
        packets: pl.DataFrame,
    ) -> dict[str, str]:
        """The flows from a server whose streams are all copies of one sender's, and the flow of the copies.

        Everything else on such a connection, RTCP for example, belongs to that flow too.
        """
        streams = packets.filter(pl.col("ssrc").is_not_null(), protocol="rtp").select("flow", "ssrc").unique()
        all_of: defaultdict[str, set[int]] = defaultdict(set)
        for flow, ssrc in streams.iter_rows():
            all_of[flow].add(ssrc)
        found = {}
        for down in sources:
            names = {renamed.get((down, ssrc)) for ssrc in all_of[down]}
            if len(names) == 1 and (name := names.pop()) is not None:
                found[down] = name
        return found

    # --- rows ---

    def _rename(self, names: Mapping[str, str | None], copies: Mapping[tuple[str, int], str]) -> None:
        """Renames the flows of the recorder's rows, by flow or by flow and SSRC. Rows without a flow go."""
        recorder = self._recorder
        parts: defaultdict[str, set[str]] = defaultdict(set)
        for (flow, _), name in copies.items():
            parts[flow].add(name)

        def new(flow: str, ssrc: int | None = None) -> str | None:
            if ssrc is not None and (flow, ssrc) in copies:
                return copies[flow, ssrc]
            return names.get(flow, flow)

        def all_new(flow: str) -> set[str]:
            return {name for name in (new(flow), *parts[flow]) if name is not None}

        for table, rows in recorder.rows.items():
            for row in rows:
                if row.get("flow") is not None:
                    row["flow"] = new(row["flow"], row.get("ssrc"))
                    row["lost"] = row["flow"] is None and table != "events"
            rows[:] = [row for row in rows if not row.pop("lost", False)]
        recorder.payload_kinds = {
            (name, payload_type): kind
            for (flow, payload_type), kind in recorder.payload_kinds.items()
            for name in all_new(flow)
        }
        recorder.red = {(name, number) for flow, number in recorder.red for name in all_new(flow)}
        named = ((ssrc, new(flow)) for ssrc, flow in recorder.ssrcs.items())
        recorder.ssrcs = {ssrc: name for ssrc, name in named if name is not None}


def _meet(one: UserConnection, other: UserConnection) -> bool:
    """Whether two connections of pages are the two ends of the same connection, by their addresses."""
    direct = {(local, remote) for local, remote, _ in one.pairs}
    if direct & {(remote, local) for local, remote, _ in other.pairs}:
        return True
    return _through_relay(one, other) or _through_relay(other, one)


def _through_relay(one: UserConnection, other: UserConnection) -> bool:
    """Whether a connection sends to the address that a relay gave to another connection."""
    relays = {local for local, _, relayed in other.pairs if relayed}
    return any(remote in relays for _, remote, _ in one.pairs)


def sources_of(
    packets: pl.DataFrame, ups: Mapping[str, str], downs: Mapping[str, str]
) -> dict[str, dict[int, str]]:
    """Whose media servers forward: by flow from a server and SSRC, the flow of the original.

    Args:
        packets: the emulator's log with ``flow``.
        ups: by flow to a server, the server.
        downs: by flow from a server, the server.
    """
    media = packets.filter(pl.col("ssrc").is_not_null(), protocol="rtp")
    left = (
        media.filter(pl.col("flow").is_in(list(downs)))
        .select("flow", "ssrc", "rtp_timestamp", "content_bytes", at_ns="sent_ns")
        .with_columns(server=pl.col("flow").replace_strict(downs, return_dtype=pl.String))
    )
    came = media.filter(pl.col("flow").is_in(list(ups)), pl.col("delivered_ns").is_not_null())
    best: dict[tuple[str, int], tuple[float, str]] = {}
    for (up, _), stream in came.group_by("flow", "ssrc", maintain_order=True):
        for down, ssrc, share in _copied(left.filter(server=ups[str(up)]), stream).iter_rows():
            if share > best.get((down, ssrc), (LEAST_SHARE, ""))[0]:
                best[down, ssrc] = share, str(up)
    found: dict[str, dict[int, str]] = {}
    for (down, ssrc), (_, up) in sorted(best.items()):
        found.setdefault(down, {})[ssrc] = up
    return found


def _copied(left: pl.DataFrame, stream: pl.DataFrame) -> pl.DataFrame:
    """By ``flow`` and ``ssrc`` from a server, the ``share`` of packets that may copy a stream that arrived.

    Each packet is compared with the last one that had arrived before it. Copies differ from their originals
    by the same amount in timestamp and size.
    """
    beside = left.sort("at_ns").join_asof(
        stream.select("rtp_timestamp", "content_bytes", at_ns="delivered_ns").sort("at_ns"),
        on="at_ns",
        strategy="backward",
        tolerance=FORWARDED_WITHIN_NS,
        suffix="_came",
    )
    stream_of = ["flow", "ssrc"]
    return (
        beside.group_by(
            *stream_of,
            later=(pl.col("rtp_timestamp") - pl.col("rtp_timestamp_came")) % TIMESTAMP_RANGE,
            larger=pl.col("content_bytes") - pl.col("content_bytes_came"),
        )
        .len()
        .with_columns(share=pl.col("len") / pl.col("len").sum().over(stream_of))
        .drop_nulls("later")
        .group_by(stream_of)
        .agg(pl.col("share").max())
        .sort(stream_of)
    )


def _renamed_packets(
    packets: pl.DataFrame, renamed: Mapping[tuple[str, int], str], whole: Mapping[str, str]
) -> pl.DataFrame:
    if not renamed:
        return packets
    rows = [(flow, ssrc, name) for (flow, ssrc), name in renamed.items()]
    schema = {"flow": pl.String(), "ssrc": packets.schema["ssrc"], "renamed": pl.String()}
    table = pl.DataFrame(rows, schema=schema, orient="row")
    return (
        packets.join(table, on=["flow", "ssrc"], how="left", maintain_order="left")
        .with_columns(flow=pl.coalesce("renamed", pl.col("flow").replace(dict(whole))))
        .drop("renamed")
    )
