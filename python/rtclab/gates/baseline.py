"""Baselines: the values that a gate compares with, kept in a JSON file beside the suite."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, Self

from pydantic import Field, FiniteFloat, model_validator

import rtclab
from rtclab.errors import BadInput, FieldError, RtclabError
from rtclab.experiment import digest_of
from rtclab.experiment.comparison import Side
from rtclab.gates.suite import GatedScenario, Suite
from rtclab.metrics import METRICS
from rtclab.scenario.table import Table
from rtclab.trace import window_in_words, write_text

_CODE = {"congestion_control": {"digest"}}
UNRELATED: dict[str, Any] = {
    "seed": True,
    "record": True,
    **_CODE,
    "participants": {"__all__": _CODE},
    "servers": {"__all__": _CODE},
}
"""Fields of a scenario that a baseline does not depend on. Each repeat has its seed beside its values. A gate
is about the code of a control of the user's own, so a change of it is measured and compared."""
_NUMBERS = re.compile(r"\[\n[^][{}]*\]")


class KeptMetric(Table):
    """The values of one metric: by flow, one per seed, null where nothing was measured."""

    unit: str
    flows: dict[str, list[FiniteFloat | None]]


class KeptScenario(Table):
    """What was measured of one scenario: its digest, its backend, the seed of each repeat, and the values."""

    digest: str
    backend: str
    seeds: list[Annotated[int, Field(ge=0)]]
    metrics: dict[str, KeptMetric]

    @model_validator(mode="after")
    def _has_a_value_per_seed(self) -> Self:
        for name, metric in self.metrics.items():
            for flow, values in metric.flows.items():
                if len(values) != len(self.seeds):
                    message = f"{len(values)} values of {len(self.seeds)} repeats"
                    raise FieldError(message, key=f"metrics.{name}.flows.{flow}")
        return self

    def values(self, metric: str) -> dict[str, dict[int, float]]:
        """The known values of a metric by flow and seed; empty if the metric was not kept."""
        flows = self.metrics[metric].flows if metric in self.metrics else {}
        by_seed = {flow: dict(zip(self.seeds, values, strict=True)) for flow, values in flows.items()}
        return {
            flow: {seed: value for seed, value in of.items() if value is not None}
            for flow, of in by_seed.items()
        }


class Baseline(Table):
    """The content of a baseline file: who measured it, why, and the scenarios by their names in the suite."""

    rtclab: str
    """The version of rtclab."""
    reason: str
    """Why the baseline was written."""
    scenarios: dict[str, KeptScenario]
    window: tuple[FiniteFloat, FiniteFloat | None] | None = None
    """Begin and end in s of the measured part of each repeat; null for all of it."""

    @classmethod
    def load(cls, file: Path) -> Self | None:
        """Reads a baseline; None if there is no file.

        Raises:
            BadInput: the file cannot be read, or its content is incomplete or invalid.
        """
        try:
            data = json.loads(file.read_text(encoding="utf-8"))
            return cls.read(data, str(file))
        except FileNotFoundError:
            return None
        except OSError as error:
            raise BadInput(f"{file}: cannot be read: {error.strerror}") from None
        except (ValueError, BadInput) as error:
            what = error.message if isinstance(error, BadInput) else f"{file}: not JSON: {error}"
            raise BadInput(
                what,
                hint="restore this baseline, or write it again with --update-baseline",
            ) from None

    @classmethod
    def of(cls, suite: Suite, measured: Mapping[str, Side], reason: str) -> Self:
        """The baseline of a suite that has just been measured.

        Raises:
            RtclabError: a repeat has failed, and no limit for ``call_failures`` decides about that.
        """
        for name, sentence in failed_scenarios(suite, measured):
            raise RtclabError(f"{suite.baseline}: unchanged, because of {name}: {sentence}")
        scenarios = {
            name: _kept(condition, measured[name])
            for name, condition in suite.conditions.items()
            if condition.margins
        }
        return cls(rtclab=rtclab.__version__, reason=reason, scenarios=scenarios, window=suite.window)

    def write(self, file: Path) -> None:
        """Writes the file atomically, with the values of each flow on one line.

        Raises:
            DiskFull: no space is left; an earlier file is unchanged.
        """
        whole = {"window"} if self.window is None else None
        text = json.dumps(
            self.model_dump(mode="json", exclude=whole), indent=1, ensure_ascii=False, allow_nan=False
        )
        write_text(file, _NUMBERS.sub(lambda found: " ".join(found[0].split()), text) + "\n")

    def check(self, suite: Suite, file: Path) -> None:
        """Checks that the baseline is of the scenarios that the suite has now.

        Raises:
            BadInput: a scenario, its backend, the unit of a metric or the measured time has changed, or the
                suite requires a baseline that is missing.
        """
        if self.window != suite.window:
            was, now = (
                "all of the time" if window is None else window_in_words(window)
                for window in (self.window, suite.window)
            )
            raise _outdated(file, suite.name, f"it measured {was}, and the gate checks {now}")
        for name, condition in suite.conditions.items():
            kept = self.scenarios.get(name)
            if kept is None or not condition.margins:
                continue
            if kept.digest != digest_of(condition.scenario, UNRELATED):
                raise _outdated(file, name, "it measured another scenario")
            if kept.backend != condition.backend:
                raise _outdated(
                    file, name, f"it was measured with backend {kept.backend}, not {condition.backend}"
                )
            for metric in condition.margins.keys() & kept.metrics.keys():
                was, unit = kept.metrics[metric].unit, METRICS[metric].unit
                if was != unit:
                    raise _outdated(file, name, f"it has `{metric}` in {was}, not in {unit}")


def check_required(suite: Suite, baseline: Baseline | None) -> None:
    """Checks that a required baseline has every comparison.

    Raises:
        BadInput: the file, a scenario or a metric is missing.
    """
    if not suite.require_baseline:
        return
    hint = "write it with --update-baseline --reason TEXT"
    if baseline is None:
        raise BadInput(f"{suite.baseline}: the suite requires this baseline, which does not exist", hint=hint)
    for name, condition in suite.conditions.items():
        kept = baseline.scenarios.get(name)
        for metric in condition.margins:
            if kept is None or metric not in kept.metrics:
                raise BadInput(f"{suite.baseline}: it has no `{metric}` of {name}", hint=hint)


def failed_scenarios(suite: Suite, measured: Mapping[str, Side]) -> Iterator[tuple[str, str]]:
    """The scenarios that fail because of failed repeats, each with a sentence."""
    for name, condition in suite.conditions.items():
        sentence = condition.failure(measured[name].run.repeats)
        if sentence is not None:
            yield name, sentence


def _outdated(file: Path, name: str, why: str) -> BadInput:
    hint = "if the change is wanted, write it again with --update-baseline --reason TEXT"
    return BadInput(f"{file}: {name}: {why}", hint=hint)


def _kept(condition: GatedScenario, measured: Side) -> KeptScenario:
    repeats = measured.run.repeats
    metrics = {}
    for metric in condition.margins:
        flows = measured.by_flow(metric)
        known = {flow: [of.get(one.repeat) for one in repeats] for flow, of in flows.items()}
        metrics[metric] = KeptMetric(unit=METRICS[metric].unit, flows=known)
    return KeptScenario(
        digest=digest_of(condition.scenario, UNRELATED),
        backend=condition.backend,
        seeds=[one.seed for one in repeats],
        metrics=metrics,
    )
