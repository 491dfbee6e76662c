"""A program in a node: starts and stops it, waits until it listens, notices its end, keeps its output."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import subprocess
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import IO

from rtclab.errors import CallFailed

with suppress(ModuleNotFoundError):  # `rtclab doctor` works without it
    import psutil

STOP_GRACE_S = 2.0
CHECK_INTERVAL_S = 0.02
LAST_LINES = 6
LAST_BYTES = 4096
WAITING = {"tcp": "0A", "udp": "07"}
"""State, by protocol, of a socket that waits for clients: listening, or not connected (net/tcp_states.h)."""

Spawn = Callable[..., subprocess.Popen[bytes]]
"""Starts a command in a node, with the arguments of ``subprocess.Popen``."""


class Process:
    """One program.

    Args:
        name: the name of the program in reasons, such as ``the browser of alice``.
        spawn: starts a command in the program's node.
        home: the program's directory, which has its output in ``output.txt``. The caller deletes it.
        on_exit: called once, with the reason, if the program ends before it is stopped.
        may_finish: whether it may end by itself, with exit status 0, when it has nothing more to do.
    """

    def __init__(
        self,
        name: str,
        spawn: Spawn,
        home: Path,
        on_exit: Callable[[str], None],
        *,
        may_finish: bool = False,
    ) -> None:
        self.name = name
        self._spawn = spawn
        self.home = home
        self._on_exit = on_exit
        self._may_finish = may_finish
        self._process: subprocess.Popen[bytes] | None = None
        self._exit_descriptor = -1
        self._stopping = False
        self._awaited = False
        """Whether :meth:`listening` waits for the program, and says so if it ends."""

    def start(
        self,
        command: list[str],
        environment: Mapping[str, str] | None = None,
        *,
        stdin: int = subprocess.DEVNULL,
        stdout: int | IO[bytes] | None = None,
        directory: Path | None = None,
    ) -> None:
        """Starts the program in a directory, by default its home.

        Its environment is small, and ``environment`` adds to it.

        ``stdin`` and ``stdout`` are passed to ``subprocess.Popen``. Without ``stdout``, standard output is
        kept together with standard error. It needs a running event loop, which notices the program's end.
        """
        self.home.mkdir(parents=True, exist_ok=True)
        small = {
            "HOME": str(self.home),
            "TMPDIR": str(self.home),
            "PATH": os.environ.get("PATH", os.defpath),
            "LANG": "C.UTF-8",
        }
        with self._output.open("wb") as output:
            self._process = self._spawn(
                command,
                stdin=stdin,
                stdout=output if stdout is None else stdout,
                stderr=output,
                env={**small, **(environment or {})},
                cwd=directory or self.home,
            )
        self._exit_descriptor = os.pidfd_open(self._process.pid)
        asyncio.get_running_loop().add_reader(self._exit_descriptor, self._exited)

    async def listening(
        self, address: str, port: int, *, protocols: tuple[str, ...], timeout_s: float
    ) -> None:
        """Waits until the program itself has sockets of all ``protocols`` at an IPv4 address and a port.

        Raises:
            CallFailed: the program ended, another one has the port, or it took longer than ``timeout_s``.
        """
        assert self._process is not None
        deadline = asyncio.get_running_loop().time() + timeout_s
        where = f"port {port} ({' and '.join(protocols)}) of {address}"
        taken = CallFailed(
            f"{self.name} cannot listen at {where}: another program has it; expected a free port"
        )
        self._awaited = True
        while self._process.poll() is None:
            tables = Path(f"/proc/{self._process.pid}/net")
            try:
                found = {
                    one: waiting_sockets((tables / one).read_text(), one, address, port) for one in protocols
                }
                own = own_sockets(self._process.pid)  # read last: the program may open a socket at any time
            except OSError:  # it is ending
                await asyncio.sleep(CHECK_INTERVAL_S)
                continue
            if any(sockets - own for sockets in found.values()):
                raise taken
            if all(found.values()):
                self._awaited = False
                return
            if asyncio.get_running_loop().time() > deadline:
                raise CallFailed(
                    f"{self.name} did not listen at {where} within {timeout_s:g} s{self.last_words()}"
                )
            await asyncio.sleep(CHECK_INTERVAL_S)
        # A program that finds its port taken may have ended before anybody looked.
        if any(waiting_sockets(self._table(one), one, address, port) for one in protocols):
            raise taken
        raise CallFailed(f"{self.name} {how_it_ended(self._process.wait())}{self.last_words()}")

    def _table(self, protocol: str) -> str:
        """The kernel's table of sockets in the program's node, also after the program has ended."""
        command = ["cat", f"/proc/self/net/{protocol}"]
        with self._spawn(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as shown:
            return shown.communicate()[0].decode()

    def ended(self) -> str | None:
        """How the program ended, in words; None while it runs."""
        status = None if self._process is None else self._process.poll()
        return None if status is None else how_it_ended(status)

    def expect_end(self) -> None:
        """From now on, the end of the program is no failure."""
        self._stopping = True

    def interrupt(self) -> None:
        """Interrupts the program, if it runs, and returns at once."""
        self.expect_end()
        if self._process is not None:
            self._process.send_signal(signal.SIGINT)

    async def stop(self, number: signal.Signals = signal.SIGTERM) -> None:
        """Asks the program to exit, and kills it and its children after ``STOP_GRACE_S``."""
        self.expect_end()
        if self._process is None or self._process.poll() is not None:
            return
        tree = self.tree()
        self._process.send_signal(number)
        deadline = asyncio.get_running_loop().time() + STOP_GRACE_S
        while self._process.poll() is None and asyncio.get_running_loop().time() < deadline:
            await asyncio.sleep(CHECK_INTERVAL_S)
        for process in tree:
            try:
                process.kill()
            except psutil.NoSuchProcess:
                continue
        self._process.wait()

    @property
    def stdin(self) -> IO[bytes]:
        """The pipe to the program."""
        assert self._process is not None
        assert self._process.stdin is not None
        return self._process.stdin

    @property
    def stdout(self) -> IO[bytes]:
        """The pipe from the program."""
        assert self._process is not None
        assert self._process.stdout is not None
        return self._process.stdout

    def tree(self) -> list[psutil.Process]:
        """The program's process and its descendants; empty if it does not run."""
        if self._process is None:
            return []
        try:
            root = psutil.Process(self._process.pid)
            return [root, *root.children(recursive=True)]
        except psutil.NoSuchProcess:
            return []

    def last_words(self) -> str:
        """The last lines of the program's output, to append to a reason."""
        with self._output.open("rb") as output:
            output.seek(max(0, output.seek(0, os.SEEK_END) - LAST_BYTES))
            lines = output.read().decode(errors="replace").strip().splitlines()[-LAST_LINES:]
        return "; it last said:" + "".join(f"\n  {line}" for line in lines) if lines else ""

    def _exited(self) -> None:
        asyncio.get_running_loop().remove_reader(self._exit_descriptor)
        os.close(self._exit_descriptor)
        if self._stopping or self._awaited or self._process is None:
            return
        if self._may_finish and self._process.wait() == 0:
            return
        self._on_exit(f"{self.name} {how_it_ended(self._process.wait())}{self.last_words()}")

    @property
    def _output(self) -> Path:
        return self.home / "output.txt"


def how_it_ended(status: int) -> str:
    """The end of a process in words, by ``subprocess.Popen.returncode``."""
    if status < 0:
        return f"was killed by {signal.Signals(-status).name}"
    return f"ended with exit status {status}"


def waiting_sockets(table: str, protocol: str, address: str, port: int) -> set[str]:
    """Inodes of the sockets that wait for clients at ``address`` or at any address.

    ``table`` is the kernel's table of sockets of this protocol, such as ``/proc/net/tcp`` (proc_net_tcp(5)).
    """
    places = {f"{socket.inet_aton(ip)[::-1].hex().upper()}:{port:04X}" for ip in (address, "0.0.0.0")}
    rows = [line.split() for line in table.splitlines()[1:]]
    return {row[9] for row in rows if row[1] in places and row[3] == WAITING[protocol]}


def waiting_ports(table: str, protocol: str) -> set[int]:
    """The ports at which sockets wait for clients at any address; arguments as in :func:`waiting_sockets`.

    ``protocol`` is ``tcp`` or ``udp`` for tables of IPv6, too.
    """
    rows = [line.split() for line in table.splitlines()[1:]]
    return {int(row[1].rpartition(":")[2], 16) for row in rows if row[3] == WAITING[protocol]}


def own_sockets(pid: int) -> set[str]:
    """Inodes of a process's sockets."""
    inodes = set()
    for descriptor in Path(f"/proc/{pid}/fd").iterdir():
        try:
            kind, _, inode = os.readlink(descriptor).partition(":[")
        except FileNotFoundError:
            continue  # the process has closed it
        if kind == "socket":
            inodes.add(inode.rstrip("]"))
    return inodes
