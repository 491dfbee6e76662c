"""The congestion control, feedback and field trials that a page names are those that ran."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from synthetic_run import frame, report, second, write_run

from rtclab import _native
from rtclab.cli import main
from rtclab.importers.logs.control import control_values
from rtclab.importers.logs.event_log import read_event_log
from rtclab.report import words
from rtclab.report.comparisons import write_comparison
from rtclab.report.runs import write_report
from rtclab.trace import ModesInUse, Run

LOG = Path(__file__).parent / "event_logs" / "event-log-alice-bob.log"
SCREAM = "WebRTC-Bwe-ScreamV2/Enabled/"
GOOG_CC = {"target_bps": 5e5, "loss_ratio": 0.0, "delay_based_bps": 6e5, "transport_wide_packets": 30.0}
RFC_8888 = {"rfc8888_packets": 200.0, "ect1_packets": 190.0, "ce_packets": 5.0}
STATES_OF_SCREAM = {"target_bps": 5e5, "ref_window_bytes": 2e4, "l4s_marked_ratio": 0.1} | RFC_8888


def run_of(
    out: Path,
    backend: str,
    browser: dict[str, Any] | None = None,
    manifest: dict[str, Any] | None = None,
    **recorded: dict[str, float],
) -> Run:
    """A run in which each participant's control recorded these values, twice."""
    values = [
        {"at_ns": at, "participant": who, "flow": f"{who}->x", "name": name, "value": value / 2}
        for who, of in recorded.items()
        for name, value in of.items()
        for at in (0, 1)
    ]
    tables = {
        "controller": frame("controller", values),
        "outbound_rtp": frame("outbound_rtp", [report(1, participant=who) for who in recorded]),
        "flow_seconds": frame("flow_seconds", [second(0, 100)]),
    }
    run = write_run(out, [tables], **(manifest or {}))
    scenario = {**run.scenario} | ({} if browser is None else {"browser": browser})
    return replace(run, backend=backend, scenario=scenario)


def facts(run: Run) -> dict[str, str]:
    return {name: value for name, value in words.controls(run) if value}


def test_a_live_run_names_the_control_whose_values_the_browsers_recorded(tmp_path: Path) -> None:
    trials = {"field_trials": SCREAM, "args": []}
    run = run_of(tmp_path, "live", trials, alice=STATES_OF_SCREAM, bob=STATES_OF_SCREAM)
    assert facts(run) == {
        "Congestion control": "SCReAM",
        "Feedback": "RFC 8888",
        "ECN": "95 % of the packets arrived with ECT(1), 2.50 % with CE",
        "Field trials": f"{SCREAM} (alice and bob) as given; Chromium ignores unknown names",
    }
    page = write_report(run).read_text()
    assert "SCReAM" in page
    assert "goog-cc" not in page


def test_participants_with_different_controls_are_told_apart(tmp_path: Path) -> None:
    mixed = facts(run_of(tmp_path, "live", alice=STATES_OF_SCREAM, bob=GOOG_CC))
    assert mixed["Congestion control"] == "SCReAM (alice), goog-cc (bob)"
    assert mixed["Feedback"] == "RFC 8888 (alice), transport-wide (bob)"
    shadowed = facts(run_of(tmp_path, "live", alice=GOOG_CC | STATES_OF_SCREAM, bob=GOOG_CC))
    assert shadowed["Congestion control"] == "SCReAM and goog-cc (alice), goog-cc (bob)"
    silent = facts(run_of(tmp_path, "live", alice=GOOG_CC, bob={}))
    assert silent["Congestion control"] == "goog-cc (alice), not recorded (bob)"
    assert "Feedback" not in facts(run_of(tmp_path, "live", alice={}, bob={}))


RFC_8888_TRIAL = "WebRTC-RFC8888CongestionControlFeedback/Enabled,offer:true/"


def used(control: str | None, *feedback: str, **ecn: int) -> ModesInUse:
    return ModesInUse(control=control, feedback=feedback, ecn=ecn)


def test_a_live_run_names_what_was_on_the_wire_and_the_trials_with_which_browsers_were_started(
    tmp_path: Path,
) -> None:
    seen = {
        "alice->bob": used("scream", "rfc8888", ect1=3000, ce=1000),
        "bob->alice": used("scream", "rfc8888"),
    }
    trials = {"alice": SCREAM + RFC_8888_TRIAL, "bob": RFC_8888_TRIAL}
    about = {"used": seen, "field_trials": trials}
    run = run_of(tmp_path, "live", None, about, alice=STATES_OF_SCREAM, bob=STATES_OF_SCREAM)
    assert facts(run) == {
        "Congestion control": "SCReAM",
        "Feedback": "RFC 8888",
        "ECN sent": "75 % of the RTP packets with ECT(1) and 25 % of the RTP packets with CE (alice)",
        "ECN": "95 % of the packets arrived with ECT(1), 2.50 % with CE",
        "Field trials": f"{SCREAM}{RFC_8888_TRIAL} (alice); {RFC_8888_TRIAL} (bob) as given; "
        "Chromium ignores unknown names",
    }


def test_of_a_relayed_flow_the_event_log_tells_the_feedback(tmp_path: Path) -> None:
    about = {"used": {"alice->bob": used("goog-cc")}}
    run = run_of(tmp_path, "live", None, about, alice=GOOG_CC)
    assert facts(run)["Feedback"] == "transport-wide"


CCFB = {"name": "goog-cc", "stack": "chrome-156-ccfb"}
OTHER_FEEDBACK = "feedback of kind transport-wide, though the scenario asks for RFC 8888"


@pytest.mark.parametrize(
    ("asked", "seen", "warning"),
    [
        ({"name": "scream"}, used("scream", "rfc8888"), ""),
        ({"name": "scream"}, used(None), ""),
        ({"name": "scream"}, used("goog-cc", "rfc8888"), "goog-cc, though the scenario asks for SCReAM"),
        ({"name": "scream"}, used("scream", "transport-wide"), OTHER_FEEDBACK),
        (
            {"name": "scream"},
            used("goog-cc", "transport-wide"),
            f"goog-cc, though the scenario asks for SCReAM, and {OTHER_FEEDBACK}",
        ),
        ({"name": "goog-cc"}, used("goog-cc", "transport-wide"), ""),
        ({"name": "goog-cc"}, used("scream"), "SCReAM, though the scenario asks for goog-cc"),
        (CCFB, used("goog-cc", "rfc8888"), ""),
        (CCFB, used("goog-cc", "transport-wide"), OTHER_FEEDBACK),
        ({"name": "remb"}, used("goog-cc", "remb"), ""),
        (
            {"name": "remb"},
            used("goog-cc", "transport-wide"),
            "feedback of kind transport-wide, though the scenario asks for REMB",
        ),
    ],
)
def test_a_page_warns_if_a_live_call_used_something_else_than_the_scenario_asks_for(
    tmp_path: Path, asked: dict[str, Any], seen: ModesInUse, warning: str
) -> None:
    run = run_of(tmp_path, "live", None, {"used": {"alice->bob": seen}}, alice=GOOG_CC)
    run = replace(run, scenario={**run.scenario, "congestion_control": asked})
    assert words.cautions(run) == ([f"alice → bob used {warning}."] if warning else [])
    assert (warning in write_report(run).read_text()) or not warning


def test_a_page_of_the_users_own_chooses_its_feedback_itself(tmp_path: Path) -> None:
    about = {"used": {"alice->bob": used("goog-cc", "remb")}}
    run = run_of(tmp_path, "live", None, about, alice=GOOG_CC)
    people = {"alice": {"page": "http://app/"}, "bob": {}}
    assert words.cautions(replace(run, scenario={**run.scenario, "participants": people})) == []


@pytest.mark.parametrize(
    ("browser", "given"),
    [
        ({"field_trials": SCREAM, "args": []}, f"browser.field_trials = {SCREAM}"),
        ({"field_trials": "", "args": ["--mute-audio", "--x"]}, "browser.args = --mute-audio --x"),
        ({"name": "firefox", "encryption": True}, "browser.name = firefox"),
        ({"name": "chromium", "field_trials": "", "args": []}, ""),
    ],
)
def test_a_simulated_run_warns_of_what_only_browsers_read(
    tmp_path: Path, browser: dict[str, Any], given: str
) -> None:
    run = run_of(tmp_path, "sim", browser, alice={}, bob={})
    warning = f"No effect in a simulated call: {given}."
    assert words.cautions(run) == ([warning] if given else [])
    assert (warning in write_report(run).read_text()) == bool(given)
    both = write_comparison({"a": run, "b": run}, tmp_path / "both.html").read_text()
    assert both.count(warning) == bool(given)
    assert words.cautions(run_of(tmp_path, "live", browser, alice={}, bob={})) == []


def test_the_control_of_a_simulated_run_is_that_of_each_participant(tmp_path: Path) -> None:
    run = run_of(tmp_path, "sim", alice={}, bob={})
    assert facts(run) == {"Congestion control": "goog-cc"}
    own = {"bob": {"congestion_control": {"name": "gcc-2016"}}, "alice": {"congestion_control": None}}
    run = replace(run, scenario={**run.scenario, "participants": own})
    assert facts(run) == {"Congestion control": "gcc-2016 (bob), goog-cc (alice)"}


def test_an_event_log_tells_the_kind_of_feedback_and_of_how_many_packets() -> None:
    values = control_values(read_event_log(LOG))
    reported = values.filter(pl.col("name") == "transport_wide_packets")
    # The log has 1308 rows, one for each packet in a feedback sent or received.
    received = read_event_log(LOG).tables["transport_feedback"].filter(pl.col("sent") == 0)
    assert reported["value"].sum() == received.height
    assert reported.height == received["at_ms"].n_unique()
    assert "rfc8888_packets" not in values["name"]


def test_feedback_of_rfc_8888_tells_how_many_packets_were_marked(monkeypatch: pytest.MonkeyPatch) -> None:
    native, faults = _native.event_log(LOG.read_bytes())
    # Two messages at 7 and 9 ms, about packets that arrived Not-ECT, lost, with ECT(1), ECT(0) and CE.
    rows = [(7, 0, 0), (7, 0, -(2**63)), (7, 0, 1), (9, 0, 1), (9, 0, 2), (9, 0, 3), (9, 1, 1)]
    names = list(native["congestion_feedback"])
    columns = {name: np.zeros(len(rows), dtype=np.int64) for name in names}
    for index, name in enumerate(("at_ms", "sent", "ecn")):
        columns[name] = np.array([row[index] for row in rows], dtype=np.int64)
    monkeypatch.setattr(
        _native, "event_log", lambda content: (native | {"congestion_feedback": columns}, faults)
    )
    values = control_values(read_event_log(LOG)).filter(pl.col("at_ms") < 10)
    found = {(at_ms, name): value for at_ms, name, value in values.iter_rows()}
    assert {key: value for key, value in found.items() if "packets" in key[1]} == {
        (7, "rfc8888_packets"): 3,
        (7, "ect1_packets"): 1,
        (7, "ce_packets"): 0,
        (9, "rfc8888_packets"): 3,
        (9, "ect1_packets"): 1,
        (9, "ce_packets"): 1,
    }


def test_the_command_show_has_the_field_trials_and_whose_they_are(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["show", "first-call", "--set", f"browser.field_trials={SCREAM}"])
    shown = capsys.readouterr().out
    assert f"field trials of alice and bob, in live calls only: {SCREAM}" in shown
    assert "simulated control" in shown


def test_the_command_run_warns_of_field_trials(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    command = ["run", "first-call", "--duration", "2s", "--repeats", "1", "--no-report"]
    with pytest.raises(SystemExit):
        main([*command, "--set", f"browser.field_trials={SCREAM}"])
    assert f"No effect in a simulated call: browser.field_trials = {SCREAM}." in capsys.readouterr().err
    with pytest.raises(SystemExit):
        main(command)
    assert "trials" not in capsys.readouterr().err
