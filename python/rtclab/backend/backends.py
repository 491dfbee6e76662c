"""How to run a scenario: the protocol of all backends, and the backends by name."""

from __future__ import annotations

import importlib
import os
import platform
import sys
from collections.abc import Callable, Mapping, Sequence, Set
from functools import cache
from pathlib import Path
from typing import Any, Protocol

import polars as pl

import rtclab
from rtclab.backend.promises import promised_media
from rtclab.backend.taking_turns import turn
from rtclab.errors import SEE_DOCTOR, BackendUnavailable, BadInput, need_linux
from rtclab.scenario import Scenario
from rtclab.scenario.network import route
from rtclab.scenario.topology import named_connections
from rtclab.trace import (
    SCHEMAS,
    CallInfo,
    FlowInfo,
    Machine,
    NotConnected,
    Trace,
    TraceManifest,
)

__all__ = ["NAMES", "Backend", "Watch", "backend", "machine", "turn", "unwatched", "versions"]

Watch = Callable[[dict[str, Any]], None]
"""Takes what is new in a repeat, as :class:`rtclab.backend.sampler.Sampler` makes it."""


def unwatched(_new: dict[str, Any]) -> None:
    """Takes what is new and does nothing with it: the watch of a run that nobody watches."""


class Backend(Protocol):
    """Runs repeats of a scenario and writes their traces.

    ``name`` is used on the command line and in names of run directories. ``parallel`` says whether several
    repeats may run at the same time in threads. ``deterministic`` says whether a failed repeat would fail
    again. ``capture`` says whether a capture is written on request; live calls always write one.
    """

    name: str
    parallel: bool
    deterministic: bool
    capture: bool

    def check(self, scenario: Scenario) -> None:
        """Checks the scenario and the machine before anything starts.

        First of all it asks ``scenario.check_trusted``, because checking a control may import it.

        Raises:
            BadInput: strangers made the scenario, it would do something as the user, and it is not trusted.
            UnsupportedScenario: the backend cannot run the scenario. The message names the field.
            BackendUnavailable: this machine lacks something. The message names it.
        """

    def run(
        self, scenario: Scenario, *, seed: int, repeat: int, out: Path, watch: Watch = unwatched
    ) -> Trace:
        """Runs one repeat and writes its trace to the directory ``out``.

        ``out`` must exist. Logs and captures may be written there too. ``watch`` gets what is new: of a live
        call once a second, of a simulated one at its end.

        Raises:
            RtclabError: the repeat failed. The message becomes its reason.
        """


# Imported on demand, because the simulator does not need the modules of live calls.
_HOME = {"sim": ("rtclab.backend.sim", "SimBackend"), "live": ("rtclab.backend.live", "LiveBackend")}

NAMES = tuple(_HOME)

REBUILD = "install rtclab again; in its repository, run `make setup`"
"""The hint about a missing or outdated native module."""


def backend(name: str) -> Backend:
    """The backend of this name.

    Raises:
        BadInput: there is no such backend.
        BackendUnavailable: a Python module that it needs is not installed, or the system is not Linux.
    """
    if name not in _HOME:
        raise BadInput(f"no backend `{name}`; expected {' or '.join(NAMES)}")
    if name == "live":
        need_linux("live calls")
    module, attribute = _HOME[name]
    try:
        made: Backend = getattr(importlib.import_module(module), attribute)()
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] == "rtclab" and error.name != "rtclab._native":
            raise
        raise BackendUnavailable(
            f"the {name} backend needs the Python module `{error.name}`, which is not installed",
            hint=SEE_DOCTOR if name == "live" else REBUILD,
        ) from None
    return made


def manifest(
    scenario: Scenario, *, backend: str, seed: int, repeat: int, browser: str | None = None
) -> TraceManifest:
    """The manifest of a repeat as planned, without the fields that are known only after the repeat."""
    return TraceManifest(
        backend=backend,
        scenario=scenario.model_dump(mode="json"),
        versions=versions(),
        machine=machine(),
        seed=seed,
        repeat=repeat,
        duration_ns=scenario.duration.ns,
        participants=tuple(scenario.participants),
        calls=planned_calls(scenario),
        flows=planned_flows(scenario),
        connections=len(planned_pairs(scenario)),
        browser=browser,
    )


def planned_calls(scenario: Scenario) -> tuple[CallInfo, ...]:
    """Every call, with its planned start and end."""
    end = scenario.duration
    return tuple(
        CallInfo(
            kind=call.kind,
            participants=tuple(call.participants),
            start_ns=call.start.ns,
            end_ns=(end if call.end is None else min(call.end, end)).ns,
            relay=call.relay,
        )
        for call in scenario.calls
    )


def planned_flows(scenario: Scenario) -> dict[str, FlowInfo]:
    """Every flow of calls and traffic, from the planned start of its connection to the planned end."""
    spans: dict[str, tuple[int, int]] = {}
    forwarded: set[str] = set()
    for connection, names in named_connections(scenario):
        forwarded |= {names[0]} if connection.forwards is not None else set()
        for name in names:
            start_ns, end_ns = spans.get(name, (connection.start_ns, 0))
            spans[name] = min(start_ns, connection.start_ns), max(end_ns, connection.end_ns)
    promised = promised_media(scenario)
    flows = {
        flow.name: FlowInfo(
            sender=flow.sender,
            receiver=flow.receiver,
            route=flow.paths,
            call=flow.call,
            begin_ns=spans[flow.name][0],
            end_ns=spans[flow.name][1],
            forwarded=flow.name in forwarded,
            promised=promised.get(flow.name, {}),
        )
        for flow in scenario.flows()
    }
    for name, traffic in scenario.traffic.items():
        end = min(traffic.end or scenario.duration, scenario.duration)
        span = {"begin_ns": min(traffic.start, end).ns, "end_ns": end.ns}
        there, back = (traffic.sender, traffic.receiver), (traffic.receiver, traffic.sender)
        for flow in traffic.flow_names(name):
            ways = [(flow, there, None), (f"{flow} acks", back, flow)]
            # UDP has no acknowledgements.
            for key, ends, data in ways[: 1 if traffic.protocol == "udp" else 2]:
                sender, receiver = ends
                flows[key] = FlowInfo(
                    sender=sender,
                    receiver=receiver,
                    route=route(scenario, *ends),
                    acknowledges=data,
                    promised={},
                    **span,
                )
    return flows


Pairs = dict[tuple[int, str, str], tuple[int, list[str]]]
"""Pairs of nodes to be connected, by call: for how long in ns, and the flows between the two."""


Events = Sequence[tuple[str, str | None, str]]
"""Participant, flow and name of each event, in order: three columns of the table ``events``."""


def not_connected(scenario: Scenario, events: Events) -> tuple[NotConnected, ...]:
    """The pairs of nodes that should have connected and did not, according to the events."""
    return missing_pairs(planned_pairs(scenario), connected_flows(events))


def missing_pairs(planned: Pairs, connected: Set[str]) -> tuple[NotConnected, ...]:
    """The pairs of nodes without a connected flow."""
    return tuple(
        NotConnected(a=a, b=b, call=call, within_ns=within_ns)
        for (call, a, b), (within_ns, flows) in planned.items()
        if connected.isdisjoint(flows)
    )


def connected_flows(events: Events) -> set[str]:
    """The flows whose connection came up."""
    return {flow for _, flow, event in events if event == "dtls_connected" and flow is not None}


def failure_of(missing: Sequence[NotConnected], planned: int, last: Mapping[str, str]) -> str | None:
    """Why a repeat failed; None if it did not fail.

    Args:
        missing: the pairs that did not connect.
        planned: how many pairs should have connected.
        last: the last event of each participant, ``none`` if there was none.
    """
    return nobody_connected(missing[0], last) if missing and len(missing) == planned else None


def nobody_connected(first: NotConnected, last: Mapping[str, str]) -> str:
    """Why a repeat failed in which no pair connected, ``first`` among them.

    ``last`` has the last event of each participant, ``none`` if there was none.
    """
    steps = [f"{name}'s is `{last[name]}`" for name in (first.a, first.b) if name in last]
    return f"{first}; last event: {' and '.join(steps)}"


def last_events(events: Events) -> dict[str, str]:
    """The last event of each participant before it left."""
    return {participant: event for participant, _, event in events if event != "left"}


def planned_pairs(scenario: Scenario) -> Pairs:
    """The pairs of nodes that should be connected.

    Several connections may join the same pair, because a server has one for each sender that it forwards.
    """
    found: Pairs = {}
    for connection, flows in named_connections(scenario):
        if connection.start_ns < connection.end_ns:
            a, b = sorted((connection.a, connection.b))
            key = connection.call, a, b
            within_ns, known = found.get(key, (0, []))
            length_ns = connection.end_ns - connection.start_ns
            found[key] = max(within_ns, length_ns), [*known, *flows]
    return found


def paths_table(scenario: Scenario) -> pl.DataFrame:
    """The table ``paths``: capacity and delay of every path at each change, as planned."""
    return pl.DataFrame(scenario.path_changes(), schema=SCHEMAS["paths"], orient="row")


def versions() -> dict[str, str]:
    """Names and versions of the programs that produce runs."""
    return {"rtclab": rtclab.__version__, "python": platform.python_version()}


@cache
def machine() -> Machine:
    """System, kernel, processor, cores and memory of this computer, for manifests."""
    return Machine(
        system=platform.system(),
        kernel=platform.release(),
        processor=_processor(),
        cores=os.cpu_count(),
        memory_bytes=None
        if sys.platform == "win32"
        else os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
    )


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.machine()
    models = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(models, platform.machine())
