"""Recorded loss in a scenario: which packets were received and which were lost."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, Self

from pydantic import model_validator

from rtclab.errors import FieldError
from rtclab.scenario.files import text_of, with_file_read
from rtclab.scenario.table import Table

MAX_PACKETS = 10_000_000
"""Largest number of packets in a trace: a day of a call at 115 packets per second."""
_RUN = re.compile(r"(0+|1+)(?:x0*([1-9][0-9]*))?")
_IGNORED = re.compile(r"[ \t\r\f\v]+|#.*")
_EXPECTED = (
    "expected `0` for a received packet or `1` for a lost one, each perhaps repeated as in `1x12`, or `#` "
    "and a comment"
)


class LossTrace(Table):
    """Recorded loss: a sequence of received and lost packets, one for each packet of the path. It repeats.

    The file is text, with ``0`` for a received packet and ``1`` for a lost one. ``1x12`` is twelve lost
    packets in a row. White space, and ``#`` with the rest of its line, mean nothing. The limit is 10 million
    packets.
    """

    trace: str
    """File with a ``0`` for each received packet and a ``1`` for each lost one; ``1x12`` is twelve lost ones.
    Its path is relative to the TOML file that names it."""
    start: Literal["random", "beginning"] = "random"
    """The packet of the trace with which the path begins. ``random`` draws it from the seed, so that repeats
    differ and the same seed loses the same packets. With ``beginning`` all repeats lose the same packets."""
    packets: str = ""
    """The packets in the format of the file; read from the file, so that the scenario in a manifest needs no
    file."""

    @model_validator(mode="before")
    @classmethod
    def _read_file(cls, data: Any) -> Any:
        return with_file_read(data, "packets", read_loss_trace)

    @model_validator(mode="after")
    def _has_packets(self) -> Self:
        if not self.runs:
            raise FieldError("no packets; expected at least one `0` or `1`", key="packets")
        return self

    @cached_property
    def runs(self) -> list[int]:
        """Numbers of packets that are received, lost, received, and so on in turn. Only the first may be 0.

        Raises:
            FieldError: ``packets`` has a wrong character, or too many packets.
        """
        return parse_loss(self.packets, "packets")


def read_loss_trace(file: Path) -> str:
    """Reads the packets of a trace, and returns them as one line, ``0x98 1x2``.

    Raises:
        FieldError: the file cannot be read, a character means nothing, or there are no packets or too many.
    """
    runs = parse_loss(text_of(file), str(file))
    if not runs:
        raise FieldError(f"no packets in `{file}`; expected at least one `0` or `1`", key="trace")
    return loss_text(runs)


def loss_text(runs: Iterable[int]) -> str:
    """The text of a trace from the lengths of its runs, which :func:`parse_loss` returns."""
    return " ".join(
        f"{index % 2}x{count}" if count > 1 else str(index % 2) for index, count in enumerate(runs) if count
    )


def parse_loss(text: str, origin: str) -> list[int]:
    """The numbers of packets that are received, lost, received, and so on in turn; the first may be 0.

    Raises:
        FieldError: a character means nothing, or there are too many packets. It names ``origin``, the line
            and the character.
    """
    runs: list[int] = []
    packets = 0
    for number, line in enumerate(text.split("\n"), start=1):
        at = 0
        while at < len(line):
            if ignored := _IGNORED.match(line, at):
                at = ignored.end()
                continue
            run = _RUN.match(line, at)
            if run is None:
                where = f"line {number} of `{origin}`, character {at + 1}"
                raise FieldError(f"{where}: {_EXPECTED}; got `{line[at : at + 10].strip()}`", key="trace")
            at = run.end()
            count = len(run[1]) - 1 + _count(run[2])
            packets += count
            if packets > MAX_PACKETS:
                raise FieldError(
                    f"line {number} of `{origin}`: more than {MAX_PACKETS} packets in the trace", key="trace"
                )
            lost = int(run[1][0])
            if not runs:
                runs = [0] if lost else []
            if len(runs) % 2 == lost:
                runs.append(count)
            else:
                runs[-1] += count
    return runs


def _count(digits: str | None) -> int:
    if digits is None:
        return 1
    # Python refuses to read numbers of thousands of digits.
    return int(digits) if len(digits) <= len(str(MAX_PACKETS)) else MAX_PACKETS + 1
