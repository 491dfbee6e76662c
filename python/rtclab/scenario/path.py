"""One direction of a link in a scenario: capacity, queue, delay, jitter, loss."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from math import inf
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import Discriminator, Field, GetCoreSchemaHandler, GetJsonSchemaHandler, Tag, model_validator
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema, core_schema

from rtclab.errors import FieldError, Problem, ScenarioError
from rtclab.scenario.aqm import Queue, limit_of, native_aqm
from rtclab.scenario.files import FileName, text_of, with_file_read
from rtclab.scenario.loss_trace import LossTrace, read_loss_trace
from rtclab.scenario.rate_traces import IF_RATES, other_format
from rtclab.scenario.table import CONSTANT, Table, check_goes_forward, check_positive, hint_for, tag_of
from rtclab.scenario.toml_text import read_value, split_at_commas
from rtclab.scenario.units import Bitrate, Duration, Probability, Quantity, QueueLimit, Ratio
from rtclab.scenario.wifi import Wifi

# Mahimahi counts 1504 bytes per opportunity: an IP packet of 1500 and the 4-byte header of its TUN device.
BYTES_PER_OPPORTUNITY = 1500
LATEST_OPPORTUNITY_MS = 10**12  # the longest duration
MOST_TOLD = 60  # characters of a line in an error
# Timer resolution (1000 Hz) of the emulators whose scripts this models. It also limits the steps of a course.
SHORTEST_STEP = Duration(1_000_000)


class _Steps(Table):
    """A value that changes at given times, which are the first elements of ``steps``."""

    @model_validator(mode="after")
    def _in_order(self) -> Self:
        _check_in_order([at for at, _ in getattr(self, "steps")])  # noqa: B009  # each kind has its own
        return self


class CapacitySteps(_Steps):
    """Capacity that changes at given times. The first rate also applies before its time."""

    steps: Annotated[list[tuple[Duration, Bitrate]], Field(min_length=1)]
    """Pairs of a time and the capacity from then on, in ascending order."""


def self_contained(data: Any, key: str = "") -> Any:
    """A copy of :func:`~rtclab.scenario.files.located` data that means the same in any directory.

    It has the content of the files of recorded capacities and losses, and absolute paths of media files.
    ``key`` is the key of the data in their table.

    Raises:
        FieldError: a file cannot be read.
    """
    if isinstance(data, list):
        return [self_contained(value) for value in data]
    if not isinstance(data, dict):
        return data
    if key in TRACES and isinstance(data.get("trace"), FileName):
        data = with_file_read(data, *TRACES[key])
    if isinstance(data.get("file"), FileName):
        data = data | {"file": str(data["file"].path)}
    return {inner: self_contained(value, inner) for inner, value in data.items()}


class CapacityTrace(Table):
    """Capacity recorded by Mahimahi: the time in ms of each opportunity to send 1500 bytes. It repeats.

    The file is relative to the TOML file that names it, or to the current directory if the command line names
    it. ``opportunities_ms`` is read from the file, so that the scenario in a manifest needs no file.
    """

    trace: str
    """File in Mahimahi's format; its path is relative to the TOML file that names it."""
    opportunities_ms: list[Annotated[int, Field(strict=True, ge=0, le=LATEST_OPPORTUNITY_MS)]] = []
    """Times in ms at which 1500 bytes may be sent; read from the file."""

    @model_validator(mode="before")
    @classmethod
    def _read_file(cls, data: Any) -> Any:
        return with_file_read(data, "opportunities_ms", read_mahimahi)

    @model_validator(mode="after")
    def _repeats(self) -> Self:
        times = self.opportunities_ms
        if not times or times[-1] == 0:
            raise FieldError("the last opportunity must be later than 0 ms", key="trace")
        for line, (earlier, later) in enumerate(pairwise(times), start=2):
            if later < earlier:
                raise FieldError(
                    f"line {line} of `{self.trace}`: {later} ms comes after {earlier} ms; "
                    "expected times in ascending order",
                    hint=IF_RATES,
                    key="trace",
                )
        return self


class DelaySteps(_Steps):
    """One-way delay that changes at given times. The first delay also applies before its time."""

    steps: Annotated[list[tuple[Duration, Duration]], Field(min_length=1)]
    """Pairs of a time and the one-way delay from then on, in ascending order."""


class DelayRamp(Table):
    """One-way delay that changes continuously from one value to another between two times."""

    ramp: Literal["linear", "exponential"]
    """Shape of the change."""
    from_delay: Annotated[Duration, Field(alias="from")]
    """One-way delay until ``start``."""
    to_delay: Annotated[Duration, Field(alias="to")]
    """One-way delay from ``end`` on."""
    start: Duration
    """When the change begins."""
    end: Duration
    """When the change ends."""

    @model_validator(mode="after")
    def _goes_forward(self) -> Self:
        check_goes_forward(self)
        if self.ramp == "exponential" and not (self.from_delay.ns and self.to_delay.ns):
            raise FieldError(
                "an exponential ramp cannot begin or end at zero delay", hint='use ramp = "linear"'
            )
        return self


DelayPoint = Annotated[
    Annotated[tuple[Duration, Duration], Tag("<plain>")]
    | Annotated[tuple[Duration, Duration, Literal["linear", "exponential"]], Tag("<shaped>")],
    Discriminator(
        lambda point: "<shaped>" if isinstance(point, list | tuple) and len(point) > 2 else "<plain>"
    ),
]


class DelayCourse(Table):
    """One-way delay that changes from point to point in small steps, as when a script drives an emulator.

    A point is a time, a delay, and the shape of the change to the next point: ``linear`` (the default) or
    ``exponential``.
    """

    points: Annotated[list[DelayPoint], Field(min_length=2)]
    """Points, each a time, the delay at that time and, optionally, the shape of the change that follows:
    ``linear`` (the default) or ``exponential``."""
    every: Duration = Duration(500_000_000)
    """Length of a step, 1 ms or longer."""

    @model_validator(mode="after")
    def _goes_forward(self) -> Self:
        _check_in_order([point[0] for point in self.points], key="points")
        if self.every < SHORTEST_STEP:
            raise FieldError(f"`{self.every}` is too short; expected {SHORTEST_STEP} or more", key="every")
        for index, (point, following) in enumerate(pairwise(self.points)):
            if point[2:] == ("exponential",) and not (point[1].ns and following[1].ns):
                raise FieldError(
                    "an exponential change cannot begin or end at zero delay", key=f"points.{index}"
                )
        return self

    @cached_property
    def steps_ns(self) -> list[tuple[int, int]]:
        """The times at which the delay changes and the new delays, both in ns."""
        steps: list[tuple[int, int]] = []
        for point, following in pairwise(self.points):
            (start, from_delay), (end, to_delay) = point[:2], following[:2]
            for at_ns in range(start.ns, end.ns, self.every.ns):
                progress = (at_ns - start.ns) / (end.ns - start.ns)
                if point[2:] == ("exponential",):
                    delay_ns = from_delay.ns * (to_delay.ns / from_delay.ns) ** progress
                else:
                    delay_ns = from_delay.ns + (to_delay.ns - from_delay.ns) * progress
                if not steps or steps[-1][1] != round(delay_ns):
                    steps.append((at_ns, round(delay_ns)))
        at, delay = self.points[-1][:2]
        return [*steps, (at.ns, delay.ns)]


class Jitter(Table):
    """Random extra delay: |N(0, sd²)|, truncated at three sd (RFC 8868, section 4.4)."""

    sd: Duration
    """Standard deviation of the normal distribution."""
    reorder: Annotated[bool, Field(strict=True)] = False
    """Whether packets may overtake each other. If not, a late packet delays those behind it."""


class BurstLoss(Table):
    """Loss in bursts (Gilbert): every packet of a burst is lost, and none between two bursts."""

    mean: Ratio
    """Mean loss."""
    burst: Annotated[float, Field(strict=True, ge=1, allow_inf_nan=False)]
    """Mean length of a burst, in packets."""

    @model_validator(mode="after")
    def _is_possible(self) -> Self:
        if self.p > 1:
            most = Ratio(round(self.burst / (self.burst + 1), 4))
            raise FieldError(
                f"`{self.mean}` cannot be lost in bursts of {self.burst:g} packets, since a received packet "
                f"separates two bursts; expected at most {most}, or longer bursts",
                key="mean",
            )
        return self

    @property
    def r(self) -> float:
        """Probability, per packet, that a burst ends."""
        return 1 / self.burst

    @property
    def p(self) -> float:
        """Probability, per packet, that a burst begins. More than 1 if the mean cannot be reached."""
        lost = self.mean.value
        return self.r * lost / (1 - lost) if lost < 1 else inf


class GilbertElliott(Table):
    """Loss in bursts: p = P(good → bad), r = P(bad → good), h and k = P(survives | bad, good).

    With the defaults (simple Gilbert) the loss ratio is p / (p + r) and a burst lasts 1 / r packets;
    ``mean`` and ``burst`` are the same in other words. ``h`` and ``k`` are probabilities of survival, not of
    loss.
    """

    p: Probability
    """Probability, per packet, that the path goes from good to bad."""
    r: Probability
    """Probability, per packet, that the path goes from bad to good."""
    h: Probability = Probability(0.0)
    """Probability that a packet survives while the path is bad."""
    k: Probability = Probability(1.0)
    """Probability that a packet survives while the path is good."""


class LossSteps(_Steps):
    """Independent loss that changes at given times. The first ratio also applies before its time."""

    steps: Annotated[list[tuple[Duration, Ratio]], Field(min_length=1)]
    """Pairs of a time and the loss ratio from then on, in ascending order."""


Capacity = Annotated[
    Annotated[Bitrate, Tag(CONSTANT)]
    | Annotated[CapacitySteps, Tag("<steps>")]
    | Annotated[CapacityTrace, Tag("<trace>")],
    Discriminator(tag_of({"steps": CapacitySteps, "trace": CapacityTrace})),
]
Delay = Annotated[
    Annotated[Duration, Tag(CONSTANT)]
    | Annotated[DelaySteps, Tag("<steps>")]
    | Annotated[DelayRamp, Tag("<ramp>")]
    | Annotated[DelayCourse, Tag("<points>")],
    Discriminator(tag_of({"steps": DelaySteps, "ramp": DelayRamp, "points": DelayCourse})),
]
JitterField = Annotated[
    Annotated[Duration, Tag(CONSTANT)] | Annotated[Jitter, Tag("<sd>")],
    Discriminator(tag_of({"sd": Jitter})),
]
Loss = Annotated[
    Annotated[Ratio, Tag(CONSTANT)]
    | Annotated[BurstLoss, Tag("<mean>")]
    | Annotated[GilbertElliott, Tag("<p>")]
    | Annotated[LossSteps, Tag("<steps>")]
    | Annotated[LossTrace, Tag("<trace>")],
    Discriminator(tag_of({"mean": BurstLoss, "p": GilbertElliott, "steps": LossSteps, "trace": LossTrace})),
]


UNLIMITED, NONE = "unlimited", "none"


@dataclass(frozen=True)
class Unset:
    """Lets a word stand for the default of a field, which a table that inherits another value can so set.

    ``quantity`` is the kind of a constant value; None if the field has tables only.
    """

    word: str
    quantity: type[Quantity] | None
    default: object = None

    def read(self, value: object) -> object:
        """The default for the word, and any other value as it is.

        Raises:
            FieldError: it is another word.
        """
        if value == self.word:
            return self.default
        if isinstance(value, str) and not any(map(str.isdigit, value)):
            what = "a table" if self.quantity is None else f"a {self.quantity.noun}, a table"
            raise FieldError(
                f"cannot read `{value}`; expected {what} or `{self.word}`",
                hint=None if self.quantity is None else f"for example `{self.quantity.example}`",
            )
        return value

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.no_info_before_validator_function(self.read, handler(source))

    def __get_pydantic_json_schema__(
        self, schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> JsonSchemaValue:
        return {"anyOf": [{"const": self.word}, handler(schema)]}


class Clock(Table):
    """The clock with which an emulator measures its delay. Its rate varies, as in a virtual machine."""

    wander: Ratio
    """Standard deviation of the clock's rate."""
    correlation: Duration
    """Time constant with which a deviation of the rate decays."""


class PathSpec(Table):
    """One direction of a link. ``unlimited`` and ``none`` unset a value that is inherited."""

    capacity: Annotated[Capacity | None, Unset(UNLIMITED, Bitrate)] = None
    """Rate at which packets are serialised; by default ``unlimited``."""
    queue: Annotated[Queue | None, Unset(UNLIMITED, QueueLimit)] = None
    """Limit of the queue, as time, bytes or packets, or a discipline that drops or marks packets early; by
    default ``unlimited``."""
    delay: Annotated[Delay, Unset(NONE, Duration, Duration(0))] = Duration(0)
    """One-way propagation delay."""
    jitter: Annotated[JitterField | None, Unset(NONE, Duration)] = None
    """Random extra delay of each packet."""
    loss: Annotated[Loss | None, Unset(NONE, Ratio)] = None
    """Loss: independent, in bursts (Gilbert-Elliott), changing over time, or as recorded packet by packet."""
    loss_position: Literal["wire", "queue"] = "wire"
    """Where packets are lost: on the ``wire``, after using capacity, or before the ``queue``, as in dummynet
    and netem."""
    tick: Annotated[Duration | None, Unset(NONE, Duration)] = None
    """Timer resolution of an emulator, such as ``1 ms`` for dummynet at 1000 Hz. Packets leave at multiples
    of it; by default times are exact."""
    clock: Annotated[Clock | None, Unset(NONE, None)] = None
    """Clock of an emulator; its drift makes the delay vary slowly."""
    wifi: Annotated[Wifi | None, Unset(NONE, None)] = None
    """A Wi-Fi hop in place of the capacity."""
    ecn: Literal["keep", "bleach", "mangle"] = "keep"
    """What the path does to the ECN codepoints of packets, as some middleboxes do. ``bleach`` sets all to
    Not-ECT, marks included. ``mangle`` makes ECT(1) of ECT(0), and ECT(0) of ECT(1)."""

    @model_validator(mode="after")
    def _queue_has_capacity(self) -> Self:
        if self.wifi is not None:
            for key in ("capacity", "tick"):
                if getattr(self, key) is not None:
                    word = UNLIMITED if key == "capacity" else NONE
                    raise FieldError(
                        f"cannot be combined with {key}",
                        hint=f"leave out one of the two; an inherited {key} is set to `{word}`",
                        key="wifi",
                    )
        elif self.queue is not None and self.capacity is None:
            raise FieldError(
                f"a queue of `{self.queue}` without capacity never fills"
                if isinstance(self.queue, QueueLimit)
                else f"a queue with `{self.queue.aqm}` needs a capacity: without one no packet ever waits",
                hint="add capacity, for example `1 Mbit/s`, or set the queue to `unlimited`",
                key="queue",
            )
        limit, alone = limit_of(self.queue), isinstance(self.queue, QueueLimit)
        if limit is not None and not limit.limit:
            raise FieldError(
                f"a queue of `{limit}` holds no packet while another one is being sent",
                hint=f"{'write `unlimited`' if alone else 'leave out the limit'} for "
                f"{'a queue without limit' if alone else 'the usual one'}; the smallest is `1 packets`",
                key="queue" if alone else "queue.limit",
            )
        if isinstance(self.capacity, Bitrate) and self.capacity.bps == 0:
            raise FieldError("a constant capacity of 0 bit/s lets nothing through", key="capacity")
        check_positive(self, "tick", hint="write `none` for exact times")
        return self

    @classmethod
    def parse(cls, text: str, *, origin: str = "link") -> Self:
        """Parses the text of an option of ``rtclab link``.

        For example ``capacity 1 Mbit/s, delay 25 ms, queue 300 ms, loss 2 %``. A value may be a table, in
        which text needs no quotes: ``queue {aqm = codel, target = 5 ms}``.

        Raises:
            ScenarioError: the text is invalid. The message begins with ``origin``.
        """
        table: dict[str, object] = {}
        problems = []
        for part in filter(None, split_at_commas(text)):
            key, _, value = part.partition(" ")
            if key not in cls.key_names():
                expected = f"{', '.join(cls.key_names()[:-1])} or {cls.key_names()[-1]}"
                hint = hint_for(key, cls.key_names()) or "for example `capacity 1 Mbit/s, delay 25 ms`"
                problems.append(Problem(key, f"unknown key; expected {expected}", hint))
            elif key in table:
                problems.append(Problem(key, "given twice"))
            value = value.strip()
            table[key] = read_value(value) if value.startswith("{") else value
            if value.startswith("{") and not isinstance(table[key], dict):
                hint = "for example `loss {mean = 2 %, burst = 3}`"
                problems.append(Problem(key, f"cannot read `{value}` as a table", hint))
        if problems:
            raise ScenarioError(origin, problems)
        return cls.read(table, origin)

    def native(self, name: str) -> dict[str, object]:
        """The path as JSON values for the simulator (serde form of ``PathConfig``)."""
        limit, aqm = limit_of(self.queue), native_aqm(self.queue)
        later = self.loss.steps[1:] if isinstance(self.loss, LossSteps) else []
        trace = self.loss if isinstance(self.loss, LossTrace) else None
        return {
            "name": name,
            "capacity": _native_capacity(self.capacity),
            "wifi": self.wifi and self.wifi.native(),
            "queue": None if limit is None else {"kind": limit.kind, "limit": limit.limit},
            "delay": _native_delay(self.delay),
            "jitter": _native_jitter(self.jitter),
            "loss": _native_loss(self.loss),
            "loss_steps": [[at.ns, _independent(ratio.value)] for at, ratio in later],
            "loss_trace": {"runs": trace.runs, "start": trace.start} if trace else None,
            "loss_position": self.loss_position,
            "tick_ns": None if self.tick is None else self.tick.ns,
            "clock": self.clock
            and {"wander": self.clock.wander.value, "correlation_ns": self.clock.correlation.ns},
            **({} if aqm is None else {"aqm": aqm}),
            **({} if self.ecn == "keep" else {"ecn": self.ecn}),
        }


def read_mahimahi(file: Path) -> list[int]:
    """Reads a Mahimahi trace: one whole number of milliseconds per line. Empty lines are skipped.

    Raises:
        FieldError: the file cannot be read, or a line is not a number.
    """
    times = []
    text = text_of(file)
    for number, line in enumerate(map(str.strip, text.splitlines()), start=1):
        if not line:
            continue
        if not (line.isascii() and line.isdecimal()):
            got = line if len(line) <= MOST_TOLD else f"{line[:MOST_TOLD]}…"
            raise FieldError(
                f"line {number} of `{file}`: expected a whole number of ms; got `{got}`",
                hint=other_format(text),
                key="trace",
            )
        times.append(int(line))
    return times


TRACES: dict[str, tuple[str, Callable[[Path], object]]] = {
    "capacity": ("opportunities_ms", read_mahimahi),
    "loss": ("packets", read_loss_trace),
}
"""For each field that may be recorded: the key of the content of its file, and the reader of the file."""


def _check_in_order(times: list[Duration], key: str = "steps") -> None:
    for index, (earlier, later) in enumerate(pairwise(times), start=1):
        if later <= earlier:
            raise FieldError(
                f"`{later}` is not after `{earlier}`; expected ascending times", key=f"{key}.{index}"
            )


def _native_capacity(capacity: Bitrate | CapacitySteps | CapacityTrace | None) -> object:
    match capacity:
        case None:
            return None
        case Bitrate(bps=bps):
            return {"kind": "constant", "bps": bps}
        case CapacitySteps():
            return {"kind": "steps", "steps": [[at.ns, rate.bps] for at, rate in capacity.steps]}
        case CapacityTrace():
            times = [ms * 10**6 for ms in capacity.opportunities_ms]
            return {
                "kind": "opportunities",
                "times": times,
                "period": times[-1],
                "bytes": BYTES_PER_OPPORTUNITY,
            }


def _native_delay(delay: Duration | DelaySteps | DelayRamp | DelayCourse) -> object:
    match delay:
        case Duration(ns=ns):
            return {"kind": "constant", "ns": ns}
        case DelaySteps():
            return {"kind": "steps", "steps": [[at.ns, value.ns] for at, value in delay.steps]}
        case DelayCourse():
            return {"kind": "steps", "steps": [list(step) for step in delay.steps_ns]}
        case DelayRamp():
            return {
                "kind": "ramp",
                "shape": delay.ramp,
                "start_ns": delay.start.ns,
                "end_ns": delay.end.ns,
                "from_ns": delay.from_delay.ns,
                "to_ns": delay.to_delay.ns,
            }


def _native_jitter(jitter: Duration | Jitter | None) -> object:
    match jitter:
        case None | Duration(ns=0):
            return None
        case Duration(ns=ns):
            return {"sd_ns": ns, "reorder": False}
        case Jitter():
            return {"sd_ns": jitter.sd.ns, "reorder": jitter.reorder}


def _native_loss(loss: Ratio | BurstLoss | GilbertElliott | LossSteps | LossTrace | None) -> object:
    match loss:
        case None | Ratio(value=0.0) | LossTrace():
            return None
        case Ratio(value=ratio):
            return _independent(ratio)
        case BurstLoss(p=p, r=r):
            return {"p": p, "r": r, "h": 0.0, "k": 1.0}
        case GilbertElliott():
            return {"p": loss.p.value, "r": loss.r.value, "h": loss.h.value, "k": loss.k.value}
        case LossSteps(steps=steps):
            return _independent(steps[0][1].value)


def _independent(ratio: float) -> dict[str, float]:
    # A Gilbert-Elliott chain with the same loss in both states.
    return {"p": 0.0, "r": 1.0, "h": 1.0 - ratio, "k": 1.0 - ratio}
