"""What happened: traces (one repeat) and runs (all repeats of a scenario) on disk; see docs/trace.md."""

from rtclab.trace.files import write_bytes, write_json, write_text
from rtclab.trace.run import INTERRUPTED, RUN_FILE, Repeat, Run, Status
from rtclab.trace.schema import NULLABLE, OPTIONAL_TABLES, SCHEMAS, conform
from rtclab.trace.sums import delay_histogram_table, flow_seconds_table
from rtclab.trace.trace import MANIFEST, Trace

__all__ = [
    "INTERRUPTED",
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
    "write_bytes",
    "write_json",
    "write_text",
]
