"""Calls that are bad in one known way: what is drawn, how sentences are scored, and the page of the rows."""

from __future__ import annotations

from collections import Counter
from contextlib import suppress
from math import nan
from pathlib import Path
from typing import Any

import pytest

from rtclab.backend import backend
from rtclab.backend.live import check_participant
from rtclab.errors import BackendUnavailable
from rtclab.metrics.accounts.queues import UsedPath
from rtclab.metrics.accounts.stalls import Stall
from rtclab.report.why import FlowAccount
from rtclab.scenario.path import BurstLoss, CapacitySteps, LossSteps, PathSpec
from rtclab.scenario.wifi import Fading
from rtclab_papers.campaigns import LIVE, SIM
from rtclab_papers.csv_files import read_table, write_table
from rtclab_papers.markdown import NOTES
from rtclab_papers.validate import why
from rtclab_papers.validate.bad_calls import (
    FLOW,
    HELD_OUT,
    OPEN,
    SEEDS,
    WAYS,
    BadCall,
    draw,
    live_seeds,
    seeds_of,
    way_of,
)

DOCS = Path(__file__).parents[2] / "docs"
ALL = [draw(seed) for seed in SEEDS]


def test_a_seed_always_gives_the_same_call_and_another_seed_another() -> None:
    assert draw(7) == draw(7)
    assert len({one.scenario.to_toml() for one in ALL}) == len(ALL) == 60


def test_each_half_has_every_way_three_times_and_two_held_out_calls_of_each_are_live() -> None:
    for half in (OPEN, HELD_OUT):
        assert Counter(map(way_of, seeds_of(half))) == dict.fromkeys(WAYS, 3)
    assert Counter(map(way_of, live_seeds())) == dict.fromkeys(WAYS, 2)
    assert {*live_seeds()} <= {*seeds_of(HELD_OUT)}


def steps_of(up: PathSpec) -> list[tuple[float, int]]:
    """Times in s and capacities in bit/s of a capacity with steps."""
    assert isinstance(up.capacity, CapacitySteps)
    return [(at.s, rate.bps) for at, rate in up.capacity.steps]


def is_drawn_as_stated(one: BadCall) -> bool:
    """Whether the trouble of a call is in the bounds of its way, and of no other way."""
    scenario = one.scenario
    up, own = scenario.link_of("alice").up, scenario.participants["alice"]
    limit = str(up.queue)
    match one.way:
        case "random loss":
            return 0.04 <= up.loss.value <= 0.15  # type: ignore[union-attr]
        case "bursts":
            loss = up.loss
            return isinstance(loss, BurstLoss) and 0.03 <= loss.mean.value <= 0.1 and 5 <= loss.burst <= 20
        case "short queue":
            return 700_000 <= up.capacity.bps <= 1_400_000 and limit in {f"{n} packets" for n in range(4, 8)}  # type: ignore[union-attr]
        case "long queue":
            [(_, before), (at_s, after)] = steps_of(up)
            return 8 <= at_s <= 14 and 300_000 <= after <= 700_000 and 2e6 <= before <= 4e6
        case "TCP beside":
            flow = scenario.traffic["upload-alice"]
            return 1 <= flow.flows <= 3 and 3 <= flow.start.s <= 8 and 1.5e6 <= up.capacity.bps <= 4e6  # type: ignore[union-attr]
        case "processor":
            return 2.5e6 <= own.host.encoder_capacity.pixels_per_second <= 5e6  # type: ignore[union-attr]
        case "maximum":
            return 100_000 <= scenario.video_of("alice").max_bitrate.bps <= 250_000  # type: ignore[union-attr]
        case "feedback":
            loss = scenario.link_of("bob").up.loss
            return isinstance(loss, LossSteps) and 0.9 <= loss.steps[1][1].value <= 0.98
        case "fades":
            fading = up.wifi.fading  # type: ignore[union-attr]
            return (
                isinstance(fading, Fading)
                and 2 <= fading.mean_good.s <= 5
                and 0.1 <= fading.mean_fade.s <= 0.3
            )
        case _:
            [_, (begin_s, none), (end_s, _)] = steps_of(up)
            return none == 0 and 1.4 <= end_s - begin_s <= 4.1 and 8 <= begin_s <= 25


@pytest.mark.parametrize("one", ALL, ids=lambda one: one.scenario.name)
def test_the_trouble_of_every_call_is_in_the_bounds_that_the_page_states(one: BadCall) -> None:
    assert is_drawn_as_stated(one)


@pytest.mark.parametrize("one", ALL, ids=lambda one: one.scenario.name)
def test_both_backends_know_every_field_of_a_call(one: BadCall) -> None:
    backend("sim").check(one.scenario)
    for name in one.scenario.participants:
        check_participant(one.scenario, name)
    with suppress(BackendUnavailable):
        backend("live").check(one.scenario)


HOP = {"alice.up": "the Wi-Fi hop alice.up, which fades"}


def account(limit: str, **known: Any) -> FlowAccount:
    """What is known of a flow that one limit holds all the time."""
    nothing: dict[str, Any] = {
        "losses": (),
        "lost_percent": nan,
        "stalls": (),
        "gaps": (),
        "concealed_percent": nan,
        "waits_ms": {},
        "sound_waits_ms": {},
        "bottleneck": None,
        "held_at": "",
        "lines": {},
        "active_s": 40.0,
        "forwarded": False,
        "lost_behind_percent": nan,
        "paths": {},
    }
    told = nothing | known
    seen = {"seen_losses": told["losses"], "queue": told["bottleneck"]}
    return FlowAccount(FLOW, {limit: 1.0}, "known", **told | seen)


def queue_of(waited_ms: float, beside: str = "") -> UsedPath:
    return UsedPath("alice.up", 0.9, beside, 0.7 if beside else 0.0, waited_ms, "known")


def lost(cause: str) -> list[tuple[str, str, int]]:
    return [(cause, "alice.up", 50)]


FROZEN = [Stall(0, 3 * 10**9, "outage", "alice.up")]
OF_QUEUE = [Stall(0, 3 * 10**9, "loss", "queue alice.up")]
ACCOUNTS = [
    ("random loss", account("loss", losses=lost("random"))),
    ("bursts", account("loss", losses=lost("burst"))),
    ("short queue", account("loss", losses=lost("queue"), bottleneck=queue_of(30))),
    ("short queue", account("delay", losses=lost("queue"), bottleneck=queue_of(30))),
    ("long queue", account("delay", bottleneck=queue_of(1500))),
    ("long queue", account("loss", losses=lost("queue"), bottleneck=queue_of(1500), stalls=OF_QUEUE)),
    ("long queue", account("delay", stalls=[Stall(0, 3 * 10**9, "queue")])),
    ("TCP beside", account("delay", bottleneck=queue_of(200, "upload-alice.1"))),
    ("TCP beside", account("delay", bottleneck=queue_of(1500, "upload-alice.1"))),
    (
        "TCP beside",
        account("loss", losses=lost("queue"), bottleneck=queue_of(30, "upload-alice"), stalls=OF_QUEUE),
    ),
    (
        "TCP beside",
        account(
            "loss", bottleneck=queue_of(200, "upload-alice"), stalls=[Stall(0, 3 * 10**9, "sender", "delay")]
        ),
    ),
    ("processor", account("processor")),
    ("maximum", account("maximum")),
    ("feedback", account("feedback")),
    ("fades", account("loss", losses=lost("burst"), paths=HOP)),
    ("fades", account("delay", bottleneck=queue_of(30), paths=HOP)),
    ("outage", account("maximum", stalls=FROZEN)),
    (why.NOTHING, account("window")),
    (why.NOTHING, account("delay", bottleneck=queue_of(60))),
]
"""What an account is about, and the account: each way in all the words that sentences have for it."""


@pytest.mark.parametrize(("way", "known"), ACCOUNTS)
def test_the_sentence_of_an_account_names_its_way(way: str, known: FlowAccount) -> None:
    assert why.named(known.sentences[0]) == way, known.sentences[0]


def test_every_way_has_words_that_sentences_have() -> None:
    assert {way for way, _ in ACCOUNTS} == {*WAYS, why.NOTHING}


def test_the_way_that_is_said_first_counts() -> None:
    said = "its freeze of 2.0 s came from an outage of alice.up; limited by missing feedback for 90 %"
    assert why.named(said) == "outage"
    first, _, second = said.partition("; ")
    assert why.named(f"{second}; {first}") == "feedback"


def row(seed: int, sentence: str, changes: str | None) -> tuple[Any, ...]:
    return seed, SIM, "2026-01-01", sentence, "freeze_duration", changes


def test_a_row_is_right_if_it_names_its_way_and_if_its_way_s_change_is_there(tmp_path: Path) -> None:
    loss, burst = (
        next(seed for seed in seeds_of(OPEN) if way_of(seed) == way) for way in ("random loss", "bursts")
    )
    file = tmp_path / "why-test.csv"
    rows = [
        row(loss, "limited by losses (5 %, at random on alice.up)", "control nada; no loss"),
        row(burst, "limited by losses (5 %, at random on alice.up)", None),
    ]
    write_table(file, rows, why.SCHEMA)
    found = {one["seed"]: one for one in why.read(file).to_dicts()}
    assert (found[loss]["tells"], found[loss]["helps"]) == (True, True)
    assert (found[burst]["tells"], found[burst]["helps"], found[burst]["named"]) == (
        False,
        False,
        "random loss",
    )


def test_a_call_is_explained_and_a_live_row_without_its_call_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What changes do to a call is tested with remedies; here they are given."""
    monkeypatch.setattr(why, "_first_changes", lambda call, goal: ["no loss", goal])
    seed = next(seed for seed in seeds_of(OPEN) if way_of(seed) == "random loss")
    file, said = tmp_path / "why-test.csv", list[str]()
    live = (seed, LIVE, "2026-01-01", "limited by missing feedback", "freeze_duration", None)
    write_table(file, [live], why.SCHEMA)
    for side in (SIM, LIVE):
        why.run([seed], file, tmp_path / side, side, run_missing=True, say=said.append)
    of_sim, of_live = read_table(file, why.SCHEMA).iter_rows()
    assert of_live == live
    assert of_sim[:2] == (seed, SIM)
    assert of_sim[5].startswith("no loss; ")
    assert why.named(of_sim[3]) == "random loss"
    assert len(said) == 1


def test_the_page_says_what_the_rows_give(tmp_path: Path) -> None:
    published = (DOCS / "why-test.md").read_text(encoding="utf-8")
    page = tmp_path / "why-test.md"
    page.write_text("".join(published.partition(NOTES)[1:]), encoding="utf-8")
    why.write_why_test(page, why.read(DOCS / "data" / "why-test.csv"))
    assert page.read_text(encoding="utf-8") == published
