"""A participant's page of the user's own: opens it, takes its reports, and does the steps of the scenario.

Everything that the page reports is checked, because a page may report what it likes. It can report about
itself only: each browser has a driver of its own.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from aiohttp import web
from pydantic import ValidationError

from rtclab.backend.live.browsers.drivers import DevToolsError, Driver
from rtclab.backend.live.lab.process import Process, Spawn
from rtclab.backend.live.records.page_reports import (
    MAX_TEXT,
    REPORT,
    ConnectionMade,
    LastReport,
    PageStats,
    Report,
    ReportRefused,
    StillRunning,
)
from rtclab.backend.live.records.recorder import printable
from rtclab.backend.live.user.rate_limit import page_rate_limit
from rtclab.backend.live.user.user_settings import (
    UserPageSettings,
    UserServerSettings,
    runner_of,
)
from rtclab.scenario.own_page import Step
from rtclab.trace import NS_PER_S

LAST_REPORT_TIMEOUT_S = 3.0
LOST_GRACE_S = 0.5
"""How long to wait, after the connection with the browser has ended, for a better reason."""
LOOK_INTERVAL_S = 0.05
MAX_REPORT_CHARACTERS = 1_000_000
MAX_REASON_CHARACTERS = 2000
FAR_MS = 60_000.0
"""No report is made so much later or earlier than it says."""
MAX_MESSAGES = 200
"""Maximum number of console messages, pop-ups and dialogs that are kept of a page."""
SILENT_S = 5.0
"""A page with connections that reports nothing for this long counts as stopped."""


class UserPage:
    """One participant's page. It is the listener of the browser's driver.

    Args:
        participant: the participant.
        settings: the page, its steps and its script.
        driver: makes the driver of the participant's browser.
        spawn: starts a command in the participant's namespace.
        home: directory for the output of the script. The caller deletes it.
        out: directory for pictures of the page.
        report: called with each valid report.
        event: called with the name of an event and its details.
        fail: called with the reason if the page cannot be used.
        sleep_until: sleeps until a time of the run, in ns.
    """

    def __init__(
        self,
        participant: str,
        settings: UserPageSettings,
        driver: Callable[[UserPage], Driver],
        spawn: Spawn,
        home: Path,
        out: Path,
        *,
        report: Callable[[Report], None],
        event: Callable[[str, str], None],
        fail: Callable[[str], None],
        sleep_until: Callable[[int], Awaitable[None]],
    ) -> None:
        self.participant = participant
        self._settings = settings
        self.driver = driver(self)
        self._spawn = spawn
        self._home = home
        self._out = out
        self._report, self._event, self._sleep_until = report, event, sleep_until
        self._fail: Callable[[str], None] = lambda reason: fail(printable(reason)[:MAX_REASON_CHARACTERS])
        self._finished = asyncio.Event()
        self._script: Process | None = None
        self._said = 0
        self._limit = page_rate_limit()
        self._documents: dict[str, float] = {}
        """By document with connections, when it last said so, on the clock of the event loop."""
        self._last_report_s: float | None = None
        self.opened = False
        """Whether the server of the page has answered."""
        self.refused = 0
        """How many reports of the page were not valid, or too many."""

    async def start(self) -> None:
        """Connects with the browser, which has started.

        Raises:
            CallFailed: the browser did not answer.
        """
        await self.driver.start()

    async def attend(self, address: str) -> None:
        """Opens the page, starts the script and does the steps."""
        try:
            await self.driver.open(address)
            self.opened = True
            if self._settings.script is not None:
                self._start_script(Path(self._settings.script), address)
            for number, step in enumerate(self._settings.steps):
                await self._do(step, f"participants.{self.participant}.steps.{number}")
        except DevToolsError as error:
            self._fail(f"the page of {self.participant}: {error.message}")

    async def finish(self) -> None:
        """Asks for a last report, and waits for it as long as ``LAST_REPORT_TIMEOUT_S``."""
        if self._last_report_s is None:
            return

        async def last_report() -> None:
            await self.driver.ask()
            await self._finished.wait()

        try:
            await asyncio.wait_for(last_report(), LAST_REPORT_TIMEOUT_S)
        except (TimeoutError, DevToolsError):
            self._event("page_silent", "the page made no last report")

    async def leave(self) -> None:
        """Leaves the page, which ends its connections."""
        try:
            await asyncio.wait_for(self.driver.open("about:blank"), LAST_REPORT_TIMEOUT_S)
        except (TimeoutError, DevToolsError):
            self._event("page_silent", "the page could not be left")

    async def stop(self) -> None:
        """Stops the script, and closes the connection with the browser."""
        if self._script is not None:
            await self._script.stop()
        await self.driver.stop()

    def silent_s(self) -> float | None:
        """Seconds since the last report, if they are too many for a page that runs; otherwise None."""
        if self._last_report_s is None:
            return None
        silent_s = asyncio.get_running_loop().time() - self._last_report_s
        return silent_s if silent_s > SILENT_S else None

    # --- what the page does ---

    def on_report(self, text: str) -> None:
        now_s = asyncio.get_running_loop().time()
        if len(text) > MAX_REPORT_CHARACTERS or not self._limit.allows(reports=1, characters=len(text)):
            self.refused += 1
            return
        try:
            report = REPORT.validate_json(text)
            if isinstance(report, PageStats) and not self._limit.allows(rows=report.rows):
                raise ValueError("the page reports too much")
            if abs(report.at_ms - time.time() * 1000) > FAR_MS:
                raise ValueError("the report is not of this time")
            self._report(report)
        except (ReportRefused, ValidationError, ArithmeticError, LookupError, TypeError, ValueError):
            self.refused += 1
            return
        self._last_report_s = now_s
        if isinstance(report, ConnectionMade | StillRunning):
            self._documents[report.page] = now_s
        if isinstance(report, LastReport):
            self._documents.pop(report.page, None)
            if not self._running():
                self._finished.set()

    def _running(self) -> list[str]:
        """The documents with connections that have reported lately, and have not made their last report."""
        now_s = asyncio.get_running_loop().time()
        return [page for page, at_s in self._documents.items() if now_s - at_s < LAST_REPORT_TIMEOUT_S]

    def on_console(self, text: str) -> None:
        self._say("console_error", text)

    def on_popup(self, address: str) -> None:
        self._say("popup", address)

    def on_dialog(self, text: str) -> None:
        self._say("dialog", text)

    def on_crash(self) -> None:
        self._fail(f"the page of {self.participant} crashed")

    def on_lost(self, reason: str) -> None:
        # If the browser ends, its exit status and last words say more.
        loop = asyncio.get_running_loop()
        loop.call_later(LOST_GRACE_S, self._fail, f"the page of {self.participant}: {reason}")

    def _say(self, event: str, detail: str) -> None:
        self._said += 1
        if self._said <= MAX_MESSAGES:
            self._event(event, _short(detail))

    # --- what the scenario does with it ---

    async def _do(self, step: Step, where: str) -> None:
        await self._sleep_until(step.at.ns)
        if step.wait is not None:
            await asyncio.sleep(step.wait.ns / NS_PER_S)
        elif step.screenshot is not None:
            picture = self._out / f"{self.participant}-{step.screenshot}.png"
            picture.write_bytes(await self.driver.screenshot())
        elif step.wait_for is not None:
            await self._visible(step.wait_for, step, where)
        elif step.click is not None:
            await self.driver.click(*await self._visible(step.click, step, where))
        else:
            if step.into is not None:
                await self.driver.click(*await self._visible(step.into, step, where))
            await self.driver.type(step.type or "")

    async def _visible(self, selector: str, step: Step, where: str) -> tuple[float, float]:
        """The middle of an element, as soon as it is visible.

        Raises:
            DevToolsError: it does not become visible in time, or the selector is not valid.
        """
        deadline_s = asyncio.get_running_loop().time() + step.timeout.ns / NS_PER_S
        while True:
            found = await self.driver.evaluate(f"({FIND})({json.dumps(selector)})")
            if (
                isinstance(found, list)
                and len(found) == 2
                and all(isinstance(at, int | float) for at in found)
            ):
                return float(found[0]), float(found[1])
            if asyncio.get_running_loop().time() > deadline_s:
                raise DevToolsError(
                    f"{where}: no element `{selector}` was visible within {step.timeout.ns / NS_PER_S:g} s"
                )
            await asyncio.sleep(LOOK_INTERVAL_S)

    def _start_script(self, script: Path, address: str) -> None:
        program = runner_of(script)
        self._script = Process(
            f"the script {script.name} of {self.participant}",
            self._spawn,
            self._home / "script",
            self._fail,
            may_finish=True,
        )
        environment = {"RTCLAB_DEVTOOLS": str(self.driver.address), "RTCLAB_PAGE": address}
        self._script.start([program, str(script)], environment, directory=script.parent)


# Shadow trees and frames of the same origin are searched too. A position in a frame counts from the corner of
# the frame.
FIND = """(selector) => {
  const look = (root, left, top) => {
    const element = root.querySelector(selector);
    if (element) {
      element.scrollIntoView({ block: "center", inline: "center" });
      const { x, y, width, height } = element.getBoundingClientRect();
      const shown = width > 0 && height > 0 && getComputedStyle(element).visibility === "visible";
      if (shown) return [left + x + width / 2, top + y + height / 2];
    }
    for (const one of root.querySelectorAll("*")) {
      const inside = one.shadowRoot ?? (one.tagName === "IFRAME" ? one.contentDocument : null);
      if (!inside) continue;
      const { x, y } = one.shadowRoot ? { x: 0, y: 0 } : one.getBoundingClientRect();
      const found = look(inside, left + x, top + y);
      if (found) return found;
    }
    return null;
  };
  return look(document, 0, 0);
}"""


def _short(text: str) -> str:
    return text if len(text) <= MAX_TEXT else f"{text[: MAX_TEXT - 1]}…"


def files_of_page(file: Path) -> web.Application:
    """Serves an HTML file, and the files beside it that are not hidden, to the participant's own browser.

    A link is served if it leads to a file that is served, too.
    """
    directory = file.parent.resolve()

    @web.middleware
    async def not_hidden(request: web.Request, handler: Any) -> web.StreamResponse:
        # This refuses what is outside of the directory. A link in it may still lead to a hidden file.
        response: web.StreamResponse = await handler(request)
        asked = Path(request.match_info["filename"])
        found = (directory / asked).resolve().relative_to(directory)
        if any(part.startswith(".") for part in (*asked.parts, *found.parts)):
            raise web.HTTPNotFound
        return response

    application = web.Application(middlewares=[not_hidden])
    application.router.add_static("/", directory, follow_symlinks=False)
    return application


def secure_origins(
    address: str, servers: Mapping[str, UserServerSettings], addresses: Mapping[str, str]
) -> list[str]:
    """Origins without TLS that a browser should treat as secure, so that pages may use a camera.

    These are the origins of the page and of all servers of the user's own, by name and by address.
    """
    parts = urlsplit(address)
    found = [f"{parts.scheme}://{parts.netloc}"] if parts.scheme == "http" else []
    for node, settings in servers.items():
        port = settings.port
        if port is not None:
            found += [f"http://{host}:{port}" for host in (node, addresses[node])]
    return list(dict.fromkeys(found))


def trust_arguments(browser: str, origins: Sequence[str], keys: Sequence[str]) -> list[str]:
    """Arguments with which Chromium treats origins as secure, and accepts certificates with these keys.

    Firefox has preferences and its driver for both.
    """
    if browser != "chromium":
        return []
    arguments = [f"--unsafely-treat-insecure-origin-as-secure={','.join(origins)}"] if origins else []
    if keys:
        arguments.append(f"--ignore-certificate-errors-spki-list={','.join(keys)}")
    return arguments
