"""Random conditions: their distribution, the rows kept of them, and the figures made from the rows."""

from __future__ import annotations

import math
from math import nan
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from synthetic_run import trace

from rtclab.campaigns.disturbance import SLOWEST_ENCODER_MS
from rtclab.errors import BadInput
from rtclab.scenario import Scenario
from rtclab.scenario.path import CapacitySteps, GilbertElliott, PathSpec
from rtclab.trace import Lateness, Run, only_writer
from rtclab.validate import twin
from rtclab.validate.campaign import disturbance
from rtclab.validate.conditions import DURATION_S, draw
from rtclab.validate.twin import (
    COMPARED,
    Outcome,
    Pair,
    expected,
    outcome_of,
    outcomes,
    read_rows,
    write_rows,
)
from rtclab.validate.twin_page import drawings, figures, ticks, write_twin

SEEDS = range(1, 401)


@pytest.fixture(scope="module")
def drawn() -> list[Scenario]:
    return [draw(seed).scenario for seed in SEEDS]


def uplinks(scenarios: list[Scenario]) -> list[PathSpec]:
    """The uplinks of all participants."""
    return [scenario.link_of(name).up for scenario in scenarios for name in scenario.participants]


def mean_loss(path: PathSpec) -> float:
    """The mean loss of a path as a ratio."""
    if path.loss is None:
        return 0.0
    if isinstance(path.loss, GilbertElliott):
        return path.loss.p.value / (path.loss.p.value + path.loss.r.value)
    return float(path.loss.value)


def test_the_same_seed_draws_the_same_condition_and_another_one_another() -> None:
    assert draw(7).scenario == draw(7).scenario
    assert draw(7).words != draw(9).words


def test_each_condition_is_followed_by_its_result(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pairs = [Pair(1, "odd", "receiving_rate", flow, 800.0, 840.0, 700.0, 820.0) for flow in twin.FLOWS]
    pairs.append(Pair(1, "odd", "rtt", "alice->bob", 80.0, 81.0, 81.0, 82.0))
    monkeypatch.setattr(twin, "_live_values", lambda *_: {"seed": 1})
    monkeypatch.setattr(twin, "_simulated_values", lambda *_: {})
    monkeypatch.setattr(twin, "outcome_of", lambda *_: Outcome(draw(1), 1, "", True, 10, tuple(pairs)))
    said: list[str] = []
    twin.outcomes([1], tmp_path / "twin.csv", tmp_path, run_missing=True, say=said.append)
    assert said == [
        "  simulated rate against live: alice->bob +5.0%, bob->alice +5.0%; "
        "2 of 3 live values in the simulated interval"
    ]


def test_the_half_of_a_condition_follows_from_its_seed() -> None:
    assert [draw(seed).half for seed in (1, 2, 99, 100)] == ["odd", "even", "odd", "even"]


def test_every_value_is_within_the_bounds_that_the_page_states(drawn: list[Scenario]) -> None:
    for scenario in drawn:
        assert scenario.duration.s == DURATION_S
    for up in uplinks(drawn):
        rates = (
            [rate for _, rate in up.capacity.steps]
            if isinstance(up.capacity, CapacitySteps)
            else [up.capacity]
        )
        assert all(150_000 <= rate.bps <= 10_000_000 for rate in rates)  # type: ignore[union-attr]
        assert 0 <= mean_loss(up) <= 0.15 + 1e-3


def test_capacities_are_log_uniform(drawn: list[Scenario]) -> None:
    """The mean logarithm of the first capacities is in the middle, within four standard errors."""
    firsts = [
        up.capacity.steps[0][1] if isinstance(up.capacity, CapacitySteps) else up.capacity
        for up in uplinks(drawn)
    ]
    logs = np.log([first.bps for first in firsts])  # type: ignore[union-attr]
    low, high = math.log(150e3), math.log(10e6)
    # In half of the conditions both uplinks are the same, so at least half of the values are independent.
    error = (high - low) / math.sqrt(12 * len(logs) / 2)
    assert abs(logs.mean() - (low + high) / 2) < 4 * error


def test_the_shares_of_lossy_paths_and_of_audio_agree_with_the_page(drawn: list[Scenario]) -> None:
    """60 % of the uplinks lose nothing, half of the conditions have audio; four standard errors."""
    lossless = np.mean([up.loss is None for up in uplinks(drawn)])
    assert abs(lossless - 0.6) < 4 * math.sqrt(0.6 * 0.4 / len(drawn))
    audio = np.mean([scenario.audio is not None for scenario in drawn])
    assert abs(audio - 0.5) < 4 * math.sqrt(0.25 / len(drawn))


def test_the_interval_of_a_further_repeat_follows_student() -> None:
    """For 1, 2, 3: mean 2, sd 1, t(2) = 4.3027, so ± 4.3027 sqrt(4/3) = 4.9683."""
    mean, low, high = expected([1.0, 2.0, 3.0])
    assert mean == 2.0
    assert low == pytest.approx(2 - 4.9683, abs=1e-3)
    assert high == pytest.approx(2 + 4.9683, abs=1e-3)
    assert expected([5.0]) == (5.0, None, None)
    assert expected([]) == (None, None, None)


def test_a_further_repeat_lies_in_the_interval_as_often_as_stated() -> None:
    """Of 2000 normal samples of ten, 95 % cover an eleventh; within four standard errors."""
    source = np.random.default_rng(1)
    samples = source.normal(size=(2000, 11))
    covered = 0
    for sample in samples:
        _, low, high = expected(list(sample[:10]))
        assert low is not None
        assert high is not None
        covered += low <= sample[10] <= high
    assert abs(covered / 2000 - 0.95) < 4 * math.sqrt(0.95 * 0.05 / 2000)


def row(seed: int, live: float, simulated: float, **others: object) -> dict[str, object]:
    """A row with the rate of one direction."""
    return {
        "seed": seed,
        "half": draw(seed).half,
        "condition": draw(seed).words,
        "tries": 1,
        "disturbed": "",
        "live_connected": True,
        "simulated_connected": 10,
        "receiving_rate alice->bob live": live,
        "receiving_rate alice->bob simulated": simulated,
        "receiving_rate alice->bob low": simulated - 10,
        "receiving_rate alice->bob high": simulated + 10,
    } | others


def outcome(seed: int, live: float, simulated: float, **others: object) -> Outcome:
    """The outcome of such a row."""
    return outcome_of(draw(seed), row(seed, live, simulated, **others))


def test_rows_survive_the_file_with_six_digits(tmp_path: Path) -> None:
    file = tmp_path / "data" / "twin.csv"
    write_rows(file, [row(1, 123.4567891, 100.0), row(3, 1.0, 2.0, disturbed="late")])
    first, second = (outcome_of(draw(int(str(one["seed"]))), one) for one in read_rows(file))
    assert first.pairs[0].live == 123.457
    assert first.live_connected
    assert second.disturbed == "late"
    assert read_rows(tmp_path / "none.csv") == []


def test_a_value_that_one_side_lacks_is_not_compared() -> None:
    assert outcome(1, nan, 100.0).pairs == ()


def test_the_figures_of_the_rate_are_the_median_error_and_the_share_within_ten_per_cent() -> None:
    found = dict(figures([outcome(1, 100, 95), outcome(3, 100, 108), outcome(5, 100, 150)]))
    assert found["mean rate, median error"] == "8.0 %"
    assert found["mean rate, within 10 %"] == "66.7 %"
    # Of the three, only seed 1 has no loss.
    assert found["mean rate without loss on the wire, median error; within 10 %"] == "5.0 %; 100.0 %"
    assert found["mean rate with loss on the wire, median error; within 10 %"] == "29.0 %; 50.0 %"


def test_a_live_value_is_covered_if_it_lies_in_the_interval() -> None:
    assert outcome(1, 100, 109).pairs[0].covered
    assert not outcome(1, 100, 111).pairs[0].covered


@pytest.mark.parametrize(
    ("live", "simulated", "alone"), [(True, 6, False), (True, 5, True), (False, 6, True), (False, 0, False)]
)
def test_a_call_connects_on_one_side_only_if_most_of_the_other_side_do_not(
    live: bool, simulated: int, alone: bool
) -> None:
    one = outcome(1, 1, 1, live_connected=live, simulated_connected=simulated)
    assert one.connects_on_one_side_only is alone


def test_heights_of_neighbouring_steps_are_not_the_same_step() -> None:
    def same(live: float, simulated: float) -> str:
        pair = Pair(1, "odd", "frame_height", "alice->bob", live, simulated, nan, nan)
        one = Outcome(draw(1), 1, "", True, 10, (pair,))
        return dict(figures([one]))["same step of resolution"]

    assert same(480, 450) == "100.0 %"
    assert same(480, 360) == "0.0 %"
    assert same(360, 320) == "100.0 %"
    assert same(360, 240) == "0.0 %"


def test_ticks_are_one_two_and_five_of_each_decade() -> None:
    assert ticks(math.log10(90), math.log10(1500))[1] == ["100", "200", "500", "1000"]


def test_the_page_names_the_worst_with_their_reasons_and_keeps_notes(tmp_path: Path) -> None:
    reasons = tmp_path / "reasons.csv"
    reasons.write_text("seed,reason\n5,the queue\n")
    page = tmp_path / "twin.md"
    outcomes = [outcome(seed, 100, 100 + seed) for seed in range(1, 13)]
    write_twin(page, outcomes, reasons)
    page.write_text(page.read_text() + "\nA note.\n")
    write_twin(page, outcomes, reasons)
    text = page.read_text()
    assert "+12%" in text
    # The simulated value is too large by its seed, and its interval is 10 below and above it.
    assert "8 of these 10 live values lie in the simulated interval." in text
    assert "| +5% | the queue |" in text
    assert "| +2% |" not in text
    assert text.endswith("A note.\n")
    for drawing in drawings(outcomes):
        assert page.with_name(f"twin-{drawing.name}.svg").is_file()


def video_report(reason: str, encode_s: float) -> dict[str, object]:
    """A report of alice on 100 encoded frames."""
    return {
        "at_ns": 10**9,
        "participant": "alice",
        "ssrc": 1,
        "kind": "video",
        "framesEncoded": 100,
        "totalEncodeTime": encode_s,
        "qualityLimitationReason": reason,
    }


def test_a_live_run_is_disturbed_by_a_late_emulator_a_slow_encoder_or_a_processor_at_its_limit(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def told(p99_ns: int, reason: str, encode_s: float) -> str:
        one = trace(outbound_rtp=[video_report(reason, encode_s)])
        late = Lateness(p50_ns=1, p99_ns=p99_ns, max_ns=p99_ns, bound_ns=5_000_000, over_bound_ratio=0.0)
        one.manifest = one.manifest.model_copy(update={"lateness": late})
        monkeypatch.setattr(Run, "traces", [one])
        return disturbance(Run.__new__(Run))

    assert told(4_000_000, "bandwidth", 0.3) == ""
    assert told(6_000_000, "none", 0.3) == "emulator 6.0 ms late (p99)"
    assert told(1, "cpu", 0.3) == "the processor limited the video of alice"
    assert told(1, "none", 100 * (SLOWEST_ENCODER_MS + 1) / 1e3) == "alice took 26 ms to encode a frame"


@pytest.mark.parametrize("place", ["data/twin.csv", "live"])
def test_two_processes_do_not_write_the_same_conditions(tmp_path: Path, place: str) -> None:
    file, folder = tmp_path / "data" / "twin.csv", tmp_path / "live"
    assert outcomes([1], file, folder, run_missing=False, say=print) == []
    with only_writer(tmp_path / place), pytest.raises(BadInput, match=f"{place}: process .* is writing here"):
        outcomes([1], file, folder, run_missing=False, say=print)


def test_the_kept_live_values_are_of_the_metrics_that_are_compared() -> None:
    data = Path(__file__).parents[2] / "docs" / "data"
    columns = pl.read_csv(data / "twin.csv", n_rows=1).columns
    live = {column.split(" ")[0] for column in columns if column.endswith(" live")}
    assert set(COMPARED) <= live
    # What they call queuing delay was never measured in these calls.
    rows = pl.read_csv(data / "then-and-now.csv", infer_schema=False)
    for names in (live, set(rows["metric"])):
        assert not {name for name in names if name.startswith(("queuing_delay", "residual_loss"))}
        assert {"delay_variation_p50", "delay_variation_p95", "unseen_loss"} <= names
