"""The native module: conversions only; what they mean is said in the Rust documentation."""

from typing import Any

CONGESTION_CONTROLS: list[str]
"""Names that ``congestion_control.name`` may have in the simulator."""

def simulate(scenario_json: str) -> dict[str, dict[str, Any]]:
    """Runs one repeat in virtual time, without the GIL.

    Takes what ``Scenario.native`` returns, as JSON. Returns table -> column -> array, or for texts
    (array of codes, list of texts).

    Raises:
        ValueError: the JSON does not describe a scenario.
    """
