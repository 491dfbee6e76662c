"""The network, the flows and the seeds of a scenario."""

from __future__ import annotations

import json
from pathlib import Path
from time import process_time
from typing import Any

import pytest
from scenario_text import TWO_PEOPLE, error, scenario

from rtclab.backend.backends import paths_table
from rtclab.errors import BadInput
from rtclab.phrases import path_in_words
from rtclab.scenario import (
    Bitrate,
    Browser,
    CongestionControl,
    Duration,
    Host,
    PathSpec,
    PixelRate,
    Scenario,
    shipped,
)
from rtclab.scenario.path import CapacityTrace
from rtclab.scenario.rate_traces import doubts


def test_a_participants_tables_are_merged_over_the_scenarios_tables(tmp_path: Path) -> None:
    changed = scenario(
        tmp_path,
        """
        [link]
        up = { capacity = "1 Mbit/s", delay = "25 ms" }
        [participants.carol]
        video = false
        link = { up = { delay = "1 ms" } }
        [participants.dave]
        link = { both = { delay = "7 ms" } }
        """,
    )
    assert changed.video_of("carol") is None
    assert changed.link_of("carol").up == PathSpec(capacity=Bitrate(10**6), delay=Duration(10**6))
    assert changed.link_of("dave").up == PathSpec()
    assert changed.link_of("dave").both == PathSpec(delay=Duration(7 * 10**6))


def test_a_participant_changes_single_keys_of_any_table(tmp_path: Path) -> None:
    changed = scenario(
        tmp_path,
        """
        [congestion_control]
        name = "gcc-2016"
        stack = "chrome-2016"
        options = { over_use_ms = 100, window_ms = 500 }
        [host]
        encoder_capacity = "50 Mpixel/s"
        [browser]
        args = ["--mute-audio"]
        [participants.carol]
        congestion_control.options.window_ms = 300
        host.decoder_capacity = "200 Mpixel/s"
        browser.field_trials = "WebRTC-A/B/"
        [participants.dave]
        congestion_control.name = "goog-cc"
        [servers.mcu]
        congestion_control.options.window_ms = 300
        [[calls]]
        kind = "mixing-mcu"
        server = "mcu"
        """,
    )
    own = {"over_use_ms": 100.0, "window_ms": 300.0}
    control = CongestionControl(name="gcc-2016", stack="chrome-2016", options=own)
    assert changed.congestion_control_of("carol") == changed.servers["mcu"].congestion_control == control
    host = Host(encoder_capacity=PixelRate(50_000_000), decoder_capacity=PixelRate(200_000_000))
    assert changed.host_of("carol") == host
    assert changed.browser_of("carol") == Browser(args=["--mute-audio"], field_trials="WebRTC-A/B/")
    # Options belong to the control that they were written for; a stack does not.
    assert changed.congestion_control_of("dave") == CongestionControl(name="goog-cc", stack="chrome-2016")
    assert changed.congestion_control_of("alice").options == {"over_use_ms": 100.0, "window_ms": 500.0}


@pytest.mark.parametrize(
    ("field", "value", "word"),
    [
        ("capacity", '"1 Mbit/s"', "unlimited"),
        ("ecn", '"bleach"', "keep"),
        ("delay", '{ ramp = "linear", from = "1 ms", to = "9 ms", start = "1 s", end = "2 s" }', "none"),
        ("jitter", '"2 ms"', "none"),
        ("loss", "{ p = 0.01, r = 0.5 }", "none"),
        ("tick", '"1 ms"', "none"),
        ("clock", '{ wander = "1 %", correlation = "1 s" }', "none"),
        ("wifi", "{}", "none"),
    ],
)
def test_what_is_inherited_can_be_unset_with_a_word(
    tmp_path: Path, field: str, value: str, word: str
) -> None:
    text = f"""
        link.both.{field} = {value}
        [participants.carol]
        link.both.{field} = "{word}"
        """
    changed = scenario(tmp_path, base="", text=text.replace("[p", f"{TWO_PEOPLE}[p", 1))
    assert getattr(changed.link_of("alice").both, field) != getattr(PathSpec(), field)
    assert changed.link_of("carol").both == PathSpec()
    # The word is the same as nothing, in the form that is kept and compared, too.
    (tmp_path / "base.toml").write_text((tmp_path / "my.toml").read_text())
    (tmp_path / "over.toml").write_text(f'extends = "base"\nname = "two"\nlink.both.{field} = "{word}"')
    unset = Scenario.load(tmp_path / "over.toml")
    assert unset.link_of("alice").both == PathSpec()
    assert unset == Scenario.load(tmp_path / "my.toml", [f"link.both.{field}={word}"])
    assert unset.model_dump(mode="json", exclude_defaults=True)["link"] == {"both": {}}


def test_a_queue_is_unset_with_its_capacity_or_alone(tmp_path: Path) -> None:
    limited = '[link]\nup = { capacity = "1 Mbit/s", queue = "300 ms" }\n[participants.carol]\n'
    alone = scenario(tmp_path, f'{limited}link.up.queue = "unlimited"')
    assert alone.link_of("carol").up == PathSpec(capacity=Bitrate(10**6))
    both = scenario(tmp_path, f'{limited}link.up = {{ queue = "unlimited", capacity = "unlimited" }}')
    assert both.link_of("carol").up == PathSpec()
    expected = (
        "my.toml: participants.carol.link.up.queue: a queue of `300 ms` without capacity never fills\n"
        "  hint: add capacity, for example `1 Mbit/s`, or set the queue to `unlimited`"
    )
    assert error(tmp_path, f'{limited}link.up.capacity = "unlimited"') == expected
    assert str(PathSpec.parse("capacity unlimited, queue unlimited, loss none")) == str(PathSpec())


@pytest.mark.parametrize(
    ("queue", "limit", "aqm"),
    [
        ('"300 ms"', {"kind": "time", "limit": 300_000_000}, None),
        ('{ aqm = "droptail", limit = "300 ms" }', {"kind": "time", "limit": 300_000_000}, None),
        ('{ aqm = "droptail" }', None, None),
        (
            '{ aqm = "codel", limit = "64 kB", ce_threshold = "1 ms" }',
            {"kind": "bytes", "limit": 64_000},
            {
                "kind": "codel",
                "target_ns": 5_000_000,
                "interval_ns": 100_000_000,
                "ecn": False,
                "ce_threshold_ns": 1_000_000,
            },
        ),
        (
            '{ aqm = "fq_codel", quantum = "300 B" }',
            None,
            {
                "kind": "fq_codel",
                "flows": 1024,
                "quantum": 300,
                "target_ns": 5_000_000,
                "interval_ns": 100_000_000,
                "ecn": True,
                "ce_threshold_ns": None,
                "drop_batch": 64,
            },
        ),
        (
            '{ aqm = "pie", mark_below = "20 %" }',
            None,
            {
                "kind": "pie",
                "target_ns": 15_000_000,
                "update_ns": 15_000_000,
                "alpha": 0.125,
                "beta": 1.25,
                "max_burst_ns": 150_000_000,
                "ecn": False,
                "mark_below": 0.2,
            },
        ),
        (
            '{ aqm = "step", only_ect1 = true }',
            None,
            {"kind": "step", "threshold_ns": 1_000_000, "only_ect1": True},
        ),
        (
            '{ aqm = "dualpi2", limit = "100 packets", coupling = 2 }',
            {"kind": "packets", "limit": 100},
            {
                "kind": "dualpi2",
                "target_ns": 15_000_000,
                "update_ns": 16_000_000,
                "alpha": 0.16,
                "beta": 3.2,
                "coupling": 2.0,
                "step_min_ns": 800_000,
                "step_max_ns": 1_200_000,
                "c_share": 0.1,
                "drop_overload": True,
            },
        ),
    ],
)
def test_a_discipline_reaches_the_native_side_with_the_defaults_of_its_rfc(
    tmp_path: Path, queue: str, limit: object, aqm: object
) -> None:
    loaded = scenario(tmp_path, f'[link.up]\ncapacity = "1 Mbit/s"\nqueue = {queue}')
    native = loaded.link.up.native("up")
    assert (native["queue"], native.get("aqm")) == (limit, aqm)
    assert Scenario.model_validate_json(loaded.model_dump_json()) == loaded


def test_a_path_that_changes_ecn_says_so_to_the_native_side() -> None:
    assert PathSpec.parse("ecn mangle").native("up")["ecn"] == "mangle"


def test_a_queue_takes_a_discipline_behind_wifi_too() -> None:
    path = PathSpec.parse("wifi {max_attempts = 3}, queue {aqm = fq_codel}")
    assert (path.native("up")["wifi"] is not None, path.native("up")["aqm"] is not None) == (True, True)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("capacity 1 Mbit/s, queue {aqm = dualpi2}", "capacity 1 Mbit/s, delay 0 s, queue dualpi2"),
        (
            "capacity 1 Mbit/s, queue {aqm = pie, limit = 90 ms, ecn = true, target = 15 ms}, ecn bleach",
            "capacity 1 Mbit/s, delay 0 s, queue pie (limit 90 ms, ecn yes), ecn bleach",
        ),
    ],
)
def test_words_about_a_queue_leave_out_what_is_usual(text: str, words: str) -> None:
    assert path_in_words(PathSpec.parse(text).model_dump(mode="json")) == words


def test_mean_loss_and_mean_burst_are_the_probabilities_of_a_gilbert_channel(tmp_path: Path) -> None:
    up: Any = scenario(tmp_path, '[link]\nup.loss = { mean = "2 %", burst = 4 }').link.up.native("up")
    loss = up["loss"]
    assert (loss["h"], loss["k"], loss["r"]) == (0.0, 1.0, 0.25)
    assert loss["p"] / (loss["p"] + loss["r"]) == pytest.approx(0.02)
    longest: Any = PathSpec.parse("loss {mean = '75 %', burst = 3}").native("up")
    assert longest["loss"]["p"] == pytest.approx(1)


@pytest.mark.parametrize("name", shipped())
def test_every_shipped_scenario_loads_and_is_unchanged_by_a_round_trip_through_json(name: str) -> None:
    loaded = Scenario.load(name)
    assert loaded.name == name.replace("/", "-")
    assert loaded.title
    assert Scenario.model_validate_json(loaded.model_dump_json()) == loaded


def test_the_network_of_first_call_is_four_access_paths_and_a_core_without_limits() -> None:
    network: Any = Scenario.load("first-call").network()
    access = {
        "capacity": {"kind": "constant", "bps": 1_000_000},
        "wifi": None,
        "queue": {"kind": "time", "limit": 300_000_000},
        "delay": {"kind": "constant", "ns": 25_000_000},
        "jitter": None,
        "loss": None,
        "loss_steps": [],
        "loss_trace": None,
        "loss_position": "wire",
        "tick_ns": None,
        "clock": None,
    }
    ideal = {
        "capacity": None,
        "wifi": None,
        "queue": None,
        "delay": {"kind": "constant", "ns": 0},
        "jitter": None,
        "loss": None,
        "loss_steps": [],
        "loss_trace": None,
        "loss_position": "wire",
        "tick_ns": None,
        "clock": None,
    }
    assert network["nodes"] == ["alice", "bob", "core"]
    assert network["paths"] == [
        {"name": "alice.up", **access},
        {"name": "alice.down", **access},
        {"name": "bob.up", **access},
        {"name": "bob.down", **access},
        {"name": "core.up", **ideal},
        {"name": "core.down", **ideal},
    ]
    assert network["routes"] == [
        {"from": "alice", "to": "bob", "paths": ["alice.up", "bob.down"]},
        {"from": "alice", "to": "core", "paths": ["alice.up", "core.down"]},
        {"from": "bob", "to": "alice", "paths": ["bob.up", "alice.down"]},
        {"from": "bob", "to": "core", "paths": ["bob.up", "core.down"]},
        {"from": "core", "to": "alice", "paths": ["core.up", "alice.down"]},
        {"from": "core", "to": "bob", "paths": ["core.up", "bob.down"]},
    ]


def test_every_kind_of_path_reaches_the_native_side(tmp_path: Path) -> None:
    (tmp_path / "two.mahimahi").write_text("5\n10\n")
    loaded = scenario(
        tmp_path,
        """
        [link.up]
        capacity = { steps = [["0 s", "1 Mbit/s"], ["40 s", "2.5 Mbit/s"]] }
        queue = "20 packets"
        delay = { steps = [["0 s", "1 ms"], ["2 s", "3 ms"]] }
        jitter = "5 ms"
        loss = "2 %"
        [link.down]
        capacity = { trace = "two.mahimahi" }
        queue = "30 kB"
        delay = { ramp = "exponential", from = "1 ms", to = "8 ms", start = "0 s", end = "3 s" }
        jitter = { sd = "5 ms", reorder = true }
        loss = { p = "1 %", r = 0.25 }
        """,
    )
    assert loaded.link.up.native("up") == {
        "name": "up",
        "capacity": {"kind": "steps", "steps": [[0, 1_000_000], [40 * 10**9, 2_500_000]]},
        "wifi": None,
        "queue": {"kind": "packets", "limit": 20},
        "delay": {"kind": "steps", "steps": [[0, 10**6], [2 * 10**9, 3 * 10**6]]},
        "jitter": {"sd_ns": 5 * 10**6, "reorder": False},
        "loss": {"p": 0.0, "r": 1.0, "h": 0.98, "k": 0.98},
        "loss_steps": [],
        "loss_trace": None,
        "loss_position": "wire",
        "tick_ns": None,
        "clock": None,
    }
    assert loaded.link.down.native("down") == {
        "name": "down",
        "capacity": {
            "kind": "opportunities",
            "times": [5 * 10**6, 10**7],
            "period": 10**7,
            "bytes": 1500,
        },
        "wifi": None,
        "queue": {"kind": "bytes", "limit": 30_000},
        "delay": {
            "kind": "ramp",
            "shape": "exponential",
            "start_ns": 0,
            "end_ns": 3 * 10**9,
            "from_ns": 10**6,
            "to_ns": 8 * 10**6,
        },
        "jitter": {"sd_ns": 5 * 10**6, "reorder": True},
        "loss": {"p": 0.01, "r": 0.25, "h": 0.0, "k": 1.0},
        "loss_steps": [],
        "loss_trace": None,
        "loss_position": "wire",
        "tick_ns": None,
        "clock": None,
    }


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ("", "the last opportunity must be later than 0 ms"),
        ("0\n0\n", "the last opportunity must be later than 0 ms"),
        ("5\n4\n", "line 2 of `a.txt`: 4 ms comes after 5 ms; expected times in ascending order"),
        ("5\n1.5\n", "line 2 of `a.txt`: expected a whole number of ms; got `1.5`"),
        ("-5\n", "line 1 of `a.txt`: expected a whole number of ms; got `-5`"),
        ("1\n\n٣\n", "line 3 of `a.txt`: expected a whole number of ms; got `٣`"),
        ("1 2\n", "line 1 of `a.txt`: expected a whole number of ms; got `1 2`"),
    ],
)
def test_a_broken_mahimahi_trace_is_refused_with_its_line(tmp_path: Path, lines: str, message: str) -> None:
    (tmp_path / "a.txt").write_text(lines)
    told = error(tmp_path, '[link]\nup = { capacity = { trace = "a.txt" } }')
    assert told.splitlines()[0] == f"my.toml: link.up.capacity.trace: {message}"


OPEN_NET_LAB = {"duration": 200.0, "capacity": 300.0, "time": 0.0}, {"duration": 400.0, "capacity": 450.0}
STEPS = 'write `capacity = { steps = [["0 s", "1 Mbit/s"], ["10 s", "500 kbit/s"], …] }`'


@pytest.mark.parametrize(
    ("lines", "hint"),
    [
        (
            "0.0000\t4.03\n1.5000\t2.1\n3.0\t0.48\n",
            "each line has a time and a number, as traces of Pensieve, FCC and HSDPA have a time in s and a "
            "rate in Mbit/s; if so, write "
            '`capacity = { steps = [["0 s", "4.03 Mbit/s"], ["1.5 s", "2.1 Mbit/s"], …] }`',
        ),
        ("0, 5\n1, 6\n", 'write `capacity = { steps = [["0 s", "5 Mbit/s"], ["1 s", "6 Mbit/s"], …] }`'),
        ("4.03 0\n2.1 1\n", f"each line has 2 numbers; {STEPS}"),
        (
            json.dumps({"uplink": {"trace_pattern": OPEN_NET_LAB}}),
            "the file is a trace of OpenNetLab: `uplink` lists how long, in ms, which capacity, in kbit/s, "
            'lasts; write `capacity = { steps = [["0 s", "300 kbit/s"], ["0.2 s", "450 kbit/s"], …] }`',
        ),
        (json.dumps({"uplink": {"trace_pattern": [5]}}), f"lasts; {STEPS}"),
        (json.dumps([1, 2]), f"the file is JSON; {STEPS}"),
        ("[1, 2", f"the file begins as JSON; {STEPS}"),
        (
            "Timestamp,DL_bitrate\n0,5\n",
            f"the file is a table with the heading `Timestamp,DL_bitrate`; {STEPS}",
        ),
        ("0.5\n0.7\n", f"each line has one number; if the lines are rates, {STEPS}"),
        ("5\n4\n", f"if the lines are rates, {STEPS}"),
        ("# ms\n5\n7\n", "the file has comments; Mahimahi's traces have none: remove these lines"),
        ("#\n", "the file has no numbers; expected a whole number of ms in each line"),
        (
            "hello\n",
            "expected the time of an opportunity to send 1500 bytes in each line, as in Mahimahi's traces",
        ),
    ],
)
def test_a_trace_in_another_format_is_named_with_the_way_to_write_it(
    tmp_path: Path, lines: str, hint: str
) -> None:
    (tmp_path / "a.txt").write_text(lines)
    told = error(tmp_path, '[link]\nup = { capacity = { trace = "a.txt" } }')
    assert told.splitlines()[1].startswith("  hint: ")
    assert told.endswith(hint)


@pytest.mark.parametrize(
    ("lines", "rate"),
    [
        # Five packets of 1500 bytes in 2.4 s: 5 * 12 kbit / 2.4 s.
        ("300 450 800 1200 2400", "25 kbit/s"),
        ("500 1000 1500 2000", "24 kbit/s"),
        # A packet every 120 ms is 100 kbit/s, every 121 ms is less.
        ("121", "99.2 kbit/s"),
        ("120", None),
        ("5 5 9 12 12 200", None),
    ],
)
def test_whole_numbers_that_would_be_a_very_slow_link_are_read_and_may_be_rates(
    tmp_path: Path, lines: str, rate: str | None
) -> None:
    (tmp_path / "a.txt").write_text("\n".join(lines.split()))
    loaded = scenario(tmp_path, '[link]\nup = { capacity = { trace = "a.txt" } }')
    assert isinstance(loaded.link.up.capacity, CapacityTrace)
    assert loaded.link.up.capacity.opportunities_ms == [*map(int, lines.split())]
    told = (
        "link.up.capacity: `a.txt` is read as a trace of Mahimahi, and 1500 bytes for each of its lines are "
        f"{rate}; if the lines are rates, {STEPS}"
    )
    assert doubts(loaded.model_dump(mode="json")) == ([told] if rate else [])


def test_a_mahimahi_trace_may_come_from_another_system(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_bytes(b"\xef\xbb\xbf1\r\n\r\n2\r\n")
    capacity = scenario(tmp_path, '[link]\nup = { capacity = { trace = "a.txt" } }').link.up.capacity
    assert isinstance(capacity, CapacityTrace)
    assert capacity.opportunities_ms == [1, 2]


def test_a_bottleneck_is_on_the_routes_that_it_selects_between_up_and_down(tmp_path: Path) -> None:
    loaded = scenario(
        tmp_path,
        """
        [bottlenecks.all]
        routes = ["*->*"]
        [bottlenecks.forward]
        routes = ["alice->*"]
        [participants.bob.link]
        both = { delay = "1 ms" }
        """,
    )
    crossed = {flow.name: flow.paths for flow in loaded.flows()}
    assert crossed == {
        "alice->bob": ("alice.up", "all", "forward", "bob.both"),
        "bob->alice": ("bob.both", "all", "alice.down"),
    }


def crowd(people: int, kind: str) -> Scenario:
    return Scenario.read(
        {
            "name": "crowd",
            "duration": "2 s",
            "participants": {f"p{number}": {} for number in range(people)},
            "video": {},
            "calls": [{"kind": kind}],
        },
        "crowd.toml",
    )


@pytest.mark.parametrize(("kind", "connections"), [("p2p", 199 * 100), ("sfu", 200 + 200 * 199)])
def test_two_hundred_people_reach_the_native_side_in_five_seconds_of_cpu_time(
    kind: str, connections: int
) -> None:
    begin_s = process_time()
    native: Any = crowd(200, kind).native(seed=1)
    # 0.9 s on one core of a cloud machine, and up to twice that beside a busy one.
    assert process_time() - begin_s < 5
    assert len(native["connections"]) == connections
    assert len(native["network"]["routes"]) == 201 * 200


def test_too_many_nodes_are_refused_before_routes_are_made() -> None:
    with pytest.raises(BadInput) as caught:
        crowd(4096, "p2p")
    # 4096 people and `core`.
    message = "4097 nodes, `core` included, need 16781312 routes; expected at most 4096 nodes"
    assert str(caught.value) == f"crowd.toml: participants: {message}"


def test_three_people_in_one_call_make_six_flows(tmp_path: Path) -> None:
    names = [flow.name for flow in scenario(tmp_path, "[participants.carol]").flows()]
    assert names == ["alice->bob", "bob->alice", "alice->carol", "carol->alice", "bob->carol", "carol->bob"]


def test_a_connection_lasts_while_both_are_present(tmp_path: Path) -> None:
    native: Any = scenario(
        tmp_path, '[participants.carol]\njoin = "10 s"\nleave = "90 s"', "participants.bob.leave=50 s"
    ).native(seed=7)
    times_s = {(c["a"], c["b"]): (c["start_ns"] / 1e9, c["end_ns"] / 1e9) for c in native["connections"]}
    assert times_s == {("alice", "bob"): (0, 50), ("alice", "carol"): (10, 60), ("bob", "carol"): (10, 50)}


def test_the_native_scenario_has_media_in_bits_and_nanoseconds(tmp_path: Path) -> None:
    native: Any = scenario(tmp_path, "[audio]", "participants.bob.audio=false").native(seed=7)
    video = {
        "width": 640,
        "height": 480,
        "frame_rate": 30.0,
        "codec": "vp8",
        "min_bps": 30_000,
        "max_bps": 1_700_000,
        "start_bps": 300_000,
        "steady": False,
    }
    rest = {
        "pause": None,
        "join_ns": 0,
        "leave_ns": 60 * 10**9,
        "nat": None,
        "video": video,
        "host": None,
        "congestion_control": {"name": "goog-cc", "options": {}},
        "stack": None,
        "repair": "auto",
    }
    audio = {"bitrate_bps": 32_000, "frame_ns": 20_000_000}
    assert native["participants"] == [
        {"name": "alice", **rest, "audio": audio},
        {"name": "bob", **rest, "audio": None},
    ]
    assert (native["seed"], native["duration_ns"]) == (7, 60 * 10**9)
    assert json.loads(json.dumps(native)) == native


def test_the_seed_of_a_repeat_depends_only_on_scenario_seed_and_number(tmp_path: Path) -> None:
    few, many = scenario(tmp_path, "", "repeats=2"), scenario(tmp_path, "", "repeats=9")
    assert [few.seed_of(i) for i in range(9)] == [many.seed_of(i) for i in range(9)]
    seeds = {scenario(tmp_path, "", f"seed={seed}").seed_of(i) for seed in (1, 2) for i in range(9)}
    assert len(seeds) == 18
    assert all(0 <= seed < 2**53 for seed in seeds)


def test_the_table_of_paths_has_a_row_at_each_change_and_each_second_of_a_ramp(tmp_path: Path) -> None:
    loaded = scenario(
        tmp_path,
        """
        [participants.bob.link]
        up = { capacity = { steps = [["0 s", "1 Mbit/s"], ["4 s", "3 Mbit/s"]] } }
        down = { delay = { ramp = "linear", from = "10 ms", to = "40 ms", start = "1 s", end = "4 s" } }
        """,
        "duration=5 s",
    )
    rows = [row for row in loaded.path_changes() if row[1].startswith("bob")]
    assert rows == [
        (0, "bob.up", 1_000_000, 0.0),
        (0, "bob.down", None, 10.0),
        (10**9, "bob.down", None, 10.0),
        (2 * 10**9, "bob.down", None, 20.0),
        (3 * 10**9, "bob.down", None, 30.0),
        (4 * 10**9, "bob.up", 3_000_000, 0.0),
        (4 * 10**9, "bob.down", None, 40.0),
    ]


def test_the_capacity_of_a_mahimahi_trace_is_its_mean_over_each_second(tmp_path: Path) -> None:
    # 100 lines in the first second and 50 in the second: 100 * 1500 * 8 = 1.2 Mbit/s, then 0.6 Mbit/s.
    lines = [*range(10, 1001, 10), *range(1020, 2001, 20)]
    (tmp_path / "a.txt").write_text("\n".join(map(str, lines)))
    text = '[participants.bob.link]\nup = { capacity = { trace = "a.txt" } }'
    table = paths_table(scenario(tmp_path, text, "duration=4500 ms"))
    assert [row[2] for row in table.iter_rows() if row[1] == "bob.up"] == [
        1_200_000,
        600_000,
        1_200_000,
        600_000,
        1_200_000,
    ]


def test_an_encoding_machine_and_a_wandering_clock_reach_the_simulator() -> None:
    scenario = Scenario.load(
        "first-call",
        {
            "host.encoder_capacity": "20 Mpixel/s",
            "host.decoder_capacity": "40 Mpixel/s",
            "host.variation": {"deviation": "8 %", "correlation": "400 ms"},
            "link.up.clock": {"wander": "3 %", "correlation": "100 ms"},
        },
    )
    native = scenario.native(seed=1)
    assert native["participants"][0]["host"] == {
        "encoder_capacity_pixels_per_second": 20_000_000,
        "encoder_output_bps": None,
        "decoder_capacity_pixels_per_second": 40_000_000,
        "variation": {"deviation": 0.08, "correlation_ns": 400_000_000},
    }
    assert native["network"]["paths"][0]["clock"] == {"wander": 0.03, "correlation_ns": 100_000_000}


def test_a_path_like_dummynets_loses_before_its_queue_and_works_in_ticks(tmp_path: Path) -> None:
    text = """
        [bottlenecks.pipe]
        routes = ["*->*"]
        loss = "5 %"
        loss_position = "queue"
        tick = "1 ms"
        """
    pipe: Any = scenario(tmp_path, text).network()
    described = next(path for path in pipe["paths"] if path["name"] == "pipe")
    assert (described["loss_position"], described["tick_ns"]) == ("queue", 1_000_000)


def test_a_wifi_hop_has_a_named_fading_or_its_own_and_a_limit_of_attempts(tmp_path: Path) -> None:
    text = """
        [link.both]
        queue = "100 packets"
        wifi = { fading = "far", max_attempts = 15 }
        [participants.bob.link.both.wifi.fading]
        good = { rate = "6 Mbit/s", error = 0.5 }
        """
    loaded = scenario(tmp_path, text, base=TWO_PEOPLE.replace("[participants.bob]", ""))
    far: Any = loaded.link_of("alice").both.native("alice.both")["wifi"]  # type: ignore[union-attr]
    assert far["attempts"] == 15
    assert far["fade"] == {"bps": 6_000_000, "error": 0.8}
    own: Any = loaded.link_of("bob").both.native("bob.both")["wifi"]  # type: ignore[union-attr]
    assert own["good"] == own["fade"] == {"bps": 6_000_000, "error": 0.5}
    assert own["mean_fade_ns"] == 0
    changed = scenario(
        tmp_path, text, "link.both.wifi.max_attempts=1", base=TWO_PEOPLE.replace("[participants.bob]", "")
    )
    one: Any = changed.link_of("alice").both.native("alice.both")["wifi"]  # type: ignore[union-attr]
    assert one["attempts"] == 1


def test_loss_changes_in_steps_and_a_delay_goes_from_point_to_point(tmp_path: Path) -> None:
    text = """
        [link.up]
        loss = { steps = [["0 s", "0 %"], ["60 s", "15 %"]] }
        [link.up.delay]
        points = [["0 s", "0 ms"], ["1 s", "100 ms"], ["2 s", "100 ms", "exponential"], ["3 s", "1 ms"]]
        """
    loaded = scenario(tmp_path, text)
    path: Any = loaded.link.up.native("up")
    assert path["loss"]["k"] == 1.0
    assert path["loss_steps"] == [[60 * 10**9, {"p": 0.0, "r": 1.0, "h": 0.85, "k": 0.85}]]
    # After half a second it is halfway; the exponential one is at a tenth: sqrt(100 * 1) = 10 ms.
    steps = [(at / 1e9, delay / 1e6) for at, delay in path["delay"]["steps"]]
    assert steps == [(0.0, 0.0), (0.5, 50.0), (1.0, 100.0), (2.5, 10.0), (3.0, 1.0)]
    table = paths_table(loaded)
    assert table.filter(path="alice.up")["one_way_delay_ms"].to_list() == [0.0, 50.0, 100.0, 10.0, 1.0]
