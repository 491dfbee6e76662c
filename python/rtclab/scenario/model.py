"""What to run: who calls whom, what they send, over which network."""

from __future__ import annotations

import hashlib
import re
from itertools import combinations
from typing import TYPE_CHECKING, Annotated, Any, Literal, Self

from pydantic import Discriminator, Field, Tag, model_validator

from rtclab.errors import FieldError, FieldErrors
from rtclab.scenario import network as networks
from rtclab.scenario.path import PathSpec
from rtclab.scenario.table import SchemaWithUnits, Table, closest
from rtclab.scenario.topology import Flow
from rtclab.scenario.traffic import Traffic, traffic_errors, traffic_flows
from rtclab.scenario.units import Bitrate, Duration, PixelRate

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    import polars as pl

Count = Annotated[int, Field(strict=True, ge=1)]

_NAME = re.compile(r"[a-z0-9][a-z0-9_-]*")


class Video(Table):
    """One camera stream. The codec's encoder follows a target between the two bitrates.

    ``camera``: ``rfc8593`` takes pictures at intervals that vary as those of RFC 8593 do, ``steady`` at
    regular ones, as a file played to the browser does.

    With too few bits ``vp8`` makes pictures smaller and then fewer; ``vp9-2016`` does so later and does not
    return to the full size; ``h264-2016`` keeps the size and makes fewer (Jansen et al. 2017, section 5.1).
    The camera of a ``device`` other than ``desktop`` is limited to 640x480 at 30/s.
    """

    width: Count = 640
    height: Count = 480
    frame_rate: Annotated[float, Field(gt=0, le=240)] = 30
    camera: Literal["rfc8593", "steady"] = "rfc8593"
    codec: Literal["vp8", "vp9-2016", "h264-2016"] = "vp8"
    device: Literal["desktop", "android-2016", "ios-2016"] = "desktop"
    repair: Literal["auto", "rtx", "nack-2013", "hybrid-2013", "none"] = "auto"
    min_bitrate: Bitrate = Bitrate(30_000)
    start_bitrate: Bitrate = Bitrate(300_000)
    max_bitrate: Bitrate = Bitrate(1_700_000)

    @model_validator(mode="after")
    def _bitrates_in_order(self) -> Self:
        if not self.min_bitrate <= self.start_bitrate <= self.max_bitrate:
            raise FieldError(
                f"`{self.start_bitrate}` is not between min_bitrate = `{self.min_bitrate}` "
                f"and max_bitrate = `{self.max_bitrate}`",
                key="start_bitrate",
            )
        return self


class Audio(Table):
    """One constant-rate audio stream, one packet per frame, as Opus without DTX."""

    bitrate: Bitrate = Bitrate(32_000)
    frame: Duration = Duration(20_000_000)

    @model_validator(mode="after")
    def _not_zero(self) -> Self:
        if not self.frame.ns:
            raise FieldError("a frame of no length", key="frame")
        return self


class CongestionControl(Table):
    """Which algorithm sets the sending rate, and its own options: numbers, or true and false."""

    name: str = "goog-cc"
    options: dict[str, float] = {}


class Host(Table):
    """The machine that encodes, one picture at a time; all cameras of the participant share it.

    A picture taken while the last one of the same camera is still being encoded is skipped.
    """

    encoder_capacity: PixelRate

    @model_validator(mode="after")
    def _not_zero(self) -> Self:
        if not self.encoder_capacity.pixels_per_second:
            raise FieldError("a machine that encodes nothing", key="encoder_capacity")
        return self


class Link(Table):
    """A participant's access: a path up and one down, or one path that both directions share."""

    up: PathSpec = PathSpec()
    down: PathSpec = PathSpec()
    both: PathSpec | None = None

    @model_validator(mode="after")
    def _shared_or_separate(self) -> Self:
        if self.both is not None and (self.up != PathSpec() or self.down != PathSpec()):
            raise FieldError("cannot stand beside up or down", key="both", hint="keep one of the two")
        return self


Switchable = Discriminator(lambda value: "<off>" if value is False else "<table>")
Off = Annotated[Literal[False], Tag("<off>")]


class Participant(Table):
    """Someone in the call; what is left out is taken from the tables of the scenario.

    ``video`` and ``audio`` may be ``false``: this participant does not send it.
    """

    join: Duration = Duration(0)
    leave: Duration | None = None
    video: Annotated[Annotated[Video, Tag("<table>")] | Off, Switchable] | None = None
    audio: Annotated[Annotated[Audio, Tag("<table>")] | Off, Switchable] | None = None
    congestion_control: CongestionControl | None = None
    link: Link | None = None
    host: Host | None = None


class Server(Table):
    """A machine that takes no part itself: a TURN relay, an SFU or an MCU. Its access is ideal by default."""

    link: Link = Link()


class Call(Table):
    """Who talks with whom. Left out, ``participants`` is everybody, and the call lasts the whole run.

    - ``p2p`` joins each pair, media in both directions; directly, or through a TURN ``relay``.
    - ``sfu``: everybody sends to ``server``, which forwards to all others and makes its own feedback.
    - ``mcu``: ``server`` forwards media to all others and their feedback, as it comes, to the sender.
    - ``star``: ``root`` sends to each of the others; they send no media.
    - ``hub-and-spoke``: everybody is joined with ``root``, which forwards to the others too.
    - ``tree``: ``root`` sends to the first ``fan_out`` (two) of the others, those to the next, and
      so on, each forwarding what it receives.

    Several calls may join the same participants at once.
    """

    kind: Literal["p2p", "sfu", "mcu", "star", "hub-and-spoke", "tree"] = "p2p"
    participants: Annotated[list[str], Field(min_length=2)] = []
    start: Duration = Duration(0)
    end: Duration | None = None
    relay: str | None = None
    server: str | None = None
    root: str | None = None
    fan_out: Count | None = None

    @model_validator(mode="after")
    def _keys_of_its_kind(self) -> Self:
        errors = [
            FieldError(
                f"a call of kind `{self.kind}` has no {key}; expected kind {' or '.join(kinds)}", key=key
            )
            for key, kinds in _KEYS_OF_KINDS.items()
            if key in self.model_fields_set and getattr(self, key) is not None and self.kind not in kinds
        ]
        if self.end is not None and self.end <= self.start:
            errors.append(FieldError(f"`{self.end}` is not after start = `{self.start}`", key="end"))
        if errors:
            raise FieldErrors(errors)
        return self


_KEYS_OF_KINDS = {
    "relay": ["p2p"],
    "server": ["sfu", "mcu"],
    "root": ["star", "hub-and-spoke", "tree"],
    "fan_out": ["tree"],
}


class Bottleneck(PathSpec):
    """A path that several routes share, between the sender's up and the receiver's down path.

    ``routes`` selects them: ``alice->bob``, ``*->bob``, ``*->*``; ``*`` is every node, ``core`` too.
    """

    routes: Annotated[list[str], Field(min_length=1)]


class Scenario(Table):
    """One experiment, read from TOML; see ``Scenario.load``.

    Without ``calls`` there is one call of all participants. Without ``video`` or ``audio`` nobody sends it.
    """

    name: str
    title: str = ""
    source: str = ""
    duration: Duration
    repeats: Count = 1
    seed: Annotated[int, Field(strict=True, ge=0)] = 1
    record: Literal["packets", "seconds"] = "packets"
    participants: Annotated[dict[str, Participant], Field(min_length=2)]
    calls: Annotated[list[Call], Field(min_length=1)] = []
    video: Video | None = None
    audio: Audio | None = None
    congestion_control: CongestionControl = CongestionControl()
    link: Link = Link()
    host: Host | None = None
    bottlenecks: dict[str, Bottleneck] = {}
    servers: dict[str, Server] = {}
    traffic: dict[str, Traffic] = {}

    @classmethod
    def load(cls, name_or_path: str | Path, overrides: Sequence[str] | dict[str, object] = ()) -> Scenario:
        """Reads a scenario by the name that ``rtclab list`` shows, or from a TOML file.

        ``overrides`` change fields before validation: ``["link.up.capacity=2 Mbit/s"]`` or a dict.

        Raises:
            ScenarioError: naming file, field, value and what was expected.
        """
        from rtclab.scenario.load import load

        return load(name_or_path, overrides)

    @classmethod
    def json_schema(cls) -> dict[str, Any]:
        """The JSON Schema of scenarios as written in TOML; a profile may hold what one leaves out."""
        schema = cls.model_json_schema(schema_generator=SchemaWithUnits)
        schema["properties"]["extends"] = {
            "type": "string",
            "description": "A TOML file beside this one, without its ending, that this one is laid over.",
        }
        schema["anyOf"] = [{"required": ["extends"]}, {"required": schema.pop("required")}]
        return schema

    @model_validator(mode="before")
    @classmethod
    def _complete(cls, data: Any) -> Any:
        """Fills in what a participant or call leaves out, so that errors name the user's own fields."""
        if not isinstance(data, dict):
            return data
        data = {key: value for key, value in data.items() if not (key in _SENDING and value is False)}
        participants = data.get("participants")
        if not isinstance(participants, dict):
            return data
        data["participants"] = {
            name: _inherit(participant, data) if isinstance(participant, dict) else participant
            for name, participant in participants.items()
        }
        calls = data.get("calls", [{}])
        if isinstance(calls, list):
            data["calls"] = [
                {"participants": list(participants)} | call if isinstance(call, dict) else call
                for call in calls
            ]
        return data

    @model_validator(mode="after")
    def _makes_sense(self) -> Self:
        if not self.duration.ns:
            raise FieldError("a run of no length", key="duration")
        errors = [*self._name_errors(), *self._call_errors(), *self._route_errors()]
        if not errors:
            errors += traffic_errors(self)
        media = any(self.video_of(name) or self.audio_of(name) for name in self.participants)
        if not (media or self.traffic):
            errors.append(
                FieldError("nobody sends anything", hint="add a table [video] or [audio]", key="participants")
            )
        if errors:
            raise FieldErrors(errors)
        return self

    def _name_errors(self) -> list[FieldError]:
        if re.fullmatch(r"[a-z0-9][a-z0-9._-]*", self.name) is None:
            expected = "expected lower-case letters, digits, `.`, `-` and `_`"
            return [FieldError(f"`{self.name}` cannot name a run directory; {expected}", key="name")]
        return [
            FieldError(
                f"`{name}` cannot be used as a name; "
                "expected lower-case letters, digits, `-` and `_`, and not `core`",
                key=f"{table}.{name}",
            )
            for table in ("participants", "bottlenecks", "servers", "traffic")
            for name in getattr(self, table)
            if name == networks.CORE or _NAME.fullmatch(name) is None
        ] + [
            FieldError(f"`{name}` is a participant already", key=f"servers.{name}")
            for name in self.servers
            if name in self.participants
        ]

    def _call_errors(self) -> list[FieldError]:
        return [
            error
            for index, call in enumerate(self.calls)
            for error in self._errors_of(call, f"calls.{index}")
        ]

    def _errors_of(self, call: Call, key: str) -> list[FieldError]:
        names = call.participants
        errors = [
            FieldError(
                f"unknown participant `{name}`",
                hint=closest(name, self.participants),
                key=f"{key}.participants",
            )
            for name in names
            if name not in self.participants
        ]
        if len(set(names)) < len(names):
            twice = next(name for name in names if names.count(name) > 1)
            errors.append(FieldError(f"{twice} is named more than once", key=f"{key}.participants"))
        machines = [*self.servers, networks.CORE]
        for field in ("relay", "server"):
            name = getattr(call, field)
            if name is not None and name not in machines:
                expected = ", ".join(f"`{machine}`" for machine in machines)
                errors.append(
                    FieldError(f"no server `{name}`; expected one of {expected}", key=f"{key}.{field}")
                )
        if call.root is not None and call.root not in names:
            errors.append(FieldError(f"`{call.root}` is not in this call", key=f"{key}.root"))
        return errors or self._meeting_errors(call, key)

    def _meeting_errors(self, call: Call, key: str) -> list[FieldError]:
        """Who joins after the end of the run is simply never there; all others must meet."""
        if call.start >= self.duration:
            message = f"`{call.start}` is not before duration = `{self.duration}`"
            return [FieldError(message, key=f"{key}.start")]
        there = [name for name in call.participants if self.participants[name].join < self.duration]
        when = "check join and leave against duration"
        return [
            FieldError(
                f"{a} and {b} are never there at the same time",
                hint=f"{when} = `{self.duration}`, and the call's start and end",
                key=f"{key}.participants",
            )
            for a, b in combinations(there, 2)
            if self.meeting(call, a, b) is None
        ]

    def _route_errors(self) -> list[FieldError]:
        nodes = [*self.participants, *self.servers, networks.CORE, "*"]
        errors = []
        for name, bottleneck in self.bottlenecks.items():
            for index, route in enumerate(bottleneck.routes):
                sender, arrow, receiver = route.partition("->")
                if arrow and sender in nodes and receiver in nodes:
                    continue
                errors.append(
                    FieldError(
                        f"cannot read `{route}`; expected `A->B` with A and B among {', '.join(nodes)}",
                        key=f"bottlenecks.{name}.routes.{index}",
                    )
                )
        return errors

    def video_of(self, participant: str) -> Video | None:
        """What the participant's camera sends; ``None`` if nothing."""
        own = self.participants[participant].video
        return self.video if own is None else own or None

    def audio_of(self, participant: str) -> Audio | None:
        """What the participant's microphone sends; ``None`` if nothing."""
        own = self.participants[participant].audio
        return self.audio if own is None else own or None

    def congestion_control_of(self, participant: str) -> CongestionControl:
        """The congestion control of what the participant sends."""
        return self.participants[participant].congestion_control or self.congestion_control

    def host_of(self, participant: str) -> Host | None:
        """The participant's machine; ``None`` if encoding takes no time."""
        return self.participants[participant].host or self.host

    def link_of(self, node: str) -> Link:
        """The access link of a participant or server."""
        if node in self.servers:
            return self.servers[node].link
        return self.participants[node].link or self.link

    def presence_ns(self, participant: str) -> tuple[int, int]:
        """When the participant joins and leaves, in ns, within the run."""
        own = self.participants[participant]
        leave = self.duration if own.leave is None else min(own.leave, self.duration)
        return own.join.ns, leave.ns

    def meeting(self, call: Call, *nodes: str) -> tuple[int, int] | None:
        """When the call lasts and all are there, in ns; ``None`` if never. Servers always are there."""
        end = self.duration if call.end is None else min(call.end, self.duration)
        times = [(call.start.ns, end.ns), *(self.presence_ns(n) for n in nodes if n in self.participants)]
        start_ns, end_ns = max(time[0] for time in times), min(time[1] for time in times)
        return (start_ns, end_ns) if start_ns < end_ns else None

    def seed_of(self, repeat: int) -> int:
        """The seed of one repeat: depends on the scenario's seed and the repeat's number alone.

        53 bits, so that every JSON reader keeps it exactly.
        """
        digest = hashlib.sha256(f"{self.seed}/{repeat}".encode()).digest()
        return int.from_bytes(digest[:8], "big") >> 11

    def network(self) -> dict[str, object]:
        """The network as the native side reads it: nodes, paths and routes (docs/trace.md)."""
        return networks.native_network(self)

    def flows(self) -> list[Flow]:
        """Every flow: what one participant sends another, or sends a forwarder, or gets from it."""
        return networks.flows(self)

    def traffic_flows(self) -> list[Flow]:
        """Every flow of TCP beside the calls."""
        return traffic_flows(self)

    def paths_table(self) -> pl.DataFrame:
        """The table ``paths`` of a trace: capacity and delay of every path over time."""
        return networks.paths_table(self)

    def native(self, *, seed: int) -> dict[str, object]:
        """Everything that the simulator needs for one repeat, as JSON values; times in ns, rates in bit/s."""
        return networks.native_scenario(self, seed=seed)


_SENDING = ("video", "audio")


def _inherit(own: dict[str, Any], scenario: dict[str, Any]) -> dict[str, Any]:
    """A participant's tables laid over those of the scenario, key by key."""
    result = dict(own)
    for key in _SENDING:
        base = scenario.get(key)
        if isinstance(own.get(key), dict) and isinstance(base, dict):
            result[key] = base | own[key]
    base = scenario.get("link")
    link = own.get("link")
    if isinstance(link, dict) and isinstance(base, dict):
        # A shared path replaces two separate ones, and the other way round.
        replaced = {"up", "down"} if "both" in link else {"both"} if link.keys() & {"up", "down"} else set()
        merged = {key: value for key, value in base.items() if key not in replaced}
        for key, value in link.items():
            below = merged.get(key)
            merged[key] = below | value if isinstance(below, dict) and isinstance(value, dict) else value
        result["link"] = merged
    return result
