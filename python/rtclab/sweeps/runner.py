"""Runs the unfinished tasks of a sweep, in this process or on an executor."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from concurrent.futures import BrokenExecutor, Executor, Future, as_completed
from contextlib import suppress
from itertools import islice
from queue import SimpleQueue

from rtclab.errors import RtclabError
from rtclab.sweeps.store import Store
from rtclab.sweeps.worker import payload_of, run_task

MAX_PENDING = 4000
"""Maximum number of submitted tasks, enough to keep a thousand cores busy."""
MAX_PENDING_BYTES = 100_000_000
"""Maximum size of the payloads of submitted tasks. A payload with a recorded capacity is large."""

OnDone = Callable[[int], None]
Keep = Callable[[int, bytes], None]


class SweepStopped(RtclabError):
    """An executor could not run a task. Finished tasks are kept."""


def run_tasks(store: Store, executor: Executor | None, on_done: OnDone) -> None:
    """Runs the unfinished tasks; without an executor, one after another in this process.

    ``on_done`` is called in this thread after each task with its number of repeats.

    Raises:
        SweepStopped: a worker died, or the executor failed.
        OtherVersion: a worker runs another build of rtclab.
        DiskFull: no disk space is left for a part.
        KeyboardInterrupt: Ctrl-C was pressed. The tasks that were running are kept too.
    """
    done, payload = store.done(), payload_of(store.plan, store.metrics)
    todo = [task for task in range(store.plan.tasks) if task not in done]

    def keep(task: int, part: bytes) -> None:
        store.add(task, part)
        on_done(len(store.plan.numbers(task)))

    if executor is None:
        for task in todo:
            keep(task, run_task(payload, task))
        return
    try:
        _Submitter(executor, payload, keep).run(todo)
    except RtclabError:
        raise
    except Exception as error:
        died = isinstance(error, BrokenExecutor)
        what = (
            "a worker died: it was killed or ran out of memory"
            if died
            else f"{type(error).__name__}: {error}"
        )
        raise SweepStopped(
            f"{what}\n{len(store.done())} of {store.plan.tasks} tasks are finished and kept in {store.path}",
            hint=f"continue with `rtclab sweep --resume {store.path}`",
        ) from error


class _Submitter:
    """Submits tasks to an executor, a limited number at a time."""

    def __init__(self, executor: Executor, payload: bytes, keep: Keep) -> None:
        self._executor = executor
        self._payload = payload
        self._keep = keep
        self._max_pending = max(min(MAX_PENDING, MAX_PENDING_BYTES // len(payload)), 1)
        self._pending: dict[Future[bytes], int] = {}
        self._finished: SimpleQueue[Future[bytes]] = SimpleQueue()

    def run(self, todo: Iterable[int]) -> None:
        """Runs the tasks and keeps each part as soon as it arrives."""
        remaining = iter(todo)
        try:
            while True:
                for task in islice(remaining, self._max_pending - len(self._pending)):
                    self._submit(task)
                if not self._pending:
                    return
                self._collect(self._finished.get())
        except BaseException as error:
            for future in list(self._pending):
                future.cancel()
            if isinstance(error, KeyboardInterrupt):
                self._collect_running()
            raise

    def _submit(self, task: int) -> None:
        future = self._executor.submit(run_task, self._payload, task)
        self._pending[future] = task
        future.add_done_callback(self._finished.put)

    def _collect(self, future: Future[bytes]) -> None:
        self._keep(self._pending.pop(future), future.result())

    def _collect_running(self) -> None:
        """Waits for the running tasks and keeps their parts. A second Ctrl-C ends the wait."""
        with suppress(KeyboardInterrupt):
            for future in as_completed([future for future in self._pending if not future.cancelled()]):
                if future.exception() is None:
                    self._collect(future)
