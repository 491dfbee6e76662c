"""Feeds recorded packets to congestion controls, and puts their decisions beside those of the browser."""

from __future__ import annotations

from rtclab.replays.arrivals import ArrivalReplay, replay_capture
from rtclab.replays.choice import Bounds, Choice
from rtclab.replays.log import LogReplay, replay_event_log

__all__ = ["ArrivalReplay", "Bounds", "Choice", "LogReplay", "replay_capture", "replay_event_log"]
