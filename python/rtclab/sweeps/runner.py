"""Runs the tasks of a sweep that are not done, here or wherever an executor runs them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from concurrent.futures import BrokenExecutor, Executor, Future, as_completed
from contextlib import suppress
from itertools import islice
from queue import SimpleQueue

from rtclab.errors import RtclabError
from rtclab.sweeps.store import Store
from rtclab.sweeps.worker import order_of, run_task

MOST_AHEAD = 4000
"""Tasks handed to an executor at a time: some for each of a thousand cores."""
AHEAD_BYTES = 100_000_000
"""How much the orders of these may take together; one with a recorded capacity is large."""

OnDone = Callable[[int], None]
Keep = Callable[[int, bytes], None]


class SweepStopped(RtclabError):
    """An executor could not run a task. What was finished is kept."""


def run_tasks(store: Store, executor: Executor | None, on_done: OnDone) -> None:
    """Runs every task that is not done; without an executor one after another, here.

    ``on_done`` is called, in this thread, with the number of repeats of each task when it is kept.

    Raises:
        SweepStopped: a worker died, or lacks rtclab.
        OtherVersion: a worker runs another rtclab.
        DiskFull: a part could not be kept.
        KeyboardInterrupt: after Ctrl-C, when the tasks that were running are kept, too.
    """
    done, order = store.done(), order_of(store.plan)
    todo = [task for task in range(store.plan.tasks) if task not in done]

    def keep(task: int, part: bytes) -> None:
        store.add(task, part)
        on_done(len(store.plan.numbers(task)))

    if executor is None:
        for task in todo:
            keep(task, run_task(order, task))
        return
    try:
        _Submitted(executor, order, keep).run(todo)
    except RtclabError:
        raise
    except Exception as error:
        died = isinstance(error, BrokenExecutor)
        what = "a worker died: killed, or out of memory" if died else f"{type(error).__name__}: {error}"
        raise SweepStopped(
            f"{what}\n{len(store.done())} of {store.plan.tasks} tasks are finished and kept in {store.path}",
            hint=f"continue with `rtclab sweep --resume {store.path}`",
        ) from error


class _Submitted:
    """Tasks handed to an executor, a bounded number at a time."""

    def __init__(self, executor: Executor, order: bytes, keep: Keep) -> None:
        self._executor = executor
        self._order = order
        self._keep = keep
        self._ahead = max(min(MOST_AHEAD, AHEAD_BYTES // len(order)), 1)
        self._waiting: dict[Future[bytes], int] = {}
        self._ended: SimpleQueue[Future[bytes]] = SimpleQueue()

    def run(self, todo: Iterable[int]) -> None:
        """Runs tasks and keeps their parts as they come."""
        coming = iter(todo)
        try:
            while True:
                for task in islice(coming, self._ahead - len(self._waiting)):
                    self._submit(task)
                if not self._waiting:
                    return
                self._take(self._ended.get())
        except BaseException as error:
            for future in list(self._waiting):
                future.cancel()
            if isinstance(error, KeyboardInterrupt):
                self._keep_running()
            raise

    def _submit(self, task: int) -> None:
        future = self._executor.submit(run_task, self._order, task)
        self._waiting[future] = task
        future.add_done_callback(self._ended.put)

    def _take(self, future: Future[bytes]) -> None:
        self._keep(self._waiting.pop(future), future.result())

    def _keep_running(self) -> None:
        """Keeps what was running at Ctrl-C and is soon done; after a second Ctrl-C waits no longer."""
        with suppress(KeyboardInterrupt):
            for future in as_completed([one for one in self._waiting if not one.cancelled()]):
                if future.exception() is None:
                    self._take(future)
