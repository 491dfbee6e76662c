"""Fields of media and browsers in a scenario, and what the simulator refuses of them."""

from __future__ import annotations

from pathlib import Path

import pytest
from scenario_text import error, scenario

from rtclab.backend.sim import SimBackend
from rtclab.errors import UnsupportedScenario
from rtclab.scenario import Scenario
from rtclab.trace import flattened


def test_a_media_file_is_relative_to_the_scenario_that_names_it(tmp_path: Path) -> None:
    own = scenario(tmp_path, '[participants.bob.video]\nfile = "clips/a.mp4"\n[audio]\nfile = "/b.wav"')
    video, audio = own.video_of("bob"), own.audio_of("bob")
    assert video is not None
    assert audio is not None
    assert video.file == str(tmp_path / "clips/a.mp4")
    assert audio.file == "/b.wav"


def test_a_media_file_of_an_option_is_relative_to_the_current_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    video = scenario(tmp_path, "", "video.file=a.mp4").video
    assert video is not None
    assert video.file == str(tmp_path / "here/a.mp4")


def test_a_media_file_keeps_its_place_when_a_loaded_scenario_is_changed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = scenario(tmp_path, "", base=TWO_WITH_FILE)
    monkeypatch.chdir("/")
    video = Scenario.load(own, {"duration": "5 s"}).video
    assert video is not None
    assert video.file == str(tmp_path / "a.mp4")


TWO_WITH_FILE = """
name = "two"
duration = "60 s"
video = { file = "a.mp4" }
[participants.alice]
[participants.bob]
"""


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ("video.file=''", "--set: video.file: is empty; expected the name of a file"),
        ("video.adapt=delay", "--set: video.adapt: unknown value `delay`; expected `off` or `loss`"),
        ("video.simulcast=1", "--set: video.simulcast: expected true or false; got `1`"),
        (
            "browser.name=opera",
            "--set: browser.name: unknown value `opera`; expected `chromium`, `firefox` or `invited`",
        ),
    ],
)
def test_a_wrong_value_is_refused_with_what_was_expected(tmp_path: Path, change: str, said: str) -> None:
    assert error(tmp_path, "", change).partition("\n")[0] == said


def test_firefox_takes_no_field_trials(tmp_path: Path) -> None:
    told = error(tmp_path, '[browser]\nname = "firefox"\nfield_trials = "A/B/"')
    assert told == "my.toml: browser.field_trials: Firefox takes no field trials; expected none"


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ("video.codec=av1", "video.codec: the simulator has no model of `av1`; expected `vp8`"),
        ("video.codec=vp9", "video.codec: the simulator has no model of `vp9`; expected `vp8`"),
        (
            "participants.bob.video.codec=h264",
            "participants.bob.video.codec: the simulator has no model of `h264`; expected `vp8`",
        ),
        ("video.adapt=loss", "video.adapt: the simulator has no model of `loss`; expected `off`"),
        ("video.simulcast=true", "video.simulcast: the simulator has no model of `true`; expected `false`"),
    ],
)
def test_the_simulator_refuses_settings_that_only_browsers_support(
    tmp_path: Path, change: str, said: str
) -> None:
    with pytest.raises(UnsupportedScenario) as refused:
        SimBackend().check(scenario(tmp_path, "", change))
    assert str(refused.value) == f"{said}\n  hint: run it live: --backend live"


def test_the_simulator_ignores_own_media_and_browsers(tmp_path: Path) -> None:
    SimBackend().check(scenario(tmp_path, "", "video.file=none.mp4", "browser.name=firefox"))


def test_durations_within_a_report_become_columns() -> None:
    report = {"ssrc": 7, "qualityLimitationDurations": {"cpu": 1.5, "bandwidth": 0, "none": 3}}
    assert flattened(report, "video/VP8") == {
        "ssrc": 7,
        "qualityLimitationDurationCpu": 1.5,
        "qualityLimitationDurationBandwidth": 0,
        "mimeType": "video/VP8",
    }
    assert flattened({"ssrc": 7}) == {"ssrc": 7}
