"""The gate: suites, baselines, verdicts, and their forms."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest
import scipy.stats
from command_line import Rtclab
from hypothesis import given, settings
from hypothesis import strategies as some
from markupsafe import escape
from rich.console import Console

import rtclab as package
from rtclab.cli import tables
from rtclab.cli.gating import show_result
from rtclab.errors import BadInput, RtclabError
from rtclab.experiment import digest_of
from rtclab.experiment.comparison import Side
from rtclab.gates import Baseline, GateResult, Suite, judge
from rtclab.gates.baseline import UNRELATED
from rtclab.gates.judge import one_sided
from rtclab.gates.page import answer
from rtclab.metrics.statistics import paired, summarise, welch
from rtclab.scenario import Scenario
from rtclab.trace import Repeat, Run, Status

FLOW = "alice->bob"
SUITE = """
duration = "4 s"
repeats = 3
{top}
[scenarios.call]
scenario = "first-call"
{own}
"""
RATE = 'compare = { receiving_rate = { relative = "5 %" } }'


def write_suite(own: str = "", top: str = "") -> None:
    Path("suite.toml").write_text(SUITE.format(own=own, top=top))


def suite_of(tmp_path: Path, own: str, top: str = "") -> Suite:
    file = tmp_path / "suite.toml"
    file.write_text(SUITE.format(own=own, top=top))
    return Suite.load(file)


def measured(
    *metrics: tuple[str, str, Sequence[float | None]], first_seed: int = 0, failed: Sequence[Status] = ()
) -> dict[str, Side]:
    """Values by metric and flow, one per repeat; ``failed`` has the states of further repeats."""
    repeats = len(metrics[0][2])
    values = {
        (metric, flow): {repeat: value for repeat, value in enumerate(of) if value is not None}
        for metric, flow, of in metrics
    }
    outcomes = [
        Repeat(number, first_seed + number, state, "" if state == "finished" else f"it {state}")
        for number, state in enumerate(["finished"] * repeats + [*failed])
    ]
    run = Run(path=Path(), name="call", backend="sim", scenario={}, repeats=outcomes, planned=len(outcomes))
    return {"call": Side(run, values)}


def rates(values: Sequence[float | None], first_seed: int = 0) -> dict[str, Side]:
    return measured(("receiving_rate", FLOW, values), first_seed=first_seed)


def judged(suite: Suite, before: dict[str, Side], now: dict[str, Side]) -> GateResult:
    return judge(suite, now, Baseline.of(suite, before, "test"))


def verdict(suite: Suite, before: dict[str, Side], now: dict[str, Side]) -> str:
    (check,) = judged(suite, before, now).checks
    return check.verdict


# The tests of significance

VALUES_OF_REPEATS = some.lists(some.floats(-1e6, 1e6).map(lambda x: round(x, 3)), min_size=2, max_size=12)


@settings(deadline=None)
@given(VALUES_OF_REPEATS, VALUES_OF_REPEATS, some.sampled_from([1, -1]))
def test_one_sided_p_values_are_those_of_scipy(a: list[float], b: list[float], sign: int) -> None:
    side = "greater" if sign == 1 else "less"
    if np.ptp(a) and np.ptp(b):
        p = scipy.stats.ttest_ind(b, a, equal_var=False, alternative=side).pvalue
        assert one_sided(welch(summarise(a), summarise(b)), sign) == pytest.approx(p, rel=1e-6, abs=1e-9)
    both = min(len(a), len(b))
    differences = np.subtract(b[:both], a[:both])
    if np.ptp(differences) > 1e-6 * np.abs(differences).max():
        p = scipy.stats.ttest_1samp(differences, 0, alternative=side).pvalue
        assert one_sided(paired(a[:both], b[:both]), sign) == pytest.approx(p, rel=1e-5, abs=1e-9)


def test_a_constant_difference_is_certain_and_none_is_not() -> None:
    assert one_sided(paired([1, 2, 3], [2, 3, 4]), 1) == 0
    assert one_sided(paired([1, 2, 3], [2, 3, 4]), -1) == 1
    assert one_sided(paired([1, 2, 3], [1, 2, 3]), 1) == 0.5


# Verdicts

BEFORE = [100.0, 102.0, 98.0, 101.0, 99.0]


@pytest.mark.parametrize(
    ("now", "expected"),
    [
        ([value - 6 for value in BEFORE], "worse"),  # beyond 5 %, and by the same in every pair
        ([value - 4.9 for value in BEFORE], "not worse"),  # as certain, but within 5 %
        ([value + 6 for value in BEFORE], "better"),
        ([value + 4.9 for value in BEFORE], "not worse"),
        ([0, 200, 50, 180, 30.0], "undecided"),  # 8 % less, but in two of five repeats it is far more
        ([None, None, None, None, 100.0], "not measured"),  # one value
        ([None, None, None, 100.0, 100.0], "not measured"),  # less than half of the five
        ([None, None, 98.0, 101.0, 99.0], "not worse"),
        ([None] * 5, "not measured"),
    ],
)
def test_worse_is_beyond_the_margin_and_more_than_chance(
    tmp_path: Path, now: Sequence[float | None], expected: str
) -> None:
    result = judged(suite_of(tmp_path, RATE), rates(BEFORE), rates(now))
    (check,) = result.checks
    assert check.verdict == expected
    assert result.passed is (expected not in ("worse", "not measured"))


def test_lower_is_better_of_a_delay(tmp_path: Path) -> None:
    suite = suite_of(tmp_path, 'compare = { rtt = { absolute = "0.005 s" } }')
    before = measured(("rtt", FLOW, BEFORE))
    assert verdict(suite, before, measured(("rtt", FLOW, [value + 6 for value in BEFORE]))) == "worse"
    assert verdict(suite, before, measured(("rtt", FLOW, [value + 4 for value in BEFORE]))) == "not worse"
    assert verdict(suite, before, measured(("rtt", FLOW, [value - 6 for value in BEFORE]))) == "better"


def test_the_margin_is_the_larger_of_the_two(tmp_path: Path) -> None:
    suite = suite_of(tmp_path, 'compare = { rtt = { relative = "10 %", absolute = "5 ms" } }')
    for before, allowed in (([20.0, 20.0], 5), ([200.0, 200.0], 20)):
        now = measured(("rtt", FLOW, [value + allowed + 1 for value in before]))
        (check,) = judged(suite, measured(("rtt", FLOW, before)), now).checks
        assert (check.margin, check.verdict) == (allowed, "worse")


def test_values_of_other_repeats_than_the_baselines_are_not_compared(tmp_path: Path) -> None:
    """The repeats that are left now are those without a value in the baseline, which were easy or hard."""
    suite = suite_of(tmp_path, RATE)
    before, now = [100.0, 100, 100, None, None, None], [None, None, 100, 50, 50, 50.0]
    assert verdict(suite, rates(before), rates(now)) == "not measured"


def test_repeats_with_the_same_seeds_are_compared_in_pairs(tmp_path: Path) -> None:
    before = [100.0, 200.0, 300.0, 400.0]
    now = [value - 20 - index for index, value in enumerate(before)]
    suite = suite_of(tmp_path, RATE)
    assert verdict(suite, rates(before), rates(now)) == "worse"
    assert verdict(suite, rates(before), rates(now, first_seed=100)) == "undecided"  # 20 of 100 by chance


def test_live_repeats_are_not_paired(tmp_path: Path) -> None:
    before = [100.0, 200.0, 300.0, 400.0]
    suite = suite_of(tmp_path, RATE)
    condition = suite.conditions["call"]
    live = Suite(
        "live",
        {"call": type(condition)(condition.scenario, "live", 4, (), condition.margins)},
        suite.baseline,
    )
    now = [value - 20 - index for index, value in enumerate(before)]
    assert verdict(live, rates(before), rates(now)) == "undecided"


def test_all_comparisons_of_the_suite_are_corrected_together(tmp_path: Path) -> None:
    suite = suite_of(tmp_path, RATE)
    random = np.random.default_rng(3)
    before = random.normal(100, 5, 20)
    now = before - random.normal(6, 11, 20)  # a one-sided p of some 1 %
    (alone,) = judged(suite, rates([*before]), rates([*now])).checks
    assert alone.p is not None
    assert 0.001 < alone.p < 0.05
    assert alone.verdict == "worse"
    others = [("receiving_rate", f"{number}->bob", [*random.normal(100, 5, 20)]) for number in range(50)]
    many = judged(
        suite,
        measured(("receiving_rate", FLOW, [*before]), *others),
        measured(("receiving_rate", FLOW, [*now]), *others),
    )
    same = next(check for check in many.checks if check.flow == FLOW)
    assert (same.p, same.verdict) == (alone.p, "undecided")


def test_a_flow_that_the_baseline_lacks_passes_and_says_so(tmp_path: Path) -> None:
    now = measured(("receiving_rate", FLOW, BEFORE), ("receiving_rate", "bob->alice", BEFORE))
    result = judged(suite_of(tmp_path, RATE), rates(BEFORE), now)
    assert {check.flow: check.verdict for check in result.checks} == {FLOW: "not worse", "bob->alice": "new"}
    assert result.passed


@pytest.mark.parametrize(
    ("limits", "failed", "passes"),
    [
        ('["receiving_rate > 1 kbit/s"]', ["failed"], False),
        ('["receiving_rate > 1 kbit/s", "call_failures <= 20 %"]', ["failed"], True),
        ('["receiving_rate > 1 kbit/s", "call_failures <= 20 %"]', ["error"], False),
    ],
)
def test_a_failed_repeat_fails_the_gate_unless_a_limit_is_about_it(
    tmp_path: Path, limits: str, failed: list[str], passes: bool
) -> None:
    suite = suite_of(tmp_path, f"limits = {limits}")
    now = measured(("receiving_rate", FLOW, BEFORE), ("call_failures", "", [0.0] * 5), failed=failed)
    result = judge(suite, now, None)
    assert result.passed is passes
    if not passes:
        assert result.sentences() == [f"call: 1 of 6 repeats failed; the first is repeat 5: it {failed[0]}"]


# Measuring


def test_values_are_those_of_a_run(tmp_path: Path) -> None:
    limits = [f"{name} >= 0{unit}" for name, unit in (("receiving_rate", " kbit/s"), ("rtt_p95", " ms"))]
    limits += ["inter_arrival_p95 >= 0 ms", "fairness >= 0", "call_failures <= 0 %"]
    made = package.gate(suite_of(tmp_path, f"limits = {json.dumps(limits)}"), progress=False).measured["call"]
    run = package.run("first-call", duration="4 s", repeats=3, out=tmp_path, progress=False)
    of_run = run.sides(totals_per_minute=False)["first-call"]
    assert len(made.values) == 2 * 3 + 1 + 1  # of both directions; of the call; of the repeat
    assert made.values == {key: of_run.values[key] for key in made.values}
    assert [one.seed for one in made.run.repeats] == [one.seed for one in run.repeats]
    assert made.by_flow("call_failures") == {"": {0: 0.0, 1: 0.0, 2: 0.0}}


def test_a_call_that_fails_is_an_outcome(tmp_path: Path) -> None:
    suite = suite_of(
        tmp_path, 'set = { "link.up.loss" = "100 %" }\nlimits = ["call_failures <= 100 %"]\n' + RATE
    )
    made = package.gate(suite, progress=False, update_baseline="dead").measured
    assert [one.status for one in made["call"].run.repeats] == ["failed"] * 3
    assert made["call"].values == {("call_failures", ""): {0: 100.0, 1: 100.0, 2: 100.0}}
    with pytest.raises(RtclabError, match=r"unchanged, because of call: 3 of 3 repeats failed"):
        Baseline.of(suite_of(tmp_path, RATE), made, "dead")


# A part of the time

WINDOWED = """
duration = "20 s"
repeats = 2
begin = "10 s"
[scenarios.fall]
scenario = "first-call"
set = {{ "link.up.capacity" = {{ steps = [["0 s", "1 Mbit/s"], ["10 s", "300 kbit/s"]] }} }}
{own}
"""


def windowed(tmp_path: Path, own: str) -> Path:
    file = tmp_path / "suite.toml"
    file.write_text(WINDOWED.format(own=own))
    return file


def test_limits_and_the_baseline_are_of_the_time_that_a_gate_checks(tmp_path: Path) -> None:
    file = windowed(tmp_path, 'limits = ["receiving_rate of alice->bob < 320 kbit/s"]\n' + RATE)
    late = package.gate(file, update_baseline="the first", progress=False)
    assert late.passed
    assert late.verdict() == "passed: 1 check in 1 scenario, from 10 s on"
    assert late.as_dict()["window"] == (10.0, None)
    (early,) = package.gate(Suite.load(file, begin=0, end="10 s"), progress=False, update_baseline="x").checks
    assert early.verdict == "broken"
    again = package.gate(file, progress=False)
    assert [check.difference for check in again.checks if check.compares] == [0.0, 0.0]
    with pytest.raises(BadInput, match="it measured from 10 s on, and the gate checks from 5 s on"):
        package.gate(file, begin="5 s", progress=False)


@pytest.mark.parametrize(
    ("own", "begin", "message"),
    [
        (
            'limits = ["call_failures <= 0 %"]',
            None,
            "`call_failures` is of whole repeats, and",
        ),
        (RATE, "20 s", "scenarios.fall: it ends at 20 s, and the gate checks from 20 s on"),
        (RATE, "-1 s", "begin: "),
        (RATE, "later", "begin: cannot read `later`"),
    ],
)
def test_a_time_that_a_gate_cannot_check_is_refused(
    tmp_path: Path, own: str, begin: str | None, message: str
) -> None:
    with pytest.raises(BadInput, match=re.escape(message)):
        package.gate(windowed(tmp_path, own), begin=begin, progress=False)


# Suites


@pytest.mark.parametrize(
    ("own", "top", "message"),
    [
        ('limits = ["rtt95 < 1 s"]', "", "scenarios.call.limits.0: no metric `rtt95`\n  hint: did you mean"),
        ('limits = ["rtt < 1"]', "", "scenarios.call.limits.0: no unit in `1`, a value of `rtt`; expected"),
        (
            "",
            'limits = ["rtt of a->b < 1 s"]',
            "limits.0: no flow `a->b` in first-call; expected `alice->bob`",
        ),
        (
            'compare = { rtt95 = { relative = "5 %" } }',
            "",
            "scenarios.call.compare.rtt95: no metric `rtt95`\n  hint: did you mean `rtt_p95`?",
        ),
        (
            'compare = { rtt = { absolute = "5" } }',
            "",
            "scenarios.call.compare.rtt: no unit in `5`, a value of `rtt`; expected ns, us, ms, s or min",
        ),
        (
            'compare = { rtt = { relative = "0.05" } }',
            "",
            "scenarios.call.compare.rtt.relative: cannot read `0.05` as a share; expected a number in %",
        ),
        (
            'compare = { rtt = { absolute = "-5 ms" } }',
            "",
            "scenarios.call.compare.rtt: `-5 ms` is negative; expected an amount of at least 0",
        ),
        ("compare = { rtt = {} }", "", "scenarios.call.compare.rtt: no margin"),
        (
            'compare = { sending_rate = { relative = "5 %" } }',
            "",
            "scenarios.call.compare.sending_rate: `sending_rate` is better neither higher nor lower",
        ),
        (
            'compare = { call_failures = { absolute = "5 %" } }',
            "",
            "scenarios.call.compare.call_failures: `call_failures` is one value of all repeats together",
        ),
        (
            f"{RATE}\nrepeats = 1",
            "",
            "scenarios.call.repeats: 1 repeat cannot be compared; expected at least 2",
        ),
        ("", "", "scenarios.call: nothing to check"),
        (f"{RATE}\nduration = '4'", "", "scenarios.call: duration: no unit in `4`"),
        (
            f"{RATE}\nset = {{ 'link.up.capacity' = '1' }}",
            "",
            "scenarios.call: set: link.up.capacity: no unit",
        ),
        (f"{RATE}\nbackend = 'simulator'", "", "scenarios.call.backend: unknown value `simulator`; expected"),
        (RATE, "limit = []", "limit: unknown key; expected"),
        (f"{RATE}\nrepeats = 0", "", "scenarios.call.repeats: should be greater than or equal to 1; got `0`"),
    ],
)
def test_an_invalid_suite_is_refused_in_a_sentence_that_names_the_field(
    rtclab: Rtclab, own: str, top: str, message: str
) -> None:
    write_suite(own, top)
    result = rtclab("gate", "suite.toml")
    assert (result.status, result.out) == (2, "")
    assert result.err.startswith(f"suite.toml: {message}"), result.err
    assert "Traceback" not in result.err


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "suite.toml: scenarios: missing"),
        ("[scenarios]", "suite.toml: scenarios: expected a length of at least 1; got 0"),
        ("[scenarios.call]", "suite.toml: scenarios.call.scenario: missing"),
        ("scenarios = [", "suite.toml: not TOML: "),
        (
            '[scenarios.call]\nscenario = "frist-call"',
            "suite.toml: scenarios.call: no scenario `frist-call`: neither a shipped scenario nor a file in "
            "`.`\n  hint: did you mean `first-call`?",
        ),
    ],
)
def test_a_suite_without_scenarios_is_refused(rtclab: Rtclab, text: str, message: str) -> None:
    Path("suite.toml").write_text(text)
    result = rtclab("gate", "suite.toml")
    assert result.status == 2
    assert result.err.startswith(message), result.err


def test_a_missing_suite_is_refused(rtclab: Rtclab) -> None:
    result = rtclab("gate", "siute.toml")
    assert (result.status, result.err) == (2, "no suite `siute.toml`: there is no such file\n")


def test_scenarios_are_found_beside_the_suite_and_what_is_above_is_the_default(tmp_path: Path) -> None:
    (tmp_path / "suites").mkdir()
    (tmp_path / "suites" / "mine.toml").write_text('name = "mine"\nextends = "first-call"\n')
    (tmp_path / "suites" / "nightly.toml").write_text(
        'duration = "4 s"\nrepeats = 3\nlimits = ["rtt < 1 s"]\ncompare = { rtt = { relative = "5 %" } }\n'
        '[scenarios.a]\nscenario = "mine.toml"\nset = { "link.up.loss" = "1 %" }\n'
        '[scenarios.b]\nscenario = "first-call"\nduration = "5 s"\nrepeats = 2\nlimits = ["nacks < 9"]\n'
        'compare = { rtt = { relative = "9 %" }, jitter = { absolute = "1 ms" } }\n'
    )
    suite = Suite.load(tmp_path / "suites" / "nightly.toml")
    a, b = suite.conditions.values()
    assert suite.baseline == tmp_path / "suites" / "nightly-baseline.json"
    assert (a.scenario.name, a.scenario.duration.s, a.repeats) == ("mine", 4, 3)
    assert a.scenario.link_of("bob").up.loss.value == 0.01  # type: ignore[union-attr]
    assert (b.scenario.duration.s, b.repeats, [*map(str, b.limits)]) == (5, 2, ["rtt < 1 s", "nacks < 9"])
    assert (b.margins["rtt"].relative, b.metrics) == (0.09, ["rtt", "nacks", "jitter"])


# Baselines


def test_a_gate_from_its_first_baseline_to_a_regression(rtclab: Rtclab) -> None:
    write_suite(RATE, 'limits = ["rtt_p95 < 10 s"]')
    without = rtclab("gate", "suite.toml")
    assert without.status == 0
    assert "suite-baseline.json does not exist, so only limits were checked" in without.err
    assert "does not exist, so only limits were checked" in rtclab("gate", "suite.toml", "--quiet").err
    assert "suite passed: 1 check in 1 scenario" in without.out

    written = rtclab("gate", "suite.toml", "--update-baseline", "--reason", "the first")
    assert written.status == 0
    kept = json.loads(Path("suite-baseline.json").read_text())
    assert (kept["reason"], kept["rtclab"]) == ("the first", package.__version__)
    assert kept["scenarios"]["call"]["digest"] == digest_of(
        Scenario.load("first-call", {"duration": "4 s", "seed": 7, "repeats": 50}), UNRELATED
    )
    flows = kept["scenarios"]["call"]["metrics"]["receiving_rate"]["flows"]
    assert {flow: len(values) for flow, values in flows.items()} == {FLOW: 3, "bob->alice": 3}

    same = rtclab("gate", "suite.toml")
    assert same.status == 0
    assert "suite passed: 2 checks in 1 scenario" in same.out
    assert same.err == f"Baseline of rtclab {package.__version__}: the first\n"

    flows[FLOW] = [1.1 * value for value in flows[FLOW]]
    Path("suite-baseline.json").write_text(json.dumps(kept))
    worse = rtclab("gate", "suite.toml")
    assert worse.status == 1
    assert re.search(
        r"^call: receiving_rate of alice->bob: [\d.]+ before, [\d.]+ kbit/s now: [\d.]+ kbit/s lower "
        r"\(9\.1 %\), allowed [\d.]+ kbit/s, p = ",
        worse.out,
        re.MULTILINE,
    )
    assert worse.out.endswith("suite failed: 1 of 2 checks, in 1 of 1 scenario\n")
    assert not [*Path().glob("runs")]


def test_a_broken_limit_fails_the_gate(rtclab: Rtclab) -> None:
    write_suite('limits = ["rtt_p95 of bob->alice < 0.01 s"]')
    result = rtclab("gate", "suite.toml")
    assert result.status == 1
    reason = r"^call: rtt_p95 of bob->alice < 0.01 s: [\d.]+ ms, [\d.]+ ms too high, in 3 of 3 repeats\."
    assert re.search(f"{reason} Why: bob → alice: ", result.out, re.MULTILINE)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda text: text[: len(text) // 2], "suite-baseline.json: not JSON: "),
        (lambda text: "", "suite-baseline.json: not JSON: "),
        (lambda text: "[]", "suite-baseline.json: expected a table; got"),
        (lambda text: text.replace('"reason"', '"raeson"'), "suite-baseline.json: raeson: unknown key"),
        (
            lambda text: re.sub(r'("alice->bob": \[) [\d.]+,', r"\1", text),
            "suite-baseline.json: scenarios.call.metrics.receiving_rate.flows.alice->bob: 2 values of 3",
        ),
        (
            lambda text: re.sub(r'("alice->bob": \[) [\d.]+,', r"\1 NaN,", text),
            "suite-baseline.json: scenarios.call.metrics.receiving_rate.flows.alice->bob.0",
        ),
        (
            lambda text: re.sub(r'"digest": "..', '"digest": "xy', text),
            "suite-baseline.json: call: it measured another scenario\n  hint: if the change is wanted",
        ),
        (
            lambda text: text.replace('"sim"', '"live"'),
            "suite-baseline.json: call: it was measured with backend live, not sim\n  hint: if the change",
        ),
        (
            lambda text: text.replace('"kbit/s"', '"Mbit/s"'),
            "suite-baseline.json: call: it has `receiving_rate` in Mbit/s, not in kbit/s\n  hint: if the",
        ),
    ],
)
def test_a_baseline_that_does_not_fit_is_refused_before_anything_runs(
    rtclab: Rtclab, monkeypatch: pytest.MonkeyPatch, change: Callable[[str], str], message: str
) -> None:
    write_suite(RATE)
    assert rtclab("gate", "suite.toml", "--update-baseline", "--reason", "the first").status == 0
    file = Path("suite-baseline.json")
    file.write_text(change(file.read_text()))
    with monkeypatch.context() as patched:
        patched.delattr("rtclab.gates.Experiment")  # nothing may run
        result = rtclab("gate", "suite.toml")
    assert (result.status, result.out) == (2, "")
    assert result.err.startswith(message), result.err
    assert "--update-baseline" in result.err
    assert rtclab("gate", "suite.toml", "--update-baseline", "--reason", "again").status == 0
    assert rtclab("gate", "suite.toml").status == 0


def test_a_run_that_breaks_a_limit_is_no_baseline(rtclab: Rtclab) -> None:
    write_suite(RATE, 'limits = ["rtt_p95 < 1 ms"]')
    result = rtclab("gate", "suite.toml", "--update-baseline", "--reason", "the first")
    assert result.status == 1
    assert result.err == "suite-baseline.json was not written, because a limit is broken.\n"
    assert not Path("suite-baseline.json").exists()


def test_a_changed_scenario_makes_the_baseline_one_of_another(rtclab: Rtclab) -> None:
    write_suite(RATE)
    assert rtclab("gate", "suite.toml", "--update-baseline", "--reason", "the first").status == 0
    write_suite(f"{RATE}\nset = {{ 'link.up.capacity' = '2 Mbit/s' }}")
    result = rtclab("gate", "suite.toml")
    assert result.status == 2
    assert result.err.startswith("suite-baseline.json: call: it measured another scenario")


@pytest.mark.parametrize(
    ("kept", "message"),
    [
        (None, "suite-baseline.json: the suite requires this baseline, which does not exist"),
        (RATE, "suite-baseline.json: it has no `rtt` of call"),
    ],
)
def test_a_suite_can_require_its_baseline(rtclab: Rtclab, kept: str | None, message: str) -> None:
    if kept is not None:
        write_suite(kept)
        assert rtclab("gate", "suite.toml", "--update-baseline", "--reason", "the first").status == 0
    write_suite('compare = { rtt = { relative = "5 %" } }', "require_baseline = true")
    result = rtclab("gate", "suite.toml")
    assert result.status == 2
    assert result.err.startswith(message)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--update-baseline"], "--update-baseline and --reason: expected both or neither"),
        (["--reason", "why"], "--update-baseline and --reason: expected both or neither"),
        (["--update-baseline", "--reason", " "], "update_baseline: the reason is empty"),
    ],
)
def test_a_new_baseline_needs_a_reason(rtclab: Rtclab, options: list[str], message: str) -> None:
    write_suite(RATE)
    result = rtclab("gate", "suite.toml", *options)
    assert result.status == 2
    assert result.err.startswith(message)
    assert not Path("suite-baseline.json").exists()


def test_a_suite_of_limits_alone_has_no_baseline(rtclab: Rtclab) -> None:
    write_suite('limits = ["rtt < 10 s"]')
    assert rtclab("gate", "suite.toml").err == ""
    result = rtclab("gate", "suite.toml", "--update-baseline", "--reason", "why")
    assert (result.status, result.err) == (
        2,
        "suite: nothing to keep in a baseline\n  hint: add `compare`\n",
    )


def test_a_baseline_is_read_as_it_was_written(tmp_path: Path) -> None:
    suite = suite_of(tmp_path, RATE)
    baseline = Baseline.of(suite, rates([1.5, None, 1 / 3]), 'a "reason" with [\n1\n] in it')
    baseline.write(tmp_path / "kept.json")
    assert Baseline.load(tmp_path / "kept.json") == baseline
    assert "[ 1.5, null, 0.3333333333333333 ]" in (tmp_path / "kept.json").read_text()
    assert Baseline.load(tmp_path / "none.json") is None


# Forms


def failing_result(tmp_path: Path) -> GateResult:
    suite = suite_of(tmp_path, f'{RATE}\nlimits = ["rtt < 50 ms"]')
    now = [value - 10 for value in BEFORE]
    return judged(
        suite,
        measured(("receiving_rate", FLOW, BEFORE)),
        measured(("receiving_rate", FLOW, now), ("receiving_rate", "b|<i>->a", now), ("rtt", FLOW, BEFORE)),
    )


def test_junit_has_a_test_for_each_check_and_the_reasons(tmp_path: Path) -> None:
    result = failing_result(tmp_path)
    root = ElementTree.fromstring(result.junit())
    assert root.tag == "testsuites"
    (suite,) = root
    assert {name: suite.get(name) for name in ("name", "tests", "failures", "errors", "skipped")} == {
        "name": "call",
        "tests": "2",
        "failures": "2",
        "errors": "0",
        "skipped": "0",
    }
    tests = {one.get("name"): one for one in suite}
    assert [*tests] == ["rtt < 50 ms", "receiving_rate"]
    assert {one.get("classname") for one in suite} == {"suite.call"}
    messages = [failure.get("message") for failure in suite.iter("failure")]
    assert [f"call: {message}" for message in messages] == result.sentences()


def test_junit_skips_what_the_baseline_lacks_and_survives_control_characters(tmp_path: Path) -> None:
    suite = suite_of(tmp_path, RATE)
    now = measured(("receiving_rate", "bob->alice", BEFORE), failed=["failed"])
    run = now["call"].run
    repeats = [replace(one, reason="died \x1b[31m of \x00 it") for one in run.repeats]
    now = {"call": replace(now["call"], run=replace(run, repeats=repeats))}
    none = measured(("rtt", FLOW, BEFORE))
    root = ElementTree.fromstring(judged(suite, none, now).junit())
    assert (root.get("tests"), root.get("failures"), root.get("skipped")) == ("2", "1", "1")
    assert "died \\u001b[31m of \\u0000 it" in str(next(root.iter("failure")).get("message"))


def test_markdown_has_a_row_for_each_check_with_the_worst_flow(tmp_path: Path) -> None:
    text = failing_result(tmp_path).markdown()
    assert text.startswith("### Gate `suite` failed: 2 of 2 checks, in 1 of 1 scenario\n")
    rows = [line for line in text.splitlines() if line.startswith("|")]
    assert len(rows) == 4
    assert {len(re.findall(r"(?<!\\)\|", row)) for row in rows} == {9}
    assert "| call | `rtt < 50 ms` | `alice->bob` |  | 100.0 ms |  |  | **broken** |" in rows
    assert any("-10.0 %" in row and "**worse**" in row for row in rows)
    assert "- call: rtt &lt; 50 ms: 100.0 ms for alice->bob, 50.00 ms too high, in 5 of 5 repeats" in text


def test_the_page_shows_every_flow_and_no_markup_of_names(tmp_path: Path) -> None:
    page = failing_result(tmp_path).report(tmp_path / "new" / "gate.html").read_text()
    assert '<span class="mark bad">Failed</span>: 2 of 2 checks, in 1 of 1 scenario.' in page
    assert "b|&lt;i&gt; → a" in page
    assert "<i>" not in page
    assert not re.findall(r"(?:src|href)=\"https?:", page)


def test_a_failure_says_how_far_over_and_whether_it_is_new(tmp_path: Path) -> None:
    limits = 'limits = ["receiving_rate > 96 kbit/s", "receiving_rate > 101 kbit/s", "rtt < 50 ms"]'
    now = [value - 10 for value in BEFORE]
    both = measured(("receiving_rate", FLOW, now), ("rtt", FLOW, BEFORE))
    result = judged(suite_of(tmp_path, f"{RATE}\n{limits}"), rates(BEFORE), both)
    told = {check.check: (check.since, check.over_percent) for check in result.checks}
    # The rate was 100 kbit/s and is 90: below 96 it is new, below 101 it was so before, and 95 would pass.
    assert told == {
        "receiving_rate > 96 kbit/s": ("new", pytest.approx(100 * 6 / 96)),
        "receiving_rate > 101 kbit/s": ("old", pytest.approx(100 * 11 / 101)),
        "rtt < 50 ms": ("", pytest.approx(100)),
        "receiving_rate": ("new", pytest.approx(100 * 5 / 95)),
    }
    found = answer(result)
    assert "Worst is rtt &lt; 50 ms in call: 100 % beyond what is allowed." in escape(found.how)
    assert "New since the baseline: 2 of 3; it does not tell of 1 more." in found.how
    assert [one.about.count("new since the baseline") for one in found.figures] == [0, 0, 1, 1]
    assert [step.command for step in found.steps] == ["rtclab run first-call --repeats 3 --duration 4s"]


def test_a_gate_that_fails_by_comparisons_alone_says_how_to_keep_them(tmp_path: Path) -> None:
    result = judged(suite_of(tmp_path, RATE), rates(BEFORE), rates([value - 10 for value in BEFORE]))
    (run, keep) = answer(result).steps
    assert run.command.startswith("rtclab run first-call")
    assert keep.command.endswith("suite.toml --update-baseline --reason WHY")


def test_the_page_of_a_gate_that_passes_or_has_nothing_measured(tmp_path: Path) -> None:
    suite = suite_of(tmp_path, f'{RATE}\nlimits = ["rtt < 500 ms"]')
    passed = judge(suite, measured(("rtt", FLOW, BEFORE), ("receiving_rate", FLOW, BEFORE)), None)
    page = passed.report(tmp_path / "passed.html").read_text()
    assert '<span class="mark good">Passed</span>: 1 check in 1 scenario.' in page
    assert 'id="failing"' not in page
    nothing = judge(suite, measured(("packet_loss", FLOW, BEFORE), failed=["failed"]), None)
    page = nothing.report(tmp_path / "nothing.html").read_text()
    assert "Worst is rtt &lt; 500 ms in call: not measured." in page
    assert "1 of 6 repeats failed" in page
    assert "No check holds." in page


def test_the_command_of_a_scenario_changes_what_the_suite_changes(tmp_path: Path) -> None:
    change = 'set = { "link.up.capacity" = "2 Mbit/s", "audio" = false }\nlimits = ["rtt < 1 s"]'
    (condition,) = suite_of(tmp_path, change).conditions.values()
    expected = (
        "rtclab run first-call --repeats 3 --duration 4s --set 'link.up.capacity=2 Mbit/s' --set audio=false"
    )
    assert condition.command == expected
    long = suite_of(tmp_path, f'set = {{ "title" = "{"x" * 80}" }}\nlimits = ["rtt < 1 s"]')
    assert long.conditions["call"].command == ""


def test_the_table_on_a_narrow_terminal_is_no_wider_and_says_what_it_leaves_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def console() -> Console:
        return Console(width=80, force_terminal=True, color_system=None, markup=False, highlight=False)

    monkeypatch.setattr(tables, "_console", console)
    show_result(failing_result(tmp_path), quiet=False)
    out = capsys.readouterr().out
    table, _, rest = out.partition("\n\n")
    assert 60 < max(map(len, table.splitlines())) <= 80
    assert "not worse" in table or "worse" in table
    assert rest.startswith("the terminal is too narrow for: ")


def test_every_form_is_written_by_the_command(rtclab: Rtclab) -> None:
    write_suite('limits = ["rtt_p95 < 1 ms"]')
    files = {"junit": "ci/gate.xml", "markdown": "gate.md", "page": "gate.html"}
    options = [text for name, file in files.items() for text in (f"--{name}", file)]
    result = rtclab("gate", "suite.toml", "--json", *options)
    assert result.status == 1
    known = json.loads(result.out)
    assert (known["passed"], len(known["reasons"]), len(known["checks"])) == (False, 2, 2)
    assert known["checks"][0]["verdict"] == "broken"
    assert ElementTree.parse("ci/gate.xml").getroot().get("failures") == "1"
    assert known["reasons"][0].replace("<", "&lt;") in Path("gate.md").read_text()
    page = Path("gate.html").read_text()
    assert '<h2 id="failing">What fails</h2>' in page
    assert "rtclab run first-call --repeats 3 --duration 4s</code>" in page


def test_the_function_of_the_package_has_the_same_result(tmp_path: Path) -> None:
    suite_of(tmp_path, 'limits = ["rtt_p95 < 1 ms"]')
    result = package.gate(tmp_path / "suite.toml", progress=False)
    assert isinstance(result, package.GateResult)
    assert not result.passed
    table = result.table()
    assert table["verdict"].to_list() == ["broken", "broken"]
    assert table["base"].to_list() == [1.0, 1.0]
    with pytest.raises(BadInput, match="no suite"):
        package.gate(tmp_path / "none.toml")


# rtclab run --assert


RUN = ("run", "first-call", "--duration", "4s", "--repeats", "2", "--no-report")


def test_a_run_whose_limit_does_not_hold_ends_with_status_1_and_says_why(rtclab: Rtclab) -> None:
    holds = rtclab(*RUN, "--assert", "rtt_p95 < 10 s", "--assert", "freeze_duration <= 1 s")
    assert holds.status == 0
    assert re.search(r"^holds: rtt_p95 < 10 s: .* ms for \S+, the worst of 2 flows$", holds.out, re.MULTILINE)
    assert holds.out.count("holds: ") == 2
    broken = rtclab(*RUN, "--assert", "rtt_p95 < 10 s", "--assert", "rtt of alice->bob < 1 ms")
    assert broken.status == 1
    assert re.search(
        r"^FAILED: rtt of alice->bob < 1 ms: [\d.]+ ms, [\d.]+ ms too high, in 2 of 2 repeats\. "
        r"Why: alice → bob: limited by its start, from which it still grew for \d+ % of the time\.$",
        broken.out,
        re.MULTILINE,
    )
    quiet = rtclab(*RUN, "--quiet", "--assert", "rtt of alice->bob < 1 ms", "--assert", "rtt_p95 < 10 s")
    assert (quiet.status, quiet.out.count("\n"), quiet.err.count("FAILED: ")) == (1, 1, 1)
    assert "FAILED: rtt of alice->bob" in quiet.err

    unknown = rtclab(*RUN, "--assert", "tcp_rtt < 1 s")
    assert unknown.status == 1
    assert "FAILED: tcp_rtt < 1 s: not measured\n" in unknown.out
    resumed = rtclab(
        "run", "--resume", "latest", "--no-report", "--json", "--assert", "nacks of bob->alice < 0"
    )
    assert resumed.status == 1
    (limit,) = json.loads(resumed.out)["limits"]
    assert (limit["flow"], limit["verdict"], limit["broken"]) == ("bob->alice", "broken", 2)


@pytest.mark.parametrize(
    ("limit", "message"),
    [
        ("rtt < 5", "--assert: no unit in `5`, a value of `rtt`; expected ns, us, ms, s or min"),
        ("rtt of a->b < 5 ms", "--assert: no flow `a->b` in first-call; expected `alice->bob` or"),
    ],
)
def test_a_limit_that_cannot_be_read_is_refused_before_anything_runs(
    rtclab: Rtclab, limit: str, message: str
) -> None:
    result = rtclab(*RUN, "--assert", limit)
    assert (result.status, result.out) == (2, "")
    assert result.err.startswith(message)
    assert not Path("runs").exists()
