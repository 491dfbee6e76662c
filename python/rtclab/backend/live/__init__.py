"""The live backend: real browsers in network namespaces, connected by the emulator, without root."""

from __future__ import annotations

import errno
import re
from collections.abc import Callable, Sequence
from pathlib import Path

from rtclab.backend import Watch, unwatched
from rtclab.backend.live.browsers.field_trials import check_control
from rtclab.backend.live.browsers.media_files import camera_of
from rtclab.backend.live.lab.cgroups import limited
from rtclab.backend.live.lab.cross_traffic import check_traffic
from rtclab.backend.live.lab.internet import user_space_nat
from rtclab.backend.live.lab.kernel_tcp import kernel_congestion_controls, kernel_tcp
from rtclab.backend.live.lab.namespaces import Emit, LabError, run_in_lab
from rtclab.backend.live.records.recorder import printable
from rtclab.backend.live.scenario_checks import check_media, check_mixer
from rtclab.backend.live.user.invitations import WAIT_S, Invitation, announce, listening, own_addresses
from rtclab.errors import (
    BackendUnavailable,
    BadInput,
    CallFailed,
    DiskFull,
    LaboratoryFailed,
    UnsupportedScenario,
)
from rtclab.scenario import Scenario, Video, mixing
from rtclab.trace import Trace

__all__ = [
    "LiveBackend",
    "check_participant",
    "kernel_congestion_controls",
    "kernel_tcp",
]

SESSION = "rtclab.backend.live.session:run_session"
OPUS_FRAME_MS = 20
"""Browsers always send Opus in frames of 20 ms."""


class LiveBackend:
    """Runs a scenario in real time, with one browser per participant."""

    name = "live"
    parallel = False
    deterministic = False
    capture = False

    def __init__(
        self,
        invitations: Sequence[Invitation] = (),
        *,
        wait_s: float = WAIT_S,
        announce: Emit = announce,
    ) -> None:
        """Prepares the backend.

        Args:
            invitations: where invited browsers find the seats of their participants.
            wait_s: how long a repeat waits until all these seats are taken, in seconds.
            announce: called with what happens to a seat; by default it is printed on standard error.
        """
        self._invitations = invitations
        self._wait_s = wait_s
        self._announce = announce

    def check(self, scenario: Scenario) -> None:
        """Checks whether browsers support the scenario, and whether this machine has what they need.

        Raises:
            BadInput: strangers made the scenario, it would run programs, open files or use the network, and
                the user does not trust it.
            UnsupportedScenario: browsers do not support the scenario. The message names the field.
            BackendUnavailable: something is missing. The message names it, the hint says how to get it.
        """
        scenario.check_trusted(live=True)
        from rtclab.backend.live.connections import MIXER, live_connections
        from rtclab.backend.live.doctor import what_is_missing
        from rtclab.backend.live.user.user_settings import check_user_files

        check_calls(scenario)
        for participant in scenario.participants:
            check_participant(scenario, participant)
        check_user_files(scenario)
        self._check_invitations(scenario)
        joined = live_connections(scenario)
        missing = what_is_missing(
            turn=any(call.relay is not None for call in scenario.calls)
            or has_nat(scenario)
            or bool(self._invitations),
            janus=any(one.server == "janus" for one in joined),
            mixer=any(one.server == MIXER for one in joined),
            str0m=any(server.kind == "str0m" for server in scenario.servers.values()),
            nat=has_nat(scenario),
            internet=scenario.internet,
            firefox=any(scenario.browser_of(name).name == "firefox" for name in scenario.participants),
        )
        if missing:
            raise BackendUnavailable(
                "live calls cannot run here: "
                + "; ".join(f"{check.name}: {check.detail}" for check in missing),
                hint="; ".join(dict.fromkeys(check.hint for check in missing)),
            )

    def _check_invitations(self, scenario: Scenario) -> None:
        """Checks that every invited browser has an address, at which this machine can listen.

        Raises:
            UnsupportedScenario: a participant has both an invited browser and a page of the user's own.
            BadInput: one has none, or its address or port cannot be used.
        """
        addressed = {one.participant for one in self._invitations}
        for name, participant in scenario.participants.items():
            if scenario.browser_of(name).name != "invited":
                continue
            if participant.page is not None:
                raise UnsupportedScenario(
                    f"participants.{name}.page",
                    f"an invited browser gets rtclab's own page; got `{participant.page}`, expected none",
                )
            if name not in addressed:
                raise BadInput(
                    f"nobody can take the seat of {name}: an invited browser needs an address; expected "
                    f"--invite {name}=ADDRESS",
                    hint=own_addresses(),
                )
        for name in addressed:
            if name not in scenario.participants or scenario.browser_of(name).name != "invited":
                raise BadInput(
                    f"invite: `{name}` has no invited browser in the scenario; expected "
                    f'`browser.name = "invited"` for one of {", ".join(scenario.participants)}'
                )
        with listening(self._invitations):
            pass

    def run(
        self, scenario: Scenario, *, seed: int, repeat: int, out: Path, watch: Watch = unwatched
    ) -> Trace:
        """Runs one repeat in real time and writes its trace, with a capture of every packet, to ``out``.

        Raises:
            CallFailed: a browser died, a page failed, or nobody connected.
            LaboratoryFailed: the emulator or the lab ended, or the machine was suspended.
            DiskFull: no space is left.
        """
        from rtclab.backend.live.browsers.encoder_speed import shares
        from rtclab.backend.live.plan import session_plan

        scenario.check_trusted(live=True)
        plan = session_plan(scenario, seed=seed, repeat=repeat, out=out)
        try:
            with (
                limited(shares(scenario)) as groups,
                user_space_nat() as attach,
                listening(self._invitations, self._wait_s) as places,
            ):
                run_in_lab(
                    SESSION,
                    plan.model_copy(update={"cpu_groups": groups, "invited": places}).to_json(),
                    on_start=attach if scenario.internet else None,
                    on_event=lambda event: (self._announce if "seat" in event else watch)(event),
                    descriptors=[number for place in places.values() for number in (place.tcp, place.udp)],
                )
        except LabError as error:
            raise as_raised(error, out) from error
        return Trace(out)


def has_nat(scenario: Scenario) -> bool:
    """Whether a participant is behind a NAT."""
    return any(participant.nat != "none" for participant in scenario.participants.values())


def check_calls(scenario: Scenario) -> None:
    """Checks that a program exists for every call and for all cross traffic.

    Raises:
        UnsupportedScenario: no server supports a call, or the kernel lacks a congestion control.
        BackendUnavailable: iperf3 is not installed.
    """
    for index, call in enumerate(scenario.calls):
        if call.kind == "mcu":
            raise UnsupportedScenario(
                f"calls.{index}.kind",
                "no server of live calls forwards feedback unchanged; got `mcu`, expected another kind",
                hint='use kind = "sfu" or "mixing-mcu", or run it simulated: --backend sim',
            )
        if call.servers is not None:
            raise UnsupportedScenario(
                f"calls.{index}.servers",
                f"servers of live calls are not connected with each other; got {', '.join(call.servers)}",
                hint="use one `server`, or run it simulated: --backend sim",
            )
        check_encryption(scenario, index)
    for server in mixing.mixers(scenario):
        check_mixer(scenario, server)
    for server in mixing.forwarders(scenario):
        raise UnsupportedScenario(
            f"servers.{server}.congestion_control",
            "SFUs of live calls have a congestion control of their own; expected no such table",
            hint="leave it out, or run it simulated: --backend sim",
        )
    check_traffic(scenario)


def check_encryption(scenario: Scenario, index: int) -> None:
    """Checks that both ends of every connection of a call encrypt, or neither.

    Raises:
        UnsupportedScenario: one end would encrypt. The message names the field.
    """
    call = scenario.calls[index]
    plain = [name for name in call.participants if not scenario.browser_of(name).encryption]
    if not plain:
        return
    own = scenario.participants[plain[0]].browser is not None
    field = f"participants.{plain[0]}.browser.encryption" if own else "browser.encryption"
    if call.kind in ("sfu", mixing.MIXING):
        raise UnsupportedScenario(
            field, "SFUs and MCUs have no unencrypted connections; got `false`, expected `true`"
        )
    if len(plain) < len(call.participants):
        raise UnsupportedScenario(
            field,
            "browsers with and without encryption cannot connect; expected the same value for all "
            f"participants of `calls.{index}`",
        )


def check_participant(scenario: Scenario, participant: str) -> None:
    """Checks that a browser supports a participant's settings in the scenario.

    Raises:
        UnsupportedScenario: no browser can do it.
    """
    own = scenario.participants[participant]

    def field(table: str, key: str) -> str:
        is_own = getattr(own, table) is not None
        return f"participants.{participant}.{table}.{key}" if is_own else f"{table}.{key}"

    if own.page is not None:
        check_size(field, camera_of(scenario, participant))
        return
    if own.pause is not None:
        raise UnsupportedScenario(
            f"participants.{participant}.pause",
            "the pages of live calls do not pause their media; expected none",
            hint="leave it out, or run it simulated: --backend sim",
        )
    control = scenario.congestion_control_of(participant)
    check_control(scenario, participant, field("congestion_control", "name").removesuffix(".name"))
    over_sfu = any(call.kind == "sfu" and participant in call.participants for call in scenario.calls)
    if control.name == "remb" and over_sfu:
        raise UnsupportedScenario(
            field("congestion_control", "name"),
            "the SFUs of live calls neither send nor read REMB; got `remb`, expected `goog-cc`",
            hint='use kind = "p2p", or run it simulated: --backend sim',
        )
    over_mcu = any(call.kind == mixing.MIXING and participant in call.participants for call in scenario.calls)
    if control.name == "goog-cc" and over_mcu:
        raise UnsupportedScenario(
            field("congestion_control", "name"),
            "the MCU of live calls knows no transport-wide feedback; got `goog-cc`, expected `remb`",
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
    if video is not None and video.device != "desktop":
        raise UnsupportedScenario(
            field("video", "device"),
            f"browsers have their own encoders; got `{video.device}`, expected `desktop`",
            hint="run it simulated: --backend sim",
        )
    check_media(scenario, participant)
    check_size(field, video)


def check_size(field: Callable[[str, str], str], video: Video | None) -> None:
    """Checks that a clip of the camera's size can be made; ``field`` gives the name of a field.

    Raises:
        UnsupportedScenario: width or height is odd.
    """
    if video is not None and (video.width % 2 or video.height % 2):
        raise UnsupportedScenario(
            field("video", "width" if video.width % 2 else "height"),
            f"the video clip needs an even width and height; got `{video.width}x{video.height}`",
        )


_DISK_FULL = re.compile(rf"(?:os error|Errno) (?:{errno.ENOSPC}|{errno.EDQUOT})\b")
"""How Rust and Python name the number of an error in its text."""


def as_raised(error: LabError, out: Path) -> Exception:
    """The error to raise for an error inside the lab."""
    text, _, hint = printable(error.message).partition("\n  hint: ")
    of_call = error.kind in ("CallFailed", "DevToolsError")
    if error.kind == "DiskFull" or (not of_call and _DISK_FULL.search(text)):
        return DiskFull(out)
    if error.kind == "BackendUnavailable":
        return BackendUnavailable(text, hint=hint or None)
    if of_call:
        return CallFailed(text, hint=hint or None)
    if error.kind in ("LaboratoryFailed", "LabError"):
        return LaboratoryFailed(text, hint=hint or None)
    # A bug in rtclab. The traceback is a note on `error`, which becomes the cause.
    return RuntimeError(f"{error.kind} in the session: {text}")
