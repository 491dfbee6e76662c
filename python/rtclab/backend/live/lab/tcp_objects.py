"""Sends or receives TCP objects with the kernel's TCP: a program for a node, of the standard library alone.

``python tcp_objects.py receive ADDRESS PORT CONTROL`` accepts connections and reads each to its end. The
receiver's congestion control matters for DCTCP, whose receivers repeat each mark.
``python tcp_objects.py send OPTIONS`` (JSON, see :func:`send`) waits for a line on standard input, and then
sends objects over new connections, one after another, with pauses between them. It prints a line of JSON for
each object that the receiver has read to its end.

iperf3 could send objects too (``--bytes``), but each would cost the half dozen round trips of its control
connection, twice as many as the object itself, and a new process.
"""

from __future__ import annotations

import json
import os
import random
import socket
import sys
import threading
import time
from typing import Any

CHUNK = bytes(1 << 16)
BACKLOG = 1024
"""Most connections that wait to be accepted; more than a node ever opens at once."""


def receive(address: str, port: int, congestion_control: str) -> None:
    """Accepts connections without end, and closes each when its sender has.

    Args:
        address: IPv4 address at which it listens.
        port: port at which it listens.
        congestion_control: the kernel's name of it.
    """
    with socket.create_server((address, port), backlog=BACKLOG) as server:
        server.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, congestion_control.encode())
        while True:
            connection, _ = server.accept()
            threading.Thread(target=_read_to_end, args=(connection,), daemon=True).start()


def _read_to_end(connection: socket.socket) -> None:
    with connection:
        try:
            while connection.recv(len(CHUNK)):
                pass
        except ConnectionError:
            return


def send(options: dict[str, Any]) -> None:
    """Sends objects over ``connections`` sources in parallel until ``duration_s`` after the start signal.

    The other options are ``address`` and ``port`` of the receiver, the kernel's name of the
    ``congestion_control``, ``min_bytes``, ``max_bytes``, ``mean_idle_s``, whether each source begins with a
    pause (``idle_first``), and ``seed``. An object that has begun is sent to its end.
    """
    threading.excepthook = _end_with_error
    sys.stdin.readline()
    stop_s = time.monotonic() + options["duration_s"]
    sources = [
        threading.Thread(target=_source, args=(number, stop_s, options))
        for number in range(options["connections"])
    ]
    for source in sources:
        source.start()
    for source in sources:
        source.join()


def _end_with_error(error: threading.ExceptHookArgs) -> None:
    print(f"{type(error.exc_value).__name__}: {error.exc_value}", file=sys.stderr, flush=True)
    os._exit(1)


def _source(number: int, stop_s: float, options: dict[str, Any]) -> None:
    choose = random.Random(f"{options['seed']}/{number}")
    idle = options["idle_first"]
    while True:
        if idle:
            pause_s = choose.expovariate(1 / options["mean_idle_s"])
            if time.monotonic() + pause_s >= stop_s:
                return
            time.sleep(pause_s)
        if time.monotonic() >= stop_s:
            return
        size = choose.randint(options["min_bytes"], options["max_bytes"])
        began_ns = time.monotonic_ns()
        _send_object(size, options)
        line = {"source": number, "bytes": size, "began_ns": began_ns, "ended_ns": time.monotonic_ns()}
        # One call of `write`: lines of several threads do not mix.
        sys.stdout.write(json.dumps(line) + "\n")
        sys.stdout.flush()
        idle = True


def _send_object(size: int, options: dict[str, Any]) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as connection:
        name = options["congestion_control"].encode()
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, name)
        connection.connect((options["address"], options["port"]))
        left = size
        while left:
            left -= connection.send(CHUNK[: min(left, len(CHUNK))])
        connection.shutdown(socket.SHUT_WR)
        # The receiver closes when it has everything.
        connection.recv(1)


if __name__ == "__main__":
    if sys.argv[1] == "receive":
        receive(sys.argv[2], int(sys.argv[3]), sys.argv[4])
    else:
        send(json.loads(sys.argv[2]))
