"""Serves the page of a run on the loopback interface, and passes to it what happens.

It is the standard library's server, because simulated runs need no other, and because each of the few readers
costs one thread that sleeps.
"""

from __future__ import annotations

import json
import secrets
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Self
from urllib.parse import parse_qs

from rtclab.dashboard.page import POLICY, died, html, keep_page, messages
from rtclab.errors import BadInput

LOOPBACK = "127.0.0.1"
NEWS_S = 0.25
"""How often a thread looks for new lines."""
ALIVE_S = 10.0
"""How often a reader that gets nothing new is tested, so that a thread does not outlive it for long."""
LAST_NEWS_S = 2.0
"""How long the readers have in the end to take the last lines."""
SILENT_S = 30.0
"""After this time without a request, or without taking what is sent, a connection is closed."""
MOST_DIGITS = 15
"""Maximum length of an id of an event, which is a position in a file."""
RETRY_MS = 1000
"""How long a page waits before it connects again."""
HEADERS = {
    "Content-Security-Policy": f"{POLICY}; frame-ancestors 'none'",
    "Cache-Control": "no-store",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}


class Dashboard:
    """A server of the page on the loopback interface, until it is closed.

    Only who knows the token in :attr:`url` gets an answer other than 403. The server keeps nothing: the
    position in the run's file is the id of each event, so that a page that comes late gets everything, and
    one that connects again gets what it missed.
    """

    def __init__(self, port: int = 0) -> None:
        """Begins to listen.

        Args:
            port: the port; 0 takes a free one.

        Raises:
            BadInput: the port cannot be used.
        """
        try:
            self._server = _Server((LOOPBACK, port), _Handler)
        except (OSError, OverflowError) as error:
            reason = getattr(error, "strerror", None) or error
            raise BadInput(
                f"port: {LOOPBACK}:{port} cannot be used: {reason}", hint="0 takes a free port"
            ) from None
        self._thread = threading.Thread(target=self._server.serve_forever, args=(NEWS_S,), daemon=True)
        self._thread.start()

    @property
    def url(self) -> str:
        """The address of the page, with its token."""
        return f"http://{LOOPBACK}:{self._server.server_address[1]}/?token={self._server.token}"

    @contextmanager
    def showing(self, directory: Path) -> Iterator[None]:
        """Shows a run, and keeps the page in it if it has ended. The URL is printed on standard error."""
        self._server.directory = directory
        print(f"watch: {self.url}", file=sys.stderr, flush=True)
        try:
            yield
        finally:
            self._server.finish()
            keep_page(directory)

    def close(self) -> None:
        """Ends the server, after its readers have got the last lines."""
        self._server.finish()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, address: tuple[str, int], handler: type[BaseHTTPRequestHandler]) -> None:
        self.token = secrets.token_urlsafe(16)
        self.directory: Path | None = None
        self.stopping = threading.Event()
        self.readers: set[threading.Thread] = set()
        super().__init__(address, handler)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Says nothing of readers that have gone, or that do not take what is sent."""
        if not isinstance(sys.exception(), ConnectionError | TimeoutError):
            super().handle_error(request, client_address)

    def finish(self) -> None:
        """Lets the readers take the last lines, for a limited time."""
        self.stopping.set()
        deadline_s = time.monotonic() + LAST_NEWS_S
        for reader in list(self.readers):
            reader.join(max(0.0, deadline_s - time.monotonic()))


class _Handler(BaseHTTPRequestHandler):
    server: _Server
    timeout = SILENT_S

    def do_GET(self) -> None:
        """Serves the page or its events to a client with the token, and 403 to all others."""
        path, _, query = self.path.partition("?")
        token = parse_qs(query).get("token", [""])[0]
        if not secrets.compare_digest(token.encode(), self.server.token.encode()):
            self._answer(HTTPStatus.FORBIDDEN, "the URL that rtclab printed has a token; this one has not\n")
        elif path == "/":
            self._answer(HTTPStatus.OK, html(), "text/html")
        elif path == "/events":
            self._send_events()
        else:
            self._answer(HTTPStatus.NOT_FOUND, "not found\n")

    def _answer(self, status: HTTPStatus, text: str, kind: str = "text/plain") -> None:
        content = text.encode()
        self._begin(status, kind)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def _begin(self, status: HTTPStatus, kind: str) -> None:
        self.send_response(status)
        self.send_header("Content-Type", f"{kind}; charset=utf-8")
        for name, value in HEADERS.items():
            self.send_header(name, value)

    def _send_events(self) -> None:
        known = self.headers.get("Last-Event-ID", "")
        position = int(known) if known.isdecimal() and len(known) <= MOST_DIGITS else 0
        self._begin(HTTPStatus.OK, "text/event-stream")
        self.end_headers()
        self.wfile.write(f"retry: {RETRY_MS}\n\n".encode())
        self.server.readers.add(threading.current_thread())
        try:
            self._follow(position)
        finally:
            self.server.readers.discard(threading.current_thread())

    def _follow(self, position: int) -> None:
        """Sends what happens from a position on, until the server stops or the reader has gone."""
        last, said_s = "unknown" if position else None, time.monotonic()
        while True:
            stopping = self.server.stopping.is_set()  # what was written before is still sent
            directory = self.server.directory
            if directory is not None:
                for after, message in messages(directory, position):
                    self._send(message, after)
                    position, last, said_s = after, message["what"], time.monotonic()
                if last != "died" and died(directory, last):
                    last = "died"
                    self._send({"what": "died"})
            if stopping:
                return
            if time.monotonic() - said_s > ALIVE_S:
                said_s = time.monotonic()
                self.wfile.write(b":\n\n")
            self.server.stopping.wait(NEWS_S)

    def _send(self, message: dict[str, object], position: int | None = None) -> None:
        name = "" if position is None else f"id: {position}\n"
        self.wfile.write(f"{name}data: {json.dumps(message, separators=(',', ':'))}\n\n".encode())

    def log_message(self, format: str, *args: object) -> None:
        """Keeps requests out of standard error, where the run shows its progress."""
