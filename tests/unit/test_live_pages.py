"""The configuration of pages, and what the live backend refuses."""

from __future__ import annotations

from pathlib import Path

import pytest
from scenario_text import scenario

from rtclab.backend.live import LiveBackend, check_calls
from rtclab.backend.live.pages import pages
from rtclab.errors import UnsupportedScenario
from rtclab.scenario import Scenario


def page_of(participant: str, *changes: str) -> dict[str, object]:
    """The configuration of a participant's page in ``first-call`` with changes."""
    page: dict[str, object] = pages(Scenario.load("first-call", list(changes)))[participant]
    return page


def test_a_page_is_not_told_to_do_what_browsers_do_by_default() -> None:
    assert page_of("alice") == {
        "participant": "alice",
        "codec": "vp8",
        "fec": True,
        "video": {"width": 640, "height": 480, "frameRate": 30, "maxBitrate": None},
        "audio": None,
        "formats": {},
        "peers": {"bob": {"video": True, "audio": False}},
    }


@pytest.mark.parametrize(
    ("changes", "limit_bps"),
    [
        (["video.max_bitrate=1 Mbit/s"], 1_000_000),
        (["video.max_bitrate=600 kbit/s", "video.width=320", "video.height=240"], None),
        (["video.max_bitrate=1700 kbit/s", "video.width=1280", "video.height=720"], 1_700_000),
        (["video.max_bitrate=2500 kbit/s", "video.width=1280", "video.height=720"], None),
    ],
)
def test_a_maximum_bitrate_is_set_if_it_is_not_the_browsers_default_for_that_size(
    changes: list[str], limit_bps: int | None
) -> None:
    video = page_of("alice", *changes)["video"]
    assert isinstance(video, dict)
    assert video["maxBitrate"] == limit_bps


def test_bitrates_other_than_the_defaults_go_into_the_session_description_in_kbits() -> None:
    changes = ["video.min_bitrate=150 kbit/s", "video.start_bitrate=200 kbit/s", "audio.bitrate=20 kbit/s"]
    assert page_of("alice", *changes)["formats"] == {
        "vp8": "x-google-min-bitrate=150;x-google-start-bitrate=200",
        "opus": "maxaveragebitrate=20000;cbr=1",
    }


def test_a_participant_who_sends_nothing_still_learns_what_the_others_send() -> None:
    page = page_of("bob", "participants.bob.video=false")
    assert page["video"] is None
    assert page["peers"] == {"alice": {"video": True, "audio": False}}


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ("congestion_control.name=fixed", "congestion_control.name"),
        ("participants.bob.congestion_control.name=fixed", "participants.bob.congestion_control.name"),
        ("congestion_control.options.window=3", "congestion_control.options"),
        ("congestion_control.stack=chrome-27", "congestion_control.stack"),
        ("audio.frame=60 ms", "audio.frame"),
        ("video.height=481", "video.height"),
        ("video.repair=hybrid-2013", "video.repair"),
        ("host.encoder_capacity=20 Mpixel/s", "host.encoder_capacity"),
    ],
)
def test_a_field_that_no_browser_supports_is_refused(change: str, field: str) -> None:
    with pytest.raises(UnsupportedScenario) as refused:
        LiveBackend().check(Scenario.load("first-call", [change]))
    assert refused.value.field == field


@pytest.mark.parametrize(
    ("text", "field"),
    [
        ("[servers.turn]", "servers.turn"),
        ("[[calls]]\nrelay = 'core'", "calls.0.relay"),
        ("[[calls]]\nkind = 'sfu'", "calls.0.kind"),
        ("[[calls]]\nstart = '1 s'", "calls.0.start"),
        ("[[calls]]\nend = '9 s'", "calls.0.end"),
        ("[[calls]]\n[[calls]]", "calls.1.participants"),
    ],
)
def test_calls_that_pages_cannot_make_are_refused(tmp_path: Path, text: str, field: str) -> None:
    with pytest.raises(UnsupportedScenario) as refused:
        check_calls(scenario(tmp_path, text))
    assert refused.value.field == field
