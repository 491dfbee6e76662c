"""Translates a paper's scenario for Chromium of 2026, and lists the changes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import chain
from typing import Any, get_args

from rtclab.scenario import Duration, Scenario, Video, encoders, native_video

TODAY = "goog-cc"
"""The congestion control of Chromium of 2026; its default stack is the newest browser known."""

MIXING = "mixing-mcu"
"""The kind of calls over an MCU that mixes."""
OVER_MIXING_MCU = "remb"
"""The congestion control of Chromium of 2026 over an MCU that mixes, which sends and reads REMB alone."""

CODECS = {"vp8-2013": "vp8", "vp9-2016": "vp9", "h264-2016": "h264"}
"""Encoders of the past, and their codecs."""

REPAIRS_OF_TODAY = ("auto", "rtx")
AUDIO_FRAME = "20 ms"

ENCODED_PIXELS_PER_S = 56_000_000
"""Pixels per second that all encoders of a live call together may encode: two of 1280x720 at 30 frames/s.

Two cores handled this load without disturbance beside two browsers (docs/twin.md). It is a constant, so that
every machine runs the same scenario."""

SIZES = ((1280, 720), (960, 540), (640, 480), (480, 360), (320, 240))
"""Boxes into which a picture is scaled, in this order, until all encoders together are within the limit."""
OF_MANY = {3: (640, 480), 4: (320, 240)}
"""The largest box by number of participants, because each also decodes the others' video. With four at
480x270 or 640x360, two cores took 25 and 37 ms to encode a frame."""

OF_MIXING = (320, 240)
"""The largest box over an MCU that mixes, which decodes and encodes as much as all participants together."""

OF_MANY_CALLS = (480, 360)
"""The largest box of three parallel calls. At 640x480, two cores took 27 ms to encode a frame."""
FRAME_RATE = 30


@dataclass(frozen=True)
class Translated:
    """A scenario of a paper as Chromium of 2026 runs it, and the changes as text."""

    scenario: Scenario
    changes: tuple[str, ...]


def as_today(
    scenario: Scenario, duration: str | None = None, largest: tuple[int, int] | None = None
) -> Translated:
    """The scenario with Chromium of 2026 in place of the software and devices of its time.

    The network stays as it is, with the effects of its testbed. Where two cores could not encode all streams,
    pictures are smaller; ``max_bitrate`` stays. The result can be simulated as well.

    Args:
        scenario: a scenario of a paper.
        duration: the new length of the run. If anything changes during the run, all times scale alike.
        largest: the box into which pictures are scaled, one of ``SIZES``; by default as large as two cores
            can encode.
    """
    data = scenario.model_dump(mode="json", by_alias=True, exclude_none=True)
    changes: list[str] = []
    _replace_software(data, changes)
    _replace_media(scenario, data, changes)
    _replace_rates_of_firefox(scenario, data, changes)
    _replace_topology(data, changes)
    data["record"] = "packets"
    if duration is not None:
        _shorten(scenario, data, Duration.parse(duration), changes)
    today = Scenario.read(data, scenario.name)
    today = _within_limit(today, largest, changes)
    return Translated(today, tuple(dict.fromkeys(changes)))


def _owners(data: dict[str, Any]) -> list[dict[str, Any]]:
    """The scenario, its participants and its servers."""
    return [data, *data["participants"].values(), *data.get("servers", {}).values()]


def _tables(data: dict[str, Any], key: str) -> Iterator[dict[str, Any]]:
    """The tables with this key of all :func:`_owners`, without tables that are ``false``."""
    for owner in _owners(data):
        if isinstance(owner.get(key), dict):
            yield owner[key]


def _replace_software(data: dict[str, Any], changes: list[str]) -> None:
    today = OVER_MIXING_MCU if any(call["kind"] == MIXING for call in data["calls"]) else TODAY
    for control in _tables(data, "congestion_control"):
        if control["name"] != today or control.get("stack") or control.get("options"):
            was = control["name"] if control["name"] != today else f"{today} with other stack or options"
            changes.append(f"congestion control {was} becomes the browser's {today}")
        control.clear()
        control["name"] = today
    for owner in _owners(data):
        if owner.pop("host", None) is not None:
            changes.append("the encoder's limit of the old machine is left out")


def _replace_media(scenario: Scenario, data: dict[str, Any], changes: list[str]) -> None:
    for video in _tables(data, "video"):
        _replace_device(Video.read(video, scenario.name), video, changes)
        codec = video["codec"]
        if codec in CODECS:
            known = codecs_of_today()
            video["codec"] = CODECS[codec] if CODECS[codec] in known else "vp8"
            changes.append(f"codec {codec} becomes the browser's {video['codec']}")
        if video["repair"] not in REPAIRS_OF_TODAY:
            changes.append(f"repair {video['repair']} becomes the browser's own")
            video["repair"] = "auto"
        if video["camera"] != "steady":
            changes.append("the camera is a file with steady frames")
            video["camera"] = "steady"
    for audio in _tables(data, "audio"):
        if Duration.parse(audio["frame"]) != Duration.parse(AUDIO_FRAME):
            changes.append(f"audio frames of {audio['frame']} become {AUDIO_FRAME}")
            audio["frame"] = AUDIO_FRAME


def codecs_of_today() -> tuple[str, ...]:
    """The codecs that a scenario may name and that are not encoders of the past."""
    return tuple(name for name in get_args(Video.model_fields["codec"].annotation) if name not in CODECS)


def _replace_device(was: Video, video: dict[str, Any], changes: list[str]) -> None:
    """A phone of the past becomes a desktop with the pictures of the phone's camera."""
    if was.device == "desktop":
        return
    camera = native_video(was)
    video |= {
        "device": "desktop",
        "width": camera["width"],
        "height": camera["height"],
        "frame_rate": camera["frame_rate"],
        "max_bitrate": f"{camera['max_bps']} bit/s",
        "min_bitrate": f"{camera['min_bps']} bit/s",
        "start_bitrate": f"{camera['start_bps']} bit/s",
    }
    changes.append(f"device {was.device} becomes a desktop with the pictures of that camera")


def _replace_rates_of_firefox(scenario: Scenario, data: dict[str, Any], changes: list[str]) -> None:
    """Gives the video of Firefox its own lowest rate and rate at the start, which pages cannot set."""
    for name, participant in data["participants"].items():
        video = participant.get("video", data.get("video"))
        if scenario.browser_of(name).name != "firefox" or not isinstance(video, dict):
            continue
        usual = Video.read({"max_bitrate": video["max_bitrate"]}, scenario.name)
        own = {"min_bitrate": str(usual.min_bitrate), "start_bitrate": str(usual.start_bitrate)}
        participant["video"] = video | own
        if participant["video"] != video:
            changes.append("the lowest rate and the rate at the start are Firefox's own for its video")


def _replace_topology(data: dict[str, Any], changes: list[str]) -> None:
    for call in data["calls"]:
        if call["kind"] == "mcu":
            call["kind"] = "sfu"
            changes.append("the MCU, which forwarded all feedback, becomes an SFU")


def _shorten(scenario: Scenario, data: dict[str, Any], duration: Duration, changes: list[str]) -> None:
    """Sets the length of the run, and scales the times at which something changes."""
    factor = duration.ns / scenario.duration.ns
    data["duration"] = str(duration)
    if factor == 1:
        return
    scaled = _scale_times(data, factor)
    times = f"{scenario.duration} become {duration}"
    changes.append(f"{times}; all times in between scale alike" if scaled else times)


def _scale_times(data: dict[str, Any], factor: float) -> bool:
    """Multiplies all times of changes in a scenario's JSON by a factor; says whether any is after 0."""
    found = False

    def scaled(time: str) -> str:
        nonlocal found
        found = found or Duration.parse(time).ns > 0
        return f"{round(Duration.parse(time).ns * factor / 1e6)} ms"

    for owner, keys in chain(
        ((call, ("start", "end")) for call in data["calls"]),
        ((traffic, ("start", "stop")) for traffic in data.get("traffic", {}).values()),
        ((one, ("join", "leave")) for one in data["participants"].values()),
    ):
        for key in keys:
            if owner.get(key) is not None:
                owner[key] = scaled(owner[key])
    for table in _courses(data):
        for key in ("steps", "points"):
            for point in table.get(key, ()):
                point[0] = scaled(point[0])
        if "ramp" in table:
            table |= {key: scaled(table[key]) for key in ("start", "end")}
    return found


def _courses(value: Any) -> Iterator[dict[str, Any]]:
    """Every table in JSON values that says how a path changes over time."""
    if isinstance(value, dict):
        if value.keys() & {"steps", "points", "ramp"}:
            yield value
        for inner in value.values():
            yield from _courses(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _courses(inner)


def encoded_pixels_per_s(scenario: Scenario) -> float:
    """Pixels per second that all encoders of a scenario encode together, each from its own camera."""
    return sum(
        video.width * video.height * video.frame_rate
        for name in encoders(scenario)
        if (video := scenario.video_of(name)) is not None
    )


def _within_limit(scenario: Scenario, largest: tuple[int, int] | None, changes: list[str]) -> Scenario:
    """The scenario with pictures that fit the limit of all encoders together."""
    people = min(len(scenario.participants), max(OF_MANY))
    if any(call.kind == MIXING for call in scenario.calls):
        largest = largest or OF_MIXING
    largest = largest or (OF_MANY_CALLS if len(scenario.calls) > 2 else OF_MANY.get(people))
    ways: list[Callable[[Scenario], Scenario]] = []
    if largest is None:
        ways = [lambda one: one, _with_frame_rate]
    boxes = SIZES if largest is None else SIZES[SIZES.index(largest) :]
    ways += [lambda one, box=box: _with_box(one, box) for box in boxes]  # type: ignore[misc]
    fitting = scenario
    for way in ways:
        fitting = way(scenario)
        if encoded_pixels_per_s(fitting) <= ENCODED_PIXELS_PER_S:
            break
    for name in scenario.participants:
        was, now = scenario.video_of(name), fitting.video_of(name)
        if was is not None and now is not None and _size(was) != _size(now):
            changes.append(f"video of {_size(was)} becomes {_size(now)}, which two cores can encode")
    return fitting


def _size(video: Video) -> str:
    return f"{video.width}x{video.height} at {video.frame_rate:g}/s"


def _with_frame_rate(scenario: Scenario) -> Scenario:
    return _with_video(scenario, lambda video: {"frame_rate": min(video["frame_rate"], FRAME_RATE)})


def _with_box(scenario: Scenario, box: tuple[int, int]) -> Scenario:
    """The scenario with pictures that fit into a box and keep their aspect ratio, at 30 frames/s at most."""

    def changed(video: dict[str, Any]) -> dict[str, Any]:
        scale = min(1.0, box[0] / video["width"], box[1] / video["height"])
        # Encoders need even numbers.
        size = {key: round(video[key] * scale / 2) * 2 for key in ("width", "height")}
        return size | {"frame_rate": min(video["frame_rate"], FRAME_RATE)}

    return _with_video(scenario, changed)


def _with_video(scenario: Scenario, change: Callable[[dict[str, Any]], dict[str, Any]]) -> Scenario:
    data = scenario.model_dump(mode="json", by_alias=True, exclude_none=True)
    for video in _tables(data, "video"):
        video |= change(video)
    return Scenario.read(data, scenario.name)
