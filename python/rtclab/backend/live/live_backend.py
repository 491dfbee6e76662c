"""Runs a scenario in real time, with a browser for each participant."""

from __future__ import annotations

import errno
import re
from collections.abc import Sequence
from pathlib import Path

from rtclab.backend.backends import Watch, unwatched
from rtclab.backend.live.lab.cgroups import limited
from rtclab.backend.live.lab.internet import user_space_nat
from rtclab.backend.live.lab.kernel_tcp import kernel_congestion_controls, kernel_tcp
from rtclab.backend.live.lab.namespaces import Emit, LabError, run_in_lab
from rtclab.backend.live.records.recorder import printable
from rtclab.backend.live.scenario_checks import check_calls, check_participant
from rtclab.backend.live.user.invitations import WAIT_S, Invitation, announce, listening, own_addresses
from rtclab.errors import (
    BackendUnavailable,
    BadInput,
    CallFailed,
    DiskFull,
    LaboratoryFailed,
    UnsupportedScenario,
)
from rtclab.scenario import Scenario
from rtclab.trace import Trace

__all__ = [
    "LiveBackend",
    "check_participant",
    "kernel_congestion_controls",
    "kernel_tcp",
]

SESSION = "rtclab.backend.live.session:run_session"


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
        from rtclab.backend.live.doctor import parts_of, what_is_missing
        from rtclab.backend.live.user.user_settings import check_user_files

        check_calls(scenario)
        for participant in scenario.participants:
            check_participant(scenario, participant)
        check_user_files(scenario)
        self._check_invitations(scenario)
        missing = what_is_missing(parts_of(scenario))
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
        cores = shares(scenario)
        try:
            with (
                limited(cores) as groups,
                user_space_nat() as attach,
                listening(self._invitations, self._wait_s) as places,
            ):
                run_in_lab(
                    SESSION,
                    plan.model_copy(
                        update={"cpu_groups": groups, "cpu_cores": cores, "invited": places}
                    ).to_json(),
                    on_start=attach if scenario.internet else None,
                    on_event=lambda event: (self._announce if "seat" in event else watch)(event),
                    descriptors=[number for place in places.values() for number in (place.tcp, place.udp)],
                )
        except LabError as error:
            raise as_raised(error, out) from error
        return Trace(out)


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
