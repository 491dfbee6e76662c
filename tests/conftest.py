"""What all tests share: their turns at this machine, if they make live calls."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).parent / "live"))

from side_by_side import TURNS


@pytest.fixture(autouse=True, scope="session")
def _own_locks(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Lets calls of this process run beside those of others, as far as :mod:`side_by_side` allows."""
    os.environ["RTCLAB_LOCK_DIR"] = str(tmp_path_factory.getbasetemp())


@pytest.fixture(autouse=True)
def _turn(request: pytest.FixtureRequest) -> Iterator[None]:
    """Runs a live test when nobody measures."""
    if request.node.get_closest_marker("live") is None:
        yield
        return
    with TURNS.beside_others():
        yield
