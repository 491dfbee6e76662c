"""The parts of a machine that tests need, such as a browser or a server, by the names of `rtclab doctor`.

A test, or its whole file, is marked with what it needs::

    pytestmark = [pytest.mark.live, pytest.mark.needs(*CALL, "turnserver")]

Where a part is missing, the test is skipped and its reason names the part. With ``CI`` set it fails instead.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import NoReturn

import pytest

from rtclab.backend.live.doctor import CALL_PARTS, CHECKS, MachineCheck, check_command
from rtclab.backend.live.lab.cgroups import usable_hierarchy
from rtclab.errors import UnsupportedScenario

LAB = ("python packages", "unshare", "nsenter", "user namespaces", "packet sockets")
"""What a laboratory needs, even without browsers."""
CALL = tuple(dict.fromkeys((*LAB, *CALL_PARTS)))
"""What a live call of two Chromiums needs."""
BROWSERS = [pytest.param(name, marks=pytest.mark.needs(name)) for name in ("chromium", "firefox")]
"""The parameters of a test that runs in each browser."""
STRANGERS = Path(__file__).parents[1] / "target" / "strangers"
"""Where ``make setup-strangers`` puts servers and pages of others."""
DEMOS = Path("/usr/share/janus/demos")


def check_built(name: str) -> MachineCheck:
    """Whether ``make setup-strangers`` has made a server or page of others."""
    found = (STRANGERS / name).exists()
    return MachineCheck(
        name, found, "built" if found else "not built", "`make setup-strangers` (it needs Go and npm)"
    )


def check_demos() -> MachineCheck:
    """Whether the pages that come with Janus are installed."""
    found = DEMOS.exists()
    return MachineCheck(
        "janus-demos", found, str(DEMOS) if found else f"no {DEMOS}", "apt-get install janus-demos"
    )


def check_control_groups() -> MachineCheck:
    """Whether this user may limit the processor of a browser."""
    try:
        usable_hierarchy()
    except UnsupportedScenario:
        return MachineCheck(
            "control groups", False, "this user cannot limit a browser", "run the tests as root"
        )
    return MachineCheck("control groups", True, "usable")


PARTS: dict[str, Callable[[], MachineCheck]] = {
    **CHECKS,
    "chromedriver": lambda: check_command("chromedriver", "chromium-driver", only_for="the tests of rtclab"),
    "ping": lambda: check_command("ping", "iputils-ping", only_for="the tests of rtclab"),
    "valgrind": lambda: check_command("valgrind", "valgrind", only_for="the tests of rtclab"),
    "control groups": check_control_groups,
    "whip-whep": lambda: check_built("whip-whep"),
    "livekit-server": lambda: check_built("livekit-server"),
    "livekit-client": lambda: check_built("livekit-client"),
    "janus-demos": check_demos,
}
"""The check of each part that a test may need."""


@cache
def check_part(name: str) -> MachineCheck:
    """What the check of a part finds. A part is checked once."""
    return PARTS[name]()


def needed(item: pytest.Item) -> Iterator[str]:
    """The names of the parts that a test needs, without repetition.

    Raises:
        pytest.UsageError: a name is unknown.
    """
    names = dict.fromkeys(name for mark in item.iter_markers("needs") for name in mark.args)
    if unknown := names.keys() - PARTS.keys():
        raise pytest.UsageError(
            f"{item.nodeid}: needs unknown parts {sorted(unknown)}; expected some of {', '.join(PARTS)}"
        )
    return iter(names)


def need(item: pytest.Item) -> None:
    """Ends a test if this machine lacks a part that it needs."""
    for name in needed(item):
        check = check_part(name)
        if not check.ok:
            cannot_tell(f"needs {name}: {check.detail}; {check.hint}")


def cannot_tell(reason: str) -> NoReturn:
    """Ends a test that this machine cannot decide: skips it, or fails it if CI is set."""
    if os.environ.get("CI"):
        pytest.fail(reason, pytrace=False)
    pytest.skip(reason)
