"""Limits how much CPU the browser of a participant gets, with Linux control groups.

A group is made outside the lab, where its files have their usual owner. A process inside the lab joins it by
itself: see :func:`in_group`. Where the files are, and who may write them, differs between machines: version 2
(``cpu.max``) or version 1 (``cpu.cfs_quota_us``) of the kernel's interface, a group that systemd delegated to
the user, or root.
"""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from rtclab.errors import UnsupportedScenario

FIELD = "host.encoder_capacity"
PREFIX = "rtclab-"
PERIOD_US = 20_000
"""Period in which a group may use its share. It is short, so that a browser never stops for a whole frame."""

LEAST_QUOTA_US = 1_000
"""The smallest that the kernel accepts."""

REMOVE_TIMEOUT_S = 3.0
HINT = "run as root or, with systemd, `systemd-run --user --scope rtclab …`"
_JOIN = 'echo 0 > "$1" && shift && exec "$@"'


@dataclass(frozen=True)
class CgroupHierarchy:
    """A place for groups: a directory in which they may be made, and the version of the interface."""

    directory: Path
    version: int

    def create(self, name: str, cores: float) -> Path:
        """Makes a group that may use ``cores`` cores, and returns its directory."""
        group = self.directory / f"{PREFIX}{os.getpid()}-{name}"
        group.mkdir()
        try:
            self._limit(group, max(LEAST_QUOTA_US, round(cores * PERIOD_US)))
        except OSError:
            group.rmdir()
            raise
        return group

    def _limit(self, group: Path, quota_us: int) -> None:
        if self.version == 2:
            (group / "cpu.max").write_text(f"{quota_us} {PERIOD_US}")
        else:
            (group / "cpu.cfs_period_us").write_text(str(PERIOD_US))
            (group / "cpu.cfs_quota_us").write_text(str(quota_us))


@contextmanager
def limited(cores: Mapping[str, float]) -> Iterator[dict[str, str]]:
    """Groups with the given numbers of cores, by participant; yields the file that joins each group.

    The groups are removed at the end, after the processes in them have ended. Those of earlier programs that
    were killed are removed too.

    Raises:
        UnsupportedScenario: CPU use cannot be limited here.
    """
    groups: dict[str, Path] = {}
    try:
        if cores:
            hierarchy = usable_hierarchy()
            _remove_leftovers(hierarchy.directory)
            for name, share in cores.items():
                groups[name] = hierarchy.create(name, share)
        yield {name: str(group / "cgroup.procs") for name, group in groups.items()}
    finally:
        for group in groups.values():
            _remove(group)


def in_group(joins: str | None, command: list[str]) -> list[str]:
    """The command line that runs ``command`` in a group; without one it is ``command``.

    ``joins`` is a file from :func:`limited`. Its process id is the id of the command.
    """
    return command if joins is None else ["sh", "-c", _JOIN, "sh", joins, *command]


def usable_hierarchy() -> CgroupHierarchy:
    """The first place in which this process may make groups and put processes into them.

    Raises:
        UnsupportedScenario: there is none.
    """
    reasons = []
    for hierarchy in hierarchies(
        Path("/proc/self/mountinfo").read_text(), Path("/proc/self/cgroup").read_text()
    ):
        try:
            _try(hierarchy)
        except OSError as error:
            reasons.append(f"{error.filename or hierarchy.directory}: {error.strerror}")
        else:
            return hierarchy
    raise UnsupportedScenario(
        FIELD,
        "this user cannot limit the CPU of a browser: "
        + (reasons[0] if reasons else "the kernel has no CPU controller for control groups"),
        hint=HINT,
    )


def hierarchies(mounts: str, groups: str) -> Iterator[CgroupHierarchy]:
    """The places where groups may be possible: own groups and their parents, the innermost first.

    ``mounts`` is the text of ``/proc/self/mountinfo`` and ``groups`` the text of ``/proc/self/cgroup``.
    """
    own: dict[str, str] = {}
    for line in groups.splitlines():
        _, controllers, path = line.split(":", 2)
        own.update(dict.fromkeys(controllers.split(","), path))
    for line in mounts.splitlines():
        before, _, after = line.partition(" - ")
        root, mount = before.split()[3:5]
        kind, _, options = after.split()[:3]
        controller = {"cgroup2": "", "cgroup": "cpu"}.get(kind)
        if (
            controller is None
            or controller not in own
            or (kind == "cgroup" and "cpu" not in options.split(","))
        ):
            continue
        inside = Path("/") / os.path.relpath(own[controller], root)
        for place in (inside, *inside.parents):
            yield CgroupHierarchy(Path(mount) / place.relative_to("/"), 2 if kind == "cgroup2" else 1)


def _try(hierarchy: CgroupHierarchy) -> None:
    """Puts a process into a new group. Raises OSError if that is not possible."""
    group = hierarchy.create("try", 1.0)
    try:
        with subprocess.Popen(["sleep", "10"]) as process:
            try:
                (group / "cgroup.procs").write_text(str(process.pid))
            finally:
                process.kill()
    finally:
        _remove(group)


def _remove_leftovers(directory: Path) -> None:
    for group in directory.glob(f"{PREFIX}*"):
        pid = group.name.removeprefix(PREFIX).partition("-")[0]
        if not Path("/proc", pid).exists():
            with suppress(OSError):
                group.rmdir()


def _remove(group: Path) -> None:
    """Removes a group as soon as its last process has ended; the kernel needs a moment for that."""
    deadline = time.monotonic() + REMOVE_TIMEOUT_S
    while True:
        try:
            group.rmdir()
        except FileNotFoundError:
            return
        except OSError:
            if time.monotonic() > deadline:
                return
            time.sleep(0.02)
        else:
            return
