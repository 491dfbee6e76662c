"""Checks whether this machine can run live calls, with hints for missing parts."""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from rtclab.backend.live.browser import POLICIES
from rtclab.backend.live.clip import clip_path
from rtclab.backend.live.firefox import FIREFOX_NAMES
from rtclab.backend.live.internet import PROGRAM as NAT_PROGRAM
from rtclab.backend.live.internet import TUN_DEVICE
from rtclab.backend.live.mcu import LIBRARY, has_library
from rtclab.backend.live.namespaces import check_lab
from rtclab.backend.live.nat import find_nft, nft_rules
from rtclab.backend.live.str0m import PROGRAM, find_server
from rtclab.errors import BackendUnavailable

SETUP = "`make setup-live` in the repository of rtclab"
PREPARE_CLIP = "`python -m rtclab.backend.live.clip` prepares it"
PYTHON_PACKAGES = {
    "aiohttp": "aiohttp",
    "av": "av",
    "cryptography": "cryptography",
    "psutil": "psutil",
    "pyroute2": "pyroute2",
    "segno": "segno",
    "skvideo": "scikit-video",
}
CHROMIUM_NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
MIN_MEMORY_BYTES = 2_000_000_000
PROBE_TIMEOUT_S = 20


@dataclass(frozen=True)
class MachineCheck:
    """The result of one check."""

    name: str
    ok: bool
    detail: str
    hint: str = ""
    """What to do if it is not ok."""
    required: bool = True
    """Whether a two-party live call needs it."""


def doctor() -> list[MachineCheck]:
    """Checks everything that live calls use. It starts a few short processes and changes nothing."""
    return [check() for check in CHECKS.values()]


def what_is_missing(
    *,
    turn: bool = False,
    janus: bool = False,
    str0m: bool = False,
    mixer: bool = False,
    nat: bool = False,
    internet: bool = False,
    firefox: bool = False,
) -> list[MachineCheck]:
    """The failed checks among the needs of a live call. It is faster than :func:`doctor`.

    Args:
        turn: the call needs a TURN or STUN server.
        janus: the call needs the SFU Janus.
        str0m: the call needs rtclab's own SFU.
        mixer: the call needs the MCU that mixes.
        nat: participants are behind a NAT.
        internet: browsers and servers reach hosts outside.
        firefox: participants use Firefox.
    """
    parts = [
        *CALL_PARTS,
        *(["turnserver"] if turn else []),
        *(["janus"] if janus else []),
        *([PROGRAM] if str0m else []),
        *([LIBRARY] if mixer else []),
        *(["nft"] if nat or internet else []),
        *([NAT_PROGRAM] if internet else []),
        *(["firefox"] if firefox else []),
    ]
    return [check for part in parts if not (check := CHECKS[part]()).ok]


def find_chromium() -> str | None:
    """Path of the first Chromium in ``PATH``, None if there is none."""
    return next(filter(None, map(shutil.which, CHROMIUM_NAMES)), None)


def find_firefox() -> str | None:
    """Path of the first Firefox in ``PATH``, None if there is none."""
    return next(filter(None, map(shutil.which, FIREFOX_NAMES)), None)


def check_command(command: str, package: str, *, only_for: str | None = None) -> MachineCheck:
    """Whether a program of a Debian package is in ``PATH``.

    ``only_for`` names the use of a program that calls do not need.
    """
    found = shutil.which(command)
    detail = found or "not found in PATH"
    if only_for is not None:
        detail += f" (only for {only_for})"
    return MachineCheck(command, found is not None, detail, from_debian(package), required=only_for is None)


def from_debian(package: str) -> str:
    """The hint about a missing Debian package."""
    return f"apt-get install {package}, or {SETUP}"


def check_forwarding_server() -> MachineCheck:
    """Whether rtclab's own SFU is installed."""
    found = find_server()
    detail = f"{found or 'not found'} (only for SFUs of kind str0m)"
    hint = f"install a wheel of rtclab for Linux, or {SETUP}"
    return MachineCheck(PROGRAM, found is not None, detail, hint, required=False)


def check_mixer() -> MachineCheck:
    """Whether the library of the MCU that mixes is installed."""
    detail = f"{'installed' if has_library() else 'not installed'} (only for MCUs that mix)"
    return MachineCheck(LIBRARY, has_library(), detail, from_pip([LIBRARY]), required=False)


def from_pip(packages: Sequence[str]) -> str:
    """The hint about missing Python packages."""
    return f"pip install {' '.join(packages)}, or {SETUP}"


def check_user_namespaces() -> MachineCheck:
    """Whether an unprivileged user may create namespaces here."""
    try:
        check_lab()
    except BackendUnavailable as error:
        return MachineCheck("user namespaces", False, error.message, error.hint or "")
    return MachineCheck("user namespaces", True, "usable")


def check_packet_sockets() -> MachineCheck:
    """Whether AF_PACKET sockets open inside an unprivileged user namespace."""
    open_socket = "import socket; socket.socket(socket.AF_PACKET, socket.SOCK_RAW)"
    ok, said = probe(["unshare", "--user", "--map-root-user", "--net", sys.executable, "-c", open_socket])
    hint = "use a kernel with CONFIG_PACKET; in a container, allow packet sockets"
    return MachineCheck("packet sockets", ok, "usable" if ok else said, hint)


def check_chromium() -> MachineCheck:
    """Whether Chromium is installed and starts, and its version."""
    executable, hint = find_chromium(), from_debian("chromium")
    if executable is None:
        return MachineCheck("chromium", False, "not found in PATH", hint)
    ok, said = probe([executable, "--version"])
    return MachineCheck("chromium", ok, f"{said} ({executable})" if ok else said, hint)


def check_plain_http() -> MachineCheck:
    """Whether Chromium can be allowed to open nodes with names such as ``app`` without TLS."""
    browser = "google-chrome" if "google-chrome" in (find_chromium() or "") else "chromium"
    place, only_for = POLICIES[browser], "`page`s of your own and WHIP, if a node is called `app` or `dev`"
    detail = f"{place}{'' if place.is_dir() else ' is no directory'} (only for {only_for})"
    hint = f"as root: mkdir -p {place}; or give the node another name"
    return MachineCheck("plain HTTP", place.is_dir(), detail, hint, required=False)


def check_iperf3() -> MachineCheck:
    """Whether the program that makes cross traffic is installed."""
    only_for = "cross traffic, `rtclab validate tcp` and examples of `rtclab link`"
    return check_command("iperf3", "iperf3", only_for=only_for)


def check_turn() -> MachineCheck:
    """Whether the TURN server is installed."""
    return check_command("turnserver", "coturn", only_for="calls over a relay or with a NAT")


def check_janus() -> MachineCheck:
    """Whether the SFU is installed."""
    return check_command("janus", "janus", only_for="calls over the SFU `janus`")


def check_nft() -> MachineCheck:
    """Whether nftables make a NAT inside an unprivileged user namespace."""
    nft, only_for = find_nft(), "`nat` and `internet`"
    if nft is None:
        detail = f"not found (only for {only_for})"
        return MachineCheck("nft", False, detail, from_debian("nftables"), required=False)
    rules = nft_rules("symmetric")
    ok, said = probe(["unshare", "--user", "--map-root-user", "--net", nft, rules])
    hint = "use a kernel with CONFIG_NF_TABLES, CONFIG_NFT_NAT and CONFIG_NFT_MASQ"
    return MachineCheck("nft", ok, f"{nft if ok else said} (only for {only_for})", hint, required=False)


def check_internet() -> MachineCheck:
    """Whether the program that connects live calls with hosts outside is installed and may do so."""
    check = check_command(NAT_PROGRAM, NAT_PROGRAM, only_for="`internet = true`")
    if not check.ok or os.access(TUN_DEVICE, os.R_OK | os.W_OK):
        return check
    detail = f"{TUN_DEVICE} cannot be read and written (only for `internet = true`)"
    return MachineCheck(NAT_PROGRAM, False, detail, f"as root: chmod 0666 {TUN_DEVICE}", required=False)


def check_firefox() -> MachineCheck:
    """Whether Firefox is installed and starts, and its version. Only participants that ask for it need it."""
    executable, hint = find_firefox(), from_debian("firefox-esr")
    only_for = '(only for `browser.name = "firefox"`)'
    if executable is None:
        return MachineCheck("firefox", False, f"not found in PATH {only_for}", hint, required=False)
    ok, said = probe([executable, "--version"])
    detail = f"{said} ({executable}) {only_for}" if ok else said
    return MachineCheck("firefox", ok, detail, hint, required=False)


def check_python_packages() -> MachineCheck:
    """Whether the Python packages of the extra ``live`` are installed."""
    missing = missing_python_packages()
    detail = f"missing: {', '.join(missing)}" if missing else ", ".join(PYTHON_PACKAGES.values())
    return MachineCheck("python packages", not missing, detail, from_pip(missing))


def missing_python_packages() -> list[str]:
    """Distribution names of the extra ``live`` that cannot be imported."""
    return [name for module, name in PYTHON_PACKAGES.items() if importlib.util.find_spec(module) is None]


def check_clip() -> MachineCheck:
    """Whether the clip of the default size exists. Runs prepare the clips that they need."""
    path = clip_path(640, 480, 30)
    detail = str(path) if path.exists() else "not prepared yet; the first live run prepares it"
    return MachineCheck("video clip", path.exists(), detail, PREPARE_CLIP, required=False)


def check_cores() -> MachineCheck:
    """Whether there are enough cores for two encoding browsers and the emulator."""
    cores = len(os.sched_getaffinity(0))
    return MachineCheck(
        "cores",
        cores >= 2,
        str(cores),
        "use two cores for two participants, and half a core for each further one",
    )


def check_memory() -> MachineCheck:
    """Whether there is enough memory for two browsers."""
    size_bytes = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return MachineCheck(
        "memory",
        size_bytes >= MIN_MEMORY_BYTES,
        f"{size_bytes / 1e9:.1f} GB",
        "use 2 GB for two participants",
    )


def probe(command: list[str]) -> tuple[bool, str]:
    """Runs a short command and returns whether it succeeded, and its last line of output."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=PROBE_TIMEOUT_S, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        return False, str(error)
    lines = (done.stdout if done.returncode == 0 else done.stderr).strip().splitlines()
    return done.returncode == 0, lines[-1].strip() if lines else f"exit status {done.returncode}"


CHECKS: dict[str, Callable[[], MachineCheck]] = {
    "unshare": lambda: check_command("unshare", "util-linux"),
    "nsenter": lambda: check_command("nsenter", "util-linux"),
    "user namespaces": check_user_namespaces,
    "packet sockets": check_packet_sockets,
    "chromium": check_chromium,
    "plain HTTP": check_plain_http,
    "firefox": check_firefox,
    "iperf3": check_iperf3,
    "turnserver": check_turn,
    "janus": check_janus,
    PROGRAM: check_forwarding_server,
    LIBRARY: check_mixer,
    "nft": check_nft,
    NAT_PROGRAM: check_internet,
    "tshark": lambda: check_command("tshark", "tshark", only_for="the tests of rtclab"),
    "python packages": check_python_packages,
    "video clip": check_clip,
    "cores": check_cores,
    "memory": check_memory,
}
"""The check of each part by its name, in the order in which :func:`doctor` shows them."""

CALL_PARTS = ("python packages", "unshare", "nsenter", "user namespaces", "chromium")
"""The parts without which no live call begins."""
