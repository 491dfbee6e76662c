"""TCP cross traffic: endless transfers, or objects with pauses between them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, Literal, Self

from pydantic import Field, model_validator

from rtclab.errors import FieldError
from rtclab.scenario.table import Table, closest
from rtclab.scenario.units import Duration, Size


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
        if not self.mean_idle.ns:
            raise FieldError(
                f"must be positive; got `{self.mean_idle}`",
                key="mean_idle",
                hint="leave out `objects` for an endless transfer",
            )
        return self


class Traffic(Table):
    """TCP from one node to another: ``flows`` connections in parallel, each an endless transfer or objects.

    The round trip needs a capacity or a delay. Without either, only the receiver's window of 6 MiB would
    limit the rate, and virtual time would not advance.
    """

    sender: str
    """Node that sends: a participant, a server or ``core``."""
    receiver: str
    """Node that receives."""
    congestion_control: Literal["newreno", "cubic", "bbr"] = "cubic"
    """TCP's congestion control."""
    flows: Annotated[int, Field(strict=True, ge=1, le=1000)] = 1
    """Number of parallel connections."""
    start: Duration = Duration(0)
    """When the transfer begins."""
    stop: Duration | None = None
    """When the transfer ends; by default at the end of the run."""
    objects: Objects | None = None
    """Short transfers with pauses between them; by default each connection sends without end."""

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
        stop = self.stop or duration
        if self.start >= stop:
            errors.append(FieldError(f"`{self.start}` is not before the end at `{stop}`", key="start"))
        return errors

    def flow_names(self, name: str) -> list[str]:
        """The names of the flows: one, or one per endless transfer: ``download.1``, ``download.2`` …"""
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
            "congestion_control": self.congestion_control,
            "connections": self.flows,
            "start_ns": self.start.ns,
            "stop_ns": min(self.stop or duration, duration).ns,
            "objects": own
            and {
                "min_bytes": own.min_size.bytes,
                "max_bytes": own.max_size.bytes,
                "mean_idle_ns": own.mean_idle.ns,
                "idle_first": own.begin == "idle",
            },
        }
