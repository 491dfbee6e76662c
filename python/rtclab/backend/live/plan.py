"""The plan of one repeat: all that the session in the lab gets from outside. It crosses as JSON."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Self

from pydantic import BaseModel, ConfigDict

from rtclab.backend.backends import manifest, paths_table
from rtclab.backend.live.browsers.launch_options import BrowserLaunch, browsers, versions_of
from rtclab.backend.live.browsers.page_settings import pages
from rtclab.backend.live.connections import LiveConnection, live_connections
from rtclab.backend.live.lab.nat import UDP_BLOCKED, NatKind
from rtclab.backend.live.messages import Json
from rtclab.backend.live.servers.mcu import mixer_settings
from rtclab.backend.live.servers.whip import WhipSettings, whip_settings
from rtclab.backend.live.user.invitations import InvitedPlace
from rtclab.backend.live.user.user_settings import (
    UserPageSettings,
    UserServerSettings,
    user_pages,
    user_servers,
)
from rtclab.scenario import Scenario, mixing
from rtclab.trace import TraceManifest


class SessionPlan(BaseModel):
    """What the session runs, and where it writes the trace. Times are in ns since the run begins."""

    model_config = ConfigDict(frozen=True, ser_json_inf_nan="constants")

    call: Json
    """Network, participants, cross traffic, seed and duration, as :meth:`rtclab.scenario.Scenario.native`
    gives them."""
    manifest: TraceManifest
    """The manifest as planned, with calls and flows."""
    connections: tuple[LiveConnection, ...]
    """The peer connections of all calls; each one's ``number`` is its index."""
    out: Path
    """Directory of the trace."""
    paths: dict[str, list[Any]] = {}
    """Columns of the table ``paths``."""
    pages: dict[str, Json] = {}
    """By participant, the configuration of rtclab's page, as its script reads it."""
    browsers: dict[str, BrowserLaunch] = {}
    """By participant, how its browser is started. Invited browsers are not among them."""
    nats: dict[str, NatKind] = {}
    """By participant who is behind a NAT, the NAT's kind."""
    internet: bool = False
    """Whether hosts outside the lab can be reached."""
    mixers: dict[str, Json] = {}
    """By node of an MCU that mixes, what it composes, as its program reads it."""
    whip: dict[str, WhipSettings] = {}
    """By node of an SFU with WHIP and WHEP, its resources."""
    user_pages: dict[str, UserPageSettings] = {}
    """By participant, the page of the user's own."""
    user_servers: dict[str, UserServerSettings] = {}
    """By node, the server of the user's own."""
    cpu_groups: dict[str, str] = {}
    """By participant whose CPU is limited, the file that joins its control group."""
    cpu_cores: dict[str, float] = {}
    """By participant whose CPU is limited, the number of cores that it may use."""
    invited: dict[str, InvitedPlace] = {}
    """By participant with an invited browser, the sockets at which the browser is served."""

    def to_json(self) -> Json:
        """The plan as JSON values, for :meth:`from_json` inside the lab."""
        values: Json = json.loads(self.model_dump_json(by_alias=True))
        return values

    @classmethod
    def from_json(cls, values: Json) -> Self:
        """The plan that :meth:`to_json` made.

        Raises:
            pydantic.ValidationError: ``values`` are no such plan.
        """
        return cls.model_validate(values)

    @property
    def tcp_to_relay(self) -> set[str]:
        """The participants who reach a TURN server over TCP, because their NAT blocks UDP."""
        return {name for name, kind in self.nats.items() if kind == UDP_BLOCKED}


def session_plan(scenario: Scenario, *, seed: int, repeat: int, out: Path) -> SessionPlan:
    """Plans one repeat. Control groups and sockets of invited browsers are still missing.

    Raises:
        BackendUnavailable: a browser is not installed.
        BadInput: a media file cannot be used.
    """
    launches = browsers(scenario)
    planned = manifest(
        scenario, backend="live", seed=seed, repeat=repeat, browser=versions_of(launches.values()) or None
    )
    trials = {name: launch.options.field_trials for name, launch in launches.items()}
    return SessionPlan(
        call=scenario.native(seed=seed),
        manifest=planned.model_copy(
            update={"field_trials": {name: text for name, text in trials.items() if text}}
        ),
        connections=tuple(live_connections(scenario)),
        out=out.resolve(),
        paths=paths_table(scenario).to_dict(as_series=False),
        pages=pages(scenario),
        browsers=launches,
        nats={name: own.nat for name, own in scenario.participants.items() if own.nat != "none"},
        internet=scenario.internet,
        mixers={server: mixer_settings(scenario, server) for server in mixing.mixers(scenario)},
        whip=whip_settings(scenario),
        user_pages=user_pages(scenario),
        user_servers=user_servers(scenario),
    )
