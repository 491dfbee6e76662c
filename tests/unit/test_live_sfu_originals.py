"""The originals of the packets that an SFU forwards."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest
from scenario_text import scenario

from rtclab.backend.live.connections import live_connections
from rtclab.backend.live.records.sfu_originals import SEQ_RANGE, forwarded_by_servers, since_originals
from rtclab.trace import SCHEMAS, FlowInfo, delay_histogram_table, flow_seconds_table

MS = 10**6
UP_MS, HELD_MS, DOWN_MS = 20, 1, 30
NOTED_MS = 2
"""How long after a packet was due the emulator notes that it was written: longer than the server holds it."""


def stream(flow: str, ssrc: int, first_seq: int, begin_ms: int, way_ms: int, row: int = 0) -> pl.DataFrame:
    """Ten frames of four packets every 33 ms, whose packets are 2 ms apart, logged from ``row`` on."""
    count = 40
    sent_ns = [(begin_ms + 33 * (index // 4) + 2 * (index % 4)) * MS for index in range(count)]
    rows = {
        "sent_ns": sent_ns,
        "delivered_ns": [at_ns + way_ms * MS for at_ns in sent_ns],
        "queued_ns": [index * way_ms for index in range(count)],
        "written_ns": [at_ns + (way_ms + NOTED_MS) * MS for at_ns in sent_ns],
        "seq": [(first_seq + index) % SEQ_RANGE for index in range(count)],
        "marker": [index % 4 == 3 for index in range(count)],
    }
    same = {"flow": flow, "ssrc": ssrc, "kind": "video", "protocol": "rtp", "size_bytes": 1000}
    missing = [name for name in SCHEMAS["packets"] if name not in rows and name not in same]
    return (
        pl.DataFrame(rows)
        .with_columns(**{name: pl.lit(value) for name, value in same.items()})
        .with_columns(pl.lit(None).alias(name) for name in missing)
        .select(pl.col(name).cast(dtype) for name, dtype in SCHEMAS["packets"].items())
        .with_columns(logged=pl.concat_list(row + pl.int_range(pl.len())))
    )


@pytest.mark.parametrize("first_seq", [1, SEQ_RANGE - 10])
def test_a_copy_counts_from_when_its_sender_sent_the_original(tmp_path: Path, first_seq: int) -> None:
    joined = forwarded_by_servers(live_connections(scenario(tmp_path, "[[calls]]\nkind = 'sfu'")))
    originals = stream("alice->core", 7, first_seq, 0, UP_MS)
    copies = stream("alice->bob", 8, 500, UP_MS + HELD_MS, DOWN_MS, 40)
    found = since_originals(pl.concat([originals, copies]), joined).filter(flow="alice->bob").sort("seq")
    assert found["sent_ns"].to_list() == originals["sent_ns"].to_list()
    delays_ms = ((found["delivered_ns"] - found["sent_ns"]) / MS).unique().to_list()
    assert delays_ms == [UP_MS + HELD_MS + DOWN_MS]
    # What the original and the copy waited in queues adds up.
    assert found["queued_ns"].to_list() == [index * (UP_MS + DOWN_MS) for index in range(40)]
    assert found["logged"].to_list() == [[index, 40 + index] for index in range(40)]
    assert found["is_whole"].all()


def test_packets_that_a_server_sends_by_itself_keep_their_own_time(tmp_path: Path) -> None:
    joined = forwarded_by_servers(live_connections(scenario(tmp_path, "[[calls]]\nkind = 'sfu'")))
    originals = stream("alice->core", 7, 1, 0, UP_MS)
    repeated = stream("alice->bob", 9, 1, UP_MS + HELD_MS, DOWN_MS).with_columns(kind=pl.lit("rtx"))
    found = since_originals(pl.concat([originals, repeated]), joined)
    own = found.filter(flow="alice->bob")
    kept = ["sent_ns", "queued_ns", "logged"]
    assert own.select(kept).equals(repeated.select(kept))
    # Their delays are of the last leg alone, so they do not count.
    assert not own["is_whole"].any()
    assert found.filter(flow="alice->core")["is_whole"].all()
    flows = {
        name: FlowInfo(sender="alice", receiver="bob", begin_ns=0, end_ns=10**10)
        for name in ("alice->core", "alice->bob")
    }
    assert set(delay_histogram_table(found, flows)["flow"]) == {"alice->core"}
    seconds = flow_seconds_table(found, flows, 10**9, ())
    delays = dict(seconds.select("flow", "one_way_delay_mean_ms").iter_rows())
    assert delays == {"alice->core": UP_MS, "alice->bob": None}
