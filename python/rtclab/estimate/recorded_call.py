"""A call between two ends as a log or capture knows it: its trace, and what is known of each direction."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import polars as pl

from rtclab import monitoring
from rtclab.errors import BadInput
from rtclab.estimate.excerpt import chosen_window, excerpt_of
from rtclab.estimate.non_rtp import of_capture, of_log
from rtclab.estimate.packets import Packets, packets_of, with_gaps
from rtclab.experiment.flows import matching
from rtclab.experiment.window import Moment
from rtclab.importers import Imported, Names, read_files
from rtclab.importers.addresses import with_first_addresses
from rtclab.importers.files import is_capture
from rtclab.importers.logs.event_packets import SEND_TIME_WRAP, UNITS_PER_SECOND, nearest
from rtclab.metrics.series import Array
from rtclab.monitoring import Tables
from rtclab.trace import BITS_PER_BYTE, NS_PER_S, CallInfo, FlowInfo, Trace, TraceManifest, Window

TWO_POINTS, ONE_POINT, LOG, GETSTATS = "packets of both ends", "one capture", "event log", "getStats"
"""What a direction is estimated from."""

MOST_CAPTURE_BYTES = 2_000_000_000
MOST_PACKETS = 1_000_000
"""Maximum number of packets of a direction, so that time and memory stay bounded: an hour of a call."""
FEWEST_PACKETS = 100
"""Fewer packets of a direction are no call."""

_NAME = re.compile(r"[a-z0-9][a-z0-9_-]{0,39}")
_OTHER_NAMES = ("caller", "callee")
_RESOLUTION_S = {TWO_POINTS: 1e-6, ONE_POINT: 4e-6, LOG: 2.5e-4, GETSTATS: 1e-3}
_CLOCKS_DIFFER = "the clocks of the two ends differ"


@dataclass(frozen=True)
class Direction:
    """What is known of one direction of a call.

    Attributes:
        flow: its name in the trace.
        source: what it is known from.
        packets: its packets; None if their arrivals are not known.
        one_way: whether delays are between two points with one clock. Otherwise only the sum of both
            directions is known.
        round_trip_s: the smallest round trip, in s; None if it is not known.
        one_time: whether the times of sending and of arrival have the same zero. If not, and without round
            trip, packets say how their delays differ, but not how long they are.
    """

    flow: str
    source: str
    packets: Packets | None
    one_way: bool
    round_trip_s: float | None = None
    one_time: bool = True

    @property
    def resolution_s(self) -> float:
        """Resolution of the times of packets, in s."""
        return _RESOLUTION_S[self.source]


@dataclass(frozen=True)
class CallOfTwo:
    """A call of two ends.

    Attributes:
        trace: its trace, with the names of the scenario.
        directions: what is known of each direction that has media.
        origin: names of the files, or of the run.
        names: names of both ends in the source, by their names in the scenario.
        notes: what a reader must know.
        whole: the trace of the whole call, if ``trace`` and ``directions`` are a part of it.
        window: that part, in s.
    """

    trace: Trace
    directions: tuple[Direction, ...]
    origin: str
    names: Mapping[str, str]
    notes: tuple[str, ...]
    whole: Trace
    window: Window | None = None

    @property
    def ends(self) -> tuple[str, str]:
        """The names of both ends in the scenario."""
        first, second = self.names
        return first, second


def read_call(
    files: Sequence[Path],
    *,
    names: Names | None = None,
    sdp: str | None = None,
    same_clock: bool = False,
    flow: str | None = None,
    begin: Moment | None = None,
    end: Moment | None = None,
) -> CallOfTwo:
    """Reads the call of captures or logs.

    Args:
        files: one capture or log, two captures of one call, or the event logs of both ends.
        names: names of the two ends, as for :func:`rtclab.import_files`.
        sdp: session descriptions of a captured call.
        same_clock: whether the machines of two captures had synchronised clocks. Otherwise their difference
            is estimated, and only the sum of the delays of both directions is known.
        flow: the flow to take, if the files have several.
        begin: take the call from this time on, in s or as text such as ``"10s"``.
        end: take the call up to this time.

    Raises:
        BadInput: a file cannot be read, is too large or too long, or has no call or several.
        TraceError: nothing was captured.
    """
    captured = [file for file in files if is_capture(file)]
    for file in captured:
        if file.stat().st_size > MOST_CAPTURE_BYTES:
            raise BadInput(
                f"{file}: larger than {MOST_CAPTURE_BYTES // 10**9} GB",
                hint="keep the headers alone, `editcap -s 200`, or a part of the time, `editcap -A … -B …`",
            )
    two = len(captured) == 2
    if same_clock and not two:
        raise BadInput("same_clock: it is about the clocks of two captures; expected two captures with it")
    imported = read_files(files, names=names, sdp=sdp, corrected=two and not same_clock)
    window = chosen_window(imported.manifest.duration_ns, begin, end)
    origin = " and ".join(file.name for file in files)
    packets = imported.tables.get("packets", pl.DataFrame())
    has_arrivals = "delivered_ns" in packets.columns and not packets["delivered_ns"].is_null().all()
    if len(captured) == 1 and not has_arrivals:
        return _taken(_at_one_point(imported, captured[0], sdp, flow, origin), window)
    call = _whole(Trace.in_memory(imported.tables, imported.manifest), flow, origin, imported.notes)
    call = _with_others_of_captures(call, captured, sdp) if captured else _with_rtcp_of_logs(call, files)
    return _taken(call, window)


def _with_others_of_captures(call: CallOfTwo, captures: Sequence[Path], sdp: str | None) -> CallOfTwo:
    about = call.trace.manifest.capture
    assert about is not None
    seen = [with_first_addresses(monitoring.monitor(file, sdp=sdp, packets=True)) for file in captures]
    directions = []
    for one in call.directions:
        of_flow = call.trace.table("packets").filter(pl.col("flow") == one.flow)
        ssrcs = of_flow["ssrc"].drop_nulls().unique().to_list()
        if one.packets is None:
            directions.append(one)
            continue
        first_s = float(one.packets.sent_s[0])
        # Packets are seen at the sender when they are sent, and later at the receiver.
        ways = [of_capture(tables, ssrcs, about.begin_ns) for tables in seen]
        way = min(ways, key=lambda way: abs(way.first_s - first_s))
        packets = one.packets.beside(way.at_s + first_s - way.first_s, way.size_bytes)
        directions.append(replace(one, packets=packets))
    return replace(call, directions=tuple(directions))


def _with_rtcp_of_logs(call: CallOfTwo, files: Sequence[Path]) -> CallOfTwo:
    about = call.trace.manifest.capture
    if about is None or not any(one.source == LOG for one in call.directions):
        return call
    directions = {one.flow: one for one in call.directions}
    people = call.trace.manifest.participants
    outwards = f"{people[0]}->{people[1]}"
    for of_first, at_s, size_bytes in of_log(files, about.begin_ns):
        flow = outwards if of_first else f"{people[1]}->{people[0]}"
        one = directions.get(flow)
        if one is None or one.packets is None:
            continue
        received = len(files) == 1 and not of_first
        add = Packets.with_received if received else Packets.beside
        directions[flow] = replace(one, packets=add(one.packets, at_s, size_bytes))
    return replace(call, directions=tuple(directions.values()))


def call_of(
    trace: Trace,
    flow: str | None = None,
    origin: str = "",
    notes: Sequence[str] = (),
    begin: Moment | None = None,
    end: Moment | None = None,
) -> CallOfTwo:
    """The call of a trace: of a simulated or live call, or of an import.

    Args:
        trace: the trace.
        flow: the flow to take, if there are several.
        origin: what the scenario is called after.
        notes: what a reader must know.
        begin: take the call from this time on, in s or as text such as ``"10s"``.
        end: take the call up to this time.

    Raises:
        BadInput: the trace is too long, or has no call, or several and ``flow`` names none of them.
    """
    window = chosen_window(trace.manifest.duration_ns, begin, end)
    return _taken(_whole(trace.whole, flow, origin, notes), window)


def _taken(call: CallOfTwo, window: Window | None) -> CallOfTwo:
    """The part of a call that is taken.

    Raises:
        BadInput: it has no media, or too many packets.
    """
    if window is not None:
        trace = excerpt_of(call.trace, window)
        flows = _media(trace)
        if not flows & set(trace.flows):
            raise BadInput(f"no media from {window[0]:g} s to {window[1]:g} s of the call")
        directions = tuple(_part(one, window) for one in call.directions if one.flow in flows)
        note = f"The part of the call from {window[0]:g} s to {window[1]:g} s"
        call = replace(call, trace=trace, directions=directions, window=window, notes=(note, *call.notes))
    for one in call.directions:
        if one.packets is not None and len(one.packets.sent_s) > MOST_PACKETS:
            raise BadInput(
                f"{one.flow}: {len(one.packets.sent_s)} packets; expected at most {MOST_PACKETS}",
                hint="choose a part, such as `--from 60s --to 10min`, in Python `begin=` and `end=`",
            )
    return call


def _part(one: Direction, window: Window) -> Direction:
    packets = None if one.packets is None else one.packets.between(*window)
    if packets is None or np.count_nonzero(~np.isnan(packets.arrived_s)) < FEWEST_PACKETS:
        # A capture at one end knows no more; counters may.
        source = one.source if one.source == ONE_POINT else GETSTATS
        return replace(one, packets=None, source=source, one_way=False)
    return replace(one, packets=packets)


def _whole(trace: Trace, flow: str | None, origin: str, notes: Sequence[str]) -> CallOfTwo:
    call = _renamed(trace, _chosen(trace, flow), origin, notes)
    named = {(one.sender, one.receiver): one for one in reversed(trace.manifest.flows.values())}
    directions = []
    for name, about in call.trace.manifest.flows.items():
        one = _direction(call.trace, name)
        theirs = named.get((call.names[about.sender], call.names[about.receiver]))
        if one.packets is not None and theirs is not None and theirs.route:
            one, more = _on_its_path(trace, theirs, one)
            call = replace(call, notes=(*call.notes, *more))
        directions.append(one)
    return replace(call, directions=tuple(directions))


def _on_its_path(trace: Trace, flow: FlowInfo, one: Direction) -> tuple[Direction, list[str]]:
    """The direction with everything else that crosses the narrowest path of its route, and notes about that.

    The queue of this path holds the packets of all flows. So it may have dropped a packet although the flow
    alone would not have filled it.
    """
    assert one.packets is not None
    packets, notes = one.packets, []
    if flow.forwarded:
        notes.append(
            f"{one.flow} went through a server, so its numbers are of the way through it; "
            f"for the way to the server alone, choose its flow"
        )
        own = _packets(trace, [name for name, about in trace.manifest.flows.items() if about is flow])
        own = own.filter(~_IS_MEDIA)
        packets = packets.with_received(*_arrived(own))
    narrow = _narrowest(trace, flow)
    shared = _beside(trace, flow, narrow)
    rows = _packets(trace, shared)
    if flow.forwarded and narrow != flow.route[-1]:
        # The server forwards the media that crossed this path on the way to it.
        copied = [name for name in shared if trace.manifest.flows[name].sender == flow.sender]
        rows = rows.filter(~(pl.col("flow").is_in(copied) & _IS_MEDIA))
    if rows.is_empty():
        return replace(one, packets=packets), notes
    if narrow == flow.route[-1]:
        packets = packets.with_received(*_arrived(rows))
    else:
        packets = packets.beside(rows["sent_ns"].to_numpy() / NS_PER_S, rows["size_bytes"].to_numpy())
    lasts_s = (flow.end_ns - flow.begin_ns) / NS_PER_S
    kbps = float(rows["size_bytes"].sum()) * BITS_PER_BYTE / 1000 / lasts_s
    what = "another flow" if len(shared) == 1 else f"{len(shared)} other flows"
    notes.append(
        f"{what} crossed the narrowest path of {one.flow} ({narrow}), with {kbps:.0f} kbit/s, "
        "which the scenario leaves out"
    )
    return replace(one, packets=packets), notes


_IS_MEDIA = pl.col("kind").is_in(["video", "audio", "fec"]).fill_null(False)
"""Whether a packet is a first transmission. Of a forwarded flow, all others begin at the server."""


def _packets(trace: Trace, flows: Sequence[str]) -> pl.DataFrame:
    return trace.table("packets").filter(pl.col("flow").is_in(list(flows))).sort("sent_ns")


def _arrived(rows: pl.DataFrame) -> tuple[Array, Array]:
    """When packets arrived, in s, and their sizes."""
    known = rows.drop_nulls("delivered_ns")
    return known["delivered_ns"].to_numpy() / NS_PER_S, known["size_bytes"].cast(pl.Float64).to_numpy()


def _narrowest(trace: Trace, flow: FlowInfo) -> str:
    """The path of a route whose capacity was the smallest at any time."""
    least = dict(trace.table("paths").group_by("path").agg(pl.col("capacity_bps").min()).iter_rows())
    return min(flow.route, key=lambda path: least.get(path) or float("inf"))


def _beside(trace: Trace, flow: FlowInfo, path: str) -> list[str]:
    """The other flows whose packets crossed a path.

    What a server forwards crossed the path of its sender only once, on the way to the server.
    """
    return [
        name
        for name, other in trace.manifest.flows.items()
        if other is not flow and path in other.route and (path == other.route[-1] or not other.forwarded)
    ]


def _direction(trace: Trace, flow: str) -> Direction:
    about = trace.manifest.capture
    packets = trace.table("packets").filter(pl.col("flow") == flow) if "packets" in trace.tables else None
    if packets is not None and trace.manifest.flows[flow].forwarded:
        packets = packets.filter(_IS_MEDIA)
    if packets is None or packets.filter(pl.col("delivered_ns").is_not_null()).height < FEWEST_PACKETS:
        return Direction(flow, GETSTATS, None, one_way=False)
    source, one_way, one_time = TWO_POINTS, True, True
    if trace.manifest.backend == "log" and about is not None:
        source = LOG
        one_way = not any(_CLOCKS_DIFFER in note for note in about.notes_in_words)
        if packets["dropped_ns"].null_count() == packets.height and len(about.files) == 1:
            packets = with_gaps(packets)
    elif about is not None and about.clock is not None:
        one_way = not about.corrected
        one_time = one_way or about.clock["offset_ms"] is not None
    return Direction(flow, source, packets_of(packets), one_way, one_time=one_time)


def _chosen(trace: Trace, flow: str | None) -> FlowInfo:
    """The flow to take, in the direction that begins first.

    Raises:
        BadInput: there is no flow, or several pairs have one.
    """
    flows = {name: about for name, about in trace.manifest.flows.items() if name in _media(trace)}
    if not flows:
        raise BadInput(
            "no media in the call",
            hint="expected RTP packets, or reports of streams, in at least one direction",
        )
    if flow is not None:
        found = matching(flow, flows)
        if not found:
            raise BadInput(f"--flow: no flow `{_shown(flow)}`; the flows are {_listed(flows)}")
        if len(found) > 1:
            raise BadInput(
                f"--flow: `{_shown(flow)}` are {len(found)} flows: {_listed(found)}",
                hint="choose one of them",
            )
        return flows[found[0]]
    pairs = {frozenset((about.sender, about.receiver)) for about in flows.values()}
    if len(pairs) > 1:
        raise BadInput(
            f"{len(pairs)} pairs of ends have flows of media: {_listed(flows)}",
            hint="choose one with --flow; its opposite direction is taken, too",
        )
    return min(flows.values(), key=lambda about: about.begin_ns)


def _listed(flows: Iterable[str]) -> str:
    names = [_shown(name) for name in flows]
    return ", ".join(names[:8]) + (f" and {len(names) - 8} more" if len(names) > 8 else "")


def _shown(name: str) -> str:
    """A name of the source, in a form that is safe in a line of text."""
    return "".join(character if character.isprintable() else "?" for character in name[:80])


def _media(trace: Trace) -> set[str]:
    """The flows with RTP packets or with reports of streams."""
    flows: set[str] = set()
    for name in ("outbound_rtp", "inbound_rtp"):
        flows |= set(trace.table(name)["flow"].unique())
    if "packets" in trace.tables:
        flows |= set(trace.table("packets").filter(protocol="rtp")["flow"].unique())
    return flows


def _renamed(trace: Trace, outwards: FlowInfo, origin: str, notes: Sequence[str]) -> CallOfTwo:
    """The call with only both directions of a flow, and with names that a scenario may have."""
    order = trace.manifest.participants
    there = sorted(
        (outwards.sender, outwards.receiver), key=lambda name: order.index(name) if name in order else 0
    )
    valid = all(_NAME.fullmatch(name) and name != "core" for name in there)
    ours = dict(zip(there, there if valid else _OTHER_NAMES, strict=True))
    flows, infos = {}, {}
    media = _media(trace)
    for name, about in trace.manifest.flows.items():
        if {about.sender, about.receiver} == set(there) and about.acknowledges is None and name in media:
            sender, receiver = ours[about.sender], ours[about.receiver]
            flows[name] = f"{sender}->{receiver}"
            ends = {"sender": sender, "receiver": receiver}
            infos[flows[name]] = about.model_copy(update=ends | {"call": 0, "route": ()})
    tables = {}
    for name in trace.tables:
        rows = trace.table(name)
        for column, names in (("flow", flows), ("participant", ours)):
            if column in rows.columns:
                kept = pl.col(column).is_in(list(names)) | pl.col(column).is_null()
                rows = rows.filter(kept).with_columns(pl.col(column).replace(names))
        if name not in ("paths", "tcp"):
            tables[name] = rows
    people, duration_ns = tuple(ours.values()), trace.manifest.duration_ns
    manifest = TraceManifest(
        backend=trace.manifest.backend,
        duration_ns=duration_ns,
        participants=people,
        calls=(CallInfo(kind="p2p", participants=people, start_ns=0, end_ns=duration_ns),),
        flows=infos,
        connections=1,
        capture=trace.manifest.capture,
    )
    named = {our: _shown(name) for name, our in ours.items()}
    renamed = Trace.in_memory(tables, manifest)
    return CallOfTwo(renamed, (), origin, named, tuple(notes), renamed)


def _at_one_point(
    imported: Imported, file: Path, sdp: str | None, flow: str | None, origin: str
) -> CallOfTwo:
    """The call of a capture at one end.

    The send times in RTP headers (abs-send-time) say how the delays of received packets differ. The round
    trips of STUN between both ends are the sum of both delays, and say which end was captured.
    """
    trace = Trace.in_memory(imported.tables, imported.manifest)
    outwards = _chosen(trace, flow)
    call = _renamed(trace, outwards, origin, imported.notes)
    seen = with_first_addresses(monitoring.monitor(file, sdp=sdp, packets=True))
    # A server forwards streams under the same SSRC, so the flow says which packets are meant.
    packets = seen["packets"].with_columns(imported.tables["packets"]["flow"].alias("way"))
    asked = _asked(seen, packets, (outwards.sender, outwards.receiver))
    here = _captured_end(packets, outwards) or next(iter(asked), None)
    directions = []
    begin_ns = imported.manifest.capture.begin_ns if imported.manifest.capture else 0
    for name, about in call.trace.manifest.flows.items():
        theirs = f"{call.names[about.sender]}->{call.names[about.receiver]}"
        of_flow = {**seen, "packets": packets.filter(pl.col("way") == theirs)}
        rtp = of_flow["packets"].filter(pl.col("protocol") == "rtp", pl.col("abs_send_time").is_not_null())
        arrived = None
        if here in (None, call.names[about.receiver]) and rtp.height >= FEWEST_PACKETS:
            way = of_capture(of_flow, rtp["ssrc"].unique().to_list(), begin_ns)
            arrived = _arrivals(rtp, begin_ns).with_received(way.at_s, way.size_bytes)
        trip_s = asked.get(here) if here is not None else None
        directions.append(
            Direction(name, ONE_POINT, arrived, one_way=False, round_trip_s=trip_s, one_time=False)
        )
    return replace(call, directions=tuple(directions))


def _asked(seen: Tables, packets: pl.DataFrame, ends: tuple[str, str]) -> dict[str, float]:
    """The smallest round trip of STUN in s between two ends, by the end that asked, the largest first.

    The end that was captured waits a round trip for an answer; the other end's answers come at once.
    """
    ways = {f"{one}->{other}": one for one, other in (ends, ends[::-1])}
    trips = (
        seen["flows"]
        .join(packets.select("flow", "way").unique(), on="flow")
        .filter(pl.col("stun_rtt_count") > 0, pl.col("way").is_in(list(ways)))
        .group_by("way")
        .agg(pl.col("stun_rtt_min_ms").min())
        .sort("stun_rtt_min_ms", descending=True)
    )
    return {ways[way]: trip_ms / 1000 for way, trip_ms in trips.iter_rows()}


def _captured_end(packets: pl.DataFrame, outwards: FlowInfo) -> str | None:
    """The end of a flow whose host has a part in all media of a capture of several, as a server has."""
    host = [pl.col(name).str.extract(r"^(.*):") for name in ("source", "destination")]
    rtp = packets.filter(pl.col("protocol") == "rtp").select("way", *host).unique(maintain_order=True)
    pairs = {frozenset(hosts) for _, *hosts in rtp.iter_rows()}
    common = frozenset.intersection(*pairs)
    if len(pairs) < 2 or len(common) != 1:
        return None
    for way, source, _ in rtp.iter_rows():
        if way == f"{outwards.sender}->{outwards.receiver}":
            return outwards.sender if source in common else outwards.receiver
    return None


def _arrivals(rtp: pl.DataFrame, begin_ns: int) -> Packets:
    """Received packets with their send times (abs-send-time) on a clock of unknown offset."""
    arrived_ns = pl.col("at_ns") - begin_ns
    units = arrived_ns * UNITS_PER_SECOND // NS_PER_S - pl.col("abs_send_time")
    later = nearest(units - units.first(), SEND_TIME_WRAP)
    # Transport-wide numbers show also between which packets of other streams one is missing.
    wide = not rtp["transport_seq"].null_count()
    rows = rtp.sort("at_ns", maintain_order=True).select(
        *("kind", "size_bytes"),
        pl.col("marker").cast(pl.Boolean),
        pl.lit(0, pl.Int64).alias("ssrc") if wide else "ssrc",
        pl.col("transport_seq" if wide else "seq").alias("seq"),
        delivered_ns=arrived_ns,
        sent_ns=arrived_ns - later * NS_PER_S // UNITS_PER_SECOND,
    )
    return packets_of(with_gaps(rows))
