"""A metric that needs packets gets them, and a wanted metric without a value says why."""

from __future__ import annotations

from math import isnan
from pathlib import Path

import pytest
from command_line import Rtclab

import rtclab as lab
from rtclab.errors import BadInput
from rtclab.experiment import Experiment
from rtclab.gates import gate
from rtclab.metrics import METRICS, Metric
from rtclab.scenario import Scenario
from rtclab.trace import Trace

LOSSY = {"link.up.loss": "2 %", "duration": "60 s"}
WINDOW = (20.0, 50.0)
NEED = [name for name, metric in METRICS.items() if metric.packets]
ALWAYS = [name for name, metric in METRICS.items() if metric.packets == "always"]


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def has_value(metric: Metric, trace: Trace) -> bool:
    """Whether a metric of a repeat has a value, whatever the registry says that it needs."""
    if metric.scope == "trace":
        return not isnan(metric.function(trace))
    flows = trace.flows if metric.scope == "flow" else []
    return any(not isnan(metric.function(trace, flow)) for flow in flows)


@pytest.mark.parametrize("window", [None, WINDOW], ids=["whole", "window"])
def test_the_registry_says_which_metrics_need_packets(window: tuple[float, float] | None) -> None:
    found: dict[str, set[str]] = {}
    for record in ("packets", "seconds"):
        trace = lab.simulate(Scenario.load("first-call", LOSSY | {"record": record})).within(window)
        found[record] = {name for name, metric in METRICS.items() if has_value(metric, trace)}
    needing = {name for name, metric in METRICS.items() if metric.needs_packets(in_window=window is not None)}
    assert found["packets"] - found["seconds"] == needing


@pytest.mark.parametrize("limits", [{}, {"begin": "20 s", "end": "50 s"}], ids=["whole", "window"])
@pytest.mark.usefixtures("here")
def test_a_sweep_without_traces_has_the_values_of_one_with_traces(limits: dict[str, str]) -> None:
    wanted = NEED if limits else ALWAYS
    vary = {"link.up.loss": ["2 %", "5 %"]}
    in_memory, kept = (
        lab.sweep("first-call", vary, repeats=1, duration="60 s", metrics=wanted, traces=traces, **limits)
        for traces in (False, True)
    )
    assert set(in_memory.metrics()["metric"]) == {*wanted}
    assert in_memory.metrics().rows() == kept.metrics().rows()


@pytest.mark.usefixtures("here")
def test_conditions_and_gates_record_what_their_metrics_need() -> None:
    scenario = Scenario.load("first-call", LOSSY | {"record": "seconds"})
    made = Experiment([scenario], repeats=1, metrics=["fec_share"], traces=False).run()
    assert set(made.metrics()["metric"]) == {"fec_share"}
    Path("suite.toml").write_text(
        'limits = ["fec_share < 100 %"]\n[scenarios.call]\nscenario = "first-call"\n'
        'duration = "10 s"\nset = { record = "seconds" }\n'
    )
    assert [check.verdict for check in gate("suite.toml", progress=False).checks] == ["holds", "holds"]
    with pytest.raises(BadInput, match="fec_share needs recorded packets; got record = `seconds`"):
        Experiment([scenario], metrics=["fec_share"])


@pytest.mark.usefixtures("here")
def test_a_metric_that_a_backend_does_not_know_is_refused_before_anything_runs() -> None:
    with pytest.raises(BadInput, match="memory: simulated calls do not know it; known: live"):
        lab.sweep("first-call", {"link.up.loss": ["0 %"]}, metrics=["memory"])
    assert not Path("runs").exists()


def test_commands_say_why_a_wanted_metric_has_no_value(rtclab: Rtclab) -> None:
    recorded = "fec_share has no value: it needs packets, and sums per second were recorded"
    nothing = "tcp_rtt has no value: nothing that it measures was there"
    options = ["--duration", "10s", "--repeats", "1", "--no-report"]
    sweep = ["sweep", "first-call", "--vary", "link.up.loss=0 %,2 %", *options]
    swept = rtclab(*sweep, "--metric", "fec_share")
    assert "fec_share (%)" in swept.out
    assert swept.err == ""
    assert nothing in rtclab(*sweep, "--metric", "tcp_rtt").err
    part = rtclab(*sweep, "--from", "5s")  # a sweep of a part of the time records packets
    assert "queuing_delay_p95" in part.out
    assert part.err == ""
    rtclab("run", "first-call", "--record", "seconds", *options)
    for command in (["measure", "latest"], ["compare", "latest", "latest"]):
        one = rtclab(*command, "--metric", "fec_share")
        assert recorded in one.err
        assert "flow" not in one.out
        both = rtclab(*command, "--metric", "tcp_rtt", "--metric", "rtt")
        assert nothing in both.err
        assert "alice->bob" in both.out
    with pytest.raises(BadInput, match=recorded):
        lab.open("latest").plot("fec_share")
