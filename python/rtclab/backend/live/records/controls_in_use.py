"""Which congestion control, feedback and ECN a live call really used, from the wire and the event logs."""

from __future__ import annotations

from collections.abc import Mapping

import polars as pl

from rtclab.monitoring import Tables
from rtclab.trace import FlowInfo, ModesInUse

FEEDBACK = {"CCFB": "rfc8888", "TWCC": "transport-wide", "REMB": "remb", "AFB": "remb"}
"""By the monitor's name of a type of RTCP, the kind of feedback.

Browsers send one application-layer message (``AFB``), REMB. Where RTCP is encrypted, only the type of the
first packet in a datagram can be read, so a REMB behind a report goes unseen."""

LOGGED = {"scream": "ref_window_bytes", "goog-cc": "delay_based_bps"}
"""By control, a value in the table ``controller`` that only its event logs have."""


def feedback_of(
    wire: Tables, addresses: Mapping[str, str], flows: Mapping[str, FlowInfo]
) -> dict[str, set[str]]:
    """By flow, the kinds of feedback that its receiver sent straight to its sender.

    Args:
        wire: the monitor's tables of the emulator's capture.
        addresses: name of the node by IP address.
        flows: the flows of the call. Of a relayed one it is not known.
    """
    ways = {
        row["flow"]: tuple(
            addresses.get(str(row[end]).rpartition(":")[0].strip("[]")) for end in ("source", "destination")
        )
        for row in wire["flows"].iter_rows(named=True)
    }
    sent: dict[object, set[str]] = {}
    for flow, kind in wire["rtcp"].select("flow", "type").iter_rows():
        if kind in FEEDBACK:
            sent.setdefault(ways.get(flow), set()).add(FEEDBACK[kind])
    return {name: sent.get((about.receiver, about.sender), set()) for name, about in flows.items()}


def controls_in_use(
    flows: Mapping[str, FlowInfo],
    packets: pl.DataFrame,
    feedback: Mapping[str, set[str]],
    controller: pl.DataFrame,
) -> dict[str, ModesInUse]:
    """What each flow used, of those that sent RTP.

    Args:
        flows: the flows of the call.
        packets: the packets that the emulator carried, with ``flow``, ``protocol`` and ``ecn``.
        feedback: see :func:`feedback_of`.
        controller: the table ``controller``.
    """
    rtp = packets.filter(pl.col("protocol") == "rtp").drop_nulls("ecn")
    codepoints: dict[str, dict[str, int]] = {}
    for flow, ecn, count in rtp.group_by("flow", "ecn").len().sort("flow", "ecn").iter_rows():
        codepoints.setdefault(flow, {})[ecn] = count
    logged = {
        flow: set(names)
        for flow, names in controller.group_by("flow").agg(pl.col("name").unique()).iter_rows()
    }
    return {
        flow: ModesInUse(
            control=next((of for of, name in LOGGED.items() if name in logged.get(flow, ())), None),
            feedback=tuple(sorted(feedback.get(flow, ()))),
            ecn=codepoints[flow],
        )
        for flow in flows
        if flow in codepoints
    }
