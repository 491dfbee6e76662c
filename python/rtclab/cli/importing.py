"""``rtclab import``: makes a run of logs of calls that rtclab did not run."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import rtclab
from rtclab.cli import tables
from rtclab.errors import BadInput
from rtclab.experiment import Results, keep_trace
from rtclab.logs import Imported, open_logs
from rtclab.progress import busy
from rtclab.trace import Trace

SCENARIO = "import"
"""The scenario's name in runs made from logs, with which their names begin."""
NS_PER_S = 1_000_000_000


@dataclass(frozen=True)
class ImportRequest:
    """The options of ``rtclab import``."""

    logs: Sequence[Path]
    names: str | None
    out: Path
    as_json: bool


def import_and_show(request: ImportRequest) -> None:
    """Makes a run with one trace, and prints its name and notes on missing data.

    Raises:
        BadInput: a log cannot be read, or the names are not two.
    """
    with busy("reading"):
        imported = open_logs(request.logs, _names(request.names))
        run = write_run(imported, request.logs, request.out)
    if request.as_json:
        manifest = imported.manifest
        tables.print_json(
            {
                "run": run.name,
                "path": str(run.path),
                "participants": list(manifest.participants),
                "flows": list(manifest.flows),
                "duration_s": manifest.duration_ns / NS_PER_S,
                "notes": list(imported.notes),
            }
        )
        return
    for note in imported.notes:
        print(f"note: {note}", file=sys.stderr)
    print(f"{run.path}: {_duration(imported)}, {', '.join(imported.manifest.flows)}")
    print(f"`rtclab measure {run.name}` and `rtclab report {run.name}` show it")


def write_run(imported: Imported, logs: Sequence[Path], out: Path) -> Results:
    """Writes the run ``import-log-<n>`` with one repeat."""
    manifest = imported.manifest
    scenario = {
        "name": SCENARIO,
        "title": f"Imported from {' and '.join(log.name for log in logs)}",
        "duration": _duration(imported),
        "participants": {name: {} for name in manifest.participants},
    }
    versions = {"rtclab": rtclab.__version__}
    trace = Trace.in_memory(
        imported.tables, manifest.model_copy(update={"scenario": scenario, "versions": versions, "repeat": 0})
    )
    return keep_trace(trace, scenario, f"{SCENARIO}-{manifest.backend}", out)


def _duration(imported: Imported) -> str:
    return f"{imported.manifest.duration_ns / NS_PER_S:.3f} s"


def _names(text: str | None) -> tuple[str, str] | None:
    if text is None:
        return None
    names = [name.strip() for name in text.split(",")]
    if len(names) != 2 or not all(names) or names[0] == names[1]:
        raise BadInput(f"--names: got {text!r}; expected two different names, such as alice,bob")
    return names[0], names[1]
