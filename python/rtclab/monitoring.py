"""The monitor: tables of streams, flows and packets from captures and interfaces.

docs/monitor.md lists the columns of the tables. Times (``_ns``) are nanoseconds since 1970 on the clock of
the capture.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import polars as pl

from rtclab import _native, native_tables
from rtclab.errors import BackendUnavailable, BadInput, need_linux

Tables = dict[str, pl.DataFrame]

STANDARD_INPUT = "-"
MAX_STREAMS = 10_000


def monitor(
    capture: str | Path,
    *,
    sdp: str | None = None,
    packets: bool = False,
    seconds: bool = False,
    max_streams: int = MAX_STREAMS,
) -> Tables:
    """Analyses a capture (pcap or pcapng; ``-`` is standard input).

        >>> run = rtclab.run("first-call", duration="10 s", repeats=1, capture=True)
        >>> sorted(rtclab.monitor(run.path / "repeat-0/capture.pcapng"))
        ['flows', 'notes', 'reports', 'rtcp', 'streams']

    Args:
        capture: path of the capture.
        sdp: text of session descriptions with codecs, repair streams and extension ids. Without it these are
            inferred.
        packets: also return the table ``packets``, with a row for every packet.
        seconds: also return the table ``seconds``, with a row for every second of every stream.
        max_streams: maximum number of streams. Packets of further streams are only counted, in ``notes``.

    Returns the tables ``streams``, ``flows``, ``rtcp``, ``reports`` and ``notes``.

    Raises:
        BadInput: the file cannot be read or is not a capture.
    """
    options = {"sdp": sdp, "packets": packets, "seconds": seconds, "max_streams": max_streams}
    return _analysed(_native.monitor, str(capture), **options)


def follow(
    a: str | Path,
    b: str | Path | None = None,
    *,
    sdp: str | None = None,
    packets: bool = False,
    max_streams: int = MAX_STREAMS,
) -> Tables:
    """Follows packets from one capture to another; without ``b``, from inbound to outbound within ``a``.

    The options are the same as for :func:`monitor`. Returns the tables ``streams``, ``delay_histogram``,
    ``clock`` and ``notes``, and ``packets`` on request. Delays are differences between two clocks and can be
    negative.

    Raises:
        BadInput: a file cannot be read, is not a capture, or is a pipe, which cannot be read twice.
    """
    for capture in (a, b):
        if capture is not None and (str(capture) == STANDARD_INPUT or Path(capture).is_fifo()):
            raise BadInput(
                f"{capture}: a pipe can be read only once, but a comparison reads captures twice",
                hint="save the capture to a file",
            )
    other = None if b is None else str(b)
    options = {"sdp": sdp, "packets": packets, "max_streams": max_streams}
    return _analysed(_native.monitor_compare, str(a), other, **options)


def _analysed(function: Callable[..., Any], *captures: str | None, **options: Any) -> Tables:
    try:
        return as_tables(function(*captures, **options))
    except (OSError, ValueError) as error:
        raise unreadable(error) from None


class LiveMonitor:
    """Monitors an interface of this network namespace.

    Raises:
        BadInput: there is no such interface.
        BackendUnavailable: the permission to open packet sockets is missing, or the system is not Linux.
    """

    def __init__(
        self,
        interface: str,
        *,
        sdp: str | None = None,
        packets: bool = False,
        seconds: bool = False,
        max_streams: int = MAX_STREAMS,
    ) -> None:
        need_linux("monitors of an interface")
        try:
            self._native = _native.LiveMonitor(
                interface, sdp=sdp, packets=packets, seconds=seconds, max_streams=max_streams
            )
        except PermissionError:
            raise BackendUnavailable(
                f"--live {interface}: no permission to read packets",
                hint="run it inside `rtclab link -- …`, or give the Python interpreter CAP_NET_RAW",
            ) from None
        except OSError as error:
            raise BadInput(
                f"--live {interface}: {error.strerror or error}", hint="`ip link` lists the interfaces"
            ) from None

    def poll(self, timeout_s: float) -> Tables:
        """Monitors for ``timeout_s`` and returns the current tables of :func:`monitor`.

        ``packets``, if requested, has only the packets since the last call.
        """
        return as_tables(self._native.poll(timeout_s))


def unreadable(error: OSError | ValueError) -> BadInput:
    """The error for a file that cannot be read or is not a capture. The native side names the file."""
    if isinstance(error, OSError):
        # Without the error number that Rust adds.
        return BadInput((error.strerror or str(error)).removesuffix(f" (os error {error.errno})"))
    reason = str(error)
    if "compressed" in reason:
        return BadInput(reason, hint="decompress it: `gzip -cd call.pcap.gz | rtclab monitor -`")
    return BadInput(
        reason,
        hint="tcpdump, Wireshark and `rtclab run --capture` write captures; "
        "`rtclab import` reads logs of browsers",
    )


def as_tables(native: Mapping[str, Mapping[str, Any]]) -> Tables:
    """Converts native tables (name -> column -> values) to data frames with real nulls."""
    return {name: native_tables.table(columns) for name, columns in native.items()}
