"""What happened: traces (one repeat) and runs (all repeats of a scenario) on disk; see docs/trace.md."""

from rtclab.trace.files import write_json
from rtclab.trace.run import RUN_FILE, Repeat, Run, Status
from rtclab.trace.schema import NULLABLE, OPTIONAL_TABLES, SCHEMAS, conform
from rtclab.trace.sums import delay_histogram_table, flow_seconds_table
from rtclab.trace.trace import MANIFEST, Trace

__all__ = [
    "MANIFEST",
    "NULLABLE",
    "OPTIONAL_TABLES",
    "RUN_FILE",
    "SCHEMAS",
    "Repeat",
    "Run",
    "Status",
    "Trace",
    "conform",
    "delay_histogram_table",
    "flow_seconds_table",
    "write_json",
]
