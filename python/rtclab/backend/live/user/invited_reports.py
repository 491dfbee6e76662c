"""Checks what an invited browser sends. Neither its messages nor its clock are trusted.

A message of another shape is refused, and so is one about a connection that is not the participant's. Texts
lose characters that could control a terminal. Times are converted from the clock of the page to the clock of
this machine.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, FiniteFloat, TypeAdapter, ValidationError

from rtclab.backend.live.connections import LiveConnection
from rtclab.backend.live.messages import Message
from rtclab.backend.live.records.page_reports import (
    EXACT,
    MAX_TEXT,
    ReportRefused,
    known_values,
    printable_line,
)

MAX_SDP = 100_000
FAR_MS = 60_000.0
"""Largest difference between the time in a report and its arrival."""


class PageClock:
    """Estimates how far the clock of a page is ahead of this machine's, from questions and answers.

    The answer with the shortest round trip counts, for its error is at most half of it (RFC 5905, section 8).
    """

    def __init__(self) -> None:
        self._asked: tuple[int, float] | None = None
        self._questions = 0
        self.answers = 0
        self.ahead_ms = 0.0
        """How far the page's clock is ahead of this machine's."""
        self.uncertainty_ms = math.inf
        """The largest possible error of ``ahead_ms``."""

    def ask(self, now_ms: float) -> int:
        """The number of a new question, which is asked at ``now_ms``. Earlier ones are given up."""
        self._questions += 1
        self._asked = self._questions, now_ms
        return self._questions

    def answer(self, number: int, page_ms: float, now_ms: float) -> None:
        """Takes the page's answer, its own time, which arrived at ``now_ms``."""
        if self._asked is None or self._asked[0] != number:
            return
        asked_ms, self._asked = self._asked[1], None
        self.answers += 1
        uncertainty_ms = max(0.0, now_ms - asked_ms) / 2
        if uncertainty_ms < self.uncertainty_ms:
            self.uncertainty_ms = uncertainty_ms
            self.ahead_ms = page_ms - (asked_ms + now_ms) / 2


Text = Annotated[str, Field(max_length=MAX_TEXT)]
Number = Annotated[int, Field(ge=0, lt=EXACT)]
Time = FiniteFloat


class _Shape(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)


class _Report(_Shape):
    at_ms: Time


class _Clock(_Report):
    type: Literal["clock"]
    question: Number


class _Camera(_Shape):
    width: Number
    height: Number
    frameRate: FiniteFloat  # noqa: N815


class _Ready(_Report):
    type: Literal["ready"]
    camera: _Camera | None = None


class _Bye(_Report):
    type: Literal["bye"]


class _Made(_Report):
    type: Literal["connection"]
    number: Number


class _Event(_Report):
    type: Literal["event"]
    event: Literal[
        "joined", "signalling_done", "ice_connected", "dtls_connected", "first_frame", "left", "failed",
        "page_error", "adapted",
    ]  # fmt: skip
    number: Number | None = None
    detail: str = Field("", max_length=MAX_SDP)


class _Candidate(_Shape):
    address: Text | None
    port: Annotated[int, Field(ge=0, lt=1 << 16)] | None
    candidateType: Text | None  # noqa: N815


class _Selected(_Shape):
    local: _Candidate
    remote: _Candidate


_Maybe = Time | None
_Duration = Annotated[float, Field(ge=0, le=FAR_MS)]
_Size = Annotated[int, Field(ge=0, lt=1 << 16)]
_Frame = Annotated[
    tuple[Number | None, _Maybe, _Maybe, _Maybe, _Size, _Size, _Duration | None, _Duration | None],
    BeforeValidator(lambda value: tuple(value) if isinstance(value, list) else value),
]


class _Stats(_Report):
    type: Literal["stats"]
    number: Number
    reports: Annotated[list[dict[str, Any]], Field(max_length=100)]
    selected: _Selected | None = None
    frames: Annotated[list[_Frame], Field(max_length=2000)]


_PayloadType = Annotated[str, Field(pattern=r"^[0-9]{1,3}$")]


class _PayloadTypes(_Report):
    type: Literal["payload_types"]
    number: Number
    codecs: Annotated[dict[_PayloadType, Text], Field(max_length=128)]
    kinds: Annotated[dict[_PayloadType, Text], Field(max_length=128)]


_REPORT: TypeAdapter[Any] = TypeAdapter(
    Annotated[_Clock | _Ready | _Bye | _Made | _Event | _Stats | _PayloadTypes, Field(discriminator="type")]
)


class _Join(_Shape):
    join: Number


class _Description(_Shape):
    type: Literal["offer", "answer"]
    sdp: Annotated[str, Field(max_length=MAX_SDP)]


class _Signal(_Shape):
    to: Text
    number: Number
    ready: Literal[True] | None = None
    description: _Description | None = None
    candidate: Annotated[dict[Text, Text | int | None], Field(max_length=10)] | None = None


_SIGNAL: TypeAdapter[Any] = TypeAdapter(_Join | _Signal)


def messages(body: str) -> list[Any]:
    """The messages of a request's body, a list in JSON.

    Raises:
        Refused: it is not such a list.
    """
    try:
        found = json.loads(body, parse_constant=_refuse_constant)
    except (ValueError, RecursionError) as error:
        raise ReportRefused(f"expected a list in JSON: {error}") from None
    if not isinstance(found, list):
        raise ReportRefused(f"expected a list in JSON; got {type(found).__name__}")
    return found


class ReportChecker:
    """Checks the messages of one participant.

    Args:
        participant: whose browser sends them.
        address: the IPv4 address of the participant's node.
        connections: the connections of all calls, by number.
    """

    def __init__(self, participant: str, address: str, connections: Mapping[int, LiveConnection]) -> None:
        self._participant = participant
        self._address = address
        self._own = {one.number: one for one in connections.values() if participant in one.ends}
        self.calls = {one.call for one in connections.values() if participant in (*one.ends, one.feed)}
        """The calls of the participant."""
        self.clock = PageClock()

    def report(self, message: object, now_ms: float) -> Message:
        """A report of the page with checked values and the times of this machine's clock.

        Args:
            message: what the page sent.
            now_ms: this machine's time, in milliseconds since 1970.

        Raises:
            Refused: it is not a valid report. The error names the field.
        """
        checked = _valid(_REPORT, message)
        if checked["type"] == "clock":
            self.clock.answer(checked["question"], checked["at_ms"], now_ms)
            return checked
        at_ms = self._here(checked["at_ms"], now_ms)
        if at_ms is None:
            raise ReportRefused(f"at_ms: got a time more than {FAR_MS / 1000:g} s from now")
        checked["at_ms"] = at_ms
        if checked.get("number") is not None:
            self._connection(checked["number"])
        if checked["type"] == "event":
            checked["detail"] = printable_line(checked["detail"])
        if checked["type"] == "payload_types" and checked["codecs"].keys() != checked["kinds"].keys():
            raise ReportRefused("kinds: expected the payload types of `codecs`")
        if checked["type"] == "stats":
            checked["reports"] = [known_values(report) for report in checked["reports"]]
            checked["frames"] = [
                [frame[0], *(self._here(at, now_ms) for at in frame[1:4]), *frame[4:]]
                for frame in checked["frames"]
            ]
            selected = checked["selected"]
            if selected is not None:
                # The other end says where it is itself. A relayed port of the own node is, for the
                # emulated network, a port of a host.
                nowhere = dict.fromkeys(selected["remote"])
                local = {**selected["local"], "candidateType": "host"}
                own = local["address"] == self._address
                checked["selected"] = {"local": local if own else nowhere, "remote": nowhere}
        return checked

    def signal(self, message: object) -> Message:
        """A message for the signalling server.

        Raises:
            Refused: it is not valid, or the participant has no such connection with the addressee.
        """
        checked = _valid(_SIGNAL, message)
        if "join" in checked:
            if checked["join"] not in self.calls:
                raise ReportRefused(f"join: {self._participant} is not in call {checked['join']}")
        elif checked["to"] != (peer := self._connection(checked["number"]).peer_of(self._participant)):
            raise ReportRefused(f"to: got `{printable_line(checked['to'])}`; expected `{peer}`")
        return {key: value for key, value in checked.items() if value is not None}

    def _connection(self, number: int) -> LiveConnection:
        if number not in self._own:
            raise ReportRefused(f"number: {self._participant} has no connection {number}")
        return self._own[number]

    def _here(self, page_ms: float | None, now_ms: float) -> float | None:
        """A time of the page by this machine's clock; None if it is impossible."""
        if page_ms is None:
            return None
        at_ms = page_ms - self.clock.ahead_ms
        return at_ms if abs(at_ms - now_ms) < FAR_MS else None


def _valid(shape: TypeAdapter[Any], message: object) -> dict[str, Any]:
    try:
        checked: dict[str, Any] = shape.validate_python(message).model_dump()
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        raise ReportRefused(f"{printable_line('.'.join(map(str, first['loc'])))}: {first['msg']}") from None
    return checked


def _refuse_constant(name: str) -> float:
    raise ValueError(f"got {name}")
