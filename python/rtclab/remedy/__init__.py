"""What would help a call: changes of its scenario, each simulated and compared in pairs."""

from __future__ import annotations

from rtclab.remedy.changes import ChangedScenario, changes_of
from rtclab.remedy.trying import GOAL, REPEATS, Remedies, remedies

__all__ = ["GOAL", "REPEATS", "ChangedScenario", "Remedies", "changes_of", "remedies"]
