"""Who sees or hears nothing: promised time without pictures and sound, in calls, parts of calls and dumps."""

from __future__ import annotations

from itertools import pairwise
from math import isnan
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from synthetic_run import event, report, second, trace
from test_metrics_statistics import memory_run

import rtclab
from rtclab.backend.backends import planned_flows
from rtclab.backend.sim import SimBackend
from rtclab.experiment.comparison import compare_runs
from rtclab.experiment.summary import summary_of_run
from rtclab.gates.limits import Limit
from rtclab.metrics.audio import audio_concealed, concealment_events
from rtclab.metrics.media import (
    freeze_count,
    freeze_count_w3c,
    freeze_duration,
    freeze_duration_w3c,
    saw_nothing,
)
from rtclab.metrics.promises import never_connected
from rtclab.report.runs import run_verdict
from rtclab.scenario import Scenario
from rtclab.trace import Trace, Window

FLOW = "alice->bob"
NS_PER_S = 1_000_000_000
READY_S = 1.0
END_S = 21.0


def call(
    frames_s: list[float],
    promised: dict[str, list[tuple[float, float]]] | None = None,
    connected: bool = True,
    **tables: list[dict[str, Any]],
) -> Trace:
    """A flow of 21 s that is connected after 1 s, with pictures at these times and promised media."""
    frames = [{"ssrc": 1, "rendered_ns": round(at_s * NS_PER_S)} for at_s in frames_s]
    joined = [event(0, name, "joined") for name in ("alice", "bob")]
    ready = [event(900, "alice", "dtls_connected", "bob->alice"), event(1000, "bob", "dtls_connected", FLOW)]
    made = trace(
        {FLOW: [], "bob->alice": []},
        spans_s=dict.fromkeys([FLOW, "bob->alice"], (0, END_S)),
        frames=frames,
        flow_seconds=[second(END_S - 1)],
        events=[*joined, *(ready if connected else [])],
        **tables,
    )
    if promised is None:
        promised = {"video": [(0.0, END_S)]}
    spans = {
        kind: tuple((round(a * NS_PER_S), round(b * NS_PER_S)) for a, b in of)
        for kind, of in promised.items()
    }
    of_flow = made.manifest.flows[FLOW].model_copy(update={"promised": spans})
    back = made.manifest.flows["bob->alice"].model_copy(update={"promised": {}})
    made.manifest.flows.update({FLOW: of_flow, "bob->alice": back})
    return made


def fluent(begin_s: float, end_s: float) -> list[float]:
    """Thirty pictures a second."""
    return [begin_s + at / 30 for at in range(round((end_s - begin_s) * 30))]


def frozen(made: Trace, window: Window | None = None) -> tuple[float, float]:
    made = made.within(window)
    return freeze_count(made, FLOW), freeze_duration(made, FLOW)


def test_a_black_screen_is_frozen_from_the_end_of_set_up_on() -> None:
    black = call([])
    assert frozen(black) == (1, END_S - READY_S)
    assert frozen(black, (0, 5)) == (1, 4)
    assert frozen(black, (0, 1)) == (0, 0)
    assert saw_nothing(black, FLOW)
    # Half a second of promised time is too short to say so.
    assert not saw_nothing(black.within((0, 1.5)), FLOW)


def test_one_picture_and_then_nothing_is_frozen() -> None:
    assert frozen(call([1.5])) == (1, END_S - 1.5)
    assert not saw_nothing(call([1.5]), FLOW)
    assert saw_nothing(call([1.5]).within((5, 10)), FLOW)


def test_the_first_picture_may_take_a_second() -> None:
    assert frozen(call(fluent(2.0, END_S))) == (0, 0)
    assert frozen(call(fluent(2.1, END_S))) == (1, pytest.approx(1.1))


@pytest.mark.parametrize(("every_s", "count"), [(1.0, 0), (2.0, 10), (5.0, 4)])
def test_a_picture_every_few_seconds_is_no_video(every_s: float, count: int) -> None:
    slides = call([READY_S + every_s * number for number in range(round(20 / every_s))])
    assert frozen(slides) == (count, 20 if count else 0)
    # W3C's rule compares an interval with the mean of the last thirty, which is as long.
    assert freeze_duration_w3c(slides.within((0, END_S)), FLOW) == 0


def test_a_short_freeze_counts_by_the_rule_of_w3c() -> None:
    stands = call([*fluent(READY_S, 5), *fluent(5.5, END_S)])
    expected = 0.5 + 1 / 30
    assert frozen(stands) == (1, pytest.approx(expected))
    assert freeze_count_w3c(stands.within((0, END_S)), FLOW) == 1
    assert freeze_duration_w3c(stands.within((0, END_S)), FLOW) == pytest.approx(expected)


def test_a_pause_is_not_frozen_in_any_window() -> None:
    pauses = {"video": [(0.0, 5.0), (15.0, END_S)]}
    # The last picture before the pause is shown a little later, and the first one after it, too.
    muted = call([*fluent(READY_S, 5.1), *fluent(15.2, END_S)], pauses)
    windows: list[Window | None] = [None, (0, 5), (5, 15), (4, 16), (15, 18), (15, END_S)]
    for window in windows:
        assert frozen(muted, window) == (0, 0), window
        assert freeze_duration_w3c(muted.within(window or (0, END_S)), FLOW) == 0, window
    assert not saw_nothing(muted.within((5, 15)), FLOW)
    black_afterwards = call(fluent(READY_S, 5.1), pauses)
    assert frozen(black_afterwards) == (1, 6)
    assert frozen(black_afterwards, (10, 18)) == (1, 3)


def test_who_never_connected_or_is_shown_nothing_is_not_blank() -> None:
    for made in (call([], connected=False), call([], {}), call([], {"audio": [(0.0, END_S)]})):
        assert isnan(freeze_duration(made, FLOW))
        assert isnan(freeze_count(made.within((5, 10)), FLOW))
        assert not saw_nothing(made, FLOW)


MICROSECONDS = st.floats(0, END_S).map(lambda at_s: round(at_s, 6))
"""Times in s; manifests round to nanoseconds, so that a shorter time would be none."""


@given(
    frames_s=st.lists(st.floats(0, END_S, exclude_max=True), max_size=60),
    pause=st.tuples(MICROSECONDS, MICROSECONDS).map(sorted),
    cuts=st.lists(st.floats(0, END_S), min_size=1, max_size=5),
)
def test_parts_add_up_to_the_whole_and_stay_within_the_promised_time(
    frames_s: list[float], pause: list[float], cuts: list[float]
) -> None:
    spans = [span for span in ((0.0, pause[0]), (pause[1], END_S)) if span[0] < span[1]]
    made = call(sorted(frames_s), {"video": spans})
    promised_s = sum(max(0.0, end_s - max(begin_s, READY_S)) for begin_s, end_s in spans)
    whole = freeze_duration(made, FLOW)
    assert isnan(whole) == (promised_s == 0)
    if isnan(whole):
        return
    edges = [0.0, *sorted(cuts), END_S]
    parts = [freeze_duration(made.within(window), FLOW) for window in pairwise(edges)]
    assert sum(parts) == pytest.approx(whole, abs=1e-6)
    assert 0 <= whole <= promised_s + 1e-6
    assert not freeze_duration_w3c(made.within((0, END_S)), FLOW) > whole + 1e-6


# --- dumps, which have counters and no pictures ------------------------------------------------------


def dump(packets: list[int], decoded: list[int], frozen_s: list[float] | None = None) -> Trace:
    """Reports once a second, from 1 s on."""
    rows = [
        report(
            at,
            packetsReceived=got,
            framesDecoded=shown,
            freezeCount=int(stood > 0),
            totalFreezesDuration=stood,
        )
        for at, got, shown, stood in zip(
            range(1, len(packets) + 1), packets, decoded, frozen_s or [0.0] * len(packets), strict=True
        )
    ]
    return trace(spans_s={FLOW: (0, len(packets))}, inbound_rtp=rows)


def test_a_dump_knows_that_packets_came_and_no_picture_was_decoded() -> None:
    packets = [100 * at for at in range(1, 21)]
    shown = [30 * min(at, 5) for at in range(1, 21)]
    black = dump(packets, shown)
    assert frozen(black) == (1, 15)
    assert frozen(black, (10, 12)) == (1, 2)
    # Where no packet came either, the sender may have paused.
    quiet = dump([100 * min(at, 5) for at in range(1, 21)], shown)
    assert frozen(quiet) == (0, 0)
    # Counted freezes count, whatever came, and not twice.
    counted = dump(
        packets,
        [30 * (at if at < 6 else max(5, at - 4)) for at in range(1, 21)],
        [4.0 * (at > 9) for at in range(1, 21)],
    )
    assert frozen(counted) == (1, pytest.approx(5, abs=1))


def test_a_dump_of_the_sender_does_not_know_what_the_receiver_saw() -> None:
    sent = [report(at, packetsSent=100 * at) for at in range(1, 21)]
    assert isnan(freeze_duration(trace(spans_s={FLOW: (0, 20)}, outbound_rtp=sent), FLOW))


# --- sound -------------------------------------------------------------------------------------------


def heard(from_s: int, concealed_share: float = 0.0, packets: bool = True) -> list[dict[str, Any]]:
    """Reports once a second of sound that begins at a second, or whose packets never come."""
    rows = []
    for at in range(1, 22):
        samples = 48_000 * max(0, at - from_s)
        rows.append(
            report(
                at,
                2,
                "audio",
                packetsReceived=50 * max(0, at - from_s) if packets else 0,
                totalSamplesReceived=samples,
                concealedSamples=round(samples * concealed_share),
                concealmentEvents=0,
            )
        )
    return rows


SOUND = {"audio": [(0.0, END_S)]}


def test_sound_that_never_came_is_made_up_to_the_whole() -> None:
    for rows in ([], heard(0, packets=False)):
        silent = call([], SOUND, inbound_rtp=[row | {"totalSamplesReceived": 0} for row in rows])
        assert audio_concealed(silent, FLOW) == 100
        assert audio_concealed(silent.within((5, 10)), FLOW) == 100
        assert isnan(concealment_events(silent, FLOW))


def test_sound_that_came_late_is_made_up_until_then() -> None:
    # Of 20 promised seconds the first five are silent, and of the others a tenth is made up.
    late = call([], SOUND, inbound_rtp=heard(6, 0.1))
    assert audio_concealed(late, FLOW) == pytest.approx(25 + 7.5)
    assert audio_concealed(late.within((10, 15)), FLOW) == pytest.approx(10)
    assert audio_concealed(call([], SOUND, inbound_rtp=heard(1, 0.1)), FLOW) == pytest.approx(10)


def test_packets_of_sound_that_nobody_plays_say_nothing() -> None:
    unplayed = [row | {"totalSamplesReceived": 0, "concealedSamples": 0} for row in heard(1)]
    assert isnan(audio_concealed(call([], SOUND, inbound_rtp=unplayed), FLOW))
    assert isnan(audio_concealed(call([], {"video": [(0.0, END_S)]}, inbound_rtp=heard(1)), FLOW))


# --- whole calls -------------------------------------------------------------------------------------

LINK = """
[link]
up = { capacity = "100 Mbit/s", delay = "5 ms", queue = "100 ms" }
down = { capacity = "100 Mbit/s", delay = "5 ms", queue = "100 ms" }
"""


def scenario(tmp_path: Path, text: str, changes: list[str] | None = None) -> Scenario:
    file = tmp_path / "scenario.toml"
    file.write_text(text)
    return Scenario.load(file, changes or [])


def test_a_viewer_behind_a_narrow_link_sees_nothing(tmp_path: Path) -> None:
    """A server forwards 2.5 Mbit/s into 400 kbit/s."""
    text = (
        'name = "narrow"\nduration = "20 s"\nrepeats = 3\n[participants.cam]\n'
        '[participants.viewer]\nvideo = false\nlink.down = { capacity = "400 kbit/s", queue = "100 ms" }\n'
        '[video]\nwidth = 1280\nheight = 720\nmax_bitrate = "2500 kbit/s"\n'
        '[servers.sfu]\n[[calls]]\nkind = "sfu"\nserver = "sfu"\n' + LINK
    )
    results = rtclab.run(scenario(tmp_path, text), out=tmp_path)
    row = results.summary(metrics=["freeze_duration"]).row(0, named=True)
    assert row["flow"] == "cam->viewer"
    assert 17 < row["mean"] <= 20
    assert row["ci95_high"] is None or row["ci95_high"] <= 20
    values = results.metrics(metrics=["freeze_duration"]).filter(flow="cam->viewer")["value"]
    (check,) = Limit.parse("freeze_duration < 1 s").checks("narrow", {"cam->viewer": values.to_list()})
    assert (check.verdict, check.broken) == ("broken", 3)


def test_more_loss_freezes_more(tmp_path: Path) -> None:
    text = (
        'name = "lossy"\nduration = "30 s"\n[participants.obs]\ncongestion_control = { name = "fixed" }\n'
        "[participants.viewer]\nvideo = false\n[video]\nwidth = 1280\nheight = 720\n"
        'max_bitrate = "4 Mbit/s"\nstart_bitrate = "4 Mbit/s"\nrepair = "none"\n' + LINK
    )
    durations = []
    for loss in ("0 %", "0.5 %", "3 %", "5 %"):
        made = rtclab.simulate(scenario(tmp_path, text, [f"link.up.loss={loss}"]))
        durations.append(freeze_duration(made, "obs->viewer"))
    assert durations[0] < 1
    assert durations == sorted(durations)
    assert durations[-1] > 28


def test_the_sound_of_a_muted_speaker_is_not_missing(tmp_path: Path) -> None:
    text = (
        'name = "muted"\nduration = "30 s"\n'
        '[participants.speaker]\npause = { start = "10 s", end = "20 s" }\n'
        "[participants.listener]\nvideo = false\n[audio]\n[video]\n" + LINK
    )
    made = SimBackend().simulate(scenario(tmp_path, text), seed=1, repeat=0)
    flow = "speaker->listener"
    windows: list[Window | None] = [None, (10, 20), (8, 22), (20, 24)]
    assert [freeze_duration(made.within(window), flow) for window in windows] == [0, 0, 0, 0]
    # The first packets take 10 ms and wait for some 100 ms. In the pause 10 s are made up.
    assert all(audio_concealed(made.within(window), flow) < 4 for window in (None, (8.0, 22.0), (20.0, 24.0)))
    assert isnan(audio_concealed(made.within((11, 19)), flow))


def promised_in(tmp_path: Path, text: str) -> dict[str, dict[str, Any]]:
    """By flow, the kinds that are promised, with their times in s."""
    flows = planned_flows(scenario(tmp_path, 'name = "a"\nduration = "30 s"\n' + text))
    return {
        name: {kind: [(a / NS_PER_S, b / NS_PER_S) for a, b in spans] for kind, spans in promised.items()}
        for name, flow in flows.items()
        if (promised := flow.promised)
    }


PEOPLE = (
    "[video]\n[audio]\n[participants.a]\n[participants.b]\naudio = false\n[participants.c]\nvideo = false\n"
)
BOTH, SEEN, HEARD = (
    {kind: [(0, 30)] for kind in kinds.split()} for kinds in ("video audio", "video", "audio")
)


@pytest.mark.parametrize(
    ("call", "expected"),
    [
        (
            'kind = "p2p"',
            {"a->b": BOTH, "a->c": BOTH, "b->a": SEEN, "b->c": SEEN, "c->a": HEARD, "c->b": HEARD},
        ),
        (
            'kind = "sfu"',
            {"a->b": BOTH, "a->c": BOTH, "b->a": SEEN, "b->c": SEEN, "c->a": HEARD, "c->b": HEARD},
        ),
        ('kind = "star"\nroot = "b"', {"b->a": SEEN, "b->c": SEEN}),
        (
            'kind = "mixing-mcu"',
            {
                "a->core": BOTH,
                "b->core": SEEN,
                "c->core": HEARD,
                **dict.fromkeys(["core->a", "core->b", "core->c"], BOTH),
            },
        ),
    ],
)
def test_what_is_promised_follows_from_who_sends_to_whom(
    tmp_path: Path, call: str, expected: dict[str, Any]
) -> None:
    assert promised_in(tmp_path, PEOPLE + "[[calls]]\n" + call) == expected


def test_nothing_is_promised_before_somebody_joins_or_while_they_pause(tmp_path: Path) -> None:
    text = (
        '[video]\n[participants.a]\npause = { start = "10 s", end = "12 s" }\n'
        '[participants.b]\njoin = "5 s"\n'
        "[traffic.load]\nsender = 'a'\nreceiver = 'b'\n"
    )
    assert promised_in(tmp_path, text) == {
        "a->b": {"video": [(5, 10), (12, 30)]},
        "b->a": {"video": [(5, 30)]},
    }


def test_intervals_of_times_stay_within_the_measured_time(tmp_path: Path) -> None:
    """Four repeats see nothing and one sees everything: Student's interval would reach beyond the call."""
    seen, black = call(fluent(READY_S, END_S)), call([])
    run = memory_run([black, black, black, black, seen])
    compared = compare_runs({"a": run, "b": run})
    row = compared.filter(metric="freeze_duration", flow=FLOW).row(0, named=True)
    assert row["base"] == pytest.approx(60 * 0.8 * 20 / 21)
    assert row["base_high"] == 60
    of_run = summary_of_run(run).filter(metric="freeze_duration", flow=FLOW).row(0, named=True)
    assert of_run["mean"] == pytest.approx(16)
    assert of_run["ci95_high"] == END_S


def test_who_was_never_connected_to_somebody_is_said(tmp_path: Path) -> None:
    """A downlink of 500 kbit/s for eight videos of 1.7 Mbit/s: some connections never come up in 20 s."""
    text = (
        'name = "narrow"\nduration = "20 s"\n[audio]\n[video]\n'
        + "".join(f"[participants.{name}]\n" for name in "abcdefgh")
        + '[participants.z.link]\nup = { capacity = "10 Mbit/s" }\n'
        'down = { capacity = "500 kbit/s", loss = "10 %", queue = "5 s" }\n'
        '[servers.sfu]\n[[calls]]\nkind = "sfu"\nserver = "sfu"\n' + LINK
    )
    results = rtclab.run(scenario(tmp_path, text), out=tmp_path)
    run = results.run
    (trace_of_run,) = run.traces
    met = {
        flow
        for participant, flow in trace_of_run.table("events")
        .filter(event="dtls_connected")
        .select("participant", "flow")
        .iter_rows()
        if participant == "z"
    }
    apart = {f"{name}->z" for name in "abcdefgh"} - met
    assert {flow for flow in trace_of_run.flows if never_connected(trace_of_run, flow)} == apart
    assert apart
    assert all(isnan(freeze_duration(trace_of_run, flow)) for flow in apart)
    assert "Z never connected to " in run_verdict(run, results.summary())
