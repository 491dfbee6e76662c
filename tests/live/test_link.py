"""`rtclab link`: what the command sees, and that no process remains."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from uuid import uuid4

import pytest
from live_tests import as_ordinary_user
from parts import LAB

from rtclab.backend.live.lab.link import CommandNotFound, link_network, run_link, start_emulator
from rtclab.backend.live.lab.namespaces import EMULATOR_THREAD, LabError, run_in_lab

pytestmark = [pytest.mark.live, pytest.mark.needs(*LAB)]

PATIENCE_S = 60
"""How long a test waits for what must happen, even on a busy machine."""
PATH = {"name": "", "delay": {"kind": "constant", "ns": 25_000_000}}
RUN_LINK = """
import json, pathlib, sys
from rtclab.backend.live.lab.link import run_link, summary_text
options = json.loads(sys.argv[1])
if "pcap" in options:
    options["pcap"] = pathlib.Path(options["pcap"])
result = run_link(options["path"], options.pop("path"), sys.argv[2:], **options)
if "directions" in result:
    print(summary_text(result), file=sys.stderr)
sys.exit(result["status"])
"""


def link(*command: str, **options: object) -> list[str]:
    return [sys.executable, "-c", RUN_LINK, json.dumps({"path": PATH, **options}), *command]


def finish(command: list[str], **more: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S, check=False, **more)


def processes_with(marker: str) -> dict[int, str]:
    """Command lines that contain a text, by process id, without the test's own."""
    found = {}
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            line = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            continue
        if marker in line and int(entry.name) != os.getpid():
            found[int(entry.name)] = line
    return found


def wait_for(condition) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < deadline, f"not within {PATIENCE_S} s"
        time.sleep(0.02)


@pytest.mark.needs("ping")
def test_an_ordinary_user_pings_through_the_link() -> None:
    done = finish(as_ordinary_user(link("sh", "-c", "ping -c 3 -i 0.1 $RTCLAB_SERVER")), cwd="/")
    assert done.returncode == 0, done.stderr
    assert "3 received, 0% packet loss" in done.stdout
    told = "3 packets went in: 3 arrived, 0 dropped in the queue, 0 lost; "
    assert f"rtclab link: up: {told}" in done.stderr
    assert f"rtclab link: down: {told}" in done.stderr


@pytest.mark.needs("ping")
def test_pings_are_lost_where_the_trace_says() -> None:
    # There, three of five arrive. On the way back the fourth and fifth of those are lost, and the ninth.
    path = {"name": "", "loss_trace": {"runs": [3, 2], "start": "beginning"}}
    done = finish(link("sh", "-c", "ping -c 15 -i 0.05 -W 1 $RTCLAB_SERVER", path=path))
    assert re.findall(r"icmp_seq=(\d+)", done.stdout) == ["1", "2", "3", "8", "11", "12"], done.stderr


def test_the_status_of_the_command_is_passed_on() -> None:
    assert finish(link("sh", "-c", "exit 7")).returncode == 7
    assert finish(link("sh", "-c", "kill -TERM $$")).returncode == 128 + signal.SIGTERM


def test_standard_input_and_output_pass_through() -> None:
    done = finish(link("cat"), input="a line\n")
    assert done.stdout == "a line\n"
    up, down, lateness = done.stderr.splitlines()
    assert (up, down) == ("rtclab link: up: no packets", "rtclab link: down: no packets")
    assert lateness.startswith("rtclab link: the emulator forwarded nothing: ")
    assert "RTCLAB_SERVER" in lateness


@pytest.mark.needs("ping")
def test_the_summary_as_json_has_standard_output_to_itself() -> None:
    path = ["--up", "delay 25 ms", "--down", "delay 25 ms"]
    ping = ["sh", "-c", "ping -c 3 -i 0.1 $RTCLAB_SERVER; exit 7"]
    done = finish([sys.executable, "-m", "rtclab", "link", *path, "--json", "--", *ping])
    result = json.loads(done.stdout)
    assert (done.returncode, result["status"]) == (7, 7)
    up = result["directions"]["up"]
    assert (up["packets"], up["delivered"], up["on_the_way"]) == (3, 3, 0)
    # ping sends 56 bytes in addition to 8 of ICMP and 20 of IPv4. It is no UDP, and each packet takes 25 ms.
    assert (up["bytes"], up["protocols"].keys()) == (3 * 84, {"other"})
    assert up["delay_p50_ms"] == up["delay_p95_ms"] == 25.0
    assert "3 received" in done.stderr


def test_a_missing_command_ends_with_status_127() -> None:
    with pytest.raises(CommandNotFound, match="`no-such-program` was not found") as caught:
        run_link(PATH, PATH, ["no-such-program"])
    assert caught.value.exit_status == 127
    with pytest.raises(CommandNotFound, match="`no-such-server` was not found"):
        run_link(PATH, PATH, ["true"], server="no-such-server -s")


def test_a_server_is_reached_through_the_link() -> None:
    server = f"{sys.executable} -m http.server --bind 10.77.0.1 8000 --directory {Path(__file__).parent}"
    fetch = "import urllib.request as r; print(r.urlopen('http://10.77.0.1:8000/').read().decode())"
    done = finish(link(sys.executable, "-c", fetch, server=server))
    assert Path(__file__).name in done.stdout


def test_a_server_that_ends_at_once_is_an_error() -> None:
    done = finish(link("true", server="false"))
    assert done.returncode == 1
    assert "server `false` ended with exit status 1 before it listened" in done.stderr


def test_ctrl_c_goes_to_the_command() -> None:
    program = "trap 'exit 9' INT; echo ready; while true; do sleep 0.05; done"
    with subprocess.Popen(
        link("sh", "-c", program), stdout=subprocess.PIPE, start_new_session=True
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        os.killpg(process.pid, signal.SIGINT)
        assert process.wait(PATIENCE_S) == 9


def test_ctrl_c_before_the_command_begins_ends_the_link() -> None:
    command = link("sleep", "3000")
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, start_new_session=True) as process:
        wait_for(lambda: processes_with(f"rtclab-lab-of-{process.pid}"))
        os.killpg(process.pid, signal.SIGINT)
        _, said = process.communicate(timeout=PATIENCE_S)
    # If the command had already begun on a slow machine, Ctrl-C ended it with the same status.
    assert process.returncode == 128 + signal.SIGINT
    assert "Traceback" not in said


def test_a_capture_that_cannot_be_written_is_named() -> None:
    with pytest.raises(LabError, match=r"^capture file /proc/x/link.pcapng: No such file"):
        run_link(PATH, PATH, ["true"], pcap=Path("/proc/x/link.pcapng"))


@pytest.mark.needs("ping")
def test_a_full_disk_ends_the_link_and_names_the_file() -> None:
    # A capture of a few hundred packets fills the writer's buffer.
    done = finish(link("ping", "-c", "2000", "-i", "0.002", "10.77.0.1", pcap="/dev/full"))
    assert done.returncode == 1
    assert "capture file /dev/full: No space left on device" in done.stderr


@pytest.mark.needs("ping", "tshark")
def test_the_capture_has_the_packets_of_both_ends(tmp_path: Path) -> None:
    file = tmp_path / "link.pcapng"
    finish(link("ping", "-c", "3", "-i", "0.1", "10.77.0.1", pcap=str(file)))
    fields = ["-T", "fields", "-e", "frame.interface_name", "-e", "icmp.type"]
    done = finish(["tshark", "-r", str(file), "-Y", "icmp", *fields])
    lines = sorted(done.stdout.splitlines())
    # Requests (8) enter at the client's port and leave at the core's; replies (0) go back.
    assert lines == sorted(["client\t8", "core\t8", "core\t0", "client\t0"] * 3)


@pytest.mark.parametrize("victim", ["link itself", "unshare", "first process of the lab"])
def test_nothing_remains_after_kill_9_of(victim: str) -> None:
    marker = f"marker-{uuid4()}"
    # Shells with the marker in their command lines; one of their children is in its own session.
    server = f"sh -c 'sleep 3000; exit' {marker}"
    command = link("sh", "-c", "setsid sleep 1000 & echo; wait", marker, server=server)
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as process:
        assert process.stdout is not None
        process.stdout.readline()
        lab = f"rtclab-lab-of-{process.pid}"
        wait_for(lambda: len(processes_with(lab)) >= 2 and len(processes_with(marker)) >= 3)
        targets = {"link itself": process.pid}
        for pid, line in processes_with(lab).items():
            targets["unshare" if line.startswith("unshare") else "first process of the lab"] = pid
        os.kill(targets[victim], signal.SIGKILL)
        wait_for(lambda: not processes_with(lab) and set(processes_with(marker)) <= {process.pid})
        process.kill()
    assert not processes_with(marker)


def realtime_threads() -> set[str]:
    """Names of this process's threads that have real-time priority."""
    found = set()
    for task in Path("/proc/self/task").iterdir():
        with contextlib.suppress(OSError):  # the thread has ended meanwhile
            if os.sched_getscheduler(int(task.name)) != os.SCHED_OTHER:
                found.add((task / "comm").read_text().strip())
    return found


def realtime_threads_of_the_lab(argument: dict[str, float], _emit: object) -> list[str]:
    """The lab's threads with real-time priority, as soon as there is one or after a while."""
    emulator = start_emulator(link_network(PATH, PATH, seed=1))
    deadline = time.monotonic() + argument["patience_s"]
    while not (found := realtime_threads()) and time.monotonic() < deadline:
        time.sleep(0.01)
    emulator.stop()
    return sorted(found)


def test_the_emulator_alone_has_real_time_priority_if_the_caller_may_give_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parent), prepend=":")
    tried = subprocess.run(["chrt", "--fifo", "1", "true"], capture_output=True, check=False)
    may = tried.returncode == 0
    found = run_in_lab("test_link:realtime_threads_of_the_lab", {"patience_s": PATIENCE_S if may else 1})
    assert found == ([EMULATOR_THREAD] if may else [])


def test_errors_and_events_come_out_of_the_lab() -> None:
    events: list[dict[str, object]] = []
    with pytest.raises(LabError, match="No module named 'no_such_module'") as caught:
        run_in_lab("no_such_module:function", {}, on_event=events.append)
    assert caught.value.kind == "ModuleNotFoundError"
    assert "Traceback" in caught.value.__notes__[0]
