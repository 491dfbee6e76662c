"""What happens to a live repeat when a part of it fails, and that nothing else suffers."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import polars as pl
import psutil
import pytest
from live_tests import as_ordinary_user
from parts import CALL
from small_call import MIXING, SFU, small_call

from rtclab.backend.live import LiveBackend
from rtclab.backend.live.session import PARTIAL_CAPTURE
from rtclab.errors import CallFailed
from rtclab.experiment import Experiment
from rtclab.scenario import Scenario
from rtclab.trace import Run

pytestmark = [pytest.mark.live, pytest.mark.needs(*CALL)]

STARTS_S = 40
RUN = """
import sys
from pathlib import Path
from rtclab.backend.live import LiveBackend
from rtclab.scenario import Scenario
LiveBackend().run(Scenario.load(sys.argv[1], trust=True), seed=1, repeat=0, out=Path(sys.argv[2]))
"""


def scenario(tmp_path: Path, text: str = "", seconds: int = 15) -> Scenario:
    return small_call(tmp_path / "faulty.toml", text, seconds=seconds)


def one_repeat(tmp_path: Path, text: str = "", seconds: int = 15) -> Run:
    experiment = Experiment([scenario(tmp_path, text, seconds)], backend=LiveBackend(), repeats=1)
    return experiment.run(out=tmp_path / "runs").run


def while_it_runs(tmp_path: Path, act: Callable[[], None]) -> threading.Thread:
    """Calls ``act`` in a thread as soon as the emulator of a run below ``tmp_path`` writes its capture."""

    def wait() -> None:
        deadline = time.monotonic() + STARTS_S
        while not any(tmp_path.glob(f"**/{PARTIAL_CAPTURE}")) and time.monotonic() < deadline:
            time.sleep(0.05)
        act()

    thread = threading.Thread(target=wait)
    thread.start()
    return thread


def below() -> Iterator[tuple[psutil.Process, str, list[str]]]:
    """The processes below this one that have not ended, with their names and command lines."""
    pids = {child.pid for child in psutil.Process().children(recursive=True)}
    for one in psutil.process_iter(["name", "cmdline"]):
        if one.pid in pids:
            yield one, one.info["name"], one.info["cmdline"] or []


def kill(program: str) -> None:
    """Kills the first process of this name, or module of Python, below this one."""
    for child, name, line in below():
        if name == program or any(part.endswith(f".{program}") for part in line):
            child.kill()
            return


@pytest.mark.parametrize(
    ("program", "text", "reason"),
    [
        pytest.param(program, text, reason, marks=pytest.mark.needs(part), id=program)
        for program, part, text, reason in (
            ("turnserver", "turnserver", "[[calls]]\nrelay = 'core'\n", r"the TURN server"),
            ("janus", "janus", SFU.format(kind="janus"), r"the SFU \(Janus\)"),
            ("rtclab-sfu", "rtclab-sfu", SFU.format(kind="str0m"), r"the SFU \(str0m\)"),
            ("mcu_program", "aiortc", MIXING, r"the MCU \(aiortc\)"),
            ("iperf3", "iperf3", "[traffic.web]\nsender = 'core'\nreceiver = 'bob'\n", r"iperf3"),
        )
    ],
)
def test_a_killed_program_fails_the_repeat_and_is_named(
    tmp_path: Path, program: str, text: str, reason: str
) -> None:
    before = psutil.Process().children(recursive=True)
    killer = while_it_runs(tmp_path, lambda: kill(program))
    run = one_repeat(tmp_path, text)
    killer.join()
    (repeat,) = run.repeats
    assert repeat.status == "failed"
    assert re.search(rf"{reason} .* was killed by SIGKILL", repeat.reason), repeat.reason
    assert psutil.Process().children(recursive=True) == before


def test_full_memory_for_files_fails_the_repeat_and_says_so(tmp_path: Path) -> None:
    seen: dict[str, int] = {}

    def fill() -> None:
        lab = next(
            child.pid
            for child, name, line in below()
            if f"rtclab-lab-of-{os.getpid()}" in line and name != "unshare"
        )
        seen["bytes"] = shutil.disk_usage(f"/proc/{lab}/root/run").total
        enter = ["nsenter", f"--target={lab}", "--user", "--mount", "--preserve-credentials"]
        smaller = "mount -o remount,size=200m /run && head -c 200M /dev/zero > /run/homes/zeros"
        subprocess.run([*enter, "sh", "-c", smaller], check=False)

    filler = while_it_runs(tmp_path, fill)
    (repeat,) = one_repeat(tmp_path).repeats
    filler.join()
    assert seen["bytes"] == pytest.approx(psutil.virtual_memory().total / 4, rel=0.01)
    assert repeat.status == "failed"
    assert "the files of browsers and servers fill /run of the laboratory, 25% of this" in repeat.reason


@pytest.mark.needs("nft", "turnserver")
def test_one_pair_that_cannot_connect_leaves_the_figures_of_the_others(tmp_path: Path) -> None:
    # Two symmetric NATs cannot be punched, and there is no relay.
    nats = "".join(f"[participants.{name}]\nnat = 'symmetric'\n" for name in ("carol", "dave"))
    run = one_repeat(tmp_path, nats, seconds=10)
    (repeat,) = run.repeats
    assert (repeat.status, repeat.note) == ("finished", "carol and dave did not connect within 10 s")
    packets = run.trace(0).table("packets").filter(pl.col("delivered_ns").is_not_null(), kind="video")
    received = dict(packets.group_by("flow").len().iter_rows())
    assert received.keys() == set(run.trace(0).flows) - {"carol->dave", "dave->carol"}
    assert min(received.values()) > 30  # several seconds of video


@pytest.mark.needs("firefox")
def test_a_browser_without_the_codec_fails_the_repeat_and_lists_its_codecs(tmp_path: Path) -> None:
    # The check before the run refuses this combination, so it is left out.
    asked = scenario(tmp_path, "[browser]\nname = 'firefox'\n").model_copy(deep=True)
    assert asked.video is not None
    asked = asked.model_copy(update={"video": asked.video.model_copy(update={"codec": "h264"})})
    (tmp_path / "out").mkdir()
    with pytest.raises(CallFailed, match="this browser has no encoder for h264; it offers VP8"):
        LiveBackend().run(asked, seed=1, repeat=0, out=tmp_path / "out")


def test_too_few_namespaces_are_an_error_that_names_the_limit(tmp_path: Path) -> None:
    scenario(tmp_path)
    (tmp_path / "out").mkdir()
    # One namespace for the lab and one for core; alice and bob get none.
    limited = 'echo 2 > /proc/sys/user/max_net_namespaces && exec "$@"'
    command = [sys.executable, "-c", RUN, str(tmp_path / "faulty.toml"), str(tmp_path / "out")]
    done = subprocess.run(
        ["unshare", "--user", "--map-root-user", "sh", "-c", limited, "sh", *command],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.returncode == 1
    assert "cannot create the network namespace of alice" in done.stderr
    assert "hint: use sysctl to raise user.max_net_namespaces" in done.stderr


def test_without_rights_to_limit_a_browser_the_scenario_is_refused_by_name() -> None:
    check = "import sys; from rtclab.backend.live.lab.cgroups import usable_hierarchy; usable_hierarchy()"
    done = subprocess.run(
        as_ordinary_user([sys.executable, "-c", check]), capture_output=True, text=True, check=False
    )
    assert done.returncode == 1
    assert "host.encoder_capacity" in done.stderr


@pytest.mark.needs("turnserver", "iperf3")
def test_no_program_of_a_call_has_a_socket_outside_the_namespaces(tmp_path: Path) -> None:
    outside: list[str] = []
    inside: set[str] = set()

    def look() -> None:
        host = Path("/proc/self/ns/net").readlink()
        for child in psutil.Process().children(recursive=True):
            try:
                if Path(f"/proc/{child.pid}/ns/net").readlink() != host:
                    inside.add(child.name())
                elif child.net_connections():
                    outside.append(child.name())
            except (psutil.Error, OSError):
                continue  # it has ended

    looker = while_it_runs(tmp_path, look)
    text = "[[calls]]\nrelay = 'core'\n[traffic.web]\nsender = 'core'\nreceiver = 'bob'\n"
    run = one_repeat(tmp_path, text, seconds=8)
    looker.join()
    assert run.repeats[0].status == "finished"
    assert outside == []
    assert {"turnserver", "iperf3", "chromium"} <= inside
