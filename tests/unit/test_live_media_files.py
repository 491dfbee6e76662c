"""Own media files become what browsers can play; files that cannot be read are refused with their field."""

from __future__ import annotations

from pathlib import Path

import av
import numpy as np
import pytest
from scenario_text import scenario

from rtclab.backend.live.browsers.media_files import check_files, prepare_movie, prepare_sound
from rtclab.backend.live.browsers.video_clip import clip_path, prepare_clip
from rtclab.backend.live.scenario_checks import check_media
from rtclab.errors import BadInput, UnsupportedScenario


@pytest.fixture(autouse=True)
def _cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


@pytest.fixture
def film(tmp_path: Path) -> Path:
    """A file with 20 pictures of 64x48 at 25 frames/s, each brighter than the one before, and no sound."""
    path = tmp_path / "film.mkv"
    with av.open(str(path), "w") as out:
        stream = out.add_stream("libvpx", rate=25, width=64, height=48)
        stream.pix_fmt = "yuv420p"
        for index in range(20):
            picture = np.full((48, 64, 3), 10 * index, np.uint8)
            out.mux(stream.encode(av.VideoFrame.from_ndarray(picture, format="rgb24")))
        out.mux(stream.encode(None))
    return path


@pytest.fixture
def tone(tmp_path: Path) -> Path:
    """A file with half a second of a tone in stereo at 44.1 kHz."""
    path = tmp_path / "tone.flac"
    wave = np.sin(2 * np.pi * 440 * np.arange(22_050) / 44_100) * 10_000
    with av.open(str(path), "w") as out:
        stream = out.add_stream("flac", rate=44_100, layout="stereo")
        samples = np.repeat(wave.astype(np.int16), 2).reshape(1, -1)
        frame = av.AudioFrame.from_ndarray(samples, format="s16", layout="stereo")
        frame.rate = 44_100
        out.mux(stream.encode(frame))
        out.mux(stream.encode(None))
    return path


def test_a_clip_of_an_own_file_has_the_cameras_size_and_rate_and_goes_there_and_back(film: Path) -> None:
    clip = prepare_clip(32, 32, 25, film)
    data = clip.read_bytes()
    header, _, frames = data.partition(b"\n")
    assert header == b"YUV4MPEG2 W32 H32 F25:1 Ip A1:1 C420"
    size = len(b"FRAME\n") + 32 * 32 * 3 // 2
    luma = [frames[at + len(b"FRAME\n")] for at in range(0, len(frames), size)]
    assert len(luma) == 20 + 18
    assert luma[:20] == sorted(luma[:20])
    assert luma[20:] == luma[18:0:-1]


def test_a_clip_is_made_again_only_if_content_or_size_change(film: Path) -> None:
    first = clip_path(64, 48, 25, film)
    assert first != clip_path(32, 48, 25, film)
    assert first != clip_path(64, 48, 25)
    renamed = film.rename(film.with_name("renamed.mkv"))
    assert first == clip_path(64, 48, 25, renamed)
    renamed.write_bytes(renamed.read_bytes() + b"\0")
    assert first != clip_path(64, 48, 25, renamed)


def test_a_movie_has_the_pictures_of_the_clip_in_a_form_that_pages_play(film: Path) -> None:
    movie = prepare_movie(64, 48, 25, film)
    with av.open(str(movie)) as container:
        stream = container.streams.video[0]
        assert (stream.codec_context.name, stream.width, stream.height) == ("vp8", 64, 48)
        assert stream.average_rate == 25
        assert sum(1 for _ in container.decode(stream)) == 20 + 18


def test_a_sound_becomes_a_mono_wav_of_48_khz_and_keeps_its_length(tone: Path) -> None:
    sound = prepare_sound(tone)
    with av.open(str(sound)) as container:
        stream = container.streams.audio[0]
        assert (container.format.name, stream.rate, stream.channels) == ("wav", 48_000, 1)
        samples = np.concatenate([frame.to_ndarray().ravel() for frame in container.decode(stream)])
    assert len(samples) == pytest.approx(24_000, abs=100)
    assert 9_000 < np.abs(samples).max() < 11_000


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ("video.file=none.mp4", "video.file: cannot read `{here}/none.mp4`: No such file or directory"),
        ("video.file=noise.mp4", "video.file: cannot read `{here}/noise.mp4`: Invalid data found"),
        (
            "video.file=tone.flac",
            "video.file: `{here}/tone.flac` has no video; expected a media file with video",
        ),
        (
            "participants.alice.audio.file=film.mkv",
            "participants.alice.audio.file: `{here}/film.mkv` has no audio; expected a media file with audio",
        ),
    ],
)
def test_a_file_that_cannot_be_used_is_refused_with_its_field(
    tmp_path: Path, film: Path, tone: Path, monkeypatch: pytest.MonkeyPatch, change: str, said: str
) -> None:
    (tmp_path / "noise.mp4").write_bytes(bytes(range(256)) * 40)
    monkeypatch.chdir(tmp_path)
    with pytest.raises(BadInput) as refused:
        check_files(scenario(tmp_path, "", change), "alice")
    assert str(refused.value).startswith(said.format(here=tmp_path))


def test_files_that_can_be_used_pass(tmp_path: Path, film: Path, tone: Path) -> None:
    check_files(scenario(tmp_path, f"file = '{film}'\n[audio]\nfile = '{tone}'"), "bob")


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        (["video.codec=vp9-2016"], "video.codec: chromium has no encoder for `vp9-2016`; expected one of"),
        (
            ["browser.name=firefox", "video.codec=h264"],
            "video.codec: firefox has no encoder for `h264`; expected one of `vp8`, `vp9`, `av1`",
        ),
        (
            ["video.simulcast=true", "calls.0.kind=sfu", "video.width=480", "video.height=268"],
            "video.simulcast: browsers send a camera of 480x268 in one size; expected as many pixels as ",
        ),
        (
            ["video.simulcast=true", "calls.0.kind=sfu", "video.codec=vp9"],
            "video.simulcast: browsers send `vp9` in one size; expected the codec `vp8` or `h264`",
        ),
        (["video.simulcast=true"], "video.simulcast: only an SFU can choose between the sizes"),
        (
            ["browser.name=firefox", "video.start_bitrate=1 Mbit/s"],
            "video.start_bitrate: pages cannot set it in Firefox; got `1 Mbit/s`, expected the default",
        ),
    ],
)
def test_a_setting_that_no_browser_supports_is_refused_with_its_field(
    tmp_path: Path, changes: list[str], said: str
) -> None:
    with pytest.raises(UnsupportedScenario) as refused:
        check_media(scenario(tmp_path, "", *changes), "alice")
    assert str(refused.value).startswith(said)


@pytest.mark.parametrize(
    "changes",
    [
        ["video.codec=h264", "video.start_bitrate=1 Mbit/s"],
        ["browser.name=firefox", "video.codec=av1", "video.max_bitrate=20 kbit/s"],
        ["video.simulcast=true", "calls.0.kind=sfu"],
    ],
)
def test_settings_that_a_browser_supports_pass(tmp_path: Path, changes: list[str]) -> None:
    check_media(scenario(tmp_path, "", *changes), "alice")
