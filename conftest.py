"""What all tests share: their turns at this machine, if they make live calls."""

from __future__ import annotations

import os
import signal
import tempfile
from collections.abc import Iterator

import pytest
from side_by_side import TURNS

# Children of a shell that started tests in the background ignore Ctrl-C, which some tests press.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
# Calls of this process may run beside others, as far as side_by_side allows. Set before rtclab is imported.
LOCKS = tempfile.TemporaryDirectory(prefix="rtclab-test-locks-")
os.environ["RTCLAB_LOCK_DIR"] = LOCKS.name


@pytest.fixture(autouse=True)
def _turn(request: pytest.FixtureRequest) -> Iterator[None]:
    """Runs a live test when nobody measures."""
    if request.node.get_closest_marker("live") is None:
        yield
        return
    with TURNS.beside_others():
        yield
