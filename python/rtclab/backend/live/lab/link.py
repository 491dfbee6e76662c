"""Runs a command behind an emulated link.

The command runs in the node ``client``, servers run in the node ``core``. ``up`` is the path from the command
to the servers, ``down`` is the path back.
"""

from __future__ import annotations

import json
import os
import select
import shlex
import shutil
import signal
import subprocess
import threading
import time
from dataclasses import asdict, dataclass
from pathlib import Path

from rtclab import _native
from rtclab.backend.live.lab.namespaces import (
    Emit,
    call_in_node,
    create_nodes,
    node_command,
    prioritise_emulator,
    run_in_lab,
)
from rtclab.backend.live.lab.process import waiting_ports
from rtclab.backend.live.messages import Json
from rtclab.errors import BadInput, RtclabError

CLIENT, CORE = "client", "core"
ADDRESSES = {CORE: "10.77.0.1", CLIENT: "10.77.0.2"}
DIRECTIONS = {"up": (CLIENT, CORE), "down": (CORE, CLIENT)}

SERVER_START_S = 2.0
"""The command starts after this time even if the server does not listen yet, for some servers never do."""
CHECK_INTERVAL_S = 0.2
INTERRUPTED_STATUS = 130
"""Exit status of a command stopped by Ctrl-C, as in shells: 128 + SIGINT."""


class CommandNotFound(BadInput):
    """The program of the command or of the server was not found."""

    exit_status = 127


def run_link(
    up: Json,
    down: Json,
    command: list[str],
    server: str = "",
    pcap: Path | None = None,
    seed: int = 1,
    *,
    output_to_stderr: bool = False,
) -> Json:
    """Runs a command behind a link and counts its packets.

    The result has the command's exit ``status``; ``directions``, with the traffic of ``up`` and ``down`` and,
    in ``protocols``, of each protocol; the emulator's ``lateness`` in ns; and its ``counters``. The native
    ``Emulator.stop`` describes them. Memory does not grow with the packets. After Ctrl-C during the
    preparations the result has the status alone.

    The command keeps the terminal. It finds the addresses of the two ends in ``RTCLAB_CLIENT`` and
    ``RTCLAB_SERVER``.

    Args:
        up: path from the command to ``core``, as the native network reads it.
        down: path from ``core`` to the command.
        command: program and arguments.
        server: command line started in ``core`` before the command and ended after it; none if empty.
        pcap: pcapng file to write, with all packets at both ends.
        seed: of losses and jitter.
        output_to_stderr: the command's standard output goes to standard error.

    Raises:
        BadInput: quotation marks of ``server`` do not match.
        CommandNotFound: there is no such command or server.
        RtclabError: the lab or the emulator failed.
    """
    server_words = _server_words(server)
    for words in filter(None, (command, server_words)):
        if shutil.which(words[0]) is None:
            raise CommandNotFound(f"command `{words[0]}` was not found", hint="is it installed and in PATH?")
    network = link_network(up, down, seed, None if pcap is None else str(pcap.absolute()))
    in_main_thread = threading.current_thread() is threading.main_thread()
    # The lab writes into this pipe before the command begins. An event of the lab could be read too late.
    begun, begins = os.pipe()
    plan = LinkPlan(network, command, server_words, output_to_stderr, begins)

    def ctrl_c(*_: object) -> None:
        # Ctrl-C reaches all foreground processes. The command handles it, and everything else ends with it.
        if not select.select([begun], [], [], 0)[0]:
            raise KeyboardInterrupt

    before = signal.signal(signal.SIGINT, ctrl_c) if in_main_thread else None
    try:
        session = "rtclab.backend.live.lab.link:link_session"
        return run_in_lab(session, asdict(plan), foreground=True, descriptors=[begins])
    except KeyboardInterrupt:
        return {"status": INTERRUPTED_STATUS}
    finally:
        if in_main_thread:
            signal.signal(signal.SIGINT, before)
        os.close(begun)
        os.close(begins)


def _server_words(command: str) -> list[str]:
    """Program and arguments of ``--server``, split as in a shell."""
    try:
        words = shlex.split(command)
    except ValueError as error:
        reason = str(error).lower()  # no closing quotation, no escaped character
        raise BadInput(f"--server: cannot read `{command}`: {reason}") from None
    if command and not words:
        raise BadInput(f"--server: expected a command; got `{command}`")
    return words


def link_network(up: Json, down: Json, seed: int, pcap: str | None = None) -> Json:
    """The emulator's configuration without its ports."""
    return {
        "nodes": list(ADDRESSES),
        "paths": [{**up, "name": "up"}, {**down, "name": "down"}],
        "routes": [{"from": a, "to": b, "paths": [name]} for name, (a, b) in DIRECTIONS.items()],
        "seed": seed,
        "pcap": pcap,
    }


def summary_text(result: Json) -> str:
    """Lines of text: notes, what became of the packets of each direction, and how late the emulator was.

    A direction with several protocols has a line for each.
    """
    lines = list(result.get("notes", ()))
    for name, passed in result["directions"].items():
        lines.append(f"{name}: {_in_words(passed)}")
        if len(passed["protocols"]) > 1:
            lines += [f"  {kind.upper()}: {_in_words(one)}" for kind, one in passed["protocols"].items()]
    lines.append(_lateness_in_words(result["lateness"]))
    return "\n".join(f"rtclab link: {line}" for line in lines)


def _in_words(passed: Json) -> str:
    """What went in and where it is, which adds up; then rate and delay."""
    if not passed["packets"]:
        return "no packets"
    ends = {
        "arrived": passed["delivered"],
        "dropped in the queue": passed["queue"],
        "dropped by its discipline": passed["aqm"],
        "lost": passed["loss"],
        "on the way at the end": passed["on_the_way"],
    }
    # Zero of the others is worth knowing; most queues have no discipline, and most links have emptied.
    rare = ("dropped by its discipline", "on the way at the end")
    told = ", ".join(f"{many} {end}" for end, many in ends.items() if many or end not in rare)
    text = f"{passed['packets']} packets went in: {told}"
    if passed["marked"]:
        causes = ", ".join(f"{many} {cause}" for cause, many in passed["marks"].items() if many)
        text += f"; {passed['marked']} of {passed['ecn_capable']} ECN-capable ones arrived marked ({causes})"
    if passed["delivered_bps"] is not None:
        text += f"; {passed['delivered_bps'] / 1e3:.4g} kbit/s arrived"
    if passed["delay_p50_ms"] is not None:
        median_ms, high_ms = passed["delay_p50_ms"], passed["delay_p95_ms"]
        text += f"; delay {median_ms:.1f} ms (median), {high_ms:.1f} ms (95th percentile)"
    return text


def _lateness_in_words(late: Json) -> str:
    if not late["count"]:
        return (
            "the emulator forwarded nothing: the command reaches the far end alone, at the address in "
            "RTCLAB_SERVER"
        )
    p99_ms, max_ms, bound_ms = (late[name] / 1e6 for name in ("p99_ns", "max_ns", "bound_ns"))
    told = f"99 in 100 packets left the emulator at most {p99_ms:.2f} ms late, the latest {max_ms:.2f} ms"
    if late["p99_ns"] <= late["bound_ns"]:
        return f"{told}; this is within the bound of {bound_ms:g} ms, so the link was as asked for"
    return f"{told}; the bound is {bound_ms:g} ms, so the command met another network than asked for"


# --- inside the lab ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class LinkPlan:
    """What crosses into the lab of a link."""

    network: Json
    """The emulator's configuration without its ports."""
    command: list[str]
    server: list[str]
    """Program and arguments; empty without a server."""
    output_to_stderr: bool
    begins: int
    """File descriptor of the pipe to which the lab writes before the command begins."""


def link_session(values: Json, _emit: Emit) -> Json:
    """Runs the command and returns its status and the summary. :func:`run_link` runs this in the lab."""
    plan = LinkPlan(**values)
    # A handler, because the command would inherit SIG_IGN.
    signal.signal(signal.SIGINT, lambda *_: None)
    emulator = start_emulator(plan.network)
    environment = ["env", f"RTCLAB_CLIENT={ADDRESSES[CLIENT]}", f"RTCLAB_SERVER={ADDRESSES[CORE]}"]
    server = None
    if plan.server:
        words = node_command(CORE, [*environment, *plan.server])
        # In a separate session, Ctrl-C reaches only the command. Standard output is for the command too.
        server = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=2, start_new_session=True)
        wait_until_listening(server, shlex.join(plan.server))
    os.write(plan.begins, b"!")
    output = 2 if plan.output_to_stderr else None
    process = subprocess.Popen(node_command(CLIENT, [*environment, *plan.command]), stdout=output)
    status = None
    while status is None and emulator.is_running():
        try:
            status = process.wait(CHECK_INTERVAL_S)
        except subprocess.TimeoutExpired:
            continue
    if server is not None:
        server.terminate()
    summary = stopped(emulator)
    assert status is not None
    return {
        "status": status if status >= 0 else 128 - status,
        "directions": {name: _direction(summary, name) for name in DIRECTIONS},
        "lateness": summary["lateness"],
        "counters": summary["counters"],
    }


def start_emulator(network: Json) -> _native.Emulator:
    ports = [node.port() for node in create_nodes(ADDRESSES)]
    emulator = _native.Emulator(json.dumps({**network, "ports": ports}))
    try:
        emulator.start()
    except OSError as error:  # the capture file cannot be created
        raise RtclabError(error.strerror or str(error)) from error
    prioritise_emulator()
    return emulator


def stopped(emulator: _native.Emulator) -> Json:
    """Stops the emulator and returns its record.

    Raises:
        RtclabError: the emulator had ended by itself, or its capture file is incomplete.
    """
    summary = emulator.stop()
    if (failure := summary["failure"]) is not None:
        raise RtclabError(getattr(failure, "strerror", None) or str(failure)) from failure
    return summary


def wait_until_listening(server: subprocess.Popen[bytes], text: str) -> None:
    """Waits until something listens in ``core``, but at most ``SERVER_START_S``.

    Raises:
        RtclabError: the server ended.
    """
    deadline = time.monotonic() + SERVER_START_S
    while time.monotonic() < deadline:
        if server.poll() is not None:
            raise RtclabError(
                f"server `{text}` ended with exit status {server.returncode} before it listened"
            )
        if call_in_node(CORE, _something_listens):
            return
        time.sleep(0.01)


def _something_listens() -> bool:
    return any(
        waiting_ports(table.read_text(), name[:3])
        for name in ("tcp", "tcp6", "udp", "udp6")
        if (table := Path(f"/proc/thread-self/net/{name}")).exists()
    )


def _direction(summary: Json, path: str) -> Json:
    """The traffic of a direction, all together and by protocol."""
    sender, receiver = DIRECTIONS[path]
    return next(one for one in summary["traffic"] if (one["from"], one["to"]) == (sender, receiver))
