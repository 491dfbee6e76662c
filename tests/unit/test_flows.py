"""Flows are chosen by patterns everywhere, and those of feedback alone are shown only on request."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from command_line import Rtclab

import rtclab as lab
from rtclab.errors import BadInput
from rtclab.experiment.flows import chosen_flows, flows_of, scenario_flows
from rtclab.gates.limits import Limit
from rtclab.metrics import feedback_flows
from rtclab.scenario import Scenario

MEETING = """
name = "meeting"
duration = "10 s"
[participants]
anna = {}
ben = {}
erin.link.up.capacity = "384 kbit/s"
[[calls]]
kind = "sfu"
[video]
[audio]
[link]
both = { capacity = "10 Mbit/s", delay = "15 ms" }
"""
TO_ERIN = {"anna->erin", "ben->erin", "core->erin"}
BACK = {"core->anna", "core->ben", "core->erin"}

KINDS = {
    "p2p": "kind = 'p2p'",
    "relay": "kind = 'p2p'\nrelay = 'core'",
    "sfu": "kind = 'sfu'",
    "mcu": "kind = 'mcu'",
    "mixing-mcu": "kind = 'mixing-mcu'",
    "star": "kind = 'star'",
    "hub-and-spoke": "kind = 'hub-and-spoke'",
    "tree": "kind = 'tree'",
}


def flows_printed(text: str) -> set[str]:
    """The names of flows in the rows of tables, without patterns in quotes."""
    words = (word for line in text.splitlines() if "not shown" not in line for word in line.split())
    return {word for word in words if "->" in word and "'" not in word}


@pytest.fixture
def meeting(tmp_path: Path) -> Path:
    file = tmp_path / "meeting.toml"
    file.write_text(MEETING.replace("erin.link.up.capacity", "erin.link.both.capacity"))
    return file


@pytest.mark.parametrize(
    ("patterns", "found"),
    [
        ("alice->bob", ["alice->bob"]),
        ("*->bob", ["alice->bob", "web[1]->bob"]),
        ("web[1]*", ["web[1]->bob"]),
        (["bob->*", "alice->bob"], ["alice->bob", "bob->alice"]),
        ("*", ["alice->bob", "bob->alice", "web[1]->bob"]),
    ],
)
def test_a_star_stands_for_any_text_and_nothing_else_is_special(
    patterns: str | list[str], found: list[str]
) -> None:
    assert chosen_flows(patterns, ["alice->bob", "bob->alice", "web[1]->bob"]) == found


def test_a_pattern_that_matches_no_flow_is_refused_by_name() -> None:
    with pytest.raises(BadInput, match=r"no flow `\*->eric`; expected `anna->erin`"):
        chosen_flows(["anna->*", "*->eric"], ["anna->erin"])


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("silent", ["", "ben = { video = false, audio = false }"])
def test_a_scenario_knows_which_of_its_flows_carry_feedback_alone(
    kind: str, silent: str, tmp_path: Path
) -> None:
    file = tmp_path / "call.toml"
    text = MEETING.replace("kind = 'sfu'", KINDS[kind]).replace('kind = "sfu"', KINDS[kind])
    text = text.replace("ben = {}", silent or "ben = {}").replace("erin.link.up", "erin.link.both")
    # Over 384 kbit/s, the second stream to erin would not be set up behind the first one within the call.
    file.write_text(text.replace("384 kbit/s", "5 Mbit/s"))
    trace = lab.simulate(file)
    planned = scenario_flows(Scenario.load(file))
    assert {name for name, carries in planned.items() if not carries} == feedback_flows(trace)
    assert [*planned] == trace.flows


def test_commands_show_the_flows_that_are_asked_for_and_feedback_only_then(
    meeting: Path, rtclab: Rtclab
) -> None:
    for arguments in (
        ["run", str(meeting), "--repeats", "2"],
        ["measure", "latest"],
        ["measure", "latest", "--all"],
        ["run", str(meeting), "--repeats", "2", "--no-report"],
        ["compare", "meeting-sim-1", "meeting-sim-2"],
        ["sweep", str(meeting), "--vary", "link.both.loss=0 %,1 %", "--repeats", "1", "--no-report"],
    ):
        usual, chosen = rtclab(*arguments), rtclab(*arguments, "--flow", "*->erin")
        assert usual.status == chosen.status == 0, usual.err + chosen.err
        shown = [
            {word for word in one.out.split() if "->" in word and "'" not in word} for one in (usual, chosen)
        ]
        assert not shown[0] & BACK, arguments
        assert {"anna->erin", "erin->anna"} <= shown[0], arguments
        assert shown[1] == TO_ERIN, arguments
    report = rtclab("report", "meeting-sim-1", "--flow", "*->erin", "--json")
    page = Path(json.loads(report.out)["page"]).read_text()
    assert "anna → erin" in page
    assert "erin → anna" not in page
    refused = rtclab("run", str(meeting), "--flow", "*->eric")
    assert refused.status == 2
    assert refused.err.startswith("flow: no flow `*->eric`; expected ")


def test_python_chooses_flows_in_tables_and_plots(meeting: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(meeting.parent)
    made = lab.run(meeting, repeats=2)
    assert set(made.metrics(flows="*->erin")["flow"]) == TO_ERIN
    assert set(made.summary(flows=["*->erin", "erin->ben"])["flow"]) == {*TO_ERIN, "erin->ben"}
    assert set(made.summary()["flow"]) >= BACK
    assert BACK.isdisjoint(made.flows)
    both = lab.compare(made, made, flows="*->erin", metrics=["rtt", "receiving_rate"])
    assert set(both.table()["flow"]) == TO_ERIN
    for plot in (
        made.plot(flow="*->erin"),
        made.plot(flows=["*->erin"]),
        both.plot(),
        lab.Trace(made.traces[0].path).plot(flow="*->erin"),
        made.plot("receiving_rate", flow="*->erin"),
    ):
        assert {axes.title.partition(",")[0].replace(" → ", "->") for axes in plot.axes} == TO_ERIN
    assert len(made.plot().axes) == 6


def test_a_trace_of_results_can_be_drawn_at_once(tmp_path: Path) -> None:
    text = "import rtclab; print(rtclab.simulate('first-call').plot(flow='*->bob').title)"
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, check=True)
    assert done.stdout == "Receiving rate against the capacity\n"


def test_flows_of_feedback_have_no_panel_and_no_test(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    made = lab.run("rfc8867/5.4", repeats=2, duration="60 s")
    assert len(made.plot("rate").axes) == 3
    compared = lab.compare(made, made)
    assert set(compared.table()["flow"]) == {"", *made.flows}
    assert len(made.flows) == 3
    assert len(flows_of(made.runs)) == 6


def test_a_limit_may_be_for_all_flows_that_match_a_pattern() -> None:
    limit = Limit.parse("frame_rate of *->erin >= 25 frame/s")
    checks = limit.checks("call", {"anna->erin": [30.0], "ben->erin": [3.0], "erin->ben": [1.0]})
    assert [(check.flow, check.verdict) for check in checks] == [
        ("anna->erin", "holds"),
        ("ben->erin", "broken"),
    ]
    assert [one.verdict for one in limit.checks("call", {"erin->ben": [1.0]})] == ["not measured"]


def test_what_a_comparison_names_is_what_it_corrects_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rtclab: Rtclab
) -> None:
    for rate in ("1 Mbit/s", "900 kbit/s"):
        assert not rtclab("run", "first-call", "--repeats", "3", "--duration", "20s", "--no-report",
                          "--set", f"link.up.capacity={rate}").status  # fmt: skip
    runs = ("first-call-sim-1", "first-call-sim-2")
    everything = lab.compare(*runs)
    one = lab.compare(*runs, metrics=["rtt"], flows="alice->bob")
    assert one.table().height == 1
    before = everything.table().filter(metric="rtt", flow="alice->bob")
    for column in ("base", "difference", "p"):
        assert one.table()[column].item() == before[column].item()
    # A single test is significant if and only if its own p-value is below 5 %.
    assert one.table()["significant"].item() is (one.table()["p"].item() < 0.05)
    assert one.verdicts() == everything.verdicts()
    told = rtclab("compare", *runs, "--metric", "rtt", "--flow", "alice->bob")
    assert "(1 paired test of what was asked for, Holm, 5 %)" in told.out
    tests = everything.table()["p"].count()
    assert f"({tests} paired tests, Holm, 5 %)" in rtclab("compare", *runs).out


def test_print_shows_a_comparison(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    made = lab.run("first-call", repeats=2, duration="10 s")
    text = str(lab.compare(made, made, labels=["then", "now"]))
    assert "object at" not in text
    for word in ("then: ", "now: ", "receiving_rate", "alice->bob", "no difference seen"):
        assert word in text


def test_the_worst_flows_of_a_large_meeting_are_printed(
    tmp_path: Path, rtclab: Rtclab, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    names = [f"p{number}" for number in range(5)]
    people = "\n".join(f"{name} = {{}}" for name in names)
    file = tmp_path / "meeting.toml"
    file.write_text(
        'name = "meeting"\nduration = "10 s"\n[[calls]]\n[video]\n[link]\n'
        f'up = {{ capacity = "20 Mbit/s" }}\n[participants]\n{people}\n'
        'zoe = { link.down = { capacity = "200 kbit/s", queue = "100 ms" } }\n'
    )
    result = rtclab("run", str(file), "--no-report")
    rows = flows_printed(result.out)
    assert len(rows) == 12
    # Two of them did not connect at all, so that their flows to zoe carried no media.
    assert {f"{name}->zoe" for name in names} <= rows
    assert "18 more flows" in result.out
    assert "did not connect" in result.err
    assert "feedback" not in result.out
    assert (
        len([line for line in rtclab("measure", "latest", "--flow", "*").out.splitlines() if "->" in line])
        == 30
    )
    assert "to zoe were lost" in result.out
