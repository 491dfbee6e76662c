"""Cross traffic of live calls: real programs in the nodes, over the kernel's TCP and UDP.

Endless transfers and UDP are iperf3, one process at each end of each flow. Objects are
:mod:`.tcp_objects`, one process at each end of each table ``[traffic.NAME]``.

iperf3's control connection crosses the emulated network too and belongs to no flow. It is silent while data
are sent. Its 26 packets are 1.5 kB in total (measured), as much as one data packet. Two thirds of them travel
in the direction of the data, most of them before the first data packet. Because this connection comes first,
data begin three to four round trips later than planned.
"""

from __future__ import annotations

import asyncio
import json
import shutil
import signal
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from subprocess import DEVNULL, PIPE, Popen
from typing import IO

from rtclab.backend.live.connections import Address, PortFlows
from rtclab.backend.live.lab.cross_traffic_plan import TrafficCommand, TrafficPlan, planned
from rtclab.backend.live.lab.kernel_tcp import KERNEL_NAMES, kernel_congestion_controls, request_ecn
from rtclab.backend.live.lab.process import Process
from rtclab.backend.live.messages import Json
from rtclab.errors import BackendUnavailable, UnsupportedScenario
from rtclab.scenario import Scenario
from rtclab.scenario.table import one_of

FIRST_PORT = 20_000
"""Below the kernel's ephemeral ports (from 32768), from which calls and signalling take theirs."""
LISTEN_TIMEOUT_S = 10.0


def check_traffic(scenario: Scenario) -> None:
    """Checks that this machine has what the cross traffic of a scenario needs.

    Raises:
        UnsupportedScenario: the kernel lacks a congestion control, or tables with one sender differ in ECN.
        BackendUnavailable: iperf3 is not installed.
    """
    known = kernel_congestion_controls()
    for name, traffic in scenario.traffic.items():
        if traffic.congestion_control is not None and traffic.congestion_control not in known:
            known_names = one_of([f"`{own}`" for own in sorted(known)])
            raise UnsupportedScenario(
                f"traffic.{name}.congestion_control",
                f"this kernel has no `{traffic.congestion_control}`; expected {known_names}",
                hint=f"{_how_to_get(traffic.congestion_control)}, or run it simulated: --backend sim",
            )
        if traffic.objects is None and shutil.which("iperf3") is None:
            raise BackendUnavailable("iperf3 is not installed", hint="apt-get install iperf3")
    _check_ecn(scenario)


def _how_to_get(control: str) -> str:
    if control == "prague":
        return "only the Linux of the L4S team has it (github.com/L4STeam/linux)"
    return f"load the kernel module tcp_{KERNEL_NAMES[control]}"


def _check_ecn(scenario: Scenario) -> None:
    """The kernel has one setting for all connections that a node opens. DCTCP and Prague ignore it."""
    asks: dict[str, tuple[str, bool]] = {}
    for name, traffic in scenario.traffic.items():
        if traffic.congestion_control not in ("newreno", "cubic", "bbr"):
            continue
        other, ecn = asks.setdefault(traffic.sender, (name, traffic.ecn))
        if ecn != traffic.ecn:
            raise UnsupportedScenario(
                f"traffic.{name}.ecn",
                f"live, all TCP from `{traffic.sender}` uses ECN or none; "
                f"traffic.{other}.ecn is {str(ecn).lower()}",
                hint="let another node send it, or run it simulated: --backend sim",
            )


class CrossTraffic:
    """All cross traffic of a live call.

    Args:
        config: the tables ``[traffic.NAME]`` as :meth:`rtclab.scenario.Traffic.native` gives them.
        addresses: IPv4 address of each node.
        spawn: ``spawn(node, command, **options)`` starts a command in a node, with options of
            ``Popen``.
        home: directory for what the programs write. The caller deletes it.
        fail: called with the reason when a program ends that should not.
        seed: of the sizes of objects and the pauses between them.
    """

    def __init__(
        self,
        config: Sequence[Json],
        addresses: Mapping[str, str],
        spawn: Callable[..., Popen[bytes]],
        home: Path,
        fail: Callable[[str], None],
        *,
        seed: int = 1,
    ) -> None:
        self.plans: list[TrafficPlan] = []
        for index, table in enumerate(config):
            for flow in table["flows"]:
                port = FIRST_PORT + 2 * len(self.plans)
                self.plans.append(planned(table, flow, port, addresses, f"{seed}/{index}"))
        self._asking_for_ecn = {table["sender"] for table in config if table.get("ecn")}
        self._flows = [_Flow(plan, spawn, home / plan.flow, fail) for plan in self.plans]

    def port_flows(self) -> dict[Address, PortFlows]:
        """The ports of the programs, with their flows. Ports of iperf3's control connections have no flow."""
        servers = {(plan.server.node, plan.server_port): PortFlows() for plan in self.plans}
        return servers | {plan.address: plan.port_flows for plan in self.plans}

    async def prepare(self) -> None:
        """Starts all servers, and the senders of objects, which wait. Returns when all servers listen.

        Raises:
            CallFailed: a server ended, or it took too long.
        """
        for node in self._asking_for_ecn:
            request_ecn(node)
        for flow in self._flows:
            flow.prepare()
        await asyncio.gather(*(flow.listening() for flow in self._flows))

    async def run(self, sleep_until: Callable[[int], Awaitable[None]]) -> None:
        """Starts and stops everything at its time. Returns when all of it has been stopped.

        Args:
            sleep_until: waits until a time in ns since the run began.
        """
        await asyncio.gather(*(flow.run(sleep_until) for flow in self._flows))

    async def stop(self) -> list[Json]:
        """Ends all programs.

        Returns:
            for each table its ``name`` and either ``flows``, with iperf3's reports at the ``sender`` and the
            ``receiver`` of each flow, or ``objects``: ``source``, ``bytes``, and on the monotonic clock
            ``began_ns`` and ``ended_ns`` of each object.
        """
        await asyncio.gather(*(flow.stop() for flow in self._flows))
        said: dict[str, Json] = {}
        for flow in self._flows:
            name = flow.plan.flow.partition(".")[0]
            if flow.plan.sends_objects:
                said[name] = {"name": name, "objects": _lines(flow.client.report)}
            else:
                both = {"sender": flow.client.json(), "receiver": flow.server.json()}
                said.setdefault(name, {"name": name, "flows": {}})["flows"][flow.plan.flow] = both
        return list(said.values())


class TrafficProcess(Process):
    """One end of a flow: iperf3, or a sender or receiver of objects."""

    def run(self, command: list[str], *, stdin: int = DEVNULL) -> IO[bytes] | None:
        """Starts the program. Returns the pipe to its standard input if ``stdin`` asks for one."""
        self.report.parent.mkdir(parents=True, exist_ok=True)
        with self.report.open("wb") as report:
            self.start(command, stdin=stdin, stdout=report)
        return self.stdin if stdin == PIPE else None

    @property
    def report(self) -> Path:
        """The file of its standard output."""
        return self.home / "report.json"

    def json(self) -> Json:
        """The JSON object that it wrote; empty if it wrote none, or not all of it."""
        try:
            return dict(json.loads(self.report.read_text(errors="replace")))
        except (OSError, ValueError):
            return {}

    def last_words(self) -> str:
        """The error that iperf3 reports, or the last lines of standard error, to append to a reason."""
        reported = self.json().get("error")
        return f"; it last said: {reported}" if reported else super().last_words()


class _Flow:
    """The two programs of a plan, while they run."""

    def __init__(
        self, plan: TrafficPlan, spawn: Callable[..., Popen[bytes]], home: Path, fail: Callable[[str], None]
    ) -> None:
        self.plan = plan
        self._fail = fail
        self._begin: IO[bytes] | None = None
        """Standard input of a sender of objects, which waits for a line."""

        def program(part: TrafficCommand, folder: str) -> TrafficProcess:
            own = partial(spawn, part.node)
            return TrafficProcess(part.what, own, home / folder, self._failed, may_finish=part.may_finish)

        self.server, self.client = program(plan.server, "server"), program(plan.client, "client")

    def prepare(self) -> None:
        self.server.run(self.plan.server.command)
        if self.plan.sends_objects:
            self._begin = self.client.run(self.plan.client.command, stdin=PIPE)

    async def listening(self) -> None:
        await self.server.listening(
            self.plan.server_address, self.plan.server_port, protocols=("tcp",), timeout_s=LISTEN_TIMEOUT_S
        )

    async def run(self, sleep_until: Callable[[int], Awaitable[None]]) -> None:
        await sleep_until(self.plan.config["start_ns"])
        if self._begin is not None:
            self._begin.write(b"begin\n")
            self._begin.close()
        else:
            self.client.run(self.plan.client.command)
        await sleep_until(self.plan.config["stop_ns"])
        if self.plan.sends_objects:
            return  # objects that have begun are sent to their end
        self.client.interrupt()
        self.server.expect_end()
        if self.plan.port_flows.protocol == "tcp":
            # Stops the sender's kernel from sending its buffer: the receiver's kernel answers with a reset.
            self.server.interrupt()

    async def stop(self) -> None:
        # iperf3 writes its figures when it is interrupted.
        number = signal.SIGTERM if self.plan.sends_objects else signal.SIGINT
        await asyncio.gather(self.client.stop(number), self.server.stop(number))

    def _failed(self, reason: str) -> None:
        # The other end of the connection ends too; that is no further failure.
        self.server.expect_end()
        self.client.expect_end()
        self._fail(reason)


def _lines(path: Path) -> list[Json]:
    """All complete lines of JSON."""
    if not path.exists():
        return []
    return [json.loads(line) for line in path.read_text().splitlines() if line.endswith("}")]
