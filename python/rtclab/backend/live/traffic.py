"""Cross traffic of live calls: real programs in the nodes, over the kernel's TCP and UDP.

Endless transfers and UDP are iperf3, one process at each end of each flow. Objects are :mod:`.objects`, one
process at each end of each table ``[traffic.NAME]``.

iperf3 has a control connection, which crosses the emulated network too and belongs to no flow. It is silent
while data are sent. Its 26 packets have 1.5 kB together (measured), two thirds of them on the way of the data
and most before the first of these: as much as one packet of the data. Because this connection comes first,
data begin three to four round trips later than planned.
"""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import signal
import sys
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from subprocess import DEVNULL, PIPE, Popen
from typing import IO, Any

from rtclab.backend.live import objects
from rtclab.backend.live.carried import Address, Claim
from rtclab.backend.live.namespaces import Json, call_in_node
from rtclab.backend.live.tcp import KERNEL_NAMES, kernel_congestion_controls
from rtclab.errors import BackendUnavailable, UnsupportedScenario
from rtclab.scenario import Scenario
from rtclab.scenario.table import one_of

FIRST_PORT = 20_000
"""Below the kernel's ephemeral ports (from 32768), from which calls and signalling take theirs."""
IP_AND_UDP_HEADER_BYTES = 28
NS_PER_S = 10**9
MOST_SECONDS = 86_400
"""The longest that iperf3 transfers."""
LISTEN_TIMEOUT_S = 10.0
STOP_GRACE_S = 2.0
"""How long programs may take to write their last words. iperf3 takes milliseconds."""
LAST_LINES = 5
LISTENING = "0A"
"""State of a listening TCP socket in /proc/net/tcp."""
PACING_TIMER_US = (100, 1000)
"""Bounds of iperf3's timer, which it looks at the clock with: its default of 1 ms, and what costs little."""

Spawn = Callable[..., Popen[bytes]]
"""``spawn(node, command, **options)`` starts a command in a node; the options are those of ``Popen``."""


@dataclass(frozen=True)
class FlowPort:
    """A port that tells a flow from all others."""

    transport: str
    """``tcp`` or ``udp``."""
    node: str
    port: int
    outgoing: str | None
    """Flow of the packets that leave this port; None if they belong to no flow."""
    incoming: str | None
    """Flow of the packets that arrive at this port."""


def flow_of(
    ports: Iterable[FlowPort], transport: str, source: tuple[str, int], destination: tuple[str, int]
) -> str | None:
    """The flow of a packet between two pairs of node and port; None if it belongs to no cross traffic."""
    for port in ports:
        if transport == port.transport and (port.node, port.port) == source:
            return port.outgoing
        if transport == port.transport and (port.node, port.port) == destination:
            return port.incoming
    return None


def check_traffic(scenario: Scenario) -> None:
    """Checks that this machine has what the cross traffic of a scenario needs.

    Raises:
        UnsupportedScenario: the kernel lacks a congestion control.
        BackendUnavailable: iperf3 is not installed.
    """
    known = kernel_congestion_controls()
    for name, traffic in scenario.traffic.items():
        if traffic.congestion_control is not None and traffic.congestion_control not in known:
            known_names = one_of([f"`{own}`" for own in sorted(known)])
            module = f"tcp_{KERNEL_NAMES[traffic.congestion_control]}"
            raise UnsupportedScenario(
                f"traffic.{name}.congestion_control",
                f"this kernel has no `{traffic.congestion_control}`; expected {known_names}",
                hint=f"load the kernel module {module}, or run it simulated: --backend sim",
            )
        if traffic.objects is None and shutil.which("iperf3") is None:
            raise BackendUnavailable("iperf3 is not installed", hint="apt-get install iperf3")


@dataclass
class Program:
    """A program in a node, with what it writes kept in files."""

    what: str
    """For errors: ``iperf3 (sender of download)``."""
    node: str
    command: list[str]
    output: Path
    may_finish: bool = False
    """Whether it ends by itself, with status 0, when it has nothing more to do."""
    process: Popen[bytes] | None = None
    told_to_end: bool = False
    _descriptor: int = -1

    def start(self, spawn: Spawn, on_exit: Callable[[Program], None], stdin: int = DEVNULL) -> None:
        """Starts the program. ``on_exit`` is called once when it has ended."""
        with self.output.open("wb") as out, self._errors.open("wb") as errors:
            self.process = spawn(self.node, self.command, stdin=stdin, stdout=out, stderr=errors)
        self._descriptor = os.pidfd_open(self.process.pid)
        asyncio.get_running_loop().add_reader(self._descriptor, self._exited, on_exit)

    def _exited(self, on_exit: Callable[[Program], None]) -> None:
        asyncio.get_running_loop().remove_reader(self._descriptor)
        os.close(self._descriptor)
        on_exit(self)

    def signal(self, number: signal.Signals) -> None:
        """Tells the program to end, if it runs."""
        self.told_to_end = True
        if self.process is not None and self.process.poll() is None:
            self.process.send_signal(number)

    def how_it_ended(self) -> str:
        """The reason of a failure: what ended, how, and its last words."""
        assert self.process is not None
        status = self.process.wait()
        how = f"was killed by {signal.Signals(-status).name}" if status < 0 else f"ended with status {status}"
        return f"{self.what} {how}{self.last_words()}"

    def last_words(self) -> str:
        """The error that iperf3 reports, or the last lines on standard error, to append to a reason."""
        reported = self.json().get("error")
        lines = [reported] if reported else self._errors.read_text(errors="replace").strip().splitlines()
        return f"; it last said: {'; '.join(lines[-LAST_LINES:])}" if lines else ""

    def json(self) -> Json:
        """The JSON object that it wrote; empty if it wrote none, or not all of it."""
        try:
            return dict(json.loads(self.output.read_text(errors="replace")))
        except ValueError:
            return {}

    @property
    def _errors(self) -> Path:
        return self.output.with_suffix(".stderr")


@dataclass
class Run:
    """The programs of one flow, or of all objects of one table."""

    flow: str
    config: Json
    port: FlowPort
    server_port: int
    server: Program
    client: Program
    pipe: IO[bytes] | None = field(default=None, repr=False)
    """Standard input of a sender of objects, which waits for a line."""

    @property
    def sends_objects(self) -> bool:
        return self.config["objects"] is not None

    @property
    def programs(self) -> tuple[Program, Program]:
        return self.server, self.client


class Traffic:
    """All cross traffic of a live call.

    Args:
        config: the tables ``[traffic.NAME]`` as :meth:`rtclab.scenario.Traffic.native` gives them.
        addresses: IPv4 address of each node.
        spawn: starts a command in a node, see :data:`Spawn`.
        home: directory for what the programs write. It is created; the caller deletes it.
        fail: called with the reason when a program ends that should not.
        seed: of the sizes of objects and the pauses between them.
    """

    def __init__(
        self,
        config: Sequence[Json],
        addresses: Mapping[str, str],
        spawn: Spawn,
        home: Path,
        fail: Callable[[str], None],
        *,
        seed: int = 1,
    ) -> None:
        self._spawn = spawn
        self._fail = fail
        self._home = home
        self._runs: list[Run] = []
        for index, table in enumerate(config):
            for flow in table["flows"]:
                port = FIRST_PORT + 2 * len(self._runs)
                self._runs.append(_planned(table, flow, port, addresses, home, f"{seed}/{index}"))

    def ports(self) -> list[FlowPort]:
        """The port of each flow.

        A flow of iperf3 is known by the port of its sender, which its control connection does not share. Each
        object has another port there, so objects are known by the port of their receiver.
        """
        return [run.port for run in self._runs]

    def claimed(self) -> dict[Address, Claim]:
        """The ports of the programs, with their flows. Those of iperf3's control connections have none."""
        servers = {(run.server.node, run.server_port): Claim() for run in self._runs}
        return servers | {
            (port.node, port.port): Claim(port.incoming, port.outgoing, port.transport)
            for port in self.ports()
        }

    async def prepare(self) -> None:
        """Starts all servers, and the senders of objects, which wait. Returns when all servers listen."""
        self._home.mkdir(parents=True, exist_ok=True)
        for run in self._runs:
            run.server.start(self._spawn, self._exited)
            if run.sends_objects:
                run.client.start(self._spawn, self._exited, PIPE)
                assert run.client.process is not None
                run.pipe = run.client.process.stdin
        deadline = time.monotonic() + LISTEN_TIMEOUT_S
        for run in self._runs:
            while run.server_port not in call_in_node(run.server.node, _listening_ports):
                if run.server.told_to_end:
                    return  # it has failed, which is reported
                if time.monotonic() > deadline:
                    self._fail(f"{run.server.what} did not listen within {LISTEN_TIMEOUT_S:g} s")
                    return
                await asyncio.sleep(0.01)

    async def run(self, sleep_until: Callable[[int], Awaitable[None]]) -> None:
        """Starts and stops everything at its time. Returns when all of it has been stopped.

        Args:
            sleep_until: waits until a time in ns since the run began.
        """
        await asyncio.gather(*(self._run_one(run, sleep_until) for run in self._runs))

    async def _run_one(self, run: Run, sleep_until: Callable[[int], Awaitable[None]]) -> None:
        await sleep_until(run.config["start_ns"])
        if run.pipe is not None:
            run.pipe.write(b"begin\n")
            run.pipe.close()
        else:
            run.client.start(self._spawn, self._exited)
        await sleep_until(run.config["stop_ns"])
        if run.sends_objects:
            return  # objects that have begun are sent to their end
        run.client.signal(signal.SIGINT)
        run.server.told_to_end = True
        if run.port.transport == "tcp":
            # What the sender's kernel holds is not sent any more: the receiver's kernel answers with a reset.
            run.server.signal(signal.SIGINT)

    async def stop(self) -> list[Json]:
        """Ends all programs.

        Returns:
            for each table its ``name`` and either ``flows``, with what iperf3 said at the ``sender`` and the
            ``receiver`` of each flow, or ``objects``: ``source``, ``bytes``, and on the monotonic clock
            ``began_ns`` and ``ended_ns`` of each object.
        """
        for run in self._runs:
            for program in run.programs:
                # iperf3 writes its figures when it is interrupted.
                program.signal(signal.SIGTERM if run.sends_objects else signal.SIGINT)
        deadline = time.monotonic() + STOP_GRACE_S
        for program in (program for run in self._runs for program in run.programs):
            while program.process is not None and program.process.poll() is None:
                if time.monotonic() > deadline:
                    program.process.kill()
                await asyncio.sleep(0.01)
        said: dict[str, Json] = {}
        for run in self._runs:
            name = run.flow.partition(".")[0]
            if run.sends_objects:
                said[name] = {"name": name, "objects": _lines(run.client.output)}
            else:
                both = {"sender": run.client.json(), "receiver": run.server.json()}
                said.setdefault(name, {"name": name, "flows": {}})["flows"][run.flow] = both
        return list(said.values())

    def _exited(self, program: Program) -> None:
        assert program.process is not None
        if program.told_to_end or (program.may_finish and program.process.wait() == 0):
            return
        # The other end of the connection ends too, for no reason of its own.
        for run in self._runs:
            if program in run.programs:
                run.server.told_to_end = run.client.told_to_end = True
        self._fail(program.how_it_ended())


def _planned(table: Json, flow: str, port: int, addresses: Mapping[str, str], home: Path, seed: str) -> Run:
    if table["objects"] is not None:
        return _objects(table, flow, port, addresses, home, seed)
    udp = table.get("udp")
    sender, receiver = table["sender"], table["receiver"]
    server = ["iperf3", "--server", "--one-off", "--json", "--bind", addresses[receiver], "--port", str(port)]
    client = [
        "iperf3",
        "--client",
        addresses[receiver],
        "--port",
        str(port),
        "--cport",
        str(port + 1),
        "--json",
    ]
    # It is interrupted when it is to stop, because iperf3 counts whole seconds.
    client += ["--time", str(MOST_SECONDS), *(_udp_options(udp) if udp else _tcp_options(table))]
    acks = None if udp else f"{flow} acks"
    return Run(
        flow,
        table,
        FlowPort("udp" if udp else "tcp", sender, port + 1, outgoing=flow, incoming=acks),
        port,
        Program(f"iperf3 (receiver of {flow})", receiver, server, home / f"{flow}-receiver.json"),
        Program(f"iperf3 (sender of {flow})", sender, client, home / f"{flow}-sender.json"),
    )


def _tcp_options(table: Json) -> list[str]:
    return ["--congestion", KERNEL_NAMES[table["congestion_control"]]]


def _udp_options(udp: Json) -> list[str]:
    """iperf3 counts payload, scenarios count IP packets.

    iperf3 sends everything that is due whenever its timer fires. A timer of at most an interval between two
    packets makes no bursts; each packet is late by up to a period of the timer.
    """
    payload = udp["packet_bytes"] - IP_AND_UDP_HEADER_BYTES
    rate = round(udp["rate_bps"] * payload / udp["packet_bytes"])
    interval_us = udp["packet_bytes"] * 8 * 10**6 // udp["rate_bps"]
    timer_us = min(max(interval_us, PACING_TIMER_US[0]), PACING_TIMER_US[1])
    return ["--udp", "--bitrate", str(rate), "--length", str(payload), "--pacing-timer", str(timer_us)]


def _objects(table: Json, flow: str, port: int, addresses: Mapping[str, str], home: Path, seed: str) -> Run:
    own, sender, receiver = table["objects"], table["sender"], table["receiver"]
    options: dict[str, Any] = {
        "address": addresses[receiver],
        "port": port,
        "congestion_control": KERNEL_NAMES[table["congestion_control"]],
        "connections": table["connections"],
        "min_bytes": own["min_bytes"],
        "max_bytes": own["max_bytes"],
        "mean_idle_s": own["mean_idle_ns"] / NS_PER_S,
        "idle_first": own["idle_first"],
        "duration_s": (table["stop_ns"] - table["start_ns"]) / NS_PER_S,
        "seed": seed,
    }
    # Not as a module: the package would take longer to import than the programs need to start.
    program = [sys.executable, "-I", str(Path(objects.__file__))]
    receive = [*program, "receive", addresses[receiver], str(port)]
    return Run(
        flow,
        table,
        FlowPort("tcp", receiver, port, outgoing=f"{flow} acks", incoming=flow),
        port,
        Program(f"the receiver of {flow}", receiver, receive, home / f"{flow}-receiver.json"),
        Program(
            f"the sender of {flow}",
            sender,
            [*program, "send", json.dumps(options)],
            home / f"{flow}-sender.json",
            may_finish=True,
        ),
    )


def _lines(path: Path) -> list[Json]:
    """All complete lines of JSON."""
    if not path.exists():
        return []
    return [json.loads(line) for line in path.read_text().splitlines() if line.endswith("}")]


def _listening_ports() -> set[int]:
    """Ports of this thread's network namespace on which TCP sockets listen."""
    rows = (line.split() for line in Path("/proc/thread-self/net/tcp").read_text().splitlines()[1:])
    return {int(row[1].rpartition(":")[2], 16) for row in rows if row[3] == LISTENING}
