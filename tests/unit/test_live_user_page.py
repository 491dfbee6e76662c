"""How rtclab drives the browser of a page of the user's own, and which files it serves to it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from aiohttp.test_utils import TestClient, TestServer

from rtclab.backend.live.browsers import drivers as drivers
from rtclab.backend.live.browsers.drivers import (
    DevToolsConnection,
    DevToolsError,
    chromium_socket,
    firefox_socket,
)
from rtclab.backend.live.user.user_page import files_of_page

IDENTIFIER = "/devtools/browser/1f3b6a52-77d4-4f0e-9d41-6a2b6c0f9e11"


async def answer(request: web.Request) -> web.WebSocketResponse:
    """A browser that answers a command with what the command says, if it says anything."""
    socket = web.WebSocketResponse()
    await socket.prepare(request)
    async for received in socket:
        command = json.loads(received.data)
        match command["method"]:
            case "echo":
                await socket.send_str(json.dumps({"id": command["id"], "result": command["params"]}))
            case "raw":
                await socket.send_str(command["params"]["text"])
            case "bytes":
                await socket.send_frame(b"\xff", 1)
            case "end":
                await socket.close()
    return socket


async def ended(connection: DevToolsConnection, method: str, **parameters: Any) -> list[str]:
    """The errors of two commands that wait for answers, of which the second one ends the connection."""
    waiting = [connection.command("nothing"), connection.command(method, **parameters)]
    found = await asyncio.wait_for(asyncio.gather(*waiting, return_exceptions=True), 10)
    return [error.message for error in found if isinstance(error, DevToolsError)]


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Connections stay in the network of this process, and take small messages only."""
    monkeypatch.setattr(drivers, "sockets_in_node", lambda _name: None)
    monkeypatch.setattr(drivers, "MAX_MESSAGE_BYTES", 1000)


def with_browser(check: Callable[[DevToolsConnection, list[str]], Any]) -> list[str]:
    """Checks a connection with the browser. Returns the reasons why the listener thinks that it is lost."""

    async def run() -> list[str]:
        application = web.Application()
        application.router.add_get("/", answer)
        lost: list[str] = []
        async with TestServer(application) as server:
            connection = DevToolsConnection(lambda _event: None, lost.append)
            await connection.open("alice", str(server.make_url("/")))
            await check(connection, lost)
            await connection.close()
        return lost

    return asyncio.run(run())


@pytest.mark.parametrize(
    ("method", "text", "reason"),
    [
        ("raw", "x" * 2000, drivers.TOO_LONG),
        ("bytes", "", drivers.DAMAGED),
        ("end", "", drivers.CLOSED),
    ],
)
@pytest.mark.usefixtures("small")
def test_when_the_connection_ends_commands_fail_and_the_listener_is_told(
    method: str, text: str, reason: str
) -> None:
    async def check(connection: DevToolsConnection, lost: list[str]) -> None:
        assert await connection.command("echo", value=1) == {"value": 1}
        assert await ended(connection, method, text=text) == [reason, reason]
        assert lost == [reason]
        with pytest.raises(DevToolsError, match="later: the browser has closed its DevTools"):
            await connection.command("later")

    assert with_browser(check) == [reason]


@pytest.mark.usefixtures("small")
def test_whoever_closes_a_connection_is_not_told_that_it_is_lost() -> None:
    async def check(connection: DevToolsConnection, _lost: list[str]) -> None:
        assert await connection.command("echo", value=1) == {"value": 1}

    assert with_browser(check) == []


@pytest.mark.parametrize("text", ["{", "[]", "1", '{"id": []}', "[" * 400])
@pytest.mark.usefixtures("small")
def test_a_message_of_no_browser_is_skipped(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    async def check(connection: DevToolsConnection, lost: list[str]) -> None:
        monkeypatch.setattr(drivers, "ANSWER_TIMEOUT_S", 0.2)
        with pytest.raises(DevToolsError, match="raw: the page did not answer"):
            await connection.command("raw", text=text)
        monkeypatch.setattr(drivers, "ANSWER_TIMEOUT_S", 20.0)
        assert await connection.command("echo", value=1) == {"value": 1}

    assert with_browser(check) == []


def test_a_file_with_the_socket_of_the_browser_is_read_when_it_is_complete() -> None:
    chromium = f"41234\n{IDENTIFIER}"
    assert chromium_socket(chromium) == (41234, IDENTIFIER)
    assert {chromium_socket(chromium[:size]) for size in range(len(chromium))} == {None}
    firefox = json.dumps({"ws_host": "127.0.0.1", "ws_port": 41234})
    assert firefox_socket(firefox) == ("127.0.0.1", 41234)
    assert {firefox_socket(firefox[:size]) for size in range(len(firefox))} == {None}


def test_a_file_with_the_socket_that_is_never_complete_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(drivers, "READY_TIMEOUT_S", 0.2)
    listener: Any = type("Listener", (), {"on_lost": None})
    driver = drivers.ChromiumDriver("alice", tmp_path, listener)
    (tmp_path / "DevToolsActivePort").write_text(f"41234\n{IDENTIFIER[:-1]}")
    with pytest.raises(DevToolsError, match=r"did not open its DevTools within 0\.2 s"):
        asyncio.run(driver.start())


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The directory of a page, with hidden files, and with links to them, to others, and to the outside."""
    (tmp_path / "secret").mkdir()
    (tmp_path / "secret" / "key").write_text("key")
    made = tmp_path / "page"
    for name in ("index.html", "parts/part.js", ".env", ".git/config"):
        (made / name).parent.mkdir(parents=True, exist_ok=True)
        (made / name).write_text(name)
    links = {
        "other.html": "index.html",
        "more": "parts",
        "env": ".env",
        "git": ".git",
        ".index": "index.html",
    }
    outside = {"out": "../secret", "key": "../secret/key", "loop": "loop", "absent": "nothing"}
    for link, target in (links | outside).items():
        (made / link).symlink_to(target)
    return made


def test_a_page_gets_the_files_beside_it_but_none_that_are_hidden_or_elsewhere(folder: Path) -> None:
    async def ask(paths: list[str]) -> dict[str, int]:
        async with TestClient(TestServer(files_of_page(folder / "index.html"))) as client:
            return {path: (await client.get(f"/{path}")).status for path in paths}

    served = ["index.html", "parts/part.js", "other.html", "more/part.js"]
    hidden = [".env", "%2eenv", "env", ".git/config", "git/config", ".index", "parts%2f..%2f.env"]
    elsewhere = ["key", "out/key", "..%2fsecret%2fkey", "loop", "absent", "nothing", "%00"]
    assert asyncio.run(ask(served)) == dict.fromkeys(served, 200)
    refused = hidden + elsewhere
    assert asyncio.run(ask(refused)) == dict.fromkeys(refused, 404)
