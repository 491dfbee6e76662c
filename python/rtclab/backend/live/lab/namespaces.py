"""A lab without root: a user namespace with the emulator, and a network namespace per node.

From outside, :func:`run_in_lab` starts a new *lab* and calls a function in it. The lab is the first process
of new user, network, mount and process namespaces. An unprivileged user is root in there, and the kernel
kills everything in it when that process ends. The lab ends when its caller ends, even if that is killed.

Inside, :func:`create_nodes` creates network namespaces that are connected to the lab by veth pairs.
:func:`node_command` gives the command line for a process in a node, and :func:`listen_in_node` opens a server
socket in a node for the lab itself.
"""

from __future__ import annotations

import contextlib
import ctypes
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
import time
import traceback
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from rtclab.backend.live.messages import Json
from rtclab.errors import BackendUnavailable, RtclabError

with suppress(ModuleNotFoundError):  # `rtclab doctor` works without it, on Windows
    import fcntl
    import resource

Emit = Callable[[Json], None]
Result = TypeVar("Result")

MTU_BYTES = 1500
PREFIX_BITS = 24
NODE_INTERFACE = "eth0"
RUN = Path("/run")
"""A file system of the lab's own, in memory, which disappears with the lab."""
RUN_SIZE = "25%"
"""Its size, of the machine's memory; the default is half. Four browsers have used 65 MB."""
NAMESPACES = RUN / "netns"

UNSHARE = [
    "unshare", "--user", "--map-root-user", "--net", "--mount", "--pid",
    "--fork", "--kill-child", "--mount-proc", "--",
]  # fmt: skip
# With `-m` the module would exist twice, once as __main__.
SERVE = "import sys; from rtclab.backend.live.lab.namespaces import serve; serve(int(sys.argv[1]))"
STOP_TIMEOUT_S = 5.0
EMULATOR_THREAD = "rtclab-emulator"
"""Name of the thread that carries packets: ``crates/rtclab-emu/src/emulator.rs``."""
THREAD_START_S = 1.0
"""How long it may take until the thread has its name."""
REALTIME_PRIORITY = 1
"""The lowest one, which is before all ordinary threads."""
RECEIVE_BYTES = 1 << 20


class LabError(RtclabError):
    """A function raised an error inside the lab (``kind`` is its class name), or the lab died."""

    def __init__(self, message: str, kind: str = "LabError") -> None:
        super().__init__(message)
        self.kind = kind


# --- outside --------------------------------------------------------------------------------------


def check_lab() -> None:
    """Starts an empty lab and ends it.

    Raises:
        BackendUnavailable: this machine does not let unprivileged users create the namespaces.
    """
    try:
        done = subprocess.run([*UNSHARE, "true"], capture_output=True, text=True, check=False)
    except FileNotFoundError:
        raise BackendUnavailable("`unshare` is not installed", hint="apt-get install util-linux") from None
    if done.returncode != 0:
        raise BackendUnavailable(
            f"this machine does not let unprivileged users create namespaces: {done.stderr.strip()}",
            hint="use sysctl to set user.max_user_namespaces above 0 and, if they exist, "
            "kernel.unprivileged_userns_clone=1 and kernel.apparmor_restrict_unprivileged_userns=0",
        )


def run_in_lab(
    target: str,
    argument: Json,
    *,
    on_start: Callable[[int], None] | None = None,
    on_event: Emit | None = None,
    foreground: bool = False,
    descriptors: Sequence[int] = (),
) -> Json:
    """Calls ``target`` in a new lab and returns its result.

    Args:
        target: ``"package.module:function"``, which is called as ``function(argument, emit)``. It may call
            ``emit(event)`` from any thread to pass a JSON object to ``on_event``.
        argument: JSON object. Large results should be files: the lab sees the same file system, except that
            ``/run`` is empty.
        on_start: called in this thread with the id of a process in the lab's namespaces, before ``target``
            has returned. An exception from it ends the lab.
        on_event: called in this thread with each emitted object. An exception from it ends the lab.
        foreground: the lab keeps the terminal, so that standard input and Ctrl-C reach its processes. The lab
            itself ignores Ctrl-C until ``target`` handles it. Without ``foreground`` the lab has neither, and
            its standard output goes to standard error.
        descriptors: file descriptors that the lab inherits, with the same numbers. A socket among them stays
            in the caller's network namespace.

    Raises:
        LabError: ``target`` raised an error, whose traceback is a note, or the lab died.
        BackendUnavailable: this machine does not let unprivileged users create the namespaces.
    """
    ours, theirs = socket.socketpair()
    with ours, theirs:
        process = subprocess.Popen(
            [*UNSHARE, sys.executable, "-c", SERVE, str(theirs.fileno()), f"rtclab-lab-of-{os.getpid()}"],
            pass_fds=[theirs.fileno(), *descriptors],
            stdin=None if foreground else subprocess.DEVNULL,
            stdout=None if foreground else 2,
            start_new_session=not foreground,
            preexec_fn=_ignore_ctrl_c if foreground else None,
        )
        theirs.close()
        try:
            return _converse(ours, {"target": target, "argument": argument}, on_start, on_event, process)
        finally:
            # The lab ends when the connection is closed.
            ours.shutdown(socket.SHUT_RDWR)
            try:
                process.wait(STOP_TIMEOUT_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def _ignore_ctrl_c() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def _converse(
    connection: socket.socket,
    request: Json,
    on_start: Callable[[int], None] | None,
    on_event: Emit | None,
    process: subprocess.Popen[bytes],
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
            if "started" in message and on_start is not None:
                on_start(process.pid)
            if "event" in message and on_event is not None:
                on_event(message["event"])
            if "emulator_runs" in message:
                _prioritise_emulator(process.pid)
    if not started:
        check_lab()
    status = process.wait()
    raise LabError(f"the lab ended with exit status {status} before `{request['target']}` had returned")


def _prioritise_emulator(unshare: int) -> None:
    """Gives the emulator real-time priority if this process may do that.

    Args:
        unshare: id of the parent of the lab's process.
    """
    policy = os.SCHED_FIFO | os.SCHED_RESET_ON_FORK
    with contextlib.suppress(OSError):
        (lab,) = Path(f"/proc/{unshare}/task/{unshare}/children").read_text().split()
        for thread in _threads_of_emulator(Path("/proc") / lab):
            os.sched_setscheduler(thread, policy, os.sched_param(REALTIME_PRIORITY))


def _threads_of_emulator(process: Path) -> list[int]:
    """Ids of the emulator's threads, which have their name soon after they start."""
    threads = []
    for task in (process / "task").iterdir():
        with contextlib.suppress(OSError):  # it has ended meanwhile
            if (task / "comm").read_text().strip() == EMULATOR_THREAD:
                threads.append(int(task.name))
    return threads


def _lines(connection: socket.socket) -> Iterator[bytes]:
    """The lines that the lab sends, until it closes the connection."""
    parts: list[bytes] = []
    while True:
        # A signal always interrupts select, but not recv: polars sets SA_RESTART for SIGINT, and Python would
        # notice Ctrl-C only at the next message.
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


_senders: list[Callable[[Json], None]] = []
"""In a lab, what sends a message to its caller."""


def serve(file_descriptor: int) -> None:
    """Process 1 of a lab: reads one request, runs it, sends the result and exits."""
    connection = socket.socket(fileno=file_descriptor)
    connection.set_inheritable(False)
    stream = connection.makefile("rw", encoding="utf-8")
    lock = threading.Lock()

    def send(message: Json) -> None:
        with lock:
            stream.write(json.dumps(message) + "\n")
            stream.flush()

    _senders.append(send)
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
    with contextlib.suppress(ConnectionError):  # the caller has ended
        send(message)
    sys.stdout.flush()
    sys.stderr.flush()
    # Without waiting for threads. The kernel kills everything that still runs in the lab.
    os._exit(0)


def prioritise_emulator() -> None:
    """Asks outside the lab for real-time priority of the emulator, which has just been started.

    In the lab nobody may set that. Outside, root may.
    """
    deadline = time.monotonic() + THREAD_START_S
    while not _threads_of_emulator(Path("/proc/self")) and time.monotonic() < deadline:
        time.sleep(0.001)
    for send in _senders:
        send({"emulator_runs": True})


def _end_with_caller(connection: socket.socket) -> None:
    with contextlib.suppress(OSError):
        connection.recv(1)
    os._exit(1)


def _prepare_lab() -> None:
    # A program that crashes would leave a file of its memory, in the user's directory if it runs there.
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    # Names of network namespaces are files in /run, which is not writable for an unprivileged user.
    options = f"mode=755,size={RUN_SIZE}"
    subprocess.run(["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(RUN)], check=True)
    NAMESPACES.mkdir()
    _bring_up("lo")


# --- nodes, from inside the lab -------------------------------------------------------------------


@dataclass(frozen=True)
class Node:
    """A network namespace with one interface. The other end of its veth pair is a port of the emulator."""

    name: str
    address: str
    """IPv4 address of the node, /24."""
    mac: str
    """Hardware address of the node's interface."""
    port_interface: str
    """Interface in the lab that the emulator reads and writes."""

    def port(self, *, gateway: bool = False) -> Json:
        """The entry of this node in ``ports`` of the emulator's configuration.

        A ``gateway`` gets the packets to addresses that no node has.
        """
        return {
            "node": self.name,
            "interface": self.port_interface,
            "mac": self.mac,
            "address": self.address,
            "gateway": gateway,
        }


def create_nodes(addresses: dict[str, str]) -> list[Node]:
    """Creates one node per ``{name: IPv4 address}``, all in one /24 such as 10.77.0.0/24.

    In each node ``lo`` and ``eth0`` are up. It has MTU 1500, no IPv6, permission to ping, and routes only
    to the other nodes. Its kernel leaves checksums, and cutting TCP into packets, to the emulator. No frames
    are delivered until an emulator runs on the ports.
    """
    return [_create_node(index, name, address) for index, (name, address) in enumerate(addresses.items())]


def _create_node(index: int, name: str, address: str) -> Node:
    from pyroute2 import IPRoute

    node = Node(name, address, mac=f"02:77:00:00:00:{index + 1:02x}", port_interface=f"port{index}")
    create_namespace(name)
    _write_settings("all", "default")
    with IPRoute() as lab:
        peer = {"ifname": NODE_INTERFACE, "address": node.mac, "net_ns_fd": name}
        lab.link("add", ifname=node.port_interface, kind="veth", mtu=MTU_BYTES, peer=peer)
    _set_offloads(node.port_interface)
    # The end that comes up last can send at once. The other end's queueing discipline swallows frames until a
    # kernel worker activates it, but the emulator bypasses it, so the emulator's port comes up first.
    _bring_up(node.port_interface)
    set_up_interface(name, NODE_INTERFACE, address)
    return node


def name_nodes(nodes: Iterable[Node]) -> None:
    """Lets every program in the lab resolve the names of nodes, by an ``/etc/hosts`` of the lab's own."""
    hosts = RUN / "hosts"
    lines = ["127.0.0.1 localhost", *(f"{node.address} {node.name}" for node in nodes)]
    hosts.write_text("".join(f"{line}\n" for line in lines))
    subprocess.run(["mount", "--bind", str(hosts), "/etc/hosts"], check=True)


def create_namespace(name: str) -> None:
    """Creates a network namespace in which only ``lo`` exists, with the settings of a node.

    Raises:
        BackendUnavailable: the kernel refused, because of its limit of namespaces.
    """
    path = NAMESPACES / name
    path.touch()
    done = subprocess.run(["unshare", f"--net={path}", "true"], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise BackendUnavailable(
            f"cannot create the network namespace of {name}: {done.stderr.strip()}",
            hint="use sysctl to raise user.max_net_namespaces",
        )
    call_in_node(name, lambda: _write_settings("all", "default"))
    call_in_node(name, lambda: _bring_up("lo"))


def set_up_interface(name: str, interface: str, address: str) -> None:
    """Gives an interface in namespace ``name`` its IPv4 address, sets its offloads and brings it up."""
    from pyroute2 import IPRoute

    def set_up() -> None:
        with IPRoute() as here:
            index = here.link_lookup(ifname=interface)[0]
            here.addr("add", index=index, address=address, prefixlen=PREFIX_BITS)
        _set_offloads(interface)
        _bring_up(interface)

    call_in_node(name, set_up)


def node_command(name: str, command: Iterable[str]) -> list[str]:
    """The command line that runs ``command`` in a node, as a process with the id of the command."""
    return ["nsenter", f"--net={NAMESPACES / name}", "--", *command]


def spawn_in_node(node: str, command: list[str], **options: Any) -> subprocess.Popen[bytes]:
    """Starts a command in a node."""
    return subprocess.Popen(node_command(node, command), **options)


def call_in_node(name: str, function: Callable[[], Result]) -> Result:
    """Calls ``function`` in a temporary thread in the node's network namespace.

    A socket that it opens stays in that namespace.
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


def sockets_in_node(name: str) -> Callable[[Any], socket.socket]:
    """Makes sockets inside a node: the ``socket_factory`` of an ``aiohttp.TCPConnector``."""
    return lambda info: call_in_node(name, lambda: socket.socket(*info[:3]))


def listen_in_node(name: str, address: str, port: int = 0) -> socket.socket:
    """A listening TCP socket inside a node for use by this process, e.g. with ``aiohttp.web.SockSite``.

    If ``port`` is 0 the kernel chooses one, which is ``getsockname()[1]``.
    """
    return call_in_node(name, lambda: socket.create_server((address, port)))


# --- system calls ---------------------------------------------------------------------------------

CLONE_NEWNET = 0x40000000  # linux/sched.h
SIOCGIFFLAGS, SIOCSIFFLAGS, IFF_UP = 0x8913, 0x8914, 0x1  # linux/sockios.h, linux/if.h
OFFLOADS = {
    "tx-checksum-ip-generic",
    "tx-scatter-gather",
    "tx-generic-segmentation",
    "tx-tcp-segmentation",
    "tx-tcp-ecn-segmentation",
}
"""What an interface leaves to the emulator, by ethtool's names: checksums, and cutting TCP into packets."""


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
    # Group 0 is the only group that exists in the user namespace.
    Path("/proc/sys/net/ipv4/ping_group_range").write_text("0 0")


def _set_offloads(interface: str) -> None:
    """Turns the offloads on that the emulator knows, and all others off."""
    from pyroute2.ethtool.ioctl import IoctlEthtool

    settings = IoctlEthtool(interface)
    try:
        features = settings.get_features()
        for name, is_on, can_change, *_ in list(features):
            if can_change and is_on != (name in OFFLOADS):
                features[name] = name in OFFLOADS
        settings.set_features(features)
    finally:
        settings.close()


def _bring_up(interface: str) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as handle:
        request = struct.pack("16sH22x", interface.encode(), 0)
        (flags,) = struct.unpack_from("H", fcntl.ioctl(handle, SIOCGIFFLAGS, request), 16)
        fcntl.ioctl(handle, SIOCSIFFLAGS, struct.pack("16sH22x", interface.encode(), flags | IFF_UP))
