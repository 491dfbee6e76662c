"""What pages and commands say in sentences is what the tables say, for every kind of run and in windows.

Each sentence is taken apart by its grammar. A part that no rule knows fails the test, so a new sentence needs
a rule. Rules compute the expected figures from the tables by themselves.
"""

from __future__ import annotations

import html
import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from statistics import fmean

import polars as pl
import pytest
from test_logs_getstats import FILES

import rtclab
from rtclab import lab
from rtclab.cli import main
from rtclab.experiment import Result, Store, metrics_of, summary_of_run
from rtclab.metrics.media import is_watched
from rtclab.report.comparisons import write_comparison
from rtclab.report.runs import write_report
from rtclab.scenario import Scenario
from rtclab.trace import Repeat, Run, Window

NS_PER_S = 1_000_000_000
EVENT_LOGS = [
    Path(__file__).parent / "event_logs" / f"event-log-{ends}.log" for ends in ("alice-bob", "bob-alice")
]

SLOW = "link.up.capacity = '600 kbit/s'\nlink.down.capacity = '400 kbit/s'\nlink.down.queue = '100 ms'\n"
HEAD = "title = 'T'\nduration = '6 s'\nrepeats = 2\n"
UP = "up = { capacity = '2 Mbit/s', delay = '20 ms', queue = '200 ms' }\n"
LINK = f"[link]\n{UP}down = {{ capacity = '4 Mbit/s' }}\n"
TWO = "[participants.alice]\n[participants.bob]\n"
VIDEO = "[video]\nmax_bitrate = '800 kbit/s'\n"
MEET = f"[participants.alice]\n[participants.bob]\n[participants.carol]\n{SLOW}"
UPLOAD = "[traffic.upload]\nsender = 'alice'\nreceiver = 'bob'\nflows = 2\ncongestion_control = 'cubic'\n"
STAGGERED = UPLOAD + "start = '2 s'\n" + UPLOAD.replace("upload", "second").replace("flows = 2", "flows = 1")

SCENARIOS = {
    "two": HEAD + TWO + VIDEO + LINK,
    "lossy": HEAD
    + TWO
    + VIDEO
    + LINK
    + "[participants.bob.link]\nup = { capacity = '300 kbit/s', loss = '8 %' }\n",
    "one-way": HEAD
    + "[participants.alice]\n[participants.bob]\nvideo = false\n"
    + VIDEO
    + "[audio]\n"
    + LINK,
    "audio": HEAD + TWO + "[audio]\n" + LINK,
    "tcp alone": HEAD + TWO + LINK + UPLOAD,
    "udp alone": HEAD
    + TWO
    + LINK
    + "[traffic.probe]\nprotocol = 'udp'\nrate = '500 kbit/s'\nsender = 'alice'\nreceiver = 'bob'\n",
    "sfu": HEAD
    + MEET
    + VIDEO
    + "[audio]\n"
    + LINK
    + "[servers.box]\n[[calls]]\nkind = 'sfu'\nserver = 'box'\n",
    "mesh": HEAD + MEET + VIDEO + LINK,
    "star": HEAD + MEET + VIDEO + LINK + "[[calls]]\nkind = 'star'\nroot = 'bob'\n",
    "beside tcp": HEAD + TWO + VIDEO + LINK + UPLOAD,
    "beside tcp in turn": HEAD + TWO + VIDEO + LINK + STAGGERED,
    "own control": HEAD
    + "[participants.alice]\n[participants.bob]\ncongestion_control = { name = 'gcc-2016' }\n"
    + VIDEO
    + LINK,
}
IMPORTS = ("event log", "two event logs", "dump", "rtcstats", "capture")
WINDOWS: tuple[Window | None, ...] = (None, (0.0, 4.0), (3.0, 6.0), (4.5, 5.0))
"""All repeats or none know a round trip in each. A comparison's means are of pairs that both know a value."""


@dataclass
class Said:
    """A run, a window of it, and what the tables say about it."""

    run: Run
    window: Window | None = None
    beside: Run | None = None
    """The run that it is compared with."""
    told: set[str] = field(default_factory=set)
    """The flows whose rates the sentence has told so far."""
    unseen: set[str] = field(default_factory=set)
    """The flows of which it has told that nobody sees their pictures."""

    def __post_init__(self) -> None:
        self.run = replace(self.run, window=self.window)

    @cached_property
    def means(self) -> dict[tuple[str, str], float]:
        """By metric and flow."""
        rows = summary_of_run(self.run).drop_nulls("mean").select("metric", "flow", "mean")
        return {(metric, flow): mean for metric, flow, mean in rows.iter_rows()}

    def of(self, metric: str, flows: Sequence[str] | None = None) -> dict[str, float]:
        """The means of a metric by flow; by default of the flows of media."""
        flows = self.media if flows is None else flows
        means = self.means if metric != "picture_delay" else self._of_pairs(metric)
        return {flow: means[metric, flow] for flow in flows if (metric, flow) in means}

    def _of_pairs(self, metric: str) -> dict[tuple[str, str], float]:
        """Means over the repeats that both simulated runs know; of a flow that one lacks, over all."""
        own = _known(self.run, metric)
        both = self.beside is not None and self.run.backend == self.beside.backend == "sim"
        other = _known(replace(self.beside, window=self.window), metric) if both and self.beside else {}
        return {
            (metric, flow): fmean(of[one] for one in (of.keys() & other.get(flow, of).keys()))
            for flow, of in own.items()
        }

    @cached_property
    def media(self) -> list[str]:
        """Flows between participants, by the tables that only flows of media are in."""
        first = self.run.traces[0]
        people = set(first.manifest.participants)
        found = set()
        for trace in self.run.traces:
            for table in ("inbound_rtp", "outbound_rtp"):
                found |= set(trace.whole.table(table)["flow"])
            if "packets" in trace.tables:
                found |= set(trace.whole.table("packets").filter(pl.col("protocol") == "rtp")["flow"])
        flows = first.manifest.flows
        ends = [name for name in flows if {flows[name].sender, flows[name].receiver} <= people]
        return [name for name in ends if name in found]

    @cached_property
    def tcp(self) -> list[str]:
        """The flows of TCP, without those of acknowledgements."""
        return [flow for flow in self.run.traces[0].flows if ("tcp_throughput", flow) in self.means]

    @cached_property
    def frozen(self) -> dict[str, float]:
        """Freezes by flow, in s per minute of the flow in the window; means over repeats."""
        begin_s, end_s = self.window or (0.0, float("inf"))
        measured = metrics_of(self.run).filter(metric="freeze_duration")
        per_minute: dict[str, list[float]] = {}
        for repeat, flow, value in measured.select("repeat", "flow", "value").iter_rows():
            one = self.run.trace(repeat).manifest.flows[flow]
            lasts_s = min(one.end_ns / NS_PER_S, end_s) - max(one.begin_ns / NS_PER_S, begin_s)
            per_minute.setdefault(flow, []).append(60 * value / lasts_s)
        return {flow: fmean(values) for flow, values in per_minute.items() if flow in self.media}


def _known(run: Run, metric: str) -> dict[str, dict[int, float]]:
    """The values of a metric by flow and repeat."""
    found: dict[str, dict[int, float]] = {}
    rows = metrics_of(run).filter(metric=metric).drop_nulls("value").select("flow", "repeat", "value")
    for flow, repeat, value in rows.iter_rows():
        found.setdefault(flow, {})[repeat] = value
    return found


# --- reading numbers ---------------------------------------------------------------------------------

SIZES = {"kbit/s": 1.0, "Mbit/s": 1000.0, "%": 1.0, "ms": 1.0, "s": 1.0}
FIGURE = re.compile(r"(?P<number>[\d.]+)(?: (?P<unit>kbit/s|Mbit/s|%|ms|s))?(?: \((?P<flow>[^)]*)\))?")


def close(number: str, unit: str, value: float) -> bool:
    """Whether a printed number is the value, rounded to its last digit; rates in Mbit/s have three digits."""
    step = 10.0 ** -len(number.partition(".")[2])
    if unit == "Mbit/s":
        step = 10.0 ** (len(str(int(float(number)))) - 3)
    return abs(float(number) * SIZES[unit] - value) <= (0.5 * step + 1e-9) * SIZES[unit]


def flow_of(words: str) -> str:
    return words.replace(" → ", "->")


def check_span(text: str, values: Mapping[str, float]) -> None:
    """Checks a range (``82 to 85 %``) or named figures (``1 s (a → b) and 2 s (b → a)``) by flow."""
    assert values, text
    at_most = text.startswith("up to ")
    figures = [found.groupdict() for found in FIGURE.finditer(text.removeprefix("up to "))]
    rebuilt = re.split(r" to | and ", text.removeprefix("up to "))
    assert len(figures) == len(rebuilt), f"cannot read {text!r}"
    unit = figures[-1]["unit"]
    for figure in figures:
        figure["unit"] = figure["unit"] or unit
        if figure["flow"]:
            assert close(figure["number"], figure["unit"], values[flow_of(figure["flow"])]), (text, values)
    low, high = figures[0], figures[-1]
    assert close(high["number"], high["unit"], max(values.values())), (text, values)
    if len(figures) == 2:
        assert close(low["number"], low["unit"], min(values.values())), (text, values)
        named = low["flow"] is not None
        # Directions that differ by half and more are never lumped together.
        assert named or max(values.values()) <= 1.5 * min(values.values()) or unit in ("ms", "s"), (
            text,
            values,
        )
    elif not at_most and not low["flow"]:
        assert all(close(low["number"], low["unit"], value) for value in values.values()), (text, values)
    else:
        assert min(values.values()) * SIZES[unit] < 0.5, (text, values)


# --- the rules of the verdict ------------------------------------------------------------------------

RULES: dict[str, Callable[[Said, re.Match[str]], None]] = {}


def rule(pattern: str) -> Callable[[Callable[[Said, re.Match[str]], None]], Callable[..., None]]:
    def register(check: Callable[[Said, re.Match[str]], None]) -> Callable[..., None]:
        RULES[pattern] = check
        return check

    return register


def flows_meant(said: Said, subject: str, known: Mapping[str, float]) -> list[str]:
    """The flows that the subject of a sentence about rates means; they are those that have the rate."""
    beside = [flow for flow in known if said.run.traces[0].manifest.flows[flow].call is None]
    among = said.tcp if "TCP" in subject else said.media or beside or list(known)
    among = [flow for flow in among if flow in known]
    said.told.update(among)
    match = re.fullmatch(r"each of the (\d+) (?:TCP )?flows", subject)
    if match:
        assert len(among) == int(match[1]) > 2
    elif subject in ("both directions", "both flows", "both TCP flows"):
        assert len(among) == 2
        if subject == "both directions":
            there, back = (flow.split("->") for flow in among)
            assert there == back[::-1]
    else:
        assert [subject.removeprefix("the flow ").removeprefix("the TCP flow ")] == [
            flow.replace("->", " → ") for flow in among
        ]
    return among


RATE = r"(?P<subject>the (?:TCP )?flow .+?|each of the .+?|both .+?)"
DELAY = r"(?: with a (?P<delay>round-trip time|one-way delay) of (?P<delays>.+))?"


@rule(
    rf"{RATE} (?P<verb>received|sent) (?P<span>.+?)(?P<rtp> of RTP)?"
    rf"(?:, (?P<share>.+) of the route's capacity,?)?{DELAY}"
)
def check_rates(said: Said, match: re.Match[str]) -> None:
    metric = {
        ("received", None): "receiving_rate",
        ("received", " of RTP"): "stats_receiving_rate",
        ("sent", " of RTP"): "stats_sending_rate",
    }[match["verb"], match["rtp"]]
    everything = {flow: value for (name, flow), value in said.means.items() if name == metric}
    if metric != "receiving_rate":
        assert ("receiving_rate", said.media[0]) not in said.means
    if metric == "stats_sending_rate":
        everything = {
            flow: value
            for flow, value in everything.items()
            if ("stats_receiving_rate", flow) not in said.means
        }
    flows = flows_meant(said, match["subject"], everything)
    check_span(match["span"], said.of(metric, flows))
    if match["share"]:
        check_span(match["share"], said.of("utilisation", flows))
    check_delay(said, match, flows)


@rule(
    rf"(?P<who>.+?) (?P<verb>receives?|(?:is|are) received) (?:at )?(?P<span>.+?), the others "
    rf"(?:at )?(?P<others>.+?)(?:,?{DELAY})(?P<rtp>)"
)
def check_uneven_rates(said: Said, match: re.Match[str]) -> None:
    rates = said.of("receiving_rate")
    said.told.update(rates)
    end = "sender" if "received" in match["verb"] else "receiver"
    theirs, others = divided(said, match["who"], end, rates)
    assert max(theirs.values()) < min(others.values())
    assert 1.5 * fmean(theirs.values()) < fmean(others.values())
    check_range(match["span"], theirs)
    check_range(match["others"], others)
    check_delay(said, match, list(rates))


@rule(r"packets (?P<way>to|from) (?P<who>.+?) take (?P<span>.+?), (?:to|from) the others (?P<others>.+)")
def check_uneven_delays(said: Said, match: re.Match[str]) -> None:
    end = "receiver" if match["way"] == "to" else "sender"
    theirs, others = divided(said, match["who"], end, said.of("one_way_delay"))
    assert min(theirs.values()) > max(others.values())
    assert fmean(theirs.values()) > 1.5 * fmean(others.values())
    check_range(match["span"], theirs)
    check_range(match["others"], others)


def divided(
    said: Said, who: str, end: str, values: Mapping[str, float]
) -> tuple[dict[str, float], dict[str, float]]:
    """The values of the flows to or from the named participants, and of the other flows."""
    named = re.split(r", | and ", who)
    flows = said.run.traces[0].manifest.flows
    theirs = {flow: value for flow, value in values.items() if getattr(flows[flow], end) in named}
    others = {flow: value for flow, value in values.items() if flow not in theirs}
    assert theirs, who
    assert others, who
    return theirs, others


def check_range(text: str, values: Mapping[str, float]) -> None:
    """Checks a range or a single figure, however much the values differ."""
    figures = [found.groupdict() for found in FIGURE.finditer(text.removeprefix("up to "))]
    unit = figures[-1]["unit"]
    assert close(figures[-1]["number"], unit, max(values.values())), (text, values)
    if not text.startswith("up to "):
        assert close(figures[0]["number"], figures[0]["unit"] or unit, min(values.values())), (text, values)


@rule(rf"{RATE} used (?P<span>.+?) of (?P<capacity>the capacity|[\d.]+ [kM]bit/s){DELAY}(?P<rtp>)")
def check_share(said: Said, match: re.Match[str]) -> None:
    used = {flow: value for (name, flow), value in said.means.items() if name == "utilisation"}
    flows = flows_meant(said, match["subject"], used)
    check_span(match["span"], said.of("utilisation", flows))
    if match["capacity"] != "the capacity":
        number, unit = match["capacity"].split()
        for trace in said.run.traces:
            for flow in flows:
                route = trace.manifest.flows[flow].route
                of_route = (
                    trace.table("paths").filter(pl.col("path").is_in(route))["capacity_bps"].drop_nulls()
                )
                assert of_route.min() == float(number) * SIZES[unit] * 1000
    check_delay(said, match, flows)


def check_delay(said: Said, match: re.Match[str], flows: Sequence[str]) -> None:
    metric = {"round-trip time": "rtt", "one-way delay": "one_way_delay", None: ""}[match["delay"]]
    if match["rtp"]:
        flows = said.media  # the two ends of a log know different directions
    if metric:
        check_span(match["delays"], said.of(metric, flows))
    else:
        # One sentence in a verdict has the delay.
        assert "sent" in match[0] or not said.of("rtt", flows)
    if metric == "one_way_delay":
        assert not said.of("rtt", flows)


@rule(r"TCP cross traffic received (?P<number>[\d.]+) (?P<unit>[kM]bit/s)")
def check_tcp(said: Said, match: re.Match[str]) -> None:
    assert close(match["number"], match["unit"], sum(said.of("receiving_rate", said.tcp).values()))
    spans = {(said.run.traces[0].manifest.flows[flow].end_ns) for flow in said.tcp}
    begins = [said.run.traces[0].manifest.flows[flow].begin_ns for flow in said.tcp]
    begin_ns = (said.window or (0.0, 0.0))[0] * NS_PER_S
    assert len(spans) == 1
    assert max(begins) - min(begins) < NS_PER_S or begin_ns >= max(begins)


@rule(r"pictures took (?P<span>.+) from camera to screen")
def check_lateness(said: Said, match: re.Match[str]) -> None:
    check_span(match["span"], said.of("picture_delay"))


@rule(
    r"pictures to (?P<who>.+?) took up to (?P<most>[\d.]+) ms from camera to screen"
    r"(?:, those to the others up to (?P<others>[\d.]+) ms)?"
)
def check_lateness_of_receivers(said: Said, match: re.Match[str]) -> None:
    check_receivers(said, match, said.of("picture_delay"), "ms", 250)


@rule(r"(?P<span>.+) of packets were lost")
def check_loss(said: Said, match: re.Match[str]) -> None:
    check_span(match["span"], said.of("packet_loss"))


@rule(
    r"up to (?P<most>[\d.]+) % of packets to (?P<who>.+?) were lost"
    r"(?:, to the others (?:none|up to (?P<others>[\d.]+) %))?"
)
def check_loss_of_receivers(said: Said, match: re.Match[str]) -> None:
    check_receivers(said, match, said.of("packet_loss"), "%", 0.05)


@rule(r"(?P<span>.+) of the bytes sent(?: to (?P<who>.+))? were retransmissions")
def check_repeated(said: Said, match: re.Match[str]) -> None:
    shares = said.of("retransmission_share", said.media)
    many = {flow: share for flow, share in shares.items() if share >= 20}
    check_span(match["span"], many)
    receivers = {flow.partition("->")[2] for flow in many}
    named = set(re.split(r", | and ", match["who"])) if match["who"] else receivers
    assert named == receivers
    assert match["who"] or len(many) == len(shares)


@rule(r"(?:the processor limits|processors limit) the video of (?P<who>.+)")
def check_processors(said: Said, match: re.Match[str]) -> None:
    limited = said.of("cpu_limited", said.media)
    senders = {flow.partition("->")[0] for flow, percent in limited.items() if percent >= 5}
    assert set(re.split(r", | and ", match["who"])) == senders


def pictures(said: Said, flow: str) -> list[float]:
    """Pictures of a flow that were shown per second in the window, in each repeat, while it lasted."""
    begin_s, end_s = said.window or (0.0, float("inf"))
    rates = []
    for trace in said.run.traces:
        about = trace.manifest.flows[flow]
        from_s, to_s = max(about.begin_ns / NS_PER_S, begin_s), min(about.end_ns / NS_PER_S, end_s)
        at_s = trace.table("frames").filter(flow=flow)["rendered_ns"].drop_nulls() / NS_PER_S
        rates.append(((at_s >= from_s) & (at_s < to_s)).sum() / (to_s - from_s))
    return rates


def flows_of_pairs(said: Said, who: str, whom: str) -> list[str]:
    """The flows from all senders to all receivers that are named."""
    receivers, senders = (re.split(r", | and ", names) for names in (who, whom))
    flows = said.run.traces[0].manifest.flows
    return [
        name for name in said.media if flows[name].receiver in receivers and flows[name].sender in senders
    ]


@rule(r"(?P<who>.+?) saw no picture of (?P<whom>.+?)(?: in (?P<count>\d+) of (?P<of>\d+) repeats)?")
def check_no_pictures(said: Said, match: re.Match[str]) -> None:
    flows = flows_of_pairs(said, match["who"], match["whom"])
    assert flows, match[0]
    for flow in flows:
        # Who connects near the end of the window misses no picture in it.
        watched = [is_watched(trace, flow) for trace in said.run.traces]
        blank = sum(rate == 0 and seen for rate, seen in zip(pictures(said, flow), watched, strict=True))
        assert blank == int(match["count"] or len(said.run.traces))
    said.unseen.update(flows)


@rule(r"(?P<who>.+?) saw fewer than 1 picture a second of (?P<whom>.+?)")
def check_few_pictures(said: Said, match: re.Match[str]) -> None:
    flows = flows_of_pairs(said, match["who"], match["whom"])
    assert flows, match[0]
    for flow in flows:
        assert 0 < fmean(pictures(said, flow)) < 1.1  # decoded and shown pictures differ by one at the edges
    said.unseen.update(flows)


@rule(r"no video freezes")
def check_no_freezes(said: Said, match: re.Match[str]) -> None:
    assert max(said.frozen.values()) < 0.05


@rule(r"video froze for (?P<span>.+) per minute")
def check_freezes(said: Said, match: re.Match[str]) -> None:
    check_span(match["span"], said.frozen)


@rule(
    r"(?P<who>.+?) sees? freezes of up to (?P<most>[\d.]+) s per minute"
    r"(?:, the others (?:none|up to (?P<others>[\d.]+) s))?"
)
def check_freezes_of_receivers(said: Said, match: re.Match[str]) -> None:
    check_receivers(said, match, said.frozen, "s", 0.05)


def check_receivers(
    said: Said, match: re.Match[str], values: Mapping[str, float], unit: str, least: float
) -> None:
    flows = said.run.traces[0].manifest.flows
    worst: dict[str, float] = {}
    for flow, value in values.items():
        worst[flows[flow].receiver] = max(worst.get(flows[flow].receiver, 0.0), value)
    named = list(worst) if match["who"] == "all receivers" else re.split(r", | and ", match["who"])
    assert close(match["most"], unit, max(worst[name] for name in named))
    rest = {name: value for name, value in worst.items() if name not in named}
    assert max(rest.values(), default=0.0) < min(worst[name] for name in named)
    if match["others"]:
        assert close(match["others"], unit, max(rest.values()))
    else:
        assert max(rest.values(), default=0.0) < least


@rule(r"set-up took (?P<span>.+)")
def check_set_up(said: Said, match: re.Match[str]) -> None:
    check_span(match["span"], {flow: value / 1000 for flow, value in said.of("setup_time").items()})
    for trace in said.run.traces:
        shown = trace.table("events").filter(pl.col("event") == "first_frame")["at_ns"] / NS_PER_S
        begin_s, end_s = said.window or (0.0, float("inf"))
        assert shown.is_between(begin_s, end_s).any()


@rule(r"(?P<failed>\d+) of (?P<all>\d+) repeats failed")
def check_failed(said: Said, match: re.Match[str]) -> None:
    statuses = [repeat.status for repeat in said.run.repeats]
    assert (int(match["failed"]), int(match["all"])) == (statuses.count("failed"), len(statuses))


@rule(r"no repeat finished \((?P<reason>.+)\)")
def check_nothing_finished(said: Said, match: re.Match[str]) -> None:
    assert not said.run.traces
    assert match["reason"] == said.run.repeats[0].reason


def check_verdict(sentence: str, said: Said) -> None:
    assert sentence.endswith(".")
    assert sentence[0].isupper() or not sentence[0].isalpha()
    whole = f"{sentence[0].lower()}{sentence[1:-1]}".replace("tCP cross", "TCP cross")
    # A reason in parentheses is one part, whatever it contains.
    parts = re.split(r"; (?![^(]*\))", whole)
    for part in parts:
        matching = [(pattern, found) for pattern in RULES if (found := re.fullmatch(pattern, part))]
        assert matching, f"no rule for {part!r}"
        pattern, found = matching[0]
        RULES[pattern](said, found)
    # What is bad is never left out.
    text = "; ".join(parts)
    if not said.run.traces:
        return
    if said.run.backend == "sim" and (said.window is None or said.window[1] - said.window[0] > 1):
        assert said.unseen >= {flow for flow in said.of("freeze_duration") if not max(pictures(said, flow))}
    assert ("froze" in text or "freezes of" in text) == (max(said.frozen.values(), default=0) >= 0.05)
    assert ("were lost" in text) == (max(said.of("packet_loss").values(), default=0) >= 0.05)
    # From 150 to 400 ms on, a conversation suffers (ITU-T G.114).
    assert ("pictures t" in text) == (max(said.of("picture_delay").values(), default=0) >= 250)
    shares = said.of("retransmission_share", said.media).values()
    assert ("were retransmissions" in text) == (max(shares, default=0) >= 20)
    limited = said.of("cpu_limited", said.media).values()
    assert ("limit" in text and "the video of" in text) == (max(limited, default=0) >= 5)
    assert "set-up" in text if said.of("setup_time") else "set-up" not in text
    assert said.told
    rates = ("receiving_rate", "stats_receiving_rate", "stats_sending_rate")
    assert said.told >= {flow for flow in said.media if any(said.of(rate, [flow]) for rate in rates)}


# --- the runs ----------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Run]:
    """A short run of each kind."""
    out = tmp_path_factory.mktemp("runs")
    made: dict[str, Run] = {}
    for name, text in SCENARIOS.items():
        file = out / f"{name.replace(' ', '-')}.toml"
        file.write_text(f"name = '{file.stem}'\n{text}")
        capture = name == "two"
        made[name] = rtclab.run(file, out=out, jobs=1, progress=False, capture=capture).run
    partly = rtclab.run(out / "two.toml", out=out, jobs=1, progress=False).path
    store = Store(partly)
    store.plan(3)
    store.add([Result(0, Repeat(2, seed=7, status="failed", reason="died"))], code="")
    made["partly failed"] = store.run()
    made["failed"] = rtclab.run(
        "first-call", set={"link.up.loss": "100 %"}, duration="2 s", repeats=1, out=out, progress=False
    ).run
    made |= imports(out, made["two"].repeat_path(0) / "capture.pcapng")
    return made


def imports(out: Path, capture: Path) -> dict[str, Run]:
    dump, rtcstats = out / "dump.txt", out / "stats.jsonl"
    dump.write_text(FILES["internals"])
    rtcstats.write_text(FILES["version 3"])
    logs = {"event log": EVENT_LOGS[:1], "two event logs": EVENT_LOGS, "dump": [dump], "rtcstats": [rtcstats]}
    made: dict[str, Run] = {name: lab.import_files(files, out=out).run for name, files in logs.items()}
    made["capture"] = lab.import_files(capture, names={"10.0.0.1": "alice", "10.0.0.2": "bob"}, out=out).run
    return made


def page_of(run: Run) -> str:
    return write_report(run).read_text(encoding="utf-8")


def leads(page: str) -> list[str]:
    """The verdicts of a page: the lead, unless it is about marks."""
    return [
        html.unescape(lead) for lead in re.findall(r'<p class="(?:lead|told)">(.*?)</p>', page, re.DOTALL)
    ]


def facts(page: str) -> list[tuple[str, str]]:
    """The pairs of name and value on a page."""
    pairs = re.findall(r"<dt>(.*?)</dt><dd>(.*?)</dd>", page)
    return [(html.unescape(name), html.unescape(value)) for name, value in pairs]


KINDS = (*SCENARIOS, *IMPORTS, "partly failed", "failed")


@pytest.mark.parametrize("kind", KINDS)
def test_the_verdict_of_a_report_says_what_the_table_says(runs: dict[str, Run], kind: str) -> None:
    (sentence,) = leads(page_of(runs[kind]))
    check_verdict(sentence, Said(runs[kind]))


PAIRS = [("two", "lossy"), ("beside tcp", "beside tcp in turn"), ("sfu", "mesh"), ("two", "event log")]


@pytest.mark.parametrize("window", WINDOWS)
@pytest.mark.parametrize("pair", PAIRS)
def test_the_verdicts_of_a_comparison_are_about_its_window(
    runs: dict[str, Run], tmp_path: Path, pair: tuple[str, str], window: Window | None
) -> None:
    a, b = (replace(runs[kind], window=window) for kind in pair)
    page = write_comparison({"a": a, "b": b}, tmp_path / "page.html").read_text(encoding="utf-8")
    said = re.findall(r'<p class="of-run"><strong>[ab]:</strong> <span>(.*?)</span></p>', page, re.DOTALL)
    for sentence, run, other in zip(map(html.unescape, said), (a, b), (b, a), strict=True):
        check_verdict(sentence, Said(run, window, other))
    claimed = re.search(r"Comparison from ([\d.]+) s to ([\d.]+) s", page)
    assert (claimed and tuple(map(float, claimed.groups()))) == window


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "failed"])
def test_the_calls_on_a_page_have_the_participants_and_the_media_of_the_tables(
    runs: dict[str, Run], kind: str
) -> None:
    run = runs[kind]
    (said,) = (value for name, value in facts(page_of(run)) if name == "Call")
    manifest = run.traces[0].manifest
    sent: dict[str, set[str]] = {}
    for table in ("outbound_rtp", "inbound_rtp", "packets"):
        for trace in run.traces:
            rows = trace.table(table) if table in trace.tables else pl.DataFrame({"flow": [], "kind": []})
            for flow, what in rows.select("flow", "kind").unique().drop_nulls().iter_rows():
                if what in ("audio", "video") and flow in manifest.flows:
                    sent.setdefault(what, set()).add(manifest.flows[flow].sender)
    call, *traffic = said.split("; ")
    senders = {"bob"} if kind == "star" else set(manifest.participants)
    if "with" in call.split():
        for part in call.rpartition(" with ")[2].split(" and "):
            what, _, who = part.partition(" from ")
            named = {who} if who else senders
            # One end's log cannot tell what the other sent and nobody received.
            assert named == sent[what] & set(manifest.participants)
        assert {what for what in sent if what in call} == sent.keys()
    else:
        assert not sent
        assert call.endswith("without media")
    if kind == "star":
        assert call.startswith("bob sends to alice and carol")
    else:
        assert all(name in call for name in manifest.participants)
    for sentence in traffic:
        match = re.fullmatch(r"(\w+) is (a|\d+) .+ flows? from (\w+) to (\w+)", sentence)
        assert match is not None, sentence
        flows = [
            flow
            for name, flow in manifest.flows.items()
            if name.partition(".")[0] == match[1] and flow.acknowledges is None
        ]
        assert len(flows) == (1 if match[2] == "a" else int(match[2]))
        assert {(flow.sender, flow.receiver) for flow in flows} == {(match[3], match[4])}
    assert len(traffic) == len(
        {name.partition(".")[0] for name in Said(run).tcp} | ({"probe"} & {*manifest.flows})
    )


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "failed"])
def test_the_network_on_a_page_is_that_of_the_table_of_paths(runs: dict[str, Run], kind: str) -> None:
    run = runs[kind]
    said = [(name, value) for name, value in facts(page_of(run)) if name.startswith("Network: ")]
    paths = run.traces[0].table("paths").sort("at_ns").unique("path", keep="first")
    assert bool(said) == (kind not in IMPORTS)
    known = {
        path: (bps, delay)
        for path, bps, delay in paths.select("path", "capacity_bps", "one_way_delay_ms").iter_rows()
    }
    named = [(path, words) for names, words in said for path in names.removeprefix("Network: ").split(", ")]
    assert known.keys() <= {path for path, _ in named}
    for path, words in named:
        capacity_bps, delay_ms = known.get(path, (None, 0.0))
        capacity = re.search(r"capacity ([\d.]+) ([kM]bit/s)", words)
        assert ("unlimited" in words) == (capacity_bps is None)
        assert capacity_bps == (capacity and float(capacity[1]) * SIZES[capacity[2]] * 1000)
        delay = re.search(r"delay ([\d.]+) (ms|s)", words)
        assert delay is not None
        assert float(delay[1]) == delay_ms


CONTROLS = dict.fromkeys(SCENARIOS, "goog-cc") | {
    "own control": "goog-cc (alice), gcc-2016 (bob)",
    "event log": "goog-cc",
    "two event logs": "goog-cc",
    "partly failed": "goog-cc",
    "failed": "goog-cc",
}


@pytest.mark.parametrize("kind", KINDS)
def test_the_facts_on_a_page_are_those_of_the_run(runs: dict[str, Run], kind: str) -> None:
    run, said = runs[kind], dict(facts(page_of(runs[kind])))
    finished = [repeat for repeat in run.repeats if repeat.status == "finished"]
    assert said["Repeats"] == f"{len(finished)} of {len(run.repeats)} finished"
    backends = {
        "sim": "simulated (virtual time)",
        "log": "imported log of a browser",
        "capture": "imported capture",
    }
    assert said["Backend"] == backends[run.backend]
    assert said.get("Congestion control") == CONTROLS.get(kind)
    assert said.get("Feedback") == ("transport-wide" if "event log" in kind else None)
    assert "ECN" not in said
    for trace in run.traces if "event log" in kind else ():
        assert {"delay_based_bps", "loss_ratio"} & {*trace.table("controller")["name"]}


@pytest.mark.parametrize("window", WINDOWS)
def test_the_command_compare_counts_repeats_tests_and_stars_right(
    runs: dict[str, Run], tmp_path: Path, capsys: pytest.CaptureFixture[str], window: Window | None
) -> None:
    def said(*arguments: str) -> str:
        with pytest.raises(SystemExit):
            main(["compare", *names, *limits, "--page", str(page), *arguments])
        return capsys.readouterr().out

    page = tmp_path / "page.html"
    names = [str(runs[kind].path) for kind in ("two", "beside tcp")]
    limits = [] if window is None else ["--from", f"{window[0]}s", "--to", f"{window[1]}s"]
    rows = json.loads(said("--json"))["metrics"]
    marked = [row for row in rows if row["significant"]]
    tested = [row for row in rows if row["p"] is not None]
    printed = said("--all")
    over = "6 s" if window is None else f"{window[0]:g} s to {window[1]:g} s of 6 s"
    assert printed.count(f", simulated, {over}: mean of 2 repeats\n") == 2
    assert f"* where it is more than chance ({len(tested)} paired tests, Holm, 5 %)" in printed
    assert sum(
        " * " in line or " *= " in line for line in printed.split(" tests, ")[1].splitlines()[1:]
    ) == len(marked)
    too_few = [row["repeats_needed"] for row in rows if row["verdict"] == "too few repeats to tell"]
    given = re.findall(r" n([=>])(\d+|\?) ", printed.partition("n: too few repeats;")[0])
    assert len(given) == len(too_few)
    assert sorted(int(number) for sign, number in given if sign == "=" and number != "?") == sorted(
        needed for needed in too_few if needed is not None and needed <= 1000
    )
    text = page.read_text(encoding="utf-8")
    assert f"where it is more than chance ({len(tested)} paired tests, Holm, 5 %)" in text
    assert len(re.findall(r'<td[^>]*><span class="significant">', text)) == len(marked)


def test_the_page_of_a_sweep_counts_its_points_and_repeats(tmp_path: Path) -> None:
    grid = rtclab.sweep(
        "first-call",
        {"link.up.loss": ["0 %", "100 %"]},
        repeats=2,
        duration="2 s",
        out=tmp_path,
        progress=False,
    )
    page = grid.report().read_text(encoding="utf-8")
    said = dict(facts(page))
    assert said["Conditions"] == str(grid.metrics()["condition"].n_unique()) == "2"
    assert said["Repeats"] == "2 of each, with the same seeds"
    failed = grid.failures()
    assert page.count("did not connect within") == failed.height == 2
    assert set(failed["link.up.loss"]) == {"100 %"}


@pytest.mark.parametrize(
    "path", ["examples/wifi", "examples/mobile-3g", "examples/parallel-calls", "first-call"]
)
def test_a_path_is_called_unlimited_only_if_nothing_limits_it(
    path: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        main(["show", path])
    network = Scenario.load(path).native(seed=0)["network"]
    assert isinstance(network, dict)
    limited = {
        one["name"]: one["capacity"] is not None or one["wifi"] is not None for one in network["paths"]
    }
    lines = {line.split()[0]: line for line in capsys.readouterr().out.splitlines() if line}
    shown = lines.keys() & limited.keys()
    assert len(shown) > 1
    assert {name for name in shown if "unlimited" not in lines[name]} == {
        name for name in shown if limited[name]
    }
