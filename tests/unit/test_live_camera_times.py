"""When the camera took the pictures of a live call, from the sender reports in the sender's event log."""

from __future__ import annotations

import shutil
from pathlib import Path

import polars as pl
import pytest

from rtclab.backend.live.records.camera_times import reported_stamps, since_capture
from rtclab.backend.live.records.sfu_originals import ORIGINAL
from rtclab.importers.logs.event_log import read_event_log
from rtclab.trace import SCHEMAS, FlowInfo

LOG = Path(__file__).parent / "event_logs" / "event-log-alice-bob.log"
FLOW = FlowInfo(sender="alice", receiver="bob", route=(), begin_ns=0, end_ns=10**10)
S, MS = 10**9, 10**6
REPORTS = pl.DataFrame({"ssrc": [7], "at_ns": [2 * S], "reported": [1000]})


def frames(flow: str, ssrc: int, stamp: int, captured_ns: int | None = 5) -> pl.DataFrame:
    row = {"flow": flow, "ssrc": ssrc, "rtp_timestamp": stamp, "captured_ns": captured_ns}
    row |= {"rendered_ns": 3 * S, "width": 640, "height": 480}
    return pl.DataFrame([row], schema=SCHEMAS["frames"])


def no_copies() -> pl.DataFrame:
    return pl.DataFrame(schema={**SCHEMAS["packets"], **dict.fromkeys(ORIGINAL, pl.Int64)})


def test_a_picture_was_taken_as_long_after_a_report_as_their_timestamps_differ() -> None:
    # 90 ticks are 1 ms; the second timestamp has wrapped around.
    for stamp, at_ns in ((1000 + 90 * 250, 2250 * MS), ((1000 - 90 * 100) % 2**32, 1900 * MS)):
        assert since_capture(frames("alice->bob", 7, stamp), no_copies(), REPORTS)["captured_ns"][0] == at_ns


def test_without_a_report_the_time_that_the_browser_estimates_stays() -> None:
    assert since_capture(frames("alice->bob", 8, 1000), no_copies(), REPORTS)["captured_ns"][0] == 5


def test_a_picture_that_a_server_has_renumbered_was_taken_when_its_original_was() -> None:
    copy = {"flow": "alice->bob", "ssrc": 9, "rtp_timestamp": 123, "kind": "video", "protocol": "rtp"}
    copy |= {"sent_ns": 0, "ecn": None, "size_bytes": 1, "original_ssrc": 7, "original_timestamp": 1900}
    copies = pl.DataFrame([copy], schema=no_copies().schema)
    found = since_capture(frames("alice->bob", 9, 123, None), copies, REPORTS)
    assert found["captured_ns"][0] == 2010 * MS
    assert found.schema == SCHEMAS["frames"]


def test_all_reports_of_a_stream_agree_to_a_millisecond_on_its_clock(tmp_path: Path) -> None:
    shutil.copy(LOG, tmp_path)
    stamps = reported_stamps(tmp_path, {"alice->bob": FLOW, "bob->alice": FLOW}, 0)
    log = read_event_log(LOG)
    reports = log.tables["sender_reports"].filter(pl.col("sent") == 1)
    assert set(stamps["ssrc"]) == set(reports["ssrc"])
    for row in stamps.iter_rows(named=True):
        own = reports.filter(ssrc=row["ssrc"])
        kinds = log.tables["audio_send_config"].filter(ssrc=row["ssrc"])
        clock = 90 if kinds.is_empty() else 48
        if clock == 48:  # sound, whose clock is another one
            continue
        at_ms = row["at_ns"] / MS + (own["rtp_timestamp"] - row["reported"]) / clock
        # A report is logged at once, and logs round down to a millisecond.
        assert (own["at_ms"] - at_ms).to_list() == pytest.approx([-0.5] * own.height, abs=2)


def test_a_log_that_cannot_be_read_tells_nothing(tmp_path: Path) -> None:
    (tmp_path / LOG.name).write_bytes(b"no log")
    assert reported_stamps(tmp_path, {"alice->bob": FLOW}, 0).is_empty()
