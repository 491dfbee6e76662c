"""SCReAM and feedback by RFC 8888 in real browsers: what is on the wire, and what the trace says of it."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest
from parts import CALL
from small_call import small_call

from rtclab import Trace, monitoring
from rtclab.backend.live import LiveBackend

pytestmark = [pytest.mark.live, pytest.mark.needs(*CALL)]

FLOWS = {"alice->bob", "bob->alice"}
FEWEST = 200
"""Minimum number of RTP packets of a flow. Audio alone has 50 a second, for some 5 s."""


def called(out: Path, table: str) -> Trace:
    """A short call with this table of a congestion control."""
    scenario = small_call(out / "call.toml", f"[congestion_control]\n{table}\n", seconds=5.5)
    backend = LiveBackend()
    backend.check(scenario)
    return backend.run(scenario, seed=1, repeat=0, out=out)


def rtcp_types(call: Trace) -> dict[str, set[str]]:
    """By address of the sender, the types of RTCP that entered the emulator."""
    tables = monitoring.monitor(call.path / "capture.pcapng")
    flows = tables["flows"].filter(direction="inbound").select("flow", pl.col("source").str.extract("(.*):"))
    sent = tables["rtcp"].join(flows, on="flow").group_by("source").agg("type").sort("source")
    return {source: set(types) for source, types in sent.iter_rows()}


def codepoints(call: Trace) -> dict[str, dict[str, int]]:
    """By address of the sender, how many RTP packets had which codepoint when they entered the emulator."""
    packets = monitoring.monitor(call.path / "capture.pcapng", packets=True)["packets"]
    rtp = packets.filter(direction="inbound", protocol="rtp")
    counts = rtp.group_by(pl.col("source").str.extract("(.*):"), "ecn").len()
    return {source: dict(of.select("ecn", "len").iter_rows()) for (source,), of in counts.group_by("source")}


def logged(call: Trace) -> dict[str, set[str]]:
    """By flow, the names of the values that the sender's event log has."""
    names = call.table("controller").group_by("flow").agg("name")
    return {flow: set(of) for flow, of in names.iter_rows()}


def test_scream_marks_all_its_media_and_gets_feedback_by_rfc_8888_alone(tmp_path: Path) -> None:
    call = called(tmp_path, 'name = "scream"')
    sent = codepoints(call)
    assert len(sent) == 2
    for of_sender in sent.values():
        assert set(of_sender) == {"ect1"}
        assert of_sender["ect1"] > FEWEST
    types = rtcp_types(call)
    assert set(types) == set(sent)
    for received in types.values():
        assert "CCFB" in received
        assert "TWCC" not in received
    assert all("ref_window_bytes" in logged(call)[flow] for flow in FLOWS)
    assert set(call.manifest.used) == FLOWS
    for used in call.manifest.used.values():
        assert (used.control, used.feedback, set(used.ecn)) == ("scream", ("rfc8888",), {"ect1"})
    assert all("WebRTC-Bwe-ScreamV2" in trials for trials in call.manifest.field_trials.values())


def test_goog_cc_with_rfc_8888_marks_nothing(tmp_path: Path) -> None:
    # libwebrtc's goog-cc does not use ECN. Measured with Chromium 156: not even the packets before the first
    # report have ECT(1).
    call = called(tmp_path, 'name = "goog-cc"\nstack = "chrome-156-ccfb"')
    for of_sender in codepoints(call).values():
        assert set(of_sender) == {"not-ect"}
        assert of_sender["not-ect"] > FEWEST
    for received in rtcp_types(call).values():
        assert "CCFB" in received
        assert "TWCC" not in received
    for flow in FLOWS:
        assert "delay_based_bps" in logged(call)[flow]
        assert "ref_window_bytes" not in logged(call)[flow]
        assert (call.manifest.used[flow].control, call.manifest.used[flow].feedback) == (
            "goog-cc",
            ("rfc8888",),
        )
