"""How browsers are started, and the devices in the configuration of their pages."""

from __future__ import annotations

import asyncio
import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
from scenario_text import scenario

from rtclab.backend.live import doctor
from rtclab.backend.live.browsers import encoder_speed as speed
from rtclab.backend.live.browsers import media_files as media
from rtclab.backend.live.browsers.browser_process import BrowserProcess
from rtclab.backend.live.browsers.firefox import BROWSERS
from rtclab.scenario import Browser

OPTIONS = Browser(args=["--own"])


def started(
    browser: str, home: Path, clip: str | None, sound: str | None
) -> tuple[list[str], dict[str, str]]:
    """The command line and the environment with which a browser is started."""
    seen: list[Any] = []

    def spawn(command: list[str], **options: Any) -> subprocess.Popen[bytes]:
        seen.extend((command, options["env"]))
        return subprocess.Popen(["true"])

    async def start() -> None:
        one = BROWSERS[browser]("bob", spawn, home, lambda _: None)
        one.start("/bin/it", "http://page/", clip, OPTIONS, sound)
        await one.stop()

    asyncio.run(start())
    return seen[0], seen[1]


def test_chromium_plays_the_files_of_its_devices(tmp_path: Path) -> None:
    command, _ = started("chromium", tmp_path / "home", "/a.y4m", "/b.wav")
    assert command[-4:] == [
        "--own",
        "--use-file-for-fake-video-capture=/a.y4m",
        "--use-file-for-fake-audio-capture=/b.wav",
        "http://page/",
    ]
    command, _ = started("chromium", tmp_path / "other", None, None)
    assert not [argument for argument in command if "use-file" in argument]


def test_chromium_is_told_not_to_encrypt(tmp_path: Path) -> None:
    def command(name: str, encryption: bool) -> list[str]:
        def spawn(*_: Any, **__: Any) -> subprocess.Popen[bytes]:
            raise AssertionError("nothing is started")

        options = Browser(encryption=encryption)
        return BrowserProcess(name, spawn, tmp_path, lambda _: None)._command("/bin/it", None, None, options)

    assert "--disable-webrtc-encryption" in command("plain", encryption=False)
    assert "--disable-webrtc-encryption" not in command("usual", encryption=True)


def test_firefox_has_its_preferences_and_all_its_files_below_its_home(tmp_path: Path) -> None:
    home = tmp_path / "home"
    command, environment = started("firefox", home, None, None)
    assert command == [
        "/bin/it", "--headless", "--no-remote", "--profile", str(home / "profile"), "--own", "http://page/"
    ]  # fmt: skip
    lines = (home / "profile/user.js").read_text().splitlines()
    assert 'user_pref("media.navigator.streams.fake", true);' in lines
    assert 'user_pref("network.proxy.type", 0);' in lines
    for line in lines:
        name, _, value = line.removeprefix("user_pref(").removesuffix(");").partition(", ")
        assert json.loads(name)
        assert json.loads(value) is not None
    assert {environment[name] for name in ("HOME", "TMPDIR")} == {str(home)}
    assert environment["XDG_CACHE_HOME"] == str(home / "cache")


@pytest.mark.parametrize("browser", ["chromium", "google-chrome"])
def test_the_doctor_says_where_a_directory_for_policies_is_missing(
    browser: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    executable = tmp_path / browser
    executable.touch(mode=0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    places = {name: tmp_path / "etc" / name for name in doctor.POLICIES}
    monkeypatch.setattr(doctor, "POLICIES", places)
    missing = doctor.check_plain_http()
    assert (missing.ok, missing.required) == (False, False)
    assert missing.hint == f"as root: mkdir -p {places[browser]}; or give the node another name"
    places[browser].mkdir(parents=True)
    assert doctor.check_plain_http().ok


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ([], {"clip": None, "sound": None, "audio": None}),
        (["audio.file=a.wav"], {"clip": None, "sound": None, "audio": {"file": True}}),
        (
            ["browser.name=firefox", "audio.bitrate=32 kbit/s"],
            {"clip": "/clip", "sound": None, "audio": {"file": False}},
        ),
        (
            ["browser.name=firefox", "video=false", "audio.file=a.wav"],
            {"clip": None, "sound": "/sound", "audio": {"file": True}},
        ),
    ],
)
def test_only_pages_of_firefox_play_files_themselves(
    tmp_path: Path, changes: list[str], expected: dict[str, object]
) -> None:
    assert media.page_media(scenario(tmp_path, "", *changes), "alice") == expected


def test_firefox_gets_a_movie_and_chromium_a_clip(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(media, "prepare_movie", lambda *size: f"movie {size}")
    monkeypatch.setattr(media, "prepare_clip", lambda *size: f"clip {size}")
    both = scenario(tmp_path, "", "participants.bob.browser.name=firefox", "video.width=320")
    assert media.prepare(both, "alice") == {"camera": "clip (320, 480, 30.0, None)", "microphone": None}
    assert media.prepare(both, "bob") == {"camera": "movie (320, 480, 30.0, None)", "microphone": None}


def test_a_limited_machine_has_the_share_that_encodes_its_pixels(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(speed, "encoder_speed", lambda: 50e6)
    limited = scenario(tmp_path, "", "participants.bob.host.encoder_capacity=10 Mpixel/s")
    assert speed.shares(limited) == {"bob": pytest.approx(0.2 + speed.REST_CORES)}


def test_a_core_encodes_some_million_pixels_per_second() -> None:
    assert 2e6 < speed.encoder_speed() < 2e9
