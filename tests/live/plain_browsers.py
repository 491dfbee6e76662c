"""Pages in browsers that nobody observes: what rtclab's own browsers are compared with."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import Any

from small_network import connect
from strange_call import PORT, SERVER, log

from rtclab.backend.live.browsers.browser_process import BrowserProcess
from rtclab.backend.live.lab.namespaces import node_command
from rtclab.backend.live.lab.process import Process
from rtclab.backend.live.session import BROWSER_NICENESS
from rtclab.scenario import Browser

HOMES = Path("/run/homes")
START_TIMEOUT_S = 10
PAGES_TIMEOUT_S = 60


def run_pages(argument: dict[str, Any], _emit: Any) -> dict[str, Any]:
    """Opens the page of each participant in a lab, and closes all after ``seconds``, when they are done.

    Args:
        argument: ``pages``, the path of each participant's page on the server ``app``; ``folder`` of their
            logs; ``browser``, the program; ``clip``, its camera; ``seconds``.
    """
    nodes, emulator = connect("app", *argument["pages"])
    address, folder = nodes["app"].address, Path(argument["folder"])
    origin = f"http://{address}:{PORT}"
    secure = [f"--unsafely-treat-insecure-origin-as-secure={origin}"]
    options = Browser(args=secure)

    def fail(reason: str) -> None:
        raise AssertionError(reason)

    async def run() -> None:
        server = Process("the server", partial(spawn, "app"), HOMES / "app", fail)
        server.start([sys.executable, str(SERVER), str(PORT), str(folder)])
        await server.listening(address, PORT, protocols=("tcp",), timeout_s=START_TIMEOUT_S)
        browsers = [
            BrowserProcess(name, partial(spawn, name), HOMES / name, fail) for name in argument["pages"]
        ]
        for browser in browsers:
            page = f"{origin}/{argument['pages'][browser.participant]}"
            browser.start(argument["browser"], page, argument["clip"], options)
        async with asyncio.timeout(PAGES_TIMEOUT_S):
            while not all(has_run(folder, name, argument["seconds"]) for name in argument["pages"]):
                await asyncio.sleep(0.5)
        await asyncio.gather(*(browser.stop() for browser in browsers), server.stop())

    try:
        asyncio.run(run())
    finally:
        emulator.stop()
    return {}


def spawn(node: str, command: list[str], **options: Any) -> subprocess.Popen[bytes]:
    """Starts a command with the priority of rtclab's browsers."""
    return subprocess.Popen(node_command(node, ["nice", "-n", str(BROWSER_NICENESS), *command]), **options)


def has_run(folder: Path, name: str, seconds: float) -> bool:
    """Whether a page has done all that it does and has run for ``seconds``, according to its log."""
    try:
        said = log(folder, name)
    except FileNotFoundError:
        return False
    return bool(said["done"] and said["stats"][-1]["at"] >= 1000 * seconds)
