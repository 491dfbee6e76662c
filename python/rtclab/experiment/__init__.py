"""Experiments: what disturbed a live repeat."""

from rtclab.experiment.disturbance import MAX_TRIES, disturbances, encode_ms

__all__ = [
    "MAX_TRIES",
    "disturbances",
    "encode_ms",
]
