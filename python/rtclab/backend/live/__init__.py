"""The live backend: real browsers in network namespaces, connected by the emulator, without root."""

from __future__ import annotations

import errno
import subprocess
from itertools import combinations
from pathlib import Path

from rtclab.backend import manifest, paths_table
from rtclab.backend.live.namespaces import LabError, run_in_lab
from rtclab.errors import BackendUnavailable, CallFailed, DiskFull, UnsupportedScenario
from rtclab.scenario import Duration, Scenario
from rtclab.trace import Trace

SESSION = "rtclab.backend.live.session:run_session"
OPUS_FRAME_MS = 20
"""Browsers always send Opus in frames of 20 ms."""


class LiveBackend:
    """Runs a scenario in real time, with one Chromium per participant."""

    name = "live"
    parallel = False
    deterministic = False

    def check(self, scenario: Scenario) -> None:
        """Checks whether browsers support the scenario, and whether this machine has what they need.

        Raises:
            UnsupportedScenario: browsers do not support the scenario. The message names the field.
            BackendUnavailable: something is missing. The message names it, the hint says how to get it.
        """
        from rtclab.backend.live.doctor import what_is_missing

        check_calls(scenario)
        for participant in scenario.participants:
            check_participant(scenario, participant)
        missing = what_is_missing()
        if missing:
            raise BackendUnavailable(
                "live calls cannot run here: "
                + "; ".join(f"{check.name}: {check.detail}" for check in missing),
                hint="; ".join(dict.fromkeys(check.hint for check in missing)),
            )

    def run(self, scenario: Scenario, *, seed: int, repeat: int, out: Path) -> Trace:
        """Runs one repeat in real time and writes its trace, with a capture of every packet, to ``out``.

        Raises:
            CallFailed: a browser died, a page failed, nobody connected, or the lab ended.
            DiskFull: no space is left.
        """
        from rtclab.backend.live.clip import prepare_clip
        from rtclab.backend.live.doctor import find_chromium
        from rtclab.backend.live.pages import pages

        executable = find_chromium()
        if executable is None:
            raise BackendUnavailable("no Chromium found in PATH", hint="make setup-live")
        videos = {name: scenario.video_of(name) for name in scenario.participants}
        clips = {
            name: str(prepare_clip(video.width, video.height, video.frame_rate))
            for name, video in videos.items()
            if video is not None
        }
        argument = {
            "call": scenario.native(seed=seed),
            "pages": pages(scenario),
            "executable": executable,
            "clips": clips,
            "browsers": {
                name: scenario.browser_of(name).model_dump(mode="json") for name in scenario.participants
            },
            "out": str(out.resolve()),
            "paths": paths_table(scenario).to_dict(as_series=False),
            "manifest": manifest(
                scenario, backend=self.name, seed=seed, repeat=repeat, browser=version_of(executable)
            ).as_json(),
        }
        try:
            run_in_lab(SESSION, argument)
        except LabError as error:
            raise as_raised(error, out) from error
        return Trace(out)


def check_calls(scenario: Scenario) -> None:
    """Checks that every call is one direct connection per pair for the whole run.

    Raises:
        UnsupportedScenario: there is another kind of call, a server, or TCP cross traffic.
    """
    simulate = "run it simulated: --backend sim"
    if scenario.servers:
        field = f"servers.{next(iter(scenario.servers))}"
        raise UnsupportedScenario(field, "live calls have no servers of their own", hint=simulate)
    if scenario.traffic:
        field = f"traffic.{next(iter(scenario.traffic))}"
        raise UnsupportedScenario(field, "live calls have no TCP cross traffic", hint=simulate)
    paired: set[frozenset[str]] = set()
    for index, call in enumerate(scenario.calls):
        for key, value, usual in (
            ("kind", call.kind, "p2p"),
            ("relay", call.relay, None),
            ("start", call.start, Duration(0)),
            ("end", call.end, None),
        ):
            if value != usual:
                expected = f"`{usual}`" if key == "kind" else f"a call without {key}"
                raise UnsupportedScenario(
                    f"calls.{index}.{key}",
                    f"in live calls each pair is connected directly while both are present; got `{value}`, "
                    f"expected {expected}",
                    hint=simulate,
                )
        pairs = {frozenset(pair) for pair in combinations(call.participants, 2)}
        if pairs & paired:
            names = " and ".join(sorted(min(map(sorted, pairs & paired))))
            raise UnsupportedScenario(
                f"calls.{index}.participants",
                f"{names} are already together in an earlier call; a live call connects each pair once",
                hint=simulate,
            )
        paired |= pairs


def check_participant(scenario: Scenario, participant: str) -> None:
    """Checks that a browser can do what the scenario says of a participant.

    Raises:
        UnsupportedScenario: no browser can do it.
    """
    own = scenario.participants[participant]

    def field(table: str, key: str) -> str:
        is_own = getattr(own, table) is not None
        return f"participants.{participant}.{table}.{key}" if is_own else f"{table}.{key}"

    control = scenario.congestion_control_of(participant)
    if control.name != "goog-cc":
        raise UnsupportedScenario(
            field("congestion_control", "name"),
            f"browsers have their own congestion control, not `{control.name}`; expected `goog-cc`",
            hint="run it simulated: --backend sim",
        )
    if control.stack is not None:
        raise UnsupportedScenario(
            field("congestion_control", "stack"),
            f"browsers have today's stack, not `{control.stack}`; expected no stack",
            hint="run it simulated: --backend sim",
        )
    if control.options:
        raise UnsupportedScenario(
            field("congestion_control", "options"),
            f"the congestion control of browsers takes no options; got `{', '.join(control.options)}`",
        )
    if scenario.host_of(participant) is not None:
        raise UnsupportedScenario(
            field("host", "encoder_capacity"),
            "browsers encode as fast as this machine can; expected no encoder_capacity",
            hint="run it simulated: --backend sim",
        )
    audio = scenario.audio_of(participant)
    if audio is not None and audio.frame.ns != OPUS_FRAME_MS * 10**6:
        raise UnsupportedScenario(
            field("audio", "frame"),
            f"browsers send audio in frames of {OPUS_FRAME_MS} ms; got `{audio.frame}`",
        )
    video = scenario.video_of(participant)
    if video is not None and video.repair not in ("auto", "rtx"):
        raise UnsupportedScenario(
            field("video", "repair"),
            f"browsers have their own loss repair, not `{video.repair}`; expected `auto` or `rtx`",
            hint="run it simulated: --backend sim",
        )
    for key, usual in (("codec", "vp8"), ("device", "desktop")):
        if video is not None and getattr(video, key) != usual:
            raise UnsupportedScenario(
                field("video", key),
                f"browsers have today's encoders; got `{getattr(video, key)}`, expected `{usual}`",
                hint="run it simulated: --backend sim",
            )
    if video is not None and (video.width % 2 or video.height % 2):
        raise UnsupportedScenario(
            field("video", "width" if video.width % 2 else "height"),
            f"the video clip needs an even width and height; got `{video.width}x{video.height}`",
        )


def version_of(executable: str) -> str:
    """A browser's version, e.g. ``Chromium 156.0.8078.79 built on Debian GNU/Linux 12``."""
    return subprocess.run(
        [executable, "--version"], capture_output=True, text=True, check=False
    ).stdout.strip()


def as_raised(error: LabError, out: Path) -> Exception:
    """The error to raise for an error inside the lab."""
    text, _, hint = error.message.partition("\n  hint: ")
    if error.kind == "DiskFull" or f"(os error {errno.ENOSPC})" in text:
        return DiskFull(out)
    if error.kind in ("CallFailed", "LabError"):
        return CallFailed(text, hint=hint or None)
    # A bug in rtclab. The traceback is a note on `error`, which becomes the cause.
    return RuntimeError(f"{error.kind} in the session: {text}")
