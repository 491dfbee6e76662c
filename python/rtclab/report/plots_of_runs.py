"""The plots of reports: rates, delays, frame rate, and the receiving rate of each repeat.

Plots of one run have a colour per flow; with many flows, a panel per receiver and a colour per sender. Plots
that compare runs have a colour per run.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import chain, islice

import numpy as np

from rtclab.errors import BadInput
from rtclab.experiment.flows import Flows, chosen_flows
from rtclab.phrases import names_in_words
from rtclab.report.drawing import COLOURS, Boxes, Dots, Line, Style
from rtclab.report.flow_lines import lines_of
from rtclab.report.flow_plots import COMPARISON_PLOTS, MOST_PANELS, RUN_PLOTS, Maker, Panels
from rtclab.report.plot import Plot
from rtclab.report.shown_flows import flows_in, main_flows
from rtclab.report.why import FlowAccount, why
from rtclab.report.words import flow_in_words
from rtclab.trace import FlowInfo, Run

MOST_RECEIVERS = 12
"""Maximum number of panels with a receiver each."""
MOST_CURVES = 20
"""Maximum number of flows in a panel; more could not be distinguished."""
EXPLAINED = ("waits", "loss", "estimate")
"""Plots that show one flow in a panel, with its account."""
FIRST_COLOUR_OF_RUNS = 2
"""Index of the colour of the first compared run. The first two are the colours of flows in reports."""


def run_plots(run: Run, wanted: Flows = None, accounts: Sequence[FlowAccount] = ()) -> list[Plot]:
    """The plots of one run for which it has data, in the order of the page; none if no repeat finished.

    There is a panel for each of the wanted flows, or of the main flows. Of more than ``MOST_PANELS`` main
    flows, these are the flows with accounts. The plots of flows with accounts also show these.
    """
    flows = page_flows(run, wanted, accounts)
    panels = _flow_panels(run, flows, accounts)
    every = len(main_flows(run)) if wanted is None else len(_chosen(wanted, run.flows))
    plots = _all(RUN_PLOTS, panels, every)
    return [cut(plot, [run]) for plot in plots if _has_data(plot)]


def page_flows(run: Run, wanted: Flows, accounts: Sequence[FlowAccount]) -> list[str]:
    """The flows that the plots of a page are about."""
    if wanted is not None:
        return _chosen(wanted, run.flows)[:MOST_PANELS]
    flows = main_flows(run)
    if len(flows) <= MOST_PANELS:
        return flows
    explained = [one.flow for one in accounts]
    return [*explained, *(flow for flow in flows if flow not in explained)][:MOST_PANELS]


def run_plot(run: Run, name: str, flow: Flows = None) -> Plot:
    """One plot of a run, by its name in ``RUN_PLOTS``, of the wanted flows or of all main flows.

    Of more than ``MOST_PANELS`` flows there is a panel for each receiver.

    Raises:
        BadInput: there is no plot or no flow with that name, or the run has no data for it.
    """
    flows = main_flows(run) if flow is None else _chosen(flow, run.flows)
    if name in EXPLAINED:
        accounts = why(run, None if flow is None else flows, MOST_PANELS).accounts
        panels = _flow_panels(run, [one.flow for one in accounts if one.flow in flows], accounts)
    else:
        panels = _panels(run, flows)
    return cut(_one(RUN_PLOTS, panels, name, run.name), [run])


def comparison_plots(runs: Mapping[str, Run], wanted: Flows = None) -> list[Plot]:
    """The plots that compare runs, given by their labels, with a panel for each flow that all runs have.

    There are at most ``MOST_PANELS``.
    """
    flows = _flows_of_runs(runs, wanted)
    panels = _panels_of_runs(runs, flows)
    return [cut(plot, [*runs.values()]) for plot in _all(COMPARISON_PLOTS, panels, len(flows) * len(runs))]


def comparison_plot(runs: Mapping[str, Run], name: str, flow: Flows = None) -> Plot:
    """One plot that compares runs, by its name in ``COMPARISON_PLOTS``, of the wanted or of all main flows.

    Raises:
        BadInput: there is no plot or no flow with that name, or the runs have no data for it in common.
    """
    panels = _panels_of_runs(runs, _flows_of_runs(runs, flow))
    plot = _one(COMPARISON_PLOTS, panels, name, names_in_words([*runs], len(runs)))
    return cut(plot, [*runs.values()])


def _flows_of_runs(runs: Mapping[str, Run], wanted: Flows) -> list[str]:
    """The wanted flows, or the main flows, that all runs have."""
    if wanted is None:
        return _common([main_flows(run) for run in runs.values()])
    return _chosen(wanted, _common([run.flows for run in runs.values()]))


def _common(flows_of_runs: Sequence[Sequence[str]]) -> list[str]:
    first, *others = flows_of_runs
    return [flow for flow in first if all(flow in flows for flows in others)]


def cut(plot: Plot, runs: Sequence[Run]) -> Plot:
    """The plot with a time axis from the beginning to the end of the runs' windows, if they have any."""
    windows = [trace.window for run in runs for trace in run.traces if trace.window is not None]
    if not windows or not plot.over_time:
        return plot
    begins_s, ends_s = zip(*windows, strict=True)
    return replace(plot, x=replace(plot.x, begin=min(begins_s), end=max(ends_s)))


def _chosen(wanted: Flows, flows: Sequence[str]) -> list[str]:
    """The wanted flows; none if nothing was recorded."""
    return chosen_flows(wanted, flows) if flows else []


def _all(makers: Mapping[str, Maker], panels: Panels, lines: int) -> list[Plot]:
    """All plots; their captions say how many of all lines they show, unless it is all."""
    plots = [make(panels) for make in makers.values()] if panels else []
    shown = sum(map(len, panels))
    note = f" Shown are {shown} of {lines} curves." if shown < lines else ""
    return [replace(plot, caption=plot.caption + note) for plot in plots if plot is not None]


def _has_data(plot: Plot) -> bool:
    """Whether there is anything to draw; the trace of a log may lack whole tables."""
    return any(np.isfinite(mark.y).any() for mark in plot.marks if isinstance(mark, (Line, Dots, Boxes)))


def _one(makers: Mapping[str, Maker], panels: Panels, name: str, of: str) -> Plot:
    if name not in makers:
        raise BadInput(f"no plot `{name}`; expected {', '.join(makers)}")
    plot = makers[name](panels) if panels else None
    if plot is None:
        raise BadInput(f"{of}: no data for the plot `{name}`")
    return plot


def _panels(run: Run, flows: Sequence[str]) -> Panels:
    """The lines of a run: a panel per flow, or per receiver if there are many."""
    if len(flows) <= MOST_PANELS:
        return _flow_panels(run, flows, ())
    known = flows_in(run)
    looks = looks_of(flows, known)
    people = [name for trace in run.traces for name in trace.manifest.participants]
    of_receiver: dict[str, list[str]] = {name: [] for name in people}
    for flow in flows:
        of_receiver.setdefault(known[flow].receiver, []).append(flow)
    shown = [of_one[:MOST_CURVES] for of_one in of_receiver.values() if of_one][:MOST_RECEIVERS]
    of_receivers = iter(lines_of([(run, flow, looks[flow]) for flow in chain(*shown)]))
    return [list(islice(of_receivers, len(of_one))) for of_one in shown]


def _flow_panels(run: Run, flows: Sequence[str], accounts: Sequence[FlowAccount]) -> Panels:
    """A panel for each flow, with its account if there is one."""
    looks, of_flow = looks_of(flows, flows_in(run)), {one.flow: one for one in accounts}
    lines = lines_of([(run, flow, looks[flow]) for flow in flows])
    return [[replace(line, account=of_flow.get(line.flow))] for line in lines]


def looks_of(flows: Sequence[str], known: Mapping[str, FlowInfo]) -> dict[str, Style]:
    """How flows of a run are drawn: a colour for each, or with many flows a colour for each sender.

    Args:
        flows: the main flows of the run.
        known: its flows by name.
    """
    few = len(flows) <= MOST_PANELS
    labels = {flow: flow_in_words(flow) if few else _of_sender(flow, known[flow]) for flow in flows}
    looks = {label: Style.numbered(i, label) for i, label in enumerate(dict.fromkeys(labels.values()))}
    return {flow: looks[label] for flow, label in labels.items()}


def _of_sender(flow: str, about: FlowInfo) -> str:
    """The label of a flow beside other flows to its receiver: the sender, or the flow of other traffic."""
    return f"from {about.sender}" if flow == f"{about.sender}->{about.receiver}" else flow


def _panels_of_runs(runs: Mapping[str, Run], flows: Sequence[str]) -> Panels:
    """The lines of compared runs: a panel per flow with a line per run."""
    looks = [
        replace(Style.numbered(index, label), colour=COLOURS[(FIRST_COLOUR_OF_RUNS + index) % len(COLOURS)])
        for index, label in enumerate(runs)
    ]
    looked = list(zip(runs.values(), looks, strict=True))
    lines = lines_of([(run, flow, look) for flow in flows[:MOST_PANELS] for run, look in looked])
    return [lines[index : index + len(runs)] for index in range(0, len(lines), len(runs))]
