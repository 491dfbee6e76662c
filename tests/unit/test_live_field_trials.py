"""Which congestion controls live calls have, the field trials for them, and what calls turn out to use."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest
from scenario_text import scenario

from rtclab.backend.live.browsers.field_trials import trials_of
from rtclab.backend.live.browsers.launch_options import browsers
from rtclab.backend.live.records.controls_in_use import controls_in_use, feedback_of
from rtclab.backend.live.scenario_checks import check_participant
from rtclab.errors import UnsupportedScenario
from rtclab.trace import FlowInfo, ModesInUse

SCREAM = "WebRTC-Bwe-ScreamV2/Enabled/"
RFC_8888 = "WebRTC-RFC8888CongestionControlFeedback/Enabled,offer:true/"
STACK = "congestion_control.stack=chrome-156-ccfb"


@pytest.mark.parametrize(
    ("changes", "trials"),
    [
        ([], ""),
        (["congestion_control.name=remb"], ""),
        (["congestion_control.name=scream"], SCREAM + RFC_8888),
        (["congestion_control.name=scream", STACK], SCREAM + RFC_8888),
        ([STACK], RFC_8888),
        (["congestion_control.name=scream", "browser.field_trials=A/B/"], f"{SCREAM}{RFC_8888}A/B/"),
        # What the scenario says of a trial is left to it.
        (
            [
                "congestion_control.name=scream",
                "browser.field_trials=WebRTC-Bwe-ScreamV2/mode:only_after_ce/",
            ],
            f"{RFC_8888}WebRTC-Bwe-ScreamV2/mode:only_after_ce/",
        ),
    ],
)
def test_a_browser_is_started_with_the_trials_of_its_control(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, changes: list[str], trials: str
) -> None:
    asked = scenario(tmp_path, "", *changes)
    for participant in ("alice", "bob"):
        check_participant(asked, participant)
        assert trials_of(asked, participant) == trials
    module = "rtclab.backend.live.browsers.launch_options"
    monkeypatch.setattr(f"{module}.find_chromium", lambda: "/bin/it")
    monkeypatch.setattr(f"{module}.prepare", lambda *_: {"camera": None, "microphone": None})
    assert browsers(asked)["alice"].options.field_trials == trials


BOTH = "congestion_control.name=scream"


@pytest.mark.parametrize(
    ("tables", "changes", "field", "message"),
    [
        ("", ["congestion_control.name=nada"], "congestion_control.name", "not `nada`"),
        ("", ["congestion_control.name=scream-rfc8298"], "congestion_control.name", "not `scream-rfc8298`"),
        ("", ["congestion_control.stack=chrome-27"], "congestion_control.stack", "not `chrome-27`"),
        ("", ["congestion_control.name=remb", STACK], "congestion_control.stack", "`chrome-156-ccfb`"),
        ("", [BOTH, "congestion_control.options.a=1"], "congestion_control.options", "no options; got `a`"),
        ("", [BOTH, "browser.name=firefox"], "congestion_control.name", "only Chromium"),
        ("", [STACK, "browser.name=firefox"], "congestion_control.stack", "only Chromium"),
        (
            "",
            ["participants.alice.congestion_control.name=scream"],
            "participants.alice.congestion_control.name",
            "alice needs RFC 8888, and bob transport-wide",
        ),
        (
            "",
            ["participants.alice.congestion_control.stack=chrome-156-ccfb"],
            "participants.alice.congestion_control.stack",
            "alice needs RFC 8888, and bob transport-wide",
        ),
        ("[[calls]]\nkind='sfu'", [BOTH], "congestion_control.name", "`calls.0` of kind `sfu`"),
        ("[[calls]]\nkind='mixing-mcu'", [BOTH], "congestion_control.name", "of kind `mixing-mcu`"),
    ],
)
def test_a_control_that_no_browser_has_in_this_call_is_refused_by_name(
    tmp_path: Path, tables: str, changes: list[str], field: str, message: str
) -> None:
    asked = scenario(tmp_path, tables, *changes)
    with pytest.raises(UnsupportedScenario) as refused:
        check_participant(asked, "alice")
    assert refused.value.field == field
    assert message in str(refused.value)


def test_scream_and_goog_cc_may_meet_if_both_use_rfc_8888(tmp_path: Path) -> None:
    asked = scenario(tmp_path, "", STACK, "participants.alice.congestion_control.name=scream")
    check_participant(asked, "alice")
    check_participant(asked, "bob")
    assert (trials_of(asked, "alice"), trials_of(asked, "bob")) == (SCREAM + RFC_8888, RFC_8888)


def flow(sender: str, receiver: str) -> FlowInfo:
    return FlowInfo(sender=sender, receiver=receiver, route=(), begin_ns=0, end_ns=1)


FLOWS = {"alice->bob": flow("alice", "bob"), "bob->alice": flow("bob", "alice")}
NODES = {"10.0.0.1": "alice", "10.0.0.2": "bob", "fd00::3": "carol"}


def test_feedback_belongs_to_the_flow_of_which_its_sender_is_the_receiver() -> None:
    wire = {
        "flows": pl.DataFrame(
            {
                "flow": [0, 1, 2],
                "source": ["10.0.0.2:4000", "10.0.0.1:4001", "[fd00::3]:9"],
                "destination": ["10.0.0.1:4001", "10.0.0.2:4000", "10.0.0.1:4001"],
            }
        ),
        "rtcp": pl.DataFrame({"flow": [0, 0, 1, 1, 2], "type": ["SR", "CCFB", "TWCC", "AFB", "CCFB"]}),
    }
    flows = FLOWS | {"alice->carol": flow("alice", "carol"), "carol->alice": flow("carol", "alice")}
    assert feedback_of(wire, NODES, flows) == {
        "alice->bob": {"rfc8888"},
        "bob->alice": {"transport-wide", "remb"},
        "alice->carol": {"rfc8888"},
        "carol->alice": set(),
    }


def test_a_flow_used_what_its_packets_feedback_and_event_log_show() -> None:
    packets = pl.DataFrame(
        [("alice->bob", "rtp", "ect1")] * 3
        + [
            ("alice->bob", "rtp", "not-ect"),
            ("alice->bob", "stun", "not-ect"),
            ("bob->alice", "rtcp", "ect1"),
        ]
        + [("bob->alice", "rtp", "not-ect"), ("bob->alice", "rtp", None)],
        schema=["flow", "protocol", "ecn"],
        orient="row",
    )
    controller = pl.DataFrame(
        {
            "flow": ["alice->bob", "bob->alice", "bob->alice"],
            "name": ["ref_window_bytes", "a", "delay_based_bps"],
        }
    )
    found = controls_in_use(FLOWS, packets, {"alice->bob": {"rfc8888"}}, controller)
    assert found == {
        "alice->bob": ModesInUse(control="scream", feedback=("rfc8888",), ecn={"ect1": 3, "not-ect": 1}),
        "bob->alice": ModesInUse(control="goog-cc", feedback=(), ecn={"not-ect": 1}),
    }
    # Without event logs the control is not known, and without RTP there is nothing to tell.
    none = controls_in_use(FLOWS, packets.filter(flow="alice->bob"), {}, controller.clear())
    assert none == {"alice->bob": ModesInUse(ecn={"ect1": 3, "not-ect": 1})}
