"""One repeat of a live call, inside its lab: nodes, emulator, servers and browsers.

The lab's own process runs :func:`run_session`. When that process ends, the kernel kills everything else in
the lab.
"""

from __future__ import annotations

import asyncio
import json
import shutil
import time
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from subprocess import Popen
from typing import Any

from aiohttp import web

from rtclab import _native
from rtclab.backend.live.browser import Browser, LoadMeter
from rtclab.backend.live.namespaces import Emit, Json, Node, create_nodes, listen_in_node, node_command
from rtclab.backend.live.signalling import Message, PageServer, SignallingServer, serve
from rtclab.backend.live.tables import CAPTURE, NS_PER_S, Recorder, write_trace
from rtclab.errors import CallFailed
from rtclab.logs.live import log_name
from rtclab.trace import NotConnected

CORE = "core"
LOOPBACK = "127.0.0.1"
SUBNET = "10.77.0"
HOMES = Path("/run/homes")
"""Profiles of the browsers, in the lab's own memory file system, which disappears with the lab."""

BROWSER_NICENESS = 10
"""Lower priority than the emulator's, which an unprivileged user cannot raise."""

READY_TIMEOUT_S = 30.0
CONNECT_TIMEOUT_S = 30.0
LEAVE_TIMEOUT_S = 5.0
HOLD_S = 6.0
"""How long calls go on after the end of the run. Chromium writes its event log every 5 s, and the rest of it
is lost when the browser ends."""

CLOSED_GRACE_S = 0.5
"""How long to wait, after a page's socket has closed, for the end of its browser, whose reason says more."""


def run_session(argument: Json, _emit: Emit) -> Json:
    """Runs one repeat and writes its trace, even if the call failed after it had begun.

    Args:
        argument: ``call`` from ``Scenario.native``; ``pages``, the configuration of each participant's page;
            ``executable``, the path of Chromium; ``clips`` for the cameras, by participant; ``out``, the
            directory of the trace; ``manifest`` as planned; and ``paths``, a table of the trace.

    Raises:
        CallFailed: a browser died, a page failed, or nobody connected.
    """
    names = [CORE, *(participant["name"] for participant in argument["call"]["participants"])]
    nodes = create_nodes({name: f"{SUBNET}.{index + 1}" for index, name in enumerate(names)})
    return asyncio.run(_run_and_write(argument, nodes))


async def _run_and_write(argument: Json, nodes: list[Node]) -> Json:
    session = Session(argument, nodes)
    failure: CallFailed | None = None
    summary: Json | None = None
    try:
        await session.run()
    except CallFailed as error:
        failure = error
    finally:
        summary = await session.stop()
    if summary is not None:
        addresses = {node.address: node.name for node in nodes}
        write_trace(
            Path(argument["out"]),
            argument,
            session.recorder,
            summary,
            addresses,
            failure=str(failure) if failure else None,
            not_connected=session.not_connected,
            ended_ns=session.ended_ns,
        )
    if failure is not None:
        raise failure
    return {}


@dataclass
class Seat:
    """The parts of the session that belong to one participant."""

    name: str
    join_ns: int
    leave_ns: int
    server: PageServer
    browser: Browser
    peers: list[str] = field(default_factory=list)
    """The other ends of its connections, in the order in which the page made them."""
    ready: asyncio.Event = field(default_factory=asyncio.Event)
    left: asyncio.Event = field(default_factory=asyncio.Event)


class Session:
    """One repeat. ``argument`` is that of :func:`run_session`; the first of ``nodes`` is ``core``."""

    def __init__(self, argument: Json, nodes: list[Node]) -> None:
        self.recorder = Recorder(run_began_ms=time.time() * 1000)
        self._argument = argument
        self._call: Json = argument["call"]
        self._seats: dict[str, Seat] = {}
        self._nodes = nodes
        self._runners: list[web.AppRunner] = []
        self._emulator: _native.Emulator | None = None
        self._connected: set[frozenset[str]] = set()
        self.not_connected: list[NotConnected] = []
        self.ended_ns = 0
        self._failure: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    async def run(self) -> None:
        """Runs the repeat to its end.

        Raises:
            CallFailed: the repeat failed; see :meth:`fail`.
        """
        work = asyncio.ensure_future(self._work())
        done, _ = await asyncio.wait({work, self._failure}, return_when=asyncio.FIRST_COMPLETED)
        if work not in done:
            work.cancel()
        await done.pop()

    def fail(self, reason: str) -> None:
        """Ends the repeat as failed. Only the first reason is kept."""
        if not self._failure.done():
            self.recorder.add_event(self._now_ns(), "", "failed", detail=reason)
            self._failure.set_exception(CallFailed(reason))

    async def stop(self) -> Json | None:
        """Stops everything. Returns the emulator's record, None if the run had not begun."""
        self._failure.cancel()
        self.ended_ns = self._now_ns()
        summary = self._emulator.stop() if self._emulator is not None else None
        await asyncio.gather(*(seat.browser.stop() for seat in self._seats.values()))
        for seat in self._seats.values():
            keep_event_logs(seat.browser.event_logs, seat.name, seat.peers, Path(self._argument["out"]))
        await asyncio.gather(*(runner.cleanup() for runner in self._runners))
        return summary

    async def _work(self) -> None:
        await self._prepare()
        self._begin()
        await asyncio.gather(*(self._attend(seat) for seat in self._seats.values()), self._watch())
        self._check_connections(at_end=True)
        await self._sleep_until(self._call["duration_ns"] + round(HOLD_S * NS_PER_S))
        if self._failure.done():
            await self._failure

    async def _prepare(self) -> None:
        listening = listen_in_node(CORE, self._nodes[0].address)
        self._runners.append(await serve(SignallingServer().application(), listening))
        host, port = listening.getsockname()
        for participant in self._call["participants"]:
            await self._seat(participant, f"ws://{host}:{port}/signalling?participant={participant['name']}")
        await asyncio.gather(*(self._wait_until_ready(seat) for seat in self._seats.values()))

    async def _seat(self, participant: Json, signalling: str) -> None:
        name = participant["name"]

        def spawn(command: list[str], **options: Any) -> Popen[bytes]:
            return Popen(node_command(name, ["nice", "-n", str(BROWSER_NICENESS), *command]), **options)

        server = PageServer(partial(self._receive, name), partial(self._page_closed, name))
        server.configure({**self._argument["pages"][name], "signalling": signalling})
        browser = Browser(name, spawn, HOMES / name, self.fail)
        self._seats[name] = Seat(name, participant["join_ns"], participant["leave_ns"], server, browser)
        listening = listen_in_node(name, LOOPBACK)
        self._runners.append(await serve(server.application(), listening))
        url = f"http://{LOOPBACK}:{listening.getsockname()[1]}/"
        clip, options = self._argument["clips"].get(name), self._argument["browsers"][name]
        browser.start(self._argument["executable"], url, clip, options)

    async def _wait_until_ready(self, seat: Seat) -> None:
        try:
            await asyncio.wait_for(seat.ready.wait(), READY_TIMEOUT_S)
        except TimeoutError:
            self.fail(
                f"the page of {seat.name} was not ready within {READY_TIMEOUT_S:g} s; "
                f"expected it to load and to open its camera{seat.browser.last_words()}"
            )
            await self._failure

    def _begin(self) -> None:
        """Begins the run: starts the emulator, whose clock is the clock of everything from now on."""
        config = {
            **self._call["network"],
            "seed": self._call["seed"],
            "ports": [node.port() for node in self._nodes],
            "pcap": str(Path(self._argument["out"]) / CAPTURE),
        }
        emulator = _native.Emulator(json.dumps(config))
        emulator.start()
        self._emulator = emulator
        self.recorder.run_began_ms = time.time() * 1e3 - emulator.now_ns() / 1e6
        self.recorder.run_began_monotonic_ns = time.monotonic_ns() - emulator.now_ns()

    def _now_ns(self) -> int:
        return self._emulator.now_ns() if self._emulator is not None else 0

    async def _sleep_until(self, at_ns: int) -> None:
        await asyncio.sleep(max(0, at_ns - self._now_ns()) / NS_PER_S)

    async def _attend(self, seat: Seat) -> None:
        await self._sleep_until(seat.join_ns)
        await seat.server.send("join")
        await self._sleep_until(seat.leave_ns)
        to_the_end = seat.leave_ns >= self._call["duration_ns"]
        await seat.server.send("finish" if to_the_end else "leave")
        try:
            await asyncio.wait_for(seat.left.wait(), LEAVE_TIMEOUT_S)
        except TimeoutError:
            self.fail(f"the page of {seat.name} did not send its last report within {LEAVE_TIMEOUT_S:g} s")

    async def _watch(self) -> None:
        """Once a second, records the load of the browsers, and checks the connections and the emulator."""
        meters = {name: LoadMeter(seat.browser) for name, seat in self._seats.items()}
        for second in range(self._call["duration_ns"] // NS_PER_S + 1):
            await self._sleep_until(second * NS_PER_S)
            for name, meter in meters.items():
                reading = await asyncio.to_thread(meter.read)
                if reading is not None:
                    self.recorder.add_load(self._now_ns(), name, *reading)
            self._check_connections()
            if self._emulator is not None and not self._emulator.is_running():
                self.fail("the emulator ended during the call")

    def _check_connections(self, *, at_end: bool = False) -> None:
        """Fails the repeat if no pair has connected in time. At the end, lists pairs that did not connect."""
        missing = [one for one in self._pairs() if frozenset((one.a, one.b)) not in self._connected]
        late = [one for one in missing if at_end or one.within_ns > CONNECT_TIMEOUT_S * NS_PER_S]
        if at_end:
            self.not_connected = missing
        if late and len(late) == len(self._pairs()):
            first = late[0]
            steps = " and ".join(
                f"{name}'s is `{self.recorder.last_event(name)}`" for name in (first.a, first.b)
            )
            self.not_connected = missing
            self.fail(f"{first}; last event: {steps}")

    def _pairs(self) -> list[NotConnected]:
        """Every pair that should connect, with the time it has had so far. Each pair is in one call only."""
        now_ns, flows = self._now_ns(), self._argument["manifest"]["flows"]
        return [
            NotConnected(
                a=connection["a"],
                b=connection["b"],
                call=flows[connection["flows"][0]]["call"],
                within_ns=max(0, min(now_ns, connection["end_ns"]) - connection["start_ns"]),
            )
            for connection in self._call["connections"]
            if connection["start_ns"] < connection["end_ns"]
        ]

    def _page_closed(self, name: str) -> None:
        reason = f"the page of {name} closed its report socket; expected it to stay open until it leaves"
        if not self._seats[name].left.is_set():
            asyncio.get_running_loop().call_later(CLOSED_GRACE_S, self.fail, reason)

    def _receive(self, name: str, message: Message) -> None:
        """Handles a report from a page."""
        match message["type"]:
            case "ready":
                self._seats[name].ready.set()
            case "connection":
                self._seats[name].peers.append(message["peer"])
            case "event":
                self._receive_event(name, message)
            case "stats":
                self.recorder.add_stats(name, message)
            case "payload_types":
                self.recorder.add_payload_types(name, message)
            case "bye":
                self._seats[name].left.set()

    def _receive_event(self, name: str, message: Message) -> None:
        event, peer, detail = message["event"], message.get("peer"), message.get("detail", "")
        flow = None if peer is None else f"{peer}->{name}"
        self.recorder.add_event(self.recorder.at_ns(message["at_ms"]), name, event, flow=flow, detail=detail)
        if event == "dtls_connected":
            self._connected.add(frozenset((name, str(peer))))
        if event == "page_error":
            self.fail(f"the page of {name} reported an error: {detail}")


def keep_event_logs(folder: Path, participant: str, peers: list[str], out: Path) -> None:
    """Copies a browser's event logs to the directory of the trace.

    Chromium ends their names with the number of the connection. It logs the first five only.
    """
    logs = sorted(folder.glob("event_log_*.log"), key=lambda log: int(log.stem.rpartition("_")[2]))
    for peer, log in zip(peers, logs, strict=False):
        shutil.copyfile(log, out / log_name(participant, peer))
