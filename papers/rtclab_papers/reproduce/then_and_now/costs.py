"""Set-up time, failures, processor and memory of live calls per topology, as in sections 6.10 and 6.11 of
Abelló Lozano 2013."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np

from rtclab.report import Axes, Axis, Drawing, Line, Style, number
from rtclab.scenario import Scenario
from rtclab_papers.campaigns import Record
from rtclab_papers.markdown import folded, table
from rtclab_papers.reproduce.then_and_now.campaigns import LIVE
from rtclab_papers.reproduce.then_and_now.numbers import CampaignNumbers
from rtclab_papers.reproduce.then_and_now.row_values import (
    CONNECTIONS,
    CPU,
    ENCODE_MS,
    ENCODER,
    MEMORY,
    NOT_CONNECTED,
    SETUP_STAGES,
    TCP_SHARE,
)
from rtclab_papers.reproduce.then_and_now.translate import MIXING

ABOUT = """\
Live calls by topology, over all conditions, repeats and flows. Topologies ran in different networks, so
a row describes its conditions, not the topology alone. Numbers are the median and, in parentheses, the
95th percentile. Abelló Lozano's thesis reports a set-up time of 1.44 s for two over a relay with nothing
limited (table 8), half a second more with an MCU than in a mesh (6.10), and 90 % CPU use for three calls
and for a mesh (6.11)."""
SETUP_TICKS_S = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50, 100)
_NUMBERS = {2: "two", 3: "three", 4: "four"}
_STAGES = ("signalling", "ICE", "DTLS", "first frame", "all")


def topology(scenario: Scenario) -> str:
    """The topology of a scenario in words, to group conditions: ``two over a relay beside TCP``."""
    call = scenario.calls[0]
    people = _NUMBERS.get(len(call.participants), str(len(call.participants)))
    if len(scenario.calls) > 1:
        words = f"{_NUMBERS.get(len(scenario.calls), len(scenario.calls))} calls of {people}"
    elif call.kind == MIXING:
        words = f"{people}, mixing MCU"
    elif call.kind != "p2p":
        words = f"{people}, {call.kind.upper() if call.kind == 'sfu' else call.kind}"
    else:
        words = people if len(call.participants) == 2 else f"mesh of {people}"
    words += " over a relay" if call.relay else ""
    return words + (" beside TCP" if scenario.traffic else "")


def section(numbers: CampaignNumbers, plot: str) -> Iterator[str]:
    """The section of the page; ``plot`` names the drawing of the set-up time."""
    yield "## Set-up time, failures, processor and memory"
    groups = _groups(numbers)
    if not groups:
        yield "No live call has been run yet."
        return
    yield ABOUT
    yield "### Set-up time by stage (ms)"
    stages = {words: [_values(records, stage) for stage in SETUP_STAGES] for words, records in groups.items()}
    rows = [[words, str(len(own[-1])), *map(spread, own)] for words, own in stages.items()]
    yield f"![{_fastest_and_slowest({words: own[-1] for words, own in stages.items()})}]({plot}.svg)"
    yield folded("The times of each topology", table(["topology", "flows", *_STAGES], rows, "lr"))
    yield "### Failures"
    rows = []
    for words, records in groups.items():
        failed = sum(record.outcome == "failed" for record in records)
        planned, missing = (sum(_values(records, metric)) for metric in (CONNECTIONS, NOT_CONNECTED))
        rows.append([words, str(len(records)), str(failed), f"{planned:.0f}", f"{missing:.0f}"])
    heads = ["topology", "repeats", "failed", "planned connections", "not connected"]
    yield folded("The failures of each topology", table(heads, rows, "lr"))
    yield "### Processor and memory per participant"
    yield _load(groups, numbers)


def _fastest_and_slowest(times: Mapping[str, Sequence[float]]) -> str:
    """The topologies with the shortest and the longest median set-up time, as a text for the figure."""
    middle = sorted((float(np.median(own)), words) for words, own in times.items() if len(own))
    ends = dict.fromkeys(f"{number(ms)} ms ({words})" for ms, words in (middle[:1] + middle[-1:]))
    return f"Set-up time by topology, in the median {' to '.join(ends)}"


def _groups(numbers: CampaignNumbers) -> dict[str, list[Record]]:
    """The live repeats of each topology, failed ones included."""
    found: dict[str, list[Record]] = {}
    for name, today in numbers.plan.today.items():
        if tries := numbers.tries(LIVE, name):
            found.setdefault(topology(today.scenario), []).extend(tries)
    return dict(sorted(found.items()))


def drawing(numbers: CampaignNumbers, name: str) -> Drawing | None:
    """The distribution of the set-up time of each topology; None without live calls."""
    groups = {
        words: np.sort(_values(records, SETUP_STAGES[-1])) for words, records in _groups(numbers).items()
    }
    known = {words: np.log10(values / 1e3) for words, values in groups.items() if values.size}
    if not known:
        return None
    marks = [
        Line(
            Style.numbered(index, words),
            values,
            100 * np.arange(1, values.size + 1) / values.size,
            steps=True,
        )
        for index, (words, values) in enumerate(known.items())
    ]
    title = "Set-up time of live calls: share of the flows that were set up by then"
    # The axis is logarithmic, because set-up takes many times as long beside TCP as without.
    ends = np.log10(SETUP_TICKS_S)
    low = max(ends[ends <= min(values[0] for values in known.values())], default=ends[0])
    high = min(ends[ends >= max(values[-1] for values in known.values())], default=ends[-1])
    shown = (ends >= low) & (ends <= high)
    names = [f"{tick:g}" for tick in np.array(SETUP_TICKS_S)[shown]]
    x = Axis("set-up time (s)", float(low), float(high), names, ends[shown].tolist())
    return Drawing(name, title, title, x, Axis("share of flows (%)", 0, 100), [Axes("", marks)])


def _load(groups: dict[str, list[Record]], numbers: CampaignNumbers) -> str:
    rows = []
    for words, records in _by_machine(groups, numbers):
        names = sorted({text for record in records for text in record.texts(ENCODER).values()})
        cells = [spread(_values(records, metric)) for metric in (CPU, MEMORY, ENCODE_MS)]
        encoder = ", ".join(names) or number(None)
        rows.append([words, *cells, encoder, spread(_values(records, TCP_SHARE))])
    heads = ["topology", "processor (% of one core)", "memory (MB)", "time to encode a frame (ms)", "encoder"]
    return folded("The costs of each topology", table([*heads, "TCP's share (%)"], rows))


def _by_machine(
    groups: dict[str, list[Record]], numbers: CampaignNumbers
) -> Iterator[tuple[str, list[Record]]]:
    """The groups with the values of participants, and with the values of servers that mix."""
    for words, records in groups.items():
        servers = {name for one in records for name in numbers.plan.today[one.key.condition].scenario.servers}
        yield words, [_of(record, servers, theirs=False) for record in records]
        if any(record.by_flow(CPU).keys() & servers for record in records):
            yield f"{words}: the MCU", [_of(record, servers, theirs=True) for record in records]


def _of(record: Record, servers: Collection[str], *, theirs: bool) -> Record:
    """A record with the values of servers, or with all others."""
    return replace(record, values=[value for value in record.values if (value[0] in servers) == theirs])


def _values(records: Sequence[Record], metric: str) -> list[float]:
    return [value for record in records for value in record.by_flow(metric).values()]


def spread(values: Sequence[float]) -> str:
    """Median and 95th percentile: ``612 (1040)``; a dash without values."""
    if not len(values):
        return number(None)
    middle, high = np.percentile(values, [50, 95])
    return f"{number(float(middle))} ({number(float(high))})"
