"""Collects what pages, servers and programs report during a run, as rows of the trace's tables."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import polars as pl

from rtclab.backend.live.connections import MIXER, Endpoint, LiveConnection
from rtclab.trace import NS_PER_MS, NULLABLE, SCHEMAS, flattened
from rtclab.trace.schema import OPTIONAL_TABLES

Row = dict[str, Any]
Rows = list[Row]
REPORTED = [name for name in SCHEMAS if name not in OPTIONAL_TABLES]
"""The tables that do not come from the emulator's log alone."""


@dataclass
class Recorder:
    """Collects the reports of the pages as rows of the trace's tables, on the clock of the run.

    Args:
        connections: the connections of the call, by number.
        run_began_ms: wall-clock time at which the run began, in milliseconds since 1970.
        run_began_monotonic_ns: the same on the machine's monotonic clock, which event logs have.
    """

    connections: dict[int, LiveConnection]
    run_began_ms: float
    run_began_monotonic_ns: int = 0
    rows: dict[str, Rows] = field(default_factory=lambda: {name: [] for name in REPORTED})
    payload_kinds: dict[tuple[str, int], str] = field(default_factory=dict)
    """Kind (``video``, ``audio``, ``rtx``) by flow and payload type."""

    red: set[tuple[str, int]] = field(default_factory=set)
    """Flow and payload type of RED, which carries media and FEC; see :func:`rtclab.trace.with_fec`."""

    ends: set[Endpoint] = field(default_factory=set)
    """Addresses that the pages use."""

    ssrcs: dict[int, str] = field(default_factory=dict)
    """Flow by SSRC."""

    _last_report_ns: dict[tuple[str, int], int] = field(default_factory=dict)

    _layers: dict[str, str] = field(default_factory=dict)
    """The simulcast layer that an SFU forwards of each flow."""

    _decoded: dict[str, dict[int, int]] = field(default_factory=dict)
    _shown_ssrc: dict[str, int] = field(default_factory=dict)

    def at_ns(self, wall_clock_ms: float) -> int:
        """Converts a page's wall-clock time, in ms since 1970, to the clock of the run."""
        return round((wall_clock_ms - self.run_began_ms) * NS_PER_MS)

    def add_event(
        self, at_ns: int, participant: str, event: str, *, flow: str | None = None, detail: str = ""
    ) -> None:
        """Adds a row of ``events``."""
        row = {"at_ns": at_ns, "participant": participant, "flow": flow, "event": event}
        self.rows["events"].append(row | {"detail": printable(detail)})

    def add_load(
        self, at_ns: int, participant: str, cpu_percent: float, memory_bytes: int, *, cores: float | None
    ) -> None:
        """Adds a row of ``host``. ``cores`` is how many the participant may use; None without a limit."""
        row = {"at_ns": at_ns, "participant": participant, "cpu_percent": cpu_percent}
        row |= {"memory_bytes": memory_bytes, "cpu_limit_percent": None if cores is None else 100 * cores}
        self.rows["host"].append(row)

    def add_payload_types(self, message: Mapping[str, Any]) -> None:
        """Stores the payload types of a session description, which both directions of a connection share."""
        for payload_type, codec in message["codecs"].items():
            kind = "rtx" if codec.lower() == "rtx" else message["kinds"][payload_type]
            for flow in self.connections[message["number"]].flows:
                self.payload_kinds[flow, int(payload_type)] = kind
                if codec.lower() == "red":
                    self.red.add((flow, int(payload_type)))

    def add_stats(self, participant: str, message: Mapping[str, Any]) -> None:
        """Adds the rows of one ``getStats`` report, and of the frames since the last report."""
        connection = self.connections[message["number"]]
        outgoing, incoming = connection.sent_by(participant), connection.received_by(participant)
        at_ns = self.at_ns(message["at_ms"])
        common = {"at_ns": at_ns, "participant": participant}
        by_type: dict[str, Rows] = {}
        for report in map(flattened, message["reports"]):
            by_type.setdefault(report["type"], []).append(report)
        # Within 50 ms, Chromium returns the same report again.
        key = participant, connection.number
        repeated = self._last_report_ns.get(key) == at_ns
        self._last_report_ns[key] = at_ns
        flows = {"outbound-rtp": outgoing, "inbound-rtp": incoming, "remote-inbound-rtp": outgoing}
        for kind, flow in {**flows, "candidate-pair": outgoing}.items():
            table = kind.replace("-", "_")
            for report in [] if repeated else by_type.get(kind, []):
                self.rows[table].append(pick(table, {**report, **common, "flow": flow}))
        for pair in [] if repeated else by_type.get("candidate-pair", []):
            self._add_estimate(common, outgoing, pair)
        for stream in by_type.get("outbound-rtp", []):
            self.ssrcs.setdefault(stream["ssrc"], outgoing)  # the first flow that reports an SSRC keeps it
        for side in ("local", "remote") if message.get("selected") else ():
            self.add_end(connection.number, message["selected"][side])
        videos = [stream for stream in by_type.get("inbound-rtp", []) if stream["kind"] == "video"]
        if videos:
            frames = message["frames"]
            if connection.server == MIXER:
                # The browser takes the time of a composition, by another clock, for the camera's.
                frames = [[timestamp, None, *rest] for timestamp, _, *rest in frames]
            self.add_frames(incoming, self._shown(incoming, videos), frames)

    def _add_estimate(self, common: Row, flow: str, pair: Row) -> None:
        if "availableOutgoingBitrate" in pair:
            value = float(pair["availableOutgoingBitrate"])
            row = {**common, "flow": flow, "name": "available_outgoing_bitrate_bps", "value": value}
            self.rows["controller"].append(row)

    def add_server_statistics(self, message: Mapping[str, Any]) -> None:
        """Adds a server's report, once a second, of the media that it sends over a connection.

        An MCU that mixes adds the ``remote`` reports of the page on these media.
        """
        connection = self.connections[message["connection"]]
        server = connection.a if connection.one_way else connection.b
        at_ns, flow = self.at_ns(message["at_ms"]), connection.sent_by(server)
        common = {"at_ns": at_ns, "participant": server, "flow": flow}
        for report in message.get("remote", ()):
            self.rows["remote_inbound_rtp"].append(pick("remote_inbound_rtp", {**report, **common}))
        for key, name in (("estimate_bps", "available_outgoing_bitrate_bps"), ("rtt_s", "rtt_s")):
            if message.get(key) is not None:
                self.rows["controller"].append({**common, "name": name, "value": float(message[key])})
        layer = message.get("layer")
        if layer is not None and layer != self._layers.get(flow):
            self._layers[flow] = layer
            self.add_event(at_ns, connection.a, "layer_chosen", flow=flow, detail=layer)

    def add_end(self, number: int, candidate: Mapping[str, Any]) -> None:
        """Adds the address of a candidate that a connection uses."""
        # The port of a relayed candidate belongs to the relay, and all candidates of one relay look alike.
        if candidate["candidateType"] != "relay" and candidate["address"] is not None:
            self.ends.add(Endpoint(candidate["address"], candidate["port"], number))

    def _shown(self, flow: str, videos: Rows) -> int:
        """The SSRC of the video that the page shows: the one with the most frames since the last report.

        The page observes frames where they are shown, so it knows their connection but not their stream.
        """
        decoded = {stream["ssrc"]: stream.get("framesDecoded") or 0 for stream in videos}
        before = self._decoded.get(flow, {})
        new = {ssrc: count - before.get(ssrc, 0) for ssrc, count in decoded.items()}
        self._decoded[flow] = decoded
        most = max(new, key=lambda ssrc: new[ssrc])
        if new[most] > 0 or flow not in self._shown_ssrc:
            self._shown_ssrc[flow] = most
        return self._shown_ssrc[flow]

    def add_frames(self, flow: str, ssrc: int, frames: Iterable[list[Any]]) -> None:
        """Adds frames that were shown.

        Each has its RTP timestamp, times of capture, arrival and display in ms since 1970, width, height, and
        for how long in ms it was decoded and waited for the screen.
        """
        for rtp_timestamp, captured_ms, received_ms, rendered_ms, width, height, *lengths_ms in frames:
            moments = {"captured_ns": captured_ms, "received_ns": received_ms, "rendered_ns": rendered_ms}
            row: Row = {"flow": flow, "ssrc": ssrc, "rtp_timestamp": rtp_timestamp}
            row |= {name: None if at_ms is None else self.at_ns(at_ms) for name, at_ms in moments.items()}
            row |= {
                name: None if length_ms is None else round(length_ms * NS_PER_MS)
                for name, length_ms in zip(("decode_ns", "display_ns"), lengths_ms, strict=True)
            }
            self.rows["frames"].append(pick("frames", row | {"width": width, "height": height}))

    def left_ns(self) -> dict[str, int]:
        """By participant that left, the time at which it left."""
        return {row["participant"]: row["at_ns"] for row in self.rows["events"] if row["event"] == "left"}

    def last_event(self, participant: str) -> str:
        """Name of the participant's latest event before it left, with the text of an error, or ``none``."""
        for row in reversed(self.rows["events"]):
            if row["participant"] == participant and row["event"] != "left":
                error = row["event"].endswith("_error")
                return f"{row['event']}: {row['detail']}" if error else str(row["event"])
        return "none"

    def table(self, name: str) -> pl.DataFrame:
        """A table of the rows so far, in its schema, without rows of streams that are not known yet."""
        required = [column for column in SCHEMAS[name] if column not in NULLABLE[name]]
        return pl.DataFrame(self.rows[name], schema=SCHEMAS[name], strict=False).drop_nulls(required)


def printable(text: str) -> str:
    """The text without characters that could control a terminal, or that are no characters of Unicode."""
    return "".join(one if one.isprintable() or one == "\n" else "?" for one in text)


def pick(table: str, row: Mapping[str, Any]) -> Row:
    """The columns of a table from ``row``; missing ones are null."""
    return {column: row.get(column) for column in SCHEMAS[table]}
