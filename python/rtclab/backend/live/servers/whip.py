"""WHIP and WHEP in front of rtclab's own SFU: publishing and playing by one HTTP request each.

``POST /whip/NAME`` publishes (RFC 9725). ``POST /whep/NAME`` plays what was published under the name
(draft-ietf-wish-whep). Both answer an SDP offer with an SDP answer, which has the server's only candidate,
and with the address of a session, which DELETE ends. PATCH is refused with status 405, as RFC 9725 allows:
the server learns a client's candidates from its connectivity checks.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass
from itertools import count
from typing import Any
from urllib.parse import urlsplit

from aiohttp import web

from rtclab.backend.live.connections import LiveConnection
from rtclab.backend.live.messages import Json
from rtclab.scenario import Scenario

PORT = 8080
SDP = "application/sdp"
ANSWER_TIMEOUT_S = 10.0
RETRY_AFTER_S = 1
"""When a player may ask again for a name under which nobody publishes."""

# Pages of any origin may use the server, as its clients are in the lab only.
CORS = {
    "Access-Control-Allow-Origin": "*",
    "Access-Control-Expose-Headers": "ETag, Link, Location, Retry-After",
}
PREFLIGHT = {
    "Accept-Post": SDP,
    "Access-Control-Allow-Headers": "Authorization, Content-Type, If-Match",
    "Access-Control-Allow-Methods": "DELETE, OPTIONS, POST",
    "Access-Control-Max-Age": "600",
}


@dataclass(frozen=True)
class HttpSession:
    """One connection that was made by POST: to publish ``name`` or, with ``plays``, to play it."""

    number: int
    name: str
    plays: bool
    client: str


class WhipServer:
    """The HTTP resources of one SFU.

    A client at the address of a participant gets the number of the participant's connection with the SFU.
    So the trace has the SFU's statistics of it. Everybody else gets a number of no connection.

    Args:
        connections: the connections of the SFU.
        participants: the participant by IP address.
        send: passes a line to the SFU (``crates/rtclab-sfu/src/message.rs``).
        published: called with the number of each connection that begins to publish.
        ice_servers: ICE servers for clients, in the form of ``RTCIceServer``.
        token: the bearer token that clients must have, if any.
    """

    def __init__(
        self,
        connections: Iterable[LiveConnection],
        participants: Mapping[str, str],
        *,
        send: Callable[[Json], None],
        published: Callable[[int], Awaitable[None]],
        ice_servers: Iterable[Json] = (),
        token: str | None = None,
    ) -> None:
        self._connections = list(connections)
        self._participants = participants
        self._send = send
        self._published = published
        self._links = [link for server in ice_servers for link in links(server)]
        self._token = token
        self._sessions: dict[str, HttpSession] = {}
        self._publications: dict[str, int] = {}
        self._answers: dict[int, asyncio.Future[str]] = {}
        self._ended: set[int] = set()
        self._strangers = count(1 + max((one.number for one in self._connections), default=0))

    def application(self) -> web.Application:
        """The resources as an aiohttp application."""
        application = web.Application(middlewares=[self._guard])
        for path, post in (("/whip/{name}", self._publish), ("/whep/{name}", self._play)):
            application.router.add_post(path, post)
            application.router.add_options(path, self._allow)
        application.router.add_delete("/sessions/{session}", self._delete)
        application.router.add_options("/sessions/{session}", self._allow)
        return application

    def receive(self, message: Json) -> bool:
        """Takes an answer or error of the SFU. Returns whether the connection was made here."""
        number = message["connection"]
        waiting, key = self._answers.get(number), self._key_of(number)
        if waiting is None and key is None:
            return False
        if waiting is not None and not waiting.done():
            if "description" in message:
                waiting.set_result(message["description"]["sdp"])
            else:
                waiting.set_exception(web.HTTPBadRequest(text=f"{message['error']}\n"))
        elif key is not None and "error" in message:
            self._forget(key)
        return True

    def add_publication(self, name: str, number: int) -> None:
        """Makes a connection that was not made here known under a name."""
        self._publications[name] = number

    def close(self, number: int) -> None:
        """Notes that one of the participants' connections has ended for good."""
        self._ended.add(number)
        if (key := self._key_of(number)) is not None:
            self._forget(key)
        self._publications = {name: one for name, one in self._publications.items() if one != number}

    @web.middleware
    async def _guard(self, request: web.Request, handler: Any) -> web.StreamResponse:
        """Asks for the token, and lets pages of other origins read the response, errors too."""
        try:
            # A preflight request has no token (https://fetch.spec.whatwg.org/#cors-preflight-fetch).
            if request.method != "OPTIONS" and self._token is not None:
                given = request.headers.get("Authorization", "")
                if not secrets.compare_digest(
                    given.encode(errors="replace"), f"Bearer {self._token}".encode()
                ):
                    raise web.HTTPUnauthorized(headers={"WWW-Authenticate": "Bearer"})
            response: web.StreamResponse = await handler(request)
        except web.HTTPException as error:
            error.headers.update(CORS)
            raise
        response.headers.update(CORS)
        return response

    async def _allow(self, _request: web.Request) -> web.Response:
        return web.Response(status=204, headers=PREFLIGHT)

    async def _publish(self, request: web.Request) -> web.Response:
        offer = await offer_of(request)
        name, client = request.match_info["name"], request.remote or ""
        for key, one in list(self._sessions.items()):
            # A page that was loaded again has not ended its session.
            if one.name == name and not one.plays and one.client == client:
                self._hang_up(key)
        if name in self._publications:
            raise web.HTTPConflict(text=f"somebody else publishes `{name}`; expected another name\n")
        participant = self._participants.get(client)
        number = self._number(
            one for one in self._connections if one.forwards is None and one.a == participant
        )
        self._publications[name] = number
        try:
            return await self._open(HttpSession(number, name, False, client), offer, None)
        except web.HTTPException:
            del self._publications[name]
            raise

    async def _play(self, request: web.Request) -> web.Response:
        offer = await offer_of(request)
        name, client = request.match_info["name"], request.remote or ""
        publication = self._publications.get(name)
        if publication is None:
            raise web.HTTPConflict(
                text=f"nobody publishes `{name}` now\n", headers={"Retry-After": str(RETRY_AFTER_S)}
            )
        participant = self._participants.get(client)
        number = self._number(
            one for one in self._connections if one.forwards == publication and one.b == participant
        )
        return await self._open(HttpSession(number, name, True, client), offer, publication)

    def _number(self, own: Iterable[LiveConnection]) -> int:
        """The number of the first of the client's connections that is free, else a new one."""
        taken = {one.number for one in self._sessions.values()} | self._ended | self._answers.keys()
        free = [one.number for one in own if one.number not in taken]
        return free[0] if free else next(self._strangers)

    async def _open(self, session: HttpSession, offer: str, forwards: int | None) -> web.Response:
        number = session.number
        self._answers[number] = asyncio.get_running_loop().create_future()
        self._send(
            {"connection": number, "forwards": forwards, "description": {"type": "offer", "sdp": offer}}
        )
        try:
            answer = await asyncio.wait_for(self._answers[number], ANSWER_TIMEOUT_S)
        except TimeoutError:
            raise web.HTTPGatewayTimeout(text="the SFU did not answer\n") from None
        finally:
            del self._answers[number]
        key = secrets.token_hex(8)
        self._sessions[key] = session
        if forwards is None:
            await self._published(number)
        response = web.Response(status=201, text=answer, content_type=SDP)
        response.headers["Location"] = f"/sessions/{key}"
        response.headers["ETag"] = f'"{key}"'
        for link in self._links:
            response.headers.add("Link", link)
        return response

    async def _delete(self, request: web.Request) -> web.Response:
        key = request.match_info["session"]
        if key not in self._sessions:
            raise web.HTTPNotFound(text=f"no session `{key}`; it has ended, or never began\n")
        self._hang_up(key)
        return web.Response()

    def _key_of(self, number: int) -> str | None:
        return next((key for key, one in self._sessions.items() if one.number == number), None)

    def _hang_up(self, key: str) -> None:
        self._send({"connection": self._sessions[key].number, "close": True})
        self._forget(key)

    def _forget(self, key: str) -> None:
        ended = self._sessions.pop(key)
        if not ended.plays:
            self._publications.pop(ended.name, None)


async def offer_of(request: web.Request) -> str:
    """The SDP offer in a request.

    Raises:
        HTTPUnsupportedMediaType: the content is of another type.
        HTTPBadRequest: the content is no session description.
    """
    if request.content_type != SDP:
        raise web.HTTPUnsupportedMediaType(
            text=f"got content of type `{request.content_type}`; expected `{SDP}`\n"
        )
    try:
        offer = (await request.read()).decode()
    except UnicodeDecodeError:
        offer = ""
    if not offer.startswith("v=0"):
        raise web.HTTPBadRequest(text="the content is no session description; it should begin with `v=0`\n")
    return offer


def links(server: Json) -> list[str]:
    """The ICE server of each URL as the value of a header ``Link`` (RFC 9725, section 4.6)."""
    secret = ""
    if "credential" in server:
        secret = f'; username="{server["username"]}"; credential="{server["credential"]}"'
        secret += '; credential-type="password"'
    urls = server["urls"]
    return [f'<{url}>; rel="ice-server"{secret}' for url in ([urls] if isinstance(urls, str) else urls)]


@dataclass(frozen=True)
class WhipSettings:
    """The resources of an SFU with WHIP and WHEP."""

    kind: str
    """``str0m`` or, for a server of the user's own, ``whip``."""
    whip: str | None
    """URL at which ``{name}`` publishes; None if pages do not use it."""
    whep: str | None
    """URL at which ``{name}`` plays ``{sender}``; None if pages do not use it."""
    token: str | None
    """The bearer token that clients must have, if any."""


def whip_settings(scenario: Scenario) -> dict[str, WhipSettings]:
    """The settings of each server with WHIP and WHEP, by its node."""
    found = {}
    for node, server in scenario.servers.items():
        whip, whep = server.whip, server.whep
        if server.signalling == "whip":
            whip, whep = f"http://{node}:{PORT}/whip/{{name}}", f"http://{node}:{PORT}/whep/{{sender}}"
        if server.kind in ("str0m", "whip"):
            found[node] = WhipSettings(server.kind, whip, whep, server.token)
    return found


def page_resource(connection: LiveConnection, participant: str, settings: WhipSettings) -> Json:
    """What a page needs for a connection over WHIP or WHEP: ``url``, ``token``, and whether it ``plays``."""
    plays = connection.forwards is not None
    template = settings.whep if plays else settings.whip
    assert template is not None
    url = template.replace("{name}", participant).replace("{sender}", connection.feed)
    return {"url": url, "token": settings.token, "plays": plays}


def host_and_port(url: str) -> tuple[str, int]:
    """The host of a URL, and its port."""
    parts = urlsplit(url)
    return parts.hostname or "", parts.port or (443 if parts.scheme == "https" else 80)
