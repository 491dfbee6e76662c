"""Emulated links for any command, without polars and numpy: it starts quickly and takes little memory."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rtclab.arguments import items
from rtclab.errors import SEE_DOCTOR, BackendUnavailable, BadInput, need_linux
from rtclab.scenario.path import PathSpec
from rtclab.scenario.rate_traces import doubts


def link(
    command: Sequence[str],
    *,
    up: str = "",
    down: str = "",
    server: str = "",
    pcap: str | Path | None = None,
    seed: int = 1,
    output_to_stderr: bool = False,
) -> dict[str, Any]:
    """Runs a command behind an emulated link, without root.

    Returns the command's exit ``status``, its ``directions``, the emulator's ``lateness`` in ns and its
    ``counters``. For ``up`` and ``down``, ``directions`` has the ``packets`` that went in, which are
    ``delivered``, dropped (``queue``, ``loss``, ``aqm``) or ``on_the_way`` at the end, with their ``bytes``,
    the rate that arrived in bit/s and the delay in ms. Of the delivered ones, ``ecn_capable`` went in
    ECN-capable and ``marked`` arrived with a mark; ``marks`` counts these by cause. ``protocols`` has the
    same by protocol. ``notes`` are sentences about what may be wrong with the paths.

    Args:
        command: program and arguments. The environment variables ``RTCLAB_CLIENT`` and ``RTCLAB_SERVER`` have
            the addresses of the command and of the far end.
        up: path from the command to the far end, such as ``"capacity 1 Mbit/s, delay 25 ms, queue 300 ms"``.
        down: path from the far end to the command.
        server: command to run at the far end.
        pcap: pcapng file to write, with all packets at both ends.
        seed: seed for jitter and loss.
        output_to_stderr: send the command's standard output to standard error.

    Raises:
        BadInput: a path is invalid, or a command does not exist.
        BackendUnavailable: this machine lacks what an emulated link needs.

    Example:
        >>> passed = rtclab.link(["ping", "-c", "1", "10.77.0.1"], up="delay 25 ms")  # doctest: +SKIP
        >>> passed["directions"]["up"]["delivered"]  # doctest: +SKIP
        1
    """
    expected = 'program and arguments, such as ["ping", "-c", "1", "10.77.0.1"]'
    if isinstance(command, (str, Path)):
        raise BadInput(f"command: got `{command}`; expected {expected}")
    arguments = [str(one) for one in items("command", command, (str, Path), expected)]
    outwards, back = PathSpec.parse(up, origin="up"), PathSpec.parse(down, origin="down")
    need_linux("emulated links")
    from rtclab.backend.live.doctor import missing_python_packages
    from rtclab.backend.live.lab.link import run_link

    if "pyroute2" in missing_python_packages():
        raise BackendUnavailable("an emulated link needs the Python module `pyroute2`", hint=SEE_DOCTOR)
    result = run_link(
        outwards.native("up"),
        back.native("down"),
        arguments,
        server=server,
        pcap=None if pcap is None else Path(pcap),
        seed=seed,
        output_to_stderr=output_to_stderr,
    )
    paths = {"up": outwards, "down": back}
    notes = doubts({name: path.model_dump(mode="json") for name, path in paths.items()})
    return {**result, "notes": notes}
