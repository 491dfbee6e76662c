"""Replays of logs and captures: agreement with the browser, the command, and errors."""

from __future__ import annotations

import html
import json
import re
import shutil
from pathlib import Path

import numpy as np
import polars as pl
import pytest

import rtclab
from rtclab.cli import main
from rtclab.errors import BadInput
from rtclab.importers.logs.event_log import NO_VALUE, read_event_log
from rtclab.importers.logs.live import rows_of
from rtclab.replays import ControlChoice, LogReplay, RateBounds
from rtclab.replays.agreement import agreement, first_divergence
from rtclab.replays.sockets import socket_times
from rtclab.report.plot_kinds import Steps
from rtclab.trace import FlowInfo, Trace, TraceManifest

LOG = Path(__file__).parent / "event_logs" / "event-log-alice-bob.log"
"""Six seconds of a call of two Chromium 156 over 1 Mbit/s."""


def steps(*changes: tuple[float, float]) -> Steps:
    at_s, values = zip(*changes, strict=True)
    return Steps("rate", np.array(at_s), np.array(values))


def run(*arguments: object) -> int | str | None:
    """Runs a command and returns its exit status."""
    with pytest.raises(SystemExit) as ended:
        main([str(argument) for argument in arguments])
    return ended.value.code


def test_agreement_weighs_differences_with_the_time_that_they_last() -> None:
    # From 5 s to 15 s: 4 s equal, 3 s 4 % above, 2 s 8 % above, 1 s 20 % below.
    own = steps((0, 100.0), (9, 104.0), (12, 108.0), (14, 80.0))
    measured = agreement(own, steps((0, 100.0)), 5.0, 15.0)
    assert measured is not None
    assert measured.within == pytest.approx((70.0, 90.0))
    assert measured.median_error == pytest.approx(4.0)
    assert measured.bias == pytest.approx(0.0)


def test_time_in_which_one_side_is_unknown_does_not_count() -> None:
    measured = agreement(steps((0, 100.0)), steps((8, 100.0)), 5.0, 10.0)
    assert measured is not None
    assert measured.within == (100.0, 100.0)
    assert agreement(steps((0, 100.0)), steps((12, 100.0)), 5.0, 10.0) is None


def test_a_divergence_lasts_half_a_second() -> None:
    browser = steps((0, 100.0))
    late = steps((0, 100.0), (1, 120.0), (1.4, 100.0), (3, 90.0))
    assert first_divergence(late, browser, 0.0, 10.0) == 3.0
    assert first_divergence(steps((0, 104.0)), browser, 0.0, 10.0) is None
    # A difference that changes in between is one.
    assert first_divergence(steps((0, 80.0), (0.3, 90.0)), browser, 0.0, 10.0) == 0.0


def trace_beside(log: Path, later_ns: int) -> None:
    """Writes the trace of a live call around a log; packets leave the socket ``later_ns`` after the log.

    Every fifth packet is not in the trace.
    """
    read = read_event_log(log)
    began_ns = (read.tables["target"]["at_ms"][0] - 100) * 10**6 + 123_456
    rows = read.tables["outgoing_rtp"]
    packets = rows.select(
        sent_ns=pl.col("at_ms") * 10**6 + later_ns - began_ns,
        ssrc="ssrc",
        seq="seq",
        flow=pl.lit("alice->bob"),
        size_bytes=pl.lit(100),
        protocol=pl.lit("rtp"),
    ).filter(pl.int_range(pl.len()) % 5 != 0)
    flow = FlowInfo(sender="alice", receiver="bob", begin_ns=0, end_ns=10**10)
    manifest = TraceManifest(backend="live", duration_ns=10**11, flows={"alice->bob": flow})
    controller = rows_of(read, "alice", "alice->bob", began_ns, 10**11)
    Trace.write(log.parent, {"packets": packets, "controller": controller}, manifest)


def test_packets_of_a_log_in_its_trace_are_sent_when_the_trace_saw_them(tmp_path: Path) -> None:
    log = Path(shutil.copy(LOG, tmp_path))
    trace_beside(log, later_ns=2_600_000)
    at_ms = read_event_log(log).tables["outgoing_rtp"]["at_ms"].to_numpy()
    sent_ms = socket_times(read_event_log(log))
    seen = np.arange(at_ms.size) % 5 != 0
    # 2.6 ms after a time in whole ms, rounded down.
    assert (sent_ms[seen] == at_ms[seen] + 2).all()
    assert (sent_ms[~seen] == NO_VALUE).all()
    # The control sees round trips that are shorter by the time until the socket.
    later, alone = (rtclab.replay(path, "goog-cc") for path in (log, LOG))
    assert not later.target.equals(alone.target)


def test_a_log_without_its_trace_has_no_socket_times(tmp_path: Path) -> None:
    log = Path(shutil.copy(LOG, tmp_path))
    assert socket_times(read_event_log(log)).size == 0
    trace_beside(log, later_ns=0)
    # The trace of another call beside it: its rows do not match the log.
    other = pl.read_parquet(tmp_path / "controller.parquet").with_columns(
        at_ns=pl.col("at_ns") + pl.int_range(pl.len()) * 10**6
    )
    other.write_parquet(tmp_path / "controller.parquet")
    assert socket_times(read_event_log(log)).size == 0


def test_a_browsers_log_is_replayed_beside_its_own_target() -> None:
    replayed = rtclab.replay(LOG, "goog-cc")
    assert isinstance(replayed, LogReplay)
    targets = dict(zip(replayed.target["at_s"], replayed.target["target_bps"], strict=True))
    assert targets[0.0] == 300_000
    browser = replayed.browser.filter(name="target_bps")
    assert browser["value"][0] == 300_000
    # Both begin with probes of three and six times the start rate.
    assert replayed.probes["rate_bps"][:2].to_list() == [900_000, 1_800_000]
    assert replayed.probes["cluster"][:2].to_list() == [1, 2]
    # The control's rate of a probe is that which the browser measured, to the millisecond of the clock.
    probed = replayed.browser.filter(name="probe_bps")["value"].max()
    after = replayed.target.filter(replayed.target["at_s"] < 1.0)["target_bps"].max()
    assert after == pytest.approx(probed, rel=0.05)


def test_a_fixed_rate_diverges_at_once_and_has_the_state_of_both_controllers() -> None:
    replayed = rtclab.replay(LOG, "fixed", max="9 Mbit/s")
    assert isinstance(replayed, LogReplay)
    figures = replayed.figures()
    assert figures["within_10_percent"] == 0
    assert figures["first_divergence_s"] == pytest.approx(0.0, abs=0.002)
    assert figures["reasons"]["replay"]["target_bps"] == 9_000_000
    assert figures["reasons"]["browser"]["target_bps"] == 300_000


def test_the_receiving_half_of_a_control_is_fed_with_the_arrivals_of_the_log(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    replayed = rtclab.replay(LOG, "remb")
    assert isinstance(replayed, LogReplay)
    assert replayed.rembs is not None
    # In a call over 1 Mbit/s the estimate of what arrives is not far above that.
    rates = replayed.rembs["rate_bps"]
    assert rates.len() > 5
    assert 300_000 < rates.max() < 1_500_000  # type: ignore[operator]
    # gcc-2016 sends its first REMB after 5 s, and the control of this log ran for less.
    assert rtclab.replay(LOG, "gcc-2016").rembs.is_empty()
    assert "receiving half got the arrivals" in replayed.plot().caption
    assert run("replay", LOG, "--control", "remb", "--control", "goog-cc") == 0
    printed = capsys.readouterr().out
    assert f"{LOG.name}, remb: fed with the same packets: its receiving half got" in printed
    assert "goog-cc: fed" not in printed
    alone = rtclab.replay(LOG, "goog-cc")
    assert isinstance(alone, LogReplay)
    assert (alone.rembs, alone.figures()["rembs"]) == (None, None)
    assert alone.plot().caption.endswith("for the same packets and feedback.")


def test_bounds_have_room_for_audio_only_if_there_is_some() -> None:
    assert RateBounds().native(audio=False) == (300_000, 30_000, 1_700_000, 0)
    assert RateBounds().native(audio=True) == (300_000, 30_000, 1_700_000, 49_600)


def test_a_control_is_a_name_with_options() -> None:
    assert ControlChoice.parse("rrtcc-2013,decrease=0.9") == ControlChoice("rrtcc-2013", {"decrease": 0.9})
    assert str(ControlChoice.parse("rrtcc-2013, decrease=0.9")) == "rrtcc-2013,decrease=0.9"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"control": "bbr"}, "no congestion control `bbr`; expected goog-cc"),
        ({"control": "goog-cc,beta=x"}, "goog-cc,beta=x: expected OPTION=NUMBER"),
        ({"control": "goog-cc,nothing=1"}, "has no such option"),
        ({"control": "goog-cc", "start": "300"}, "start: no unit in `300`"),
        ({"controller": "goog-cc"}, "controller: an argument of an earlier version"),
        ({"estimator": "gcc-2016"}, "estimator: an argument of an earlier version"),
    ],
)
def test_bad_input_is_named(arguments: dict[str, str], message: str) -> None:
    with pytest.raises(BadInput, match=message):
        rtclab.replay(LOG, **arguments)  # type: ignore[arg-type]


def test_the_command_prints_figures_and_writes_a_page(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    page = tmp_path / "replay.html"
    assert run("replay", LOG, "--control", "goog-cc", "--control", "fixed", "--plot", page) == 0
    text = page.read_text()
    names = re.findall(r'<figure[^>]* id="([^"]+)"', text)
    assert len(names) == len(set(names)) == 2  # the script finds the data of a plot by its name
    assert f"<h1>{LOG.name} replayed into goog-cc and fixed</h1>" in text
    assert re.search(
        r"The target of goog-cc is within 5 % of the browser's own for [\d.]+ % of the time",
        html.unescape(text),
    )
    printed = capsys.readouterr().out
    assert "within 5 % (%)" in printed
    assert "fixed: off by more than 5 % at 0.0" in printed
    assert "browser, delay-based" in page.read_text()
    assert run("replay", LOG, "--control", "goog-cc", "--json") == 0
    (figures,) = json.loads(capsys.readouterr().out)
    assert figures["control"] == "goog-cc"
    # The log is Chromium's, and its control was goog-cc. From the same feedback both decide alike.
    assert (figures["within_5_percent"], figures["within_10_percent"]) == (100, 100)
    assert abs(figures["bias_percent"]) < 1
    assert run("replay", LOG) == 2


def test_a_simulated_capture_gives_the_rembs_that_the_simulated_receiver_sent(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    made = rtclab.run(
        "first-call",
        duration="20 s",
        repeats=1,
        capture=True,
        out=tmp_path,
        set={"congestion_control.name": "gcc-2016"},
    )
    capture = made.path / "repeat-0" / "capture.pcapng"
    assert run("replay", capture, "--control", "gcc-2016", "--json") == 0
    (figures,) = json.loads(capsys.readouterr().out)
    assert figures["flows"]
    for flow in figures["flows"]:
        assert flow["last_bps"] == pytest.approx(flow["last_in_capture_bps"], rel=0.1)
    with pytest.raises(BadInput, match="`goog-cc` estimates at the sender"):
        rtclab.replay(capture, "goog-cc")
