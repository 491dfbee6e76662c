"""One direction of a link as a scenario writes it: capacity, queue, delay, jitter, loss."""

from __future__ import annotations

import re
import tomllib
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import Discriminator, Field, Tag, model_validator

from rtclab.errors import FieldError, Problem, ScenarioError
from rtclab.scenario.table import CONSTANT, Table, closest, tag_of
from rtclab.scenario.units import Bitrate, Duration, Probability, QueueLimit, Ratio
from rtclab.scenario.wifi import Wifi

# One level of tables: only a Wi-Fi fading of one's own has more, and that needs a scenario.
_COMMA_OUTSIDE_TABLES = re.compile(r",(?![^{]*\})")

# Mahimahi counts 1504 bytes per opportunity: an IP packet of 1500 and the 4-byte header of its TUN device.
BYTES_PER_OPPORTUNITY = 1500
LATEST_OPPORTUNITY_MS = 10**12  # as late as the longest time
# The timer of the boxes whose scripts this models (1000 Hz). It also bounds the number of steps of a ramp.
SHORTEST_STEP = Duration(1_000_000)


class CapacitySteps(Table):
    """Capacity that changes at given moments; the first rate also holds before its moment."""

    steps: Annotated[list[tuple[Duration, Bitrate]], Field(min_length=1)]

    @model_validator(mode="after")
    def _in_order(self) -> Self:
        _check_in_order([at for at, _ in self.steps])
        return self


class TraceName(str):
    """The name of a trace as it is written, with the directory that it is relative to."""

    directory: Path

    def __new__(cls, name: str, directory: Path) -> Self:
        located = super().__new__(cls, name)
        located.directory = directory
        return located


def located(data: Any, directory: Path) -> Any:
    """A copy of parsed TOML in which the names of traces know the directory that they are relative to."""
    if isinstance(data, dict):
        return {
            key: TraceName(value, directory)
            if key == "trace" and isinstance(value, str)
            else located(value, directory)
            for key, value in data.items()
        }
    return [located(value, directory) for value in data] if isinstance(data, list) else data


def self_contained(data: Any) -> Any:
    """A copy of :func:`located` data that needs no file: recorded capacities hold what their files say.

    Raises:
        FieldError: such a file cannot be read.
    """
    if isinstance(data, list):
        return [self_contained(value) for value in data]
    if not isinstance(data, dict):
        return data
    if isinstance(data.get("trace"), TraceName):
        data = CapacityTrace.with_file_read(data)
    return {key: self_contained(value) for key, value in data.items()}


class CapacityTrace(Table):
    """Capacity recorded by Mahimahi: one line per opportunity to send 1500 bytes, in ms; it repeats.

    The file is looked for beside the TOML file that names it, or in the current directory if the command line
    does. ``opportunities_ms`` is filled from it, so that a recorded scenario needs no file.
    """

    trace: str
    opportunities_ms: list[Annotated[int, Field(strict=True, ge=0, le=LATEST_OPPORTUNITY_MS)]] = []

    @model_validator(mode="before")
    @classmethod
    def with_file_read(cls, data: Any) -> Any:
        """The table with ``opportunities_ms``, read from the file if they are not there."""
        if not isinstance(data, dict) or not isinstance(data.get("trace"), str) or "opportunities_ms" in data:
            return data
        name: str = data["trace"]
        directory = name.directory if isinstance(name, TraceName) else Path()
        return data | {"trace": str(name), "opportunities_ms": read_mahimahi(directory / name)}

    @model_validator(mode="after")
    def _repeats(self) -> Self:
        times = self.opportunities_ms
        if not times or times[-1] == 0:
            raise FieldError("the last opportunity must be later than 0 ms", key="trace")
        for line, (earlier, later) in enumerate(pairwise(times), start=2):
            if later < earlier:
                raise FieldError(
                    f"line {line} of `{self.trace}`: {later} ms comes after {earlier} ms; "
                    "expected times that do not fall",
                    key="trace",
                )
        return self


class DelaySteps(Table):
    """One-way delay that changes at given moments."""

    steps: Annotated[list[tuple[Duration, Duration]], Field(min_length=1)]

    @model_validator(mode="after")
    def _in_order(self) -> Self:
        _check_in_order([at for at, _ in self.steps])
        return self


class DelayRamp(Table):
    """One-way delay that goes from one value to another between two moments."""

    ramp: Literal["linear", "exponential"]
    from_delay: Annotated[Duration, Field(alias="from")]
    to_delay: Annotated[Duration, Field(alias="to")]
    start: Duration
    end: Duration

    @model_validator(mode="after")
    def _goes_forward(self) -> Self:
        if self.end <= self.start:
            raise FieldError(f"`{self.end}` is not after start = `{self.start}`", key="end")
        if self.ramp == "exponential" and not (self.from_delay.ns and self.to_delay.ns):
            raise FieldError(
                "an exponential ramp cannot begin or end at zero delay", hint="use ramp = `linear`"
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
    """One-way delay that goes from point to point in small steps, as a script changes an emulator.

    A point is a moment, a delay, and how it goes on from there: ``linear`` (left out) or ``exponential``.
    """

    points: Annotated[list[DelayPoint], Field(min_length=2)]
    every: Duration = Duration(500_000_000)

    @model_validator(mode="after")
    def _goes_forward(self) -> Self:
        _check_in_order([point[0] for point in self.points], key="points")
        if self.every < SHORTEST_STEP:
            raise FieldError(
                f"`{self.every}` is too short a step; expected {SHORTEST_STEP} or more", key="every"
            )
        for index, (point, following) in enumerate(pairwise(self.points)):
            if point[2:] == ("exponential",) and not (point[1].ns and following[1].ns):
                raise FieldError("cannot go exponentially from or to zero delay", key=f"points.{index}")
        return self

    @cached_property
    def steps_ns(self) -> list[tuple[int, int]]:
        """Every moment at which the delay changes, and to what."""
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
    """Random extra delay: |N(0, sd²)|, cut at three sd (RFC 8868, section 4.4)."""

    sd: Duration
    reorder: Annotated[bool, Field(strict=True)] = False


class GilbertElliott(Table):
    """Loss in bursts: p = P(good → bad), r = P(bad → good), h and k = P(survives | bad, good).

    With the defaults (simple Gilbert) the loss ratio is p / (p + r) and a burst lasts 1 / r packets.
    """

    p: Probability
    r: Probability
    h: Probability = Probability(0.0)
    k: Probability = Probability(1.0)


class LossSteps(Table):
    """Independent loss that changes at given moments; the first ratio also holds before its moment."""

    steps: Annotated[list[tuple[Duration, Ratio]], Field(min_length=1)]

    @model_validator(mode="after")
    def _in_order(self) -> Self:
        _check_in_order([at for at, _ in self.steps])
        return self


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
    | Annotated[GilbertElliott, Tag("<p>")]
    | Annotated[LossSteps, Tag("<steps>")],
    Discriminator(tag_of({"p": GilbertElliott, "steps": LossSteps})),
]


class Clock(Table):
    """The clock that an emulating box counts its delay with, as of a virtual machine: its rate wanders.

    ``wander`` is the standard deviation of the rate, ``correlation`` the time in which a deviation fades.
    """

    wander: Ratio
    correlation: Duration


class PathSpec(Table):
    """One direction of a link. Without capacity packets pass at once; without queue none is dropped there.

    ``loss_position``: ``wire``, after the queue (a lost packet has used capacity), or ``queue``, before it,
    as dummynet and netem lose. ``tick`` is the timer resolution of an emulating box (dummynet at 1000 Hz:
    ``1 ms``): packets leave at its multiples; left out, times are exact. ``clock`` makes the delay breathe.
    ``wifi`` is a Wi-Fi hop in place of the capacity.
    """

    capacity: Capacity | None = None
    queue: QueueLimit | None = None
    delay: Delay = Duration(0)
    jitter: JitterField | None = None
    loss: Loss | None = None
    loss_position: Literal["wire", "queue"] = "wire"
    tick: Duration | None = None
    clock: Clock | None = None
    wifi: Wifi | None = None

    @model_validator(mode="after")
    def _queue_has_capacity(self) -> Self:
        if self.wifi is not None:
            for key in ("capacity", "tick"):
                if getattr(self, key) is not None:
                    raise FieldError(f"cannot stand beside {key}", hint="keep one of the two", key="wifi")
        elif self.queue is not None and self.capacity is None:
            raise FieldError(
                f"a queue of `{self.queue}` without capacity never fills",
                hint="add capacity, for example `1 Mbit/s`, or leave the queue out",
                key="queue",
            )
        if self.queue is not None and not self.queue.limit:
            raise FieldError(
                f"a queue of `{self.queue}` holds nothing: what comes while a packet is sent is dropped",
                hint="leave it out for a queue without limit; the smallest is `1 packets`",
                key="queue",
            )
        if isinstance(self.capacity, Bitrate) and self.capacity.bps == 0:
            raise FieldError("a constant capacity of 0 bit/s lets nothing through", key="capacity")
        if self.tick is not None and not self.tick.ns:
            raise FieldError(
                f"must be positive; got `{self.tick}`", hint="leave it out for exact times", key="tick"
            )
        return self

    @classmethod
    def parse(cls, text: str, *, origin: str = "link") -> Self:
        """Reads ``capacity 1 Mbit/s, delay 25 ms, queue 300 ms, loss 2 %``, as ``rtclab link`` takes it.

        A value may be a table as in TOML: ``loss {p = 0.01, r = 0.3}``.

        Raises:
            ScenarioError: beginning with ``origin``.
        """
        table: dict[str, object] = {}
        problems = []
        for part in filter(None, (part.strip() for part in _COMMA_OUTSIDE_TABLES.split(text))):
            key, _, value = part.partition(" ")
            if key not in cls.key_names():
                expected = f"{', '.join(cls.key_names()[:-1])} or {cls.key_names()[-1]}"
                hint = closest(key, cls.key_names()) or "for example `capacity 1 Mbit/s, delay 25 ms`"
                problems.append(Problem(key, f"unknown key; expected {expected}", hint))
            elif key in table:
                problems.append(Problem(key, "given twice"))
            try:
                table[key] = _value(value.strip())
            except tomllib.TOMLDecodeError as error:
                problems.append(Problem(key, f"cannot read `{value}` as a table: {error}"))
        if problems:
            raise ScenarioError(origin, problems)
        return cls.read(table, origin)

    def native(self, name: str) -> dict[str, object]:
        """As the native network reads it: the serde form of ``PathConfig``."""
        return {
            "name": name,
            "capacity": _native_capacity(self.capacity),
            "wifi": self.wifi and self.wifi.native(),
            "queue": None if self.queue is None else {"kind": self.queue.kind, "limit": self.queue.limit},
            "delay": _native_delay(self.delay),
            "jitter": _native_jitter(self.jitter),
            "loss": _native_loss(self.loss),
            "loss_steps": _native_loss_steps(self.loss),
            "loss_position": self.loss_position,
            "tick_ns": None if self.tick is None else self.tick.ns,
            "clock": self.clock
            and {"wander": self.clock.wander.value, "correlation_ns": self.clock.correlation.ns},
        }


def _value(text: str) -> object:
    return tomllib.loads(f"value = {text}")["value"] if text.startswith("{") else text


def read_mahimahi(file: Path) -> list[int]:
    """Reads a Mahimahi trace: one whole number of milliseconds per line; empty lines are nothing.

    Raises:
        FieldError: the file cannot be read, or a line is no number.
    """
    try:
        # Some editors begin a file with a byte order mark.
        lines = file.read_text(encoding="utf-8-sig").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "not a text file"
        raise FieldError(
            f"cannot read `{file}`: {reason}",
            hint="it is looked for beside the file that names it, or for --set in the current directory",
            key="trace",
        ) from None
    times = []
    for number, line in enumerate(map(str.strip, lines), start=1):
        if not line:
            continue
        if not (line.isascii() and line.isdecimal()):
            raise FieldError(
                f"line {number} of `{file}`: expected a whole number of ms; got `{line}`", key="trace"
            )
        times.append(int(line))
    return times


def _check_in_order(times: list[Duration], key: str = "steps") -> None:
    for index, (earlier, later) in enumerate(pairwise(times), start=1):
        if later <= earlier:
            raise FieldError(
                f"`{later}` is not after `{earlier}`; expected times that rise", key=f"{key}.{index}"
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


def _native_loss(loss: Ratio | GilbertElliott | LossSteps | None) -> object:
    match loss:
        case None | Ratio(value=0.0):
            return None
        case Ratio(value=ratio):
            return _independent(ratio)
        case GilbertElliott():
            return {"p": loss.p.value, "r": loss.r.value, "h": loss.h.value, "k": loss.k.value}
        case LossSteps(steps=steps):
            return _independent(steps[0][1].value)


def _native_loss_steps(loss: object) -> list[object]:
    steps = loss.steps[1:] if isinstance(loss, LossSteps) else []
    return [[at.ns, _independent(ratio.value)] for at, ratio in steps]


def _independent(ratio: float) -> dict[str, float]:
    # The chain whose two states are alike.
    return {"p": 0.0, "r": 1.0, "h": 1.0 - ratio, "k": 1.0 - ratio}
