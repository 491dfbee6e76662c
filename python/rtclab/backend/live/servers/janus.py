"""An SFU: Janus with its plugin VideoRoom in a node (Debian package ``janus``, version 1.1.2).

The page's side is ``page/janus.js``. Janus does not estimate the bandwidth towards its subscribers, so it
forwards the publishers' media at any rate.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from rtclab.backend.live.lab.process import Process, Spawn
from rtclab.errors import SEE_DOCTOR, CallFailed

PORT = 8188
"""Janus' usual port for WebSockets."""
READY_TIMEOUT_S = 10.0
PLUGIN, TRANSPORT = "libjanus_videoroom.so", "libjanus_websockets.so"
LIBRARIES = Path("/usr/lib")
"""Debian has Janus' modules in ``ARCHITECTURE/janus`` below this directory."""

# The settings are explained in Debian's /etc/janus/janus.jcfg. Janus loads all modules in a folder, so each
# folder here has a link to the wanted one. Messages up to level 3 are shown: warnings and errors. With
# `ice_lite` only the browsers make connectivity checks, as RFC 8445, section 2.5, allows for a server with a
# public address. The period of transport-wide feedback is Janus' default, 200 ms.
JANUS = """\
general: {{
    configs_folder = "{home}"
    plugins_folder = "{home}/plugins"
    transports_folder = "{home}/transports"
    loggers_folder = "{home}/loggers"
    events_folder = "{home}/events"
    interface = "{address}"
    api_secret = "{api_secret}"
    debug_level = 3
    debug_colors = false
    hide_dependencies = true
}}
media: {{
    ipv6 = false
    rtp_port_range = "25000-32000"
}}
nat: {{
    ice_lite = true
    ice_enforce_list = "{address}"
    ignore_mdns = true
}}
"""
# Explained in /etc/janus/janus.transport.websockets.jcfg.
WEBSOCKETS = """\
general: {{
    json = "compact"
    ws = true
    ws_port = {port}
    ws_ip = "{address}"
    wss = false
    ws_logging = "err"
}}
admin: {{
    admin_ws = false
    admin_wss = false
}}
"""
# Explained in /etc/janus/janus.plugin.videoroom.jcfg. `admin_key` keeps others from creating rooms.
VIDEOROOM = """\
general: {{
    admin_key = "{admin_key}"
    events = false
}}
"""
# With `bitrate = 0` Janus sends no REMB of its own, which would limit publishers (janus_videoroom.c, v1.1.2).
# With `fir_freq = 0` it asks for key frames only when a subscriber needs one. A publisher may ask for one of
# `videocodec`; otherwise the first in this list that it offers is used.
ROOM = """\
room-{room}: {{
    description = "{room}"
    is_private = true
    secret = "{secret}"
    pin = "{pin}"
    publishers = 100
    bitrate = 0
    fir_freq = 0
    audiocodec = "opus"
    videocodec = "vp8,vp9,h264,av1"
    transport_wide_cc_ext = true
    record = false
}}
"""


class JanusServer:
    """One Janus, with a room for each call and with secrets of its own.

    Args:
        spawn: starts a command in the server's node.
        address: IPv4 address of the node. The server uses it and no other.
        home: directory for its files. The caller deletes it.
        on_exit: called once, with the reason, if the server ends before it is stopped.
        calls: names of the calls that get a room.
    """

    def __init__(
        self,
        spawn: Spawn,
        address: str,
        home: Path,
        on_exit: Callable[[str], None],
        calls: Iterable[str],
    ) -> None:
        self._address = address
        self._home = home
        self._api_secret = secrets.token_hex(16)
        self._rooms = {call: secrets.randbelow(2**31) + 1 for call in calls}
        self._pins = {call: secrets.token_hex(8) for call in self._rooms}
        self._process = Process(f"the SFU (Janus) at {address}", spawn, home, on_exit)

    def start(self) -> None:
        """Writes the configuration and starts the server.

        Raises:
            CallFailed: Janus' modules are not where Debian has them.
        """
        for folder, module in (("plugins", PLUGIN), ("transports", TRANSPORT)):
            (self._home / folder).mkdir(parents=True, exist_ok=True)
            (self._home / folder / module).symlink_to(find_module(folder, module))
        for folder in ("loggers", "events"):
            (self._home / folder).mkdir()
        for name, text in self._configuration().items():
            (self._home / f"{name}.jcfg").write_text(text)
        self._process.start(["janus", "-F", str(self._home)])

    async def ready(self) -> None:
        """Waits until the server listens.

        Raises:
            CallFailed: it ended, another program has the port, or it took too long.
        """
        await self._process.listening(self._address, PORT, protocols=("tcp",), timeout_s=READY_TIMEOUT_S)

    async def stop(self) -> None:
        """Stops the server."""
        await self._process.stop()

    def room(self, call: str) -> dict[str, Any]:
        """What a page needs to enter the room of a call: ``url``, ``apiSecret``, ``room`` and ``pin``."""
        return {
            "url": f"ws://{self._address}:{PORT}/",
            "apiSecret": self._api_secret,
            "room": self._rooms[call],
            "pin": self._pins[call],
        }

    def _configuration(self) -> dict[str, str]:
        rooms = [
            ROOM.format(room=room, secret=secrets.token_hex(16), pin=self._pins[call])
            for call, room in self._rooms.items()
        ]
        return {
            "janus": JANUS.format(home=self._home, address=self._address, api_secret=self._api_secret),
            "janus.transport.websockets": WEBSOCKETS.format(port=PORT, address=self._address),
            "janus.plugin.videoroom": VIDEOROOM.format(admin_key=secrets.token_hex(16)) + "".join(rooms),
        }


def find_module(folder: str, module: str) -> Path:
    """Path of one of Janus' modules.

    Raises:
        CallFailed: there is none.
    """
    found = next(LIBRARIES.glob(f"*/janus/{folder}/{module}"), None)
    if found is None:
        raise CallFailed(
            f"Janus' {module} is not in {LIBRARIES}/*/janus/{folder}, where Debian has it",
            hint=SEE_DOCTOR,
        )
    return found
