"""Calls as environments of Gymnasium: what is seen, decided and rewarded, alone and many at once."""

from __future__ import annotations

import math
import re
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env
from gymnasium.vector import AutoresetMode
from hypothesis import given, settings
from hypothesis import strategies as st

import rtclab
from rtclab import _native
from rtclab.errors import BadInput, ScenarioError
from rtclab.experiment import Draw
from rtclab.gym import FULL, OBSERVATIONS, OUTCOME, REWARDS, CallEnv, CallVectorEnv, Episodes

NORMALISED = "ignore:.*symmetric and normalized:UserWarning"
"""What Gymnasium says about actions in bit/s."""
SHORT_CALL = {"duration": "4 s"}


def call(**changes: Any) -> rtclab.Scenario:
    """``first-call`` for 4 s with some fields changed."""
    return rtclab.Scenario.load(
        "first-call", SHORT_CALL | {key.replace("__", "."): value for key, value in changes.items()}
    )


@pytest.mark.filterwarnings(NORMALISED)
@pytest.mark.parametrize("observation", OBSERVATIONS)
@pytest.mark.parametrize("action", ["bps", "unit"])
def test_gymnasium_accepts_every_observation_with_every_action(observation: str, action: str) -> None:
    env = gymnasium.make("rtclab.gym:rtclab/Call-v0", scenario=call(), observation=observation, action=action)
    check_env(env.unwrapped)


# --- Observations ---

KINDS = ("video", "audio", "rtx", "padding", "fec")
Packet = tuple[int, int, int, str, int]
"""Sent and received in ns, size in bytes, kind, and packets lost before it."""

packets = st.lists(
    st.tuples(
        st.integers(0, 90_000_000),  # time after the arrival before, in ns
        st.integers(-50_000_000, 400_000_000),  # delay in ns
        st.integers(28, 1500),
        st.sampled_from(KINDS),
        st.sampled_from([0, 0, 0, 1, 5]),
    ),
    max_size=120,
)


def naive_features(arrived: list[Packet], now_ns: int) -> np.ndarray:
    """The 150 features as their definition says, window by window."""
    columns = []
    delays = [(received - sent) / 1e6 for sent, received, *_ in arrived]
    min_seen = min(delays, default=0.0)
    for length in (60, 600):
        for number in range(5):
            end = now_ns - number * length * 1_000_000
            begin = end - length * 1_000_000
            own = [one for one in arrived if begin < one[1] <= end]
            columns.append(naive_window(own, length, min_seen))
    return np.array(columns).T.ravel()


def naive_window(own: list[Packet], length_ms: int, min_seen: float) -> list[float]:
    delays = np.array([(received - sent) / 1e6 for sent, received, *_ in own])
    gaps = np.diff([received / 1e6 for _, received, *_ in own])
    size, lost = sum(one[2] for one in own), [one[4] for one in own if one[4]]
    if not own:
        return [0.0] * 5 + [min_seen] + [0.0] * 9
    return [
        size * 8 / (length_ms / 1000),
        len(own),
        size,
        delays.mean() - min_seen,
        delays.mean() - 200,
        min_seen,
        delays.mean() / delays.min() if delays.min() else 0,
        delays.mean() - delays.min(),
        gaps.mean() if gaps.size else 0,
        gaps.std() if gaps.size else 0,
        sum(lost) / (sum(lost) + len(own)),
        np.mean(lost) if lost else 0,
        *(
            sum(one[3] in kinds for one in own) / len(own)
            for kinds in (("video", "rtx", "fec"), ("audio",), ("padding",))
        ),
    ]


@settings(max_examples=60, deadline=None)
@given(packets, st.integers(0, 700_000_000))
def test_the_150_features_equal_a_naive_computation(drawn: list[Any], later_ns: int) -> None:
    features, arrived, at_ns = _native.ArrivalFeatures(), [], 1_000_000_000
    for gap_ns, delay_ns, size, kind, lost in drawn:
        at_ns += gap_ns
        arrived.append((at_ns - delay_ns, at_ns, size, kind, lost))
        features.push(*arrived[-1])
    now_ns = at_ns + later_ns
    np.testing.assert_allclose(
        features.bwe2024(now_ns), naive_features(arrived, now_ns), rtol=1e-5, atol=1e-3
    )


def test_the_last_estimate_is_the_action_on_the_same_logarithmic_scale() -> None:
    env = CallEnv(call(), observation="alphartc4", action="unit")
    env.reset(seed=1)
    for action in (0.0, 0.25, 0.5, 1.0):
        observation, *_, info = env.step([action])
        assert observation[3] == pytest.approx(action, abs=1e-5)
        assert info["target_bps"] == pytest.approx(10e3 * 800**action, abs=1)


def test_what_is_seen_with_full_is_what_became_known_and_lies_within_the_call() -> None:
    env = CallEnv(call(), observation="full")
    observation, info = env.reset(seed=1)
    first = dict(zip(FULL, observation, strict=True))
    assert (first["delay_ms"], first["rtt_ms"], first["since_report_ms"]) == (-1, -1, -1)
    assert (info["delay_ms"], info["loss"]) == (None, None)
    for _ in range(50):
        observation, *_, info = env.step([600e3])
    seen = dict(zip(FULL, observation, strict=True))
    for name in set(FULL) & set(OUTCOME):
        assert seen[name] == pytest.approx(info[name], rel=1e-6), name
    # 50 ms of propagation both ways; the link of 1 Mbit/s holds no 600 kbit/s back for longer than a frame.
    assert 50 <= seen["delay_min_ms"] <= seen["delay_ms"] <= seen["delay_p95_ms"] < 150
    assert 100 <= seen["rtt_ms"] < 250
    assert seen["elapsed_s"] == pytest.approx(50 * 0.06, abs=1e-3)
    assert seen["media_max_bps"] == 1_700_000
    assert 0 <= seen["since_report_ms"] <= 250


# --- Physics ---


@settings(max_examples=12, deadline=None)
@given(
    st.lists(st.tuples(st.floats(0, 1, width=32), st.integers(1, 20)), min_size=1, max_size=8),
    st.sampled_from([200, 600, 1500]),
)
def test_no_more_arrives_than_the_link_carries_whatever_is_decided(steps: list[Any], kbps: int) -> None:
    """At most one packet more, and what passes in a step of the reported times, of 1 ms."""
    env = CallEnv(call(link__up__capacity=f"{kbps} kbit/s", link__down__capacity="50 Mbit/s"), action="unit")
    env.reset(seed=1)
    for action, count in steps:
        for _ in range(count):
            observation, _, _, over, _ = env.step([action])
            sizes = observation[20:30]
            assert (sizes[:5] <= kbps / 8 * (60 + 1) + 1500).all()
            assert (sizes[5:] <= kbps / 8 * (600 + 1) + 1500).all()
            if over:
                return


def test_sending_more_over_a_drop_tail_queue_lowers_neither_delay_nor_loss() -> None:
    delays, losses = [], []
    for rate in (200e3, 400e3, 800e3, 1600e3):
        env = CallEnv(call(duration="8 s", link__up__capacity="600 kbit/s"), observation="full")
        env.reset(seed=1)
        seen = np.array([env.step([rate])[0] for _ in range(110)])[50:]
        delays.append(seen[:, FULL.index("delay_ms")].mean())
        losses.append(seen[:, FULL.index("loss")].mean())
    assert delays == sorted(delays)
    assert losses == sorted(losses)
    assert (
        50 < delays[0] < 50 + 30
    )  # a frame at 200 kbit/s takes 11 ms on the first link and 7 ms on the next
    # The propagation delay and a full queue of 300 ms, less or more a packet of 16 ms on each link.
    assert 350 - 32 < delays[-1] < 350 + 32
    assert losses[0] == 0
    # What does not fit is lost, of 1600 kbit/s and the retransmissions on top.
    assert 1 - 600 / 1600 <= losses[-1] < 1 - 600 / 2400


def test_a_download_beside_the_call_is_there() -> None:
    def mean_delay(scenario: rtclab.Scenario) -> float:
        env = CallEnv(scenario, observation="full")
        env.reset(seed=1)
        seen = np.array([env.step([500e3])[0] for _ in range(110)])
        return float(seen[40:, FULL.index("queuing_delay_ms")].mean())

    download = {"download": {"sender": "alice", "receiver": "bob"}}
    alone, beside = mean_delay(call(duration="8 s")), mean_delay(call(duration="8 s", traffic=download))
    assert alone < 20  # two packets of 10 ms
    assert 40 < beside < 330  # CUBIC, as it begins, fills a part of the queue of 300 ms again and again


# --- Rewards ---


def lost_with(info: dict[str, Any]) -> dict[str, float]:
    """Each reward from what is in ``info``, as its source has it."""
    rate, delay_s, loss = info["receiving_rate_bps"] / 1e6, info["delay_ms"] / 1e3, info["loss"]
    p95, least = min(info["delay_p95_ms"], 400), min(info["delay_min_ms"], 400)
    scaled = math.log(min(max(rate, 0.01), 8) / 0.01) / math.log(800)
    return {
        "gym": scaled - min(delay_s, 1) - loss,
        "challenge21": 20 * (400 - p95) / (400 - least) + 20 * min(rate / 0.5, 1) + 30 * (1 - loss),
        "r3net": 0.6 * math.log(4 * rate + 1) - delay_s - 10 * loss,
        "onrl": 50 * rate - 50 * loss - 10 * delay_s - 20 * abs(info["rate_change_bps"]) / 1e6,
        "aurora": 0.001 * (10 * info["received_packets_per_s"] - 1000 * delay_s - 2000 * loss),
    }


@pytest.mark.parametrize("reward", REWARDS)
def test_a_reward_is_the_published_formula_of_what_is_in_info(reward: str) -> None:
    env = CallEnv(call(link__up__capacity="400 kbit/s", link__up__queue="60 ms"), reward=reward)
    env.reset(seed=1)
    lost = 0
    for step in range(50):
        _, got, _, _, info = env.step([900e3 if step > 15 else 200e3])
        if info["delay_ms"] is None:
            assert got == 0
        else:
            assert got == pytest.approx(lost_with(info)[reward], rel=1e-5, abs=1e-6)
            lost += info["loss"] > 0
    assert lost > 5


def test_a_reward_of_ones_own_gets_and_returns_a_value_for_each_call() -> None:
    def reward(outcome: Any) -> Any:
        return outcome["receiving_rate_bps"] / 1e6

    calls = CallVectorEnv(3, call(), reward=reward)
    calls.reset(seed=1)
    for _ in range(30):
        _, rewards, _, _, info = calls.step(np.full((3, 1), 300e3))
    np.testing.assert_array_equal(rewards, info["receiving_rate_bps"] / 1e6)
    unknown = CallVectorEnv(3, call(), reward=lambda outcome: outcome["delay_ms"])
    unknown.reset(seed=1)
    with pytest.raises(BadInput, match="returned nan for call 0; expected a finite number"):
        unknown.step(np.full((3, 1), 300e3))
    bad = CallVectorEnv(3, call(), reward=lambda outcome: 1.0)
    bad.reset(seed=1)
    with pytest.raises(BadInput, match=r"returned shape \(\); expected \(3,\)"):
        bad.step(np.full((3, 1), 300e3))


# --- Many calls ---

VARY = {"link.up.capacity": "0.3..2 Mbit/s", "link.up.delay": "5..80 ms"}


def actions(count: int) -> Iterator[np.ndarray]:
    source = np.random.default_rng(5)
    while True:
        yield source.uniform(0, 1, (count, 1)).astype(np.float32)


def played(calls: CallVectorEnv, steps: int) -> list[bytes]:
    """Everything that calls return in some steps."""
    seen, _ = calls.reset(seed=7)
    out = [seen.tobytes()]
    for action, _ in zip(actions(calls.num_envs), range(steps), strict=False):
        seen, rewards, _, over, info = calls.step(action)
        out += [
            seen.tobytes(),
            rewards.tobytes(),
            over.tobytes(),
            *(info[name].tobytes() for name in OUTCOME),
        ]
    return out


@pytest.mark.parametrize("mode", [AutoresetMode.SAME_STEP, AutoresetMode.NEXT_STEP])
def test_the_same_seeds_give_the_same_bytes_on_one_thread_and_on_two(mode: AutoresetMode) -> None:
    made = [
        CallVectorEnv(
            5, call(), vary=VARY, observation="bwe2024", action="unit", autoreset_mode=mode, threads=threads
        )
        for threads in (1, 2)
    ]
    first, second = (played(calls, 90) for calls in made)
    assert first == second
    assert first != played(
        CallVectorEnv(5, call(), vary=VARY | {"link.up.delay": "6..80 ms"}, action="unit"), 90
    )


@pytest.mark.parametrize("mode", [AutoresetMode.SAME_STEP, AutoresetMode.NEXT_STEP])
def test_many_calls_are_as_many_environments_of_one_call(mode: AutoresetMode) -> None:
    options: dict[str, Any] = {"vary": VARY, "action": "unit", "observation": "full", "reward": "r3net"}
    calls = CallVectorEnv(3, call(), autoreset_mode=mode, **options)
    alone = gymnasium.vector.SyncVectorEnv([lambda: CallEnv(call(), **options)] * 3, autoreset_mode=mode)
    for got, expected in zip(calls.reset(seed=3), alone.reset(seed=3), strict=True):
        same(got, expected)
    ended = 0
    for action, _ in zip(actions(3), range(140), strict=False):
        got, expected = calls.step(action), alone.step(action)
        for one, other in zip(got, expected, strict=True):
            same(one, other)
        ended += got[3].sum()
    assert ended >= 6


def same(got: Any, expected: Any) -> None:
    """Compares what environments return. Where one call alone has None, many have NaN."""
    if isinstance(expected, dict):
        assert {key for key in got if key[0] != "_"} == {key for key in expected if key[0] != "_"}
        for key in expected:
            if key == "final_obs":
                for one, other in zip(got[key], expected[key], strict=True):
                    assert (one is None) == (other is None)
                    assert one is None or one.tobytes() == other.tobytes()
            elif key[0] != "_" and f"_{key}" in expected and isinstance(expected[key], np.ndarray):
                known = expected[f"_{key}"]
                one, other = got[key][known], expected[key][known]
                if other.dtype == object and key != "scenario":
                    other = np.array([np.nan if value is None else value for value in other], dtype=float)
                np.testing.assert_array_equal(one, other)
            elif key[0] != "_":
                same(got[key], expected[key])
    else:
        np.testing.assert_array_equal(got, expected)


def test_without_autoreset_the_calls_of_the_mask_begin_anew() -> None:
    calls = CallVectorEnv(3, call(), autoreset_mode="Disabled")
    calls.reset(seed=1)
    action = np.full((3, 1), 300e3)
    over = np.zeros(3, dtype=bool)
    while not over.any():
        _, _, _, over, _ = calls.step(action)
    with pytest.raises(BadInput, match=rf"call {np.argmax(over)} is over; expected a reset"):
        calls.step(action)
    before = calls.episodes
    _, info = calls.reset(options={"reset_mask": over})
    assert [one is not other for one, other in zip(before, calls.episodes, strict=True)] == over.tolist()
    assert info["_repeat"].tolist() == over.tolist()
    *_, again, _ = calls.step(action)
    assert not (again & over).any()


def test_calls_outside_of_the_first_mask_begin_with_the_first_step() -> None:
    calls = CallVectorEnv(2, call())
    seen, info = calls.reset(seed=1, options={"reset_mask": np.array([True, False])})
    assert info["repeat"].tolist()[1] == -1
    assert not seen[1].any()
    _, _, _, truncated, info = calls.step(np.full((2, 1), 300e3))
    assert info["repeat"].min() >= 0
    assert not truncated.any()


# --- Which call ---


def test_what_is_drawn_lies_in_its_range_and_depends_on_the_repeat_alone() -> None:
    vary = VARY | {"link.up.loss": ["0 %", "2 %"], "traffic.download.flows": "1..3"}
    world = call(traffic={"download": {"sender": "alice", "receiver": "bob"}})
    episodes = Episodes(world, vary)
    drawn = [episodes.episode(repeat) for repeat in range(40)]
    rates = [one.scenario.link_of("alice").up.capacity.bps for one in drawn]
    assert 300e3 <= min(rates) < 600e3
    assert 1e6 < max(rates) <= 2e6
    # Log-uniform: half of the values lie below the geometric mean; 40 values leave 11 to 29 with 99.7 %.
    assert 11 <= sum(rate < math.sqrt(300e3 * 2e6) for rate in rates) <= 29
    assert {one.scenario.traffic["download"].flows for one in drawn} == {1, 2, 3}
    assert {str(one.scenario.link_of("alice").up.loss) for one in drawn} == {"0 %", "2 %"}
    assert [episodes.episode(repeat) for repeat in range(40)] == drawn
    own = Episodes(
        world, {"link.up.capacity": Draw(field="link.up.capacity", words="", one_of=("1 Mbit/s",))}
    )
    assert own.episode(3).scenario.link_of("alice").up.capacity.bps == 1e6


def test_a_call_can_be_chosen_by_its_repeat_and_is_the_call_of_a_run() -> None:
    """The other participant, whom nobody decides for, joins and connects as in a run of the same repeat."""
    env = CallEnv([call(), call(name="other")])
    _, info = env.reset(options={"repeat": 4, "scenario": 1})
    assert (info["scenario"], info["repeat"]) == ("other", 4)
    over = False
    while not over:
        *_, over, _ = env.step([300e3])
    trace, run = env.trace(), rtclab.simulate(call(name="other"), 4)
    for name in ("setup_ice", "setup_dtls"):
        own, other = (value_of(one, name) for one in (trace, run))
        assert own == other


def value_of(trace: Any, metric: str, flow: str = "alice->bob") -> float:
    rows = rtclab.Trace.metrics(trace).filter(metric=metric, flow=flow)
    return float(rows["value"].item())


def test_the_trace_has_the_rate_and_delay_that_were_seen() -> None:
    env = CallEnv(call(duration="10 s"))
    env.reset(seed=2)
    with pytest.raises(BadInput, match="the call is not over"):
        env.trace()
    over, infos = False, []
    while not over:
        *_, over, info = env.step([500e3])
        infos.append(info)
    known = [info for info in infos if info["delay_ms"] is not None]
    rate = np.mean([info["receiving_rate_bps"] for info in known]) / 1e3
    delay = np.mean([info["delay_ms"] for info in known])
    # The trace counts the first half of a second, without media, too.
    assert value_of(env.trace(), "receiving_rate") == pytest.approx(rate, rel=0.1)
    assert value_of(env.trace(), "one_way_delay") == pytest.approx(delay, rel=0.1)


def test_a_function_can_make_the_scenarios() -> None:
    env = CallEnv(lambda number: call(link__up__capacity=f"{300 + number % 2} kbit/s"))
    env.reset(options={"repeat": 5})
    assert env.episode.scenario.link_of("alice").up.capacity.bps == 301e3


def test_the_first_that_sends_is_decided_unless_another_is_named() -> None:
    assert Episodes("first-call").episode(0).flow == "alice->bob"
    assert Episodes("first-call", participant="bob").episode(0).flow == "bob->alice"
    # Over a server, the sender's connection and those over which it only receives are apart.
    env = CallEnv("examples/sfu", observation="full")
    assert env.reset(seed=1)[1]["target_bps"] > 0
    rates = [env.step([400e3])[4]["receiving_rate_bps"] for _ in range(60)]
    assert env.episode.flow == "alice->" + next(iter(env.episode.scenario.servers))
    assert 200e3 < np.mean(rates[30:]) < 500e3


# --- Bad input ---


@pytest.mark.parametrize(
    ("action", "said"),
    [
        (np.array([np.nan]), "action nan; expected a rate of 0 to 1e\\+12 bit/s"),
        (np.array([np.inf]), "action inf; expected a rate"),
        (np.array([-1.0]), "action -1; expected a rate"),
        (np.array([1.0, 2.0]), r"action of shape \(2,\); expected \(1,\)"),
        (3e5, r"action of shape \(\); expected \(1,\)"),
        ("fast", "action 'fast'; expected numbers"),
    ],
)
def test_an_action_that_is_no_rate_is_named(action: Any, said: str) -> None:
    env = CallEnv(call())
    env.reset(seed=1)
    with pytest.raises(BadInput, match=said):
        env.step(action)
    env.step([3e5])  # the call goes on


def test_an_action_of_many_that_is_no_rate_is_named() -> None:
    calls = CallVectorEnv(2, call(), action="unit")
    calls.reset(seed=1)
    with pytest.raises(BadInput, match=r"action 1\.5 of call 1; expected 0 to 1"):
        calls.step([[0.5], [1.5]])
    with pytest.raises(BadInput, match=r"action of shape \(2,\); expected \(2, 1\)"):
        calls.step([0.5, 0.5])


MESH = "examples/nat-mesh"

UNKNOWN: list[tuple[dict[str, Any], str]] = [
    ({"observation": "all"}, "observation `all`; expected `bwe2024`, `alphartc4`, `full`"),
    ({"action": "kbps"}, "action `kbps`; expected `bps`, `unit`"),
    ({"reward": "mos"}, "reward `mos`; expected `gym`"),
    ({"render_mode": "human"}, "render_mode 'human'; expected None"),
    ({"scenario": "frist-call"}, "frist-call"),
    ({"scenario": []}, "scenario: an empty list"),
    ({"scenario": lambda number: MESH}, f"returned '{MESH}' for 0; expected a Scenario"),
    ({"scenario": MESH}, "nobody sends media over exactly one connection"),
    ({"scenario": MESH, "participant": "alice"}, "participant `alice` sends alice->bob, "),
    ({"participant": "carol"}, "participant `carol` is not in scenario first-call; expected `alice`, `bob`"),
    ({"vary": {"link.up.capacity": "0..2 Mbit/s"}}, "`0..2 Mbit/s`; expected a positive number"),
    ({"vary": {"link.up.capacity": "0.5..2"}}, "`0.5..2` has no unit"),
    ({"vary": {"link.up.capacity": "1..2.3.4 Mbit/s"}}, "cannot read `1..2.3.4 Mbit/s`"),
    ({"vary": {"link.up.capacity": "1..2 Mbps"}}, "Mbps"),
    ({"vary": {"link.up.speed": "1..2 Mbit/s"}}, "speed"),
]


@pytest.mark.parametrize("kind", [CallEnv, CallVectorEnv])
@pytest.mark.parametrize(
    ("options", "said"), UNKNOWN, ids=lambda value: value if isinstance(value, str) else ""
)
def test_an_environment_that_cannot_be_made_says_why(kind: type, options: dict[str, Any], said: str) -> None:
    with pytest.raises((BadInput, ScenarioError), match=re.escape(said)):
        kind(**({"scenario": call()} | options))


MANY: list[tuple[dict[str, Any], str]] = [
    ({"num_envs": 0}, "num_envs is 0; expected a whole number from 1 on"),
    ({"threads": 0}, "threads is 0; expected a whole number from 1 on"),
    ({"autoreset_mode": "never"}, "autoreset_mode `never`; expected `NextStep`"),
]


@pytest.mark.parametrize(("options", "said"), MANY)
def test_many_calls_that_cannot_be_made_say_why(options: dict[str, Any], said: str) -> None:
    with pytest.raises(BadInput, match=re.escape(said)):
        CallVectorEnv(**({"num_envs": 2, "scenario": call()} | options))


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"seed": 3}, "option `seed`; expected `repeat` or `scenario`"),
        ({"repeat": -1}, "repeat -1; expected a whole number from 0 to 2147483647"),
        ({"repeat": 0.5}, "repeat 0.5; expected a whole number"),
        ({"scenario": 1}, "scenario 1; expected a whole number from 0 to 0"),
    ],
)
def test_a_reset_to_a_call_that_does_not_exist_says_why(options: dict[str, Any], said: str) -> None:
    for env in (CallEnv(call()), CallVectorEnv(2, call())):
        with pytest.raises(BadInput, match=re.escape(said)):
            env.reset(options=options)


def test_a_reset_of_many_calls_has_a_value_for_each() -> None:
    calls = CallVectorEnv(2, call())
    with pytest.raises(BadInput, match="seed: 1 values; expected 2"):
        calls.reset(seed=[1])
    with pytest.raises(
        BadInput, match=r"reset_mask of shape \(2,\) and type int64; expected \(2,\) and bool"
    ):
        calls.reset(options={"reset_mask": [1, 0]})
    with pytest.raises(BadInput, match=r"option `repeat`: \[1, 2, 3\]; expected one number or 2"):
        calls.reset(options={"repeat": [1, 2, 3]})


def test_nothing_is_decided_before_the_first_reset() -> None:
    with pytest.raises(BadInput, match="the call is over; expected a reset"):
        CallEnv(call()).step([1e5])
    with pytest.raises(BadInput, match="call 0 is over; expected a reset"):
        CallVectorEnv(2, call()).step([[1e5], [1e5]])
    with pytest.raises(BadInput, match="no call has begun; expected a reset"):
        CallEnv(call()).trace()


def test_a_call_in_which_nobody_connects_is_named() -> None:
    said = "scenario first-call, repeat 3, call 0: flow `alice->bob` has sent no media until the end at 0.1"
    with pytest.raises(BadInput, match=re.escape(said)):
        CallEnv(call(duration="100 ms")).reset(options={"repeat": 3})


def test_a_sender_to_whom_no_packets_are_reported_is_named() -> None:
    old = {"participants.alice.congestion_control": {"name": "rrtcc-2013", "stack": "chrome-27"}}
    said = (
        "the stack `chrome-27` of `alice` has no packets reported; expected one with transport-wide feedback"
    )
    with pytest.raises(BadInput, match=said):
        CallEnv(rtclab.Scenario.load("first-call", SHORT_CALL | old)).reset()
    # What the other one has does not matter.
    CallEnv(rtclab.Scenario.load("first-call", SHORT_CALL | old), participant="bob").reset()


def test_without_gymnasium_the_extra_is_named() -> None:
    code = "import sys; sys.modules['gymnasium'] = None; import rtclab.gym"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert "rtclab.gym needs the Python module `gymnasium`" in done.stderr
    assert "pip install gymnasium" in done.stderr
