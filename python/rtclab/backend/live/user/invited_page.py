"""Serves the call page to a browser on the network, which needs a token to see it and then holds the seat.

Everything is below the path ``/TOKEN/`` of one port, over TLS. The first browser that takes the seat gets a
cookie; all others are refused. Opening the address does not take the seat, because messengers open addresses
for a preview.

The page sends its reports and its signalling in requests, and gets messages as server-sent events. It has no
WebSocket, because Safari on iOS opens none to a server whose certificate only the user has accepted (WebKit
bug 145819).
"""

from __future__ import annotations

import asyncio
import hmac
import json
import secrets
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from html import escape
from typing import Any

from aiohttp import ClientError, ClientSession, ClientWebSocketResponse, TCPConnector, WSMsgType, web

from rtclab.backend.live.browsers.page_server import PAGE_DIRECTORY, PageServer, isolate
from rtclab.backend.live.lab.namespaces import sockets_in_node
from rtclab.backend.live.messages import Message
from rtclab.backend.live.records.page_reports import ReportRefused, printable_line
from rtclab.backend.live.user.invited_reports import PageClock, ReportChecker, messages
from rtclab.backend.live.user.rate_limit import page_rate_limit

COOKIE = "seat"
CHANNELS = ("report", "signalling")
MAX_BODY_BYTES = 500_000

QUESTIONS = 10
"""Number of answers after which the clock of a page counts as known."""
QUESTION_INTERVAL_S, LATER_INTERVAL_S = 0.05, 1.0
ANSWER_TIMEOUT_S = 2.0
SILENT_S = 10.0
"""A page that answers nothing for this long has gone."""

HEADERS = {
    "Cache-Control": "no-store",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}
TAKEN = "Another browser has taken this seat, or this one has lost its cookie."


class InvitedPage(PageServer):
    """The page of one seat.

    Args:
        participant: whose seat it is.
        checker: checks the messages of the page.
        signalling: URL of the signalling server in ``core``, to which ``&calls=…`` can be added. Messages go
            to it from the participant's node, so that they cross the emulated network.
        on_taken: called once with a description of the browser that takes the seat, and its address.
        on_message: called with each checked report.
        on_closed: called when the page has gone.
        on_error: called with the error if a message is refused.
    """

    def __init__(
        self,
        participant: str,
        checker: ReportChecker,
        signalling: str,
        *,
        on_taken: Callable[[str, str], None],
        on_message: Callable[[Message], None],
        on_closed: Callable[[], None],
        on_error: Callable[[Exception], None],
    ) -> None:
        super().__init__(on_message, on_closed, on_error)
        self.token = secrets.token_urlsafe(16)
        self._participant = participant
        self._checker = checker
        self._signalling = signalling
        self._on_taken = on_taken
        self._secret: str | None = None
        self._events: web.StreamResponse | None = None
        self._has_signalling = False
        self._upstream: ClientWebSocketResponse | None = None
        self._ready: Message | None = None
        """The report that the page has its camera, until the page's clock is known."""
        self._heard_s = 0.0
        self._answered = asyncio.Event()
        self._limit = page_rate_limit()
        self.refused = 0
        """How many messages were dropped because the page sent too much."""

    def application(self) -> web.Application:
        """The server as an aiohttp application, below ``/TOKEN/``."""
        inner = web.Application(middlewares=[isolate], client_max_size=MAX_BODY_BYTES)
        inner.router.add_get("/", self._index)
        inner.router.add_post("/take", self._take)
        inner.router.add_get("/report", self._report)
        inner.router.add_post("/report", self._take_reports)
        inner.router.add_get("/signalling", self._signal)
        inner.router.add_post("/signalling", self._take_signals)
        inner.router.add_static("/", PAGE_DIRECTORY)
        outer = web.Application(middlewares=[self._admit], client_max_size=MAX_BODY_BYTES)
        outer.add_subapp(f"/{self.token}/", inner)
        return outer

    async def send(self, kind: str, **fields: Any) -> None:
        """Sends a command such as ``join`` or ``leave`` to the page, if it is still connected."""
        if self._events is not None:
            with suppress(ConnectionError):
                await _write(self._events, json.dumps({"type": kind, **fields}))

    @web.middleware
    async def _admit(
        self, request: web.Request, handler: Callable[[web.Request], Awaitable[web.StreamResponse]]
    ) -> web.StreamResponse:
        """Answers only requests with the token and, once the seat is taken, with the cookie."""
        refusal = self._refusal(request)
        if refusal is not None:
            refusal.force_close()  # a stranger keeps no connection
            raise refusal
        response = await handler(request)
        if not response.prepared:
            response.headers.update(HEADERS)
        return response

    def _refusal(self, request: web.Request) -> web.HTTPException | None:
        token, _, path = request.path.removeprefix("/").partition("/")
        if not _equal(token, self.token):
            return web.HTTPNotFound(headers=HEADERS)
        if self._secret is None and path in CHANNELS:
            return web.HTTPForbidden(headers=HEADERS, text="Take the seat first.")
        if self._secret is not None and not _equal(request.cookies.get(COOKIE, ""), self._secret):
            return web.HTTPGone(headers=HEADERS, text=TAKEN)
        return None

    async def _index(self, _request: web.Request) -> web.Response:  # type: ignore[override]
        text = (
            (PAGE_DIRECTORY / "invited.html").read_text().replace("{participant}", escape(self._participant))
        )
        return web.Response(text=text, content_type="text/html")

    async def _take(self, request: web.Request) -> web.Response:
        if self._secret is None:
            self._secret = secrets.token_urlsafe(16)
            browser = printable_line(request.headers.get("User-Agent", "an unnamed browser"))
            self._on_taken(browser, request.remote or "")
        response = web.Response(status=204)
        path = f"/{self.token}/"
        response.set_cookie(COOKIE, self._secret, path=path, secure=True, httponly=True, samesite="Strict")
        return response

    async def _report(self, request: web.Request) -> web.StreamResponse:
        """Sends the commands of the session, and questions to the page's clock, until the page has gone."""
        events = await _begun(request)
        if self._events is not None:
            self._on_closed()  # the page has been loaded again
        self._events = events
        self._ready, self._heard_s = None, time.monotonic()
        self._checker.clock = PageClock()
        try:
            # The first answer comes before all reports, whose times it explains.
            await self._ask(events)
            await _write(events, json.dumps({"type": "configure", **self._configuration}))
            while self._events is events and time.monotonic() - self._heard_s < SILENT_S:
                with suppress(TimeoutError):
                    await asyncio.wait_for(self._answered.wait(), ANSWER_TIMEOUT_S)
                known = self._checker.clock.answers >= QUESTIONS
                if known and self._ready is not None:
                    self._on_message(self._ready)
                    self._ready = None
                await asyncio.sleep(LATER_INTERVAL_S if known else QUESTION_INTERVAL_S)
                await self._ask(events)
        except ConnectionError:
            pass  # the page has gone
        finally:
            if self._events is events:
                self._events = None
                self._on_closed()
        return events

    async def _ask(self, events: web.StreamResponse) -> None:
        """Asks the page for the time of its clock."""
        self._answered.clear()
        question = self._checker.clock.ask(time.time() * 1e3)
        await _write(events, json.dumps({"type": "clock", "question": question}))

    async def _take_reports(self, request: web.Request) -> web.Response:
        now_ms = time.time() * 1e3
        for message in await self._messages(request):
            try:
                report = self._checker.report(message, now_ms)
                rows = len(report.get("reports", ())) + len(report.get("frames", ()))
                if not self._limit.allows(rows=rows):
                    self.refused += 1
                elif report["type"] == "clock":
                    self._answered.set()
                elif report["type"] == "ready":
                    self._ready = report
                else:
                    self._on_message(report)
            except Exception as error:
                self._on_error(error)
                raise web.HTTPBadRequest(text="refused") from None
        return web.Response(status=204)

    async def _signal(self, request: web.Request) -> web.StreamResponse:
        """Passes on what the signalling server sends to the participant."""
        if self._has_signalling:
            raise web.HTTPConflict(text="This page is open in another tab.")
        self._has_signalling = True
        asked = request.query.get("calls", "")
        calls = [call for call in sorted(self._checker.calls) if str(call) in asked.split(",")]
        url = f"{self._signalling}&calls={','.join(map(str, calls))}"
        connector = TCPConnector(socket_factory=sockets_in_node(self._participant))
        try:
            async with ClientSession(connector=connector) as session, session.ws_connect(url) as upstream:
                self._upstream = upstream
                events = await _begun(request)
                async for message in upstream:
                    if message.type is WSMsgType.TEXT:
                        await _write(events, message.data)
                return events
        except ClientError as error:
            raise web.HTTPBadGateway(text=f"no signalling: {type(error).__name__}") from None
        finally:
            self._upstream, self._has_signalling = None, False

    async def _take_signals(self, request: web.Request) -> web.Response:
        for message in await self._messages(request):
            if self._upstream is None:
                raise web.HTTPConflict(text="no signalling")
            try:
                await self._upstream.send_str(json.dumps(self._checker.signal(message)))
            except ReportRefused as error:
                self._on_error(error)
                raise web.HTTPBadRequest(text="refused") from None
        return web.Response(status=204)

    async def _messages(self, request: web.Request) -> list[Any]:
        """The messages of a request; those that are too many are dropped and counted."""
        try:
            body = await request.text()
            self._heard_s = time.monotonic()
            if not self._limit.allows(characters=len(body)):
                self.refused += 1
                return []
            found = messages(body)
        except (ReportRefused, UnicodeError, LookupError, web.HTTPRequestEntityTooLarge) as error:
            self._on_error(error)
            raise web.HTTPBadRequest(text="refused") from None
        taken = [message for message in found if self._limit.allows(reports=1)]
        self.refused += len(found) - len(taken)
        return taken


def _equal(given: str, expected: str) -> bool:
    """Whether two secrets are equal, in a time that does not depend on where they differ."""
    return hmac.compare_digest(given.encode(errors="replace"), expected.encode())


async def _begun(request: web.Request) -> web.StreamResponse:
    """A stream of server-sent events to the page (HTML standard, section 9.2)."""
    events = web.StreamResponse(headers={**HEADERS, "Content-Type": "text/event-stream"})
    await events.prepare(request)
    # Browsers report the stream as open when its first bytes arrive.
    await events.write(b":\n\n")
    return events


async def _write(events: web.StreamResponse, line: str) -> None:
    """Sends one event.

    Raises:
        ConnectionError: the page has gone.
    """
    await events.write(f"data: {line}\n\n".encode())
