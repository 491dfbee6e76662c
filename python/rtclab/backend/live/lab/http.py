"""HTTP servers of this process at sockets inside nodes."""

from __future__ import annotations

import socket

from aiohttp import web


async def serve(application: web.Application, listening: socket.socket) -> web.AppRunner:
    """Serves ``application`` on a listening socket in any namespace. Returns the runner, for its clean-up."""
    runner = web.AppRunner(application, access_log=None, shutdown_timeout=0.5)
    await runner.setup()
    await web.SockSite(runner, listening).start()
    return runner
