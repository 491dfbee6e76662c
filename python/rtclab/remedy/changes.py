"""Changes of a scenario: causes of trouble that are taken away, and remedies that somebody could apply."""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from rtclab.arguments import table as table_of
from rtclab.errors import BadInput, RtclabError
from rtclab.scenario import Scenario
from rtclab.scenario.load import Changes
from rtclab.scenario.network import paths
from rtclab.scenario.units import Bitrate, QueueLimit, Ratio
from rtclab.scenario.wifi import FADINGS

CONTROLS = ("goog-cc", "scream", "nada")
"""Congestion controls that are tried in place of the one of the scenario."""
CONTROL_OF_SERVERS = "goog-cc"
"""What a server that forwards estimates with, if it has no congestion control."""
CONTROL_OF_L4S = "scream"
"""The control that sends ECT(1) and gives way to marks (docs/l4s.md)."""
REPAIRS = {"rtx": "retransmissions alone", "rtx-and-ulpfec": "retransmissions and FEC", "none": "no repair"}
SHORT_QUEUE, LONG_QUEUE = "50 ms", "500 ms"
LONG_SOUND = "60 ms"
PACKET_BITS = 1500 * 8
"""Size of the packets that a queue counts, in bits, if its limit is a number of packets."""

Kind = Literal["cause", "remedy", "own"]
Data = dict[str, Any]
"""A scenario, or one of its tables, as JSON values."""
Edit = Callable[[Data], object]


@dataclass(frozen=True)
class ChangedScenario:
    """One thing changed in a scenario.

    Attributes:
        name: what it is, in words.
        kind: ``cause`` if it removes a cause of trouble, ``remedy`` if somebody could apply it, ``own`` if it
            comes from the caller's file.
        scenario: the changed scenario.
    """

    name: str
    kind: Kind
    scenario: Scenario


def changes_of(scenario: Scenario) -> list[ChangedScenario]:
    """The changes that make sense for a scenario: those that change something, and that it allows."""
    unchanged = scenario.native(seed=0)
    found = []
    for name, kind, edit in _edits(scenario):
        data = scenario.model_dump(mode="json", exclude_none=True)
        edit(data)
        try:
            changed = Scenario.read(data, name, scenario.read_from)
        except RtclabError:
            continue  # such as no video in a call without sound
        if changed.native(seed=0) != unchanged:
            found.append(ChangedScenario(name, kind, changed))
    return found


def _edits(scenario: Scenario) -> Iterable[tuple[str, Kind, Edit]]:
    """Every change: its name, its kind, and what makes it."""
    causes: dict[str, Edit] = {
        "no loss": _on_paths(scenario, _without_loss),
        "no fading": _on_paths(scenario, _without_fading),
        "no outage": _on_paths(scenario, _without_outage),
        "no cross traffic": lambda data: data.__setitem__("traffic", {}),
        f"queues of {SHORT_QUEUE}": _on_paths(scenario, _with_short_queue),
        f"queues of {LONG_QUEUE}": _on_paths(scenario, _with_long_queue),
        "twice the capacity": _on_paths(scenario, _with_twice_the_capacity),
        "processors without a limit": _everybody(lambda own: own.pop("host", None)),
    }
    control_of_l4s, l4s = _everybody(_with_control(CONTROL_OF_L4S)), _on_paths(scenario, _with("dualpi2"))
    remedies: dict[str, Edit] = {
        "FQ-CoDel at every queue": _on_paths(scenario, _with("fq_codel")),
        "L4S at every queue": lambda data: l4s(data) and control_of_l4s(data),
        "half the maximum bitrate": _everybody(_with_half_the_maximum),
        "twice the maximum bitrate": _everybody(_with_twice_the_maximum),
        "no video": _everybody(lambda own: own.__setitem__("video", False)),
        f"packets of sound of {LONG_SOUND}": _everybody(_with_long_sound),
        "relay over UDP": _with_relays_over_udp,
        "servers that estimate": _with_estimating_servers,
        **{f"control {name}": _everybody(_with_control(name)) for name in CONTROLS},
        **{words: _everybody(_with_repair(name)) for name, words in REPAIRS.items()},
    }
    yield from ((name, "cause", edit) for name, edit in causes.items())
    yield from ((name, "remedy", edit) for name, edit in remedies.items())


def _on_paths(scenario: Scenario, change: Edit) -> Callable[[Data], bool]:
    """Applies a change to every path of a scenario's data, and says whether that changed some path."""

    def apply(data: Data) -> bool:
        tables = []
        for name in paths(scenario):
            node, _, way = name.rpartition(".")
            for table in ("participants", "servers"):
                if node in data.get(table, {}):
                    own = data[table][node]
                    own.setdefault("link", scenario.link_of(node).model_dump(mode="json", exclude_none=True))
                    tables.append(own["link"][way])
            if name in data.get("bottlenecks", {}):
                tables.append(data["bottlenecks"][name])
        before = [dict(table) for table in tables]
        for table in tables:
            change(table)
        return before != tables

    return apply


def _everybody(change: Edit) -> Edit:
    """Applies a change to the scenario's own tables, and to participants and servers that have some."""

    def apply(data: Data) -> None:
        change(data)
        for own in (*data["participants"].values(), *data.get("servers", {}).values()):
            if {"host", "video", "audio", "congestion_control"} & own.keys():
                change(own)

    return apply


def _without_loss(path: Data) -> None:
    """Outages, in which everything is lost, stay."""
    match path.get("loss"):
        case {"steps": steps}:
            path["loss"] = {"steps": [[at, share if _is_all(share) else "0 %"] for at, share in steps]}
        case str() | dict():
            path["loss"] = "none"


def _is_all(share: str) -> bool:
    return Ratio.parse(share).value >= 1


def _without_fading(path: Data) -> None:
    wifi = path.get("wifi")
    if wifi is not None:
        fading = wifi["fading"]
        if isinstance(fading, str):
            fading = FADINGS[fading].model_dump(mode="json", exclude_none=True)
        wifi["fading"] = {name: value for name, value in fading.items() if name != "fade"}


def _without_outage(path: Data) -> None:
    """What a path carried before an outage, it carries on."""
    if isinstance(path.get("capacity"), dict) and "steps" in path["capacity"]:
        steps = path["capacity"]["steps"]
        path["capacity"] = {"steps": _held(steps, lambda rate: not Bitrate.parse(rate).bps)}
    if isinstance(path.get("loss"), dict) and "steps" in path["loss"]:
        path["loss"] = {"steps": _held([["0 s", "0 %"], *path["loss"]["steps"]], _is_all)[1:]}


def _held(steps: list[list[str]], is_outage: Callable[[str], bool]) -> list[list[str]]:
    """Steps in which the last value before an outage holds on; before the first one, the value after it."""
    known = [value for _, value in steps if not is_outage(value)]
    value, held = (known or [steps[0][1]])[0], []
    for at, now in steps:
        value = value if is_outage(now) else now
        held.append([at, value])
    return held


def _with_short_queue(path: Data) -> None:
    if _queues(path):
        path["queue"] = SHORT_QUEUE


def _with_long_queue(path: Data) -> None:
    limit = path.get("queue")
    limit = limit.get("limit") if isinstance(limit, dict) and limit["aqm"] == "droptail" else limit
    if _queues(path) and isinstance(limit, str) and _length_s(limit, path) < _seconds(LONG_QUEUE):
        path["queue"] = LONG_QUEUE


def _queues(path: Data) -> bool:
    """Whether packets wait on a path."""
    return "capacity" in path or "wifi" in path


def _length_s(limit: str, path: Data) -> float:
    """How long the last packet of a full queue waits, in s, at the highest rate of the path."""
    queue = QueueLimit.parse(limit)
    if queue.kind == "time":
        return queue.limit / 1e9
    bits = queue.limit * (PACKET_BITS if queue.kind == "packets" else 8)
    return bits / max(_highest_bps(path), 1.0)


def _seconds(limit: str) -> float:
    return QueueLimit.parse(limit).limit / 1e9


def _highest_bps(path: Data) -> float:
    """The highest rate of a path, in bit/s."""
    match path.get("capacity"):
        case str() as rate:
            return Bitrate.parse(rate).bps
        case {"steps": steps}:
            return max(Bitrate.parse(rate).bps for _, rate in steps)
        case {"opportunities_ms": times_ms}:
            return float(len(times_ms) * PACKET_BITS * 1000 / times_ms[-1])
    fading = path["wifi"]["fading"]
    good = FADINGS[fading].good.rate if isinstance(fading, str) else Bitrate.parse(fading["good"]["rate"])
    return good.bps


def _with(aqm: str) -> Edit:
    def apply(path: Data) -> None:
        if _queues(path):
            path["queue"] = {"aqm": aqm}

    return apply


def _with_twice_the_capacity(path: Data) -> None:
    match path.get("capacity"):
        case str() as rate:
            path["capacity"] = _times(2, rate)
        case {"steps": steps}:
            path["capacity"] = {"steps": [[at, _times(2, rate)] for at, rate in steps]}
        case {"opportunities_ms": times_ms}:
            path["capacity"]["opportunities_ms"] = sorted([*times_ms, *times_ms])


def _times(factor: float, rate: str) -> str:
    return f"{round(factor * Bitrate.parse(rate).bps)} bit/s"


def _with_half_the_maximum(own: Data) -> None:
    video = own.get("video")
    if isinstance(video, dict) and "max_bitrate" in video:
        half = video["max_bitrate"] = _times(0.5, video["max_bitrate"])
        for name in {"start_bitrate", "min_bitrate"} & video.keys():
            video[name] = min(video[name], half, key=lambda rate: Bitrate.parse(rate).bps)


def _with_twice_the_maximum(own: Data) -> None:
    video = own.get("video")
    if isinstance(video, dict) and "max_bitrate" in video:
        video["max_bitrate"] = _times(2, video["max_bitrate"])


def _with_long_sound(own: Data) -> None:
    if isinstance(own.get("audio"), dict):
        own["audio"]["frame"] = LONG_SOUND


def _with_relays_over_udp(data: Data) -> None:
    """Who reaches the relay over TCP reaches it over UDP, as if no firewall blocked that."""
    for call in data.get("calls", []):
        for name in call["participants"] if call.get("relay") else ():
            if data["participants"][name].get("nat") == "udp-blocked":
                data["participants"][name]["nat"] = "none"


def _with_estimating_servers(data: Data) -> None:
    for call in data.get("calls", []):
        for name in call.get("servers") or [call.get("server")]:
            if call["kind"] == "sfu" and name in data.get("servers", {}):
                data["servers"][name].setdefault("congestion_control", {"name": CONTROL_OF_SERVERS})


def _with_control(name: str) -> Edit:
    def apply(own: Data) -> None:
        if own.get("congestion_control", {}).get("name", name) != name:
            own["congestion_control"] = {"name": name}

    return apply


def _with_repair(name: str) -> Edit:
    def apply(own: Data) -> None:
        if isinstance(own.get("video"), dict):
            own["video"]["repair"] = name

    return apply


def own_changes(
    scenario: Scenario, own: str | Path | Mapping[str, Changes] | None
) -> Iterable[ChangedScenario]:
    """Changes of a caller's own: fields and their values, by name; or the TOML file that has them.

    Raises:
        BadInput: the file cannot be read, is not TOML, or a change cannot be made.
    """
    if isinstance(own, str | Path):
        tables, origin = _read(own), str(own)
    else:
        expected = "a file, or fields and values by name"
        tables, origin = table_of("own", {} if own is None else own, expected), "own"
    for name, fields in tables.items():
        if not isinstance(fields, Mapping):
            raise BadInput(
                f"{origin}: {name}: expected a table of fields",
                hint='for example ["a short queue"] and below it "link.up.queue" = "50 ms"',
            )
        try:
            yield ChangedScenario(name, "own", Scenario.load(scenario, dict(fields)))
        except RtclabError as error:
            raise BadInput(f"{origin}: {name}: {error.message}", hint=error.hint) from None


def _read(file: str | Path) -> Mapping[str, Any]:
    try:
        return tomllib.loads(Path(file).read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise BadInput(
            f"{file}: cannot be read: {getattr(error, 'strerror', None) or 'not a text file'}; "
            "expected a TOML file of changes"
        ) from None
    except tomllib.TOMLDecodeError as error:
        raise BadInput(f"{file}: not TOML: {error}") from None
