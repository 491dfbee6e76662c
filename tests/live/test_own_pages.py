"""Pages of the user's own in live calls: steps, a script, statistics and flows."""

from __future__ import annotations

import sys
from pathlib import Path

import polars as pl
import pytest
from parts import CALL

from rtclab.backend.live import LiveBackend
from rtclab.errors import CallFailed
from rtclab.scenario import Scenario
from rtclab.scenario.layers import SHIPPED
from rtclab.trace import Trace

pytestmark = [pytest.mark.live, pytest.mark.needs(*CALL)]

SCRIPT = """
import os
from playwright.sync_api import sync_playwright

with sync_playwright() as playwright:
    browser = playwright.chromium.connect_over_cdp(os.environ["RTCLAB_DEVTOOLS"])
    page = browser.contexts[0].pages[0]
    page.get_by_role("button", name="Join").click()
    page.get_by_text("connected", exact=True).wait_for(timeout=20000)
    page.screenshot(path={picture!r})
"""
PNG = b"\x89PNG\r\n"


def run(out: Path, scenario: Scenario) -> Trace:
    backend = LiveBackend()
    backend.check(scenario)
    out.mkdir()
    return backend.run(scenario, seed=1, repeat=0, out=out)


@pytest.mark.needs("firefox")
def test_a_script_in_chromium_and_steps_in_firefox_join_a_call(tmp_path: Path) -> None:
    picture = tmp_path / "by-playwright.png"
    script = tmp_path / "drive.py"
    script.write_text(SCRIPT.format(picture=str(picture)))
    scenario = Scenario.load(
        "examples/own-page",
        {
            "participants.alice.steps": [],
            "participants.alice.script": str(script),
            "participants.bob.browser.name": "firefox",
            "participants.bob.steps": [{"click": "#join"}, {"at": "7 s", "screenshot": "late"}],
        },
    )
    trace = run(tmp_path / "call", scenario)
    about = trace.manifest
    assert about.failure is None
    assert about.notes == ()
    assert list(about.flows) == ["alice->bob", "bob->alice"]
    assert about.flows["alice->bob"].route == ("alice.up", "bob.down")
    assert [(call.kind, call.participants) for call in about.calls] == [("page", ("alice", "bob"))]
    assert picture.read_bytes().startswith(PNG)
    assert (trace.path / "bob-late.png").read_bytes().startswith(PNG)
    setup = ["joined", "signalling_done", "ice_connected", "dtls_connected", "first_frame", "left"]
    for name in ("alice", "bob"):
        events = trace.table("events").filter(pl.col("event").is_in(setup), participant=name).sort("at_ns")
        happened = events["event"].to_list()
        # On a busy machine a page may hear of a stage some milliseconds after the next one.
        assert sorted(happened) == sorted(setup)
        assert (*happened[:2], happened[-1]) == ("joined", "signalling_done", "left")
    packets = trace.table("packets")
    assert {
        flow: part["kind"].unique().drop_nulls().sort().to_list() for (flow,), part in media(packets)
    } == {
        "alice->bob": ["audio", "video"],
        "bob->alice": ["audio", "video"],
    }
    # What the pages counted is what the emulator carried. Retransmissions have SSRCs of their own.
    # A report after the end counts packets that came when nothing was recorded any more.
    reports = trace.table("inbound_rtp").filter(pl.col("at_ns") <= about.duration_ns)
    counted = reports.sort("at_ns").group_by("flow", "ssrc").last()
    for row in counted.iter_rows(named=True):
        delivered = packets.filter(flow=row["flow"], ssrc=row["ssrc"])["delivered_ns"] - row["at_ns"]
        received = row["packetsReceived"] - (row["retransmittedPacketsReceived"] or 0)
        # On a busy machine a page counts some packets late, and a report some that came after its time.
        assert (delivered < -300e6).sum() <= received <= (delivered < 300e6).sum()
    assert set(trace.table("frames")["flow"]) == set(about.flows)
    assert set(trace.table("host")["participant"]) == {"alice", "bob", "app"}


def media(packets: pl.DataFrame) -> list[tuple[tuple[str], pl.DataFrame]]:
    """The packets of audio and video by flow."""
    only = packets.filter(pl.col("kind").is_in(["audio", "video"]))
    return [((str(flow),), part) for (flow,), part in only.group_by("flow")]


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        (
            {"participants.alice.page": "http://app:3001/"},
            "the page of alice: http://app:3001/ did not load: net::ERR_CONNECTION_REFUSED",
        ),
        (
            {"participants.alice.steps": [{"click": "#leave", "timeout": "1 s"}]},
            "the page of alice: participants.alice.steps.0: no element `#leave` was visible within 1 s",
        ),
        (
            {"app.command": f"{sys.executable} -c 'import sys; sys.exit(\"no port for me\")'"},
            "the server app ended with exit status 1; it last said:\n  no port for me",
        ),
        (
            {
                "app.command": "timeout --signal=KILL 3 python3 own-page/server.py",
                "app.directory": str(SHIPPED / "examples"),
            },
            "the server app was killed by SIGKILL",
        ),
    ],
    ids=["page", "step", "server", "server in the middle"],
)
def test_what_does_not_work_fails_the_call_with_its_reason(
    tmp_path: Path, changes: dict[str, object], reason: str
) -> None:
    with pytest.raises(CallFailed) as failed:
        run(tmp_path / "call", Scenario.load("examples/own-page", changes))
    assert failed.value.message == reason
