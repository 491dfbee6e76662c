"""Firefox with a page of its own: the camera that it opens, and how it ends."""

from __future__ import annotations

import asyncio
import subprocess
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import psutil
import pytest
from aiohttp import web

from rtclab.backend.live.browsers.firefox import Firefox
from rtclab.backend.live.browsers.launch_options import find_firefox
from rtclab.backend.live.browsers.media_files import prepare_movie
from rtclab.backend.live.browsers.page_server import PAGE_DIRECTORY, isolate
from rtclab.scenario import Browser

pytestmark = [pytest.mark.live, pytest.mark.needs("python packages", "firefox")]

TIMEOUT_S = 60
"""How long a test waits for what must happen, even on a busy machine."""
OPEN_CAMERA = """<!doctype html><body><script type="module">
import { openCamera } from "./media.js";
const tell = (said) => fetch("/said", { method: "POST", body: JSON.stringify(said) });
try {
  const video = { width: 320, height: 240, frameRate: 15 };
  const camera = await openCamera({ video, audio: {}, clip: "/clip" });
  const shown = document.createElement("video");
  Object.assign(shown, { srcObject: camera, muted: true });
  document.body.append(shown);
  await shown.play();
  let frames = 0;
  const count = () => { frames += 1; shown.requestVideoFrameCallback(count); };
  shown.requestVideoFrameCallback(count);
  await new Promise((resolve) => setTimeout(resolve, 4000));
  const kinds = camera.getTracks().map(({ kind }) => kind).sort();
  await tell({ kinds, width: shown.videoWidth, height: shown.videoHeight, frames });
} catch (error) {
  await tell({ error: String(error) });
}
</script>"""


def in_firefox(
    tmp_path: Path, then: Callable[[Firefox, asyncio.Future[Any], list[str]], Awaitable[None]]
) -> None:
    """Runs Firefox with the page :data:`OPEN_CAMERA`; ``then`` gets it, what it says, and why it exited."""
    executable = find_firefox()
    assert executable is not None
    movie = prepare_movie(320, 240, 15)

    async def run() -> None:
        said: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        exits: list[str] = []

        async def answer(request: web.Request) -> web.StreamResponse:
            if request.path == "/said":
                said.set_result(await request.json())
                return web.Response()
            if request.path == "/clip":
                return web.FileResponse(movie)
            return web.Response(text=OPEN_CAMERA, content_type="text/html")

        application = web.Application(middlewares=[isolate])
        application.router.add_get("/", answer)
        application.router.add_get("/clip", answer)
        application.router.add_post("/said", answer)
        application.router.add_static("/", PAGE_DIRECTORY)
        runner = web.AppRunner(application, access_log=None, shutdown_timeout=0.5)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        browser = Firefox("bob", subprocess.Popen, tmp_path / "home", exits.append)
        address = f"http://127.0.0.1:{runner.addresses[0][1]}/"
        browser.start(executable, address, None, Browser(name="firefox"))
        try:
            await then(browser, said, exits)
        finally:
            await browser.stop()
            await runner.cleanup()

    asyncio.run(run())


def test_the_camera_is_the_clip_with_the_configured_size_and_rate(tmp_path: Path) -> None:
    async def measure(browser: Firefox, said: asyncio.Future[Any], exits: list[str]) -> None:
        camera = await asyncio.wait_for(said, TIMEOUT_S)
        assert camera.pop("frames") in range(5, 70), "4 s at 15 frames/s, or fewer on a busy machine"
        assert camera == {"kinds": ["audio", "video"], "width": 320, "height": 240}
        processes = browser.processes()
        assert len(processes) > 1
        await browser.stop()
        _, alive = psutil.wait_procs(processes, timeout=TIMEOUT_S)
        assert (alive, exits) == ([], [])

    in_firefox(tmp_path, measure)


def test_a_firefox_that_is_killed_is_noticed(tmp_path: Path) -> None:
    async def kill(browser: Firefox, said: asyncio.Future[Any], exits: list[str]) -> None:
        browser.processes()[0].kill()
        for _ in range(20 * TIMEOUT_S):
            await asyncio.sleep(0.05)
            if exits:
                break
        assert [reason.partition(";")[0] for reason in exits] == ["the browser of bob was killed by SIGKILL"]

    in_firefox(tmp_path, kill)
