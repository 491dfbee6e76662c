"""Pools of worker processes that end with their parent, and the number of cores.

Modules for processes are imported where one is begun, because most short runs begin none.
"""

from __future__ import annotations

import os
import re
import signal
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import Executor
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from concurrent.futures import ProcessPoolExecutor

__all__ = [
    "cores",
    "in_processes",
    "process_pool",
    "unguarded_script",
]

GUARD = re.compile(r"""__name__\s*==\s*["']__main__["']""")


@contextmanager
def process_pool(jobs: int) -> Iterator[ProcessPoolExecutor]:
    """A pool of ``jobs`` processes. Polars uses one thread in each.

    The processes are spawned, because a fork of a process with running threads may hang.
    """
    import multiprocessing
    from concurrent.futures import ProcessPoolExecutor

    before = os.environ.get("POLARS_MAX_THREADS")
    os.environ["POLARS_MAX_THREADS"] = "1"
    context = multiprocessing.get_context("spawn")
    pool = ProcessPoolExecutor(jobs, mp_context=context, initializer=_begin_process)
    try:
        yield pool
    finally:
        pool.shutdown(cancel_futures=True)
        if before is None:
            del os.environ["POLARS_MAX_THREADS"]
        else:
            os.environ["POLARS_MAX_THREADS"] = before


def in_processes(executor: Executor) -> bool:
    """Whether an executor is a pool of processes of this machine."""
    from concurrent.futures import ProcessPoolExecutor

    return isinstance(executor, ProcessPoolExecutor)


def unguarded_script() -> str | None:
    """The script of this process, if a process that it spawns would run it again; None if it would not.

    A spawned process imports the script, so what the script runs must be guarded by its name. Notebooks,
    ``python -c`` and ``python -m`` are not imported.
    """
    main = sys.modules["__main__"]
    file = getattr(main, "__file__", None)
    if file is None or getattr(main, "__spec__", None) is not None:
        return None
    try:
        guarded = GUARD.search(Path(file).read_text(encoding="utf-8", errors="replace"))
    except OSError:
        return None
    return None if guarded else str(file)


def cores() -> int:
    """Number of cores that this process may use."""
    return len(os.sched_getaffinity(0)) if sys.platform == "linux" else os.cpu_count() or 1


def _begin_process() -> None:
    """Prepares a process of the pool.

    Ctrl-C in a terminal reaches all processes, but only the parent handles it. If the parent is killed, the
    process ends too; otherwise it would wait for work forever.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    import multiprocessing

    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
    os._exit(1)
