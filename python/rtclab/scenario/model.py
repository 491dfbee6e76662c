"""The tables of a scenario: participants, media, calls and network."""

from __future__ import annotations

import hashlib
import re
from itertools import combinations
from typing import Annotated, Any, Literal, Self

from pydantic import Field, model_validator

from rtclab.errors import FieldError, FieldErrors
from rtclab.scenario.call import Call
from rtclab.scenario.participant import (
    CORE,
    INHERITED,
    INHERITED_BY_SERVERS,
    INTERNET,
    SENT,
    Audio,
    Browser,
    CongestionControl,
    Count,
    Host,
    Link,
    Participant,
    Server,
    Video,
    inherit,
)
from rtclab.scenario.path import PathSpec
from rtclab.scenario.table import Table, check_positive, closest
from rtclab.scenario.traffic import Traffic
from rtclab.scenario.units import Duration

_NAME = r"[a-z0-9][a-z0-9_-]*"
_SCENARIO_NAME = r"[a-z0-9][a-z0-9._-]*"
MAX_NODES = 4096
"""Maximum number of nodes. The routes between them take 7 GB as JSON values, 0.45 kB each."""
# Files join names that share a table.
_NAMES: dict[str, Any] = {"propertyNames": {"pattern": rf"^{_NAME}( *\+ *{_NAME})*$", "not": {"const": CORE}}}


class Bottleneck(PathSpec):
    """A path that several routes share, between the sender's uplink and the receiver's downlink."""

    routes: Annotated[list[str], Field(min_length=1)]
    """Routes that cross the path, such as ``alice->bob``, ``*->bob`` or ``*->*``; ``*`` is any node,
    including ``core`` and ``internet``."""


def _home_errors(call: Call, key: str) -> list[FieldError]:
    """Every participant of a cascade must be connected with one server."""
    homes = [name for there in (call.servers or {}).values() for name in there]
    errors = [
        FieldError(f"`{name}` is not in this call", key=key)
        for name in homes
        if name not in call.participants
    ]
    for name in call.participants if call.servers else ():
        if homes.count(name) != 1:
            message = f"{name} is listed {homes.count(name)} times; expected once, at one server"
            errors.append(FieldError(message, key=key))
    return errors


class ScenarioTables(Table):
    """All tables of a scenario file.

    Without ``calls`` there is one call of all participants who have no page of their own. Without ``video``
    or ``audio``, only participants with such a table of their own send it.
    """

    name: Annotated[str, Field(json_schema_extra={"pattern": f"^{_SCENARIO_NAME}$"})]
    """Name of the scenario, with which the names of its runs begin; lower-case letters, digits, ``.``, ``-``
    and ``_``."""
    title: str = ""
    """Description of the scenario on one line."""
    source: str = ""
    """Source of the scenario, such as a table of a paper or a section of an RFC."""
    duration: Duration
    """Length of the run."""
    repeats: Count = 1
    """Number of repeats, each with a different seed."""
    seed: Annotated[int, Field(strict=True, ge=0)] = 1
    """Seed from which the seed of each repeat is derived; the same seed gives the same simulated run."""
    record: Literal["packets", "seconds"] = "packets"
    """Whether to record every packet, or only sums per second, for long runs with many flows."""
    internet: Annotated[bool, Field(strict=True)] = False
    """Whether browsers and servers of live calls reach hosts outside the laboratory over IPv4: everything
    that this machine reaches, except its own loopback addresses. Their packets cross the node's link to and
    from a node ``internet``. Simulated calls have no hosts outside."""
    participants: Annotated[dict[str, Participant], Field(min_length=1, json_schema_extra=_NAMES)]
    """Participants by name; an empty table inherits everything from the scenario."""
    calls: Annotated[list[Call], Field(validate_default=False)] = []
    """Calls between participants; by default one call of everybody who has no page of their own. Pages of
    your own make their own calls."""
    video: Video | None = None
    """Video that every participant sends; if left out, nobody sends video."""
    audio: Audio | None = None
    """Audio that every participant sends; if left out, nobody sends audio."""
    congestion_control: CongestionControl = CongestionControl()
    """Congestion control of every participant."""
    link: Link = Link()
    """Access link of every participant."""
    host: Host | None = None
    """Machine of every participant; if left out, encoding takes no time."""
    browser: Browser = Browser()
    """Browser of every participant in live calls."""
    bottlenecks: Annotated[dict[str, Bottleneck], Field(json_schema_extra=_NAMES)] = {}
    """Paths that several routes share, by name."""
    servers: Annotated[dict[str, Server], Field(json_schema_extra=_NAMES)] = {}
    """TURN relays, SFUs, MCUs and programs of your own with access links of their own, by name."""
    app: Server | None = None
    """The same as ``[servers.app]``: the server of a page of your own."""
    traffic: Annotated[dict[str, Traffic], Field(json_schema_extra=_NAMES)] = {}
    """Cross traffic over TCP or UDP, by name."""

    @model_validator(mode="before")
    @classmethod
    def _complete(cls, data: Any) -> Any:
        """Fills in omitted fields of participants and calls, so that errors name fields in the file."""
        if not isinstance(data, dict):
            return data
        data = {key: value for key, value in data.items() if not (key in SENT and value is False)}
        if isinstance(app := data.get("app"), dict):
            servers = data.get("servers", {})
            if isinstance(servers, dict):
                if "app" in servers:
                    raise FieldError("there is a table [servers.app] too; expected one of them", key="app")
                data |= {"servers": servers | {"app": app}, "app": None}
        participants = data.get("participants")
        if not isinstance(participants, dict):
            return data
        data["participants"] = {
            name: inherit(participant, data, INHERITED) if isinstance(participant, dict) else participant
            for name, participant in participants.items()
        }
        if isinstance(servers := data.get("servers"), dict):
            data["servers"] = {
                name: inherit(server, data, INHERITED_BY_SERVERS) if isinstance(server, dict) else server
                for name, server in servers.items()
            }
        ours = [name for name, own in participants.items() if not (isinstance(own, dict) and own.get("page"))]
        calls = data.get("calls", [{}] if len(ours) > 1 or len(ours) == len(participants) else [])
        if isinstance(calls, list):
            data["calls"] = [
                {"participants": ours} | call if isinstance(call, dict) else call for call in calls
            ]
        return data

    @model_validator(mode="after")
    def _makes_sense(self) -> Self:
        check_positive(self, "duration")
        # Checked first, because other checks look at every pair of nodes.
        if errors := self._size_errors():
            raise FieldErrors(errors)
        errors = [
            *self._name_errors(),
            *(
                error
                for index, call in enumerate(self.calls)
                for error in self._errors_of(call, f"calls.{index}")
            ),
            *self._route_errors(),
            *self._traffic_errors(),
        ]
        media = any(self.video_of(name) or self.audio_of(name) for name in self.participants)
        if not (media or self.traffic or self.pages()):
            errors.append(
                FieldError("nobody sends anything", hint="add a table [video] or [audio]", key="participants")
            )
        if errors:
            raise FieldErrors(errors)
        return self

    def _name_errors(self) -> list[FieldError]:
        if re.fullmatch(_SCENARIO_NAME, self.name) is None:
            expected = "expected lower-case letters, digits, `.`, `-` and `_`"
            return [FieldError(f"`{self.name}` cannot name a run directory; {expected}", key="name")]
        return (
            [
                FieldError(
                    f"`{name}` cannot be used as a name; "
                    "expected lower-case letters, digits, `-` and `_`, and not `core`",
                    key=f"{table}.{name}",
                )
                for table in ("participants", "bottlenecks", "servers", "traffic")
                for name in getattr(self, table)
                if name == CORE or re.fullmatch(_NAME, name) is None
            ]
            + [
                FieldError(f"`{name}` is already a participant", key=f"servers.{name}")
                for name in self.servers
                if name in self.participants
            ]
            + [
                FieldError(f"`{INTERNET}` is the node of the hosts outside", key=f"{table}.{INTERNET}")
                for table in ("participants", "servers")
                if self.internet and INTERNET in getattr(self, table)
            ]
        )

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
        machines = [*self.servers, CORE]
        expected = ", ".join(f"`{machine}`" for machine in machines)
        named = {"relay": [call.relay], "server": [call.server], "servers": [*(call.servers or ())]}
        errors += [
            FieldError(f"no server `{name}`; expected one of {expected}", key=f"{key}.{field}")
            for field, chosen in named.items()
            for name in chosen
            if name is not None and name not in machines
        ]
        errors += [
            FieldError(
                f"{name} has a page of their own, which makes its own calls; expected only others",
                key=f"{key}.participants",
            )
            for name in self.pages()
            if name in names
        ]
        errors += _home_errors(call, f"{key}.servers")
        if call.root is not None and call.root not in names:
            errors.append(FieldError(f"`{call.root}` is not in this call", key=f"{key}.root"))
        return errors or self._meeting_errors(call, key)

    def _meeting_errors(self, call: Call, key: str) -> list[FieldError]:
        """Every pair must be present at the same time; participants who join after the end do not count."""
        if call.start >= self.duration:
            message = f"`{call.start}` is not before duration = `{self.duration}`"
            return [FieldError(message, key=f"{key}.start")]
        there = [name for name in call.participants if self.participants[name].join < self.duration]
        when = "check join and leave against duration"
        if len(there) < 2:
            who = f"only {there[0]} joins" if there else "nobody joins"
            message = f"{who} before the end at `{self.duration}`; a call needs two"
            return [FieldError(message, hint=f"{when}", key=f"{key}.participants")]
        return [
            FieldError(
                f"{a} and {b} are never present at the same time",
                hint=f"{when} = `{self.duration}`, and the call's start and end",
                key=f"{key}.participants",
            )
            for a, b in combinations(there, 2)
            if self.meeting(call, a, b) is None
        ]

    def _size_errors(self) -> list[FieldError]:
        nodes = len(self.participants) + len(self.servers) + 1
        if nodes <= MAX_NODES:
            return []
        message = f"{nodes} nodes, `{CORE}` included, need {nodes * (nodes - 1)} routes"
        key = "participants" if len(self.participants) >= len(self.servers) else "servers"
        return [FieldError(f"{message}; expected at most {MAX_NODES} nodes", key=key)]

    def _route_errors(self) -> list[FieldError]:
        nodes = [*self.participants, *self.servers, *self.shared_nodes, "*"]
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

    def _traffic_errors(self) -> list[FieldError]:
        nodes = [*self.participants, *self.servers, CORE]
        return [
            FieldError(error.message, hint=error.hint, key=f"traffic.{name}.{error.key}")
            for name, traffic in self.traffic.items()
            for error in traffic.problems(nodes, self.duration)
        ]

    @property
    def shared_nodes(self) -> list[str]:
        """The nodes without an access link: ``core`` and, if the scenario has it, ``internet``."""
        return [CORE, INTERNET] if self.internet else [CORE]

    def pages(self) -> list[str]:
        """The participants who have a page of their own."""
        return [name for name, own in self.participants.items() if own.page is not None]

    def video_of(self, participant: str) -> Video | None:
        """The video that the participant sends, ``None`` if there is none."""
        own = self.participants[participant].video
        return self.video if own is None else own or None

    def audio_of(self, participant: str) -> Audio | None:
        """The audio that the participant sends, ``None`` if there is none."""
        own = self.participants[participant].audio
        return self.audio if own is None else own or None

    def congestion_control_of(self, participant: str) -> CongestionControl:
        """The congestion control that the participant uses for sending."""
        return self.participants[participant].congestion_control or self.congestion_control

    def host_of(self, participant: str) -> Host | None:
        """The participant's machine, ``None`` if encoding takes no time."""
        return self.participants[participant].host or self.host

    def browser_of(self, participant: str) -> Browser:
        """How the participant's browser is started in live calls."""
        return self.participants[participant].browser or self.browser

    def link_of(self, node: str) -> Link:
        """The access link of a participant or server."""
        if node in self.servers:
            return self.servers[node].link
        return self.participants[node].link or self.link

    def presence_ns(self, participant: str) -> tuple[int, int]:
        """When the participant joins and leaves, in ns, within the run."""
        own = self.participants[participant]
        return own.join.ns, self.duration.ns if own.leave is None else min(own.leave.ns, self.duration.ns)

    def meeting(self, call: Call, *nodes: str) -> tuple[int, int] | None:
        """Begin and end, in ns, of the time when all ``nodes`` are in the call; ``None`` if there is none.

        Servers are always present.
        """
        start_ns = call.start.ns
        end_ns = self.duration.ns if call.end is None else min(call.end.ns, self.duration.ns)
        for node in nodes:
            if node in self.participants:
                join_ns, leave_ns = self.presence_ns(node)
                start_ns, end_ns = max(start_ns, join_ns), min(end_ns, leave_ns)
        return (start_ns, end_ns) if start_ns < end_ns else None

    def seed_of(self, repeat: int) -> int:
        """The seed of one repeat, which depends only on the scenario's seed and the number of the repeat.

        It has 53 bits, so that every JSON parser reads it exactly.
        """
        digest = hashlib.sha256(f"{self.seed}/{repeat}".encode()).digest()
        return int.from_bytes(digest[:8], "big") >> 11
