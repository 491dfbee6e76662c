"""Pages in browsers that nobody observes: what rtclab's own browsers are compared with."""

from __future__ import annotations

import asyncio
import subprocess
from functools import partial
from pathlib import Path
from typing import Any

from small_network import connect

from rtclab.backend.live.browser import BrowserProcess
from rtclab.backend.live.namespaces import node_command
from rtclab.backend.live.process import Process

HOMES = Path("/run/homes")
OPTIONS = {"name": "chromium", "field_trials": "", "encryption": True, "args": []}


def run_pages(argument: dict[str, Any], _emit: Any) -> dict[str, Any]:
    """Opens the page of each participant in a lab, and closes them after ``seconds``.

    Args:
        argument: ``command`` and ``port`` of the server ``app``; by participant, the path of its page on that
            server as ``pages``; ``browser``, the program; ``clip``, its camera; ``seconds``.
    """
    nodes, emulator = connect("app", *argument["pages"])
    origin = f"http://{nodes['app'].address}:{argument['port']}"

    def fail(reason: str) -> None:
        raise AssertionError(reason)

    async def run() -> None:
        server = Process("the server", partial(spawn, "app"), HOMES / "app", fail)
        server.start(argument["command"])
        await server.listening(nodes["app"].address, argument["port"], protocols=("tcp",), timeout_s=10)
        browsers = [
            BrowserProcess(name, partial(spawn, name), HOMES / name, fail) for name in argument["pages"]
        ]
        secure = [f"--unsafely-treat-insecure-origin-as-secure={origin}"]
        for browser in browsers:
            page = origin + argument["pages"][browser.participant]
            browser.start(argument["browser"], page, argument["clip"], {**OPTIONS, "args": secure})
        await asyncio.sleep(argument["seconds"])
        await asyncio.gather(*(browser.stop() for browser in browsers), server.stop())

    try:
        asyncio.run(run())
    finally:
        emulator.stop()
    return {}


def spawn(node: str, command: list[str], **options: Any) -> subprocess.Popen[bytes]:
    return subprocess.Popen(node_command(node, command), **options)
