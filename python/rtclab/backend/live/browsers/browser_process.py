"""Starts, watches, measures and stops headless browsers. They need no driver: the page joins by itself."""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from pathlib import Path

from rtclab.backend.live.lab.process import Process, Spawn
from rtclab.scenario import Browser

with suppress(ModuleNotFoundError):  # `rtclab doctor` works without it
    import psutil

MIN_SHARED_MEMORY_BYTES = 256_000_000

CHROMIUM_FLAGS = (
    "--headless",
    "--no-sandbox",  # the sandbox's namespaces cannot be nested in the lab's
    "--disable-gpu",
    "--disable-quic",
    "--no-proxy-server",
    "--no-first-run",
    "--no-default-browser-check",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-domain-reliability",
    "--disable-sync",
    "--disable-extensions",
    "--disable-breakpad",
    "--disable-background-timer-throttling",
    "--disable-renderer-backgrounding",
    "--disable-backgrounding-occluded-windows",
    "--mute-audio",
    "--password-store=basic",
    "--autoplay-policy=no-user-gesture-required",
    "--use-fake-ui-for-media-stream",
    "--use-fake-device-for-media-stream",
    # Nothing may use the network but the page: no check of accounts and no search for updates.
    "--gaia-url=http://127.0.0.1:9",
    "--component-updater=url-source=http://127.0.0.1:9/",
    # The first feature makes host candidates .local names, which need multicast DNS. The second starts a
    # renderer process that nothing uses. The others ask servers of Google for the time and for models.
    "--disable-features=WebRtcHideLocalIpsWithMdns,SpareRendererForSitePerProcess,"
    "NetworkTimeServiceQuerying,OptimizationHints",
)

NO_ENCRYPTION = "--disable-webrtc-encryption"
"""Switches off DTLS-SRTP. Release builds of Google Chrome ignore it; other builds of Chromium obey.

Source: Chromium, chrome/browser/chrome_content_browser_client.cc, which hands it to renderers in channels up
to ``dev`` and in builds without a channel."""


POLICIES = {"chromium": Path("/etc/chromium"), "google-chrome": Path("/etc/opt/chrome")}
"""Where Chromium and Google Chrome look for the machine's policies, in ``policies/managed``.

The kernel lets no ordinary user make such a directory, not even in a lab. ``rtclab doctor`` says if there is
none."""


def allow_plain_http(names: Iterable[str], scratch: Path) -> None:
    """Lets browsers open ``http://NAME``. Call it inside a lab, which has mounts of its own.

    Some names, such as ``app`` and ``dev``, are top-level domains for which browsers have been built to use
    HTTPS only. Chromium's policy ``HSTSPolicyBypassList`` makes exceptions; Firefox has a preference.
    """
    policy = json.dumps({"HSTSPolicyBypassList": list(names)})
    for place in POLICIES.values():
        if not place.is_dir():
            continue
        copy = Path(shutil.copytree(place, scratch / place.name))
        managed = copy / "policies" / "managed"
        managed.mkdir(parents=True, exist_ok=True)
        (managed / "rtclab.json").write_text(policy)
        subprocess.run(["mount", "--bind", str(copy), str(place)], check=True)


class BrowserProcess:
    """One Chromium.

    Args:
        participant: name of the participant.
        spawn: starts a command in the participant's namespace.
        home: directory for the profile. It must not exist; the caller deletes it.
        on_exit: called once, with the reason, if the browser ends before it is stopped.
    """

    def __init__(self, participant: str, spawn: Spawn, home: Path, on_exit: Callable[[str], None]) -> None:
        self.participant = participant
        self._home = home
        self._process = Process(f"the browser of {participant}", spawn, home, on_exit)

    def start(
        self,
        executable: str,
        url: str,
        clip: str | None,
        options: Browser,
        sound: str | None = None,
        *,
        driven: bool = False,
        arguments: Sequence[str] = (),
    ) -> None:
        """Starts the browser with a page. The page reports when ready.

        Args:
            executable: path of the browser.
            url: address of the page.
            clip: file that the browser uses as camera, None for a fake one.
            options: the scenario's options.
            sound: file that the browser uses as microphone, None for a fake one.
            driven: whether the browser opens its DevTools, at a loopback port that it chooses.
            arguments: further arguments of the command line.
        """
        self.event_logs.mkdir(parents=True)
        command = self._command(executable, clip, sound, options)
        if driven:
            command.append("--remote-debugging-port=0")
        self._process.start([*command, *arguments, url], self._environment())

    def _command(self, executable: str, clip: str | None, sound: str | None, options: Browser) -> list[str]:
        """The command line without the address of the page."""
        command = [executable, *CHROMIUM_FLAGS, f"--user-data-dir={self.profile}"]
        command.append(f"--webrtc-event-logging={self.event_logs}")
        if options.field_trials:
            command.append(f"--force-fieldtrials={options.field_trials}")
        if not options.encryption:
            command.append(NO_ENCRYPTION)
        command += options.args
        if clip is not None:
            command.append(f"--use-file-for-fake-video-capture={clip}")
        if sound is not None:
            command.append(f"--use-file-for-fake-audio-capture={sound}")
        if shutil.disk_usage("/dev/shm").total < MIN_SHARED_MEMORY_BYTES:
            command.append("--disable-dev-shm-usage")
        return command

    def _environment(self) -> dict[str, str]:
        """The browser's environment variables, in addition to the variables of every program."""
        # It must not use the session bus of the desktop.
        return {"DBUS_SESSION_BUS_ADDRESS": "disabled:"}

    @property
    def profile(self) -> Path:
        """Directory of the browser's profile."""
        return self._home / "profile"

    @property
    def event_logs(self) -> Path:
        """Directory in which Chromium keeps one RTC event log per connection. Firefox has no such logs."""
        return self._home / "event-logs"

    def open_logs(self) -> list[Path]:
        """The event logs to which the browser writes. It closes the log of a connection that ends."""
        files = [Path(path) for process in self.processes() for path in open_files(process)]
        return [file for file in files if file.parent == self.event_logs]

    async def stop(self) -> None:
        """Kills the browser. Nothing that it would save as it exits is wanted."""
        await self._process.stop(signal.SIGKILL)

    def processes(self) -> list[psutil.Process]:
        """All processes of the browser."""
        return self._process.tree()

    def last_words(self) -> str:
        """The last lines that the browser wrote, to append to a reason."""
        return self._process.last_words()


def open_files(process: psutil.Process) -> list[str]:
    """Paths of the files that a process has open; none if it has ended."""
    try:
        return [file.path for file in process.open_files()]
    except psutil.Error:
        return []


class LoadMeter:
    """Measures CPU time and memory of a browser or a server, summed over its ``processes``."""

    def __init__(self, processes: Callable[[], list[psutil.Process]]) -> None:
        self._processes = processes
        self._read_at_s: float | None = None
        self._cpu_s: dict[int, float] = {}

    def read(self) -> tuple[float, int] | None:
        """CPU use since the last reading, in per cent of one core, and memory in bytes; None the first time.

        Memory shared by several processes counts once (proportional set size).
        """
        cpu_s: dict[int, float] = {}
        memory_bytes = 0
        now_s, before_s, before_cpu_s = time.monotonic(), self._read_at_s, self._cpu_s
        for process in self._processes():
            try:
                with process.oneshot():
                    times = process.cpu_times()
                    memory_bytes += process.memory_full_info().pss
            except psutil.Error:
                continue  # the process has ended
            cpu_s[process.pid] = times.user + times.system
        self._read_at_s, self._cpu_s = now_s, cpu_s
        if before_s is None:
            return None
        used_s = sum(used - before_cpu_s.get(pid, 0.0) for pid, used in cpu_s.items())
        return 100 * used_s / (now_s - before_s), memory_bytes
