"""Which flows runs have, which of them carry media or data, and which of them a user asks for."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from functools import lru_cache

from rtclab.errors import BadInput, ScenarioError
from rtclab.metrics import feedback_flows
from rtclab.scenario import Scenario
from rtclab.scenario.table import closest, one_of
from rtclab.trace import Run

Flows = str | Sequence[str] | None
"""Names of flows, in which ``*`` stands for any text, such as ``*->erin``; None if no flow was asked for."""
MOST_NAMED = 12
"""Maximum number of flows that an error names."""
DECIDES = ("participants", "calls", "servers", "traffic", "video", "audio")
"""Tables of a scenario on which its flows, and what they carry, depend."""


def chosen_flows(flows: Flows, known: Iterable[str]) -> list[str]:
    """The known flows that match any of the patterns, in their order.

    Raises:
        BadInput: a pattern matches no flow.
    """
    names, found = list(known), set()
    for pattern in [flows] if isinstance(flows, str) else flows or ():
        of_pattern = matching(pattern, names)
        if not of_pattern:
            raise BadInput(
                f"flow: no flow `{pattern}`; expected {_named(names)}",
                hint=closest(pattern, names) or "`*` stands for any text: `*->bob`",
            )
        found.update(of_pattern)
    return [name for name in names if name in found]


def matching(pattern: str, names: Iterable[str]) -> list[str]:
    """The names that match a pattern, in which ``*`` stands for any text."""
    text = re.compile(".*".join(map(re.escape, pattern.split("*"))), re.DOTALL)
    return [name for name in names if text.fullmatch(name)]


def flows_of(runs: Iterable[Run]) -> dict[str, bool]:
    """The flows of runs by name, and whether each carries media or data, or should have, in any of them.

    The others carry feedback alone. Runs without traces have the flows of their scenarios.
    """
    found: dict[str, bool] = {}
    planned: dict[str, dict[str, bool]] = {}
    for run in runs:
        key = json.dumps([run.scenario.get(table) for table in DECIDES])
        if key not in planned:
            planned[key] = _planned(json.dumps(run.scenario), run.name)
        of_run = {} if run.traces else dict(planned[key])
        for trace in run.traces:
            feedback = {name for name in feedback_flows(trace) if not planned[key].get(name)}
            of_run |= {name: of_run.get(name, False) or name not in feedback for name in trace.flows}
        found |= {name: carries or found.get(name, False) for name, carries in of_run.items()}
    return found


def carrying(runs: Iterable[Run]) -> list[str]:
    """The flows of runs that carry media or data; all flows if none does."""
    flows = flows_of(runs)
    return [name for name, carries in flows.items() if carries] or list(flows)


def scenario_flows(scenario: Scenario) -> dict[str, bool]:
    """The planned flows of a scenario by name, and whether each carries media or data."""
    feedback = set(scenario.feedback_flows())
    planned = (*scenario.flows(), *scenario.traffic_flows())
    return {flow.name: flow.name not in feedback for flow in planned}


@lru_cache(maxsize=8)  # a page asks several times
def _planned(scenario: str, name: str) -> dict[str, bool]:
    try:
        return scenario_flows(Scenario.read(json.loads(scenario), name))
    except ScenarioError:  # of an import, or kept by an rtclab with other scenarios
        return {}


def _named(names: Sequence[str]) -> str:
    shown = [f"`{name}`" for name in names[:MOST_NAMED]]
    more = len(names) - len(shown)
    return one_of([*shown, f"{more} more"] if more else shown) if names else "none: nothing was recorded"
