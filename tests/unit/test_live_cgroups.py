"""Where control groups may be made, and how a process joins one."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from rtclab.backend.live.lab import cgroups as cgroup
from rtclab.backend.live.lab.cgroups import CgroupHierarchy, hierarchies, in_group, limited
from rtclab.errors import UnsupportedScenario

UNIFIED = "25 30 0:22 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate\n"
OLD_CPU = "26 30 0:23 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu,cpuacct\n"
OLD_MEMORY = "27 30 0:24 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n"


def test_with_version_2_the_own_group_and_then_its_parents_are_tried() -> None:
    places = list(hierarchies(UNIFIED, "0::/user.slice/app.slice\n"))
    root = Path("/sys/fs/cgroup")
    assert places == [
        CgroupHierarchy(root / "user.slice/app.slice", 2),
        CgroupHierarchy(root / "user.slice", 2),
        CgroupHierarchy(root, 2),
    ]


def test_with_version_1_only_the_hierarchy_of_the_cpu_is_tried() -> None:
    places = list(hierarchies(OLD_MEMORY + OLD_CPU, "2:cpu,cpuacct:/\n1:memory:/other\n"))
    assert places == [CgroupHierarchy(Path("/sys/fs/cgroup/cpu"), 1)]


def test_in_a_container_the_root_of_the_mount_is_left_out() -> None:
    mounted = "25 30 0:22 /docker/abc /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n"
    places = list(hierarchies(mounted, "0::/docker/abc/inner\n"))
    assert places == [
        CgroupHierarchy(Path("/sys/fs/cgroup/inner"), 2),
        CgroupHierarchy(Path("/sys/fs/cgroup"), 2),
    ]


@pytest.mark.parametrize(
    ("version", "cores", "file", "text"),
    [
        (2, 0.5, "cpu.max", "10000 20000"),
        (2, 2.0, "cpu.max", "40000 20000"),
        (2, 0.001, "cpu.max", "1000 20000"),
        (1, 0.5, "cpu.cfs_quota_us", "10000"),
    ],
)
def test_a_share_is_a_quota_per_period(
    tmp_path: Path, version: int, cores: float, file: str, text: str
) -> None:
    group = CgroupHierarchy(tmp_path, version).create("alice", cores)
    assert (group / file).read_text() == text


def test_a_machine_without_a_usable_group_gives_the_reason_and_a_hint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    missing = CgroupHierarchy(tmp_path / "closed", 2)
    monkeypatch.setattr(cgroup, "hierarchies", lambda *_: iter([missing]))
    with pytest.raises(UnsupportedScenario) as refused, limited({"alice": 0.5}):
        pass
    assert refused.value.field == "host.encoder_capacity"
    assert "No such file or directory" in refused.value.message
    assert "systemd-run --user --scope" in (refused.value.hint or "")


def test_nobody_limited_needs_no_rights(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cgroup, "hierarchies", lambda *_: iter([]))
    with limited({}) as joins:
        assert joins == {}


def test_a_process_joins_its_group_before_it_becomes_the_command(tmp_path: Path) -> None:
    joins = tmp_path / "cgroup.procs"
    command = in_group(str(joins), ["echo", "a b", "$HOME"])
    assert subprocess.run(command, capture_output=True, text=True, check=True).stdout == "a b $HOME\n"
    assert joins.read_text() == "0\n"
    assert in_group(None, ["echo"]) == ["echo"]
