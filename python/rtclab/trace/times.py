"""Units of traces: times in nanoseconds, sizes in bytes; and how an event says that its time is rough."""

BITS_PER_BYTE = 8
KBIT_PER_BYTE = BITS_PER_BYTE / 1000
NS_PER_MS = 1_000_000
NS_PER_S = 1_000_000_000
WHOLE_SECOND = "to 1 s"
"""Detail of an event whose time is known to a second only, so that no time between events follows from it."""
