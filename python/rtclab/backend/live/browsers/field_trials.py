"""The congestion controls that a browser has, and the field trials that make it use one."""

from __future__ import annotations

from rtclab.errors import UnsupportedScenario
from rtclab.scenario import Scenario
from rtclab.scenario.participant import CongestionControl

CONTROLS = ("goog-cc", "scream", "remb")
"""Names of the controls in scenarios that a browser has, too."""
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


def check_control(scenario: Scenario, participant: str, table: str) -> None:
    """Checks that a participant's browser has its congestion control, stack and options.

    Args:
        scenario: the scenario.
        participant: name of the participant.
        table: the table that has the control, in errors.

    Raises:
        UnsupportedScenario: the browser has none such. The message names the field.
    """
    control = scenario.congestion_control_of(participant)
    if control.name not in CONTROLS:
        raise UnsupportedScenario(
            f"{table}.name",
            f"browsers have their own congestion control, not `{control.name}`; expected "
            "`goog-cc`, `scream` or `remb`",
            hint="run it simulated: --backend sim",
        )
    if control.stack not in (None, RFC_8888_STACK) or (control.stack and control.name == "remb"):
        raise UnsupportedScenario(
            f"{table}.stack",
            f"browsers have their own stack, not `{control.stack}`; expected none or, with `goog-cc` and "
            f"`scream`, `{RFC_8888_STACK}`",
            hint="run it simulated: --backend sim",
        )
    if control.options:
        raise UnsupportedScenario(
            f"{table}.options",
            f"the congestion control of browsers takes no options; got `{', '.join(control.options)}`",
        )
    if uses_rfc_8888(control):
        _check_rfc_8888(scenario, participant, f"{table}.{'name' if control.name == 'scream' else 'stack'}")


def _check_rfc_8888(scenario: Scenario, participant: str, field: str) -> None:
    """Checks that both ends of each of a participant's connections can exchange feedback by RFC 8888."""
    browser = scenario.browser_of(participant).name
    control = scenario.congestion_control_of(participant)
    value = control.name if control.name == "scream" else control.stack
    if browser != "chromium":
        raise UnsupportedScenario(
            field, f"only Chromium has feedback by RFC 8888, not {browser}; got `{value}`, expected `goog-cc`"
        )
    for index, call in enumerate(scenario.calls):
        if participant not in call.participants:
            continue
        if call.kind in ("sfu", "mixing-mcu"):
            raise UnsupportedScenario(
                field,
                "the servers of live calls have no feedback by RFC 8888; "
                f"got `{value}` in `calls.{index}` of kind `{call.kind}`",
                hint="use a kind without a server such as `p2p`, or run it simulated: --backend sim",
            )
        others = [one for one in call.participants if not uses_rfc_8888(scenario.congestion_control_of(one))]
        if others:
            raise UnsupportedScenario(
                field,
                f"two browsers give each other the same feedback: {participant} needs RFC 8888, and "
                f"{others[0]} transport-wide feedback or REMB",
                hint=f"for {others[0]}, set `congestion_control.stack` to `{RFC_8888_STACK}`",
            )
