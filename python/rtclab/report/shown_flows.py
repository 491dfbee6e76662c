"""Which flows of a run its pages and sentences are about."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from rtclab.experiment.flows import carrying
from rtclab.metrics import media_flows
from rtclab.trace import FlowInfo, Run


def flows_in(run: Run) -> dict[str, FlowInfo]:
    """The flows of all repeats by name; of equal names, the last repeat's."""
    return {name: flow for trace in run.traces for name, flow in trace.manifest.flows.items()}


def main_flows(run: Run) -> list[str]:
    """The flows between participants and the flows of TCP; all flows if neither exists.

    Flows that carry feedback alone are left out, unless there are no others.
    The legs to and from a server are left out, because they are parts of flows between participants. The main
    flows of a capture are its flows of media: an interface also carries the packets of other programs.
    """
    if run.backend == "capture":
        media = {name for trace in run.traces for name in media_flows(trace)}
        return [name for name in run.flows if name in media] or run.flows
    people = {name for trace in run.traces for name in trace.manifest.participants}
    flows, carry = flows_in(run), set(carrying([run]))
    main = main_of({name: flows[name] for name in run.flows}, people)
    return [name for name in main if name in carry] or main


def main_of(flows: Mapping[str, FlowInfo], people: Collection[str]) -> list[str]:
    """The main flows of a run that rtclab ran; see :func:`main_flows`."""
    names = [name for name, flow in flows.items() if flow.acknowledges is None]
    main = [
        name
        for name in names
        if flows[name].call is None or {flows[name].sender, flows[name].receiver} <= {*people}
    ]
    return main or names
