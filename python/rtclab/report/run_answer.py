"""What the page of a run answers first: for whom it went well or badly and when, why, and what to do next."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl

from rtclab.metrics import METRICS, courses
from rtclab.metrics.media import picture_delay_ms
from rtclab.metrics.rate import path_changes
from rtclab.metrics.series import Array, Samples, span_ns
from rtclab.phrases import name_for_commands, names_in_words
from rtclab.report.answer import BAD, GOOD, MARKS, POOR, Answer, Figure, NextStep
from rtclab.report.quality import FREEZES, FREEZES_SOURCE, SCALES, Judged, marks_of, worst
from rtclab.report.verdict import LEAST_PICTURES, Findings, verdict
from rtclab.report.why import STAGES_IN_WORDS, STAGES_OF_SOUND, FlowAccount, Why
from rtclab.report.words import IMPORTED, brief, flow_in_words
from rtclab.scenario import Bitrate, is_shipped
from rtclab.trace import NS_PER_S, Run, Trace

MOST_NAMES = 4
"""Maximum number of people that a sentence names."""
FEW_FLOWS = 2
"""Of more flows, the sentence says the troubles of the worst group alone."""
MOST_TROUBLES = 3
LONG_MS = 2000
MOSTLY = 0.75
"""The part of the frozen time that a stretch must have for the sentence to name it."""
SHORT = 0.5
"""A stretch that is longer than this part of the call is not named."""
FEW, NEARLY = 0.01, 0.9
"""A trouble is said to begin and end where this part of it, 1 %, lies before and after. If it lasts for more
than 90 % of the call, it lasts all through."""
BEFORE_S, WITHIN_S = 6, 2
"""A fall of capacity is named if it is at most this long before the stretch, or in its first seconds."""
MOST_FIGURES = 5
RATES = {
    "receiving_rate": "{}",
    "stats_receiving_rate": "{} of RTP received",
    "stats_sending_rate": "{} of RTP sent",
}
TROUBLES = {
    FREEZES: "video frozen {} s a minute",
    "audio_concealed": "{} % of the sound made up",
    "picture_delay": "pictures took {} to the screen",
    "sound_delay": "sound took {} to the ear",
    "packet_loss": "{} % of the packets lost",
}
WAITS = {"picture_delay": "waits_ms", "sound_delay": "sound_waits_ms"}
"""The delays that have a mark, and the account of a flow that says where the time went."""
ABOUT_TROUBLE = {FREEZES: "freezes", "audio_concealed": "sound"}
"""Which part of an account a trouble is about."""
LABELS = {
    FREEZES: ("Video frozen", "s a minute"),
    "picture_delay": ("Camera to screen", "ms"),
    "sound_delay": ("Microphone to loudspeaker", "ms"),
    "audio_concealed": ("Sound made up", "%"),
    "receiving_rate": ("Received", "kbit/s"),
    "frame_height": ("Lines of the picture", ""),
    "frame_rate": ("Frames a second", ""),
    "packet_loss": ("Packets lost", "%"),
    "rtt": ("Round trip", "ms"),
    "tcp_throughput": ("TCP data", "kbit/s"),
    "stats_receiving_rate": ("RTP received", "kbit/s"),
    "stats_sending_rate": ("RTP sent", "kbit/s"),
}
"""The metrics that may be figures, the best first, with their names there and units."""


def answer_of(
    run: Run, measured: pl.DataFrame, found: Findings, marked: Sequence[Judged], reasons: Why
) -> Answer:
    """The answer of a run.

    Args:
        run: the run.
        measured: its summary.
        found: its findings; their means have totals per minute.
        marked: its values with their marks.
        reasons: the accounts of its worst flows.
    """
    marks = marks_of(marked, found.silent)
    mark = worst([*marks.values()])
    worst_flow = _worst_flow(marked, marks, found.silent)
    sentences = [_failures(found), _how(run, found, marked, marks, worst_flow)] if mark else [verdict(found)]
    return Answer(
        how=" ".join(filter(None, sentences)),
        mark=mark,
        why=_why(run, reasons, worst_flow, [one for one in marked if one.flow == worst_flow]),
        steps=steps_of(run, mark),
        figures=_figures(run, measured, found, marked),
    )


def _failures(found: Findings) -> str:
    missing = found.failed + found.unfinished
    return f"{missing} of {found.repeats} repeats failed or did not run to their end." if missing else ""


def _worst_flow(marked: Sequence[Judged], marks: Mapping[str, str], silent: Collection[str]) -> str:
    """A flow of which nothing was seen, or else the one with the worst mark, and then frozen longest."""
    frozen = {one.flow: one.value for one in marked if one.metric == FREEZES}

    def badness(flow: str) -> tuple[bool, int, float]:
        return flow in silent, MARKS.index(marks[flow]), frozen.get(flow, 0.0)

    return max(marks, key=badness, default="")


def _why(run: Run, reasons: Why, flow: str, marked: Sequence[Judged]) -> str:
    """The first sentence of the account of the flow, or else of the first account.

    It says first where the flow's worst trouble came from, and then what limited its rate.
    """
    accounts = {one.flow: one for one in reasons.accounts}
    chosen = accounts.get(flow, next(iter(accounts.values()), None))
    if chosen is None or (chosen.grade == "unknown" and not chosen.stalls):
        return ""
    parts = {about: text for sentence in chosen.parts for about, text in sentence}
    parts["limit"] = parts.get("limit", "").partition("; its pictures had")[0]
    order = list(TROUBLES)
    troubles = sorted(
        (one for one in marked if one.mark != GOOD),
        key=lambda one: (-MARKS.index(one.mark), order.index(one.metric)),
    )
    told_by = [
        _waits(chosen, one.metric)
        if one.metric in WAITS
        else parts.get(ABOUT_TROUBLE.get(one.metric, ""), "")
        for one in troubles
        if one.metric != "audio_concealed" or _knows_gaps(chosen)
    ]
    why = next(filter(None, told_by), "")
    told = "; ".join(filter(None, [why or parts.get("freezes", ""), parts["limit"]]))
    if len(run.traces) > 1:
        told = told.replace(" freezes (", f" freezes of {len(run.traces)} repeats (")
    told = told or "what limited it is not known"
    if not chosen.forwarded:
        told = told.replace("its own", "the sender's own")
    if len(accounts) == 1:
        return f"{told[0].upper()}{told[1:]}."
    return f"{flow_in_words(chosen.flow)}: {told[0].lower()}{told[1:]}."


def _knows_gaps(account: FlowAccount) -> bool:
    """Whether most of the missing sound of a flow has a cause on its way to the receiver."""
    spent: dict[str, int] = {}
    for one in account.gaps:
        spent[one.cause] = spent.get(one.cause, 0) + one.end_ns - one.begin_ns
    return max(spent, key=spent.__getitem__, default="unknown") not in ("receiver", "unknown")


def _waits(account: FlowAccount, metric: str) -> str:
    """The two stages in which pictures or sound of a flow took longest, in words."""
    waits_ms: Mapping[str, float] = getattr(account, WAITS[metric])
    longest = sorted(waits_ms.items(), key=lambda pair: -pair[1])[:2]
    at = f" (longest at {account.bottleneck.path})" if account.bottleneck is not None else ""
    words = STAGES_IN_WORDS | STAGES_OF_SOUND
    stages = " and ".join(
        f"{_ms(ms)} {words[stage]}{at if stage == 'queues' else ''}" for stage, ms in longest
    )
    return f"{'sound' if metric == 'sound_delay' else 'pictures'} took {stages}" if stages else ""


@dataclass(frozen=True)
class _Group:
    """Flows of which is said together how they went: one direction, or all to or from one person."""

    whom: str
    mark: str
    flows: Sequence[str]


def _how(
    run: Run, found: Findings, marked: Sequence[Judged], marks: Mapping[str, str], worst_flow: str
) -> str:
    """Which directions or people had what trouble and when, the worst first, and who had none."""
    groups = _groups(found, marks, worst_flow)
    troubled = [group for group in groups if group.mark != GOOD]
    if len(troubled) == 2 and _are_alike(found, marked, troubled):
        both = [flow for group in troubled for flow in group.flows]
        troubled = groups = [_Group("both ways", troubled[0].mark, both)]
    if not troubled:
        return _went_well(found, [flow for flow in found.media if flow in marks])
    told_of = 1 if len(marks) > FEW_FLOWS else FEW_FLOWS
    if told_of == 1 and len(groups) > 2 and len({group.mark for group in groups}) == 1:
        first = troubled[0]
        text = (
            f"{first.mark} for all {len(groups)}, most {first.whom}: {_troubles(run, found, marked, first)}."
        )
        return f"{text[0].upper()}{text[1:]}"
    told = [f"{one.mark} {one.whom}: {_troubles(run, found, marked, one)}" for one in troubled[:told_of]]
    rest = troubled[told_of:]
    for mark in (BAD, POOR):
        more = [group.whom for group in rest if group.mark == mark]
        if more:
            told.append(f"{mark} {_together(more)}")
    well = [group.whom for group in groups if group.mark == GOOD]
    if well:
        told.append(f"good {_together(well)}")
    return " ".join(f"{text[0].upper()}{text[1:]}." for text in told)


def _are_alike(found: Findings, marked: Sequence[Judged], groups: Sequence[_Group]) -> bool:
    """Whether two groups are the two directions of a call with the same troubles."""
    if any(len(group.flows) > 1 for group in groups):
        return False
    (one,), (other,) = (group.flows for group in groups)
    troubles = [
        {(each.metric, each.mark) for each in marked if each.flow == flow and each.mark != GOOD}
        | {(flow in found.unseen, flow in found.apart)}
        for flow in (one, other)
    ]
    return one.split("->")[::-1] == other.split("->") and troubles[0] == troubles[1]


def _together(whom: Sequence[str]) -> str:
    """Several groups in words: ``for ann, ben and 3 others``."""
    if len(whom) == 1:
        return whom[0]
    word, names = whom[0].partition(" ")[0], [one.partition(" ")[2] for one in whom]
    if len({one.partition(" ")[0] for one in whom}) == 1:
        return f"{word} {names_in_words(names, MOST_NAMES)}"
    return names_in_words(whom, MOST_NAMES)


def _groups(found: Findings, marks: Mapping[str, str], worst_flow: str) -> list[_Group]:
    """The groups, the worst first: directions, or in a meeting receivers, or senders if they are fewer.

    Of the groups with the worst mark, the one with the worst flow is first, and then those with most flows.
    """
    order = sorted(marks, key=lambda flow: -MARKS.index(marks[flow]))
    if len(marks) <= 2:
        return [_Group(_direction(found, flow), marks[flow], [flow]) for flow in order]
    troubled = [flow for flow in order if marks[flow] != GOOD]
    receivers, senders = ({ends[flow] for flow in troubled} for ends in (found.receivers, found.senders))
    by_sender = len(senders) < len(receivers)
    ends, word = (found.senders, "from") if by_sender else (found.receivers, "for")
    of_end: dict[str, list[str]] = {}
    for flow in order:
        of_end.setdefault(ends[flow], []).append(flow)
    groups = []
    for name, flows in of_end.items():
        mark = worst([marks[flow] for flow in flows])
        bad = [flow for flow in flows if marks[flow] != GOOD]
        of = "" if len(bad) in (0, len(flows)) else f" ({len(bad)} of {len(flows)})"
        groups.append(_Group(f"{word} {name}{of}", mark, bad or flows))
    return sorted(
        groups,
        key=lambda group: (-MARKS.index(group.mark), worst_flow not in group.flows, -len(group.flows)),
    )


def _direction(found: Findings, flow: str) -> str:
    if flow in found.senders and "->" in flow:
        return f"from {found.senders[flow]} to {found.receivers[flow]}"
    return f"in {flow_in_words(flow)}"


def _went_well(found: Findings, flows: Sequence[str]) -> str:
    """The sentence on a call without trouble."""
    parts = []
    for metric, words in RATES.items():
        rates = [found.means[metric, flow] for flow in flows if (metric, flow) in found.means]
        if rates:
            parts.append(words.format(f"{_span(rates)} kbit/s"))
            break
    frozen = [found.means[FREEZES, flow] for flow in flows if (FREEZES, flow) in found.means]
    if frozen:
        parts.append(
            "no video froze" if max(frozen) < 0.05 else f"at most {brief(max(frozen))} s a minute frozen"
        )
    lost = [found.means["packet_loss", flow] for flow in flows if ("packet_loss", flow) in found.means]
    if lost and not frozen and max(lost) == 0:
        parts.append("no packet was lost")
    for metric, words in (
        ("picture_delay", "{} ms from camera to screen"),
        ("sound_delay", "{} ms from mouth to ear"),
    ):
        values = [found.means[metric, flow] for flow in flows if (metric, flow) in found.means]
        if values:
            parts.append(words.format(_span(values)))
            break
    whom = (
        "both ways" if len(flows) == 2 else "for all" if len(flows) > 2 else f"in {flow_in_words(flows[0])}"
    )
    return f"Good {whom}: {', '.join(parts)}."


def _ms(value: float) -> str:
    """A time in ms, in s if it is long."""
    return f"{brief(value / 1000)} s" if value >= LONG_MS else f"{brief(value)} ms"


def _span(values: Sequence[float]) -> str:
    low, high = f"{min(values):.0f}", f"{max(values):.0f}"
    return low if low == high else f"{low} to {high}"


def _troubles(run: Run, found: Findings, marked: Sequence[Judged], group: _Group) -> str:
    """What went wrong in the flows of a group, and when."""
    silent = [flow for flow in group.flows if flow in found.silent]
    told: list[tuple[str, str, str]] = []
    if silent:
        never = "never connected" if silent[0] in found.apart else "no picture was seen"
        of = "" if len(silent) == len(group.flows) else f" in {len(silent)} of {len(group.flows)} directions"
        often = max(found.silent[flow] for flow in silent)
        finished = found.repeats - found.failed - found.unfinished
        some = f", in {often} of {finished} repeats" if often < finished else ""
        told.append((BAD, f"{never}{of}{some}", ""))
    few = [
        flow
        for flow in group.flows
        if flow in found.watched and found.means.get(("frame_rate", flow), LEAST_PICTURES) < LEAST_PICTURES
    ]
    if few and not silent:
        told.append((BAD, "fewer than 1 picture a second", FREEZES))
    for metric, words in TROUBLES.items():
        if few and metric in (FREEZES, "picture_delay"):
            continue
        values = {
            one.value: one.mark
            for one in marked
            if one.flow in group.flows
            and one.flow not in silent
            and one.metric == metric
            and one.mark != GOOD
        }
        if values:
            most = _ms(max(values)) if metric.endswith("_delay") else brief(max(values))
            text = words.format(most if len(values) == 1 else f"up to {most}")
            told.append((worst([*values.values()]), text, metric))
    told.sort(key=lambda one: -MARKS.index(one[0]))
    texts = [text for _, text, _ in told[:MOST_TROUBLES]]
    for place, (_, _, metric) in enumerate(told[:MOST_TROUBLES]):
        if metric in COURSES:
            texts[place] += when(run, group.flows, metric)
            break
    return "; ".join(texts)


def when(run: Run, flows: Sequence[str], metric: str) -> str:
    """The shortest stretch with most of a trouble in all repeats, and a fall of capacity just before it.

    The words follow the trouble: ``, mostly from 22 to 45 s, after phone.up fell to 150 kbit/s at 20 s``.
    Empty if nothing is known of the time.
    """
    weights, end_s = _seconds_of(run, flows, metric)
    total = weights.sum()
    if not total:
        return ""
    sums = np.concatenate([[0.0], np.cumsum(weights)])
    reach = np.searchsorted(sums, sums[:-1] + MOSTLY * total - 1e-9)
    possible = reach < sums.size
    lengths = np.where(possible, reach - np.arange(weights.size), weights.size)
    first = int(lengths.argmin())
    last = first + int(lengths[first])
    if last - first > SHORT * end_s:
        begin = int(np.searchsorted(sums, FEW * total, side="right")) - 1
        end = int(np.searchsorted(sums, (1 - FEW) * total))
        is_all = end - begin >= NEARLY * end_s
        return ", all through the call" if is_all else f", from {begin} to {end} s"
    return f", mostly from {first} to {last} s{_fall_before(run, flows, first)}"


def _seconds_of(run: Run, flows: Sequence[str], metric: str) -> tuple[Array, float]:
    """How much of a trouble flows have in each second, over all repeats, and the end of the call, in s."""
    ends_s = [span_ns(trace, flow)[1] / NS_PER_S for trace in run.traces for flow in flows]
    end_s = max(ends_s, default=0.0)
    weights = np.zeros(int(np.ceil(end_s)) or 1)
    for trace in run.traces:
        for flow in flows:
            if flow not in trace.manifest.flows:
                continue
            samples = COURSES[metric](trace, flow)
            seconds = samples.at_s.astype(np.int64)
            inside = (seconds >= 0) & (seconds < weights.size)
            good = SCALES[metric].good if metric in SCALES else 0.0
            excess = (samples.values - good).clip(min=0)
            np.add.at(weights, seconds[inside], excess[inside])
    return weights, end_s


COURSES: Mapping[str, Callable[[Trace, str], Samples]] = {
    FREEZES: courses.frozen_percent,
    "audio_concealed": courses.concealed_percent,
    "picture_delay": picture_delay_ms,
    "packet_loss": courses.lost_percent,
}
"""The course over time of troubles; of sound's delay, none is known."""


def _fall_before(run: Run, flows: Sequence[str], at_s: int) -> str:
    """The largest fall of the capacity of a path of the flows shortly before a time, in words."""
    falls = []
    for trace in run.traces[:1]:
        route = {
            path
            for flow in flows
            if flow in trace.manifest.flows
            for path in trace.manifest.flows[flow].route
        }
        for path, (changes_ns, capacity_bps) in trace.cached(path_changes, "capacity_bps").items():
            for change_ns, before, after in zip(
                changes_ns[1:], capacity_bps[:-1], capacity_bps[1:], strict=True
            ):
                change_s = change_ns / NS_PER_S
                if path in route and after < before and at_s - BEFORE_S <= change_s <= at_s + WITHIN_S:
                    falls.append((before / max(after, 1), str(path), change_s, after))
    if not falls:
        return ""
    _, path, change_s, after = max(falls)
    left = f"fell to {Bitrate(bps=round(after))}" if after else "had no capacity left"
    return f", after {path} {left} at {change_s:g} s"


def steps_of(run: Run, mark: str) -> list[NextStep]:
    """What to do next with a run whose worst mark is ``mark``."""
    name = name_for_commands(run.path)
    if run.unfinished and run.backend not in IMPORTED:
        return [NextStep("what is missing:", f"rtclab run --resume {run.path}")]
    if not run.traces:
        return []
    if mark in (POOR, BAD):
        return [
            NextStep("what would help:", f"rtclab remedy {name}"),
            NextStep("every account:", f"rtclab why {name} --all"),
        ]
    if run.backend == "sim" and is_shipped(str(run.scenario.get("name"))):
        return [NextStep("do browsers agree?", f"rtclab run {run.scenario['name']} --backend live")]
    return [NextStep("all metrics:", f"rtclab measure {name} --all")]


def _figures(run: Run, measured: pl.DataFrame, found: Findings, marked: Sequence[Judged]) -> list[Figure]:
    """The figures that decide: of each metric the worst flow, with its interval and mark."""
    flows = found.media or found.others or found.tcp
    known = measured.drop_nulls("mean").filter(pl.col("metric").is_in([*LABELS]), pl.col("flow").is_in(flows))
    rows = {(row["metric"], row["flow"]): row for row in known.iter_rows(named=True)}
    marks = {(one.metric, one.flow): one.mark for one in marked}
    figures = []
    for metric, (label, unit) in LABELS.items():
        values = {
            flow: found.means[metric, flow]
            for flow in flows
            if (metric, flow) in found.means and (metric, flow) in rows
        }
        if not values:
            continue
        higher = METRICS[metric].better == "higher" or metric in ("frame_height", "tcp_throughput")
        flow = (min if higher else max)(values, key=values.__getitem__)
        row = rows[metric, flow]
        # Totals are shown per minute.
        scale = values[flow] / row["mean"] if row["mean"] else 1.0
        low, high = row["ci95_low"], row["ci95_high"]
        interval = "" if low is None or low == high else f"{brief(scale * low)} to {brief(scale * high)}"
        source = FREEZES_SOURCE if metric == FREEZES else SCALES[metric].source if metric in SCALES else ""
        mark = marks.get((metric, flow), "")
        about = _others(found, metric, values, flow, marks)
        figures.append(
            (metric, Figure(label, brief(values[flow]), unit, interval, about, mark, source if mark else ""))
        )
    return [figure for _, figure in _best(figures)]


def _best(figures: list[tuple[str, Figure]]) -> list[tuple[str, Figure]]:
    """The first figures; of the two delays, both only if neither is good."""
    known = dict(figures)
    good = [name for name in ("sound_delay", "picture_delay") if name in known and known[name].mark == GOOD]
    if good and {"picture_delay", "sound_delay"} <= known.keys():
        del known[good[0]]
    return list(known.items())[:MOST_FIGURES]


def _others(
    found: Findings, metric: str, values: Mapping[str, float], flow: str, marks: Mapping[tuple[str, str], str]
) -> str:
    """Whose value a figure is, and how the others are."""
    if len(values) == 1:
        return f"{flow_in_words(flow)}, the only direction" if len(found.media) == 1 else flow_in_words(flow)
    if len(values) == 2:
        ((name, other),) = ((name, value) for name, value in values.items() if name != flow)
        back = flow.split("->")[::-1] == name.split("->")
        if brief(other) == brief(values[flow]):
            return "both ways" if back else "both"
        told = f"{brief(other)} the other way" if back else f"{brief(other)} in {flow_in_words(name)}"
        return f"{flow_in_words(flow)}; {told}"
    troubled = sum(marks.get((metric, name), GOOD) != GOOD for name in values)
    share = f"; {troubled} of {len(values)} poor or bad" if troubled else f" of {len(values)}"
    return f"worst: {flow_in_words(flow)}{share}"
