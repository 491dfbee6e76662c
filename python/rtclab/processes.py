"""Processes that simulate: one per core, none of which outlives the one that asked."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager


@contextmanager
def process_pool(jobs: int | None) -> Iterator[ProcessPoolExecutor]:
    """A pool of so many processes, of one per core if None.

    They are fresh, because a fork of a process with running threads may hang, and compute in one thread each.
    """
    before = os.environ.get("POLARS_MAX_THREADS")
    os.environ["POLARS_MAX_THREADS"] = "1"
    context = multiprocessing.get_context("spawn")
    pool = ProcessPoolExecutor(jobs or cores(), mp_context=context, initializer=_begin_process)
    try:
        yield pool
    finally:
        pool.shutdown(cancel_futures=True)
        if before is None:
            del os.environ["POLARS_MAX_THREADS"]
        else:
            os.environ["POLARS_MAX_THREADS"] = before


def cores() -> int:
    """How many cores this process may use."""
    return len(os.sched_getaffinity(0))


def _begin_process() -> None:
    """Prepares a process of the pool.

    Ctrl-C reaches all processes of a terminal, but only the parent decides what it means. When the parent is
    killed, its processes end too; they would wait for work forever.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
    os._exit(1)
