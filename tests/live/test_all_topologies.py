"""Calls of every topology in turn, with real browsers, and what they leave behind: nothing.

``RTCLAB_CALLS`` is the number of calls, by default one of each kind, which takes 13 s each.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from itertools import cycle, islice
from pathlib import Path
from typing import Any
from uuid import uuid4

import polars as pl
import psutil
import pytest
from parts import CALL, check_part
from small_call import MIXING, SFU, small_call

from rtclab.backend.live import LiveBackend
from rtclab.errors import CallFailed
from rtclab.trace import Trace

pytestmark = [pytest.mark.live, pytest.mark.needs(*CALL)]

SECONDS, SECONDS_OF_MESH, SECONDS_IN_A_ROW = 5.5, 10.5, 10
"""Chromium writes its event logs after some 1.2 s and then every 5 s. A call waits for that at its end."""
SECONDS_AGAIN = 20.5
"""Beside other tests on two cores, three browsers take four seconds until everybody sees everybody, and
four browsers take seven. Where more is going on, a call is made again, and longer."""
CAROL = "[participants.carol]\n"
TCP = "[traffic.download]\nsender = 'core'\nreceiver = 'bob'\nstart = '3 s'\n"
LIMITED = "slow machines"
VIEWER = "a viewer over janus"
PARTS = {
    "relay": ["turnserver"],
    "beside TCP": ["iperf3"],
    "janus": ["janus"],
    VIEWER: ["janus"],
    "str0m": ["rtclab-sfu"],
    "whip": ["rtclab-sfu"],
    "mixing MCU": ["aiortc"],
    "nat": ["nft", "turnserver"],
    "relay over TCP": ["nft", "turnserver"],
    "with firefox": ["firefox"],
    "firefox alone": ["firefox"],
    LIMITED: ["control groups"],
}
"""What each kind needs besides the parts of a call of two Chromiums."""
KINDS = {
    "two": "",
    "relay": "[[calls]]\nrelay = 'core'\n",
    "two calls": "[[calls]]\n[[calls]]\nstart = '1 s'\nend = '5 s'\n",
    "beside TCP": TCP,
    "mesh of three": CAROL + "join = '2 s'\nleave = '9 s'\n",
    "mesh of four": CAROL + "[participants.dave]\n",
    "star": CAROL + "[[calls]]\nkind = 'star'\n",
    "hub": CAROL + "[[calls]]\nkind = 'hub-and-spoke'\n",
    "tree": CAROL + "[[calls]]\nkind = 'tree'\nfan_out = 1\n",
    "janus": CAROL
    + "[participants.carol.video]\nsimulcast = true\nwidth = 480\nheight = 270\n"
    + SFU.format(kind="janus"),
    VIEWER: CAROL + "video = false\naudio = false\n" + SFU.format(kind="janus"),
    "str0m": CAROL + SFU.format(kind="str0m"),
    "whip": CAROL + SFU.format(kind="str0m").replace("[[", "signalling = 'whip'\n[["),
    "mixing MCU": CAROL + MIXING,
    "nat": CAROL + "nat = 'port-restricted'\n",
    "relay over TCP": CAROL + "nat = 'udp-blocked'\n[[calls]]\nrelay = 'core'\n",
    "with firefox": CAROL + "[participants.carol.browser]\nname = 'firefox'\n",
    "firefox alone": "[browser]\nname = 'firefox'\n",
    LIMITED: "[host]\nencoder_capacity = '20 Mpixel/s'\n",
}
"""The lines that each kind adds to a call of alice and bob."""

MARK = f"RTCLAB_TEST={uuid4()}"
"""A line in the environment of this process, which those that it starts inherit."""


@dataclass(frozen=True)
class Left:
    """Processes, files and other things that calls could leave behind.

    The network namespaces of a call live as long as its lab, and the kernel ends all processes of a lab with
    it. So a namespace that was left behind has a process with :data:`MARK`.
    """

    processes: frozenset[int]
    descriptors: int
    groups: frozenset[str]
    directories: frozenset[str]


def left() -> Left:
    """What there is now: marked processes and own descriptors, control groups, and temporary directories."""
    pid = os.getpid()
    return Left(
        frozenset(other for other in psutil.pids() if other != pid and is_marked(other)),
        psutil.Process().num_fds(),
        frozenset(map(str, Path("/sys/fs/cgroup").glob(f"**/rtclab-{pid}-*"))),
        frozenset(map(str, Path(tempfile.gettempdir()).glob("rtclab*"))),
    )


def is_marked(pid: int) -> bool:
    """Whether a process comes from this one, even if its parent has ended."""
    try:
        return MARK.encode() in Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    except OSError:
        return False  # it has ended, or belongs to another user


def call(text: str, out: Path, seconds: float = SECONDS) -> Trace:
    """Makes one call and returns its trace; ``text`` is what its kind adds to the scenario."""
    out.mkdir()
    scenario = small_call(out.with_suffix(".toml"), text, seconds=seconds)
    backend = LiveBackend()
    backend.check(scenario)
    return backend.run(scenario, seed=1, repeat=0, out=out)


def with_parts(kind: str) -> Any:
    """The parameter of a test for a kind, with the parts that it needs."""
    return pytest.param(kind, marks=pytest.mark.needs(*PARTS.get(kind, [])))


def kinds() -> Iterator[str]:
    """The kinds of all calls, in turn, without those that this machine does not allow."""
    allowed = [kind for kind in KINDS if all(check_part(name).ok for name in PARTS.get(kind, []))]
    return islice(cycle(allowed), int(os.environ.get("RTCLAB_CALLS", len(KINDS))))


@cache
def begun() -> None:
    """Writes a first table in this process, which makes Polars start its threads."""
    with tempfile.TemporaryFile() as file:
        pl.DataFrame().write_parquet(file)


@pytest.fixture
def before(monkeypatch: pytest.MonkeyPatch) -> Iterator[Left]:
    """What there is before a test. Temporary files are in a directory of its own, as others run beside it."""
    name, _, value = MARK.partition("=")
    monkeypatch.setenv(name, value)
    begun()
    with tempfile.TemporaryDirectory() as temporary:
        monkeypatch.setenv("TMPDIR", temporary)
        monkeypatch.setattr(tempfile, "tempdir", None)
        yield left()


@pytest.mark.parametrize("kind", [with_parts(kind) for kind in KINDS])
def test_everybody_receives_video_in_every_topology(kind: str, before: Left, tmp_path: Path) -> None:
    seconds = SECONDS_OF_MESH if kind.startswith("mesh") else SECONDS
    assert everybody_sees(kind, tmp_path / "call", seconds) or everybody_sees(
        kind, tmp_path / "again", SECONDS_AGAIN
    )
    assert left() == before


def everybody_sees(kind: str, out: Path, seconds: float) -> bool:
    """Makes one call. Whether all pairs connected, and the video of all flows arrived that have some."""
    try:
        trace = call(KINDS[kind], out, seconds)
    except CallFailed as error:
        if "did not connect within" not in str(error):
            raise
        print(error)
        return False
    received = trace.table("inbound_rtp").filter(pl.col("kind") == "video")
    shown = set(received.filter(pl.col("framesDecoded") > 0)["flow"])
    expected = {flow for flow in trace.flows if carries_video(trace, flow)}
    if kind == VIEWER:
        expected = {flow for flow in expected if not flow.startswith("carol->")}
    print(trace.manifest.not_connected, shown ^ expected)
    assert shown <= expected
    return trace.manifest.not_connected == () and shown == expected


def carries_video(trace: Trace, flow: str) -> bool:
    """Whether a participant should see video of a flow: in a call, not to a server, not back to a root."""
    about = trace.manifest.flows[flow]
    if about.call is None or about.receiver not in trace.manifest.participants:
        return False
    kind = trace.manifest.calls[about.call].kind
    if about.sender not in trace.manifest.participants:
        return kind == "mixing-mcu"
    root = about.receiver == "alice"
    if kind == "tree":
        return about.sender == "alice" and not root
    return kind != "star" or not root


@pytest.mark.parametrize("kind", [with_parts(kind) for kind in ("hub", "str0m")])
def test_the_media_of_a_participant_who_leaves_end_for_everybody(kind: str, tmp_path: Path) -> None:
    leave_s = 4
    trace = call(KINDS[kind].replace(CAROL, f"{CAROL}leave = '{leave_s} s'\n"), tmp_path / "call", 7)
    of_carol = pl.col("flow").str.starts_with("carol->")
    received = trace.table("inbound_rtp").filter(of_carol).group_by("flow").agg(pl.col("at_ns").max())
    last_s = {flow: at_ns / 1e9 for flow, at_ns in received.iter_rows()}
    assert last_s.keys() == {"carol->alice", "carol->bob"}
    # Reports come once a second, and the last one when the others hear of it.
    assert all(leave_s - 1.5 < at_s < leave_s + 1 for at_s in last_s.values())
    estimates = trace.table("controller").filter(of_carol, pl.col("name") == "available_outgoing_bitrate_bps")
    assert not estimates.is_empty()
    assert all(at_ns / 1e9 < leave_s + 1.5 for at_ns in estimates["at_ns"])


@pytest.mark.skipif("RTCLAB_CALLS" not in os.environ, reason="set RTCLAB_CALLS to the number of calls")
def test_many_calls_in_a_row_leave_nothing_behind(before: Left, tmp_path: Path) -> None:
    reasons, made = [], 0
    for made, kind in enumerate(kinds(), start=1):
        try:
            call(KINDS[kind], tmp_path / str(made), SECONDS_IN_A_ROW)
        except CallFailed as error:  # anything else is not explained
            reasons.append(f"{made} ({kind}): {error}")
    print("\n".join(reasons) or "no call failed")
    assert left() == before
    assert len(reasons) <= made // 50
