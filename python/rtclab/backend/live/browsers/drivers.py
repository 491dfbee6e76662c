"""Drives a browser from outside: Chromium by its DevTools protocol, Firefox by WebDriver BiDi.

Both are JSON messages over a WebSocket, which the browser opens at the loopback address of its own namespace.
Neither browser accepts such a socket from a page. A page of the user's own has no report socket, so
``observe.js`` runs before its scripts and reports through the driver.

Source: Chrome DevTools Protocol 1.3 (and its tip of tree for ``Target.setAutoAttach``); W3C, WebDriver BiDi.
"""

from __future__ import annotations

import asyncio
import base64
import json
import re
import secrets
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Protocol, TypeVar

import aiohttp

from rtclab.backend.live.lab.namespaces import sockets_in_node
from rtclab.backend.live.messages import Json
from rtclab.errors import CallFailed

Result = TypeVar("Result")

OBSERVE = Path(__file__).parent / "observe.js"
READY_TIMEOUT_S = 30.0
CHECK_INTERVAL_S = 0.05
ANSWER_TIMEOUT_S = 20.0
MAX_MESSAGE_BYTES = 64_000_000
CLOSED = "the browser has closed its DevTools"
DAMAGED = "the browser's DevTools sent what is no message"
TOO_LONG = (
    f"the browser's DevTools sent a message of more than {MAX_MESSAGE_BYTES // 10**6} MB, "
    "such as a page's text for the console; expected less"
)
ENTER = {"key": "Enter", "code": "Enter", "windowsVirtualKeyCode": 13, "text": "\r"}


ASK = """(name) => {
  const ask = (place) => {
    place.dispatchEvent(new place.Event(name));
    for (let nth = 0; nth < place.length; nth++) {
      try {
        ask(place[nth]);
      } catch {
        // a frame of another origin, which is asked by itself if it has a process of its own
      }
    }
  };
  ask(globalThis);
}"""
"""Asks a document and its frames for a last report."""


class DevToolsError(CallFailed):
    """The browser did not do what it was told to do."""


class DriverListener(Protocol):
    """What happens in the pages of a browser. All texts come from the page, so they are not to be trusted."""

    def on_report(self, text: str) -> None:
        """The observing script reported something."""

    def on_console(self, text: str) -> None:
        """The page wrote an error to its console, or raised an exception that nobody caught."""

    def on_popup(self, address: str) -> None:
        """The page opened another one."""

    def on_dialog(self, text: str) -> None:
        """The page showed a dialog, which was accepted."""

    def on_crash(self) -> None:
        """The page crashed."""

    def on_lost(self, reason: str) -> None:
        """The connection with the browser has ended by itself: there are no more reports."""


class DevToolsConnection:
    """Commands and events over one WebSocket.

    Args:
        on_event: called with each event of the browser.
        on_lost: called with the reason if the connection ends before it is closed.
    """

    def __init__(self, on_event: Callable[[Json], None], on_lost: Callable[[str], None]) -> None:
        self._on_event = on_event
        self._on_lost = on_lost
        self._session: aiohttp.ClientSession | None = None
        self._socket: aiohttp.ClientWebSocketResponse | None = None
        self._reading: asyncio.Task[None] | None = None
        self._answers: dict[int, asyncio.Future[Json]] = {}
        self._last = 0

    async def open(self, place: str, address: str) -> None:
        """Opens the WebSocket from inside a namespace.

        Raises:
            DevToolsError: the browser did not accept it.
        """
        connector = aiohttp.TCPConnector(socket_factory=sockets_in_node(place))
        self._session = aiohttp.ClientSession(connector=connector)
        try:
            self._socket = await self._session.ws_connect(address, max_msg_size=MAX_MESSAGE_BYTES)
        except aiohttp.ClientError as error:
            raise DevToolsError(f"cannot connect with the DevTools of the browser: {error}") from None
        self._reading = asyncio.create_task(self._read())

    async def command(self, method: str, **parameters: Any) -> Json:
        """Sends a command and returns the answer.

        Raises:
            DevToolsError: the browser refused, did not answer in time, or has ended.
        """
        return await self.send({"method": method, "params": parameters})

    async def send(self, message: Json) -> Json:
        """Sends a command, which has ``method`` and ``params``, and returns the answer."""
        if self._socket is None or self._socket.closed:
            raise DevToolsError(f"{message['method']}: {CLOSED}")
        self._last += 1
        answer: asyncio.Future[Json] = asyncio.get_running_loop().create_future()
        self._answers[self._last] = answer
        number = self._last
        try:
            await self._socket.send_str(json.dumps({"id": number, **message}))
            return await asyncio.wait_for(answer, ANSWER_TIMEOUT_S)
        except TimeoutError:
            raise DevToolsError(
                f"{message['method']}: the page did not answer within {ANSWER_TIMEOUT_S:g} s"
            ) from None
        except (ConnectionError, aiohttp.ClientError) as error:
            raise DevToolsError(f"{message['method']}: {error}") from None
        finally:
            self._answers.pop(number, None)

    async def close(self) -> None:
        """Closes the socket."""
        if self._reading is not None:
            self._reading.cancel()
        if self._session is not None:
            await self._session.close()

    async def _read(self) -> None:
        """Passes on what the browser sends, until the connection ends."""
        assert self._socket is not None
        reason = CLOSED
        async for received in self._socket:
            if received.type is aiohttp.WSMsgType.TEXT:
                with suppress(LookupError, TypeError, ValueError):  # what no browser sends is no event
                    self._take(json.loads(received.data))
            elif received.type is aiohttp.WSMsgType.ERROR:
                too_long = self._socket.close_code == aiohttp.WSCloseCode.MESSAGE_TOO_BIG
                reason = TOO_LONG if too_long else DAMAGED
        for answer in self._answers.values():
            if not answer.done():
                answer.set_exception(DevToolsError(reason))
        self._on_lost(reason)

    def _take(self, message: Json) -> None:
        if "id" not in message:
            self._on_event(message)
        elif (answer := self._answers.get(message["id"])) is not None and not answer.done():
            if "error" in message:
                answer.set_exception(DevToolsError(_reason(message)))
            else:
                answer.set_result(message.get("result", {}))


def _reason(message: Json) -> str:
    """The reason of a refusal: Chromium has a table, Firefox a code and a text."""
    error = message["error"]
    return str(error["message"] if isinstance(error, dict) else message.get("message", error))


class Driver:
    """Opens and operates the page of one browser.

    Args:
        place: namespace of the browser.
        profile: directory of its profile.
        listener: told what happens.
    """

    def __init__(self, place: str, profile: Path, listener: DriverListener) -> None:
        self._place = place
        self._profile = profile
        self.listener = listener
        self._asked = f"rtclab-{secrets.token_hex(8)}"
        self._connection = DevToolsConnection(self._received, listener.on_lost)
        self._tasks: set[asyncio.Task[None]] = set()

    async def start(self) -> None:
        """Connects with the browser and prepares it, so that every document is observed.

        Raises:
            DevToolsError: the browser did not answer.
        """
        raise NotImplementedError

    async def open(self, address: str) -> None:
        """Opens a page. Returns when it answered, before it has loaded completely.

        Raises:
            DevToolsError: it cannot be opened.
        """
        raise NotImplementedError

    async def evaluate(self, expression: str) -> Any:
        """The value of an expression in the page, as JSON.

        Raises:
            DevToolsError: the expression raised an error, or the page does not answer.
        """
        raise NotImplementedError

    async def click(self, x: float, y: float) -> None:
        """Clicks at a position of the page's visible part, in CSS pixels."""
        raise NotImplementedError

    async def type(self, text: str) -> None:
        """Types a text, as a keyboard does."""
        raise NotImplementedError

    async def screenshot(self) -> bytes:
        """A picture of the page, as PNG."""
        raise NotImplementedError

    async def ask(self) -> None:
        """Asks every document for a last report."""
        raise NotImplementedError

    async def stop(self) -> None:
        """Closes the connection with the browser."""
        await self._connection.close()

    @property
    def address(self) -> str | None:
        """HTTP address of the browser's DevTools, for a script of the user's own; None if there is none."""
        return None

    def _received(self, message: Json) -> None:
        raise NotImplementedError

    def _run(self, work: Awaitable[Any]) -> None:
        """Runs commands in response to an event. Errors are ignored: the page may have closed since."""

        async def quietly() -> None:
            with suppress(DevToolsError):
                await work

        task = asyncio.create_task(quietly())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _file(self, name: str, read: Callable[[str], Result | None]) -> Result:
        """What ``read`` finds in a file that the browser writes when its DevTools listen.

        The browser does not write it at once: ``read`` returns None until the file is complete.

        Raises:
            DevToolsError: it is not complete within ``READY_TIMEOUT_S``.
        """
        path = self._profile / name
        deadline_s = asyncio.get_running_loop().time() + READY_TIMEOUT_S
        while asyncio.get_running_loop().time() < deadline_s:
            if path.is_file() and (found := read(path.read_text())) is not None:
                return found
            await asyncio.sleep(CHECK_INTERVAL_S)
        raise DevToolsError(f"the browser did not open its DevTools within {READY_TIMEOUT_S:g} s")


def chromium_socket(text: str) -> tuple[int, str] | None:
    """Port and path in Chromium's ``DevToolsActivePort``; None if a part of the file is missing."""
    found = re.fullmatch(r"(\d+)\n(/devtools/browser/[0-9A-Fa-f-]{36})\n?", text)
    return None if found is None else (int(found[1]), found[2])


def firefox_socket(text: str) -> tuple[str, int] | None:
    """Host and port in Firefox's ``WebDriverBiDiServer.json``; None if a part of the file is missing."""
    try:
        about = json.loads(text)
    except ValueError:
        return None
    return about["ws_host"], about["ws_port"]


class ChromiumDriver(Driver):
    """Drives Chromium."""

    def __init__(self, place: str, profile: Path, listener: DriverListener) -> None:
        super().__init__(place, profile, listener)
        self._binding = f"rtclab{secrets.token_hex(8)}"
        self._page: str | None = None
        self._documents: set[str] = set()
        self._port = 0

    async def start(self) -> None:
        self._port, path = await self._file("DevToolsActivePort", chromium_socket)
        await self._connection.open(self._place, f"ws://127.0.0.1:{self._port}{path}")
        command = self._connection.command
        targets = (await command("Target.getTargets"))["targetInfos"]
        first = next(target for target in targets if target["type"] == "page")
        await command("Target.setAutoAttach", autoAttach=True, waitForDebuggerOnStart=True, flatten=True)
        if self._page is None:
            attached = await command("Target.attachToTarget", targetId=first["targetId"], flatten=True)
            self._page = attached["sessionId"]
        await self._in_page("Page.enable")

    async def open(self, address: str) -> None:
        done = await self._in_page("Page.navigate", url=address)
        if reason := done.get("errorText"):
            raise DevToolsError(f"{address} did not load: {reason}")

    async def evaluate(self, expression: str) -> Any:
        done = await self._in_page(
            "Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True
        )
        if (raised := done.get("exceptionDetails")) is not None:
            raise DevToolsError(_said(raised))
        return done["result"].get("value")

    async def click(self, x: float, y: float) -> None:
        for kind in ("mouseMoved", "mousePressed", "mouseReleased"):
            button = {} if kind == "mouseMoved" else {"button": "left", "clickCount": 1}
            await self._in_page("Input.dispatchMouseEvent", type=kind, x=x, y=y, **button)

    async def type(self, text: str) -> None:
        for number, line in enumerate(text.split("\n")):
            if number:
                await self._in_page("Input.dispatchKeyEvent", type="keyDown", **ENTER)
                await self._in_page("Input.dispatchKeyEvent", type="keyUp", **ENTER)
            if line:
                await self._in_page("Input.insertText", text=line)

    async def screenshot(self) -> bytes:
        return base64.b64decode((await self._in_page("Page.captureScreenshot"))["data"])

    async def ask(self) -> None:
        expression = f"({ASK})({json.dumps(self._asked)})"
        asked = [self._in("Runtime.evaluate", one, expression=expression) for one in self._documents]
        await asyncio.gather(*asked, return_exceptions=True)

    @property
    def address(self) -> str | None:
        return f"http://127.0.0.1:{self._port}"

    async def _in_page(self, method: str, **parameters: Any) -> Json:
        assert self._page is not None
        return await self._in(method, self._page, **parameters)

    async def _in(self, method: str, session: str, **parameters: Any) -> Json:
        return await self._connection.send({"method": method, "params": parameters, "sessionId": session})

    def _received(self, message: Json) -> None:
        about, session = message["params"], message.get("sessionId")
        match message["method"]:
            case "Target.attachedToTarget":
                self._attached(about)
            case "Target.detachedFromTarget":
                self._documents.discard(about["sessionId"])
            case "Runtime.bindingCalled" if about["name"] == self._binding:
                self.listener.on_report(about["payload"])
            case "Runtime.consoleAPICalled" if about["type"] in ("error", "assert"):
                self.listener.on_console(" ".join(map(_argument, about["args"])))
            case "Runtime.exceptionThrown":
                self.listener.on_console(_said(about["exceptionDetails"]))
            case "Log.entryAdded" if about["entry"]["level"] == "error":
                entry = about["entry"]
                self.listener.on_console(f"{entry['text']} {entry.get('url', '')}".strip())
            case "Page.javascriptDialogOpening" if session is not None:
                self.listener.on_dialog(about["message"])
                self._run(self._in("Page.handleJavaScriptDialog", session, accept=True))
            case "Inspector.targetCrashed" if session == self._page:
                self.listener.on_crash()

    def _attached(self, about: Json) -> None:
        session, target = about["sessionId"], about["targetInfo"]
        if target["type"] == "page":
            if self._page is None:
                self._page = session
            elif target.get("openerId"):
                self.listener.on_popup(target["url"])
        self._run(self._observe(session, document=target["type"] in ("page", "iframe")))

    async def _observe(self, session: str, *, document: bool) -> None:
        """Prepares a document, or a worker, and lets it begin."""
        commands: list[tuple[str, Json]] = [("Runtime.enable", {})]
        if document:
            self._documents.add(session)
            commands += [
                ("Page.enable", {}),
                ("Log.enable", {}),
                ("Inspector.enable", {}),
                ("Runtime.addBinding", {"name": self._binding}),
                ("Page.addScriptToEvaluateOnNewDocument", {"source": self._script()}),
                (
                    "Target.setAutoAttach",
                    {"autoAttach": True, "waitForDebuggerOnStart": True, "flatten": True},
                ),
            ]
        commands.append(("Runtime.runIfWaitingForDebugger", {}))
        # All at once: the browser answers in this order, and some answers come only when the page runs.
        await asyncio.gather(
            *(self._in(method, session, **given) for method, given in commands), return_exceptions=True
        )

    def _script(self) -> str:
        """The observing script with its two arguments. The page does not see the binding: it is deleted."""
        observe, name = OBSERVE.read_text(encoding="utf-8"), json.dumps(self._binding)
        return (
            f"(() => {{ const report = globalThis[{name}]; delete globalThis[{name}]; "
            f"if (report) ({_expression(observe)})(report, {json.dumps(self._asked)}); }})()"
        )


def _expression(script: str) -> str:
    """The observing function without the comment before it and the line break behind it."""
    return script[script.index("(report, asked)") :].strip()


def _argument(argument: Mapping[str, Any]) -> str:
    """One argument of a call of the console, as text."""
    return str(argument.get("value", argument.get("description", argument.get("type", ""))))


def _said(raised: Mapping[str, Any]) -> str:
    """An exception as text."""
    return str(raised.get("exception", {}).get("description") or raised.get("text", "an exception"))


class FirefoxDriver(Driver):
    """Drives Firefox."""

    CHANNEL = "rtclab"

    def __init__(self, place: str, profile: Path, listener: DriverListener) -> None:
        super().__init__(place, profile, listener)
        self._context = ""

    async def start(self) -> None:
        host, port = await self._file("WebDriverBiDiServer.json", firefox_socket)
        await self._connection.open(self._place, f"ws://{host}:{port}/session")
        command = self._connection.command
        await command("session.new", capabilities={"alwaysMatch": {"acceptInsecureCerts": True}})
        await command(
            "session.subscribe",
            events=[
                "log.entryAdded",
                "script.message",
                "browsingContext.contextCreated",
                "browsingContext.userPromptOpened",
            ],
        )
        self._context = (await command("browsingContext.getTree"))["contexts"][0]["context"]
        observe = _expression(OBSERVE.read_text(encoding="utf-8"))
        await command(
            "script.addPreloadScript",
            functionDeclaration=f"(report) => ({observe})(report, {json.dumps(self._asked)})",
            arguments=[{"type": "channel", "value": {"channel": self.CHANNEL}}],
        )

    async def open(self, address: str) -> None:
        try:
            await self._connection.command(
                "browsingContext.navigate", context=self._context, url=address, wait="none"
            )
        except DevToolsError as error:
            raise DevToolsError(f"{address} did not load: {error.message}") from None

    async def evaluate(self, expression: str) -> Any:
        done = await self._connection.command(
            "script.evaluate",
            expression=f"(async () => JSON.stringify((await ({expression})) ?? null))()",
            target={"context": self._context},
            awaitPromise=True,
        )
        if done["type"] == "exception":
            raise DevToolsError(str(done["exceptionDetails"]["text"]))
        return json.loads(done["result"]["value"])

    async def click(self, x: float, y: float) -> None:
        at = {"x": round(x), "y": round(y)}
        steps: list[Json] = [
            {"type": "pointerMove", **at},
            {"type": "pointerDown", "button": 0},
            {"type": "pointerUp", "button": 0},
        ]
        await self._perform({"type": "pointer", "id": "mouse", "actions": steps})

    async def type(self, text: str) -> None:
        keys = [{"\n": "\ue007"}.get(letter, letter) for letter in text]
        steps = [{"type": kind, "value": key} for key in keys for kind in ("keyDown", "keyUp")]
        await self._perform({"type": "key", "id": "keyboard", "actions": steps})

    async def _perform(self, actions: Json) -> None:
        await self._connection.command("input.performActions", context=self._context, actions=[actions])

    async def screenshot(self) -> bytes:
        done = await self._connection.command("browsingContext.captureScreenshot", context=self._context)
        return base64.b64decode(done["data"])

    async def ask(self) -> None:
        contexts = (await self._connection.command("browsingContext.getTree"))["contexts"]
        for context in _all(contexts):
            with suppress(DevToolsError):
                await self._connection.command(
                    "script.evaluate",
                    expression=f"({ASK})({json.dumps(self._asked)})",
                    target={"context": context},
                    awaitPromise=False,
                )

    def _received(self, message: Json) -> None:
        about = message.get("params", {})
        match message.get("method"):
            case "script.message" if about["channel"] == self.CHANNEL:
                self.listener.on_report(str(about["data"].get("value", "")))
            case "log.entryAdded" if about["level"] == "error":
                self.listener.on_console(str(about.get("text", "")))
            case "browsingContext.contextCreated" if about.get("originalOpener"):
                self.listener.on_popup(about["url"])
            case "browsingContext.userPromptOpened":
                self.listener.on_dialog(str(about.get("message", "")))
                self._run(
                    self._connection.command(
                        "browsingContext.handleUserPrompt", context=about["context"], accept=True
                    )
                )


def _all(contexts: list[Json]) -> list[str]:
    """All browsing contexts of trees of contexts."""
    return [name for one in contexts for name in (one["context"], *_all(one.get("children") or []))]


DRIVERS: dict[str, type[Driver]] = {"chromium": ChromiumDriver, "firefox": FirefoxDriver}
"""The driver of each browser that a scenario can name."""
