"""The server of the pages here: their files, a relay for their signalling, and a place for their logs.

``python serve.py PORT FOLDER`` writes what the page of alice logs to ``FOLDER/alice.json``.
"""

import asyncio
import json
import sys
from collections import defaultdict
from pathlib import Path

from aiohttp import WSMsgType, web

HERE = Path(__file__).parent
PORT, FOLDER = int(sys.argv[1]), Path(sys.argv[2])
SOCKETS: dict[str, dict[str, web.WebSocketResponse]] = defaultdict(dict)
WAITING: dict[str, list[str]] = defaultdict(list)


async def relay(request: web.Request) -> web.WebSocketResponse:
    """Passes messages between the two members of a room, in order; the first one's wait for the second."""
    room, name = request.match_info["room"], request.match_info["name"]
    socket = web.WebSocketResponse()
    await socket.prepare(request)
    while WAITING[room]:  # more may come meanwhile
        await socket.send_str(WAITING[room].pop(0))
    SOCKETS[room][name] = socket
    async for message in socket:
        if message.type is WSMsgType.TEXT:
            others = [other for other in SOCKETS[room] if other != name]
            for other in others:
                await SOCKETS[room][other].send_str(message.data)
            if not others:
                WAITING[room].append(message.data)
    return socket


async def log(request: web.Request) -> web.Response:
    """Keeps the last log of a page."""
    target = FOLDER / f"{Path(request.match_info['name']).name}.json"
    temporary = target.with_suffix(".partial")
    temporary.write_text(json.dumps(await request.json()))
    temporary.replace(target)
    return web.Response()


async def logged(request: web.Request) -> web.FileResponse:
    """What a page has logged, if it has."""
    return web.FileResponse(FOLDER / f"{Path(request.match_info['name']).name}.json")


async def never(_: web.Request) -> web.Response:
    """Does not answer."""
    await asyncio.Event().wait()
    return web.Response()


application = web.Application(client_max_size=1 << 24)
application.router.add_get("/relay/{room}/{name}", relay)
application.router.add_post("/log/{name}", log)
application.router.add_get("/log/{name}", logged)
application.router.add_get("/never", never)
application.router.add_static("/", HERE)
web.run_app(application, port=PORT, print=None)
