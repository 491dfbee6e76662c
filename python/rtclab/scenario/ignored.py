"""The fields of a scenario that one of the backends ignores."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from rtclab.scenario.model import ScenarioTables
from rtclab.scenario.participant import Audio, Browser, Server, Video
from rtclab.scenario.table import Table

SIM, LIVE = "sim", "live"
CALLS = {SIM: "Simulated", LIVE: "Live"}

IGNORED: Mapping[str, Mapping[type[Table], tuple[str, ...]]] = {
    SIM: {
        ScenarioTables: ("internet",),
        Browser: ("name", "field_trials", "encryption", "args"),
        Video: ("file",),
        Audio: ("file",),
        Server: ("signalling", "whip", "whep", "token", "command", "port", "directory"),
    },
    LIVE: {Video: ("camera",)},
}
"""By backend, the fields of each table that it ignores. Fields that a backend refuses are not among them."""

_PLACES: Mapping[type[Table], str] = {
    ScenarioTables: "",
    Browser: "browser.",
    Video: "video.",
    Audio: "audio.",
    Server: "",
}
"""Where the fields of a table stand, in the scenario and in a participant or server."""


def ignored_in_words(model: type, field: str) -> str:
    """A sentence that says which calls ignore a field of a table; empty if none does."""
    tables = ((backend, table) for backend, of in IGNORED.items() for table in of if field in of[table])
    return next((f"{CALLS[backend]} calls ignore it." for backend, table in tables if table is model), "")


def is_ignored(path: str, backend: str) -> bool:
    """Whether a backend ignores the field with this path, such as ``servers.sfu.token``."""
    return path in dict(_defaults(path, backend))


def ignored_fields(scenario: Mapping[str, Any], backend: str) -> dict[str, Any]:
    """The fields of a scenario, given as JSON values, that are set and that a backend ignores.

    Fields with their default are not set, nor is the directory of a command, which is filled in.
    """
    owners = [f"{table}.{name}." for table in ("participants", "servers") for name in scenario.get(table, {})]
    fields = (field for owner in ("", *owners) for field in _defaults(owner, backend))
    found = {path: (_value(scenario, path.split(".")), default) for path, default in fields}
    return {
        path: value
        for path, (value, default) in found.items()
        if value not in (None, default) and not path.endswith(".directory")
    }


def _defaults(path: str, backend: str) -> Iterator[tuple[str, Any]]:
    """The ignored fields of the owner of a path, which may be the scenario, with their defaults."""
    kind, *names = path.split(".")[:2]
    is_owned = kind in ("participants", "servers")
    owner = f"{kind}.{names[0]}." if is_owned else ""
    others = {ScenarioTables: is_owned, Server: kind != "servers"}
    for table, fields in IGNORED.get(backend, {}).items():
        if not others.get(table):
            for name in fields:
                yield f"{owner}{_PLACES[table]}{name}", table.model_fields[name].default


def _value(table: object, keys: list[str]) -> Any:
    for key in keys:
        table = table.get(key) if isinstance(table, Mapping) else None
    return table
