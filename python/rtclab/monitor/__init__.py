"""What passes a point of a network: streams, flows and packets out of captures.

Tables are those of the native monitor; docs/monitor.md lists their columns. Times (``_ns``) are on the
capture's clock, nanoseconds since 1970.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from rtclab import _native
from rtclab.errors import BackendUnavailable, BadInput

Tables = dict[str, pl.DataFrame]

STANDARD_INPUT = "-"
MAX_STREAMS = 10_000
NO_INTEGER = -1
"""What an integer column of the native side holds for null."""


def watch(
    capture: Path,
    *,
    sdp: str | None = None,
    packets: bool = False,
    seconds: bool = False,
    max_streams: int = MAX_STREAMS,
) -> Tables:
    """Reads a capture (pcap, pcapng; ``-`` is standard input) and returns what passed there.

    Args:
        sdp: session descriptions that tell codecs, repair streams and extension ids; else they are inferred.
        packets: keep the table ``packets`` too, a row of every packet.
        seconds: keep the table ``seconds`` too, a row of every second of every stream.
        max_streams: packets of further streams are counted together, in ``notes``.

    Returns the tables ``streams``, ``flows``, ``rtcp``, ``reports`` and ``notes``.

    Raises:
        BadInput: the file cannot be read or is no capture.
    """
    try:
        columns = _native.monitor(
            str(capture), sdp=sdp, packets=packets, seconds=seconds, max_streams=max_streams
        )
    except (OSError, ValueError) as error:
        raise unreadable(error) from None
    return as_tables(columns)


def compare(
    a: Path,
    b: Path | None = None,
    *,
    sdp: str | None = None,
    packets: bool = False,
    max_streams: int = MAX_STREAMS,
) -> Tables:
    """Follows packets from one capture to another; without ``b`` from inbound to outbound within one.

    Options as for :func:`watch`. Returns the tables ``streams``, ``delay_histogram``, ``clock`` and
    ``notes``, and ``packets`` if asked for. Delays are as the clocks have them, negative ones too.

    Raises:
        BadInput: a file cannot be read, is no capture, or can be read only once: captures are read twice.
    """
    for capture in (a, b):
        if capture is not None and (str(capture) == STANDARD_INPUT or capture.is_fifo()):
            raise BadInput(
                f"{capture}: a pipe can be read only once; two points are compared in two passes",
                hint="put the capture into a file",
            )
    try:
        columns = _native.monitor_compare(
            str(a), None if b is None else str(b), sdp=sdp, packets=packets, max_streams=max_streams
        )
    except (OSError, ValueError) as error:
        raise unreadable(error) from None
    return as_tables(columns)


class LiveMonitor:
    """Watches an interface of this network namespace.

    Raises:
        BadInput: there is no such interface.
        BackendUnavailable: the right to open packet sockets is missing.
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
        try:
            self._native = _native.LiveMonitor(
                interface, sdp=sdp, packets=packets, seconds=seconds, max_streams=max_streams
            )
        except PermissionError:
            raise BackendUnavailable(
                f"--live {interface}: packets may not be read here",
                hint="watch inside `rtclab link -- …`, or give the interpreter CAP_NET_RAW",
            ) from None
        except OSError as error:
            raise BadInput(
                f"--live {interface}: {error.strerror or error}", hint="`ip link` lists the interfaces"
            ) from None

    def poll(self, timeout_s: float) -> Tables:
        """Watches for so long; returns the tables of :func:`watch` as they are then.

        ``packets``, if asked for, has those that came since the last call.
        """
        return as_tables(self._native.poll(timeout_s))


def unreadable(error: OSError | ValueError) -> BadInput:
    """The error of a file that cannot be read or is no capture; the native side has named it."""
    if isinstance(error, OSError):
        # Rust adds a number that nobody looks up.
        return BadInput((error.strerror or str(error)).removesuffix(f" (os error {error.errno})"))
    reason = str(error)
    if "compressed" in reason:
        return BadInput(reason, hint="unpack it: `gzip -cd call.pcap.gz | rtclab monitor -`")
    return BadInput(reason, hint="expected a pcap or pcapng file")


def as_tables(native: Mapping[str, Mapping[str, Any]]) -> Tables:
    """The native tables (name -> column -> values) as data frames, with nulls as nulls."""
    return {name: pl.DataFrame(_series(columns)) for name, columns in native.items()}


def _series(columns: Mapping[str, Any]) -> list[pl.Series]:
    return [
        _texts(name, *values) if isinstance(values, tuple) else _numbers(name, values)
        for name, values in columns.items()
    ]


def _numbers(name: str, values: NDArray[Any]) -> pl.Series:
    series = pl.Series(name, values)
    if values.dtype.kind == "f":
        return series.fill_nan(None)
    absent = values == NO_INTEGER
    return series.set(pl.Series(absent), None) if absent.any() else series


def _texts(name: str, codes: NDArray[Any], categories: list[str]) -> pl.Series:
    # One more entry, null, for the highest code.
    index = np.minimum(codes, len(categories))
    return pl.Series(name, [*categories, None], dtype=pl.String).gather(index)
