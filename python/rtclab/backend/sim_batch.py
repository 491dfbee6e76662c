"""Simulates many repeats into one trace, so that measuring all of them costs little more than measuring one.

Most of the cost of a metric does not depend on the number of flows. In the common trace each repeat has flows
of its own, so every metric of a flow has the same value as in a trace of one repeat.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import PurePath
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from rtclab.backend.backends import (
    Pairs,
    connected_flows,
    failure_of,
    last_events,
    missing_pairs,
    planned_calls,
    planned_flows,
    planned_pairs,
)
from rtclab.backend.sim import EVENT, FLOWS, NativeTable, SimBackend, as_simulated, native_columns
from rtclab.errors import BadInput, reason_of
from rtclab.scenario import Scenario
from rtclab.trace import SCHEMAS, CallInfo, FlowInfo, Trace, TraceManifest

Tables = dict[str, dict[str, Any]]
"""The native simulator's result for one repeat: values by table and column."""

NAMES = {"flow", "participant"}
"""Columns whose texts get the prefix of their repeat."""
NULL = np.iinfo(np.uint32).max
"""The code of a missing text."""


def simulate_together(scenarios: Sequence[tuple[Scenario, Sequence[int]]]) -> list[Trace]:
    """Simulates each scenario with each of its seeds; returns a trace per repeat, in this order.

    The traces share their tables. In tables and manifests, flows and participants of the n-th repeat are
    named ``n:alice->bob`` and ``n:alice``; see :func:`own_name`. ``trace.alone()`` is a trace without the
    rows of other repeats. The manifest of a failed repeat has the reason. If the simulator raised an error,
    the repeat has no flows.

    Raises:
        BadInput: the argument is no list of such pairs, or strangers named a control of a scenario, and the
            user does not trust them.
    """
    if isinstance(scenarios, (str, PurePath)) or not scenarios:
        raise BadInput(f"scenarios: got `{scenarios}`; expected pairs of a loaded scenario and its seeds")
    for scenario, _ in scenarios:
        scenario.check_trusted()
    plans: list[_Plan] = []
    for number, (scenario, _) in enumerate(scenarios):
        plans.append(_Plan.of(scenario, f"{number}:", sum(len(plan.calls) for plan in plans)))
    repeats = [(plan, seed) for plan, (_, seeds) in zip(plans, scenarios, strict=True) for seed in seeds]
    results = [_simulated(plan, seed) for plan, seed in repeats]
    whole = _whole(plans, [plan for plan, _ in repeats], results)
    events = whole.table("events").select(EVENT).rows()
    connected, happened = connected_flows(events), last_events(events)
    parts = []
    for number, ((plan, seed), result) in enumerate(zip(repeats, results, strict=True)):
        known: dict[str, object] = {"seed": seed, "flows": {}, "failure": result}
        alone = None
        if not isinstance(result, str):
            known |= _outcome(plan, whole, f"{number}:", connected, happened)
            alone = partial(SimBackend().trace_of, result, plan.scenario, seed=seed, repeat=0)
        parts.append(whole.restricted(whole.manifest.model_copy(update=known), alone))
    return parts


def own_name(name: str) -> str:
    """The name of a flow without its repeat: ``alice->bob`` for ``7:alice->bob``.

    In traces of captures, addresses and ports in names (``10.0.0.1:5004``) also have a colon, and stay.
    """
    repeat, _, own = name.partition(":")
    return own if repeat.isdecimal() else name


@dataclass(frozen=True)
class _Plan:
    """The data that all repeats of one scenario share.

    In the common trace, names of its paths begin with ``prefix``, and its first call has the index
    ``first_call``.
    """

    scenario: Scenario
    prefix: str
    first_call: int
    native: dict[str, object]
    flows: dict[str, FlowInfo]
    calls: tuple[CallInfo, ...]
    pairs: Pairs

    @classmethod
    def of(cls, scenario: Scenario, prefix: str, first_call: int) -> _Plan:
        native, flows = scenario.native(seed=0), planned_flows(scenario)
        pairs = planned_pairs(scenario)
        return cls(scenario, prefix, first_call, native, flows, planned_calls(scenario), pairs)

    def path_changes(self) -> list[tuple[int, str, int | None, float]]:
        """Rows of the table ``paths``, with the names that paths have in the common trace."""
        return [
            (at_ns, self.prefix + path, capacity_bps, delay_ms)
            for at_ns, path, capacity_bps, delay_ms in self.scenario.path_changes()
        ]

    def flows_of(self, repeat: str) -> dict[str, FlowInfo]:
        """The planned flows of a repeat, with the prefix ``repeat`` before names."""
        return {repeat + name: self._renamed(flow, repeat) for name, flow in self.flows.items()}

    def _renamed(self, flow: FlowInfo, repeat: str) -> FlowInfo:
        names = {
            "sender": repeat + flow.sender,
            "receiver": repeat + flow.receiver,
            "route": tuple(self.prefix + path for path in flow.route),
            "call": None if flow.call is None else self.first_call + flow.call,
            "acknowledges": None if flow.acknowledges is None else repeat + flow.acknowledges,
        }
        return flow.model_copy(update=names)


def _simulated(plan: _Plan, seed: int) -> Tables | str:
    """The tables of one repeat, or the reason if the simulator raised an error."""
    try:
        tables: Tables = native_columns(plan.scenario, plan.native | {"seed": seed}, seed)
    except Exception as error:
        return reason_of(error)
    return tables


def _whole(plans: Sequence[_Plan], of_repeat: Sequence[_Plan], results: Sequence[Tables | str]) -> Trace:
    """The trace of all repeats."""
    tables = {f"{number}:": tables for number, tables in enumerate(results) if not isinstance(tables, str)}
    flows: dict[str, FlowInfo] = {}
    for number, plan in enumerate(of_repeat):
        if f"{number}:" in tables:
            flows |= plan.flows_of(f"{number}:")
    native = {name: NativeTable(name, columns) for name, columns in _merged(tables).items()}
    if "flows" in native:
        flows = as_simulated(flows, native.pop("flows").rows(*FLOWS))
    changes = [row for plan in plans for row in plan.path_changes()]
    paths = pl.DataFrame(changes, schema=SCHEMAS["paths"], orient="row")
    about = TraceManifest(
        backend="sim",
        duration_ns=max(plan.scenario.duration.ns for plan in plans),
        calls=tuple(call for plan in plans for call in plan.calls),
        flows=flows,
    )
    return Trace.in_memory({**native, "paths": paths}, about)


def _outcome(
    plan: _Plan, whole: Trace, repeat: str, connected: set[str], happened: dict[str, str]
) -> dict[str, object]:
    """The fields of the manifest that differ between repeats."""
    flows = whole.manifest.flows
    missing = missing_pairs(plan.pairs, {name for name in plan.flows if repeat + name in connected})
    last = {name: happened.get(repeat + name, "none") for name in plan.scenario.participants}
    return {
        "flows": {repeat + name: flows[repeat + name] for name in plan.flows},
        "duration_ns": plan.scenario.duration.ns,
        "participants": tuple(repeat + name for name in plan.scenario.participants),
        "connections": len(plan.pairs),
        "not_connected": missing,
        "failure": failure_of(missing, len(plan.pairs), last),
    }


def _merged(repeats: dict[str, Tables]) -> Tables:
    """Concatenates the tables of all repeats. The keys are the prefixes of their names."""
    texts: list[str] = []
    names: list[str] = []
    first_texts: list[int] = []
    parts: dict[str, dict[str, list[Any]]] = defaultdict(lambda: defaultdict(list))
    for repeat, tables in repeats.items():
        first_texts.append(len(texts))
        texts += (own := _texts(tables))
        names += [repeat + text for text in own]
        for table, columns in tables.items():
            for column, values in columns.items():
                parts[table][column].append(values)
    merged: Tables = {table: {} for table in parts}
    for table, columns in parts.items():
        for column, values in columns.items():
            if isinstance(values[0], tuple):
                codes = [codes for codes, _ in values]
                which = names if column in NAMES else texts
                merged[table][column] = _shifted(codes, first_texts), which
            else:
                merged[table][column] = np.concatenate(values)
    return merged


def _texts(tables: Tables) -> list[str]:
    """The texts of a repeat, which all its columns share."""
    return next(
        (
            list(values[1])
            for columns in tables.values()
            for values in columns.values()
            if isinstance(values, tuple)
        ),
        [],
    )


def _shifted(codes: Sequence[NDArray[np.uint32]], first_texts: Sequence[int]) -> NDArray[np.uint32]:
    """Concatenates the codes of all repeats, shifted so that they index the texts of all repeats.

    ``first_texts`` has the index of each repeat's first text.
    """
    joined = np.concatenate(codes)
    shift = np.repeat(np.array(first_texts, dtype=np.uint32), [len(part) for part in codes])
    return np.where(joined == NULL, NULL, joined + shift)
