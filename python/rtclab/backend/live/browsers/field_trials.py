"""The field trials that make a browser use a congestion control and its feedback."""

from __future__ import annotations

from rtclab.scenario import Scenario
from rtclab.scenario.participant import CongestionControl

RFC_8888_STACK = "chrome-156-ccfb"
"""The stack profile whose feedback is RFC 8888, in place of transport-wide feedback."""

SCREAM_TRIAL = "WebRTC-Bwe-ScreamV2/Enabled/"
"""Makes Chromium use SCReAM if feedback by RFC 8888 was negotiated, and otherwise goog-cc.

Source: libwebrtc, api/transport/goog_cc_factory.cc."""
RFC_8888_TRIAL = "WebRTC-RFC8888CongestionControlFeedback/Enabled,offer:true/"
"""Makes Chromium offer and accept feedback by RFC 8888. With SCReAM it then sends its media as ECT(1).

Source: libwebrtc, call/rtp_transport_controller_send.cc."""


def uses_rfc_8888(control: CongestionControl) -> bool:
    """Whether the feedback follows RFC 8888: always with SCReAM, otherwise if the stack says so."""
    return control.name == "scream" or control.stack == RFC_8888_STACK


def trials_of(scenario: Scenario, participant: str) -> str:
    """The field trials of a participant's browser, for its control and from the scenario.

    A trial that the scenario names itself is left to it.
    """
    control = scenario.congestion_control_of(participant)
    given = scenario.browser_of(participant).field_trials
    wanted = [SCREAM_TRIAL] if control.name == "scream" else []
    wanted += [RFC_8888_TRIAL] if uses_rfc_8888(control) else []
    names = given.split("/")[::2]
    return "".join(trial for trial in wanted if trial.partition("/")[0] not in names) + given
