"""Estimates from a call the scenario that would lead to it: paths with capacity, delay, loss and queue, and
what the participants sent.

The model of a path is the simulator's, a first-in first-out queue. What it cannot express, such as two queues
in a row, is not estimated.
"""

from rtclab.estimate.estimate import Estimate, estimate
from rtclab.estimate.recorded_call import CallOfTwo, call_of, read_call

__all__ = ["CallOfTwo", "Estimate", "call_of", "estimate", "read_call"]
