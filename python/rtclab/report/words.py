"""Text for reports: numbers, calls, networks, versions and machines."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from math import isnan
from typing import Any, TypeVar

import polars as pl

from rtclab.metrics import media_flows
from rtclab.phrases import decimals, field_trials, names_in_words, path_in_words, value_in_words
from rtclab.scenario.ignored import LIVE, SIM, ignored_fields
from rtclab.scenario.rate_traces import doubts
from rtclab.trace import NS_PER_MS, Machine, ModesInUse, Run, Trace

Key = TypeVar("Key")
Value = TypeVar("Value")
MISSING = "–"
LOGGED_BY = {"SCReAM": {"ref_window_bytes"}, "goog-cc": {"delay_based_bps", "loss_ratio"}}
"""By congestion control of a browser, values that its event log has only if it ran."""
FEEDBACK = {"transport-wide": "transport_wide_packets", "RFC 8888": "rfc8888_packets"}
"""By kind of feedback, the value that counts the packets in it."""
KINDS = {"transport-wide": "transport-wide", "rfc8888": "RFC 8888", "remb": "REMB"}
"""Names for readers of the kinds of feedback that a manifest has."""
CODEPOINTS = {"ect1": "ECT(1)", "ect0": "ECT(0)", "ce": "CE"}
"""Names for readers of the codepoints of ECN-capable packets."""
ASKED = {"scream": "SCReAM", "goog-cc": "goog-cc"}
"""Controls of scenarios that an event log of a browser tells apart, with their names for readers."""
WANTED = {"goog-cc": "transport-wide", "remb": "remb"}
"""The feedback of a control in live calls, unless its stack has another one."""
MEDIA = ("video", "audio")
IMPORTED = ("log", "capture")
"""Backends whose runs have no scenario that says what ran."""
MOST_IGNORED = 6
"""Further fields without effect are counted."""
MOST_NAMES = 8
"""Longer lists of names are abbreviated."""


def number(value: float | None, like: float | None = None) -> str:
    """Formats a number with three or four digits and no exponent.

    Whole numbers have no decimals. If ``like`` is given, the number has as many decimals as ``like``. None
    and NaN become a dash.
    """
    if value is None or isnan(value):
        return MISSING
    is_whole = value == 0 or (like is None and value == int(value))
    text = f"{value:.{0 if is_whole else decimals(value if like is None else like)}f}"
    return text.replace("-", "" if float(text) == 0 else "−")


def brief(value: float) -> str:
    """A number with three digits, as one says it: ``11.5``, ``346``, ``1840``."""
    return f"{value:.0f}" if abs(value) >= 100 else f"{float(f'{value:.3g}'):g}"


def grouped(pairs: Iterable[tuple[Key, Value]]) -> dict[Key, list[Value]]:
    """The second ones of pairs by the first one."""
    found: dict[Key, list[Value]] = {}
    for key, value in pairs:
        found.setdefault(key, []).append(value)
    return found


def kind_in_words(backend: str) -> str:
    """What kind of run a backend makes: ``simulated`` or ``imported log``."""
    kinds = {"sim": "simulated", "log": "imported log", "capture": "imported capture"}
    return kinds.get(backend, backend)


def flow_in_words(flow: str) -> str:
    """The flow's name for readers: ``alice → bob`` for ``alice->bob``."""
    return flow.replace("->", " → ")


def calls_of(run: Run) -> str:
    """One sentence on the calls and the cross traffic of a run."""
    return _imported_calls(run.traces) if run.backend in IMPORTED else calls(run.scenario)


def calls(scenario: Mapping[str, Any]) -> str:
    """One sentence on the calls and the cross traffic of a scenario, which is given as JSON values."""
    everybody = list(scenario.get("participants", {}))
    if not everybody:
        return ""
    pages = [name for name, own in scenario["participants"].items() if own.get("page")]
    calls = scenario.get("calls") or ([] if pages else [{"participants": everybody}])
    alike = Counter(f"{_call(call)} {_media(scenario, call)}" for call in calls)
    parts = [f"{call}, in {count} calls" if count > 1 else call for call, count in alike.items()]
    if pages:
        addresses = dict.fromkeys(_place(scenario["participants"][name]["page"]) for name in pages)
        parts.append(f"{_names(pages)} open {_names([*addresses])}")
    parts += [_traffic(name, traffic) for name, traffic in scenario.get("traffic", {}).items()]
    return "; ".join(parts)


def _place(page: str) -> str:
    """A page without its query, or the name of its file."""
    return page.partition("?")[0] if "://" in page else page.rpartition("/")[2]


def _imported_calls(traces: Sequence[Trace]) -> str:
    """The calls of a log or a capture, with the kinds of media that the trace has."""
    kinds: set[str] = set()
    for trace in traces:
        for table in {"packets", "inbound_rtp", "outbound_rtp"}.intersection(trace.tables):
            kinds.update(trace.table(table)["kind"].unique().drop_nulls())
    sent = [kind for kind in MEDIA if kind in kinds]
    parts = [f"{_names(call.participants)} call each other" for call in traces[0].manifest.calls]
    about, media = traces[0].manifest, media_flows(traces[0])
    ends = [(flow.sender, flow.receiver) for name, flow in about.flows.items() if name in media]
    if not parts:
        between = dict.fromkeys(name for pair in ends for name in pair) or about.participants
        parts = [f"packets between {_names([*between])}"]
    return "; ".join(f"{part} with {' and '.join(sent)}" if sent else part for part in parts)


def _call(call: Mapping[str, Any]) -> str:
    names = call["participants"]
    root = call.get("root") or names[0]
    others = _names([name for name in names if name != root])
    match call.get("kind", "p2p"):
        case "sfu" | "mcu" | "mixing-mcu" as kind:
            return f"{_names(names)} meet through the {_servers(kind, call)}"
        case "star":
            return f"{root} sends to {others}"
        case "tree":
            return f"{root} sends to {others} over a tree"
        case "hub-and-spoke":
            return f"{others} meet through {root}"
    relay = f" through the relay {call['relay']}" if call.get("relay") else ""
    return f"{_names(names)} call each other{relay}"


def _servers(kind: str, call: Mapping[str, Any]) -> str:
    """An SFU or MCU by its name, or all of a cascade."""
    name = "mixing MCU" if kind == "mixing-mcu" else kind.upper()
    if call.get("servers"):
        return f"{name}s {_names([*call['servers']])}"
    return f"{name} {call.get('server') or ''}".rstrip()


def _media(scenario: Mapping[str, Any], call: Mapping[str, Any]) -> str:
    """The media that the participants of a call send, and who sends it unless all do."""
    names = call["participants"]
    if call.get("kind") in ("star", "tree"):
        names = [call.get("root") or names[0]]
    sent = []
    for kind in MEDIA:
        senders = [name for name in names if _sends(scenario, scenario["participants"][name], kind)]
        if senders:
            sent.append(kind if len(senders) == len(names) else f"{kind} from {_names(senders)}")
    return f"with {' and '.join(sent)}" if sent else "without media"


def _sends(scenario: Mapping[str, Any], participant: Mapping[str, Any], kind: str) -> bool:
    own = participant.get(kind)
    return own is not False and bool(own or scenario.get(kind))


def _traffic(name: str, traffic: Mapping[str, Any]) -> str:
    number = traffic.get("flows", 1)
    udp = traffic.get("protocol") == "udp"
    kind = f"{traffic.get('rate')} UDP" if udp else f"{traffic.get('congestion_control') or ''} TCP".strip()
    many = f"{number} {kind} flows" if number > 1 else f"a {kind} flow"
    many += " with ECN" if traffic.get("ecn") else ""
    return f"{name} is {many} from {traffic['sender']} to {traffic['receiver']}"


def _names(names: Sequence[str]) -> str:
    """All names, or the length and both ends of a long list."""
    if len(names) > MOST_NAMES:
        return f"{len(names)} participants ({names[0]}, {names[1]} … {names[-1]})"
    return names_in_words(names, MOST_NAMES)


def network_of(run: Run) -> list[tuple[str, str]]:
    """As :func:`network`; none for a log or a capture, whose network is unknown."""
    return [] if run.backend in IMPORTED else network(run.scenario)


def network(scenario: Mapping[str, Any]) -> list[tuple[str, str]]:
    """The paths of a scenario, which is given as JSON values: pairs of names and a description.

    Paths with the same description share a pair.
    """
    alike = grouped((path_in_words(path), name) for name, path in _paths(scenario))
    return [(_path_names(names), description) for description, names in alike.items()]


def _path_names(names: Sequence[str]) -> str:
    if len(names) <= MOST_NAMES:
        return ", ".join(names)
    return f"{names[0]}, {names[1]} … {names[-1]} ({len(names)} paths)"


def _paths(scenario: Mapping[str, Any]) -> list[tuple[str, Mapping[str, Any]]]:
    paths = []
    for name, node in [*scenario.get("participants", {}).items(), *scenario.get("servers", {}).items()]:
        link = node.get("link") or scenario.get("link") or {}
        sides = ["both"] if link.get("both") else ["up", "down"]
        paths += [(f"{name}.{side}", link.get(side) or {}) for side in sides]
    return paths + list(scenario.get("bottlenecks", {}).items())


def machine_in_words(known: Machine | None) -> str:
    """Processor, cores, memory and operating system of a machine; empty if the machine is unknown."""
    if known is None:
        return ""
    parts = [
        known.processor,
        f"{known.cores} cores" if known.cores else "",
        f"{known.memory_bytes / 1e9:.1f} GB" if known.memory_bytes else "",
        f"{known.system} {known.kernel}",
    ]
    return ", ".join(filter(None, parts))


def versions(run: Run) -> str:
    """Versions of the software that made the run, including the browser of a live run."""
    browsers = [trace.manifest.browser for trace in run.traces if trace.manifest.browser]
    return ", ".join([*(f"{name} {version}" for name, version in run.versions.items()), *browsers[:1]])


def lateness(traces: list[Trace]) -> str:
    """How late packets left the emulator in the worst repeat; empty for a simulated run."""
    known = [trace.manifest.lateness for trace in traces if trace.manifest.lateness]
    if not known:
        return ""
    worst = max(known, key=lambda entry: entry.p99_ns)
    late = sum(entry.late for entry in known)
    verdict = f"{late} of {len(traces)} repeats are marked late" if late else "no repeat is marked late"
    p99_ms, largest_ms, bound_ms = (
        number(ns / NS_PER_MS) for ns in (worst.p99_ns, max(entry.max_ns for entry in known), worst.bound_ns)
    )
    return f"99th percentile {p99_ms} ms, largest {largest_ms} ms (bound {bound_ms} ms); {verdict}"


def finished(run: Run) -> str:
    """How many of the planned repeats finished: ``3 of 5``, or ``5`` if all did."""
    return str(run.planned) if run.finished == run.planned else f"{run.finished} of {run.planned}"


def controls(run: Run) -> list[tuple[str, str]]:
    """What controlled the rates, as pairs of name and value.

    Of a simulated run it is what the scenario says. Of browsers it is what their event logs say: a browser
    may use another control than the scenario's authors meant.
    """
    if run.backend not in (*IMPORTED, LIVE):
        scenario = run.scenario
        configured = {
            name: (participant.get("congestion_control") or scenario.get("congestion_control") or {}).get(
                "name"
            )
            for name, participant in scenario.get("participants", {}).items()
        }
        named = {name: _without_directories(of or "") for name, of in configured.items()}
        return [("Congestion control", _of_each(named))]
    recorded, wire = _recorded_values(run.traces), _wire(run.traces)
    trials = "; ".join(f"{given} ({_names(names)})" for given, names in _trials(run).items())
    ecn = {name: _ecn(values) for name, values in recorded.items() if "rfc8888_packets" in values}
    used = {
        name: " and ".join(control for control, names in LOGGED_BY.items() if names & values.keys())
        for name, values in recorded.items()
    }
    unknown = "not recorded" if run.backend == LIVE else ""
    # The wire shows what the receiver sent; of a relayed flow only the event log of the sender knows it.
    feedback = {
        name: " and ".join(kind for kind, counted in FEEDBACK.items() if counted in values)
        for name, values in recorded.items()
    }
    feedback |= {name: seen for name, (kinds, _) in wire.items() if (seen := _kinds(kinds))}
    return [
        ("Congestion control", _of_each({name: control or unknown for name, control in used.items()})),
        ("Feedback", _of_each(feedback)),
        ("ECN sent", _of_each({name: _sent_with(sent) for name, (_, sent) in wire.items()})),
        ("ECN", _of_each(ecn)),
        ("Field trials", f"{trials} as given; Chromium ignores unknown names" if trials else ""),
    ]


def _trials(run: Run) -> dict[str, list[str]]:
    """The field trials of browsers, each with its participants: as they were started, or as given."""
    given = [(trials, name) for one in run.traces for name, trials in one.manifest.field_trials.items()]
    return grouped(dict.fromkeys(given)) or field_trials(run.scenario)


def _wire(traces: Sequence[Trace]) -> dict[str, tuple[set[str], Counter[str]]]:
    """By sender, the kinds of feedback on its flows, and its RTP packets by codepoint, in live calls."""
    found: dict[str, tuple[set[str], Counter[str]]] = {}
    for trace in traces:
        for flow, used in trace.manifest.used.items():
            kinds, sent = found.setdefault(trace.manifest.flows[flow].sender, (set(), Counter()))
            kinds.update(used.feedback)
            sent.update(used.ecn)
    return found


def _kinds(feedback: Collection[str]) -> str:
    return " and ".join(name for kind, name in KINDS.items() if kind in feedback)


def _sent_with(sent: Mapping[str, int]) -> str:
    """The shares of RTP packets that left ECN-capable; empty if none did."""
    total = sum(sent.values())
    shares = [
        f"{number(100 * sent[codepoint] / total)} % of the RTP packets with {name}"
        for codepoint, name in CODEPOINTS.items()
        if sent.get(codepoint)
    ]
    return " and ".join(shares)


def used_caution(run: Run) -> str:
    """A sentence on the flows of a live run that did not use what the scenario asks for; otherwise empty."""
    differences = [
        (_difference(run.scenario, trace.manifest.flows[flow].sender, used), flow_in_words(flow))
        for trace in run.traces
        for flow, used in trace.manifest.used.items()
    ]
    said = grouped(dict.fromkeys(differences))
    return " ".join(f"{_names(flows)} used {difference}." for difference, flows in said.items() if difference)


def _without_directories(control: str) -> str:
    """The name of a control; of a file of the user's own, without its directories."""
    return re.sub(r"(?:(?<=:)|^)[^:]*/", "", control)


def _difference(scenario: Mapping[str, Any], sender: str, used: ModesInUse) -> str:
    """What a sender's flow used in place of what the scenario asks for; empty if there is no difference."""
    about = scenario.get("participants", {}).get(sender)
    if about is None or about.get("page"):
        return ""
    asked = about.get("congestion_control") or scenario.get("congestion_control") or {}
    name = asked.get("name", "goog-cc")
    wanted = "rfc8888" if name == "scream" or asked.get("stack") else WANTED.get(name)
    parts = []
    if used.control is not None and used.control != name and name in ASKED:
        parts.append(f"{ASKED[used.control]}, though the scenario asks for {ASKED[name]}")
    if wanted is not None and used.feedback and set(used.feedback) != {wanted}:
        parts.append(
            f"feedback of kind {_kinds(used.feedback)}, though the scenario asks for {KINDS[wanted]}"
        )
    return ", and ".join(parts)


def _recorded_values(traces: Sequence[Trace]) -> dict[str, dict[str, float]]:
    """By participant that sent media, the sum of each value that its congestion control recorded."""
    found: dict[str, dict[str, float]] = {}
    for trace in traces:
        rows = trace.table("controller").group_by("participant", "name").agg(pl.col("value").sum())
        sums = {(participant, name): value for participant, name, value in rows.iter_rows()}
        senders = trace.table("outbound_rtp")["participant"].unique(maintain_order=True).to_list()
        for sender in senders or dict.fromkeys(participant for participant, _ in sorted(sums)):
            of_sender = found.setdefault(sender, {})
            for (participant, name), value in sums.items():
                if participant == sender:
                    of_sender[name] = of_sender.get(name, 0.0) + value
    return found


def _ecn(recorded: Mapping[str, float]) -> str:
    """The shares of marked packets, by the feedback of RFC 8888."""
    reported = recorded["rfc8888_packets"]
    ect1, ce = (100 * recorded.get(name, 0.0) / reported for name in ("ect1_packets", "ce_packets"))
    return f"{number(ect1)} % of the packets arrived with ECT(1), {number(ce)} % with CE"


def _of_each(values: Mapping[str, str]) -> str:
    """A value that all participants have, or each value with its participants; empty ones are left out."""
    of_value = grouped((value, name) for name, value in values.items())
    if len(of_value) == 1:
        return next(iter(of_value))
    return ", ".join(f"{value} ({_names(names)})" for value, names in of_value.items() if value)


def cautions(run: Run) -> list[str]:
    """What a reader must know of a run's results, each in a sentence or two; empty if nothing."""
    janus = janus_caution(run.scenario) if run.backend == LIVE else ""
    used = used_caution(run) if run.backend == LIVE else ""
    mine = [late_warning(run.traces), used, janus, ignored_caution(run)]
    return [*(text for text in mine if text), *doubts(run.scenario)]


def ignored_caution(run: Run) -> str:
    """A sentence on the fields of a simulated run that only live calls use; empty if none is set."""
    ignored = ignored_fields(run.scenario, SIM) if run.backend == SIM else {}
    if not ignored:
        return ""
    given = [f"{path} = {value_in_words(value)}" for path, value in ignored.items()]
    return f"No effect in a simulated call: {names_in_words(given, MOST_IGNORED)}."


def janus_caution(scenario: Mapping[str, Any]) -> str:
    """A sentence on the missing bandwidth estimate of Janus, if a live scenario uses it; otherwise empty."""
    servers = scenario.get("servers", {})
    kinds = {
        servers.get(call.get("server"), {}).get("kind", "janus")
        for call in scenario.get("calls", [])
        if call.get("kind") == "sfu"
    }
    if "janus" not in kinds:
        return ""
    return (
        "The SFU, Janus, does not estimate the bandwidth towards its receivers: it forwards all media, "
        "whatever the receiver's link can carry."
    )


def late_warning(traces: Sequence[Trace]) -> str:
    """Two sentences that warn of the repeats in which the emulator was late; empty if it never was."""
    late = [entry for trace in traces if (entry := trace.manifest.lateness) and entry.late]
    if not late:
        return ""
    worst = max(late, key=lambda entry: entry.p99_ns)
    p99_ms, bound_ms = (number(ns / NS_PER_MS) for ns in (worst.p99_ns, worst.bound_ns))
    up_to = "up to " if len(late) > 1 else ""
    return (
        f"The emulator was late in {len(late)} of {len(traces)} repeats: "
        f"99th percentile {up_to}{p99_ms} ms, bound {bound_ms} ms. "
        "The browsers saw another network than the scenario's."
    )
