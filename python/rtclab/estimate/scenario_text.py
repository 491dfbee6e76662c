"""Writes the scenario of an estimated call as TOML, with comments that say how each number is known."""

from __future__ import annotations

import json
import re
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from math import ceil
from typing import Any

from rtclab import __version__
from rtclab.estimate.findings import Finding, Parameters
from rtclab.estimate.recorded_call import CallOfTwo
from rtclab.trace import NS_PER_S

MOST_CHARACTERS = 160
"""Longer texts of a source are cut."""
_COMMENTS = textwrap.TextWrapper(109, "# ", "# ", break_long_words=False, break_on_hyphens=False)
_NOT_IN_A_NAME = re.compile(r"[^a-z0-9]+")


def scenario_name(origin: str) -> str:
    """A name for the scenario: ``from-`` and the name of the file, in the characters that a name may have."""
    stem = origin.split(" and ")[0].rpartition(".")[0] or origin
    plain = _NOT_IN_A_NAME.sub("-", stem.lower()).strip("-")[:40].strip("-")
    return f"from-{plain or 'call'}"


def scenario_text(call: CallOfTwo, paths: Mapping[str, Parameters], media: Mapping[str, Parameters]) -> str:
    """The TOML of the scenario.

    Args:
        call: the call.
        paths: the paths by the name of their sender.
        media: what each participant sends, by name; those who send nothing are absent.
    """
    origin = plain(call.origin)
    lines = [
        *_comment(
            f"Estimated by rtclab {__version__} from {origin}. A comment above a number says how sure it is: "
            "the 95 % interval in parentheses, and whether it was measured, is a bound, or was assumed."
        ),
        *(line for note in call.notes for line in _comment(f"Note: {plain(note)}")),
        f"name = {_toml(scenario_name(call.origin))}",
        f"title = {_toml('Estimated from ' + origin)}",
        f'duration = "{max(ceil(call.trace.manifest.duration_ns / NS_PER_S), 5)} s"',
        "repeats = 5",
    ]
    for name in call.ends:
        lines += ["", f"[participants.{name}]"]
        if call.names[name] != name:
            lines += _comment(f"In the source: {plain(call.names[name])}")
        lines += _media(name, media.get(name))
        lines += ["", f"[participants.{name}.link.up]", *_path(paths.get(name))]
    return "\n".join(lines) + "\n"


def plain(text: str) -> str:
    """A text of a source in printable ASCII, and not too long, so that it can neither end a line nor hide."""
    kept = "".join(character if " " <= character <= "~" else "?" for character in text)
    return kept if len(kept) <= MOST_CHARACTERS else kept[: MOST_CHARACTERS - 3] + "..."


def _media(name: str, sent: Parameters | None) -> list[str]:
    tables = {} if sent is None else sent.values
    findings = [] if sent is None else sent.findings
    lines = [f"{kind} = false" for kind in ("video", "audio") if kind not in tables]
    for kind, table in tables.items():
        about = [one for one in findings if (one.name == "audio bitrate") == (kind == "audio")]
        lines += ["", f"[participants.{name}.{kind}]", *_findings(about)]
        lines += [f"{key} = {_toml(value)}" for key, value in table.items()]
        if kind == "video":
            lines.append('camera = "steady"')
    return lines


def _path(path: Parameters | None) -> list[str]:
    if path is None:
        return _comment("Nothing is known of this direction")
    lines = []
    for one in path.findings:
        lines += _findings([one])
        if one.name in path.values:
            lines.append(f"{one.name} = {_toml(path.values[one.name])}")
    return lines


def _findings(found: Iterable[Finding]) -> list[str]:
    lines = []
    for one in found:
        how = "" if one.grade in ("at least", "unknown") else f", {one.grade}"
        note = f"; {plain(one.note)}" if one.note else ""
        lines += _comment(f"{one.name}: {one.words}{how}{note}")
    return lines


def _comment(text: str) -> list[str]:
    """A comment, in lines that are not too long."""
    return _COMMENTS.wrap(" ".join(text.split()))


def _toml(value: Any) -> str:
    if isinstance(value, str):
        return json.dumps(value)
    if isinstance(value, Mapping):
        return "{ " + ", ".join(f"{key} = {_toml(inner)}" for key, inner in value.items()) + " }"
    if isinstance(value, Sequence):
        items = [_toml(inner) for inner in value]
        short = "[" + ", ".join(items) + "]"
        return short if len(short) < 100 else "[\n    " + ",\n    ".join(items) + ",\n]"
    return f"{value:g}" if isinstance(value, float) else str(value)
