"""A network outside of a lab that stands for the user's machine; a second browser comes from there."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import json
import re
import socket
import ssl
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from base64 import b64decode, b64encode
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import aiohttp
from cryptography import x509
from cryptography.hazmat.primitives import serialization

from rtclab.backend.live.browsers.browser_process import CHROMIUM_FLAGS
from rtclab.backend.live.browsers.drivers import DevToolsConnection, firefox_socket
from rtclab.backend.live.browsers.firefox import Firefox
from rtclab.backend.live.browsers.launch_options import find_chromium, find_firefox
from rtclab.backend.live.lab.namespaces import (
    _bring_up,
    call_in_node,
    create_namespace,
    node_command,
    set_up_interface,
)
from rtclab.scenario import Browser

HOST, OUTSIDE = "10.99.0.1", "10.99.0.2"
PLACE = "outside"
PATIENCE_S = 60.0
SCANNED = range(1, 1 << 16)
AT_ONCE = 400


def make_outside() -> None:
    """Joins this lab by a cable with a namespace ``outside``."""
    from pyroute2 import IPRoute

    create_namespace(PLACE)
    with IPRoute() as here:
        here.link("add", ifname="cable", kind="veth", peer={"ifname": "eth0", "net_ns_fd": PLACE})
        here.addr("add", index=here.link_lookup(ifname="cable")[0], address=HOST, prefixlen=24)
    _bring_up("cable")
    set_up_interface(PLACE, "eth0", OUTSIDE)
    subprocess.run(node_command(PLACE, ["ip", "route", "add", "default", "via", HOST]), check=True)


def until(found: Callable[[], Any], what: str) -> Any:
    """The first true value of ``found``."""
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline:
        if value := found():
            return value
        time.sleep(0.1)
    raise AssertionError(f"{what}: not within {PATIENCE_S:g} s")


class Run:
    """``rtclab run`` in this lab, and what it has said on standard error."""

    def __init__(self, *arguments: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "rtclab", "run", *arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self.said = ""
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stderr is not None
        for line in self.process.stderr:
            self.said += line

    def says(self, pattern: str) -> re.Match[str]:
        """Waits until standard error matches."""

        def look() -> re.Match[str] | None:
            found = re.search(pattern, self.said)
            if found is None and self.process.poll() is not None:
                raise AssertionError(f"the run ended without {pattern}:\n{self.said}")
            return found

        found: re.Match[str] = until(look, pattern)
        return found

    def end(self) -> dict[str, Any]:
        """Waits for the end, and returns what the run has said, its status and its result."""
        assert self.process.stdout is not None
        output = self.process.stdout.read()
        status = self.process.wait()
        self._reader.join()
        return {"status": status, "said": self.said, "output": output}


def visit(url: str, *, post: bool = False, cookie: str = "") -> tuple[int, str]:
    """The status of a request from outside, and the text of the answer."""
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    request = urllib.request.Request(url, method="POST" if post else "GET")
    if cookie:
        request.add_header("Cookie", cookie)

    def ask() -> tuple[int, str]:
        try:
            with urllib.request.urlopen(request, context=context, timeout=5) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode()

    return call_in_node(PLACE, ask)


def certificate_of(port: int) -> x509.Certificate:
    """The certificate that the host shows at a port."""
    text = call_in_node(PLACE, lambda: ssl.get_server_certificate((HOST, port)))
    return x509.load_pem_x509_certificate(text.encode())


def open_ports() -> list[int]:
    """TCP ports of the host that accept connections from outside."""

    def scan(ports: range) -> list[int]:
        found = []
        for port in ports:
            with socket.socket() as one:
                one.settimeout(2)
                if one.connect_ex((HOST, port)) == 0:
                    found.append(port)
        return found

    return call_in_node(PLACE, lambda: scan(SCANNED))


def waiting_sockets() -> dict[str, list[str]]:
    """Addresses and ports, by protocol, at which any program waits in the network of the host."""
    found: dict[str, list[str]] = {}
    for protocol in ("tcp", "udp", "tcp6", "udp6"):
        rows = [line.split() for line in Path(f"/proc/net/{protocol}").read_text().splitlines()[1:]]
        states = ("0A",) if protocol.startswith("tcp") else ("07",)
        found[protocol] = sorted({row[1] for row in rows if row[3] in states})
    return found


@contextlib.contextmanager
def browser(
    url: str, certificate: x509.Certificate, home: str, *, without: Sequence[str] = (), debug: int = 9222
) -> Iterator[int]:
    """A Chromium outside that trusts one certificate; yields the port of its DevTools."""
    key = certificate.public_key().public_bytes(
        serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo
    )
    trusted = b64encode(hashlib.sha256(key).digest()).decode()
    executable = find_chromium()
    assert executable is not None
    command = [
        "env",
        "TMPDIR=/run",  # ends with the lab
        executable,
        *(flag for flag in CHROMIUM_FLAGS if flag not in without),
        f"--user-data-dir={home}",
        "--disable-dev-shm-usage",
        "--window-size=390,844",
        f"--ignore-certificate-errors-spki-list={trusted}",
        f"--remote-debugging-port={debug}",
        "--remote-allow-origins=*",
        url,
    ]
    with subprocess.Popen(
        node_command(PLACE, command), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    ) as process:
        try:
            yield debug
        finally:
            process.terminate()


async def devtools(port: int, method: str, **params: Any) -> dict[str, Any]:
    """The result of a command to the first page of a browser outside."""
    connector = aiohttp.TCPConnector(
        socket_factory=lambda info: call_in_node(PLACE, lambda: socket.socket(*info[:3]))
    )
    async with aiohttp.ClientSession(connector=connector) as session:
        async with session.get(f"http://127.0.0.1:{port}/json") as answer:
            (page,) = [one for one in await answer.json() if one["type"] == "page"]
        async with session.ws_connect(page["webSocketDebuggerUrl"], max_msg_size=0) as channel:
            await channel.send_json({"id": 1, "method": method, "params": params})
            async for message in channel:
                said = json.loads(message.data)
                if said.get("id") == 1:
                    return dict(said["result"])
    raise AssertionError(f"no answer to {method}")


def evaluate(port: int, script: str) -> Any:
    """The value of a script in the page of a browser outside; None if there is no page yet."""
    try:
        answer = asyncio.run(
            devtools(port, "Runtime.evaluate", expression=script, returnByValue=True, userGesture=True)
        )
    except (OSError, aiohttp.ClientError, ValueError, KeyError):
        return None
    return answer["result"].get("value")


def join(port: int) -> None:
    """Clicks on the button of the page."""
    ready = "document.querySelector('#join') && !document.querySelector('#join').disabled"
    until(lambda: evaluate(port, ready), "a button to join")
    evaluate(port, "document.querySelector('#join').click()")


def screenshot(port: int, file: Path) -> None:
    """Writes a picture of the page."""
    answer = asyncio.run(devtools(port, "Page.captureScreenshot"))
    file.write_bytes(b64decode(answer["data"]))


async def visit_with_firefox(url: str, home: Path) -> None:
    """Joins with a Firefox from outside, which trusts every certificate, sees a picture, and goes."""

    def start(command: list[str], **options: Any) -> subprocess.Popen[bytes]:
        return subprocess.Popen(node_command(PLACE, command), **options)

    executable = find_firefox()
    assert executable is not None
    visitor = Firefox("a visitor", start, home, lambda reason: None)
    visitor.start(executable, "about:blank", None, Browser(name="firefox"), driven=True)
    file = visitor.profile / "WebDriverBiDiServer.json"
    protocol = DevToolsConnection(lambda event: None, on_lost=lambda reason: None)
    try:
        host, port = until(lambda: file.exists() and firefox_socket(file.read_text()), "WebDriver BiDi")
        await protocol.open(PLACE, f"ws://{host}:{port}/session")
        await protocol.command("session.new", capabilities={"alwaysMatch": {"acceptInsecureCerts": True}})
        (context,) = (await protocol.command("browsingContext.getTree"))["contexts"]
        page = context["context"]
        await protocol.command("browsingContext.navigate", context=page, url=url, wait="complete")

        async def value(script: str) -> Any:
            answer = await protocol.command(
                "script.evaluate",
                expression=script,
                target={"context": page},
                awaitPromise=False,
                userActivation=True,
            )
            return answer["result"].get("value")

        await value("document.querySelector('#join').click()")
        deadline = time.monotonic() + PATIENCE_S
        while not await value("document.querySelector('video')?.currentTime > 1"):
            assert time.monotonic() < deadline, await value("document.body.innerText")
            await asyncio.sleep(0.2)
    finally:
        await protocol.close()
        await visitor.stop()
