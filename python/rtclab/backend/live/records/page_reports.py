"""The reports of pages that rtclab does not control, and which of their values a trace may have.

Such a page may report what it likes, so everything is checked.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

import polars as pl
from pydantic import BaseModel, ConfigDict, Field, TypeAdapter

from rtclab.errors import RtclabError
from rtclab.trace import SCHEMAS
from rtclab.trace.getstats import flattened

MAX_TEXT = 500
"""Most characters of a text."""
EXACT = 1 << 53
"""Greater numbers are not exact in JavaScript."""
MAX_CONNECTIONS = 500
"""Most connections of a page that are observed."""

Text = Annotated[str, Field(max_length=MAX_TEXT)]
Milliseconds = Annotated[float, Field(ge=0, le=1e14)]
Number = Annotated[int, Field(ge=0, lt=MAX_CONNECTIONS)]
Pixels = Annotated[int, Field(ge=0, lt=1 << 16)]
Frame = tuple[
    Annotated[int, Field(ge=0, lt=1 << 32)] | None,
    Milliseconds | None,
    Milliseconds | None,
    Milliseconds | None,
    Pixels,
    Pixels,
    Milliseconds | None,
    Milliseconds | None,
]
"""RTP timestamp; times of capture, arrival and display in ms since 1970; width and height; how long it was
decoded and waited for the screen, in ms."""


class _Message(BaseModel):
    model_config = ConfigDict(extra="ignore", frozen=True)

    at_ms: Milliseconds
    page: Text = ""


class ConnectionMade(_Message):
    """The page made a peer connection."""

    type: Literal["connection"]
    number: Number


class PageEvent(_Message):
    """Something happened to a connection of the page."""

    type: Literal["event"]
    number: Number
    event: Literal[
        "signalling_done",
        "renegotiated",
        "ice_connected",
        "dtls_connected",
        "ice_failed",
        "first_frame",
        "closed",
    ]


class PayloadTypes(_Message):
    """The payload types that a connection of the page has negotiated."""

    type: Literal["payload_types"]
    number: Number
    codecs: dict[Annotated[str, Field(pattern=r"^\d{1,3}$")], Text]
    kinds: dict[Annotated[str, Field(pattern=r"^\d{1,3}$")], Text]


class Candidate(BaseModel):
    """One end of a connection; null where the browser does not tell."""

    address: Text | None
    port: Annotated[int, Field(ge=0, le=65535)] | None
    kind: Annotated[Text | None, Field(alias="candidateType")]


class SelectedPair(BaseModel):
    """The candidate pair that a transport uses."""

    local: Candidate
    remote: Candidate


class PageStats(_Message):
    """A report of ``getStats``, and the frames that were shown since the last one, by track."""

    type: Literal["stats"]
    number: Number
    reports: Annotated[list[dict[str, Any]], Field(max_length=1000)]
    selected: Annotated[list[SelectedPair], Field(max_length=50)]
    frames: Annotated[dict[Text, Annotated[list[Frame], Field(max_length=1000)]], Field(max_length=100)]

    @property
    def rows(self) -> int:
        """How many rows of tables the report becomes."""
        return len(self.reports) + sum(map(len, self.frames.values()))


class StillRunning(_Message):
    """A document that has made connections still runs."""

    type: Literal["alive"]


class LastReport(_Message):
    """A document has made its last report."""

    type: Literal["finished"]


Report = ConnectionMade | PageEvent | PayloadTypes | PageStats | StillRunning | LastReport
REPORT: TypeAdapter[Report] = TypeAdapter(Annotated[Report, Field(discriminator="type")])


class ReportRefused(RtclabError):
    """A message of an invited browser is not one that rtclab's page sends."""


def printable_line(text: str) -> str:
    """The text without control characters, such as those that move a terminal's cursor, and not too long."""
    return "".join(one if one.isprintable() else "?" for one in text[:MAX_TEXT])


_TABLES = ("outbound-rtp", "inbound-rtp", "remote-inbound-rtp", "candidate-pair")
_NEEDED = {"ssrc": pl.Int64(), "kind": pl.String()}
_FURTHER: dict[str, pl.DataType] = {"framesDecoded": pl.Int64(), "availableOutgoingBitrate": pl.Float64()}
"""Values that are not columns of every table, but are read from reports."""


def known_values(report: dict[str, Any]) -> dict[str, Any]:
    """The values of a ``getStats`` report that a trace has, each of the type of its column."""
    kind = report.get("type")
    if kind not in _TABLES:
        raise ReportRefused(f"reports: got a report of type `{printable_line(str(kind))}`")
    columns = {**_FURTHER, **SCHEMAS[kind.replace("-", "_")]}
    values = flattened(report)
    needed = _NEEDED if kind in ("outbound-rtp", "inbound-rtp") else {}
    for key, dtype in columns.items():
        if not _fits(values.get(key), dtype) or (key in needed and values.get(key) is None):
            raise ReportRefused(f"reports: {kind} has an impossible `{key}`")
    return {"type": kind, **{key: values[key] for key in columns if key in values}}


def _fits(value: object, dtype: pl.DataType) -> bool:
    if value is None:
        return True
    if dtype == pl.String:
        return isinstance(value, str) and len(value) <= MAX_TEXT and value.isprintable()
    if dtype == pl.Boolean:
        return isinstance(value, bool)
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < EXACT
