"""One repeat of live calls, inside its lab: nodes, emulator, servers, browsers and cross traffic.

The lab's own process runs :func:`run_session`. When that process ends, the kernel kills everything else in
the lab.
"""

from __future__ import annotations

import asyncio
import json
import shutil
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from subprocess import Popen
from typing import Any
from urllib.parse import quote

from aiohttp import web

from rtclab import _native
from rtclab.backend.backends import nobody_connected
from rtclab.backend.live.browsers.browser_process import BrowserProcess, LoadMeter, allow_plain_http
from rtclab.backend.live.browsers.drivers import DRIVERS
from rtclab.backend.live.browsers.firefox import BROWSERS
from rtclab.backend.live.browsers.page_server import PageServer
from rtclab.backend.live.connections import Address, LiveConnection, PortFlows
from rtclab.backend.live.lab.cgroups import in_group
from rtclab.backend.live.lab.cross_traffic import CrossTraffic
from rtclab.backend.live.lab.http import serve
from rtclab.backend.live.lab.internet import connect_internet, is_connected
from rtclab.backend.live.lab.namespaces import (
    RUN,
    RUN_SIZE,
    Emit,
    Node,
    create_nodes,
    listen_in_node,
    name_nodes,
    prioritise_emulator,
    spawn_in_node,
)
from rtclab.backend.live.lab.nat import put_behind_nat
from rtclab.backend.live.messages import Json, Message
from rtclab.backend.live.plan import SessionPlan
from rtclab.backend.live.records.page_reports import Report
from rtclab.backend.live.records.recorder import Recorder, pick, printable
from rtclab.backend.live.records.tcp_table import tcp_rows
from rtclab.backend.live.records.trace_writer import CAPTURE, write_trace
from rtclab.backend.live.records.user_flows import EmulatedNetwork, UserConnections, UserFlows
from rtclab.backend.live.servers.call_servers import CallServers
from rtclab.backend.live.user.invited_browser import InvitedBrowser
from rtclab.backend.live.user.user_page import UserPage, files_of_page, secure_origins, trust_arguments
from rtclab.backend.live.user.user_servers import UserServers
from rtclab.backend.sampler import Sampler
from rtclab.errors import CallFailed, LaboratoryFailed, is_disk_full
from rtclab.importers.logs.live import log_name
from rtclab.scenario.participant import CORE, INTERNET
from rtclab.trace import NS_PER_S, NotConnected, write_text

LOOPBACK = "127.0.0.1"
SUBNET = "10.77.0"
HOMES = RUN / "homes"
"""Files of browsers and servers, in the lab's own memory file system, which disappears with the lab."""
FULL = 0.99
"""If more than this part of that file system is used, it counts as full."""

BROWSER_NICENESS = 10
"""Lower priority than the emulator's, which an unprivileged user cannot raise."""

READY_TIMEOUT_S = 30.0
CONNECT_TIMEOUT_S = 30.0
LEAVE_TIMEOUT_S = 5.0
LOG_INTERVAL_S = 5.0
"""How often Chromium writes its event logs. The unwritten part is lost when it ends."""
LOG_GRACE_S = 1.0

PARTIAL_CAPTURE = f"{CAPTURE}.partial"
"""Name of the capture until the emulator has ended as it should. If it has not, the capture is cut off."""

CLOSED_GRACE_S = 0.5
"""How long to wait, after a page's socket has closed, for its browser to end and give a better reason."""

CLOCK_STEP_S = 0.01
"""A step of the wall clock by more than this, a third of the time between two frames, is noted."""

SUSPENDED_S = 1.0
"""If the machine was suspended for longer than this, the calls were disturbed."""


def run_session(values: Json, emit: Emit) -> Json:
    """Runs one repeat and writes its trace, even if the call failed after it had begun.

    If the emulator ended by itself, the trace has what it carried until then. Once a second, ``emit`` gets
    what is new in the call; see :class:`Sampler`.

    Args:
        values: the :class:`SessionPlan` as JSON.
        emit: called with what is new in the call, and with what happens to the seats of invited browsers.

    Raises:
        CallFailed: a program died, a page failed, or nobody connected.
        LaboratoryFailed: the emulator ended, or the machine was suspended.
    """
    plan = SessionPlan.from_json(values)
    names = [CORE, *(name for name in plan.call["network"]["nodes"] if name != CORE)]
    nodes = create_nodes({name: f"{SUBNET}.{index + 1}" for index, name in enumerate(names)})
    name_nodes(nodes)
    if plan.user_pages or any(server.whip for server in plan.whip.values()):
        allow_plain_http(names, RUN)
    internet = next(node for node in nodes if node.name == INTERNET) if plan.internet else None
    if internet is not None:
        connect_internet(internet, nodes)
    asyncio.run(_run_and_write(plan, nodes, emit, internet))
    return {}


async def _run_and_write(
    plan: SessionPlan, nodes: list[Node], emit: Emit = lambda new: None, internet: Node | None = None
) -> None:
    session = Session(plan, nodes, emit, internet)
    failure: CallFailed | LaboratoryFailed | None = None
    summary: Json | None = None
    try:
        await session.run()
    except (CallFailed, LaboratoryFailed) as error:
        failure = error
    finally:
        summary = await session.stop()
    if (reason := session.emulator_error) is not None:
        if isinstance(reason, OSError) and is_disk_full(reason):
            raise reason
        failure = LaboratoryFailed(f"{failure or 'the emulator ended'}: {reason}")
    if summary is not None:
        user_flows = session.user_flows() if plan.user_pages else None
        write_trace(
            plan.out,
            plan.manifest,
            session.recorder,
            summary,
            session.names(),
            paths=plan.paths,
            keep_packets=plan.call["record"] == "packets",
            capture=session.capture,
            port_flows=session.port_flows,
            over_tcp=plan.tcp_to_relay,
            failure=str(failure) if failure else None,
            not_connected=session.not_connected,
            notes=session.notes,
            user_flows=user_flows,
            ended_ns=session.ended_ns,
        )
    if failure is not None:
        raise failure


@dataclass
class LiveParticipant:
    """The parts of the session that belong to one participant."""

    name: str
    join_ns: int
    leave_ns: int
    server: PageServer | None
    """The server of rtclab's own page; None with a page of the user's own."""
    browser: BrowserProcess | InvitedBrowser
    page: UserPage | None = None
    """The page of the user's own, if there is one."""
    address: str = ""
    """The address of the page."""
    made: list[int] = field(default_factory=list)
    """Its connections, in the order in which the page made them."""
    ready: asyncio.Event = field(default_factory=asyncio.Event)
    camera: Json | None = None
    """The picture of an invited browser's camera, once it is ready."""
    left: asyncio.Event = field(default_factory=asyncio.Event)


class Session:
    """One repeat.

    Args:
        plan: what it runs.
        nodes: the nodes; the first is ``core``.
        emit: see :func:`run_session`.
        internet: the node behind which hosts outside can be reached, if they can.
    """

    def __init__(
        self,
        plan: SessionPlan,
        nodes: list[Node],
        emit: Emit = lambda new: None,
        internet: Node | None = None,
    ) -> None:
        self._plan, self._call = plan, plan.call
        self._nodes, self._internet = nodes, internet
        self._addresses = {node.name: node.address for node in nodes}
        self._connections = {one.number: one for one in plan.connections}
        self._participants: dict[str, LiveParticipant] = {}
        self._emulator: _native.Emulator | None = None
        self._runners: list[web.AppRunner] = []
        self._signalling_port = 0
        self._connected: set[int] = set()
        self._silent: set[str] = set()
        self._failure: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.recorder = Recorder(dict(self._connections), run_began_ms=time.time() * 1000)
        self._emit, self._sampler = emit, Sampler(self.recorder.rows)
        self._user = UserConnections(self.recorder, len(self._connections), len(plan.manifest.calls))
        self._servers = self._call_servers()
        self._user_servers = UserServers(
            plan.user_servers, self._addresses, spawn_in_node, HOMES / "user-servers", self.fail
        )
        self._traffic = CrossTraffic(
            self._call["traffic"],
            self._addresses,
            spawn_in_node,
            HOMES / "traffic",
            self.fail,
            seed=self._call["seed"],
        )
        self.not_connected: list[NotConnected] = []
        self.notes: list[str] = []
        """What a reader must know of the figures."""
        self.ended_ns = 0
        self.emulator_error: Exception | None = None
        """Why the emulator ended by itself, once the session has been stopped."""
        self.capture = plan.out / PARTIAL_CAPTURE
        """What the emulator carried. It gets its final name when it is complete."""

    def _call_servers(self) -> CallServers:
        def overloaded(node: str, at_ms: float, dropped: int) -> None:
            detail = f"{dropped} datagrams dropped"
            self.recorder.add_event(self.recorder.at_ns(at_ms), node, "overloaded", detail=detail)

        return CallServers(
            self._connections,
            self._addresses,
            HOMES,
            nats=self._plan.nats,
            mixers=self._plan.mixers,
            whip=self._plan.whip,
            fail=self.fail,
            on_statistics=self.recorder.add_server_statistics,
            on_event=self._server_event,
            on_overload=overloaded,
        )

    @property
    def port_flows(self) -> dict[Address, PortFlows]:
        """Ports of programs that are not part of a call, with their flows."""
        signalling = {(CORE, self._signalling_port): PortFlows()}
        return signalling | self._servers.port_flows | self._traffic.port_flows()

    async def run(self) -> None:
        """Runs the repeat to its end.

        Raises:
            CallFailed: the call failed; see :meth:`fail`.
            LaboratoryFailed: the laboratory failed; see :meth:`fail`.
        """
        work = asyncio.ensure_future(self._work())
        done, _ = await asyncio.wait({work, self._failure}, return_when=asyncio.FIRST_COMPLETED)
        if work not in done:
            work.cancel()
        await done.pop()

    def fail(self, reason: str, kind: type[CallFailed | LaboratoryFailed] = CallFailed) -> None:
        """Ends the repeat as failed, or as an error of the laboratory. Only the first reason is kept."""
        if not self._failure.done():
            if files_full():
                reason += (
                    f"; the files of browsers and servers fill {RUN} of the laboratory, {RUN_SIZE} of this "
                    "machine's memory: expected pages and servers to store less"
                )
            self.recorder.add_event(self._now_ns(), "", "failed", detail=reason)
            self._failure.set_exception(kind(printable(reason)))

    async def stop(self) -> Json | None:
        """Stops everything. Returns the emulator's record, None if the run had not begun."""
        self._failure.cancel()
        self.ended_ns = self._now_ns()
        self._emit(self._sampler.new(self.ended_ns))
        said = await self._traffic.stop()
        summary = self._stop_emulator()
        out = self._plan.out
        for report in said:
            write_text(out / f"traffic-{report['name']}.json", json.dumps(report))
            self._add_tcp(report)
        await asyncio.gather(
            *(person.page.stop() for person in self._participants.values() if person.page is not None)
        )
        await asyncio.gather(*(person.browser.stop() for person in self._participants.values()))
        for person in self._participants.values():
            if isinstance(person.browser, InvitedBrowser):
                self.notes += person.browser.notes(self._plan.pages[person.name]["video"], person.camera)
            flows = [self._connections[one].logged_by(person.name) for one in person.made]
            keep_event_logs(person.browser.event_logs, flows, out)
        await asyncio.gather(self._servers.stop(), self._user_servers.stop())
        await asyncio.gather(*(runner.cleanup() for runner in self._runners))
        return summary

    def names(self) -> dict[str, str]:
        """Name of the node by IP address, also of hosts outside with which calls were made."""
        outside = {} if self._internet is None else dict.fromkeys(self._user.addresses(), INTERNET)
        return outside | {address: name for name, address in self._addresses.items()}

    def user_flows(self) -> UserFlows:
        """The flows of the pages of the user's own, once the session has been stopped."""
        routes = {
            (route["from"], route["to"]): tuple(route["paths"]) for route in self._call["network"]["routes"]
        }
        network = EmulatedNetwork(
            nodes=self.names(),
            participants=[participant["name"] for participant in self._call["participants"]],
            routes=routes,
        )
        found = UserFlows(
            self._user,
            self.recorder,
            network,
            call=len(self._plan.manifest.calls),
            taken=self._plan.manifest.flows,
            duration_ns=self._call["duration_ns"],
        )
        for person in self._participants.values():
            if person.page is None:
                continue
            flows = [found.sent(number) for number in self._user.numbers(person.name)]
            keep_event_logs(person.browser.event_logs, flows, self._plan.out)
            if person.page.refused:
                self.notes.append(
                    f"{person.page.refused} reports of {person.name}'s page were refused: "
                    "they were not valid, or too many"
                )
        return found

    def _stop_emulator(self) -> Json | None:
        """The emulator's record; None if it had not begun, or ended by an internal error."""
        if self._emulator is None:
            return None
        try:
            summary: Json = self._emulator.stop()
        except RuntimeError as error:
            self.emulator_error = error
            return None
        self.emulator_error = summary["failure"]
        names = {node.port_interface: node.name for node in self._nodes}
        for failed in summary["port_failures"]:
            name, reason = names[failed["interface"]], failed["reason"]
            self.recorder.add_event(failed["at_ns"], name, "interface_failed", detail=reason)
        if self.emulator_error is None:
            self.capture = self.capture.rename(self.capture.with_name(CAPTURE))
        return summary

    def _add_tcp(self, report: Json) -> None:
        start_ns = next(one["start_ns"] for one in self._call["traffic"] if _name_of(one) == report["name"])
        began_ns, duration_ns = self.recorder.run_began_monotonic_ns, self._call["duration_ns"]
        self.recorder.rows["tcp"] += [
            pick("tcp", row) for row in tcp_rows(report, start_ns, began_ns, duration_ns)
        ]

    async def _work(self) -> None:
        pages_load_s = wall_clock_ahead_s()
        await self._prepare()
        self._begin()
        self._note_clock_step(wall_clock_ahead_s() - pages_load_s)
        await asyncio.gather(
            *(self._attend(person) for person in self._participants.values()),
            self._traffic.run(self._sleep_until),
            self._watch(),
        )
        self._check_connections(at_end=True)
        self._check_user_pages()
        await self._logs_written()
        if self._failure.done():
            await self._failure

    async def _logs_written(self) -> None:
        """Waits, while the calls go on, until the browsers have written their event logs up to now."""
        ended_s, deadline_s = time.time(), time.time() + LOG_INTERVAL_S + LOG_GRACE_S
        browsers = [
            one.browser for one in self._participants.values() if isinstance(one.browser, BrowserProcess)
        ]
        logs = [log for browser in browsers for log in browser.open_logs()]
        while any(log.stat().st_mtime < ended_s for log in logs) and time.time() < deadline_s:
            await asyncio.sleep(0.1)

    async def _prepare(self) -> None:
        await asyncio.gather(self._servers.start(), self._user_servers.start())
        await self._traffic.prepare()
        listening = listen_in_node(CORE, self._nodes[0].address)
        self._runners.append(await serve(self._servers.signalling.application(), listening))
        host, self._signalling_port = listening.getsockname()
        for participant in self._call["participants"]:
            name = participant["name"]
            token = self._servers.signalling.token(name)
            query = f"participant={name}&token={token}"
            await self._add_participant(
                participant, f"ws://{host}:{self._signalling_port}/signalling?{query}"
            )
        await asyncio.gather(*(self._wait_until_ready(person) for person in self._participants.values()))
        # An invited browser may have left again while another seat was still free.
        while waiting := [
            one for one in self._participants.values() if one.page is None and not one.ready.is_set()
        ]:
            await asyncio.gather(*(self._wait_until_ready(one) for one in waiting))

    async def _add_participant(self, participant: Json, signalling: str) -> None:
        """Serves the page of a participant, and starts the browser unless it is an invited one."""
        name = participant["name"]
        of_session = {
            "signalling": signalling,
            "ice": self._servers.ice_of(name),
            "rooms": self._servers.rooms(),
            "resources": self._servers.resources_of(name),
        }
        times = participant["join_ns"], participant["leave_ns"]
        if name in self._plan.invited:
            await self._add_invited(name, times, of_session)
        elif name in self._plan.user_pages:
            await self._add_user_page(name, times)
        else:
            await self._add_page(name, times, of_session)

    async def _add_page(self, name: str, times: tuple[int, int], of_session: Json) -> None:
        """Starts a browser with rtclab's page."""
        place = self._place_of(name)
        server = PageServer(
            partial(self._receive, name),
            partial(self._page_closed, name),
            partial(self._report_failed, name),
            self._plan.browsers[name].page_files,
        )
        server.configure({**self._plan.pages[name], **of_session})
        browser = self._browser(name, place)
        self._participants[name] = LiveParticipant(name, *times, server, browser)
        address = await self._serve_locally(server.application(), place)
        self._start_browser(browser, address, [])

    async def _add_invited(self, name: str, times: tuple[int, int], of_session: Json) -> None:
        """Serves the seat of an invited browser."""
        browser = InvitedBrowser(
            self._node(name),
            self._plan.invited[name],
            self._connections,
            of_session["signalling"],
            partial(spawn_in_node, name),
            HOMES / name,
            emit=self._emit,
            on_message=partial(self._receive, name),
            on_closed=partial(self._invited_left, name),
            fail=self.fail,
        )
        browser.page.configure({**self._plan.pages[name], **of_session, **browser.settings()})
        self._participants[name] = LiveParticipant(name, *times, browser.page, browser)
        await browser.start()

    async def _add_user_page(self, name: str, times: tuple[int, int]) -> None:
        """Starts the browser of a page of the user's own, which is opened when the participant joins."""
        place, settings = self._place_of(name), self._plan.user_pages[name]
        browser = self._browser(name, place)
        page = UserPage(
            name,
            settings,
            partial(DRIVERS[self._plan.browsers[name].options.name], place, browser.profile),
            partial(spawn_in_node, place),
            HOMES / name,
            self._plan.out,
            report=partial(self._receive_from_user_page, name),
            event=lambda event, detail: self.recorder.add_event(self._now_ns(), name, event, detail=detail),
            fail=self.fail,
            sleep_until=self._sleep_until,
        )
        address = settings.page
        if "://" not in address:
            file = Path(address)
            address = await self._serve_locally(files_of_page(file), place) + quote(file.name)
        self._participants[name] = LiveParticipant(name, *times, None, browser, page, address)
        origins = secure_origins(address, self._plan.user_servers, self._addresses)
        self._start_browser(browser, "about:blank", origins, driven=True)

    def _browser(self, name: str, place: str) -> BrowserProcess:
        """The browser of a participant in a namespace, which has not been started."""

        def spawn(command: list[str], **options: Any) -> Popen[bytes]:
            nice = ["nice", "-n", str(BROWSER_NICENESS), *command]
            return spawn_in_node(place, in_group(self._plan.cpu_groups.get(name), nice), **options)

        return BROWSERS[self._plan.browsers[name].options.name](name, spawn, HOMES / name, self.fail)

    def _start_browser(
        self, browser: BrowserProcess, url: str, origins: Sequence[str], *, driven: bool = False
    ) -> None:
        launch = self._plan.browsers[browser.participant]
        browser.start(
            launch.executable,
            url,
            launch.clip,
            launch.options,
            launch.sound,
            driven=driven,
            arguments=trust_arguments(launch.options.name, origins, self._user_servers.keys),
        )

    async def _serve_locally(self, application: web.Application, place: str) -> str:
        """Serves an application at a loopback port of a namespace, and returns its address."""
        listening = listen_in_node(place, LOOPBACK)
        self._runners.append(await serve(application, listening))
        return f"http://{LOOPBACK}:{listening.getsockname()[1]}/"

    def _node(self, name: str) -> Node:
        return next(node for node in self._nodes if node.name == name)

    def _place_of(self, participant: str) -> str:
        """The namespace of the participant's browser, behind its NAT if it has one."""
        kind = self._plan.nats.get(participant)
        if kind is None:
            return participant
        return put_behind_nat(self._node(participant), kind).name

    async def _wait_until_ready(self, person: LiveParticipant) -> None:
        if person.page is not None:
            await person.page.start()
            return
        timeout_s = person.browser.wait_s if isinstance(person.browser, InvitedBrowser) else READY_TIMEOUT_S
        try:
            await asyncio.wait_for(person.ready.wait(), timeout_s)
        except TimeoutError:
            self.fail(
                f"the page of {person.name} was not ready within {timeout_s:g} s; "
                f"expected it to load and to open its camera{person.browser.last_words()}"
            )
            await self._failure

    def _begin(self) -> None:
        """Begins the run: starts the emulator, whose clock is the clock of everything from now on."""
        config = {
            **self._call["network"],
            "seed": self._call["seed"],
            "ports": [node.port(gateway=node is self._internet) for node in self._nodes],
            "packet_log": True,
            "pcap": str(self.capture),
        }
        emulator = _native.Emulator(json.dumps(config))
        emulator.start()
        prioritise_emulator()
        self._emulator = emulator
        self.recorder.run_began_ms = time.time() * 1e3 - emulator.now_ns() / 1e6
        self.recorder.run_began_monotonic_ns = time.monotonic_ns() - emulator.now_ns()
        for node in self._servers.programs:
            self.recorder.add_event(0, node, "joined")

    def _server_event(self, node: str, number: int, at_ms: float, event: str) -> None:
        flow = self._connections[number].received_by(node)
        self.recorder.add_event(self.recorder.at_ns(at_ms), node, event, flow=flow)

    def _note_clock_step(self, step_s: float) -> None:
        """Notes that the wall clock was set after the pages had read it, when they loaded."""
        if abs(step_s) > CLOCK_STEP_S:
            self.notes.append(
                f"this machine's clock was set by {step_s:+.3f} s while the pages loaded: set-up times, "
                "frames and statistics are off by up to as much"
            )

    def _now_ns(self) -> int:
        return self._emulator.now_ns() if self._emulator is not None else 0

    async def _sleep_until(self, at_ns: int) -> None:
        await asyncio.sleep(max(0, at_ns - self._now_ns()) / NS_PER_S)

    async def _attend(self, person: LiveParticipant) -> None:
        if person.join_ns >= self._call["duration_ns"]:
            return  # whoever would join after the end never does
        if person.page is not None:
            await self._attend_user_page(person, person.page)
            return
        assert person.server is not None
        mine = {
            number: call
            for number, call in enumerate(self._plan.manifest.calls)
            if person.name in call.participants
        }
        later = {number: call.start_ns for number, call in mine.items() if call.start_ns > person.join_ns}
        ending = {number: call.end_ns for number, call in mine.items() if call.end_ns < person.leave_ns}
        await self._sleep_until(person.join_ns)
        await person.server.send("join", calls=[number for number in mine if number not in later])
        changes = [("joinCall", number, at_ns) for number, at_ns in later.items() if at_ns < person.leave_ns]
        changes += [
            ("leaveCall", number, at_ns) for number, at_ns in ending.items() if at_ns > person.join_ns
        ]
        for kind, number, at_ns in sorted(changes, key=lambda change: change[2]):
            await self._sleep_until(at_ns)
            await person.server.send(kind, call=number)
            if kind == "leaveCall":
                self._close(person.name, number)
        await self._sleep_until(person.leave_ns)
        to_the_end = person.leave_ns >= self._call["duration_ns"]
        await person.server.send("finish" if to_the_end else "leave")
        try:
            await asyncio.wait_for(person.left.wait(), LEAVE_TIMEOUT_S)
        except TimeoutError:
            self.fail(f"the page of {person.name} did not send its last report within {LEAVE_TIMEOUT_S:g} s")
        if not to_the_end:
            self._close(person.name)

    async def _attend_user_page(self, person: LiveParticipant, page: UserPage) -> None:
        await self._sleep_until(person.join_ns)
        self.recorder.add_event(self._now_ns(), person.name, "joined")
        work = asyncio.create_task(page.attend(person.address))
        try:
            await self._sleep_until(person.leave_ns)
        except asyncio.CancelledError:
            work.cancel()
            raise
        if not work.done():
            steps = f"the steps on {person.name}'s page were not finished when {person.name} left"
            self.notes.append(steps if page.opened else f"the page of {person.name} did not answer")
            work.cancel()
        await asyncio.wait({work})
        if not work.cancelled() and (error := work.exception()) is not None:
            raise error
        await page.finish()
        person.left.set()
        self.recorder.add_event(self._now_ns(), person.name, "left")
        if person.leave_ns < self._call["duration_ns"]:
            await page.leave()

    def _check_user_pages(self) -> None:
        """Fails the repeat if no page of the user's own made a connection, and notes which ones did not."""
        there = [
            person.name
            for person in self._participants.values()
            if person.page is not None and person.join_ns < self._call["duration_ns"]
        ]
        without = [name for name in there if name not in self._user.connected()]
        if without and not self._connected and len(without) == len(there):
            last = ", ".join(f"{name}'s is `{self.recorder.last_event(name)}`" for name in without)
            self.fail(f"no page made a working connection; last event: {last}")
        self.notes += [f"the page of {name} made no working connection" for name in without]

    def _close(self, participant: str, call: int | None = None) -> None:
        for one in self._connections.values():
            if participant in (*one.ends, one.feed) and call in (None, one.call):
                self._servers.close(one)

    async def _watch(self) -> None:
        """Once a second, records the load of the browsers, and checks connections, emulator and machine."""
        programs = {
            name: person.browser.processes
            for name, person in self._participants.items()
            if isinstance(person.browser, BrowserProcess)
        }
        programs |= {node: program.tree for node, program in self._servers.programs.items()}
        programs |= {node: program.tree for node, program in self._user_servers.processes.items()}
        meters = {name: LoadMeter(processes) for name, processes in programs.items()}
        asleep_s = suspended_s()
        for second in range(self._call["duration_ns"] // NS_PER_S + 1):
            await self._sleep_until(second * NS_PER_S)
            for name, meter in meters.items():
                reading = await asyncio.to_thread(meter.read)
                if reading is not None:
                    cores = self._plan.cpu_cores.get(name)
                    self.recorder.add_load(self._now_ns(), name, *reading, cores=cores)
            self._emit(self._sampler.new(self._now_ns()))
            self._check_connections()
            self._note_silent_pages()
            if files_full():
                self.fail("no file can be written")
            if self._emulator is not None and not self._emulator.is_running():
                self.fail("the emulator ended during the call", LaboratoryFailed)
            if self._internet is not None and not is_connected(self._internet):
                self.fail("the connection with the hosts outside ended during the call", LaboratoryFailed)
            if (slept_s := suspended_s() - asleep_s) > SUSPENDED_S:
                reason = f"this machine was suspended for {slept_s:.0f} s during the call"
                self.fail(reason, LaboratoryFailed)

    def _note_silent_pages(self) -> None:
        for person in self._participants.values():
            if person.page is None or person.name in self._silent or person.left.is_set():
                continue
            if (silent_s := person.page.silent_s()) is not None:
                self._silent.add(person.name)
                began_ns = self._now_ns() - round(silent_s * NS_PER_S)
                self.recorder.add_event(
                    began_ns, person.name, "page_silent", detail="no reports from here on"
                )
                self.notes.append(
                    f"the page of {person.name} made no report after {began_ns / NS_PER_S:.0f} s: "
                    "it was left, or it does not run, or too slowly"
                )

    def _check_connections(self, *, at_end: bool = False) -> None:
        """Fails the repeat if no pair has connected in time. At the end, lists pairs that did not connect."""
        pairs = self._pairs()
        missing = [pair for pair, numbers in pairs if self._connected.isdisjoint(numbers)]
        late = [one for one in missing if at_end or one.within_ns > CONNECT_TIMEOUT_S * NS_PER_S]
        if at_end:
            self.not_connected = missing
        if late and len(late) == len(pairs):
            self.not_connected = missing
            self.fail(
                nobody_connected(
                    late[0], {name: self.recorder.last_event(name) for name in self._participants}
                )
            )

    def _pairs(self) -> list[tuple[NotConnected, list[int]]]:
        """Every pair that should connect, with the time it has had so far, and its connections."""
        now_ns = self._now_ns()
        found: dict[tuple[int, str, str], list[LiveConnection]] = {}
        for one in self._connections.values():
            if one.start_ns < one.end_ns:
                a, b = sorted(one.ends)
                found.setdefault((one.call, a, b), []).append(one)
        return [
            (
                NotConnected(
                    a=a,
                    b=b,
                    call=call,
                    within_ns=max(0, *(min(now_ns, one.end_ns) - one.start_ns for one in several)),
                ),
                [one.number for one in several],
            )
            for (call, a, b), several in found.items()
        ]

    def _page_closed(self, name: str) -> None:
        reason = f"the page of {name} closed its report socket; expected it to stay open until it leaves"
        if not self._participants[name].left.is_set():
            asyncio.get_running_loop().call_later(CLOSED_GRACE_S, self.fail, reason)

    def _invited_left(self, name: str) -> None:
        person = self._participants[name]
        assert isinstance(person.browser, InvitedBrowser)
        if self._emulator is None:
            person.ready.clear()
            person.browser.says("left")
        elif not person.left.is_set():
            self.fail(f"the invited browser of {name} has gone; expected it to stay until it leaves the call")

    def _report_failed(self, name: str, error: Exception) -> None:
        what = f"{type(error).__name__}: {error}"
        self.fail(f"a report of {name}'s page could not be handled: {what}", LaboratoryFailed)

    def _receive(self, name: str, message: Message) -> None:
        """Handles a report from a page."""
        match message["type"]:
            case "ready":
                self._participants[name].camera = message.get("camera")
                self._participants[name].ready.set()
            case "connection":
                self._participants[name].made.append(message["number"])
            case "event":
                self._receive_event(name, message)
            case "stats":
                self.recorder.add_stats(name, message)
            case "payload_types":
                self.recorder.add_payload_types(message)
            case "bye":
                self._participants[name].left.set()

    def _receive_from_user_page(self, name: str, report: Report) -> None:
        """Handles a report from a page of the user's own; nothing counts after it has left."""
        if not self._participants[name].left.is_set():
            self._user.receive(name, report, self._call["duration_ns"])

    def _receive_event(self, name: str, message: Message) -> None:
        if self.ended_ns:
            return  # the network is being taken down, so the event says nothing about the call
        event, number, detail = message["event"], message.get("number"), message.get("detail", "")
        flow = None if number is None else self._connections[number].received_by(name)
        self.recorder.add_event(self.recorder.at_ns(message["at_ms"]), name, event, flow=flow, detail=detail)
        if event == self._proof_of_connection(name):
            self._connected.add(message["number"])
        if event == "page_error":
            self.fail(f"the page of {name} reported an error: {detail}")

    def _proof_of_connection(self, name: str) -> str:
        """The event after which media can pass. There is no DTLS handshake without encryption."""
        if name in self._plan.invited:
            return "dtls_connected"
        encrypted = self._plan.browsers[name].options.encryption
        return "dtls_connected" if encrypted else "ice_connected"


def files_full() -> bool:
    """Whether the files of browsers and servers have used up the memory for them."""
    space = shutil.disk_usage(RUN)
    return space.used > FULL * space.total


def _name_of(traffic: Json) -> str:
    """The name of a table of cross traffic, with which the names of its flows begin."""
    return str(traffic["flows"][0]).partition(".")[0]


def keep_event_logs(folder: Path, flows: Sequence[str | None], out: Path) -> None:
    """Copies a browser's event logs to the directory of the trace.

    Chromium ends their names with the number of the connection. It logs the first five only. Of several
    connections with the same flow, the first log is kept.

    Args:
        folder: the browser's directory of logs.
        flows: the flow after which each log is named, in the order in which the browser made its connections;
            None if it is not known.
        out: the directory of the trace.
    """
    logs = sorted(folder.glob("event_log_*.log"), key=lambda log: int(log.stem.rpartition("_")[2]))
    for flow, log in zip(flows, logs, strict=False):
        if flow is not None and not (kept := out / log_name(flow)).exists():
            shutil.copyfile(log, kept)


def wall_clock_ahead_s() -> float:
    """How far the wall clock is ahead of the monotonic clock, which nobody can set. Slewing moves both."""
    return time.clock_gettime(time.CLOCK_REALTIME) - time.clock_gettime(time.CLOCK_MONOTONIC)


def suspended_s() -> float:
    """How long the machine has been suspended since it started: only one of the two clocks counts it."""
    return time.clock_gettime(time.CLOCK_BOOTTIME) - time.clock_gettime(time.CLOCK_MONOTONIC)
