"""Numbers, networks and machines in words."""

from __future__ import annotations

from collections.abc import Mapping
from math import isnan
from typing import Any

from rtclab.scenario.words import path_in_words
from rtclab.trace import Run, Trace

MISSING = "–"


def number(value: float | None, like: float | None = None) -> str:
    """Three or four digits, without exponent; with the decimals that ``like`` would have, if given.

    Whole numbers have none. A dash stands for what could not be measured.
    """
    if value is None or isnan(value):
        return MISSING
    size = abs(value if like is None else like)
    decimals = 0 if size >= 1000 else 1 if size >= 100 else 2 if size >= 1 else 3
    if value == 0 or (like is None and value == int(value)):
        decimals = 0
    text = f"{value:.{decimals}f}"
    return text.replace("-", "" if float(text) == 0 else "−")


def network(scenario: Mapping[str, Any]) -> list[tuple[str, str]]:
    """The paths of a scenario (JSON values) as pairs of names and words; equal paths share a line."""
    alike: dict[str, list[str]] = {}
    for name, path in _paths(scenario):
        alike.setdefault(path_in_words(path), []).append(name)
    return [(", ".join(names), words) for words, names in alike.items()]


def _paths(scenario: Mapping[str, Any]) -> list[tuple[str, Mapping[str, Any]]]:
    paths = []
    for name, participant in scenario.get("participants", {}).items():
        link = participant.get("link") or scenario.get("link") or {}
        sides = ["both"] if link.get("both") else ["up", "down"]
        paths += [(f"{name}.{side}", link.get(side) or {}) for side in sides]
    return paths + list(scenario.get("bottlenecks", {}).items())


def machine(manifest: Mapping[str, Any]) -> str:
    """Processor, cores, memory and system of the machine that made the run."""
    known = manifest.get("machine", {})
    memory_bytes = known.get("memory_bytes")
    parts = [
        str(known.get("processor", "")),
        f"{known['cores']} cores" if known.get("cores") else "",
        f"{memory_bytes / 1e9:.1f} GB" if memory_bytes else "",
        f"{known.get('system', '')} {known.get('kernel', '')}".strip(),
    ]
    return ", ".join(filter(None, parts))


def versions(run: Run) -> str:
    """What made the run, with versions; the browser's too if there was one."""
    known = dict(run.manifest.get("versions", {}))
    browser = next((trace.manifest["browser"] for trace in run.traces if trace.manifest.get("browser")), None)
    names = [f"{name} {version}" for name, version in known.items()]
    return ", ".join([*names, str(browser)] if browser else names)


def lateness(traces: list[Trace]) -> str:
    """How late the emulator was in the worst of the repeats; empty for a run in virtual time."""
    known = [trace.manifest["lateness"] for trace in traces if trace.manifest.get("lateness")]
    if not known:
        return ""
    worst = max(known, key=lambda entry: entry["p99_ms"])
    late = sum(bool(trace.manifest.get("late")) for trace in traces)
    verdict = f"{late} of {len(traces)} repeats are marked late" if late else "no repeat is marked late"
    largest_ms = max(entry["max_ms"] for entry in known)
    return (
        f"99th percentile {number(worst['p99_ms'])} ms, largest {number(largest_ms)} ms "
        f"(bound {number(worst['bound_ms'])} ms); {verdict}"
    )
