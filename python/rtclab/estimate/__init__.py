"""Estimates from a call the scenario that would lead to it: paths with capacity, delay, loss and queue, and
what the participants sent."""

from rtclab.estimate.estimate import Estimate, estimate
from rtclab.estimate.recorded_call import KnownCall, call_of, read_call

__all__ = ["Estimate", "KnownCall", "call_of", "estimate", "read_call"]
