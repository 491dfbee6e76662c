"""The TURN servers, SFUs and MCUs of a live call, and the data that pages need to use them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path

from aiohttp import web

from rtclab.backend.live.connections import Address, LiveConnection, PortFlows
from rtclab.backend.live.lab.http import serve
from rtclab.backend.live.lab.namespaces import listen_in_node, spawn_in_node
from rtclab.backend.live.lab.nat import UDP_BLOCKED
from rtclab.backend.live.lab.process import Spawn
from rtclab.backend.live.messages import Json, Message
from rtclab.backend.live.servers.janus import PORT as JANUS_PORT
from rtclab.backend.live.servers.janus import JanusServer
from rtclab.backend.live.servers.json_server import JsonServer
from rtclab.backend.live.servers.mcu import mixing_server
from rtclab.backend.live.servers.signalling import SignallingServer
from rtclab.backend.live.servers.str0m import forwarding_server
from rtclab.backend.live.servers.turn import TurnServer
from rtclab.backend.live.servers.whip import PORT as WHIP_PORT
from rtclab.backend.live.servers.whip import WhipServer, WhipSettings, host_and_port, page_resource
from rtclab.scenario.participant import CORE

Fail = Callable[[str], None]


class CallServers:
    """Starts the servers that the connections need, each in its node.

    Args:
        connections: the connections of all calls, by number.
        addresses: IP address of each node.
        home: directory for the servers' files, which the caller deletes.
        nats: kind of NAT by participant. If anybody is behind one, ``core`` has a STUN server.
        mixers: by node of a server that mixes, what it composes; see ``mcu.mixer_settings``.
        whip: by node of a server with WHIP and WHEP, its resources.
        fail: called with the reason if a server ends by itself.
        on_statistics: called with each connection's statistics of a ``str0m`` server or a mixer.
        on_event: called with the node of a mixer, the number of a connection, the wall-clock time in ms since
            1970, and what happened.
        on_overload: called with the node of a ``str0m`` server, the wall-clock time in ms since 1970, and how
            many datagrams the server was too slow for.
    """

    def __init__(
        self,
        connections: Mapping[int, LiveConnection],
        addresses: Mapping[str, str],
        home: Path,
        *,
        nats: Mapping[str, str],
        mixers: Mapping[str, Json],
        whip: Mapping[str, WhipSettings],
        fail: Fail,
        on_statistics: Callable[[Message], None],
        on_event: Callable[[str, int, float, str], None],
        on_overload: Callable[[str, float, int], None],
    ) -> None:
        self._connections, self._addresses, self._home = connections, addresses, home
        self._nats, self._whip, self._fail = nats, whip, fail
        self._on_statistics, self._on_event, self._on_overload = on_statistics, on_event, on_overload
        self._turn = self._turn_servers()
        self._janus = self._janus_servers()
        self._json_servers = self._sfus() | self._mcus(mixers)
        self._http = self._whip_servers()
        self._runners: list[web.AppRunner] = []
        self.programs = {node: self._json_servers[node].process for node in mixers}
        """The processes of servers that mix, by node."""
        self.signalling = SignallingServer({node: partial(self._pass, node) for node in self._json_servers})

    def _place(self, kind: str, node: str) -> tuple[Spawn, str, Path]:
        """How a server is started in its node, the node's address, and the server's directory."""
        return partial(spawn_in_node, node), self._addresses[node], self._home / f"{kind}-{node}"

    def _turn_servers(self) -> dict[str, TurnServer]:
        relays = {one.relay for one in self._connections.values() if one.relay is not None}
        return {
            node: TurnServer(*self._place("turn", node), self._fail)
            for node in sorted(relays | ({CORE} if self._nats else set()))
        }

    def _janus_servers(self) -> dict[str, JanusServer]:
        calls: dict[str, set[str]] = {}
        for one in self._connections.values():
            if one.server == "janus":
                calls.setdefault(server_of(one), set()).add(str(one.call))
        return {
            node: JanusServer(*self._place("janus", node), self._fail, sorted(own))
            for node, own in calls.items()
        }

    def _sfus(self) -> dict[str, JsonServer]:
        return {
            node: forwarding_server(*self._place("str0m", node), partial(self._receive, node), self._fail)
            for node, own in self._whip.items()
            if own.kind == "str0m"
        }

    def _mcus(self, mixers: Mapping[str, Json]) -> dict[str, JsonServer]:
        servers = {}
        for node, settings in mixers.items():
            spawn, address, home = self._place("mixer", node)
            calls = {str(one.number): one.call for one in self._connections_of(node)}
            own = {**settings, "address": address, "calls": calls}
            servers[node] = mixing_server(spawn, own, home, partial(self._receive, node), self._fail)
        return servers

    def _whip_servers(self) -> dict[str, WhipServer]:
        participants = {address: name for name, address in self._addresses.items()}
        return {
            node: WhipServer(
                self._connections_of(node),
                participants,
                send=self._json_servers[node].send,
                published=self._publish,
                ice_servers=[self._turn[CORE].stun_server] if self._nats else [],
                token=own.token,
            )
            for node, own in self._whip.items()
            if own.kind == "str0m"
        }

    def _connections_of(self, node: str) -> list[LiveConnection]:
        return [one for one in self._connections.values() if node in one.ends]

    async def start(self) -> None:
        """Starts all servers and waits until they can be used.

        Raises:
            CallFailed: a server did not start.
        """
        for turn in self._turn.values():
            turn.start()
        for janus in self._janus.values():
            janus.start()
        await asyncio.gather(
            *(turn.ready() for turn in self._turn.values()),
            *(janus.ready() for janus in self._janus.values()),
            *(server.start() for server in self._json_servers.values()),
        )
        for node, http in self._http.items():
            listening = listen_in_node(node, self._addresses[node], WHIP_PORT)
            self._runners.append(await serve(http.application(), listening))

    async def stop(self) -> None:
        """Stops all servers."""
        everything: list[TurnServer | JanusServer | JsonServer] = [
            *self._turn.values(),
            *self._janus.values(),
            *self._json_servers.values(),
        ]
        await asyncio.gather(
            *(runner.cleanup() for runner in self._runners), *(server.stop() for server in everything)
        )

    @property
    def port_flows(self) -> dict[Address, PortFlows]:
        """Ports of servers whose packets belong to no flow."""
        ports = {(node, JANUS_PORT) for node in self._janus} | {(node, WHIP_PORT) for node in self._http}
        ports |= {
            host_and_port(url)
            for own in self._whip.values()
            for url in (own.whip, own.whep)
            if url is not None
        }
        return {port: PortFlows() for port in ports}

    def ice_of(self, participant: str) -> dict[int, Json]:
        """The ICE servers and policy of each of the participant's connections, by number."""
        found: dict[int, Json] = {}
        for one in self._connections_of(participant):
            servers: list[Json] = []
            if one.relay is not None:
                tcp = self._nats.get(participant) == UDP_BLOCKED
                servers = self._turn[one.relay].ice_servers(participant, tcp=tcp)
            elif self._nats:
                servers = [self._turn[CORE].stun_server]
            policy = "all" if one.relay is None else "relay"
            found[one.number] = {"servers": servers, "policy": policy}
        return found

    def rooms(self) -> dict[int, Json]:
        """The room of each call over a Janus server, by the number of the call."""
        return {
            one.call: self._janus[server_of(one)].room(str(one.call))
            for one in self._connections.values()
            if one.server == "janus"
        }

    def resources_of(self, participant: str) -> dict[int, Json]:
        """The WHIP or WHEP resource of each of the participant's connections that has one, by number."""
        return {
            one.number: page_resource(one, participant, own)
            for one in self._connections_of(participant)
            if one.server is not None
            and (own := self._whip.get(server_of(one))) is not None
            and own.whip is not None
        }

    def close(self, connection: LiveConnection) -> None:
        """Tells a ``str0m`` server or a mixer that a connection has ended."""
        if connection.server is not None and (server := self._json_servers.get(server_of(connection))):
            server.send({"connection": connection.number, "close": True})
            if (http := self._http.get(server_of(connection))) is not None:
                http.close(connection.number)

    async def _pass(self, node: str, _sender: str, message: Message) -> None:
        number = message["number"]
        fields: Json = {key: message[key] for key in ("description", "candidate") if key in message}
        forwards = self._connections[number].forwards
        self._json_servers[node].send({"connection": number, "forwards": forwards, **fields})

    def _receive(self, node: str, message: Message) -> None:
        if "statistics" in message:
            if message["statistics"]["connection"] in self._connections:
                self._on_statistics(message["statistics"])
        elif "event" in message:
            self._on_event(node, message["connection"], message["at_ms"], message["event"])
        elif "overload" in message:
            self._on_overload(node, message["overload"]["at_ms"], message["overload"]["dropped"])
        elif "connection" in message and not (node in self._http and self._http[node].receive(message)):
            asyncio.get_running_loop().create_task(self._answer(node, message))

    async def _answer(self, node: str, message: Message) -> None:
        one = self._connections.get(message["connection"])
        if one is None:
            return  # it was made over HTTP, and has ended
        if "description" in message:
            answer = {"from": node, "number": one.number, "description": message["description"]}
            await self.signalling.send(one.peer_of(node), answer)
            if one.forwards is None:
                if node in self._http:
                    self._http[node].add_publication(one.feed, one.number)
                await self._publish(one.number)
        elif "error" in message:
            await self.signalling.send(
                one.peer_of(node), {"from": node, "number": one.number, "error": message["error"]}
            )

    async def _publish(self, number: int) -> None:
        if (one := self._connections.get(number)) is not None:
            await self.signalling.publish(one.call, number)


def server_of(connection: LiveConnection) -> str:
    """The node of the SFU or MCU: it receives what a participant sends."""
    return connection.b if connection.forwards is None else connection.a
