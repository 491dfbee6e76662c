"""Suites of a gate: TOML files that list scenarios, their limits, and the metrics to compare."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, BeforeValidator, Field, model_validator

from rtclab.backend import backend
from rtclab.errors import BackendUnavailable, BadInput, FieldError, FieldErrors, Problem, ScenarioError
from rtclab.experiment.window import Moment, open_window
from rtclab.gates.limits import Limit, metric_named, value_in_unit
from rtclab.metrics import METRICS, Metric
from rtclab.metrics.setup import call_failures
from rtclab.scenario import Change, Scenario
from rtclab.scenario.ignored import SIM
from rtclab.scenario.layers import parsed
from rtclab.scenario.load import shipped_or_in
from rtclab.scenario.table import Table
from rtclab.scenario.toml_text import toml_text
from rtclab.scenario.trust import ReadFrom
from rtclab.trace import OpenWindow, Repeat, window_in_words

_PERCENT = re.compile(r"\s*([0-9]+(?:\.[0-9]+)?|\.[0-9]+)\s*%\s*")


def _share(text: object) -> float:
    match = _PERCENT.fullmatch(text) if isinstance(text, str) else None
    if match is None:
        raise FieldError(f"cannot read `{text}` as a share; expected a number in %", hint="for example `5 %`")
    return float(match[1]) / 100


class Margin(Table):
    """By how much a metric may be worse than its baseline: the larger of a share and an amount."""

    relative: Annotated[float, BeforeValidator(_share)] | None = None
    """A share of the baseline's mean, such as `5 %`."""
    absolute: str | None = None
    """An amount in a unit of the metric, such as `10 ms`."""

    @model_validator(mode="after")
    def _allows_something(self) -> Self:
        if self.relative is None and self.absolute is None:
            raise FieldError("no margin", hint='for example { relative = "5 %", absolute = "10 ms" }')
        return self

    def in_unit(self, metric: Metric, mean: float) -> float:
        """The margin in the unit of the metric, for a baseline with this mean.

        Raises:
            FieldError: the absolute margin has no unit or another one.
        """
        absolute = 0.0 if self.absolute is None else value_in_unit(self.absolute, metric)
        return max((self.relative or 0.0) * abs(mean), absolute)


def _check_comparison(name: str, margin: Margin) -> None:
    metric = metric_named(name)
    if not metric.better:
        raise FieldError(f"`{name}` is better neither higher nor lower", hint="set a limit for it instead")
    if metric.scope == "run":
        raise FieldError(f"`{name}` is one value of all repeats together", hint="set a limit for it instead")
    if margin.absolute is not None and value_in_unit(margin.absolute, metric) < 0:
        raise FieldError(f"`{margin.absolute}` is negative; expected an amount of at least 0")


def _comparable(margins: dict[str, Margin]) -> dict[str, Margin]:
    errors = []
    for name, margin in margins.items():
        try:
            _check_comparison(name, margin)
        except FieldError as error:
            errors.append(FieldError(error.message, hint=error.hint, key=name))
    if errors:
        raise FieldErrors(errors)
    return margins


class _Common(Table):
    """Fields of a suite, and of each of its scenarios."""

    backend: Literal["sim", "live"] | None = None
    """`sim` (virtual time) or `live` (real browsers); by default `sim`."""
    duration: str | None = None
    """Duration instead of the scenario's own."""
    repeats: int | None = Field(None, ge=1)
    """Number of repeats instead of the scenario's own."""
    limits: tuple[Annotated[Limit, BeforeValidator(Limit.parse)], ...] = ()
    """Limits, such as `rtt_p95 < 150 ms`. Limits of the suite are for every scenario."""
    compare: Annotated[dict[str, Margin], AfterValidator(_comparable)] = {}
    """Metrics to compare with the baseline, each with its margin. A suite's are for every scenario."""


class _Scenario(_Common):
    scenario: str
    """The name of a shipped scenario, or a TOML file relative to the suite."""
    set: dict[str, Any] = {}
    """Fields to change, such as `{ "link.up.capacity" = "2 Mbit/s" }`."""


class _Suite(_Common):
    baseline: str | None = None
    """The file with the baseline, relative to the suite; by default `NAME-baseline.json` for `NAME.toml`."""
    require_baseline: bool = False
    """Whether the gate refuses to run without a baseline of every comparison."""
    begin: str | None = None
    """Check and compare from this time of each repeat on, such as `10 s`; by default from the beginning."""
    end: str | None = None
    """Check and compare up to this time; by default to the end of each repeat."""
    scenarios: dict[str, _Scenario] = Field(min_length=1)
    """The scenarios by a name of your own."""


FIELDS: list[tuple[str, type[Table], type[Table]]] = [
    ("", _Common, Table),
    ("", _Suite, _Common),
    ("scenarios.NAME.", _Scenario, _Common),
    ("compare.METRIC.", Margin, Table),
]
"""For references: prefix of the fields, their table, and the table whose fields it shares."""


@dataclass(frozen=True)
class GatedScenario:
    """One scenario of a suite, with the limits and comparisons that apply to it.

    ``command`` runs the scenario alone, with the same seeds, and leaves traces and a report.
    """

    scenario: Scenario
    backend: str
    repeats: int
    limits: tuple[Limit, ...]
    margins: Mapping[str, Margin]
    command: str = ""

    @property
    def metrics(self) -> list[str]:
        """The metrics that the checks need, each once."""
        return list(dict.fromkeys([*(limit.metric for limit in self.limits), *self.margins]))

    def failure(self, outcomes: Sequence[Repeat]) -> str | None:
        """Why the condition fails because of its failed repeats; None if it does not.

        If a limit for ``call_failures`` decides about failed calls, only failures of the laboratory count.
        ``outcomes`` has one for each repeat.
        """
        allowed = ["finished"]
        if any(limit.metric == call_failures.__name__ for limit in self.limits):
            allowed.append("failed")
        failed = [one for one in outcomes if one.status not in allowed]
        if not failed:
            return None
        what = f"{len(failed)} of {len(outcomes)} repeats failed"
        return f"{what}; the first is repeat {failed[0].repeat}: {failed[0].reason}"


@dataclass(frozen=True)
class Suite:
    """The conditions of a suite by name, where its baseline is, and the part of each repeat it is about.

    ``name`` is the name of the ``file`` without its ending. Without a ``window`` it is about all of the time.
    """

    name: str
    conditions: Mapping[str, GatedScenario]
    baseline: Path
    require_baseline: bool = False
    window: OpenWindow | None = None
    file: str = ""

    @property
    def compares(self) -> bool:
        """Whether any metric is compared with the baseline."""
        return any(condition.margins for condition in self.conditions.values())

    @classmethod
    def load(
        cls,
        file: str | Path,
        *,
        begin: Moment | None = None,
        end: Moment | None = None,
        trust: bool = False,
    ) -> Self:
        """Reads a suite and all its scenarios, and checks that the backends can run them.

        Args:
            file: the TOML file.
            begin, end, trust: as in :func:`rtclab.gate`.

        Raises:
            BadInput: the file cannot be read, or something in it is invalid; it names file and field. Or
                strangers' files are not trusted.
            BackendUnavailable: this machine lacks something that a backend needs.
        """
        path = Path(file)
        if not path.is_file():
            raise BadInput(f"no suite `{file}`: there is no such file")
        suite = _Suite.read(parsed(path, str(file)), str(file))
        by = ReadFrom.of([path], trust=trust)
        window = open_window(suite.begin if begin is None else begin, suite.end if end is None else end)
        problems: list[Problem] = []
        conditions = {}
        for name, entry in suite.scenarios.items():
            loaded = _loaded(f"{file}: scenarios.{name}", path.parent, suite, entry, by)
            problems += _problems(name, suite, entry, loaded)
            if window is not None:
                problems += _outside(f"scenarios.{name}", loaded, window)
            conditions[name] = loaded
        if problems:
            raise ScenarioError(str(file), problems)
        return cls(
            path.stem,
            conditions,
            path.parent / (suite.baseline or f"{path.stem}-baseline.json"),
            suite.require_baseline,
            window,
            str(file),
        )


def _loaded(origin: str, directory: Path, suite: _Suite, entry: _Scenario, by: ReadFrom) -> GatedScenario:
    duration = entry.duration or suite.duration
    changes = [Change(field, value, "set") for field, value in entry.set.items()]
    changes += [] if duration is None else [Change("duration", duration, "duration")]
    made = backend(entry.backend or suite.backend or "sim")
    try:
        source = shipped_or_in(directory, entry.scenario)
        scenario = Scenario.load(source, changes, by=by)
        made.check(scenario)
    except BackendUnavailable:
        raise
    except BadInput as error:
        raise BadInput(f"{origin}: {error.message}", hint=error.hint) from None
    repeats = entry.repeats or suite.repeats or scenario.repeats
    return GatedScenario(
        scenario,
        made.name,
        repeats,
        (*suite.limits, *entry.limits),
        {**suite.compare, **entry.compare},
        _command(str(source), made.name, repeats, duration, entry.set),
    )


def _command(
    source: str, backend_name: str, repeats: int, duration: str | None, fields: Mapping[str, Any]
) -> str:
    words = ["rtclab", "run", source, "--repeats", str(repeats)]
    words += ["--backend", backend_name] if backend_name != SIM else []
    words += ["--duration", duration.replace(" ", "")] if duration else []
    values = {field: toml_text(value) for field, value in fields.items()}
    if any(text.endswith("…") for text in values.values()):
        return ""  # the text is cut, so the command would be another one
    return shlex.join([*words, *(part for pair in values.items() for part in ("--set", "=".join(pair)))])


def _problems(name: str, suite: _Suite, entry: _Scenario, loaded: GatedScenario) -> list[Problem]:
    """What does not fit together: limits and flows, comparisons and repeats, nothing to check at all."""
    below = f"scenarios.{name}"
    problems = _unknown_flows("limits", suite.limits, loaded.scenario)
    problems += _unknown_flows(f"{below}.limits", entry.limits, loaded.scenario)
    if not loaded.metrics:
        problems.append(Problem(below, "nothing to check", "add `limits` or `compare`, here or above"))
    if loaded.margins and loaded.repeats < 2:
        message = f"{loaded.repeats} repeat cannot be compared; expected at least 2"
        problems.append(Problem(f"{below}.repeats", message, "one repeat says nothing about chance"))
    return problems


def _outside(field: str, loaded: GatedScenario, window: OpenWindow) -> list[Problem]:
    """What a part of the time cannot check: a scenario that ends before, or metrics of whole repeats."""
    words, length = window_in_words(window), loaded.scenario.duration.s
    problems = []
    if window[0] >= length:
        problems.append(Problem(field, f"it ends at {length:g} s, and the gate checks {words}"))
    whole = [name for name in loaded.metrics if METRICS[name].scope == "run"]
    problems += [
        Problem(field, f"`{name}` is of whole repeats, and the gate checks {words}", "leave one of them out")
        for name in whole
    ]
    return problems


def _unknown_flows(field: str, limits: Sequence[Limit], scenario: Scenario) -> list[Problem]:
    problems = []
    for index, limit in enumerate(limits):
        try:
            limit.check_flow(scenario)
        except FieldError as error:
            problems.append(Problem(f"{field}.{index}", error.message, error.hint))
    return problems
