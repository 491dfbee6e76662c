"""A laboratory without root: one user namespace with the emulator and a network namespace per node.

Outside, :func:`run_in_lab` starts a fresh *lab* and calls a function in it. The lab is the first process of
a new user, network, mount and process namespace, so an ordinary user is root in there, and the kernel ends
everything in it when that process ends. It ends by itself when the caller goes away, however the caller goes.

Inside, :func:`create_nodes` makes network namespaces joined to the lab by veth pairs, :func:`node_command`
says how to start a process in one and :func:`listen_in_node` opens a server socket in one for the lab itself.
"""

from __future__ import annotations

import array
import contextlib
import ctypes
import fcntl
import importlib
import json
import os
import select
import signal
import socket
import struct
import subprocess
import sys
import threading
import traceback
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from rtclab.errors import BackendUnavailable, RtclabError

Json = dict[str, Any]
Emit = Callable[[Json], None]
Result = TypeVar("Result")

MTU_BYTES = 1500
PREFIX_BITS = 24
NODE_INTERFACE = "eth0"
NAMESPACES = Path("/run/netns")

UNSHARE = [
    "unshare", "--user", "--map-root-user", "--net", "--mount", "--pid",
    "--fork", "--kill-child", "--mount-proc", "--",
]  # fmt: skip
# `-c` and not `-m`: the module must not exist twice, once as __main__.
SERVE = "import sys; from rtclab.backend.live.namespaces import serve; serve(int(sys.argv[1]))"
STOP_TIMEOUT_S = 5.0
RECEIVE_BYTES = 1 << 20


class LabError(RtclabError):
    """What a function raised inside the lab, with the class name as ``kind``; or that the lab died."""

    def __init__(self, message: str, kind: str = "LabError") -> None:
        super().__init__(message)
        self.kind = kind


# --- outside --------------------------------------------------------------------------------------


def check_lab() -> None:
    """Make an empty lab and end it.

    Raises:
        BackendUnavailable: this machine lets an ordinary user make no such namespaces.
    """
    try:
        done = subprocess.run([*UNSHARE, "true"], capture_output=True, text=True, check=False)
    except FileNotFoundError:
        raise BackendUnavailable("`unshare` is not installed", hint="apt-get install util-linux") from None
    if done.returncode != 0:
        raise BackendUnavailable(
            f"this machine lets an ordinary user make no namespaces: {done.stderr.strip()}",
            hint="with sysctl set user.max_user_namespaces above 0 and, where they exist, "
            "kernel.unprivileged_userns_clone=1 and kernel.apparmor_restrict_unprivileged_userns=0",
        )


def run_in_lab(
    target: str, argument: Json, *, on_event: Emit | None = None, foreground: bool = False
) -> Json:
    """Call ``target`` in a fresh lab and return what it returns.

    Args:
        target: ``"package.module:function"``; called as ``function(argument, emit)``, where ``emit(event)``
            hands a JSON object to ``on_event`` while the function runs, from any thread.
        argument: JSON object. Large results are better left in files: the lab sees the same file system,
            except for an empty ``/run``.
        on_event: called in this thread with each emitted object. An exception of it ends the lab.
        foreground: the lab keeps the terminal: standard input and Ctrl-C reach the processes in it.
            The lab itself ignores Ctrl-C until ``target`` decides what it means. Otherwise it has
            neither, and its standard output goes to standard error.

    Raises:
        LabError: ``target`` raised (text of its error; the traceback is a note), or the lab died.
        BackendUnavailable: this machine lets an ordinary user make no such namespaces.
    """
    ours, theirs = socket.socketpair()
    with ours, theirs:
        process = subprocess.Popen(
            [*UNSHARE, sys.executable, "-c", SERVE, str(theirs.fileno()), f"rtclab-lab-of-{os.getpid()}"],
            pass_fds=[theirs.fileno()],
            stdin=None if foreground else subprocess.DEVNULL,
            stdout=None if foreground else 2,
            start_new_session=not foreground,
            preexec_fn=_ignore_ctrl_c if foreground else None,
        )
        theirs.close()
        try:
            return _converse(ours, {"target": target, "argument": argument}, on_event, process)
        finally:
            # The lab sees the end of the connection and ends itself.
            ours.shutdown(socket.SHUT_RDWR)
            try:
                process.wait(STOP_TIMEOUT_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def _ignore_ctrl_c() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def _converse(
    connection: socket.socket, request: Json, on_event: Emit | None, process: subprocess.Popen[bytes]
) -> Json:
    started = False
    with contextlib.suppress(ConnectionError):
        connection.sendall(json.dumps(request).encode() + b"\n")
        for line in _lines(connection):
            started = True
            message = json.loads(line)
            if "result" in message:
                result: Json = message["result"]
                return result
            if "error" in message:
                error = LabError(message["error"], message["kind"])
                error.add_note("inside the lab:\n" + message["traceback"])
                raise error
            if "event" in message and on_event is not None:
                on_event(message["event"])
    if not started:
        check_lab()
    status = process.wait()
    raise LabError(f"the lab ended with exit status {status} before `{request['target']}` had returned")


def _lines(connection: socket.socket) -> Iterator[bytes]:
    """The lines that the lab sends, until it closes the connection."""
    parts: list[bytes] = []
    while True:
        # A signal always interrupts select. It would not interrupt recv once polars has been used, which
        # sets SA_RESTART for SIGINT: Python would notice Ctrl-C when the lab says something.
        select.select([connection], [], [])
        received = connection.recv(RECEIVE_BYTES)
        if not received:
            return
        first, *others = received.split(b"\n")
        parts.append(first)
        for other in others:
            yield b"".join(parts)
            parts = [other]


# --- the lab's own process ------------------------------------------------------------------------


def serve(file_descriptor: int) -> None:
    """Process 1 of a lab: read one request, run it, send its result, end."""
    connection = socket.socket(fileno=file_descriptor)
    connection.set_inheritable(False)
    stream = connection.makefile("rw", encoding="utf-8")
    lock = threading.Lock()

    def send(message: Json) -> None:
        with lock:
            stream.write(json.dumps(message) + "\n")
            stream.flush()

    request = json.loads(stream.readline() or "null")
    if request is None:
        os._exit(1)
    threading.Thread(target=_end_with_caller, args=(connection,), daemon=True).start()
    try:
        send({"started": True})
        module, _, function = request["target"].partition(":")
        _prepare_lab()
        result = getattr(importlib.import_module(module), function)(
            request["argument"], lambda event: send({"event": event})
        )
        message = {"result": result}
    except BaseException as error:
        message = {
            "error": str(error) or type(error).__name__,
            "kind": type(error).__name__,
            "traceback": traceback.format_exc(),
        }
    with contextlib.suppress(ConnectionError):  # the caller is gone: nobody to tell
        send(message)
    sys.stdout.flush()
    sys.stderr.flush()
    # The kernel ends whatever still runs in the lab; no thread is waited for.
    os._exit(0)


def _end_with_caller(connection: socket.socket) -> None:
    with contextlib.suppress(OSError):
        connection.recv(1)
    os._exit(1)


def _prepare_lab() -> None:
    # Names of network namespaces live in /run, which an ordinary user cannot write.
    subprocess.run(["mount", "-t", "tmpfs", "-o", "mode=755", "tmpfs", "/run"], check=True)
    NAMESPACES.mkdir()
    _bring_up("lo")


# --- nodes, from inside the lab -------------------------------------------------------------------


@dataclass(frozen=True)
class Node:
    """A network namespace with one interface, whose other end is the emulator's port in the lab."""

    name: str
    address: str
    """IPv4 address of the node, /24."""
    mac: str
    """Hardware address of the node's own end."""
    port_interface: str
    """Interface in the lab that the emulator reads and writes."""

    def port(self) -> Json:
        """The entry of this node in ``ports`` of the emulator's configuration."""
        return {"node": self.name, "interface": self.port_interface, "mac": self.mac, "address": self.address}


def create_nodes(addresses: dict[str, str]) -> list[Node]:
    """Make one node per ``{name: IPv4 address}``; all in one /24, e.g. 10.77.0.0/24.

    Each node has ``lo`` and ``eth0`` up, MTU 1500, no IPv6, no offloads (frames leave with finished checksums
    and within the MTU), ping allowed, and no route to anything but the other nodes. Frames go nowhere until
    an emulator runs on the ports.
    """
    return [_create_node(index, name, address) for index, (name, address) in enumerate(addresses.items())]


def _create_node(index: int, name: str, address: str) -> Node:
    from pyroute2 import IPRoute

    node = Node(name, address, mac=f"02:77:00:00:00:{index + 1:02x}", port_interface=f"port{index}")
    path = NAMESPACES / name
    path.touch()
    subprocess.run(["unshare", f"--net={path}", "true"], check=True)
    call_in_node(name, lambda: _write_settings("all", "default"))
    _write_settings("all", "default")
    with IPRoute() as lab:
        peer = {"ifname": NODE_INTERFACE, "address": node.mac, "net_ns_fd": name}
        lab.link("add", ifname=node.port_interface, kind="veth", mtu=MTU_BYTES, peer=peer)
    _turn_offloads_off(node.port_interface)
    # The end that comes up last can send at once, the other one only when a kernel worker has noticed;
    # the emulator does not wait for that.
    _bring_up(node.port_interface)
    with IPRoute(netns=name) as inside:
        inside.addr(
            "add", index=inside.link_lookup(ifname=NODE_INTERFACE)[0], address=address, prefixlen=PREFIX_BITS
        )
    call_in_node(name, lambda: _turn_offloads_off(NODE_INTERFACE))
    call_in_node(name, lambda: _bring_up("lo"))
    call_in_node(name, lambda: _bring_up(NODE_INTERFACE))
    return node


def node_command(name: str, command: Iterable[str]) -> list[str]:
    """The command line that runs ``command`` in a node; its process id is that of the command itself."""
    return ["nsenter", f"--net={NAMESPACES / name}", "--", *command]


def call_in_node(name: str, function: Callable[[], Result]) -> Result:
    """Call ``function`` in a short-lived thread that has entered the node's network namespace.

    A socket that it opens stays in that namespace for ever.
    """
    outcome: list[Result] = []
    failure: list[BaseException] = []

    def body() -> None:
        try:
            _enter_namespace(NAMESPACES / name)
            outcome.append(function())
        except BaseException as error:
            failure.append(error)

    thread = threading.Thread(target=body)
    thread.start()
    thread.join()
    if failure:
        raise failure[0]
    return outcome[0]


def listen_in_node(name: str, address: str, port: int = 0) -> socket.socket:
    """A listening TCP socket inside a node, usable by this process, e.g. for ``aiohttp.web.SockSite``.

    With ``port`` 0 the kernel chooses one: ``getsockname()[1]``.
    """
    return call_in_node(name, lambda: socket.create_server((address, port)))


# --- what the kernel wants ------------------------------------------------------------------------

CLONE_NEWNET = 0x40000000  # linux/sched.h
SIOCETHTOOL = 0x8946  # linux/sockios.h
SIOCGIFFLAGS, SIOCSIFFLAGS, IFF_UP = 0x8913, 0x8914, 0x1  # linux/sockios.h, linux/if.h
# linux/ethtool.h: receive checksum, transmit checksum, scatter-gather, TSO, GSO, GRO.
ETHTOOL_OFFLOADS = {"rx": 0x15, "tx": 0x17, "sg": 0x19, "tso": 0x1F, "gso": 0x24, "gro": 0x2C}


def _enter_namespace(path: Path) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    with path.open() as namespace:
        if libc.setns(namespace.fileno(), CLONE_NEWNET) != 0:
            raise OSError(ctypes.get_errno(), f"cannot enter network namespace {path}")


def _write_settings(*interfaces: str) -> None:
    for interface in interfaces:
        setting = Path(f"/proc/sys/net/ipv6/conf/{interface}/disable_ipv6")
        if setting.exists():
            setting.write_text("1")
    # Group 0 is the only one that the user namespace maps.
    Path("/proc/sys/net/ipv4/ping_group_range").write_text("0 0")


def _turn_offloads_off(interface: str) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as handle:
        for command in ETHTOOL_OFFLOADS.values():
            value = array.array("I", [command, 0])
            request = struct.pack("16sP16x", interface.encode(), value.buffer_info()[0])
            fcntl.ioctl(handle, SIOCETHTOOL, request)


def _bring_up(interface: str) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as handle:
        request = struct.pack("16sH22x", interface.encode(), 0)
        (flags,) = struct.unpack_from("H", fcntl.ioctl(handle, SIOCGIFFLAGS, request), 16)
        fcntl.ioctl(handle, SIOCSIFFLAGS, struct.pack("16sH22x", interface.encode(), flags | IFF_UP))
