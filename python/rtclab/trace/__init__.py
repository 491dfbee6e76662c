"""Traces (one repeat) and runs (all repeats of a scenario) on disk. See docs/trace.md."""

from rtclab.trace.files import (
    new_directory,
    replace_file,
    subdirectories,
    write_bytes,
    write_json,
    write_text,
)
from rtclab.trace.getstats import flattened
from rtclab.trace.lock import LOCK_FILE, has_writer, one_after_another, only_writer
from rtclab.trace.manifest import (
    SCHEMA,
    CallInfo,
    CaptureInfo,
    FlowInfo,
    Lateness,
    Machine,
    ModesInUse,
    NotConnected,
    Repeat,
    Status,
    TraceManifest,
)
from rtclab.trace.run import Run
from rtclab.trace.schema import NULLABLE, SCHEMAS
from rtclab.trace.sums import (
    delay_histogram_table,
    flow_seconds_table,
    queuing_histogram_table,
    with_fec,
    without_fec,
)
from rtclab.trace.times import BITS_PER_BYTE, KBIT_PER_BYTE, NS_PER_MS, NS_PER_S, WHOLE_SECOND
from rtclab.trace.trace import MANIFEST, Trace, rows_by, rows_within
from rtclab.trace.window import OpenWindow, Window, closed, window_in_names, window_in_words

__all__ = [
    "BITS_PER_BYTE",
    "KBIT_PER_BYTE",
    "LOCK_FILE",
    "MANIFEST",
    "NS_PER_MS",
    "NS_PER_S",
    "NULLABLE",
    "SCHEMA",
    "SCHEMAS",
    "WHOLE_SECOND",
    "CallInfo",
    "CaptureInfo",
    "FlowInfo",
    "Lateness",
    "Machine",
    "ModesInUse",
    "NotConnected",
    "OpenWindow",
    "Repeat",
    "Run",
    "Status",
    "Trace",
    "TraceManifest",
    "Window",
    "closed",
    "delay_histogram_table",
    "flattened",
    "flow_seconds_table",
    "has_writer",
    "new_directory",
    "one_after_another",
    "only_writer",
    "queuing_histogram_table",
    "replace_file",
    "rows_by",
    "rows_within",
    "subdirectories",
    "window_in_names",
    "window_in_words",
    "with_fec",
    "without_fec",
    "write_bytes",
    "write_json",
    "write_text",
]
