"""The simulated backend, in virtual time and native code. It fills the same tables as a live call."""

from __future__ import annotations

import ctypes
import json
from collections.abc import Collection, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from rtclab import _native, native_tables, own_controls
from rtclab.backend.backends import (
    REBUILD,
    Watch,
    failure_of,
    last_events,
    manifest,
    not_connected,
    unwatched,
)
from rtclab.backend.sampler import Sampler
from rtclab.errors import BadInput, CallFailed, RtclabError, UnsupportedScenario
from rtclab.scenario import Scenario, Video, closest, mixing
from rtclab.scenario.own_control import FORMS
from rtclab.scenario.participant import CongestionControl
from rtclab.scenario.toml_text import toml_text
from rtclab.trace import NULLABLE, SCHEMAS, FlowInfo, Trace, write_bytes, write_text

CAPTURE = "capture.pcapng"
"""File in the directory of the trace: packets at the ports of all nodes. Live calls use the same name."""

DESCRIPTIONS = "capture.sdp"
"""File with the session descriptions of the calls in the capture."""


class SimBackend:
    """Runs a scenario in the simulator. The native code releases the GIL.

    With ``capture``, ``run`` also writes :data:`CAPTURE` and :data:`DESCRIPTIONS`. The whole capture is held
    in memory until the repeat ends.
    """

    name = "sim"
    parallel = True
    deterministic = True

    def __init__(self, *, capture: bool = False) -> None:
        self.capture = capture

    def check(self, scenario: Scenario) -> None:
        """Rejects settings that only live calls support, and invalid congestion controls and options.

        Raises:
            BadInput: strangers named a control of their own, and the user does not trust them.
            UnsupportedScenario: only live calls have it, or a congestion control or an option does not exist.
        """
        scenario.check_trusted()
        if pages := scenario.pages():
            raise UnsupportedScenario(
                f"participants.{pages[0]}.page",
                "pages of your own run in browsers; the simulator has none",
                hint="run it live: --backend live",
            )
        for participant, own in scenario.participants.items():
            table = f"participants.{participant}" if own.video is not None else ""
            _check_video(scenario.video_of(participant), table)
        for participant, own in scenario.participants.items():
            table = f"participants.{participant}" if own.congestion_control is not None else ""
            _check_control(scenario.congestion_control_of(participant), table)
        for server in mixing.mixers(scenario):
            own_server = mixing.server_of(scenario, server)
            table = f"servers.{server}"
            _check_video(mixing.composition(scenario, server), table if own_server.video else "")
            control = mixing.congestion_control_of(scenario, server)
            _check_control(control, table if own_server.congestion_control else "")
        for server, control in mixing.forwarders(scenario).items():
            _check_control(control, f"servers.{server}")
        # The native code checks options when it prepares a run, so run one that ends at once.
        try:
            check_own(scenario)
            native_columns(scenario, scenario.native(seed=0) | {"duration_ns": 0}, 0)
        except ValueError as error:
            field, _, message = str(error).partition(": ")
            message, _, hint = message.partition("\n  hint: ")
            raise UnsupportedScenario(field, message, hint=hint or None) from None
        except own_controls.ControlFailed as error:
            raise BadInput(error.message, hint=error.hint) from None

    def run(
        self, scenario: Scenario, *, seed: int, repeat: int, out: Path, watch: Watch = unwatched
    ) -> Trace:
        """Simulates one repeat and writes its trace to ``out``.

        Raises:
            CallFailed: nobody connected. The trace is written anyway.
            DiskFull: no space is left for the capture or the trace.
        """
        written = self._written(scenario, seed, repeat, out)
        _give_memory_back()
        if watch is not unwatched:
            watch(Sampler.of_trace(written).new())
        if written.manifest.failure is not None:
            raise CallFailed(written.manifest.failure)
        return written

    def _written(self, scenario: Scenario, seed: int, repeat: int, out: Path) -> Trace:
        """The trace in a directory. What is simulated is large, and gone when this returns."""
        if not self.capture:
            return self.simulate(scenario, seed=seed, repeat=repeat).save(out)
        columns, pcapng, sdp = _native_run("simulate_captured", scenario, scenario.native(seed=seed), seed)
        write_bytes(out / CAPTURE, pcapng)
        write_text(out / DESCRIPTIONS, sdp)
        return self.trace_of(columns, scenario, seed=seed, repeat=repeat).save(out)

    def simulate(self, scenario: Scenario, *, seed: int, repeat: int) -> Trace:
        """Simulates one repeat and keeps its trace in memory."""
        columns = native_columns(scenario, scenario.native(seed=seed), seed)
        return self.trace_of(columns, scenario, seed=seed, repeat=repeat)

    def trace_of(
        self, columns: Mapping[str, Mapping[str, Any]], scenario: Scenario, *, seed: int, repeat: int
    ) -> Trace:
        """The trace of a repeat, from the columns that the native side left."""
        tables = {name: NativeTable(name, values) for name, values in columns.items()}
        spans = tables.pop("flows").rows(*FLOWS)
        about = manifest(scenario, backend=self.name, seed=seed, repeat=repeat)
        events = tables["events"].rows(*EVENT)
        missing, happened = not_connected(scenario, events), last_events(events)
        last = {name: happened.get(name, "none") for name in scenario.participants}
        known = {
            "flows": as_simulated(about.flows, spans),
            "not_connected": missing,
            "failure": failure_of(missing, about.connections, last),
        }
        tables["paths"] = _paths(scenario)
        return Trace.in_memory(tables, about.model_copy(update=known))


def native_columns(scenario: Scenario, config: Mapping[str, object], seed: int) -> dict[str, dict[str, Any]]:
    """The columns of a repeat. ``config`` is the scenario's native configuration.

    Raises:
        ValueError: the configuration cannot be run.
        ControlFailed: a control of the user's own failed.
    """
    columns: dict[str, dict[str, Any]] = _native_run("simulate", scenario, config, seed)
    return columns


def _native_run(function: str, scenario: Scenario, config: Mapping[str, object], seed: int) -> Any:
    """Calls a native function here or, for controls of the user's own, in a process that can be ended."""
    own = scenario.owned_controls()
    if not own:
        return getattr(_native, function)(json.dumps(config))
    return own_controls.call(function, own, json.dumps(config), seed)


def check_own(scenario: Scenario) -> None:
    """Checks that the controls of the user's own can be loaded and made.

    Raises:
        ControlFailed: one cannot.
    """
    if own := scenario.own_controls():
        own_controls.call("check", own)


def _give_memory_back() -> None:
    """Has glibc give freed memory back to the system. It would keep what the tables of a large call took."""
    with suppress(AttributeError, OSError, TypeError):  # another C library
        ctypes.CDLL(None).malloc_trim(0)


LIVE_ONLY = {"codec": ("vp9", "h264", "av1"), "adapt": ("loss",), "simulcast": (True,)}
"""By field of a video, the values that only live calls know."""


def simulate(scenario: str | Path | Scenario, repeat: int = 0, *, trust: bool = False) -> Trace:
    """Simulates one repeat of a scenario. Its trace is kept in memory, and ``save`` writes it to a directory.

    Args:
        scenario: a name from ``rtclab list``, the path of a TOML file, or a loaded scenario.
        repeat: number of the repeat, from which its seed is derived.
        trust: run the Python code that a file from outside of the current project names.

    Raises:
        BadInput: such a file is not trusted.
        ScenarioError: the scenario is invalid.
        UnsupportedScenario: the simulator cannot run the scenario.

    Example:
        >>> rtclab.simulate("first-call").flows
        ['alice->bob', 'bob->alice']
    """
    if trust or not isinstance(scenario, Scenario):
        scenario = Scenario.load(scenario, trust=trust)
    simulator = SimBackend()
    simulator.check(scenario)
    return simulator.simulate(scenario, seed=scenario.seed_of(repeat), repeat=repeat)


def _check_control(control: CongestionControl, owner: str) -> None:
    """Checks that the simulator has a congestion control. ``owner`` has its table; empty: the scenario."""
    if control.own is None and control.name not in _native.CONGESTION_CONTROLS:
        known = ", ".join(f"`{name}`" for name in _native.CONGESTION_CONTROLS)
        raise UnsupportedScenario(
            f"{owner}.congestion_control.name".lstrip("."),
            f"the simulator has no `{control.name}`; expected {known}, or {FORMS}",
            hint=closest(control.name, _native.CONGESTION_CONTROLS),
        )


def _check_video(video: Video | None, owner: str) -> None:
    """Checks that a video has no setting that only live calls support. ``owner`` is as in _check_control."""
    for key, values in LIVE_ONLY.items() if video is not None else ():
        value = getattr(video, key)
        if value in values:
            usual = toml_text(Video.model_fields[key].default)
            raise UnsupportedScenario(
                f"{owner}.video.{key}".lstrip("."),
                f"the simulator has no model of `{toml_text(value)}`; expected `{usual}`",
                hint="run it live: --backend live",
            )


def _paths(scenario: Scenario) -> NativeTable:
    """The table ``paths``: capacity and delay of every path at each change, as planned."""
    changes = scenario.path_changes()
    names = list(dict.fromkeys(path for _, path, _, _ in changes))
    codes = {path: code for code, path in enumerate(names)}
    columns = {
        "at_ns": np.array([at_ns for at_ns, _, _, _ in changes], np.int64),
        "path": (np.array([codes[path] for _, path, _, _ in changes], np.uint32), names),
        "capacity_bps": np.array([-1 if bps is None else bps for _, _, bps, _ in changes], np.int64),
        "one_way_delay_ms": np.array([delay_ms for _, _, _, delay_ms in changes], np.float64),
    }
    return NativeTable("paths", columns)


def as_simulated(
    planned: Mapping[str, FlowInfo], spans: Iterable[tuple[str, int | None, int]]
) -> dict[str, FlowInfo]:
    """The flows with the time in which each was really active.

    ``spans`` has the name, begin and end of each. A begin is None if no packet was sent.
    """
    flows = dict(planned)
    for name, begin_ns, end_ns in spans:
        if name not in planned:
            raise NativeMismatch("`flows.flow`", f"`{name}`; expected {', '.join(planned)}")
        begin_ns = min(flows[name].begin_ns if begin_ns is None else begin_ns, end_ns)
        flows[name] = flows[name].model_copy(update={"begin_ns": begin_ns, "end_ns": end_ns})
    return flows


FLOWS = pl.Schema({"flow": pl.String(), "begin_ns": pl.Int64(), "end_ns": pl.Int64()})
"""The columns of the native table of flows, which becomes part of the manifest."""

EVENT = ("participant", "flow", "event")
"""The columns of an event in :data:`rtclab.backend.Events`."""

NATIVE = {"flows": FLOWS, **SCHEMAS}
"""Columns and types of the native tables."""

MAY_BE_NULL = {"flows": frozenset({"begin_ns"}), **NULLABLE}
"""By native table, the columns that may be null."""

_FILE_TYPES = {pl.Int64(): "int", pl.Boolean(): "flag", pl.Float64(): "float", pl.String(): "text"}
FILE_COLUMNS = {
    table: [(name, _FILE_TYPES[dtype], name in NULLABLE[table]) for name, dtype in schema.items()]
    for table, schema in SCHEMAS.items()
}
"""By table, what :func:`rtclab._native.parquet` must know of each column beside its values."""

NOT_SIMULATED = {
    "packets": {"written_ns"},
    "outbound_rtp": {
        "totalPacketSendDelay",
        "encoderImplementation",
        "mimeType",
        "powerEfficientEncoder",
        "qualityLimitationDurationCpu",
        "qualityLimitationDurationBandwidth",
        "qualityLimitationDurationOther",
    },
    "inbound_rtp": {
        "mimeType",
        "decoderImplementation",
        "powerEfficientDecoder",
    },
    "frames": {"display_ns"},
    "host": {"memory_bytes", "cpu_limit_percent"},
}
"""Columns that only live calls have."""


@dataclass(frozen=True)
class NativeTable:
    """A table of a trace as native columns.

    Numbers are arrays; in a nullable column, -1 (integers) and NaN (floats) stand for null. Text is an array
    of codes and the list of texts; the highest code of the type stands for null.
    """

    name: str
    columns: Mapping[str, Any]

    def __post_init__(self) -> None:
        """Checks the names.

        Raises:
            NativeMismatch: the native module has another table, or a table with other columns than expected.
        """
        if self.name not in NATIVE:
            raise NativeMismatch(f"`{self.name}`", f"no such table; expected {', '.join(NATIVE)}")
        expected = NATIVE[self.name].keys() - NOT_SIMULATED.get(self.name, set())
        for name in sorted(self.columns.keys() ^ expected):
            what = "missing" if name in expected else "no such column"
            raise NativeMismatch(f"`{self.name}.{name}`", what)

    def frame(self) -> pl.DataFrame:
        """The table as a data frame.

        Raises:
            NativeMismatch: the columns have other types or lengths than expected.
        """
        schema, nullable = NATIVE[self.name], MAY_BE_NULL[self.name]
        made = {
            name: _series(self.name, name, values, schema[name], nullable)
            for name, values in self.columns.items()
        }
        lengths = {name: series.len() for name, series in made.items()}
        rows = max(lengths.values())
        if min(lengths.values()) < rows:
            raise NativeMismatch(f"`{self.name}`", f"columns of different lengths: {lengths}")
        for name in schema.keys() - made.keys():
            made[name] = pl.Series(name, [None], dtype=schema[name]).new_from_index(0, rows)
        return pl.DataFrame([made[name] for name in schema])

    def rows(self, *names: str) -> list[Any]:
        """The values of some columns of integers and text, row by row.

        For a short table, this takes less time than a data frame.
        """
        return list(zip(*(self._values(name) for name in names), strict=True))

    def _values(self, name: str) -> list[Any]:
        values = self.columns[name]
        if isinstance(values, tuple):
            codes, texts = values
            no_text = np.iinfo(codes.dtype).max
            return [None if code == no_text else texts[code] for code in codes.tolist()]
        null = native_tables.NO_INTEGER if name in MAY_BE_NULL[self.name] else None
        return [None if value == null else value for value in values.tolist()]

    def parquet(self) -> bytes:
        """The content of the table's file.

        Raises:
            NativeMismatch: the columns have other types or lengths than expected.
        """
        columns = [
            (name, kind, nullable, self.columns.get(name)) for name, kind, nullable in FILE_COLUMNS[self.name]
        ]
        try:
            return _native.parquet(columns)
        except (TypeError, ValueError) as error:
            raise NativeMismatch(f"`{self.name}`", str(error)) from None


class NativeMismatch(RtclabError):
    """The native module returned a table that does not follow the trace contract."""

    def __init__(self, where: str, what: str) -> None:
        super().__init__(f"the native module's {where}: {what}", hint=f"it may be another version; {REBUILD}")


KINDS = {pl.Int64(): "iu", pl.Float64(): "f", pl.Boolean(): "iub", pl.String(): "iu"}
"""Valid kinds of numpy types for each type of column; text is in codes."""


def _series(table: str, name: str, values: Any, dtype: pl.DataType, nullable: Collection[str]) -> pl.Series:
    is_text = isinstance(values, tuple)
    array = values[0] if is_text else values
    if is_text != (dtype == pl.String()) or array.dtype.kind not in KINDS[dtype]:
        kind = "codes of text" if is_text else str(array.dtype)
        raise NativeMismatch(f"`{table}.{name}`", f"{kind}; expected {dtype}")
    if is_text:
        try:
            return native_tables.texts(name, *values)
        except ValueError as error:
            raise NativeMismatch(f"`{table}.{name}`", str(error)) from None
    column = native_tables.numbers(name, values) if name in nullable else pl.Series(name, values)
    return column.cast(dtype)
