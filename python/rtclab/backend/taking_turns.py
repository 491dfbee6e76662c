"""Live calls take turns on a machine, because two at once would take each other's processor time."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from rtclab.trace import one_after_another

LOCK = Path(os.environ.get("RTCLAB_LOCK_DIR") or tempfile.gettempdir()) / "rtclab-live-calls.lock"
"""The lock file of this machine, in the directory that all its processes use for temporary files.

Processes with another ``RTCLAB_LOCK_DIR`` do not wait for each other.
"""


@contextmanager
def turn() -> Iterator[None]:
    """Waits until no other process runs live calls, and makes others wait.

    Says on standard error whom it waits for. Ctrl-C ends the wait.
    """

    def say(owner: str) -> None:
        print(
            f"waiting for {owner}, which runs live calls; Ctrl-C ends the wait", file=sys.stderr, flush=True
        )

    with one_after_another(LOCK, say):
        yield
