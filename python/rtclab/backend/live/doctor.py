"""What this machine can do, and what to do about what is missing."""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass

from rtclab.backend.live.clip import clip_path
from rtclab.backend.live.namespaces import check_lab
from rtclab.errors import BackendUnavailable

SETUP = "make setup-live"
PYTHON_PACKAGES = {
    "aiohttp": "aiohttp",
    "av": "av",
    "psutil": "psutil",
    "pyroute2": "pyroute2",
    "skvideo": "scikit-video",
}
CHROMIUM_NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
NO_RELAY = "live calls have no relay yet, simulated ones need none"
FIREFOX_HINT = "apt-get install firefox-esr; live calls are between Chromiums all the same"
MIN_MEMORY_BYTES = 2_000_000_000
PROBE_TIMEOUT_S = 20


@dataclass(frozen=True)
class Check:
    """One thing that was looked at."""

    name: str
    ok: bool
    detail: str
    hint: str = ""
    """What to do if it is not ok."""
    required: bool = True
    """Whether a two-party live call needs it."""


def doctor() -> list[Check]:
    """Looks at everything that live runs need; starts a few short processes, changes nothing."""
    return [
        check_command("unshare", "util-linux"),
        check_command("nsenter", "util-linux"),
        check_user_namespaces(),
        check_packet_sockets(),
        check_browser("chromium", find_chromium(), f"{SETUP}, or apt-get install chromium"),
        check_browser("firefox", find_firefox(), FIREFOX_HINT, required=False),
        check_command("iperf3", "iperf3", required=False),
        check_command("tshark", "tshark", required=False),
        check_command("turnserver", "coturn", NO_RELAY, required=False),
        check_python_packages(),
        check_clip(),
        check_cores(),
        check_memory(),
    ]


def what_is_missing() -> list[Check]:
    """The failed ones among the checks without which no live call can run; quicker than :func:`doctor`."""
    checks = [
        check_python_packages(),
        check_command("unshare", "util-linux"),
        check_command("nsenter", "util-linux"),
        check_user_namespaces(),
        check_browser("chromium", find_chromium(), f"{SETUP}, or apt-get install chromium"),
    ]
    return [check for check in checks if not check.ok]


def find_chromium() -> str | None:
    """Path of the first Chromium in ``PATH``, None if there is none."""
    return next(filter(None, map(shutil.which, CHROMIUM_NAMES)), None)


def find_firefox() -> str | None:
    """Path of Firefox in ``PATH``, None if it is not there."""
    return shutil.which("firefox-esr") or shutil.which("firefox")


def check_command(command: str, package: str, remark: str = "", *, required: bool = True) -> Check:
    """Whether a program of a Debian package is in ``PATH``; ``remark`` if `make setup-live` leaves it out."""
    found = shutil.which(command)
    install = f"apt-get install {package}"
    hint = f"{install}; {remark}" if remark else f"{SETUP}, or {install}"
    return Check(command, found is not None, found or "not found in PATH", hint, required)


def check_user_namespaces() -> Check:
    """Whether an ordinary user may make namespaces here."""
    try:
        check_lab()
    except BackendUnavailable as error:
        return Check("user namespaces", False, error.message, error.hint or "")
    return Check("user namespaces", True, "usable")


def check_packet_sockets() -> Check:
    """Whether AF_PACKET sockets open inside an unprivileged user namespace."""
    open_socket = "import socket; socket.socket(socket.AF_PACKET, socket.SOCK_RAW)"
    ok, said = probe(["unshare", "--user", "--map-root-user", "--net", sys.executable, "-c", open_socket])
    hint = "a kernel with CONFIG_PACKET; in a container, allow packet sockets"
    return Check("packet sockets", ok, "usable" if ok else said, hint)


def check_browser(name: str, executable: str | None, hint: str, *, required: bool = True) -> Check:
    """Whether a browser is there and runs, and its version."""
    if executable is None:
        return Check(name, False, "not found in PATH", hint, required)
    ok, said = probe([executable, "--version"])
    return Check(name, ok, f"{said} ({executable})" if ok else said, hint, required)


def check_python_packages() -> Check:
    """Whether the Python packages of the extra ``live`` are installed."""
    missing = missing_python_packages()
    detail = f"missing: {', '.join(missing)}" if missing else ", ".join(PYTHON_PACKAGES.values())
    return Check("python packages", not missing, detail, f"{SETUP}, or pip install 'rtclab[live]'")


def missing_python_packages() -> list[str]:
    """Distribution names of the extra ``live`` that cannot be imported."""
    return [name for module, name in PYTHON_PACKAGES.items() if importlib.util.find_spec(module) is None]


def check_clip() -> Check:
    """Whether the clip of the default size is prepared; a run prepares what it lacks."""
    path = clip_path(640, 480, 30)
    detail = str(path) if path.exists() else "not prepared; the first live run does it"
    return Check("video clip", path.exists(), detail, SETUP, required=False)


def check_cores() -> Check:
    """Whether two encoding browsers and the emulator have a core each to themselves, roughly."""
    cores = len(os.sched_getaffinity(0))
    return Check(
        "cores",
        cores >= 2,
        str(cores),
        "two cores for two participants, then half a core for each further one",
    )


def check_memory() -> Check:
    """Whether two browsers fit into memory."""
    size_bytes = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return Check(
        "memory", size_bytes >= MIN_MEMORY_BYTES, f"{size_bytes / 1e9:.1f} GB", "2 GB for two participants"
    )


def probe(command: list[str]) -> tuple[bool, str]:
    """Runs a short command: whether it succeeded, and the last line it said."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=PROBE_TIMEOUT_S, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        return False, str(error)
    lines = (done.stdout if done.returncode == 0 else done.stderr).strip().splitlines()
    return done.returncode == 0, lines[-1].strip() if lines else f"exit status {done.returncode}"
