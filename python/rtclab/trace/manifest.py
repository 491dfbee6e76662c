"""The manifest of a trace: what was run, where, and when each flow was active; and outcomes of repeats."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator
from pydantic.dataclasses import dataclass

from rtclab.errors import OtherSchema, TraceError
from rtclab.trace.files import read_json
from rtclab.trace.times import NS_PER_S

SCHEMA: Literal[9] = 9
"""Version of the trace contract. Every change of manifests, tables or columns increases it."""
OLDEST_SCHEMA = 8
"""The oldest version that is read, too: what it has not is unknown."""

READ = f"{OLDEST_SCHEMA} to {SCHEMA}"

Ns = Annotated[int, Field(ge=0)]
"""Nanoseconds since the run began."""

Status = Literal["finished", "failed", "error", "interrupted"]
"""The outcome of a repeat.

``failed``: the call did not connect, or it broke. ``error``: the laboratory failed, for example because the
disk was full, so the repeat says nothing about the call. ``interrupted``: Ctrl-C stopped the repeat, or kept
it from beginning.
"""


class _Entry(BaseModel):
    # What holds entries is compiled with them, when it is first used.
    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)


class Machine(_Entry):
    """The computer that made a run."""

    system: str
    """Operating system."""
    kernel: str
    """Release of the kernel."""
    processor: str
    """Model of the processor."""
    cores: int | None = None
    """Number of cores."""
    memory_bytes: int | None = None
    """Main memory."""


class FlowInfo(_Entry):
    """One direction between two participants, and the time during which it was active."""

    sender: str
    """Node that sends."""
    receiver: str
    """Node that receives."""
    route: tuple[str, ...] = ()
    """Paths that it crosses, in order."""
    call: int | None = None
    """Index of its call; null for traffic beside the calls and for captures."""
    begin_ns: Ns
    """When its first packet was sent, or when its connection began if none was."""
    end_ns: Ns
    """When its connection ended."""
    acknowledges: str | None = None
    """Flow whose acknowledgements these are; null for flows of data."""
    forwarded: bool = False
    """Whether a server or participant forwards the media, so that they begin at the sender, and all other
    packets of the flow at the forwarder."""
    promised: dict[Literal["audio", "video"], tuple[tuple[Ns, Ns], ...]] | None = None
    """Begin and end of the times in which the receiver should hear or see the sender, by kind of media: the
    connection is planned, the sender sends this kind and does not pause. Null if that is not known."""

    @model_validator(mode="after")
    def _ends_after_it_began(self) -> Self:
        if self.end_ns < self.begin_ns:
            raise ValueError(f"end_ns = {self.end_ns} is before begin_ns = {self.begin_ns}")
        return self


class CallInfo(_Entry):
    """One call: its topology, participants, begin and end, and its relay, if any."""

    kind: str
    """Topology, as in the scenario."""
    participants: tuple[str, ...]
    """Those who take part."""
    start_ns: Ns
    """When it begins."""
    end_ns: Ns
    """When it ends."""
    relay: str | None = None
    """TURN relay that it passes, if any."""


class NotConnected(_Entry):
    """Two nodes that should have connected and did not, within the time ``within_ns``."""

    a: str
    """One of the two nodes."""
    b: str
    """The other one."""
    call: int
    """Index of the call."""
    within_ns: Ns
    """Time that they had."""

    def __str__(self) -> str:
        return f"{self.a} and {self.b} did not connect within {self.within_ns / NS_PER_S:.0f} s"


class ModesInUse(_Entry):
    """What a flow of a live call really used, as seen on the wire and in its sender's event log."""

    control: str | None = None
    """Congestion control whose values the event log has, named as in scenarios; null if it is not known."""
    feedback: tuple[str, ...] = ()
    """Kinds of feedback that its receiver sent: `rfc8888`, `transport-wide` or `remb`."""
    ecn: dict[str, int] = {}
    """RTP packets that its sender sent with each codepoint: `not-ect`, `ect0`, `ect1` or `ce`."""


class Lateness(_Entry):
    """How late the emulator wrote frames, relative to its model, and the share later than ``bound_ns``.

    Median and 99th percentile are too large by at most 1 us or 0.2 %, whichever is more.
    """

    p50_ns: Ns
    """Median."""
    p99_ns: Ns
    """99th percentile."""
    max_ns: Ns
    """Largest."""
    bound_ns: Ns
    """What is tolerated."""
    over_bound_ratio: float
    """Part of the frames that were later than that, 0 to 1."""

    @property
    def late(self) -> bool:
        """Whether more than one frame in a hundred was later than the bound."""
        return self.p99_ns > self.bound_ns


def in_words(notes: Iterable[Mapping[str, Any]]) -> tuple[str, ...]:
    """Each note with its count, if it has one: ``12 packets inside VXLAN``.

    ``notes`` are rows of the monitor's table with this name.
    """
    return tuple(
        str(row["note"]) if row.get("count") is None else f"{row['count']} {row['note']}" for row in notes
    )


class CaptureInfo(_Entry):
    """The captures from which a trace was made."""

    files: tuple[str, ...]
    """Names of the captures."""
    begin_ns: int
    """Time zero of the trace on the first capture's clock, in ns since 1970."""
    notes: tuple[dict[str, Any], ...] = ()
    """Rows of the monitor's table `notes`."""
    clock: dict[str, Any] | None = None
    """The row of the monitor's table `clock`; null for one capture."""
    corrected: bool = False
    """Whether the difference of the clocks was taken off."""

    @property
    def files_in_words(self) -> str:
        """The names of the files, without their directories: ``a.pcap and b.pcap``."""
        return " and ".join(Path(file).name for file in self.files)

    @property
    def notes_in_words(self) -> tuple[str, ...]:
        """The notes as sentences."""
        return in_words(self.notes)


class TraceManifest(_Entry):
    """The content of ``manifest.json``, which describes one repeat."""

    model_config = ConfigDict(validate_by_name=True, validate_by_alias=True)
    schema_number: Literal[8, 9] = Field(SCHEMA, alias="schema")
    """Number of the contract."""
    backend: str
    """`sim`, `live`, `capture` or `log`."""
    scenario: dict[str, Any] = {}
    """The scenario as it ran, for people and for running it again; figures do not read it."""
    versions: dict[str, str] = {}
    """Versions of rtclab and of what it used."""
    machine: Machine | None = None
    """The computer that made it."""
    seed: int | None = None
    """Seed of the repeat; null for captures."""
    repeat: int | None = None
    """Number of the repeat, from 0 on."""
    duration_ns: Ns
    """Length of the trace."""
    participants: tuple[str, ...] = ()
    """Names of the participants."""
    calls: tuple[CallInfo, ...] = ()
    """The calls, in the order of the scenario."""
    flows: dict[str, FlowInfo]
    """The flows by name."""
    connections: int = 0
    """Number of pairs of nodes that should have been connected."""
    not_connected: tuple[NotConnected, ...] = ()
    """The pairs that never were."""
    failure: str | None = None
    """Why the repeat failed; null if it did not."""
    browser: str | None = None
    """Version of the browser in live calls."""
    field_trials: dict[str, str] = {}
    """By participant, the field trials that the browser was started with in live calls."""
    used: dict[str, ModesInUse] = {}
    """By flow, the congestion control, feedback and ECN that live calls really used."""
    lateness: Lateness | None = None
    """How late the emulator was in live calls."""
    emulator: dict[str, int] | None = None
    """Counters of the emulator in live calls."""
    capture: CaptureInfo | None = None
    """The captures that the trace was made of."""
    notes: tuple[str, ...] = ()
    """What a reader must know of the figures, such as a step of the machine's clock."""

    def as_json(self) -> dict[str, Any]:
        """The content of the manifest's file as JSON values."""
        return self.model_dump(mode="json", by_alias=True)

    @property
    def late(self) -> bool:
        """Whether the emulator was late too often. Always false for simulated repeats."""
        return self.lateness is not None and self.lateness.late


@dataclass(frozen=True, config=ConfigDict(extra="forbid"))
class Repeat:
    """The outcome of one repeat."""

    repeat: int
    """Its number, from 0 on."""
    seed: int
    """Its seed."""
    status: Status
    """`finished`, `failed` (the call did), `error` (the laboratory failed) or `interrupted`."""
    reason: str = ""
    """Why the call or the laboratory failed."""
    note: str = ""
    """What a reader must know of a finished one, such as a pair that did not connect."""
    attempt: int = 1
    """Number of the attempt, from 1 on. A live repeat that the machine disturbed is tried again."""
    disturbed: str = ""
    """How the machine disturbed a live repeat; empty if it did not."""

    @property
    def about_the_call(self) -> bool:
        """Whether the outcome says something about the call: it finished, or the call failed."""
        return self.status in ("finished", "failed")


def read_manifest(path: Path) -> TraceManifest:
    """Reads the manifest of a trace.

    Raises:
        OtherSchema: the file was written by another version.
        TraceError: the file is missing or has invalid fields. The message names the file and every invalid
            field.
    """
    value = read_json(path, "trace")
    _check_schema(path, value)
    try:
        return TraceManifest.model_validate_json(path.read_bytes(), strict=True)
    except ValidationError as error:
        problems = "\n".join(f"{path}: {_in_words(problem)}" for problem in error.errors())
        raise TraceError(problems) from None


def _check_schema(path: Path, value: dict[str, Any]) -> None:
    # The first manifests had no number.
    number = value.get("schema", 1 if value.keys() & {"scenario", "flows"} else SCHEMA)
    if not isinstance(number, int) or OLDEST_SCHEMA <= number <= SCHEMA:
        return
    if number < SCHEMA:
        raise OtherSchema(
            f"{path}: written by an older rtclab, with schema {number}; this one reads schema {READ}",
            hint="run the scenario again",
        )
    raise OtherSchema(
        f"{path}: written by a newer rtclab, with schema {number}; this one reads schema {READ}",
        hint="update rtclab",
    )


def _in_words(problem: Any) -> str:
    """Describes a problem found by pydantic: ``flows.alice->bob.end_ns: expected …; got …``."""
    field = ".".join(map(str, problem["loc"])) or "manifest"
    match problem["type"]:
        case "missing":
            return f"{field}: missing"
        case "extra_forbidden" | "unexpected_keyword_argument":
            return f"{field}: unknown field"
        case "value_error":
            return f"{field}: {problem['ctx']['error']}"
    expected = problem["msg"].removeprefix("Input should be ")
    return f"{field}: expected {expected}; got {str(problem['input'])[:80]!r}"
