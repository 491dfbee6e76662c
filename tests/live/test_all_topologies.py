"""Calls of every topology in turn, with real browsers, and what they leave behind: nothing.

``RTCLAB_CALLS`` is the number of calls, by default one of each kind; every call of those takes 13 s.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import cycle, islice
from pathlib import Path

import polars as pl
import psutil
import pytest
from small_call import SFU, small_call

from rtclab.backend.live import LiveBackend
from rtclab.errors import RtclabError
from rtclab.trace import NotConnected, Trace

pytestmark = pytest.mark.live

SECONDS, SECONDS_IN_A_ROW = 7, 10
CAROL = "[participants.carol]\n"
TCP = "[traffic.download]\nsender = 'core'\nreceiver = 'bob'\nstart = '3 s'\n"
KINDS = {
    "two": "",
    "relay": "[[calls]]\nrelay = 'core'\n",
    "two calls": "[[calls]]\n[[calls]]\nstart = '2 s'\nend = '5 s'\n",
    "beside TCP": TCP,
    "mesh": CAROL,
    "mesh of four": CAROL + "[participants.dave]\n",
    "star": CAROL + "[[calls]]\nkind = 'star'\n",
    "hub": CAROL + "[[calls]]\nkind = 'hub-and-spoke'\n",
    "tree": CAROL + "[[calls]]\nkind = 'tree'\nfan_out = 1\n",
    "janus": CAROL + SFU.format(kind="janus"),
    "str0m": CAROL + SFU.format(kind="str0m"),
    "nat": CAROL + "nat = 'port-restricted'\n",
    "relay over TCP": CAROL + "nat = 'udp-blocked'\n[[calls]]\nrelay = 'core'\n",
    "with firefox": CAROL + "[participants.carol.browser]\nname = 'firefox'\n",
    "firefox alone": "[browser]\nname = 'firefox'\n",
}
"""What each kind adds to a call of alice and bob."""


@dataclass(frozen=True)
class Left:
    """What calls could leave behind."""

    processes: int
    descriptors: int
    groups: tuple[str, ...]


def left() -> Left:
    """What this process has now: children, descriptors and control groups."""
    own = psutil.Process()
    groups = (str(one) for one in Path("/sys/fs/cgroup").glob(f"**/rtclab-{own.pid}-*"))
    return Left(len(own.children(recursive=True)), own.num_fds(), tuple(sorted(groups)))


def call(kind: str, out: Path, seconds: int = SECONDS) -> Trace:
    """Makes one call and returns its trace."""
    out.mkdir()
    scenario = small_call(out.with_suffix(".toml"), KINDS[kind], seconds=seconds)
    backend = LiveBackend()
    backend.check(scenario)
    return backend.run(scenario, seed=1, repeat=0, out=out)


def kinds() -> Iterator[str]:
    """The kinds of all calls, in turn."""
    return islice(cycle(KINDS), int(os.environ.get("RTCLAB_CALLS", len(KINDS))))


@pytest.fixture(scope="module")
def before(tmp_path_factory: pytest.TempPathFactory) -> Left:
    """What there was before the calls but after a first one, which starts the threads of libraries."""
    seen("two", tmp_path_factory.mktemp("first") / "call")
    return left()


@pytest.mark.parametrize("kind", KINDS)
def test_everybody_receives_video_in_every_topology(kind: str, before: Left, tmp_path: Path) -> None:
    missing, shown, expected = seen(kind, tmp_path / "call")
    assert missing == ()
    assert shown == expected
    assert left() == before


def seen(kind: str, out: Path) -> tuple[tuple[NotConnected, ...], set[str], set[str]]:
    """Of one call: pairs that did not connect, flows whose video was decoded, and flows that have video."""
    trace = call(kind, out)
    received = trace.table("inbound_rtp").filter(pl.col("kind") == "video")
    shown = set(received.filter(pl.col("framesDecoded") > 0)["flow"])
    return trace.manifest.not_connected, shown, {flow for flow in trace.flows if carries_video(trace, flow)}


def carries_video(trace: Trace, flow: str) -> bool:
    """Whether a participant should see video of a flow: in a call, not to a server, not back to a root."""
    about = trace.manifest.flows[flow]
    if about.call is None or not {about.sender, about.receiver} <= set(trace.manifest.participants):
        return False
    kind = trace.manifest.calls[about.call].kind
    root = about.receiver == "alice"
    if kind == "tree":
        return about.sender == "alice" and not root
    return kind != "star" or not root


@pytest.mark.skipif("RTCLAB_CALLS" not in os.environ, reason="set RTCLAB_CALLS to the number of calls")
def test_many_calls_in_a_row_leave_nothing_behind(before: Left, tmp_path: Path) -> None:
    reasons = []
    for number, kind in enumerate(kinds()):
        try:
            call(kind, tmp_path / str(number), SECONDS_IN_A_ROW)
        except RtclabError as error:
            reasons.append(f"{number} ({kind}): {error}")
    print("\n".join(reasons) or "no call failed")
    assert left() == before
