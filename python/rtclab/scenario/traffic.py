"""Cross traffic: endless TCP transfers, TCP objects with pauses between them, and UDP at a constant rate."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, Literal, Self

from pydantic import Field, model_validator

from rtclab.errors import FieldError, FieldErrors
from rtclab.scenario.table import Table, check_positive, closest, one_of
from rtclab.scenario.units import Bitrate, Duration, Size

PACKET_SIZE = Size(1200)
"""Default size of UDP packets, as large as packets of calls (libwebrtc's limit for RTP packets is 1200 B)."""
SMALLEST_PACKET, LARGEST_PACKET = Size(44), Size(1500)
"""IPv4 and UDP headers with the smallest payload of iperf3 (16 B), and the MTU of live calls."""

CLASSIC_ECN = ("newreno", "cubic")
"""TCP congestion controls that use ECN if the scenario says so."""
WITHOUT_CHOICE = {"bbr": "does not use ECN", "dctcp": "always uses ECN", "prague": "always uses ECN"}


class Objects(Table):
    """Short transfers (RFC 8868, section 5) with uniform sizes and exponential pauses between them.

    Each object has its own connection.
    """

    min_size: Size = Size(30_000)
    """Smallest object."""
    max_size: Size = Size(50_000)
    """Largest object."""
    mean_idle: Duration = Duration(10_000_000_000)
    """Mean pause between two objects."""
    begin: Literal["object", "idle"] = "object"
    """Whether each connection starts with an object or with a pause."""

    @model_validator(mode="after")
    def _sizes_in_order(self) -> Self:
        if not 0 < self.min_size.bytes <= self.max_size.bytes:
            raise FieldError(
                f"`{self.min_size}` is not between 1 B and max_size = `{self.max_size}`", key="min_size"
            )
        check_positive(self, "mean_idle", hint="leave out `objects` for an endless transfer")
        return self


class Traffic(Table):
    """Traffic from one node to another beside the calls, over ``flows`` connections in parallel.

    A connection over TCP is an endless transfer or objects. A connection over UDP sends packets at a constant
    rate, whatever happens to them.

    The round trip of TCP needs a capacity or a delay. Without either, only the receiver's window of 4 MB
    would limit the rate, and virtual time would not advance.
    """

    renamed = {"stop": "end"}

    sender: str
    """Node that sends: a participant, a server or ``core``."""
    receiver: str
    """Node that receives."""
    protocol: Literal["tcp", "udp"] = "tcp"
    """Whether the traffic adapts to the network (TCP) or has a constant rate (UDP)."""
    congestion_control: Literal["newreno", "cubic", "bbr", "dctcp", "prague"] | None = "cubic"
    """TCP's congestion control; UDP has none."""
    ecn: bool = False
    """TCP with ``newreno`` or ``cubic``: whether queues may mark packets instead of dropping them (RFC 3168).

    ``dctcp`` and ``prague`` always use ECN, ``bbr`` never does.
    """
    rate: Bitrate | None = None
    """UDP: rate of each connection, which counts whole IP packets; required for UDP."""
    packet_size: Size | None = None
    """UDP: size of the packets, IP header included, 44 B to 1500 B; by default 1200 B."""
    flows: Annotated[int, Field(strict=True, ge=1, le=1000)] = 1
    """Number of parallel connections."""
    start: Duration = Duration(0)
    """Start of the traffic."""
    end: Duration | None = None
    """End of the traffic; by default the end of the run."""
    objects: Objects | None = None
    """TCP: short transfers with pauses between them; by default each connection sends without end."""

    @model_validator(mode="before")
    @classmethod
    def _no_congestion_control_over_udp(cls, data: Any) -> Any:
        if not isinstance(data, dict) or data.get("protocol") != "udp":
            return data
        if data.get("congestion_control") is not None:
            raise FieldError(
                f"UDP has none; got `{data['congestion_control']}`",
                key="congestion_control",
                hint='leave it out, or set protocol = "tcp"',
            )
        return data | {"congestion_control": None}

    @model_validator(mode="after")
    def _fits_its_protocol(self) -> Self:
        errors = self._tcp_errors() if self.protocol == "tcp" else self._udp_errors()
        if errors:
            raise FieldErrors(errors)
        return self

    def _tcp_errors(self) -> list[FieldError]:
        errors = [
            FieldError(f"only UDP has one; got `{value}`", key=key, hint='set protocol = "udp"')
            for key, value in (("rate", self.rate), ("packet_size", self.packet_size))
            if value is not None
        ]
        if self.congestion_control is None:
            errors.append(FieldError("TCP needs one", key="congestion_control"))
        elif self.ecn and self.congestion_control not in CLASSIC_ECN:
            errors.append(
                self._ecn_error(f"`{self.congestion_control}` {WITHOUT_CHOICE[self.congestion_control]}")
            )
        return errors

    def _ecn_error(self, reason: str) -> FieldError:
        choices = one_of([f"`{control}`" for control in CLASSIC_ECN])
        return FieldError(f"{reason}; only {choices} have the choice", key="ecn", hint="leave it out")

    def _udp_errors(self) -> list[FieldError]:
        errors = []
        if self.ecn:
            errors.append(self._ecn_error("UDP does not react to marks"))
        if self.rate is None:
            errors.append(FieldError("UDP needs a rate", key="rate", hint='for example rate = "1 Mbit/s"'))
        elif not self.rate.bps:
            errors.append(FieldError(f"must be positive; got `{self.rate}`", key="rate"))
        if self.packet_size is not None and not SMALLEST_PACKET <= self.packet_size <= LARGEST_PACKET:
            errors.append(
                FieldError(
                    f"`{self.packet_size}` is not between {SMALLEST_PACKET} and {LARGEST_PACKET}",
                    key="packet_size",
                )
            )
        if self.objects is not None:
            errors.append(
                FieldError(
                    "only TCP sends objects", key="objects", hint='leave it out, or set protocol = "tcp"'
                )
            )
        return errors

    def problems(self, nodes: Sequence[str], duration: Duration) -> list[FieldError]:
        """Conflicts with the rest of the scenario. The keys of the errors are relative to this table."""
        errors = [
            FieldError(
                f"unknown node `{node}`; expected {', '.join(nodes)}", hint=closest(node, nodes), key=key
            )
            for key, node in (("sender", self.sender), ("receiver", self.receiver))
            if node not in nodes
        ]
        if self.sender == self.receiver:
            errors.append(FieldError(f"`{self.receiver}` is the sender", key="receiver"))
        if self.end is not None and self.end <= self.start:
            errors.append(FieldError(f"`{self.end}` is not after start = `{self.start}`", key="end"))
        elif self.start >= duration:
            errors.append(FieldError(f"`{self.start}` is not before duration = `{duration}`", key="start"))
        return errors

    def flow_names(self, name: str) -> list[str]:
        """The names of the flows: one, or one per connection (``download.1`` …) if there are no objects."""
        if self.flows == 1 or self.objects:
            return [name]
        return [f"{name}.{number}" for number in range(1, self.flows + 1)]

    def native(self, name: str, duration: Duration) -> dict[str, Any]:
        """The serde form of ``TrafficConfig``."""
        own = self.objects
        return {
            "flows": self.flow_names(name),
            "sender": self.sender,
            "receiver": self.receiver,
            **({"congestion_control": self.congestion_control} if self.congestion_control else {}),
            **({"ecn": True} if self.ecn else {}),
            "connections": self.flows,
            "start_ns": self.start.ns,
            "stop_ns": min(self.end or duration, duration).ns,
            "objects": own
            and {
                "min_bytes": own.min_size.bytes,
                "max_bytes": own.max_size.bytes,
                "mean_idle_ns": own.mean_idle.ns,
                "idle_first": own.begin == "idle",
            },
            "udp": self.rate
            and {"rate_bps": self.rate.bps, "packet_bytes": (self.packet_size or PACKET_SIZE).bytes},
        }
