"""``rtclab import``: makes a run of captures or logs of a call that rtclab did not run."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from rtclab.cli import tables
from rtclab.cli.sdp import sdp_text
from rtclab.errors import BadInput
from rtclab.importers import Names
from rtclab.lab import import_files
from rtclab.progress import busy
from rtclab.trace import NS_PER_S

MOST_FLOWS = 6
"""Further flows are only counted."""


def import_and_show(
    *,
    files: Sequence[Path],
    names: str | None,
    sdp: Path | None,
    corrected: bool,
    out: Path,
    quiet: bool,
    as_json: bool,
) -> None:
    """Makes a run with one trace, and prints its name and notes on missing data.

    Raises:
        BadInput: a file cannot be read, or an option is invalid.
    """
    of_ends, text = names_of(names), sdp_text(sdp)
    with busy("reading"):
        run = import_files(files, names=of_ends, sdp=text, corrected=corrected, out=out)
    about = run.traces[0].manifest
    notes = [] if about.capture is None else list(about.capture.notes_in_words)
    if as_json:
        tables.print_json(
            {
                "run": str(run.path),
                "participants": list(about.participants),
                "flows": list(about.flows),
                "duration_s": about.duration_ns / NS_PER_S,
                "notes": notes,
            }
        )
        return
    for note in notes:
        print(f"note: {note}", file=sys.stderr)
    if quiet:
        print(run.path)
        return
    flows = [*about.flows]
    more = [f"{len(flows) - MOST_FLOWS} more flows"] if len(flows) > MOST_FLOWS else []
    print(f"{run.path}: {run.scenario['duration']}, {', '.join([*flows[:MOST_FLOWS], *more])}")
    print(f"`rtclab measure {run.name}` and `rtclab report {run.name}` show it")


def names_of(text: str | None) -> Names | None:
    """``alice,bob`` as two names, ``10.0.0.1=alice,10.0.0.2=bob`` as names by address.

    Raises:
        BadInput: an address has no name, or a name no address.
    """
    if text is None:
        return None
    parts = [part.strip() for part in text.split(",")]
    if not any("=" in part for part in parts):
        return parts
    by_address = dict(part.split("=", 1) for part in parts if part.count("=") == 1)
    if len(by_address) < len(parts) or not all([*by_address, *by_address.values()]):
        raise BadInput(
            f"--names: got {text!r}; expected a name for each address", hint="10.0.0.1=alice,10.0.0.2=bob"
        )
    return by_address
