"""Runs the four scenarios of ``sim-vs-live`` simulated and live, and reports how far they differ."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import polars as pl

from rtclab.experiment import Experiment, Store, compare_runs, digest_of, stores
from rtclab.scenario import Scenario, shipped
from rtclab.trace import Run
from rtclab_papers.markdown import table

FOLDER = "sim-vs-live/"

BOUNDS_PERCENT = {"receiving_rate": 15.0, "rtt": 25.0}
"""Maximum difference between the simulated and the live mean, in per cent of the live one."""

SHOWN_TOO = ("queuing_delay_p50", "queuing_delay_p95", "packet_loss", "frame_rate", "frame_height")
"""Metrics without a bound, which help to explain differences."""


@dataclass(frozen=True)
class ScenarioPair:
    """One scenario, run on both backends. ``compared`` has the live run as a and the simulated one as b."""

    scenario: Scenario
    live: Run
    sim: Run
    compared: pl.DataFrame

    def rows(self, metrics: Iterable[str]) -> list[dict[str, object]]:
        """The rows of some metrics."""
        return [row for metric in metrics for row in self.compared.filter(metric=metric).to_dicts()]

    def as_dict(self) -> dict[str, object]:
        """Names of scenario and runs, and the rows of the page, as JSON values."""
        shown = self.compared.filter(pl.col("metric").is_in([*BOUNDS_PERCENT, *SHOWN_TOO]))
        rows = [row | {"bound_percent": BOUNDS_PERCENT.get(row["metric"])} for row in shown.to_dicts()]
        runs = {"live": str(self.live.path), "sim": str(self.sim.path)}
        return {"scenario": self.scenario.name, **runs, "metrics": rows}


def run_pairs(
    runs: Path, *, repeats: int | None, keep_live: bool, say: Callable[[str], None]
) -> Iterator[ScenarioPair]:
    """Runs every scenario of ``sim-vs-live`` on both backends.

    With ``keep_live`` the newest live run of the same scenario is reused, if one exists, because a change of
    the simulator only needs new simulations. All figures are over the second half of each run.
    """
    for name in shipped():
        if name.startswith(FOLDER):
            say(f"{name}: simulated, then live")
            pair = _run_pair(Scenario.load(name), runs, repeats, keep_live)
            for row in pair.rows(BOUNDS_PERCENT):
                say(f"  {_words(row)}")
            yield pair


def _run_pair(scenario: Scenario, runs: Path, repeats: int | None, keep_live: bool) -> ScenarioPair:
    sim = Experiment([scenario], repeats=repeats).run(out=runs, progress=False).run
    kept = _newest_live(scenario, runs) if keep_live else None
    live = kept or Experiment([scenario], repeats=repeats, backend="live").run(out=runs, progress=False).run
    half = (scenario.duration.s / 2, None)
    compared = compare_runs({"live": replace(live, window=half), "sim": replace(sim, window=half)})
    return ScenarioPair(scenario, live, sim, compared.drop("label"))


def _newest_live(scenario: Scenario, runs: Path) -> Run | None:
    """The newest live run of a scenario as it is now; runs of an earlier one of this name do not count."""
    named = [Store(path) for path in stores(runs) if path.name.startswith(f"{scenario.name}-live-")]
    same = [store for store in named if store.digests == [digest_of(scenario)]]
    return same[-1].run() if same else None


def page(pairs: Sequence[ScenarioPair]) -> Iterator[str]:
    """The generated part of the page."""
    yield "# Simulated against live"
    yield """\
Made by `rtclab validate scenarios`, which runs the scenarios of `sim-vs-live/` in the simulator and with
two real Chromiums through the emulator. Means are over repeats, each over the second half of the
call, with the 95 % interval in brackets. The difference is simulated minus live, in per cent of
live."""
    rate, rtt = (f"{BOUNDS_PERCENT[name]:g} %" for name in ("receiving_rate", "rtt"))
    yield f"Expected: rate within {rate}, round-trip time within {rtt}."
    for pair in pairs:
        scenario = pair.scenario
        yield f"## {scenario.title.removeprefix('Simulated against live: ')}"
        finished = ", ".join(
            f"{len(run.traces)} of {len(run.repeats)} repeats finished {how}"
            for run, how in ((pair.live, "live"), (pair.sim, "simulated"))
        )
        late_ns = [trace.manifest.lateness.p99_ns for trace in pair.live.traces if trace.manifest.lateness]
        figures = ", ".join(f"{p99_ns / 1e6:.1f}" for p99_ns in late_ns)
        late = f"; 99th percentile of the emulator's lateness in each repeat: {figures} ms" if late_ns else ""
        yield f"`{scenario.name}`, {scenario.duration}; {finished}{late}."
        heads = ["metric", "flow", "live", "simulated", "difference", "within bound"]
        yield table(heads, map(_cells, pair.rows((*BOUNDS_PERCENT, *SHOWN_TOO))), "llrrrl")
    if pairs:
        yield _machine(pairs[0].live)


def _cells(row: dict[str, object]) -> list[str]:
    """Metric, flow, live figure, simulated figure, their difference, and whether it is within the bound."""
    bound = BOUNDS_PERCENT.get(str(row["metric"]))
    percent = row["difference_percent"]
    if bound is None:
        within = ""
    elif not isinstance(percent, float):
        within = "not measured"
    else:
        within = "yes" if abs(percent) <= bound else f"**no** ({bound:g} %)"
    return [
        f"{row['metric']} ({row['unit']})" if row["unit"] else str(row["metric"]),
        str(row["flow"]),
        _figure(row["base"], row["base_low"], row["base_high"]),
        _figure(row["new"], row["new_low"], row["new_high"]),
        f"{percent:+.1f} %" if isinstance(percent, float) else "",
        within,
    ]


def _words(row: dict[str, object]) -> str:
    """One row of the page as a line for terminals."""
    metric, flow, live, sim, difference, within = _cells(row)
    if not difference:
        return f"{metric}, {flow}: not measured"
    verdict = within.replace("*", "")
    return f"{metric}, {flow}: live {live}, simulated {sim}, {difference}; within bound: {verdict}"


def _figure(mean: object, low: object, high: object) -> str:
    if not isinstance(mean, float):
        return ""
    return f"{mean:.4g} [{low:.4g}, {high:.4g}]" if isinstance(low, float) else f"{mean:.4g}"


def _machine(run: Run) -> str:
    """The machine and the versions of its programs, without the names of builds."""
    programs = [f"{name} {version}" for name, version in run.versions.items()]
    browsers = [trace.manifest.browser for trace in run.traces if trace.manifest.browser]
    if browsers:
        programs.append(f"browser {browsers[0].partition(' built on ')[0]}")
    hardware = ""
    if known := run.machine:
        kernel = ".".join(known.kernel.split(".")[:2])
        hardware = f"{known.cores} cores, {known.processor}, {known.system} {kernel}; "
    return f"Machine: {hardware}{', '.join(programs)}."
