"""Scenarios that extend profiles: which value applies, and which file an error names."""

from __future__ import annotations

from pathlib import Path

import pytest

from rtclab.errors import BadInput
from rtclab.scenario import (
    CongestionControl,
    Duration,
    Link,
    PathSpec,
    QueueLimit,
    Ratio,
    Scenario,
    shipped,
)
from rtclab.scenario.aqm import Codel
from rtclab.scenario.path import BurstLoss

PROFILE = """
duration = "60 s"
[participants.alice]
[participants.bob]
[video]
max_bitrate = "2 Mbit/s"
min_bitrate = "50 kbit/s"
[link]
up = { capacity = "1 Mbit/s", delay = "5 ms", queue = "100 packets" }
"""


def load(tmp_path: Path, text: str, *changes: str, profile: str = PROFILE) -> Scenario:
    (tmp_path / "testbed.toml").write_text(profile)
    (tmp_path / "my.toml").write_text(f'extends = "testbed"\nname = "my"\n{text}')
    return Scenario.load(tmp_path / "my.toml", changes)


def error(tmp_path: Path, text: str = "", *changes: str, profile: str = PROFILE) -> str:
    with pytest.raises(BadInput) as caught:
        load(tmp_path, text, *changes, profile=profile)
    return str(caught.value).replace(f"{tmp_path}/", "")


def test_tables_are_merged_key_by_key_and_the_scenario_wins_over_its_profile(tmp_path: Path) -> None:
    scenario = load(tmp_path, '[link]\nup.delay = "50 ms"\n[video]\nmin_bitrate = "30 kbit/s"')
    up = scenario.link.up.model_dump(mode="json", exclude_none=True)
    assert (up["delay"], up["queue"]) == ("50 ms", "100 packets")
    assert scenario.video is not None
    assert (str(scenario.video.min_bitrate), str(scenario.video.max_bitrate)) == ("30 kbit/s", "2 Mbit/s")
    assert str(scenario.duration) == "60 s"


def test_a_value_of_a_path_is_replaced_as_a_whole_and_its_owner_is_the_file_above(tmp_path: Path) -> None:
    profile = PROFILE + "down = { loss = { p = 0.1, r = 0.5 } }"
    mean = 'link.down.loss = { mean = "1 %", burst = 3 }'
    assert load(tmp_path, mean, profile=profile).link.down.loss == BurstLoss(mean=Ratio(0.01), burst=3)
    assert (
        error(tmp_path, "link.down.loss = { p = 0.2 }", profile=profile)
        == "my.toml: link.down.loss.r: missing"
    )


def test_a_discipline_does_not_inherit_parameters_but_a_change_sets_one_of_them(tmp_path: Path) -> None:
    profile = PROFILE.replace('"100 packets"', '{ aqm = "codel", target = "9 ms", limit = "50 packets" }')
    over = load(tmp_path, 'link.up.queue = { aqm = "codel", ecn = true }', profile=profile)
    assert over.link.up.queue == Codel(aqm="codel", ecn=True)
    one = load(tmp_path, "", "link.up.queue.interval=50 ms", profile=profile)
    assert one.link.up.queue == Codel(
        aqm="codel",
        limit=QueueLimit("packets", 50),
        target=Duration(9 * 10**6),
        interval=Duration(50 * 10**6),
    )
    wrong = error(tmp_path, "", "link.up.queue.interval=50 ms")
    assert wrong.startswith(
        "--set: link.up.queue.interval: link.up.queue is `100 packets`, not a table\n"
        "  hint: set link.up.queue itself"
    )


def test_a_bottleneck_may_have_the_name_of_a_field_of_a_path(tmp_path: Path) -> None:
    profile = f'{PROFILE}[bottlenecks.loss]\nroutes = ["*->*"]\ndelay = "9 ms"'
    scenario = load(tmp_path, 'bottlenecks.loss.capacity = "2 Mbit/s"', profile=profile)
    assert (str(scenario.bottlenecks["loss"].delay), scenario.bottlenecks["loss"].routes) == (
        "9 ms",
        ["*->*"],
    )


def test_another_control_does_not_inherit_the_options_of_the_first(tmp_path: Path) -> None:
    profile = f'{PROFILE}[congestion_control]\nname = "gcc-2016"\noptions = {{ window_ms = 500 }}'
    other = load(tmp_path, 'congestion_control.name = "goog-cc"', profile=profile)
    assert other.congestion_control == CongestionControl(name="goog-cc")
    same = load(tmp_path, "congestion_control.options.over_use_ms = 100", profile=profile)
    assert same.congestion_control.options == {"window_ms": 500.0, "over_use_ms": 100.0}


def test_a_shared_path_replaces_two_separate_ones_and_the_other_way_round(tmp_path: Path) -> None:
    shared = load(tmp_path, 'link.both.delay = "7 ms"')
    assert shared.link == Link(both=PathSpec(delay=Duration(7 * 10**6)))
    profile = PROFILE.replace("up =", "both =")
    apart = load(tmp_path, 'link.up.delay = "7 ms"', profile=profile)
    assert apart.link == Link(up=PathSpec(delay=Duration(7 * 10**6)))


def test_an_array_replaces_the_array_of_the_profile_as_a_whole(tmp_path: Path) -> None:
    profile = '[[calls]]\nparticipants = ["alice", "bob"]\n[[calls]]\nparticipants = ["bob", "carol"]'
    scenario = load(
        tmp_path,
        '[[calls]]\nparticipants = ["alice", "carol"]',
        profile=f"{PROFILE}[participants.carol]\n{profile}",
    )
    assert [call.participants for call in scenario.calls] == [["alice", "carol"]]


def test_a_change_from_the_command_line_wins_over_both(tmp_path: Path) -> None:
    assert str(load(tmp_path, 'duration = "30 s"', "duration=20 s").duration) == "20 s"


def test_a_profile_may_extend_another_in_another_folder(tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "base.toml").write_text(PROFILE)
    scenario = load(tmp_path, "", profile='extends = "other/base"\nduration = "30 s"')
    assert (str(scenario.duration), list(scenario.participants)) == ("30 s", ["alice", "bob"])


def test_a_scenario_extends_a_shipped_one_by_its_name(tmp_path: Path) -> None:
    scenario = load(tmp_path, 'link.down.loss = "1 %"', profile='extends = "first-call"')
    shipped_one = Scenario.load("first-call")
    assert scenario.name == "my"
    assert scenario.link_of("alice").down.loss.value == 0.01  # type: ignore[union-attr]
    assert scenario.link_of("alice").up == shipped_one.link_of("alice").up
    assert list(scenario.participants) == list(shipped_one.participants)


def test_a_file_in_the_directory_comes_before_a_shipped_scenario_of_that_name(tmp_path: Path) -> None:
    (tmp_path / "first-call.toml").write_text(PROFILE)
    (tmp_path / "own.toml").write_text('extends = "first-call"\nname = "own"')
    assert Scenario.load(tmp_path / "own.toml").link_of("alice").up.delay.ms == 5


def test_an_error_in_a_change_to_a_shipped_scenario_names_the_own_file(tmp_path: Path) -> None:
    text = error(tmp_path, 'link.up.delay = "5 parsecs"', profile='extends = "first-call"')
    assert text.startswith("my.toml: link.up.delay:")


def test_an_error_names_the_file_that_holds_the_wrong_field(tmp_path: Path) -> None:
    assert error(tmp_path, profile=PROFILE.replace("5 ms", "5 parsecs")).startswith(
        "testbed.toml: link.up.delay: unknown time unit in `5 parsecs`"
    )
    assert error(tmp_path, '[link]\nup.delay = "5 parsecs"').startswith("my.toml: link.up.delay:")
    assert error(tmp_path, "[video]\nwide = 640").startswith("my.toml: video.wide: unknown key")


def test_errors_in_two_files_are_reported_together(tmp_path: Path) -> None:
    text = error(tmp_path, "[video]\nwidth = 0", profile=PROFILE.replace("5 ms", "5 parsecs"))
    assert "my.toml: video.width:" in text
    assert "testbed.toml: link.up.delay:" in text


@pytest.mark.parametrize(
    ("profile", "expected"),
    [
        ('extends = "nowhere"', "testbed.toml: extends: no file `nowhere.toml`"),
        ('extends = "my"', "extends this file in turn"),
        ('extends = "testbed"', "extends this file in turn"),
        ("extends = 3", "testbed.toml: extends: expected a shipped scenario, or a file in this directory"),
        ('extends = "first-call.toml"', "leave out `.toml`: write `first-call`"),
        ('extends = "nowhere"', "`rtclab list` lists the shipped scenarios"),
        ("duration =", "testbed.toml: not TOML"),
    ],
)
def test_a_profile_that_cannot_be_read_is_named(tmp_path: Path, profile: str, expected: str) -> None:
    assert expected in error(tmp_path, profile=profile)


def test_a_profile_is_not_run_and_not_listed(tmp_path: Path) -> None:
    (tmp_path / "testbed.toml").write_text("profile = true" + PROFILE)
    with pytest.raises(BadInput, match=r"testbed\.toml: profile: a profile is only extended by others"):
        Scenario.load(tmp_path / "testbed.toml")
    (tmp_path / "mine.toml").write_text('extends = "testbed"')
    assert Scenario.load(tmp_path / "mine.toml").name == "mine"
    assert not [name for name in shipped() if name.endswith("testbed")]


def test_a_scenario_without_a_name_is_called_like_its_file(tmp_path: Path) -> None:
    assert load(tmp_path, "", profile='name = "below"' + PROFILE).name == "my"
    assert Scenario.load("rfc8867/5.1").name == "rfc8867-5.1"
    (tmp_path / "unnamed.toml").write_text('extends = "my"')
    assert Scenario.load(tmp_path / "unnamed.toml").name == "unnamed"
    assert Scenario.load(tmp_path / "unnamed.toml", {"name": "other"}).name == "other"
    (tmp_path / "My call.toml").write_text('extends = "my"')
    with pytest.raises(BadInput, match=r"My call\.toml: name: `My call` cannot name a run directory"):
        Scenario.load(tmp_path / "My call.toml")


def test_joined_names_share_a_table(tmp_path: Path) -> None:
    scenario = load(tmp_path, '[participants."alice + bob".link]\nup.delay = "50 ms"')
    assert [scenario.link_of(name).up.delay for name in ("alice", "bob")] == [Duration.parse("50 ms")] * 2
    assert error(tmp_path, '[participants."alice+bob"]\n[participants.bob]').startswith(
        "my.toml: participants.bob: given twice"
    )
