"""Checks whether this machine can run live calls, with hints for missing parts."""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from rtclab.backend.live.browsers.browser_process import POLICIES
from rtclab.backend.live.browsers.launch_options import find_chromium, find_firefox
from rtclab.backend.live.browsers.video_clip import clip_path
from rtclab.backend.live.connections import MIXER, live_connections
from rtclab.backend.live.lab.internet import PROGRAM as NAT_PROGRAM
from rtclab.backend.live.lab.internet import TUN_DEVICE
from rtclab.backend.live.lab.namespaces import check_lab
from rtclab.backend.live.lab.nat import find_nft, nft_rules
from rtclab.backend.live.servers.mcu import LIBRARY, has_library
from rtclab.backend.live.servers.str0m import PROGRAM as SFU_PROGRAM
from rtclab.backend.live.servers.str0m import find_server
from rtclab.errors import BackendUnavailable
from rtclab.scenario import Scenario

SETUP = "`make setup-live` in the repository of rtclab"
PREPARE_CLIP = "`python -m rtclab.backend.live.browsers.video_clip` prepares it"
PYTHON_PACKAGES = {
    "aiohttp": "aiohttp",
    "av": "av",
    "cryptography": "cryptography",
    "psutil": "psutil",
    "pyroute2": "pyroute2",
    "segno": "segno",
    "skvideo": "scikit-video",
}
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


def parts_of(scenario: Scenario) -> list[str]:
    """The parts of this machine that a live call needs, by their names in ``CHECKS``."""
    servers = {one.server for one in live_connections(scenario)}
    browsers = {scenario.browser_of(name).name for name in scenario.participants}
    has_nat = any(participant.nat != "none" for participant in scenario.participants.values())
    relayed = any(call.relay is not None for call in scenario.calls)
    needed = {
        "turnserver": relayed or has_nat or "invited" in browsers,
        "janus": "janus" in servers,
        SFU_PROGRAM: any(server.kind == "str0m" for server in scenario.servers.values()),
        LIBRARY: MIXER in servers,
        "nft": has_nat or scenario.internet,
        NAT_PROGRAM: scenario.internet,
        "firefox": "firefox" in browsers,
    }
    return [*CALL_PARTS, *(part for part, is_needed in needed.items() if is_needed)]


def what_is_missing(parts: Iterable[str]) -> list[MachineCheck]:
    """The failed checks of some parts."""
    return [check for part in parts if not (check := CHECKS[part]()).ok]


def check_command(command: str, package: str, *, only_for: str | None = None) -> MachineCheck:
    """Whether a program of a Debian package is in ``PATH``.

    ``only_for`` names the use of a program that calls do not need.
    """
    found = shutil.which(command)
    return _check(command, found is not None, found or "not found in PATH", from_debian(package), only_for)


def _check(name: str, ok: bool, detail: str, hint: str, only_for: str | None = None) -> MachineCheck:
    """A check whose detail says what a part is for that not every call needs."""
    if only_for is not None:
        detail += f" (only for {only_for})"
    return MachineCheck(name, ok, detail, hint, required=only_for is None)


def from_debian(package: str) -> str:
    """The hint about a missing Debian package."""
    return f"apt-get install {package}, or {SETUP}"


def from_pip(packages: Sequence[str]) -> str:
    """The hint about missing Python packages."""
    return f"pip install {' '.join(packages)}, or {SETUP}"


def check_forwarding_server() -> MachineCheck:
    """Whether rtclab's own SFU is installed."""
    found, hint = find_server(), f"install a wheel of rtclab for Linux, or {SETUP}"
    return _check(SFU_PROGRAM, found is not None, str(found or "not found"), hint, "SFUs of kind str0m")


def check_mixer() -> MachineCheck:
    """Whether the library of the MCU that mixes is installed."""
    detail = "installed" if has_library() else "not installed"
    return _check(LIBRARY, has_library(), detail, from_pip([LIBRARY]), "MCUs that mix")


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


def check_browser(
    name: str, executable: str | None, package: str, *, only_for: str | None = None
) -> MachineCheck:
    """Whether a browser is installed and starts, and its version."""
    hint = from_debian(package)
    if executable is None:
        return _check(name, False, "not found in PATH", hint, only_for)
    ok, said = probe([executable, "--version"])
    return _check(name, ok, f"{said} ({executable})" if ok else said, hint, only_for)


def check_plain_http() -> MachineCheck:
    """Whether Chromium can be allowed to open nodes with names such as ``app`` without TLS."""
    browser = "google-chrome" if "google-chrome" in (find_chromium() or "") else "chromium"
    place, only_for = POLICIES[browser], "`page`s of your own and WHIP, if a node is called `app` or `dev`"
    detail = f"{place}{'' if place.is_dir() else ' is no directory'}"
    hint = f"as root: mkdir -p {place}; or give the node another name"
    return _check("plain HTTP", place.is_dir(), detail, hint, only_for)


def check_nft() -> MachineCheck:
    """Whether nftables make a NAT inside an unprivileged user namespace."""
    nft, only_for = find_nft(), "`nat` and `internet`"
    if nft is None:
        return _check("nft", False, "not found", from_debian("nftables"), only_for)
    ok, said = probe(["unshare", "--user", "--map-root-user", "--net", nft, nft_rules("symmetric")])
    hint = "use a kernel with CONFIG_NF_TABLES, CONFIG_NFT_NAT and CONFIG_NFT_MASQ"
    return _check("nft", ok, nft if ok else said, hint, only_for)


def check_internet() -> MachineCheck:
    """Whether the program that connects live calls with hosts outside is installed and may do so."""
    only_for = "`internet = true`"
    check = check_command(NAT_PROGRAM, NAT_PROGRAM, only_for=only_for)
    if not check.ok or os.access(TUN_DEVICE, os.R_OK | os.W_OK):
        return check
    hint = f"as root: chmod 0666 {TUN_DEVICE}"
    return _check(NAT_PROGRAM, False, f"{TUN_DEVICE} cannot be read and written", hint, only_for)


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
    hint = "use two cores for two participants, and half a core for each further one"
    return MachineCheck("cores", cores >= 2, str(cores), hint)


def check_memory() -> MachineCheck:
    """Whether there is enough memory for two browsers."""
    size_bytes = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    enough = size_bytes >= MIN_MEMORY_BYTES
    return MachineCheck("memory", enough, f"{size_bytes / 1e9:.1f} GB", "use 2 GB for two participants")


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
    "chromium": lambda: check_browser("chromium", find_chromium(), "chromium"),
    "plain HTTP": check_plain_http,
    "firefox": lambda: check_browser(
        "firefox", find_firefox(), "firefox-esr", only_for='`browser.name = "firefox"`'
    ),
    "iperf3": lambda: check_command(
        "iperf3",
        "iperf3",
        only_for="cross traffic, `rtclab validate tcp` and examples of `rtclab link`",
    ),
    "turnserver": lambda: check_command("turnserver", "coturn", only_for="calls over a relay or with a NAT"),
    "janus": lambda: check_command("janus", "janus", only_for="calls over the SFU `janus`"),
    SFU_PROGRAM: check_forwarding_server,
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
