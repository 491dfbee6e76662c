"""A sweep on a Dask cluster; its workers share no files with the caller, and one dies."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from polars.testing import assert_frame_equal

from rtclab.experiment import Results
from rtclab.lab import sweep

distributed = pytest.importorskip("distributed")

WHAT: dict[str, Any] = {
    "scenario": "first-call",
    "vary": {"link.up.capacity": ["0.5 Mbit/s", "1 Mbit/s"], "link.up.loss": "0..5 % x4"},
    "repeats": 32,
    "duration": "20 s",
}


class Apart(distributed.WorkerPlugin):  # type: ignore[misc]
    """Moves a worker to its own directory and makes it refuse access to the caller's directory."""

    def __init__(self, elsewhere: Path, forbidden: Path) -> None:
        self.elsewhere, self.forbidden = str(elsewhere), str(forbidden)

    def setup(self, worker: object) -> None:
        os.chdir(self.elsewhere)
        sys.addaudithook(self._refuse)

    def _refuse(self, event: str, arguments: tuple[object, ...]) -> None:
        if event == "open" or event.startswith("os."):
            for argument in arguments:
                if isinstance(argument, str) and argument.startswith(self.forbidden):
                    raise PermissionError(f"{event} {argument}")


@pytest.fixture
def client(tmp_path_factory: pytest.TempPathFactory, tmp_path: Path) -> Iterator[Any]:
    """Two workers that cannot reach the test's directory."""
    elsewhere = tmp_path_factory.mktemp("workers")
    with (
        distributed.LocalCluster(
            n_workers=2,
            threads_per_worker=1,
            processes=True,
            dashboard_address=None,
            local_directory=str(elsewhere),
        ) as cluster,
        distributed.Client(cluster) as made,
    ):
        made.register_plugin(Apart(elsewhere, tmp_path))
        yield made


def test_workers_share_no_directory_with_the_caller(client: Any, tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("")
    (directory,) = set(client.run(os.getcwd).values())
    assert not tmp_path.is_relative_to(directory)
    future = client.submit(Path.read_text, tmp_path / "secret")
    with pytest.raises(PermissionError, match="secret"):
        future.result()


def test_every_repeat_is_there_exactly_once_after_a_worker_died(client: Any, tmp_path: Path) -> None:
    pids = list(client.run(os.getpid).values())
    seen: list[int] = []

    def kill_a_worker() -> None:
        while not (stores := list(tmp_path.glob("*/results.sqlite"))):
            time.sleep(0.005)
        results = Results(stores[0].parent)
        while not (finished := results.finished):
            time.sleep(0.005)
        seen.append(finished)
        os.kill(pids[0], signal.SIGKILL)

    killer = threading.Thread(target=kill_a_worker)
    killer.start()
    grid = sweep(**WHAT, executor=client.get_executor(), out=tmp_path)
    killer.join()
    assert 0 < seen[0] < 256
    assert (grid.finished, grid.planned) == (256, 256)
    table = grid.metrics()
    keys = ["condition", "repeat", "metric", "flow"]
    assert table.select(keys).n_unique() == table.height
    assert table.select("condition", "repeat").n_unique() == 256
    alone = sweep(**WHAT, out=tmp_path)
    assert_frame_equal(table, alone.metrics(), check_exact=True)
    # The cluster has replaced the dead worker.
    assert pids[0] not in client.run(os.getpid).values()
