"""The queue of a path in a scenario: a limit, or a discipline that also drops or marks packets early."""

from __future__ import annotations

from typing import Annotated, Any, Literal, Self, get_args

from pydantic import (
    BeforeValidator,
    Discriminator,
    Field,
    SerializerFunctionWrapHandler,
    Tag,
    WrapSerializer,
    model_validator,
)

from rtclab.errors import FieldError
from rtclab.scenario.table import CONSTANT, Table, check_positive, hint_for, one_of
from rtclab.scenario.toml_text import toml_text
from rtclab.scenario.units import Duration, Probability, QueueLimit, Size

# The largest number of queues of Linux' fq_codel.
MOST_FLOWS = 65_536

# The smallest quantum of Linux' fq_codel.
LEAST_QUANTUM = Size(256)

Gain = Annotated[float, Field(strict=True, ge=0, le=1000)]
Coupling = Annotated[float, Field(strict=True, ge=0, le=255)]
Count = Annotated[int, Field(strict=True, ge=1, le=2**32 - 1)]
Switch = Annotated[bool, Field(strict=True)]


class DropTail(Table):
    """A first-in first-out queue that drops what does not fit in; the same as the limit alone."""

    aqm: Literal["droptail"]
    """Name of the discipline."""
    limit: QueueLimit | None = None
    """Limit of the queue; by default unlimited."""


class Codel(Table):
    """CoDel (RFC 8289): drops at the head of the queue while packets wait for longer than the target."""

    aqm: Literal["codel"]
    """Name of the discipline."""
    limit: QueueLimit | None = None
    """Limit of the queue; by default ``1000 packets``."""
    target: Duration = Duration(5_000_000)
    """Wait that is accepted for long."""
    interval: Duration = Duration(100_000_000)
    """How long packets must wait for more than the target before the first drop: about the longest usual
    round trip."""
    ecn: Switch = False
    """Whether ECN-capable packets are marked instead of dropped."""
    ce_threshold: Duration | None = None
    """ECN-capable packets that wait for longer are marked; by default none are for that reason."""

    @model_validator(mode="after")
    def _is_possible(self) -> Self:
        _check_times(self)
        return self


class FqCodel(Table):
    """FQ-CoDel (RFC 8290): a queue with CoDel for each flow, served in turn. New flows come first."""

    aqm: Literal["fq_codel"]
    """Name of the discipline."""
    limit: QueueLimit | None = None
    """Limit of all queues together; by default ``10240 packets``."""
    flows: Annotated[int, Field(strict=True, ge=1, le=MOST_FLOWS)] = 1024
    """Number of queues. Flows are assigned to them by a hash, so two may share one."""
    quantum: Size = Size(1514)
    """What a queue may send before it is the turn of the next."""
    target: Duration = Duration(5_000_000)
    """Wait that is accepted for long."""
    interval: Duration = Duration(100_000_000)
    """How long packets must wait for more than the target before the first drop: about the longest usual
    round trip."""
    ecn: Switch = True
    """Whether ECN-capable packets are marked instead of dropped."""
    ce_threshold: Duration | None = None
    """ECN-capable packets that wait for longer are marked; by default none are for that reason."""
    drop_batch: Count = 64
    """Maximum number of packets that are dropped from the longest queue when the limit is reached."""

    @model_validator(mode="after")
    def _is_possible(self) -> Self:
        _check_times(self)
        if self.quantum < LEAST_QUANTUM:
            raise FieldError(
                f"`{self.quantum}` is too small; expected {LEAST_QUANTUM} or more",
                hint="the usual one is `1514 B`, a packet in its frame",
                key="quantum",
            )
        return self


class Pie(Table):
    """PIE (RFC 8033): drops packets as they come, with a probability that follows the delay of the queue."""

    aqm: Literal["pie"]
    """Name of the discipline."""
    limit: QueueLimit | None = None
    """Limit of the queue; by default ``1000 packets``."""
    target: Duration = Duration(15_000_000)
    """Delay that the queue is kept at."""
    update: Duration = Duration(15_000_000)
    """Time between two updates of the probability."""
    alpha: Gain = 0.125
    """Change of the probability for each second by which the delay is above the target, per update."""
    beta: Gain = 1.25
    """Change of the probability for each second by which the delay has grown, per update."""
    max_burst: Duration = Duration(150_000_000)
    """Length of a burst that passes without drops after the queue was empty."""
    ecn: Switch = False
    """Whether ECN-capable packets are marked instead of dropped."""
    mark_below: Probability = Probability(0.1)
    """Probability from which on ECN-capable packets are dropped, too."""

    @model_validator(mode="after")
    def _is_possible(self) -> Self:
        check_positive(self, "target", "update")
        return self


class StepMarking(Table):
    """Marks ECN-capable packets that waited for longer than a threshold, and drops only at its limit.

    An immediate mark at a shallow threshold, as scalable congestion controls expect it (RFC 9331).
    """

    aqm: Literal["step"]
    """Name of the discipline."""
    limit: QueueLimit | None = None
    """Limit of the queue; by default unlimited."""
    threshold: Duration = Duration(1_000_000)
    """Wait above which a packet is marked."""
    only_ect1: Switch = False
    """Whether only packets with ECT(1) are marked, and not those with ECT(0)."""


class DualPi2(Table):
    """DualPI2 (RFC 9332): a shallow queue for L4S traffic beside one for classic traffic.

    Packets with ECT(1) or CE are in the L4S queue. Marks there are coupled to the drops and marks of classic
    traffic, so that flows in both get about the same rate.
    """

    aqm: Literal["dualpi2"]
    """Name of the discipline."""
    limit: QueueLimit | None = None
    """Limit of both queues together; by default ``250 ms``."""
    target: Duration = Duration(15_000_000)
    """Delay that the classic queue is kept at."""
    update: Duration = Duration(16_000_000)
    """Time between two updates of the base probability."""
    alpha: Gain = 0.16
    """Change of the base probability for each second by which the delay is above the target, per update."""
    beta: Gain = 3.2
    """Change of the base probability for each second by which the delay has grown, per update."""
    coupling: Coupling = 2.0
    """Probability of a coupled mark, divided by the base probability. Classic traffic is dropped or marked
    with the square of the base probability."""
    step_min: Duration = Duration(800_000)
    """Wait in the L4S queue from which on packets are marked."""
    step_max: Duration = Duration(1_200_000)
    """Wait in the L4S queue from which on all packets are marked. Between both the probability grows
    linearly."""
    c_share: Probability = Probability(0.1)
    """Least share of the bytes that classic traffic gets while both queues have packets."""
    drop_overload: Switch = True
    """Whether L4S traffic is dropped, too, when marking all of it is not enough."""

    @model_validator(mode="after")
    def _is_possible(self) -> Self:
        check_positive(self, "target", "update")
        if self.step_max < self.step_min:
            raise FieldError(
                f"`{self.step_max}` is below step_min = `{self.step_min}`",
                hint="make both equal to mark every packet above one threshold",
                key="step_max",
            )
        return self


Discipline = DropTail | Codel | FqCodel | Pie | StepMarking | DualPi2
DISCIPLINES: dict[str, type[Table]] = {
    get_args(table.model_fields["aqm"].annotation)[0]: table for table in get_args(Discipline)
}
"""The tables of all disciplines, by name."""


def _known(value: object) -> object:
    """The value as it is, if it is no table of an unknown discipline."""
    if isinstance(value, dict):
        expected = one_of([f"`{name}`" for name in DISCIPLINES])
        if "aqm" not in value:
            raise FieldError(f"missing; expected {expected}", key="aqm")
        if value["aqm"] not in list(DISCIPLINES):  # a list, because the value may be a table
            name = toml_text(value["aqm"])
            raise FieldError(
                f"unknown value `{name}`; expected {expected}", hint=hint_for(name, DISCIPLINES), key="aqm"
            )
    return value


def _as_given(queue: object, written: SerializerFunctionWrapHandler) -> object:
    """The queue as JSON, without parameters that have their usual value."""
    if not isinstance(queue, Table):
        return written(queue)
    return queue.model_dump(mode="json", exclude_defaults=True)


def _tag(name: str) -> str:
    return f'<aqm = "{name}">'


def _tag_of(value: Any) -> str:
    name = value.get("aqm") if isinstance(value, dict) else getattr(value, "aqm", None)
    return CONSTANT if name is None else _tag(name)


Queue = Annotated[
    Annotated[QueueLimit, Tag(CONSTANT)]
    | Annotated[DropTail, Tag(_tag("droptail"))]
    | Annotated[Codel, Tag(_tag("codel"))]
    | Annotated[FqCodel, Tag(_tag("fq_codel"))]
    | Annotated[Pie, Tag(_tag("pie"))]
    | Annotated[StepMarking, Tag(_tag("step"))]
    | Annotated[DualPi2, Tag(_tag("dualpi2"))],
    Discriminator(_tag_of),
    BeforeValidator(_known),
    WrapSerializer(_as_given),
]
"""A limit alone, or the table of a discipline."""


def limit_of(queue: QueueLimit | Discipline | None) -> QueueLimit | None:
    """The limit that is given; None if there is none, or if the discipline has a limit of its own."""
    return queue if queue is None or isinstance(queue, QueueLimit) else queue.limit


def native_aqm(queue: QueueLimit | Discipline | None) -> dict[str, object] | None:
    """The serde form of the discipline; None if the queue drops at its limit only."""
    if queue is None or isinstance(queue, QueueLimit | DropTail):
        return None
    parameters: dict[str, object] = {"kind": queue.aqm}
    for name, about in type(queue).model_fields.items():
        value = getattr(queue, name)
        # An optional duration, too, has its unit in the name.
        if isinstance(value, Duration) or about.annotation == Duration | None:
            parameters[f"{name}_ns"] = None if value is None else value.ns
        elif isinstance(value, Probability):
            parameters[name] = value.value
        elif isinstance(value, Size):
            parameters[name] = value.bytes
        elif name not in ("aqm", "limit"):
            parameters[name] = value
    return parameters


def _check_times(table: Codel | FqCodel) -> None:
    check_positive(table, "target", "interval")
    if table.target > table.interval:
        raise FieldError(
            f"`{table.target}` is above interval = `{table.interval}`",
            hint="a target is 5 to 10 % of the interval (RFC 8289, section 3.2)",
            key="target",
        )
