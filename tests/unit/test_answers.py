"""The first screen of a run's page: marks by standards, the sentence, figures, timeline, people."""

from __future__ import annotations

import json
import re
from math import exp
from pathlib import Path

import numpy as np
import pytest
from synthetic_run import frame, second, write_run

import rtclab
from rtclab.experiment import Results, summary_of_run
from rtclab.report.people import LEVELS, NO_PICTURE, POINTS, people_of
from rtclab.report.quality import FREEZES, FREEZES_SOURCE, SCALES, judged, stalling_indication, worst
from rtclab.report.run_answer import answer_of, when
from rtclab.report.runs import findings_of
from rtclab.report.timeline import events_of, timeline
from rtclab.report.why import why
from rtclab.report.words import brief
from rtclab.trace import NS_PER_S

MINUTE = (0, 60 * NS_PER_S)


def frozen(*spans_s: tuple[float, float]) -> np.ndarray[tuple[int, ...], np.dtype[np.int64]]:
    return (np.array(spans_s).reshape(-1, 2) * NS_PER_S).astype(np.int64)


def test_freezes_are_worth_what_the_equation_of_p_1203_3_says() -> None:
    assert stalling_indication(frozen(), MINUTE) == 5
    # Two freezes of 1 and 2 s, 20 s apart, 50 and 30 s before the end.
    weighted_s = sum(s * (0.48412879 + 0.51587121 * 0.5 ** (ago / 10)) for s, ago in ((1, 50), (2, 30)))
    expected = 1 + 4 * exp(-2 / 9.35158684) * exp(-weighted_s / 60 / 0.91890815) * exp(-20 / 60 / 11.0567558)
    assert stalling_indication(frozen((10, 11), (30, 32)), MINUTE) == pytest.approx(expected)


def test_a_screen_that_stays_dark_is_worth_nothing_whenever_it_is_dark() -> None:
    assert stalling_indication(frozen((0.5, 60)), MINUTE) == pytest.approx(1, abs=0.2)
    # In an hour, half a minute is little, though the model for five minutes would say 1.
    assert stalling_indication(frozen((100, 130)), (0, 3600 * NS_PER_S)) > 4.5


@pytest.mark.parametrize("times", [2, 3, 6])
def test_a_call_shorter_than_a_minute_is_judged_as_if_it_went_on_in_the_same_way(times: int) -> None:
    length_s = 60 / times
    short = frozen((2, 3), (5, 5.5))
    whole = frozen(
        *((a + k * length_s, b + k * length_s) for k in range(times) for a, b in ((2, 3), (5, 5.5)))
    )
    assert stalling_indication(short, (0, int(length_s * NS_PER_S))) == stalling_indication(whole, MINUTE)
    # As a part of a longer call that is measured alone.
    later = frozen((102, 103), (105, 105.5))
    span = (100 * NS_PER_S, int((100 + length_s) * NS_PER_S))
    assert stalling_indication(later, span) == pytest.approx(stalling_indication(whole, MINUTE))


def test_sound_is_bad_from_where_the_model_of_opus_has_no_satisfied_users() -> None:
    # ITU-T G.107.2 with Ie = 16.8 and Bpl = 10.4 at 31 kbit/s: R = 148 - Ie - (132 - Ie) P / (P + Bpl).
    scale = SCALES["audio_concealed"]
    rating = [
        (148 - 16.8 - (132 - 16.8) * loss / (loss + 10.4)) / 1.48 for loss in (scale.good, scale.bad, 11)
    ]
    assert rating[0] > 70 > rating[1] > 50 > rating[2]
    assert [scale.mark(value) for value in (3.0, 3.1, 10.0, 10.1, float("nan"))] == [
        "good",
        "poor",
        "poor",
        "bad",
        "",
    ]
    assert worst(["", "good", "bad", "poor"]) == "bad"
    assert worst(["", ""]) == ""


def made(tmp_path: Path, text: str, repeats: int = 2) -> Results:
    file = tmp_path / "call.toml"
    file.write_text(f'duration = "30 s"\n{text}')
    return rtclab.run(file, repeats=repeats, out=tmp_path)


BAD_CALL = """
[participants.desk]
[participants.phone]
[video]
[audio]
[participants.phone.link]
down = {}
[participants.phone.link.up]
queue = "800 ms"
capacity = { steps = [["0 s", "2 Mbit/s"], ["12 s", "100 kbit/s"], ["24 s", "2 Mbit/s"]] }
"""


@pytest.fixture(scope="module")
def bad(tmp_path_factory: pytest.TempPathFactory) -> Results:
    return made(tmp_path_factory.mktemp("bad"), BAD_CALL)


def test_the_answer_says_who_when_and_after_what_and_what_to_do_next(bad: Results) -> None:
    run = bad.run
    measured = summary_of_run(run)
    found = findings_of(run, measured)
    marked = judged(run, found.means, found.media)
    answer = answer_of(run, measured, found, marked, why(run))
    assert answer.mark == "bad"
    bad_part, _, good_part = answer.how.partition(" Good from ")
    assert bad_part.startswith("Bad from phone to desk: ")
    assert "after phone.up fell to 100 kbit/s at 12 s" in bad_part
    assert good_part == "desk to phone."
    assert [step.command for step in answer.steps] == [
        f"rtclab remedy {run.path}",
        f"rtclab why {run.path} --all",
    ]
    labels = [figure.label for figure in answer.figures]
    assert labels[0] == "Video frozen"
    assert len(labels) == 5
    (row,) = measured.filter(metric="freeze_duration", flow="phone->desk").to_dicts()
    assert answer.figures[0].value == brief(found.means["freeze_duration", "phone->desk"])
    # Half a minute: the seconds per minute are about twice the seconds.
    assert 1.9 < found.means["freeze_duration", "phone->desk"] / row["mean"] < 2.1
    assert all(figure.source for figure in answer.figures if figure.mark)


def test_the_stretch_with_most_freezes_lies_where_they_are(bad: Results) -> None:
    run = bad.run
    words = when(run, ["phone->desk"], FREEZES)
    begin, end = (int(part) for part in words.partition("from ")[2].partition(" s,")[0].split(" to "))
    assert 11 <= begin < end <= 27
    assert when(run, ["desk->phone"], FREEZES) == ""


@pytest.mark.parametrize("first_s", [0, 6])
def test_a_trouble_without_a_worst_stretch_is_said_to_last_from_its_begin_to_its_end(
    tmp_path: Path, first_s: int
) -> None:
    loss = [["0 s", "0 %"], [f"{first_s} s", "12 %"]] if first_s else [["0 s", "12 %"]]
    text = f'extends = "first-call"\nlink.up.loss = {{ steps = {json.dumps(loss)} }}'
    run = made(tmp_path, text, repeats=3).run
    said = when(run, ["alice->bob"], "packet_loss")
    if not first_s:
        assert said == ", all through the call"
    else:
        begin, end = map(int, re.fullmatch(r", from (\d+) to (\d+) s", said).groups())
        assert first_s <= begin <= first_s + 1
        assert 29 <= end <= 30


def test_a_good_call_is_called_good_and_has_no_trouble(tmp_path: Path) -> None:
    run = made(
        tmp_path,
        "[participants.a]\n[participants.b]\n[video]\n[link]\nup = { capacity = '3 Mbit/s' }\ndown = {}\n",
    ).run
    measured = summary_of_run(run)
    found = findings_of(run, measured)
    answer = answer_of(run, measured, found, judged(run, found.means, found.media), why(run))
    assert answer.mark == "good"
    assert answer.how.startswith("Good both ways: ")
    assert "no video froze" in answer.how


def test_the_timeline_has_the_same_time_in_all_rows_and_the_steps_of_the_network(bad: Results) -> None:
    run = bad.run
    flows = ["phone->desk", "desk->phone"]
    rows = timeline(run, flows, why(run).accounts)
    assert [row.name for row in rows] == [
        "timeline-rate", "timeline-delay", "timeline-loss", "timeline-picture", "timeline-sound",
    ]  # fmt: skip
    assert {(row.x.begin, row.x.end) for row in rows} == {(0.0, rows[0].x.end)}
    assert [bool(row.x.label) for row in rows] == [False] * 4 + [True]
    assert all(len(row.axes) == 2 for row in rows)
    assert events_of(run) == [
        (12.0, "phone.up falls to 100 kbit/s"),
        (24.0, "phone.up rises to 2 Mbit/s"),
    ]
    assert rows[0].events == events_of(run)


MEETING = """
[video]
[servers.sfu]
[servers.sfu.link]
up = {}
down = {}
[participants.ann]
[participants.ben]
[participants.cid]
[participants.ann.link]
up = {}
down = {}
[participants.ben.link]
up = {}
down = {}
[participants.cid.link]
up = {}
down = { capacity = "150 kbit/s", queue = "400 ms" }
[[calls]]
kind = "sfu"
server = "sfu"
participants = ["ann", "ben", "cid"]
"""


def test_in_a_meeting_who_suffers_comes_first(tmp_path: Path) -> None:
    run = made(tmp_path, MEETING).run
    measured = summary_of_run(run)
    found = findings_of(run, measured)
    people = people_of(run, found, judged(run, found.means, found.media))
    assert people is not None
    assert people.receivers[0] == "cid"
    assert people.counts["bad"] == 2
    assert [cell.mark for cell in people.rows[0] if cell is not None] == ["bad", "bad"]
    assert people.cards[0].name == "cid"
    assert people.cards[0].received.startswith("sees 0 of 2 well")
    data = json.loads(people.data)
    assert set(data["pairs"]) == {f"{a}->{b}" for a in people.receivers for b in people.receivers if a != b}
    values, rate, *_ = data["pairs"]["ann->ben"]
    top, digits = rate
    assert len(digits) == POINTS
    mean = np.mean([LEVELS.index(digit) for digit in digits if digit != "-"]) / (len(LEVELS) - 1) * top
    assert mean == pytest.approx(values[1], rel=0.1)
    marked = judged(run, found.means, found.media)
    answer = answer_of(run, measured, found, marked, why(run))
    assert answer.how.startswith("Bad for cid: ")
    assert "cid" not in answer.how.partition("Good")[2]


def test_of_a_meeting_in_which_all_suffer_the_headline_says_so_and_why_says_what_was_lost_behind_the_server(
    tmp_path: Path,
) -> None:
    narrow = 'down = { capacity = "150 kbit/s", queue = "400 ms" }'
    run = made(tmp_path, re.sub(r"down = {}(?=\n\[participants\.\w+\.link)", narrow, MEETING)).run
    measured = summary_of_run(run)
    found = findings_of(run, measured)
    reasons = why(run)
    answer = answer_of(run, measured, found, judged(run, found.means, found.media), reasons)
    assert re.match(r"Bad for all 3, most for (ann|ben|cid): ", answer.how)
    for account in reasons.accounts:
        (limit,) = [text for part in account.parts for about, text in part if about == "limit"]
        assert limit.startswith("its sender was limited by ")
        (row,) = measured.filter(metric="packet_loss", flow=account.flow).to_dicts()
        told = re.search(r"; ([\d.]+) % of what the server forwarded was lost ", limit)
        assert told is not None
        assert float(told[1]) == pytest.approx(row["mean"], rel=0.01)


def test_who_never_saw_a_picture_is_marked_so(tmp_path: Path) -> None:
    run = made(tmp_path, MEETING.replace("150 kbit/s", "2 kbit/s"), repeats=1).run
    measured = summary_of_run(run)
    found = findings_of(run, measured)
    people = people_of(run, found, judged(run, found.means, found.media))
    assert people is not None
    assert {cell.text for cell in people.rows[0] if cell is not None} == {NO_PICTURE}


def test_two_people_are_no_meeting_and_a_run_without_values_still_has_an_answer(tmp_path: Path) -> None:
    rows = frame("flow_seconds", [second(at, 100) for at in range(5)])
    for tables in ({"flow_seconds": rows}, {}):
        run = write_run(tmp_path / str(len(tables)), [tables])
        measured = summary_of_run(run)
        found = findings_of(run, measured)
        assert people_of(run, found, []) is None
        marked = judged(run, found.means, found.media)
        assert answer_of(run, measured, found, marked, why(run)).how


def test_loss_is_marked_only_where_nothing_tells_what_was_seen(tmp_path: Path, bad: Results) -> None:
    rows = frame("flow_seconds", [second(at, 100, dropped_packets=20) for at in range(5)])
    run = write_run(tmp_path, [{"flow_seconds": rows}])
    found = findings_of(run, summary_of_run(run))
    (alone,) = judged(run, found.means, ["alice->bob"])
    assert (alone.metric, alone.mark) == ("packet_loss", "bad")
    of_call = findings_of(bad.run, summary_of_run(bad.run))
    assert "packet_loss" not in {one.metric for one in judged(bad.run, of_call.means, of_call.media)}


def test_the_page_on_statistics_has_the_source_of_every_mark() -> None:
    page = (Path(__file__).parents[2] / "docs" / "statistics.md").read_text(encoding="utf-8")
    text = " ".join(page.split())
    assert [
        one for one in (FREEZES_SOURCE, *(scale.source for scale in SCALES.values())) if one not in text
    ] == []
