"""The list of metrics, from their registry."""

from __future__ import annotations

import math
import sys
from itertools import groupby

from markdown import code, one_line, paragraphs, table

from rtclab.metrics import METRICS, SOURCES
from rtclab.metrics.registry import Bounds, Coverage, Metric

BETTER = {"lower": "lower is better", "higher": "higher is better", "": "no preferred direction"}
SCOPE = {
    "flow": "one value per flow and repeat",
    "trace": "one value per repeat",
    "run": "one value per repeat, also of a failed one",
}


CERTAINTY = {"exactly": "exactly", "within bounds": "within bounds", "not": "–"}


def known() -> str:
    """A table of how well each source knows each metric."""
    rows = [
        [code(metric.name), *(CERTAINTY[metric.known[source].certainty] for source in SOURCES)]
        for metric in METRICS.values()
        if metric.known is not None
    ]
    return table(["metric", *SOURCES], rows)


def markdown() -> str:
    """A section per module of metrics, in it one per metric."""
    return "\n\n".join(
        section for _, metrics in groupby(METRICS.values(), _module) for section in _sections(list(metrics))
    )


def _module(metric: Metric) -> str:
    return metric.function.__module__


def _sections(metrics: list[Metric]) -> list[str]:
    module = _module(metrics[0])
    about = paragraphs(sys.modules[module].__doc__)
    title = module.rpartition(".")[2].replace("setup", "set-up").replace("tcp", "TCP")
    return [f"## {title[0].upper()}{title[1:]}", about, *map(_section, metrics)]


def _section(metric: Metric) -> str:
    facts = [
        f"Unit: {metric.unit or 'none'}",
        _within(metric.bounds),
        BETTER[metric.better],
        SCOPE[metric.scope],
    ]
    return (
        f"### {metric.name}\n\n{one_line(metric.definition)}\n\n"
        f"{' · '.join(filter(None, facts))}  \nSource: {metric.source}{_remarks(metric)}"
    )


def _remarks(metric: Metric) -> str:
    """The conditions under which sources know a metric, or the bounds; empty if there are none."""
    remarks = [
        f"{source}: {_in_words(known)}" for source, known in (metric.known or {}).items() if known.note
    ]
    return f"  \nKnown: {'; '.join(remarks)}" if remarks else ""


def _in_words(known: Coverage) -> str:
    return known.note if known.certainty == "exactly" else f"{known.certainty} ({known.note})"


def _within(bounds: Bounds) -> str:
    least, most = bounds
    if most < math.inf:
        return f"{least:g} to {most:g}"
    return f"{least:g} or more" if least > -math.inf else ""
