"""The configuration of pages, and what the live backend refuses."""

from __future__ import annotations

from pathlib import Path

import pytest
from scenario_text import error, scenario

from rtclab.backend.live import LiveBackend
from rtclab.backend.live.browsers.page_settings import layers_of, pages
from rtclab.backend.live.connections import live_connections
from rtclab.backend.live.scenario_checks import check_calls, check_participant
from rtclab.errors import UnsupportedScenario
from rtclab.scenario import Scenario, Video


def page_of(participant: str, *changes: str) -> dict[str, object]:
    """The configuration of a participant's page in ``first-call`` with changes."""
    page: dict[str, object] = pages(Scenario.load("first-call", list(changes)))[participant]
    return page


def test_the_default_configuration_of_a_page_changes_no_default_of_the_browser() -> None:
    assert page_of("alice") == {
        "participant": "alice",
        "codec": "vp8",
        "fec": True,
        "transportFeedback": True,
        "video": {
            "width": 640,
            "height": 480,
            "frameRate": 30,
            "maxBitrate": None,
            "layers": [],
            "adapt": "off",
        },
        "audio": None,
        "formats": {},
        "clip": None,
        "sound": None,
        "connections": [
            {
                "number": 0,
                "call": 0,
                "peer": "bob",
                "feed": "alice",
                "server": None,
                "codec": "vp8",
                "forwards": None,
                "passesOn": False,
                "sends": {"video": True, "audio": False},
                "receives": {"video": True, "audio": False},
                "waitsMs": 0,
            }
        ],
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


def test_the_page_of_a_participant_who_sends_nothing_still_lists_the_media_of_the_others() -> None:
    page = page_of("bob", "participants.bob.video=false")
    assert page["video"] is None
    assert isinstance(page["connections"], list)
    (connection,) = page["connections"]
    assert connection["sends"] == {"video": False, "audio": False}
    assert connection["receives"] == {"video": True, "audio": False}


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
    ],
)
def test_a_field_that_no_browser_supports_is_refused(change: str, field: str) -> None:
    with pytest.raises(UnsupportedScenario) as refused:
        LiveBackend().check(Scenario.load("first-call", [change]))
    assert refused.value.field == field


def test_ends_with_and_without_encryption_cannot_connect(tmp_path: Path) -> None:
    check_calls(scenario(tmp_path, "", "browser.encryption=false"))
    one = scenario(tmp_path, "", "participants.bob.browser.encryption=false")
    with pytest.raises(UnsupportedScenario) as refused:
        check_calls(one)
    assert refused.value.field == "participants.bob.browser.encryption"
    with pytest.raises(UnsupportedScenario) as refused:
        check_calls(scenario(tmp_path, "[[calls]]\nkind = 'sfu'", "browser.encryption=false"))
    assert refused.value.field == "browser.encryption"


def test_firefox_always_encrypts(tmp_path: Path) -> None:
    said = error(tmp_path, "", "browser.name=firefox", "browser.encryption=false")
    assert "Firefox always encrypts media" in said


@pytest.mark.parametrize(
    ("call", "field", "said"),
    [
        ("kind = 'mcu'", "calls.0.kind", "no server of live calls forwards feedback unchanged; got `mcu`"),
        (
            "kind = 'sfu'\nservers = { core = ['alice'], box = ['bob'] }",
            "calls.0.servers",
            "servers of live calls are not connected with each other; got core, box",
        ),
    ],
)
def test_forwarding_mcus_and_cascades_have_no_program(
    tmp_path: Path, call: str, field: str, said: str
) -> None:
    with pytest.raises(UnsupportedScenario) as refused:
        check_calls(scenario(tmp_path, f"[servers.box]\n[[calls]]\n{call}"))
    assert refused.value.field == field
    assert said in str(refused.value)


MIXING = "[servers.box]\n[[calls]]\nkind = 'mixing-mcu'\nserver = 'box'"


def test_over_an_mcu_that_mixes_only_remb_is_accepted(tmp_path: Path) -> None:
    asked = scenario(tmp_path, MIXING, "congestion_control.name=remb")
    check_calls(asked)
    check_participant(asked, "alice")
    with pytest.raises(UnsupportedScenario, match="no transport-wide feedback; got `goog-cc`") as refused:
        check_participant(scenario(tmp_path, MIXING), "alice")
    assert refused.value.field == "congestion_control.name"


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ("servers.box.congestion_control.name=goog-cc", "servers.box.congestion_control.name"),
        ("servers.box.host.encoder_capacity=58 Mpixel/s", "servers.box.host"),
        ("servers.box.video.codec=av1", "servers.box.video.codec"),
        ("servers.box.video.height=241", "servers.box.video.height"),
        ("participants.alice.video.codec=vp9", "participants.alice.video.codec"),
        ("congestion_control.name=goog-cc", "congestion_control.name"),
        ("browser.encryption=false", "browser.encryption"),
    ],
)
def test_what_the_mcu_of_live_calls_cannot_do_is_refused(tmp_path: Path, change: str, field: str) -> None:
    with pytest.raises(UnsupportedScenario) as refused:
        check_calls(scenario(tmp_path, MIXING, "congestion_control.name=remb", change))
    assert refused.value.field == field


def test_a_server_of_live_calls_does_not_mix_and_forward(tmp_path: Path) -> None:
    text = f"{MIXING}\n[[calls]]\nkind = 'sfu'\nserver = 'box'"
    with pytest.raises(
        UnsupportedScenario, match="box cannot mix and be the server of kind `sfu`, too"
    ) as refused:
        check_calls(scenario(tmp_path, text, "congestion_control.name=remb"))
    assert refused.value.field == "calls"


def test_over_an_mcu_that_mixes_a_page_has_one_connection_for_both_directions(tmp_path: Path) -> None:
    text = f"[participants.carol]\nvideo = false\n{MIXING}"
    page = pages(scenario(tmp_path, text, "congestion_control.name=remb"))["carol"]
    (connection,) = page["connections"]
    assert (connection["peer"], connection["server"], connection["forwards"]) == ("box", "mixer", None)
    assert connection["sends"]["video"] is False
    assert connection["receives"]["video"] is True
    assert page["transportFeedback"] is False


def test_over_an_sfu_remb_is_refused(tmp_path: Path) -> None:
    asked = scenario(tmp_path, "[[calls]]\nkind = 'sfu'", "congestion_control.name=remb")
    with pytest.raises(UnsupportedScenario) as refused:
        check_participant(asked, "alice")
    assert refused.value.field == "congestion_control.name"
    check_participant(scenario(tmp_path, "", "congestion_control.name=remb"), "alice")


@pytest.mark.parametrize(("kind", "codec"), [("hub-and-spoke", "vp8"), ("sfu", "av1")])
def test_media_that_a_page_receives_have_the_codec_of_their_encoder(
    tmp_path: Path, kind: str, codec: str
) -> None:
    # alice is the hub: she encodes bob's video again. An SFU does not.
    text = f"[participants.carol]\n[[calls]]\nkind = '{kind}'"
    page = pages(scenario(tmp_path, text, "participants.bob.video.codec=av1"))["carol"]
    (passed,) = [one for one in page["connections"] if one["feed"] == "bob" and one["forwards"] is not None]
    assert passed["codec"] == codec


def test_a_hub_without_a_camera_encodes_in_the_codec_of_the_scenario(tmp_path: Path) -> None:
    text = "[participants.carol]\n[[calls]]\nkind = 'hub-and-spoke'"
    changes = ["video.codec=h264", "participants.alice.video=false"]
    assert pages(scenario(tmp_path, text, *changes))["alice"]["codec"] == "h264"


@pytest.mark.parametrize(
    ("text", "made"),
    [
        # Each connection: ends, whose media its first end sends, and the number of their source.
        ("[[calls]]\n[[calls]]", [("alice", "bob", "alice", None)] * 2),
        ("[[calls]]\nkind = 'star'\nroot = 'bob'", [("bob", "alice", "bob", None)]),
        (
            "[[calls]]\nkind = 'sfu'",
            [
                ("alice", "core", "alice", None),
                ("bob", "core", "bob", None),
                ("core", "bob", "alice", 0),
                ("core", "alice", "bob", 1),
            ],
        ),
    ],
)
def test_a_live_call_has_the_connections_of_the_simulated_one(
    tmp_path: Path, text: str, made: list[tuple[str, str, str, int | None]]
) -> None:
    found = live_connections(scenario(tmp_path, text))
    assert [(one.a, one.b, one.feed, one.forwards) for one in found] == made


def test_a_log_of_a_connection_that_only_receives_is_named_after_whose_media_it_receives(
    tmp_path: Path,
) -> None:
    found = live_connections(scenario(tmp_path, "[[calls]]\nkind = 'sfu'"))
    logs = [(name, one.logged_by(name)) for one in found for name in one.ends if name != "core"]
    assert logs == [
        ("alice", "alice->core"),
        ("bob", "bob->core"),
        ("bob", "bob->alice"),
        ("alice", "alice->bob"),
    ]


def test_the_second_call_of_a_pair_has_flows_of_its_own(tmp_path: Path) -> None:
    first, second = live_connections(scenario(tmp_path, "[[calls]]\n[[calls]]"))
    assert (first.sent_by("bob"), first.received_by("bob")) == ("bob->alice", "alice->bob")
    assert (second.sent_by("bob"), second.received_by("bob")) == ("bob->alice#2", "alice->bob#2")


@pytest.mark.parametrize(
    ("size", "layers"),
    [
        ((960, 540), ("q", "h", "f")),
        ((960, 538), ("h", "f")),
        ((640, 480), ("h", "f")),
        ((480, 270), ("h", "f")),
        ((480, 268), ("f",)),
    ],
)
def test_a_camera_is_sent_in_as_many_sizes_as_chromium_sends_of_it_the_full_one_included(
    size: tuple[int, int], layers: tuple[str, ...]
) -> None:
    video = Video(width=size[0], height=size[1], simulcast=True)
    assert layers_of(video) == layers
