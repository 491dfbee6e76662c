"""Replays recorded packets into congestion controls, and compares their decisions with the browser's."""

from __future__ import annotations

from rtclab.replays.arrivals import ArrivalReplay, replay_capture
from rtclab.replays.choice import Bounds, Choice
from rtclab.replays.log import LogReplay, replay_event_log

__all__ = ["ArrivalReplay", "Bounds", "Choice", "LogReplay", "replay_capture", "replay_event_log"]
