"""Control groups of this machine limit the CPU use of processes inside a lab."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from parts import CALL
from small_call import small_call

from rtclab.backend.live import LiveBackend
from rtclab.backend.live.browsers.encoder_speed import REST_CORES
from rtclab.backend.live.lab.cgroups import in_group, limited
from rtclab.backend.live.lab.namespaces import UNSHARE

pytestmark = [pytest.mark.live, pytest.mark.needs("unshare", "user namespaces", "control groups")]

BUSY = """
import time
until = time.monotonic() + 2
while time.monotonic() < until: pass
print(time.process_time())
"""


def test_a_process_in_a_lab_gets_no_more_than_its_share_and_its_group_disappears() -> None:
    with limited({"alice": 0.25}) as joins:
        command = [*UNSHARE, *in_group(joins["alice"], ["python3", "-c", BUSY])]
        spent_s = float(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
        group = Path(joins["alice"]).parent
        assert group.is_dir()
    # Of 2 s a quarter is 0.5 s; a process starts up before it measures, and a busy machine gives it less.
    assert 0.05 < spent_s < 0.8
    assert not group.exists()


@pytest.mark.needs(*CALL)
def test_a_call_records_how_much_cpu_a_limited_browser_may_use(tmp_path: Path) -> None:
    scenario = small_call(
        tmp_path / "call.toml", "[participants.alice.host]\nencoder_capacity = '20 Mpixel/s'\n"
    )
    (tmp_path / "call").mkdir()
    trace = LiveBackend().run(scenario, seed=1, repeat=0, out=tmp_path / "call")
    load = trace.table("host")
    assert load.filter(participant="bob")["cpu_limit_percent"].null_count() == len(
        load.filter(participant="bob")
    )
    alice = load.filter(participant="alice")
    (limit,) = alice["cpu_limit_percent"].unique()
    assert limit > 100 * REST_CORES
    used = alice["cpu_percent"].to_numpy()
    # Each reading is of about a second; all together, nobody gets more than the kernel allows.
    assert used.size >= 5
    assert 0.05 * limit < used.mean() < 1.1 * limit
