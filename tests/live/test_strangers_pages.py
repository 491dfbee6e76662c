"""Pages that know nothing of rtclab: what is recorded of them, and that they behave as without rtclab."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import Any

import polars as pl
import pytest
from parts import CALL
from strange_call import log, page, strange_call

from rtclab.backend.live.browsers.launch_options import find_chromium
from rtclab.backend.live.browsers.video_clip import prepare_clip
from rtclab.backend.live.lab.namespaces import run_in_lab
from rtclab.trace import Trace
from side_by_side import TURNS

pytestmark = [pytest.mark.live, pytest.mark.measures, pytest.mark.needs(*CALL)]

SECONDS = 13
PEOPLE = ("alice", "bob")
PARTS = ("alice", "bob", "alice-frame", "bob-frame")
"""Each with a log of its own."""
CLOCKS_DIFFER_MS = 20
"""Between the processes of browsers, whose clocks are set at their start."""
MOST_TRIES = 3
MOST_APART = 2
"""Largest ratio of rates of two calls on two cores. It was up to 1.52 in seven pairs of 16 streams each."""
FEWEST_SECONDS = 6
"""Of a stream whose bytes/s are compared. In the 3 s of the drawing the encoder still looks for its rate."""
COUNTED = ("framesEncoded", "framesDecoded", "messagesReceived", "packetsSent", "packetsReceived")
"""Counters of getStats. The first one that a report has is its pace."""


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Trace, Path]:
    """The page of two connections, observed and, at the same time, in browsers that nobody observes.

    No other live test runs beside them, because their rates are compared. Rarely, the worker of a page never
    gets a frame. Such a pair of calls is made again.

    Returns the folder of the observed pages' own logs, the trace, and the folder of the other pages' logs.
    """
    for _ in range(MOST_TRIES):
        made = _side_by_side(*(tmp_path_factory.mktemp(name) for name in ("observed", "plain")))
        logs = [log(folder, part) for folder in (made[0], made[2]) for part in PARTS]
        if all(all(one["transformed"].values()) for one in logs):
            break
    return made


def _side_by_side(observed: Path, plain: Path) -> tuple[Path, Trace, Path]:
    paths = {name: f"two_connections/index.html?me={name}" for name in PEOPLE}
    argument = {
        "folder": str(plain),
        "pages": paths,
        "browser": find_chromium(),
        "clip": str(prepare_clip(320, 240, 15)),
        "seconds": SECONDS,
    }
    tables = "".join(page(name, path) for name, path in paths.items())
    with pytest.MonkeyPatch.context() as patch, ThreadPoolExecutor(1) as thread, TURNS.alone():
        patch.setenv("PYTHONPATH", str(Path(__file__).parent), prepend=":")
        other = thread.submit(run_in_lab, "plain_browsers:run_pages", argument)
        run = strange_call(observed, tables, seconds=SECONDS)
        other.result()
    assert run.repeats[0].status == "finished", run.repeats[0].reason
    return observed, run.trace(0), plain


@pytest.fixture
def observed(both: tuple[Path, Trace, Path]) -> tuple[Path, Trace]:
    return both[:2]


def test_each_connection_of_a_page_has_its_flows(observed: tuple[Path, Trace]) -> None:
    _, trace = observed
    kinds: dict[str, set[str]] = {}
    for flow, kind in trace.table("packets").select("flow", "kind").unique().drop_nulls().iter_rows():
        kinds.setdefault(flow, set()).add(kind)
    # One connection has camera and microphone, the other one a drawing. Which is made first is not certain.
    for ends in ("alice->bob", "bob->alice"):
        both = [kinds[ends] - {"rtx"}, kinds[f"{ends}#2"] - {"rtx"}]
        assert sorted(map(sorted, both)) == [["audio", "video"], ["video"]]
    assert trace.manifest.notes == ()


def test_the_streams_that_renegotiation_adds_and_removes_are_recorded(observed: tuple[Path, Trace]) -> None:
    _, trace = observed
    streams = (
        trace.table("packets")
        .filter(pl.col("delivered_ns").is_not_null(), kind="video")
        .group_by("flow", "ssrc")
        .agg(first_s=pl.col("sent_ns").min() / 1e9, last_s=pl.col("sent_ns").max() / 1e9)
    )
    counts = dict(streams.group_by("flow").len().iter_rows())
    assert sorted(counts[flow] for flow in ("alice->bob", "alice->bob#2")) == [1, 2]
    assert sorted(counts[flow] for flow in ("bob->alice", "bob->alice#2")) == [1, 1]
    # The drawing is added after 2 s, and removed 3 s later; padding may follow.
    camera = max(counts, key=counts.__getitem__)
    first, added = streams.filter(flow=camera).sort("first_s").iter_rows(named=True)
    assert added["first_s"] - first["first_s"] > 1.5
    assert added["last_s"] - added["first_s"] < 4.5
    events = trace.table("events")
    renegotiated = events.filter(event="renegotiated").group_by("participant").len()
    assert all(count >= 2 for _, count in renegotiated.iter_rows())


def test_the_stages_of_set_up_are_seen(observed: tuple[Path, Trace]) -> None:
    """On a busy machine a page may hear of a stage some milliseconds after the next one."""
    _, trace = observed
    stages = ("joined", "signalling_done", "ice_connected", "dtls_connected", "first_frame", "left")
    events = trace.table("events")
    for name in PEOPLE:
        first = dict(
            events.filter(pl.col("event").is_in(stages), participant=name)
            .group_by("event")
            .agg(pl.col("at_ns").min())
            .iter_rows()
        )
        assert first["joined"] < first["signalling_done"]
        for stage in ("ice_connected", "dtls_connected", "first_frame"):
            assert first["signalling_done"] < first[stage] < first["left"]


def test_what_rtclab_records_is_what_the_page_sees_itself(observed: tuple[Path, Trace]) -> None:
    folder, trace = observed
    ours = trace.table("outbound_rtp").select("ssrc", pl.col("at_ns") / 1e6, "bytesSent").rows()
    pages = [
        (row["ssrc"], row["timestamp"], row["bytesSent"])
        for part in PARTS
        for one in log(folder, part)["stats"]
        for row in one["rows"]
        if row["type"] == "outbound-rtp"
    ]
    assert {ssrc for ssrc, _, _ in ours} == {ssrc for ssrc, _, _ in pages}
    # Both count the same bytes if one begin of the run, in ms since 1970, explains which count is later.
    earliest, latest = 0.0, float("inf")
    for ssrc, at, count in ours:
        others = [(then, other) for page, then, other in pages if page == ssrc]
        earliest = max([earliest, *(then - at for then, other in others if other < count)])
        latest = min([latest, *(then - at for then, other in others if other > count)])
    assert earliest - CLOCKS_DIFFER_MS < latest < earliest + 2000  # each counts every second
    # A page goes on a little longer than the call.
    for ssrc in {ssrc for ssrc, _, _ in ours}:
        ends_ms = max(then for page, then, _ in pages if page == ssrc) - earliest
        assert max(at for own, at, _ in ours if own == ssrc) > min(ends_ms, 1000 * SECONDS) - 4000


@pytest.mark.parametrize("part", PARTS)
def test_a_page_behaves_the_same_with_and_without_rtclab(both: tuple[Path, Trace, Path], part: str) -> None:
    with_us, without = log(both[0], part), log(both[2], part)
    assert with_us["browser"] == without["browser"]
    assert all(with_us["transformed"].values())
    assert all(without["transformed"].values())
    assert summary(with_us["events"]) == summary(without["events"])
    ours, own = streams_of(with_us), streams_of(without)
    assert ours.keys() == own.keys()
    assert len(ours) >= 3
    for streams in (ours, own):
        assert sum(len(rates) == 2 for rates in streams.values()) >= 3  # streams that last
    for stream, rates in ours.items():
        # A stream that lasts just long enough may have its bytes/s in one of the two only.
        for rate, other in zip(rates, own[stream], strict=False):
            assert other / MOST_APART < rate < other * MOST_APART, stream


def reports(log: dict[str, Any]) -> Iterator[tuple[int, dict[str, Any]]]:
    """The page's own reports of getStats, with their time in ms, up to the end of the call.

    A page begins a little later than the call, and goes on a little longer.
    """
    for one in log["stats"]:
        if one["at"] < 1000 * (SECONDS - 0.5):
            yield from ((one["at"], row) for row in one["rows"])


def summary(events: list[tuple[int, str]]) -> set[str]:
    """What happened. How often states changed is a matter of who was faster."""
    return {event for _, event in events}


def streams_of(log: dict[str, Any]) -> dict[tuple[str, ...], tuple[float, ...]]:
    """What the page's own getStats says of each stream: usual frames, messages or packets/s.

    Streams that last have their bytes/s, too. Only seconds with frames, messages or packets count.
    A stream is named by its order among those of its type and kind, not by its ``mid``: an offer that is
    rolled back, because both ends made one at a time, uses a number up.
    """
    rows: dict[tuple[str, ...], list[tuple[int, int, int]]] = {}
    for at, row in reports(log):
        stream = (row["type"], row.get("kind", ""), row.get("mid", ""))
        count = next(row[name] for name in COUNTED if name in row)
        size = row.get("bytesReceived", 0) if "bytesReceived" in row else row["bytesSent"]
        rows.setdefault(stream, []).append((at, count, size))
    found: dict[tuple[str, ...], tuple[float, ...]] = {}
    for (*named, _), counted in sorted(rows.items()):
        stream = (*named, str(sum(other[:2] == tuple(named) for other in found)))
        steps = [[b - a for a, b in zip(*pair, strict=True)] for pair in pairwise(counted)]
        rates = [(1000 * count / ms, 1000 * size / ms) for ms, count, size in steps if count]
        numbers, sizes = zip(*rates, strict=True)
        found[stream] = (median(numbers),)
        if len(rates) >= FEWEST_SECONDS:
            found[stream] += (median(sizes),)
    return found
