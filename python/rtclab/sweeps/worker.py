"""Simulates and measures one task of a sweep. Workers neither read nor write files."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache

import rtclab
from rtclab.backend.sim_batch import simulate_together
from rtclab.errors import RtclabError
from rtclab.fingerprint import code_digest
from rtclab.metrics import METRICS, Metric
from rtclab.sweeps.measure import Row, as_part, rows_of
from rtclab.sweeps.plan import Plan
from rtclab.trace import SCHEMA, Repeat, TraceManifest


class OtherVersion(RtclabError):
    """A worker runs another build of rtclab than the caller, so its results may differ."""


def versions() -> dict[str, object]:
    """Versions that must be the same at the caller and at every worker."""
    return {"rtclab": rtclab.__version__, "schema": SCHEMA, "code": code_digest()[:12]}


def payload_of(plan: Plan, metrics: Sequence[str]) -> bytes:
    """The data sent with every task: the plan and the names of the metrics.

    It is JSON, so that any version of rtclab can read it and refuse.
    """
    return json.dumps({"versions": versions(), "metrics": list(metrics), "plan": plan.as_json()}).encode()


def run_task(payload: bytes, task: int) -> bytes:
    """Simulates and measures the repeats of a task; returns their rows as a Parquet file.

    The same payload and task give the same bytes on every machine.

    Raises:
        OtherVersion: this worker runs another build of rtclab than the caller, or lacks one of its metrics.
    """
    plan, metrics = _read(payload)
    return as_part(_rows(plan, plan.numbers(task), metrics))


@lru_cache(maxsize=1)
def _read(payload: bytes) -> tuple[Plan, list[Metric]]:
    known = json.loads(payload)
    _check_versions(known["versions"])
    for name in known["metrics"]:
        if name not in METRICS:
            raise OtherVersion(
                f"the worker on {socket.gethostname()} has no metric `{name}`, which the caller has",
                hint="have every worker import the module that defines it",
            )
    return Plan.from_json(known["plan"]), [METRICS[name] for name in known["metrics"]]


def _check_versions(wanted: Mapping[str, object]) -> None:
    own = versions()
    if own != wanted:
        raise OtherVersion(
            f"the worker on {socket.gethostname()} runs {_in_words(own)}; "
            f"the caller runs {_in_words(wanted)}",
            hint="install the same build of rtclab on all machines",
        )


def _in_words(known: Mapping[str, object]) -> str:
    return f"rtclab {known.get('rtclab')} (schema {known.get('schema')}, build {known.get('code')})"


def _rows(plan: Plan, numbers: range, metrics: Sequence[Metric]) -> Iterator[Row]:
    for first in range(numbers.start, numbers.stop, plan.together):
        points = list(plan.scenarios(range(first, min(first + plan.together, numbers.stop))))
        seeds = [[scenario.seed_of(repeat) for repeat in repeats] for _, scenario, repeats in points]
        scenarios = [scenario for _, scenario, _ in points]
        traces = iter(simulate_together(list(zip(scenarios, seeds, strict=True))))
        for point, _, repeats in points:
            for repeat, trace in zip(repeats, traces, strict=False):
                yield from rows_of(point, _outcome(repeat, trace.manifest), trace, metrics)


def _outcome(repeat: int, manifest: TraceManifest) -> Repeat:
    failure = manifest.failure
    return Repeat(repeat, manifest.seed or 0, "finished" if failure is None else "failed", failure or "")
